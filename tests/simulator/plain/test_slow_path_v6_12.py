"""Forks, execs, wake lists and migration under v6.12.107: every branch, on cases computed by hand."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.still_v6_12 import MS, Still, groups, machine, tasks_of

from wastedcores.simulator.engine.balance import find_src_group_v6_12_jit as group_stats
from wastedcores.simulator.engine.balance import placement_v6_12_jit as placement
from wastedcores.simulator.engine.balance import placement_v6_12_jit as slow
from wastedcores.simulator.engine.balance.find_src_group_v6_12_jit import idle_cpu
from wastedcores.simulator.engine.codes import arrival, cpu_event, log_kind, log_op, sd_flag
from wastedcores.simulator.engine.codes.group_type import OVERLOADED
from wastedcores.simulator.engine.codes.stats_row import BUSIEST, LOCAL, SPARE
from wastedcores.simulator.engine.codes.task_state import WAKING
from wastedcores.simulator.engine.core import hotplug_jit, schedule_jit, wakeup_jit
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.fair import entity_jit
from wastedcores.simulator.engine.fair import modern_task_jit as signals
from wastedcores.simulator.engine.fair import pelt_v6_12_jit as pelt
from wastedcores.simulator.engine.fair.eevdf_jit import avg_vruntime, entity_lag, update_curr
from wastedcores.simulator.engine.world import cpuset, cpusets_jit, log_column
from wastedcores.simulator.engine.world.structs import NO_TASK, TaskStruct


@cache
def booted(nodes: int = 2, threads: int = 1) -> Still:
    return Still(machine(nodes, 4, threads))


# --- signals ----------------------------------------------------------------------------------------------------------


def test_the_use_of_a_cpu_with_and_without_a_task():
    s = Still(machine())
    p, avg = s.task(1), s.cfs(1).avg
    avg.util_avg, avg.runnable_avg, avg.util_est = 300, 500, 250
    p.se.avg.util_avg, p.se.avg.runnable_avg, p.se.avg.util_est = 200, 350, 100

    def util(cpu: int, of: TaskStruct = NO_TASK, to: int = -1, boost: int = 0) -> int:
        return s.call(signals.cpu_util, cpu, of, to, boost)

    assert util(1) == 300
    assert util(1, boost=1) == 500
    assert util(1, p) == 250  # 300 - 200, but the estimate is of queued tasks only
    assert util(1, p, 1) == 350  # it stays: 300, and 250 + 100
    assert util(2, p, 2) == 200
    assert util(2, p, 2, boost=1) == 350
    assert util(1, p, boost=1) == 250  # max(300 - 200, 500 - 350)
    p.se.on_rq = 1
    assert util(1, p) == 150
    avg.util_avg = 5000
    assert util(1) == 1024
    assert s.call(signals.task_util_est, p) == 200


def test_a_task_that_is_new_or_elsewhere_contributes_nothing():
    s = Still(machine())
    p, avg = s.task(1), s.cfs(1).avg
    avg.load_avg, avg.runnable_avg, avg.util_avg = 2000, 900, 700
    p.se.avg.load_avg, p.se.avg.runnable_avg, p.se.avg.util_avg = 500, 1000, 300

    signs = ("load", "runnable", "util")

    def without(cpu):
        return tuple(s.call(getattr(signals, f"cpu_{x}_without"), cpu, p) for x in signs)

    assert without(1) == (2000 - 499, 0, 400)
    assert without(2) == (0, 0, 0)
    p.se.avg.last_update = 0
    assert without(1) == (2000, 900, 700)


def test_the_load_of_a_task_in_a_group_is_its_part_of_the_groups():
    s = Still(machine(), groups=1)
    p, q = s.task(1), s.cfs(1, 1)
    p.group = 1
    s.call(entity_jit.set_task_rq, p, 1)
    s.cfs(1).avg.load_avg, q.entity.avg.load_avg = 3000, 1000
    q.avg.load_avg, p.se.avg.load_avg = 2000, 700
    # the queue: 3000 * 1000 // 3001 = 999, the task: 700 * 999 // 2001 = 349
    assert s.call(signals.task_h_load, p) == 349
    s.cfs(1).avg.load_avg = 0
    assert s.call(signals.task_h_load, p) == 349  # computed once per jiffy
    s.later(4 * MS)
    assert s.call(signals.task_h_load, p) == 0


# --- groups -----------------------------------------------------------------------------------------------------------


def test_the_allowance_between_nodes():
    rest = booted().of(group_stats.adjust_numa_imbalance)
    assert [rest(*of, 4) for of in ((2, 4), (2, 5), (3, 4), (0, 9))] == [0, 2, 3, 0]


@pytest.mark.parametrize(
    ("best", "other", "better"),
    [
        ({"type": 1}, {"type": 0}, True),
        ({"type": 0}, {"type": 6}, False),
        ({"type": 6, "avg_load": 5}, {"type": 6, "avg_load": 4}, True),
        ({"type": 1, "avg_load": 4}, {"type": 1, "avg_load": 4}, False),
        ({"type": 5}, {"type": 5}, False),
        ({"idle_cpus": 2}, {"idle_cpus": 3}, True),
        ({"idle_cpus": 3}, {"idle_cpus": 2}, False),
        ({"idle_cpus": 3, "util": 9}, {"idle_cpus": 3, "util": 8}, True),
        ({"idle_cpus": 3, "util": 8}, {"idle_cpus": 3, "util": 8}, False),
    ],
)
def test_the_better_group(best, other, better):
    s = booted().again()
    here, there = groups(s.sd())
    a = s.stats(BUSIEST, here, **best)
    assert s.call(slow.is_idler, a, s.stats(SPARE, there, **other)) == better


def stays(s: Still, p: TaskStruct, local: dict, idlest: dict) -> bool:
    here, there = groups(s.sd())
    a, b = s.stats(LOCAL, here, **local), s.stats(BUSIEST, there, **idlest)
    return s.call(slow.stays_local, s.sd(), p, a, b)


@pytest.mark.parametrize(
    ("local", "idlest", "want"),
    [
        ({"type": 0}, {"type": 1}, True),
        ({"type": 6}, {"type": 1}, False),
        ({"type": 5}, {"type": 5}, True),
        # 174 = 1024 * 17 // 100; between nodes a difference of up to 174 does not count
        ({"type": 6, "avg_load": 1174}, {"type": 6, "avg_load": 1000}, True),
        ({"type": 6, "avg_load": 1175}, {"type": 6, "avg_load": 1000}, False),
        ({"type": 6, "avg_load": 2340}, {"type": 6, "avg_load": 2000}, True),  # 17 %
        ({"type": 6, "avg_load": 2341}, {"type": 6, "avg_load": 2000}, False),
        # a difference of up to two idle CPUs does not count before the node runs imb_numa_nr tasks
        ({"idle_cpus": 1, "sum_nr": 0}, {"idle_cpus": 3}, True),
        ({"idle_cpus": 1, "sum_nr": 1}, {"idle_cpus": 3}, False),
        ({"idle_cpus": 1, "sum_nr": 0}, {"idle_cpus": 4}, False),
        ({"idle_cpus": 4, "sum_nr": 3}, {"idle_cpus": 1}, True),
    ],
)
def test_the_local_group_or_the_best_one(local, idlest, want):
    s = booted().again()
    assert s.sd().flags & sd_flag.NUMA
    assert s.sd().imb_numa_nr == 1
    assert stays(s, s.task(), local, idlest) == want


def test_inside_a_node_a_load_must_differ_by_both_limits():
    s = Still(machine(1, 8, l2=4))
    assert not s.sd().flags & sd_flag.NUMA
    p = s.task()
    for local, idlest, want in ((1174, 1000, 0), (1170, 1000, 1), (800, 1000, 1), (20, 200, 1)):
        a, b = ({"type": OVERLOADED, "avg_load": load} for load in (local, idlest))
        assert stays(s, p, a, b) == want
    assert not stays(s, p, {"idle_cpus": 1}, {"idle_cpus": 2})
    assert stays(s, p, {"idle_cpus": 2}, {"idle_cpus": 2})


def test_the_statistics_leave_the_task_and_forbidden_cpus_out():
    s = Still(machine(2, 4))
    [p, _, _] = s.run(0, 1, 4)

    def own():
        found = s.stats(SPARE, s.sd().groups)
        s.call(slow.update_sg_wakeup_stats, s.sd(), s.sd().groups, p, found)
        return found.sum_nr, found.sum_h_nr, found.idle_cpus, found.weight

    assert own() == (1, 1, 3, 4)
    s.allow(p, [0, 1, 5])
    assert own() == (1, 1, 1, 4)
    s.k.rqs[0].wake_list = s.task()
    assert own() == (1, 1, 0, 4)


# --- CPUs of a group --------------------------------------------------------------------------------------------------


def cpu_of(s: Still, p: TaskStruct, this_cpu: int = 0) -> int:
    return s.call(slow.find_idlest_cpu, s.sd().groups, p, this_cpu, 0)


def test_the_cpu_that_became_idle_last():
    s = Still(machine(2, 4))
    p = s.task()
    assert cpu_of(s, p) == 3
    s.k.rqs[1].idle_stamp = 5000
    assert cpu_of(s, p) == 1
    s.allow(p, [0, 2])
    assert cpu_of(s, p) == 2
    s.k.rqs[0].idle_stamp = s.k.rqs[2].idle_stamp = 0
    assert cpu_of(s, p, 3) == 3  # an idle CPU without a stamp is not found


def test_the_least_loaded_cpu_if_none_is_idle():
    s = Still(machine(2, 4))
    s.run(0, 1, 2, 3)
    for cpu, load in enumerate((900, 800, 700, 700)):
        s.cfs(cpu).avg.load_avg = load
    assert cpu_of(s, s.task()) == 2


# --- forks and execs --------------------------------------------------------------------------------------------------


def place(s: Still, p: TaskStruct, flag: int) -> int:
    s.k.this_cpu = p.cpu
    return s.call(placement.select_task_rq_fair, p, flag, 0)


def fork(s: Still, p: TaskStruct) -> int:
    p.se.avg.last_update = 0
    return place(s, p, sd_flag.BALANCE_FORK)


def test_forks_leave_a_node_when_it_has_less_room():
    s = Still(machine(2, 8))  # imb_numa_nr is 1
    s.run(0)
    # one task here already, and the other node has one idle CPU more
    assert fork(s, s.task(0)) == 15
    s.run(15)
    # as many idle CPUs on both nodes, and the first one of this node
    assert fork(s, s.task(0)) == 1


def test_a_large_node_keeps_its_first_forks():
    s = Still(machine(2, 16))
    assert s.sd().imb_numa_nr == 2
    s.run(0)
    assert fork(s, s.task(0)) == 1
    s.run(1)
    assert fork(s, s.task(0)) == 31
    # the mask leaves one CPU of the local node, so no second task is allowed there
    s = Still(machine(2, 16))
    s.run(0)
    assert fork(s, s.task(0, allowed=[0, 16])) == 16
    assert fork(s, s.task(0, allowed=[0, 1, 16])) == 1


def test_forks_and_execs_of_bound_tasks_and_without_idle_cpus():
    s = Still(machine(2, 4))
    assert fork(s, s.task(0, allowed=[2, 3])) == 2
    tasks = s.run(*range(8))
    for cpu in range(8):
        s.cfs(cpu).avg.load_avg = s.cfs(cpu).avg.util_avg = 1000
    assert place(s, tasks[1], sd_flag.BALANCE_EXEC) == 1
    q = s.task(0)
    s.allow(q, [9])  # on no CPU of this machine
    assert s.call(slow.find_dst_cpu, s.sd(), q, 0, 5, sd_flag.BALANCE_FORK) == 5


def test_execs_go_where_more_cpus_are_idle():
    s = Still(machine(2, 8))
    tasks = s.run(0, 1, 2)
    assert place(s, tasks[0], sd_flag.BALANCE_EXEC) == 15


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_forks_get_an_allowed_cpu_and_an_idle_one_if_their_node_has_any(data):
    nodes, threads = data.draw(st.sampled_from([1, 2, 4])), data.draw(st.sampled_from([1, 2]))
    s = booted(nodes, threads).again()
    cpus = len(s.k.rqs)
    busy = data.draw(st.lists(st.integers(0, cpus - 1), max_size=2 * cpus))
    s.run(*busy)
    allowed = data.draw(st.sets(st.integers(0, cpus - 1), min_size=1))
    cpu = data.draw(st.sampled_from(sorted(allowed)))
    chosen = fork(s, s.task(cpu, allowed=allowed))
    assert chosen in allowed
    if not set(busy) & allowed:
        assert s.call(idle_cpu, chosen)


# --- wake lists, migration --------------------------------------------------------------------------------------------


def test_a_task_is_left_to_an_idle_cpu_or_to_another_llc_to_queue():
    for here, cpu, listed in ((0, 0, 0), (0, 1, 0), (0, 2, 1), (0, 5, 1), (0, 6, 1), (3, 3, 0)):
        s = booted().again()
        s.run(0, 1, 5)
        s.k.this_cpu, p = here, s.task(cpu)
        p.state = WAKING
        s.call(wakeup_jit.queue_woken, p)
        assert s.of(queue_jit.pending)(s.k, s.of(queue_jit.event_of)(cpu_event.TTWU, cpu)) == listed
        assert (s.k.rqs[cpu].wake_list == p) == (not p.se.on_rq) == listed


def test_a_wake_list_is_emptied_in_order():
    s = Still(machine(2, 4))
    a, b = s.task(2), s.task(2)
    for p in (a, b):
        p.state = WAKING
        s.call(wakeup_jit.queue_woken, p)
    assert (s.k.rqs[2].wake_list, a.wait_next) == (a, b)
    assert not s.call(idle_cpu, 2)
    s.k.this_cpu = 2
    s.call(wakeup_jit.ttwu_pending, 2)
    assert tasks_of(s.k.rqs[2]) == [b, a]


def test_a_task_that_wakes_elsewhere_is_subtracted_later():
    s = Still(machine())
    [p] = s.run(1)
    s.later(100 * MS)
    s.sleeps(p)
    old = s.cfs(1)
    assert old.avg.load_avg > 800
    assert (p.se.avg.load_avg, p.se.avg.util_avg) == (old.avg.load_avg, old.avg.util_avg)
    before = p.se.avg.util_avg
    s.later(32 * 1_048_576)  # 32 periods of 1024 * 1024 ns: half
    p.state = WAKING
    s.fair.migrate_task_rq(s.k, p)
    s.call(entity_jit.set_task_rq, p, 2)
    assert abs(p.se.avg.util_avg - before / 2) < 3  # CPU 1 is idle, so the time since then counts
    assert (old.removed_nr, old.removed_util) == (1, before)
    assert p.se.avg.last_update == 0
    assert p.se.exec_start == 0
    s.call(pelt.update_queue, old)
    assert old.removed_nr == 0
    assert old.avg.load_avg == old.avg.util_avg == old.avg.runnable_avg == 0
    # less than 1 of an average
    assert max(old.avg.load_sum, old.avg.util_sum >> 10) < pelt.MIN_DIVIDER
    s.fair.enqueue_task(s.k, p, arrival.WOKEN)
    assert s.cfs(2).avg.util_avg == p.se.avg.util_avg > 0


def test_a_sleeper_that_moves_stays_asleep_and_keeps_its_lag():
    s = Still(machine())
    a, b = s.run(1, 1)
    s.later(MS)
    s.sleeps(a)
    assert a.se.sched_delayed
    assert a.se.on_rq
    estimate = s.cfs(1).avg.util_est
    s.call(schedule_jit.move_task, a, 2, log_op.PERIODIC)
    for cpu, queued, delayed in ((1, 1, 0), (2, 1, 1)):
        q = s.cfs(cpu)
        assert (q.h_nr_running, q.h_nr_delayed, q.nr_running) == (queued, delayed, queued)
    assert s.cfs(1).avg.util_est == estimate
    assert s.cfs(2).avg.util_est == 0
    assert a.se.sched_delayed
    # CPU 2 finds nothing to run: it picks the sleeper, which then leaves
    s.k.this_cpu = 2
    s.schedule(2)
    assert s.k.rqs[2].nr_running == s.cfs(2).h_nr_delayed == 0
    assert not a.se.sched_delayed
    assert b.se.on_rq


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 8 * MS), min_size=4, max_size=12), st.integers(0, 3))
def test_a_move_keeps_the_lag_of_a_task(times, others):
    """After a move the task is as far from the average of its new queue as it was from that of the old one."""
    s = booted().again()
    tasks = s.run(1, 1, *[2] * others)
    for ns in times:
        s.later(ns)
        for cpu in (1, 2):
            s.k.this_cpu = cpu
            s.call(update_curr, s.cfs(cpu))
            s.schedule(cpu)
    p = next(p for p in tasks[:2] if s.k.rqs[1].curr != p)
    lag = s.call(entity_lag, s.call(avg_vruntime, s.cfs(1)), p.se)
    distance = p.se.deadline - p.se.vruntime
    s.k.this_cpu = 2
    s.call(schedule_jit.move_task, p, 2, log_op.PERIODIC)
    assert p.se.deadline - p.se.vruntime == distance
    kept = s.call(avg_vruntime, s.cfs(2)) - p.se.vruntime
    assert kept == 0 if others == 0 else abs(kept - lag) <= 2


def test_a_dying_cpu_pushes_its_tasks_in_the_order_in_which_it_picks_them():
    s = Still(machine(2, 4))
    a, b, c = s.run(1, 1, 1)
    s.later(MS)
    s.sleeps(a)
    assert a.se.sched_delayed
    s.call(cpusets_jit.exclude, cpuset.ACTIVE, 1)
    s.k.this_cpu = 1
    s.log()
    s.call(schedule_jit.stopper_begin, 1)
    s.call(hotplug_jit.push_all, 1)
    moved = [r for r in s.log() if r[log_column.KIND] == log_kind.MIGRATE]
    # b ran, so it was put back behind c, whose deadline is the same
    assert [(r[log_column.PID], r[log_column.CPU]) for r in moved] == [(c.pid, 0), (b.pid, 0)]
    assert not a.se.on_rq
    s.call(schedule_jit.stopper_end, 1)
    assert s.k.rqs[1].nr_running == s.cfs(1).nr_running == 0


def test_a_dying_cpu_leaves_the_load_of_its_groups():
    s = Still(machine(), groups=1)
    tg = s.cfs(0, 1).task_group
    for cpu, load in ((0, 700), (1, 300)):
        s.cfs(cpu, 1).avg.load_avg = load
        s.later(MS)
        s.call(pelt.update_tg_load_avg, s.cfs(cpu, 1))
    assert tg.load_avg == 1000
    s.call(cpusets_jit.exclude, cpuset.ACTIVE, 1)
    s.fair.rq_offline(s.k, 1)
    assert tg.load_avg == 700
    s.later(MS)
    s.call(pelt.update_tg_load_avg, s.cfs(1, 1))
    assert tg.load_avg == 700  # an offline CPU reports nothing
