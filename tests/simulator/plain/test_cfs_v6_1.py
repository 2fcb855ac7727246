"""CFS of v6.1 on one CPU: where it differs from v4.1's, where it is equal, and load tracking that differs from v6.12's.

The numbers are computed by hand from kernel/sched/fair.c, v6.1.192.
"""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.balancing_runs import balancing_cases
from support.one_cpu import MS, OneCpu
from support.still_v6_12 import Still, machine

from wastedcores.errors import WorkloadError
from wastedcores.kernels import KernelModel
from wastedcores.simulator.reference import (
    Kernel,
    Simulation,
    balance_v6_12,
    cfs_v6_1,
    fair,
    pelt_v6_12,
    slow_path_v6_12,
    tasks_v6_12,
)
from wastedcores.simulator.reference import stats_v6_12 as stats
from wastedcores.simulator.reference.arithmetic import PRIO_TO_WEIGHT
from wastedcores.simulator.reference.group_stats_v6_12 import FULLY_BUSY, HAS_SPARE, GroupStats
from wastedcores.simulator.reference.stats import IDLE, NEWLY_IDLE, NOT_IDLE
from wastedcores.simulator.simulate import with_steps
from wastedcores.topology.domains import domain_events

V6_1 = KernelModel.named("v6.1.192")
V6_12 = KernelModel.named("v6.12.107")
#: latency, minimum and wakeup granularity on 8 CPUs
LATENCY, MIN_GRAN, WAKEUP_GRAN = 24 * MS, 3 * MS, 4 * MS


def slices(cpu: OneCpu, *names: str) -> list[int]:
    return [cfs_v6_1.sched_slice(cpu.k, cpu.tasks[n].se.cfs_rq, cpu.tasks[n].se) for n in names]


# --- slices -----------------------------------------------------------------------------------------------------------


def test_the_period_counts_the_tasks_of_the_whole_cpu():
    """ALT_PERIOD: ten tasks are more than 8, so the period is 10 x 3 ms; the two tasks of the group alone would have 24 ms."""
    cpu = OneCpu(kernel=V6_1)
    group = cpu.k.add_group("g", 1024)
    for name in "ab":
        cpu.add(name, group=group)
    for name in "cdefghij":
        cpu.add(name, 19)
    cpu.settle()
    se = group.se[0]
    own = 30 * MS * se.weight / se.cfs_rq.weight / 2
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


@given(st.lists(st.integers(-20, 19), min_size=2, max_size=6), st.integers(30, 120))
def test_sums_of_a_queue_and_its_min_vruntime(nices, ticks):
    cpu = OneCpu(kernel=V6_1)
    for i, nice in enumerate(nices):
        cpu.add(str(i), nice)
    cpu.settle()
    q, last = cpu.rq.cfs, -(1 << 60)
    for _ in range(ticks):
        cpu.tick()
        there = [p.se.vruntime for p in cpu.tasks.values()]
        assert last <= q.min_vruntime
        assert q.min_vruntime >= min(there)
        last = q.min_vruntime
        assert q.weight == sum(PRIO_TO_WEIGHT[n + 20] << 10 for n in nices)
        assert q.nr_running == q.h_nr_running == cpu.rq.nr_running == len(nices)
        assert [se.vruntime for se in q.tree] == sorted(se.vruntime for se in q.tree)
        assert cpu.rq.curr.se not in q.tree


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
    assert cpu.rq.curr is sleeper
    assert sleeper.se.vruntime == runner.se.vruntime - LATENCY // 2


def test_a_sleeper_that_is_hardly_behind_does_not_preempt():
    cpu = OneCpu(kernel=V6_1)
    runner, sleeper = running_and_asleep(cpu, 40)
    sleeper.se.vruntime = runner.se.vruntime - WAKEUP_GRAN
    cpu.wake(sleeper)
    assert cpu.rq.curr is runner
    assert cpu.rq.cfs.next is None


def test_a_sleep_of_more_than_104_days_does_not_keep_the_virtual_time():
    cpu = OneCpu(kernel=V6_1)
    runner, sleeper = running_and_asleep(cpu, 40)
    sleeper.se.vruntime = runner.se.vruntime + (1 << 60)
    sleeper.se.exec_start = cpu.k.now_ns - cfs_v6_1.LONG_SLEEP_NS - 1
    cpu.wake(sleeper)
    assert sleeper.se.vruntime == runner.se.vruntime - LATENCY // 2
    runner, sleeper = running_and_asleep(other := OneCpu(kernel=V6_1), 40)
    sleeper.se.vruntime = runner.se.vruntime + (1 << 60)
    other.wake(sleeper)
    assert sleeper.se.vruntime == runner.se.vruntime + (1 << 60)


def test_a_virtual_time_becomes_relative_only_when_a_sleeper_changes_its_cpu():
    """v4.1 makes it relative at every wakeup."""
    s = Still(machine(1, 4), kernel=V6_1)
    s.run(0, 1)
    p = s.task(0)
    s.k.rqs[0].cfs.min_vruntime, s.k.rqs[1].cfs.min_vruntime = 7_000, 900_000_000
    p.se.vruntime, p.state = 9_000, "waking"
    s.k.fair.migrate_task(s.k, p)
    s.k.fair.set_task_rq(p, 1)
    assert p.se.vruntime == 2_000
    s.k.fair.enqueue_task(s.k, s.k.rqs[1], p, wakeup=True)
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
    """v4.1's pick_next_entity() clears the mark of whatever it chooses; since v5.14 set_next_entity() does."""
    cpu = OneCpu(kernel=V6_1)
    a = cpu.add("a")
    cpu.settle()
    a.se.cfs_rq.next = a.se
    assert cfs_v6_1.pick_task(cpu.k, cpu.rq) is a
    assert a.se.cfs_rq.next is a.se
    fair.pick_next_entity(cpu.k, a.se.cfs_rq, a.se)
    assert a.se.cfs_rq.next is None


def test_the_chosen_task_is_the_newest_of_its_cpu():
    cpu = OneCpu(kernel=V6_1)
    for name in "abc":
        cpu.add(name)
    cpu.settle()
    for _ in range(6):
        cpu.tick()
        assert cpu.rq.cfs_tasks[0] is cpu.rq.curr
    new, running = cpu.add("d"), cpu.rq.curr
    assert cpu.rq.cfs_tasks[:2] == [new, running]
    cpu.rq.need_resched = True
    cpu.settle()
    assert cpu.rq.curr is running
    assert cpu.rq.cfs_tasks[:2] == [running, new]


def test_a_chosen_task_uses_its_buddy_mark_up():
    cpu = OneCpu(kernel=V6_1)
    runner, sleeper = running_and_asleep(cpu, 100)
    cpu.go(cpu.now + 2 * MS)
    cpu.wake(sleeper)  # it preempts as the next buddy
    assert cpu.rq.curr is sleeper
    assert cpu.rq.cfs.next is None
    # the one that was preempted is charged to its averages at once
    assert cpu.k.now_ns - runner.se.avg.last_update < 1024


def test_a_task_that_left_does_not_hold_min_vruntime_back():
    """v4.1 still counts it until the next one is charged."""
    cpu = OneCpu(kernel=V6_1)
    cpu.add("a")
    cpu.add("b")
    cpu.settle()
    cpu.tick()
    waits = cpu.rq.cfs.tree[0]
    assert cpu.rq.curr.se.vruntime < waits.vruntime
    cpu.block()
    assert cpu.rq.cfs.min_vruntime == waits.vruntime


def test_the_group_of_a_sleeper_is_the_next_buddy():
    cpu = OneCpu(kernel=V6_1)
    group = cpu.k.add_group("g", 1024)
    for name in "ab":
        cpu.add(name, group=group)
    cpu.add("c")
    cpu.settle()
    while cpu.rq.curr.tg is not group:
        cpu.tick()
    cpu.block()
    assert cpu.rq.curr.tg is group
    assert cpu.rq.cfs.next is group.se[0]


def test_a_tick_gives_a_group_its_present_weight():
    cpu = OneCpu(kernel=V6_1)
    group = cpu.k.add_group("g", 1024)
    cpu.add("a", group=group)
    cpu.settle()
    before = group.se[0].weight
    group.load_avg *= 4  # of the group's load on other CPUs
    cpu.tick()
    assert group.se[0].weight < before / 2


def test_a_new_nice_value_keeps_the_virtual_time():
    cpu = OneCpu(kernel=V6_1)
    cpu.add("a")
    cpu.add("b")
    cpu.settle()
    for _ in range(5):
        cpu.tick()
    p = cpu.rq.curr
    before = p.se.vruntime
    tasks_v6_12.set_user_nice(cpu.k, p, 5)
    assert p.se.vruntime == before
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
    cpu.rq.need_resched = True
    cpu.settle()
    assert cpu.rq.curr is first
    cfs_v6_1.yield_task(cpu.k, cpu.rq, first)
    cpu.rq.need_resched = True
    cpu.settle()
    assert cpu.rq.curr is not first


# --- load tracking ----------------------------------------------------------------------------------------------------


def test_a_new_task_is_expected_to_use_half_of_what_is_left():
    """The weight of post_init_entity_util_avg() is not shifted down, so the limit always decides."""
    expected = {}
    for kernel in (V6_1, V6_12):
        cpu = OneCpu(kernel=kernel)
        q = cpu.rq.cfs.avg
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
    avg = cpu.add("a").se.avg
    avg.util_ewma, avg.util_enqueued, avg.util_avg = ewma, enqueued, util
    avg.util_est, avg.unchanged = max(ewma, enqueued), False
    pelt_v6_12.util_est_update_v6_1(cpu.tasks["a"].se)
    assert (avg.util_ewma, avg.util_enqueued, avg.unchanged) == want
    assert avg.util_est == max(want[:2])


def test_a_sleeper_leaves_an_estimate_of_its_use():
    cpu = OneCpu(kernel=V6_1)
    p = cpu.add("a")
    cpu.settle()
    for _ in range(5):
        cpu.tick()
    cpu.block()
    assert p.se.avg.util_est == p.se.avg.util_avg > 0
    assert cpu.rq.cfs.avg.util_est == 0


def test_groups_report_their_load_without_a_limit():
    """v6.12 reports at most once per ms; so, within a ms, only v6.1 knows of the second task."""
    known = {}
    for kernel in (V6_1, V6_12):
        cpu = OneCpu(kernel=kernel)
        group = cpu.k.add_group("g", 1024)
        cpu.k.now_ns += 10 * MS
        cpu.add("a", group=group)
        cpu.k.now_ns += MS // 10
        cpu.add("b", group=group)
        known[kernel] = group.load_avg
    assert known == {V6_1: 2048, V6_12: 1024}


# --- placement and balancing ------------------------------------------------------------------------------------------


def env_of(s: Still, level: int = -1, cpu: int = 0, idle: str = IDLE) -> stats.Env:
    sd = s.k.rqs[cpu].sd[level]
    return stats.Env(sd, cpu, idle, set(sd.span), frozenset(sd.groups[0].mask))


@pytest.mark.parametrize(("kernel", "designated"), [(V6_1, 1), (V6_12, 2)])
def test_the_first_idle_cpu_balances_whatever_its_core_does(kernel, designated):
    """Cores are CPUs 0, 1 and 2, 3; CPU 0 is busy."""
    s = Still(machine(2, 4, threads=2), kernel=kernel)
    s.run(0)
    answers = [balance_v6_12.should_we_balance(s.k, env_of(s, cpu=c)) for c in range(4)]
    assert answers == [c == designated for c in range(4)]


@pytest.mark.parametrize(("kernel", "want"), [(V6_1, False), (V6_12, True)])
def test_the_first_of_equal_fully_busy_groups_is_the_busiest(kernel, want):
    s = Still(machine(3, 4), kernel=kernel)
    groups = s.k.rqs[0].sd[-1].groups
    a, b = (GroupStats(g, sum_h_nr=4, type=FULLY_BUSY) for g in groups[1:])
    assert stats.pick_busiest(kernel.rules, a, b) is want


@pytest.mark.parametrize(("kernel", "reason"), [(V6_1, ""), (V6_12, "busy")])
def test_a_busy_cpu_pulls_from_a_sibling_with_two_tasks_more(kernel, reason):
    s = Still(machine(2, 4), kernel=kernel)
    env = env_of(s, idle=NOT_IDLE)
    here, there = env.sd.groups[0], env.sd.groups[1]
    out = stats.DomainStats(
        GroupStats(
            here, capacity=4096, weight=4, sum_nr=2, sum_h_nr=2, idle_cpus=2, type=HAS_SPARE
        ),
        GroupStats(there, capacity=4096, weight=4, sum_nr=4, sum_h_nr=4, type=FULLY_BUSY),
        prefer_sibling=True,
    )
    assert stats.balanced(s.k, env, out) == reason


def test_the_last_buddy_is_hot_too():
    s = Still(machine(1, 4), kernel=V6_1)
    s.run(0)
    (p,) = s.run(1)
    env = env_of(s, idle=NEWLY_IDLE)
    env.src_cpu = 1
    p.se.exec_start = s.k.now_ns - 10 * MS
    assert not balance_v6_12.task_hot(s.k, env, p)
    p.se.cfs_rq.last = p.se
    assert balance_v6_12.task_hot(s.k, env, p)


def test_forks_of_6_1_166_also_count_cpus_on_which_the_task_may_not_run():
    """6.1.192, the kernel of the recordings, has the later rule."""
    idle = {}
    for name in ("v6.1.166", "v6.1.192"):
        s = Still(machine(2, 4), kernel=KernelModel.named(name))
        p = s.task(4, allowed={0, 4})
        sd = s.k.rqs[4].sd[-1]
        idle[name] = slow_path_v6_12.update_sg_wakeup_stats(s.k, sd, sd.groups[1], p).idle_cpus
    assert idle == {"v6.1.166": 4, "v6.1.192": 1}


def test_an_idle_cpu_stops_its_tick_at_once():
    assert V6_1.rules.idle_ticks_before_stop == 0
    assert Still(machine(1, 2), kernel=V6_1).k.idle_ticks_before_stop == 0


# --- everything together ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=12, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(balancing_cases())
def test_queues_count_what_is_on_them(case):
    """At each switch of random crowds: weights, numbers, order, min_vruntime and the estimated use of every queue."""
    trees = domain_events(with_steps(case.machine, case.program), V6_1)
    k = Kernel(case.machine, V6_1, trees, costs=case.costs)
    run = Simulation(k, case.program, case.seed)
    switched, lowest = k.on_switch, {}

    def check(rq, prev, task):
        switched(rq, prev, task)
        root = rq.cfs
        queued = [t for t in run.tasks if t.on_rq and t.cpu == rq.cpu]
        assert set(queued) == set(rq.cfs_tasks)
        assert root.h_nr_running == len(queued) == rq.nr_running - rq.stopper
        assert root.avg.util_est == sum(t.se.avg.util_est for t in queued)
        assert not (task is rq.idle_task and queued)
        for tg in k.groups:
            q = tg.cfs_rq[rq.cpu]
            runs = [q.curr] if q.curr is not None and q.curr.on_rq else []
            assert q.weight == sum(se.weight for se in (*q.tree, *runs))
            assert q.nr_running == len(q.tree) + len(runs)
            assert [se.vruntime for se in q.tree] == sorted(se.vruntime for se in q.tree)
            assert q.min_vruntime >= lowest.get(q, q.min_vruntime)
            lowest[q] = q.min_vruntime

    k.on_switch = check
    with contextlib.suppress(WorkloadError):  # a random program may wait for itself
        run.run(case.until_ns)
