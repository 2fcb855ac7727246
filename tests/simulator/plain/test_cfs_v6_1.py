"""CFS of v6.1 on one CPU: where it differs from v4.1's, where it is equal, and load tracking that differs from v6.12's.

The numbers are computed by hand from kernel/sched/fair.c, v6.1.192.
"""

from __future__ import annotations

import contextlib
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.balancing_runs import balancing_cases
from support.one_cpu import MS, OneCpu
from support.still_v6_12 import Still, groups, machine, tasks_of, tree
from support.watched import watched

from wastedcores.errors import WorkloadError
from wastedcores.kernels import KernelModel
from wastedcores.simulator.engine.balance import find_src_group_v6_12_jit as find_src_group
from wastedcores.simulator.engine.balance import find_src_group_v6_12_jit as sd_stats
from wastedcores.simulator.engine.balance import load_balance_v6_12_jit, placement_v6_12_jit
from wastedcores.simulator.engine.balance.load_balance_v6_12_jit import should_we_balance
from wastedcores.simulator.engine.codes import arrival, balanced, idle_type, stats_row, task_state
from wastedcores.simulator.engine.codes.group_type import FULLY_BUSY, HAS_SPARE
from wastedcores.simulator.engine.core.schedule_jit import schedule
from wastedcores.simulator.engine.fair import cfs_v6_1_class_jit, entity_jit, vruntime_jit
from wastedcores.simulator.engine.fair.weights import WEIGHTS
from wastedcores.simulator.engine.world.structs import CfsRq, SdLbStats, TaskStruct

V6_1 = KernelModel.named("v6.1.192")
V6_12 = KernelModel.named("v6.12.107")
#: latency, minimum and wakeup granularity on 8 CPUs
LATENCY, MIN_GRAN, WAKEUP_GRAN = 24 * MS, 3 * MS, 4 * MS


def slices(cpu: OneCpu, *names: str) -> list[int]:
    entities = [cpu.named[name].se for name in names]
    return [cpu.call(vruntime_jit.sched_slice, se.cfs_rq, se) for se in entities]


# --- slices -----------------------------------------------------------------------------------------------------------


def test_the_period_counts_the_tasks_of_the_whole_cpu():
    """ALT_PERIOD: ten tasks are more than 8, so the period is 10 x 3 ms; the two tasks of the group alone would have 24 ms."""
    cpu = OneCpu(kernel=V6_1, groups=1)
    se = cpu.cfs(0, 1).entity
    for name in "ab":
        cpu.add(name, group=1)
    for name in "cdefghij":
        cpu.add(name, 19)
    cpu.settle()
    own = 30 * MS * se.weight / se.cfs_rq.load_weight / 2
    assert own > MIN_GRAN
    assert slices(cpu, "a") == [pytest.approx(own, rel=1e-4)]


def test_no_slice_is_shorter_than_the_minimum_granularity():
    """BASE_SLICE: nice 19 beside nice -20 would have 24 ms x 15 / 88776 = 4 us, and has 3 ms."""
    cpu = OneCpu(kernel=V6_1)
    cpu.add("low", 19)
    cpu.add("high", -20)
    low, high = slices(cpu, "low", "high")
    assert low == MIN_GRAN
    # the inverse of the weight has five digits
    assert high == pytest.approx(LATENCY * 88761 / 88776, rel=1e-4)


def test_equal_tasks_run_in_turn_for_their_slices():
    """Three tasks have 24 / 3 = 8 ms each, which are two ticks (the inverse of the weight rounds down).

    The first round is longer for the task that was the last to be placed behind the others.
    """
    cpu = OneCpu(kernel=V6_1)
    for name in "abc":
        cpu.add(name)
    cpu.settle()
    for _ in range(36):
        cpu.tick()
    rounds = [cpu.order[i : i + 6] for i in range(6, 36, 6)]
    assert len(set(rounds)) == 1
    assert sorted(rounds[0][::2]) == ["a", "b", "c"]
    assert rounds[0][::2] == rounds[0][1::2]


@cache
def booted() -> OneCpu:
    return OneCpu(kernel=V6_1)


@given(st.lists(st.integers(-20, 19), min_size=2, max_size=6), st.integers(30, 120))
def test_sums_of_a_queue_and_its_min_vruntime(nices, ticks):
    cpu = booted().again()
    for i, nice in enumerate(nices):
        cpu.add(str(i), nice)
    cpu.settle()
    q, last = cpu.cfs(), -(1 << 60)
    for _ in range(ticks):
        cpu.tick()
        there = [p.se.vruntime for p in cpu.named.values()]
        assert last <= q.min_vruntime
        assert q.min_vruntime >= min(there)
        last = q.min_vruntime
        assert q.load_weight == sum(WEIGHTS[n + 20] << 10 for n in nices)
        assert q.nr_running == q.h_nr_running == cpu.rq.nr_running == len(nices)
        assert [se.vruntime for se in tree(q)] == sorted(se.vruntime for se in tree(q))
        assert cpu.rq.curr.se not in tree(q)


# --- placing and waking -----------------------------------------------------------------------------------------------


def running_and_asleep(cpu: OneCpu, run_ms: int):
    """Let one task sleep while another one runs for ``run_ms``; return both."""
    sleeper = cpu.add("s")
    cpu.settle()
    cpu.block()
    runner = cpu.add("r")
    cpu.settle()
    for _ in range(run_ms // 4):
        cpu.tick()
    return runner, sleeper


def test_a_sleeper_is_placed_half_a_latency_behind_and_preempts():
    cpu = OneCpu(kernel=V6_1)
    runner, sleeper = running_and_asleep(cpu, 100)
    cpu.wake(sleeper)
    assert cpu.rq.curr == sleeper
    assert sleeper.se.vruntime == runner.se.vruntime - LATENCY // 2


def test_a_sleeper_that_is_hardly_behind_does_not_preempt():
    cpu = OneCpu(kernel=V6_1)
    runner, sleeper = running_and_asleep(cpu, 40)
    sleeper.se.vruntime = runner.se.vruntime - WAKEUP_GRAN
    cpu.wake(sleeper)
    assert cpu.rq.curr == runner
    assert not cpu.cfs().next


def test_a_sleeper_that_is_ahead_keeps_its_virtual_time():
    """It may not gain by sleeping. No replay has a sleep of 104 days, after which its virtual time would not count."""
    cpu = OneCpu(kernel=V6_1)
    runner, sleeper = running_and_asleep(cpu, 40)
    sleeper.se.vruntime = ahead = runner.se.vruntime + (1 << 60)
    cpu.wake(sleeper)
    assert sleeper.se.vruntime == ahead


def test_a_virtual_time_becomes_relative_only_when_a_sleeper_changes_its_cpu():
    """v4.1 makes it relative at every wakeup."""
    s = Still(machine(1, 4), kernel=V6_1)
    s.run(0, 1)
    p = s.task(0)
    s.cfs(0).min_vruntime, s.cfs(1).min_vruntime = 7_000, 900_000_000
    p.se.vruntime, p.state = 9_000, task_state.WAKING
    s.fair.migrate_task_rq(s.k, p)
    s.call(entity_jit.set_task_rq, p, 1)
    assert p.se.vruntime == 2_000
    s.fair.enqueue_task(s.k, p, arrival.WOKEN)
    assert p.se.vruntime == 900_002_000


def test_no_dequeue_is_delayed():
    cpu = OneCpu(kernel=V6_1)
    cpu.add("a")
    cpu.add("b")
    cpu.settle()
    cpu.tick()
    slept = cpu.rq.curr
    cpu.block()
    assert not slept.se.on_rq
    assert cpu.rq.nr_running == 1


def test_a_task_that_is_chosen_again_keeps_its_buddy_mark():
    """v4.1 clears the mark of whatever it chooses (pick_next_entity()); since v5.14 set_next_entity() does."""
    cpu = OneCpu(kernel=V6_1)
    a = cpu.add("a")
    cpu.settle()
    a.se.cfs_rq.next = a.se
    assert cpu.fair.pick_task(cpu.k, 0) == a
    assert a.se.cfs_rq.next == a.se
    cpu.fair.set_next_entity(cpu.k, a.se, 1)
    assert not a.se.cfs_rq.next


def test_the_chosen_task_is_the_newest_of_its_cpu():
    cpu = OneCpu(kernel=V6_1)
    for name in "abc":
        cpu.add(name)
    cpu.settle()
    for _ in range(6):
        cpu.tick()
        assert tasks_of(cpu.rq)[0] == cpu.rq.curr
    new, running = cpu.add("d"), cpu.rq.curr
    assert tasks_of(cpu.rq)[:2] == [new, running]
    cpu.rq.need_resched = 1
    cpu.settle()
    assert cpu.rq.curr == running
    assert tasks_of(cpu.rq)[:2] == [running, new]


def test_a_chosen_task_uses_its_buddy_mark_up():
    cpu = OneCpu(kernel=V6_1)
    runner, sleeper = running_and_asleep(cpu, 100)
    cpu.go(cpu.now + 2 * MS)
    cpu.wake(sleeper)  # it preempts as the next buddy
    assert cpu.rq.curr == sleeper
    assert not cpu.cfs().next
    # the one that was preempted is charged to its averages at once
    assert cpu.k.now_ns - runner.se.avg.last_update < 1024


def test_a_task_that_left_does_not_hold_min_vruntime_back():
    """v4.1 still counts it until the next one is charged."""
    cpu = OneCpu(kernel=V6_1)
    cpu.add("a")
    cpu.add("b")
    cpu.settle()
    cpu.tick()
    waits = cpu.cfs().leftmost
    assert cpu.rq.curr.se.vruntime < waits.vruntime
    cpu.block()
    assert cpu.cfs().min_vruntime == waits.vruntime


def test_the_group_of_a_sleeper_is_the_next_buddy():
    cpu = OneCpu(kernel=V6_1, groups=1)
    se = cpu.cfs(0, 1).entity
    for name in "ab":
        cpu.add(name, group=1)
    cpu.add("c")
    cpu.settle()
    while cpu.rq.curr.group != 1:
        cpu.tick()
    cpu.block()
    assert cpu.rq.curr.group == 1
    assert cpu.cfs().next == se


def test_a_tick_gives_a_group_its_present_weight():
    cpu = OneCpu(kernel=V6_1, groups=1)
    se = cpu.cfs(0, 1).entity
    cpu.add("a", group=1)
    cpu.settle()
    before = se.weight
    cpu.cfs(0, 1).task_group.load_avg *= 4  # of the group's load on other CPUs
    cpu.tick()
    assert se.weight < before / 2


def test_a_new_nice_value_keeps_the_virtual_time():
    cpu = OneCpu(kernel=V6_1)
    cpu.add("a")
    cpu.add("b")
    cpu.settle()
    for _ in range(6):
        cpu.tick()
    p, q = cpu.rq.curr, cpu.cfs()
    assert p.se.vruntime < q.leftmost.vruntime
    before = p.se.vruntime, q.min_vruntime
    cpu.fair.set_user_nice(cpu.k, p, 5)
    assert (
        p.se.vruntime,
        q.min_vruntime,
    ) == before  # DEQUEUE_SAVE leaves min_vruntime as it is, too
    assert p.se.weight == 335 << 10
    assert cpu.rq.need_resched


def test_yield_lets_the_next_one_run():
    cpu = OneCpu(kernel=V6_1)
    cpu.add("a")
    cpu.add("b")
    cpu.settle()
    for _ in range(2):
        cpu.tick()
    first = cpu.rq.curr
    cpu.rq.need_resched = 1
    cpu.settle()
    assert cpu.rq.curr == first
    cpu.fair.yield_task(cpu.k, first)
    cpu.rq.need_resched = 1
    cpu.settle()
    assert cpu.rq.curr != first


# --- load tracking ----------------------------------------------------------------------------------------------------


def test_a_new_task_is_expected_to_use_half_of_what_is_left():
    """The weight of post_init_entity_util_avg() is not shifted down, so the limit always decides."""
    expected = {}
    for kernel in (V6_1, V6_12):
        cpu = OneCpu(kernel=kernel)
        q = cpu.cfs().avg
        q.util_avg, q.load_avg = 100, 1024
        p = cpu.add("a")
        expected[kernel] = p.se.avg.util_avg
    assert expected == {V6_1: (1024 - 100) // 2, V6_12: 100 * 1024 // 1025}


@pytest.mark.parametrize(
    ("ewma", "enqueued", "util", "want"),
    [
        (300, 300, 400, (400, 400, True)),  # a rise counts at once (UTIL_EST_FASTUP)
        (400, 400, 300, (375, 300, True)),  # a fall by a quarter
        (400, 300, 395, (400, 395, True)),  # near the average: only the last value is kept
        (400, 399, 395, (400, 399, False)),  # near both: nothing
        (1100, 1100, 1030, (1100, 1100, False)),  # more than the CPU has
    ],
)
def test_the_estimate_of_use_is_an_average_and_the_last_value(ewma, enqueued, util, want):
    cpu = OneCpu(kernel=V6_1)
    p = cpu.add("a")
    avg = p.se.avg
    p.util_ewma, p.util_enqueued, avg.util_avg = ewma, enqueued, util
    avg.util_est, avg.unchanged = max(ewma, enqueued), 0
    cpu.call(cfs_v6_1_class_jit.util_est_update, p)
    assert (p.util_ewma, p.util_enqueued, avg.unchanged) == want
    assert avg.util_est == max(want[:2])


def test_a_sleeper_leaves_an_estimate_of_its_use():
    cpu = OneCpu(kernel=V6_1)
    p = cpu.add("a")
    cpu.settle()
    for _ in range(5):
        cpu.tick()
    cpu.block()
    assert p.se.avg.util_est == p.se.avg.util_avg > 0
    assert cpu.cfs().avg.util_est == 0


def test_groups_report_their_load_without_a_limit():
    """v6.12 reports at most once per ms; so, within a ms, only v6.1 knows of the second task."""
    known = {}
    for kernel in (V6_1, V6_12):
        cpu = OneCpu(kernel=kernel, groups=1)
        cpu.later(10 * MS)
        cpu.add("a", group=1)
        cpu.later(MS // 10)
        cpu.add("b", group=1)
        known[kernel] = cpu.cfs(0, 1).task_group.load_avg
    assert known == {V6_1: 2048, V6_12: 1024}


# --- placement and balancing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "designated"), [(V6_1, 1), (V6_12, 2)])
def test_the_first_idle_cpu_balances_whatever_its_core_does(kernel, designated):
    """Cores are CPUs 0, 1 and 2, 3; CPU 0 is busy."""
    s = Still(machine(2, 4, threads=2), kernel=kernel)
    s.run(0)
    answers = [s.call(should_we_balance, s.env(cpu=c)) for c in range(4)]
    assert answers == [c == designated for c in range(4)]


@pytest.mark.parametrize(("kernel", "want"), [(V6_1, False), (V6_12, True)])
def test_the_first_of_equal_fully_busy_groups_is_the_busiest(kernel, want):
    s = Still(machine(3, 4), kernel=kernel)
    ring = groups(s.sd())
    a, b = (s.stats(row, ring[1 + row], sum_h_nr=4, type=FULLY_BUSY) for row in range(2))
    assert s.call(sd_stats.pick_busiest, b, a) == want


@pytest.mark.parametrize(
    ("kernel", "reason"), [(V6_1, balanced.NOT_BALANCED), (V6_12, balanced.BUSY)]
)
def test_a_busy_cpu_pulls_from_a_sibling_with_two_tasks_more(kernel, reason):
    s = Still(machine(2, 4), kernel=kernel)
    env = s.env(idle=idle_type.NOT_IDLE)
    here, there = groups(env.sd)
    both = {"capacity": 4096, "weight": 4}
    s.stats(stats_row.LOCAL, here, sum_nr=2, sum_h_nr=2, idle_cpus=2, type=HAS_SPARE, **both)
    s.stats(stats_row.BUSIEST, there, sum_nr=4, sum_h_nr=4, type=FULLY_BUSY, **both)
    out = SdLbStats(s.k, s.k.scratch + 3)
    out.prefer_sibling = 1
    assert s.call(find_src_group.balanced, env, s.k.scratch, out) == reason


def test_the_last_buddy_is_hot_too():
    s = Still(machine(1, 4), kernel=V6_1)
    s.run(0)
    (p,) = s.run(1)
    env = s.env(idle=idle_type.NEWLY_IDLE, src=1)
    p.se.exec_start = s.k.now_ns - 10 * MS
    assert not s.call(load_balance_v6_12_jit.task_hot, p, env)
    p.se.cfs_rq.last = p.se
    assert s.call(load_balance_v6_12_jit.task_hot, p, env)


def test_forks_of_6_1_166_also_count_cpus_on_which_the_task_may_not_run():
    """6.1.192, the kernel of the recordings, has the later rule."""
    idle = {}
    for name in ("v6.1.166", "v6.1.192"):
        s = Still(machine(2, 4), kernel=KernelModel.named(name))
        p = s.task(4, allowed={0, 4})
        sd = s.sd(4)
        found = s.stats(stats_row.SPARE, groups(sd)[1])
        s.call(placement_v6_12_jit.update_sg_wakeup_stats, sd, found.group, p, found)
        idle[name] = found.idle_cpus
    assert idle == {"v6.1.166": 4, "v6.1.192": 1}


def test_an_idle_cpu_stops_its_tick_at_once():
    assert V6_1.rules.idle_ticks_before_stop == 0
    assert Still(machine(1, 2), kernel=V6_1).modern.idle_ticks_before_stop == 0


# --- everything together ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=12, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(balancing_cases())
def test_queues_count_what_is_on_them(case):
    """At each switch of random crowds: weights, numbers, order, min_vruntime and the estimated use of every queue."""
    lowest = {}

    def check(k, cpu):
        rq, root = k.rqs[cpu], CfsRq(k, k.cfs_rq0 + cpu)
        tasks = (TaskStruct(k, k.task0 + i) for i in range(k.nr_tasks))
        queued = [t for t in tasks if t.se.on_rq and t.cpu == cpu]
        assert queued == sorted(tasks_of(rq), key=lambda t: t.row)
        assert root.h_nr_running == len(queued) == rq.nr_running
        assert root.avg.util_est == sum(t.se.avg.util_est for t in queued)
        assert rq.curr or not queued
        for group in range(k.task_groups):
            q = CfsRq(k, root.row + group * k.nr_cpus)
            there = tree(q) + [q.curr] * bool(q.curr and q.curr.on_rq)
            assert q.load_weight == sum(se.weight for se in there)
            assert q.nr_running == len(there)
            assert [se.vruntime for se in tree(q)] == sorted(se.vruntime for se in tree(q))
            assert q.min_vruntime >= lowest.get(q.row, q.min_vruntime)
            lowest[q.row] = q.min_vruntime

    with contextlib.suppress(WorkloadError):  # a random program may wait for itself
        watched(
            case.program, case.machine, V6_1, schedule, check,
            seed=case.seed, until_ns=case.until_ns, costs=case.costs,
        )  # fmt: skip
