"""EEVDF and load tracking of v6.12: vectors computed by an independent program, and invariants.

The vectors are those of a 100-line program that was written from the formulas alone: one CPU of eight, ticks of 4 ms.
"""

from __future__ import annotations

from functools import cache

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.one_cpu import MS, OneCpu
from support.still_v6_12 import tasks_of, tree

from wastedcores.simulator.engine.codes import dequeue, log_kind, task_state
from wastedcores.simulator.engine.fair import eevdf_class_jit as queue
from wastedcores.simulator.engine.fair import eevdf_jit as eevdf
from wastedcores.simulator.engine.fair import pelt_v6_12_jit as pelt
from wastedcores.simulator.engine.world import log_column

ZERO = -(1 << 20)


def ran(cpu: OneCpu, ticks: int) -> str:
    cpu.settle()
    for _ in range(ticks):
        cpu.tick()
    return cpu.order


def state(p) -> tuple[int, int]:
    return p.se.vruntime, p.se.sum_exec_runtime


def test_slices_in_virtual_time_at_each_nice_value():
    cpu = OneCpu()
    tasks = [cpu.new(nice=n) for n in (0, 1, 5, -5, 10, 19, -20)]
    assert [cpu.call(eevdf.calc_delta_fair, 2_800_000, p.se) for p in tasks] == [
        2800000, 3496585, 8558806, 918679, 26065454, 191146666, 32302,
    ]  # fmt: skip


def test_base_slice_grows_with_the_online_cpus():
    assert [OneCpu(n).k.base_slice for n in (1, 2, 3, 4, 7, 8, 16)] == [
        700_000, 1_400_000, 1_400_000, 2_100_000, 2_100_000, 2_800_000, 2_800_000,
    ]  # fmt: skip


def test_two_equal_tasks_alternate_by_ticks():
    cpu = OneCpu()
    a, b = cpu.add("A"), cpu.add("B")
    assert ran(cpu, 20) == "AB" * 10
    assert state(a) == state(b) == (38951424, 40 * MS)
    assert a.se.deadline == b.se.deadline == 41751424
    assert cpu.cfs().zero_vruntime == 38951424


def test_three_equal_tasks():
    cpu = OneCpu()
    tasks = [cpu.add(n) for n in "ABC"]
    assert ran(cpu, 20) == ("ABC" * 7)[:20]
    assert [p.se.vruntime for p in tasks] == [26951424, 26951424, 22951424]
    assert [p.se.sum_exec_runtime for p in tasks] == [28 * MS, 28 * MS, 24 * MS]
    assert cpu.cfs().zero_vruntime == 25618090


def test_nice_0_beside_nice_5():
    cpu = OneCpu()
    a, b = cpu.add("A"), cpu.add("B", 5)
    assert ran(cpu, 20) == "ABAAABAAABAAABAAABAAA"[:20]
    assert (*state(a), a.se.deadline) == (58951424, 60 * MS, 61751424)
    assert (*state(b), b.se.deadline) == (60085749, 20 * MS, 68644555)
    assert cpu.cfs().zero_vruntime == 59231040


def test_nice_0_beside_nice_minus_5():
    cpu = OneCpu()
    a, b = cpu.add("A"), cpu.add("B", -5)
    assert ran(cpu, 20) == "BABBBABBBABBBABBBABBB"[:20]
    assert state(a) == (18951424, 20 * MS)
    assert (*state(b), b.se.deadline) == (18637409, 60 * MS, 19556088)
    assert cpu.cfs().zero_vruntime == 18714984


def test_a_task_that_had_more_than_its_share_stays_queued_while_it_sleeps():
    cpu = OneCpu()
    a, b = cpu.add("A"), cpu.add("B")
    cpu.settle()
    assert cpu.rq.curr == a
    assert state(a)[0] == ZERO
    assert a.se.deadline == 351424
    cpu.go(1 * MS)
    cpu.charge()
    assert cpu.call(eevdf.avg_vruntime, cpu.cfs()) == -548576
    assert cpu.call(eevdf.entity_lag, -548576, a.se) == -500000
    for ms, lag in ((9, 5_600_000), (-9, -5_600_000)):  # at most two slices of 2.8 ms
        assert cpu.call(eevdf.entity_lag, a.se.vruntime + ms * MS, a.se) == lag
    cpu.block()
    assert a.se.sched_delayed
    assert a.se.on_rq
    assert cpu.rq.nr_running == 2
    record = cpu.log()[-2]
    assert (record[log_column.KIND], record[log_column.VALUE]) == (log_kind.NR_RUNNING, 1)
    assert cpu.rq.curr == b
    cpu.tick()
    assert (b.se.vruntime, b.se.deadline) == (1951424, 4751424)
    assert not a.se.on_rq
    assert a.se.vlag == 0
    assert cpu.rq.curr == b
    assert cpu.rq.nr_running == 1
    # the same task goes on, so its protection is not renewed
    assert not cpu.call(eevdf.protected, b.se)


def woken_with(lag: int) -> tuple[OneCpu, object, object]:
    """C has run alone for 10 ms when A wakes with a lag."""
    cpu = OneCpu()
    c = cpu.add("C")
    cpu.settle()
    cpu.tick()
    cpu.tick()
    cpu.go(10 * MS)
    cpu.charge()
    assert (c.se.vruntime, c.se.deadline) == (8951424, 9751424)
    a = cpu.add("A")
    # undo the fork and wake it as if it had slept
    cpu.call(queue.dequeue_entities, a.se, dequeue.SLEEP | dequeue.SPECIAL)
    cpu.rq.need_resched = 0
    a.state, a.se.vlag = task_state.SLEEPING, lag
    cpu.wake(a)
    return cpu, c, a


def test_a_wakeup_preempts_only_with_positive_lag():
    cpu, c, a = woken_with(0)
    assert (a.se.vruntime, a.se.deadline) == (8951424, 11751424)
    assert cpu.rq.curr == c
    cpu.tick()
    assert cpu.now == 12 * MS
    assert cpu.rq.curr == a

    cpu, c, a = woken_with(-1 * MS)
    assert a.se.vruntime == 10951424
    assert not cpu.call(eevdf.eligible, cpu.cfs(), a.se)
    assert cpu.rq.curr == c
    cpu.tick()
    assert cpu.rq.curr == a

    cpu, c, a = woken_with(1 * MS)
    assert (a.se.vruntime, a.se.deadline) == (6951424, 9751424)
    assert cpu.rq.curr == a
    cpu.tick()
    cpu.tick()
    assert cpu.now == 16 * MS
    assert cpu.rq.curr == c


# --- load tracking ----------------------------------------------------------------------------------------------------


def test_a_new_task_that_runs():
    cpu = OneCpu()
    a = cpu.add("A")
    assert (a.se.avg.load_sum, a.se.avg.util_sum, a.se.avg.runnable_sum) == (
        46718, 23919616, 23919616,
    )  # fmt: skip
    cpu.settle()
    seen = []
    for _ in range(5):
        cpu.tick()
        sa = a.se.avg
        seen.append((sa.load_avg, sa.runnable_avg, sa.util_avg, sa.load_sum, sa.period_contrib))
        if len(seen) == 2:
            assert cpu.cfs().avg.load_avg == 1024
            assert cpu.cfs().avg.load_sum == 48498774
    assert seen == [
        (1023, 552, 552, 47551, 834),
        (1023, 590, 590, 47361, 644),
        (1023, 624, 624, 47171, 454),
        (1023, 656, 656, 46981, 265),
        (1023, 685, 685, 46791, 75),
    ]
    cpu.block()
    cpu.go(40 * MS)
    cpu.call(pelt.update_load_avg, a.se, 0)
    for sa in (a.se.avg, cpu.cfs().avg):
        assert (sa.load_avg, sa.runnable_avg, sa.util_avg) == (677, 453, 453)


def test_the_estimate_of_use_falls_by_a_quarter_unless_the_task_had_to_wait():
    """The cases are computed by hand from util_est_update() (kernel/sched/fair.c, v6.12.107)."""
    cpu = OneCpu()
    p, seen = cpu.add("A"), []
    for case in (
        (300, 400, 400),
        (400, 391, 391),
        (400, 390, 400),
        (400, 390, 401),
        (1100, 1030, 0),
    ):
        p.se.avg.util_est, p.se.avg.util_avg, p.se.avg.runnable_avg = case
        p.se.avg.unchanged = 0
        cpu.call(pelt.util_est_update, p)
        seen.append((p.se.avg.util_est, p.se.avg.unchanged))
    # a rise, a fall by less than 10, (1600 - 10) >> 2, more than 10 of waiting, more than a CPU has
    assert seen == [(400, 1), (400, 1), (397, 1), (400, 1), (1100, 0)]


def test_a_task_that_always_runs_from_zero():
    cpu = OneCpu()
    a = cpu.add("A", from_zero=True)
    cpu.settle()
    seen = {}
    for _ in range(200):
        cpu.tick()
        seen[cpu.now // MS] = a.se.avg.load_avg
    assert [seen[t] for t in (4, 8, 20, 32, 100, 200, 400, 800)] == [
        81, 156, 346, 495, 894, 1007, 1023, 1023,
    ]  # fmt: skip


def test_two_tasks_that_alternate_from_zero():
    cpu = OneCpu()
    a, b = cpu.add("A", from_zero=True), cpu.add("B", from_zero=True)
    ran(cpu, 100)
    assert {a.se.avg.util_avg, b.se.avg.util_avg} == {490, 533}
    assert all((p.se.avg.load_avg, p.se.avg.runnable_avg) == (1023, 1023) for p in (a, b))
    q = cpu.cfs().avg
    assert (q.load_avg, q.runnable_avg, q.util_avg) == (2047, 2047, 1023)
    ran(cpu, 100)
    assert (q.load_avg, q.runnable_avg, q.util_avg) == (2048, 2048, 1024)


# --- invariants -------------------------------------------------------------------------------------------------------


@cache
def booted() -> OneCpu:
    return OneCpu(groups=1)


def check_sums(cpu: OneCpu, q) -> None:
    """The sums describe the tree, and some entity is eligible."""
    weights = [max(2, se.weight >> 10) for se in tree(q)]
    keys = [se.vruntime - q.zero_vruntime for se in tree(q)]
    assert q.avg_load == sum(weights)
    assert q.avg_vruntime == sum(key * w for key, w in zip(keys, weights, strict=True))
    assert [se.deadline for se in tree(q)] == sorted(se.deadline for se in tree(q))
    queued = tree(q) + [q.curr] * bool(q.curr and q.curr.on_rq)
    assert q.nr_running == len(queued)
    assert q.load_weight == sum(se.weight for se in queued)
    if queued:
        average = cpu.call(eevdf.avg_vruntime, q)
        eligible = [se for se in queued if cpu.call(eevdf.eligible, q, se)]
        assert eligible == [se for se in queued if se.vruntime <= average] != []
        assert cpu.call(eevdf.pick_eevdf, q, 1) in queued


def check_counts(cpu: OneCpu) -> None:
    """Numbers of tasks agree on all levels; a CPU without a runnable task has no sleeper on its queues."""
    tasks = [p for p in cpu.named.values() if p.se.on_rq]
    for group in (0, 1):
        own = [p for p in tasks if group in (0, p.group)]
        assert cpu.cfs(0, group).h_nr_running == len(own)
        assert cpu.cfs(0, group).h_nr_delayed == sum(p.se.sched_delayed for p in own)
    assert cpu.rq.nr_running == cpu.cfs().h_nr_running == len(tasks_of(cpu.rq))
    assert all((p.state == task_state.SLEEPING) == p.se.sched_delayed for p in tasks)
    assert not (cpu.rq.curr and cpu.rq.curr.se.sched_delayed)
    assert cpu.rq.curr or not tasks


def check_load(q) -> None:
    """Averages lie within their bounds and do not exceed their sums.

    dequeue_load_avg() of v6.12.107 computes the least sum with 32 bits (max_t(u32, ...)). A queue whose load times the
    divider needs more bits, such as one with a task of nice -20, may therefore keep a sum that is too small for its load.
    """
    divider = pelt.MIN_DIVIDER + q.avg.period_contrib
    for signal in ("load", "runnable", "util"):
        avg, total = getattr(q.avg, f"{signal}_avg"), getattr(q.avg, f"{signal}_sum")
        assert avg >= 0
        assert total >= 0
        least = avg * pelt.MIN_DIVIDER
        assert least <= total + divider or (signal == "load" and least >= 1 << 32)


OPS = st.lists(
    st.tuples(
        st.sampled_from(["run", "run", "tick", "tick", "block", "wake", "nice", "yield", "group"]),
        st.integers(0, 9),
        st.integers(1_000, 6_000_000),
    ),
    min_size=10,
    max_size=60,
)


@settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.lists(st.tuples(st.integers(-20, 19), st.booleans()), min_size=1, max_size=5), OPS)
@example([(-4, False), (-20, False), (0, True)], [("run", 0, 1000)] * 10)
def test_invariants(tasks, steps):
    cpu = booted().again()
    for i, (nice, grouped) in enumerate(tasks):
        cpu.add(chr(65 + i), nice, int(grouped))
    cpu.settle()
    everyone = list(cpu.named.values())
    asleep = {}
    for kind, number, length in steps:
        curr = cpu.rq.curr
        if kind in ("run", "tick"):
            before = cpu.now
            if kind == "run" and (before + length) // (4 * MS) == before // (4 * MS):
                cpu.go(before + length)
                cpu.charge()
                cpu.settle()
            else:
                cpu.tick()
        elif kind == "wake":
            p = everyone[number % len(everyone)]
            if asleep.pop(p.row, None):
                cpu.wake(p)
        elif not curr:
            continue
        elif kind == "block":
            cpu.block()
            asleep[curr.row] = curr, curr.se.vruntime
        elif kind == "nice":
            cpu.fair.set_user_nice(cpu.k, curr, 4 * number - 20)
        elif kind == "yield":
            cpu.fair.yield_task(cpu.k, curr)
            cpu.rq.need_resched = 1
        elif kind == "group":
            cpu.fair.task_change_group(cpu.k, curr, number % 2)
        cpu.settle()
        for q in (cpu.cfs(), cpu.cfs(0, 1)):
            check_sums(cpu, q)
            check_load(q)
        check_counts(cpu)
        for p, vruntime in asleep.values():
            limit = cpu.call(eevdf.calc_delta_fair, max(2 * p.se.slice, 4 * MS), p.se)
            if p.se.sched_delayed:
                assert p.se.vruntime == vruntime
            else:
                assert -limit <= p.se.vlag <= limit


@settings(max_examples=100, derandomize=True, deadline=None, database=None)
@given(
    st.lists(st.integers(-20, 19), min_size=1, max_size=6),
    st.integers(-20, 19),
    st.integers(-3_000_000, 3_000_000),
    st.integers(1, 30),
)
def test_a_placed_entity_keeps_its_lag(others, nice, lag, ticks):
    cpu = booted().again()
    for i, other in enumerate(others):
        cpu.add(chr(65 + i), other)
    ran(cpu, ticks)
    p = cpu.add("Z", nice)
    cpu.call(queue.dequeue_entities, p.se, 0)
    p.se.rel_deadline = 0
    p.se.vlag = lag
    cpu.call(queue.enqueue_task, p, 0)
    weight = p.se.weight >> 10
    # rounding of the lag is scaled with the weights, as the kernel scales it
    load = cpu.cfs().avg_load + (cpu.rq.curr.se.weight >> 10)
    error = cpu.call(eevdf.avg_vruntime, cpu.cfs()) - p.se.vruntime - lag
    assert abs(error) <= 2 + load // max(load - weight, 1)
