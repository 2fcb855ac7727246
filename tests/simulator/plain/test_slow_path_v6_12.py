"""Forks, execs, wake lists and migration under v6.12.107 in the reference: every branch, on cases computed by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.still_v6_12 import Still, machine

from wastedcores.simulator.reference import eevdf_class, schedule, tasks_v6_12
from wastedcores.simulator.reference import group_stats_v6_12 as groups
from wastedcores.simulator.reference import pelt_v6_12 as pelt
from wastedcores.simulator.reference import placement_v6_12 as placement
from wastedcores.simulator.reference import signals_v6_12 as signals
from wastedcores.simulator.reference import slow_path_v6_12 as slow
from wastedcores.simulator.reference.eevdf import avg_vruntime, entity_lag
from wastedcores.simulator.reference.state import SchedAvg

MS = 1_000_000


# --- signals ----------------------------------------------------------------------------------------------------------


def test_the_use_of_a_cpu_with_and_without_a_task():
    s = Still(machine())
    k, p = s.k, s.task(1)
    k.rqs[1].cfs.avg = SchedAvg(last_update=1, util_avg=300, runnable_avg=500, util_est=250)
    p.se.avg.util_avg, p.se.avg.runnable_avg, p.se.avg.util_est = 200, 350, 100
    assert signals.cpu_util(k, 1) == 300
    assert signals.cpu_util(k, 1, boost=True) == 500
    assert signals.cpu_util(k, 1, p) == 250  # 300 - 200, but the estimate is of queued tasks only
    assert signals.cpu_util(k, 1, p, 1) == 350  # it stays: 300, and 250 + 100
    assert signals.cpu_util(k, 2, p, 2) == 200
    assert signals.cpu_util(k, 2, p, 2, boost=True) == 350
    assert signals.cpu_util(k, 1, p, boost=True) == 250  # max(300 - 200, 500 - 350)
    p.se.on_rq = True
    assert signals.cpu_util(k, 1, p) == 150
    k.rqs[1].cfs.avg.util_avg = 5000
    assert signals.cpu_util(k, 1) == 1024
    assert signals.task_util_est(p) == 200


def test_a_task_that_is_new_or_elsewhere_contributes_nothing():
    s = Still(machine())
    k, p = s.k, s.task(1)
    avg = k.rqs[1].cfs.avg
    avg.load_avg, avg.runnable_avg, avg.util_avg = 2000, 900, 700
    p.se.avg.load_avg, p.se.avg.runnable_avg, p.se.avg.util_avg = 500, 1000, 300

    def without(cpu):
        rq = k.rqs[cpu]
        return (
            signals.cpu_load_without(k, rq, p),
            signals.cpu_runnable_without(rq, p),
            signals.cpu_util_without(k, cpu, p),
        )

    assert without(1) == (2000 - 499, 0, 400)
    assert without(2) == (0, 0, 0)
    p.se.avg.last_update = 0
    assert without(1) == (2000, 900, 700)


def test_the_load_of_a_task_in_a_group_is_its_part_of_the_groups():
    s = Still(machine())
    k = s.k
    tg = k.add_group("g", 1024)
    p = s.task(1)
    p.tg = tg
    eevdf_class.set_task_rq(p, 1)
    k.rqs[1].cfs.avg.load_avg, tg.se[1].avg.load_avg = 3000, 1000
    tg.cfs_rq[1].avg.load_avg, p.se.avg.load_avg = 2000, 700
    # the queue: 3000 * 1000 // 3001 = 999, the task: 700 * 999 // 2001 = 349
    assert signals.task_h_load(k, p) == 349
    k.rqs[1].cfs.avg.load_avg = 0
    assert signals.task_h_load(k, p) == 349  # computed once per jiffy
    k.now_ns += 4 * MS
    assert signals.task_h_load(k, p) == 0


# --- groups -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sums", "type_"),
    [
        ({"sum_nr": 3, "util": 4096, "runnable": 9000}, groups.HAS_SPARE),
        ({"sum_nr": 4, "util": 3500}, groups.HAS_SPARE),  # 409600 > 409500
        ({"sum_nr": 4, "util": 3501}, groups.FULLY_BUSY),  # 409600 < 409617
        ({"sum_nr": 4, "runnable": 4793}, groups.FULLY_BUSY),  # 4096 * 117 < 479300
        ({"sum_nr": 5, "util": 3500, "runnable": 4792}, groups.HAS_SPARE),
        ({"sum_nr": 5, "util": 3501}, groups.OVERLOADED),
        ({"sum_nr": 5, "runnable": 4793}, groups.OVERLOADED),
        ({"sum_nr": 4, "util": 3501, "smt_balance": True}, groups.SMT_BALANCE),
    ],
)
def test_types_of_groups(sums, type_):
    group = Still(machine(2, 4)).k.rqs[0].sd[-1].groups[0]
    s = groups.GroupStats(group, capacity=4096, weight=4, **sums)
    s.classify(117)
    assert s.type == type_
    group.sgc.imbalance = True
    s.classify(117)
    assert s.type == (groups.OVERLOADED if type_ == groups.OVERLOADED else groups.IMBALANCED)


@given(st.integers(0, 8), st.integers(0, 9000), st.integers(0, 9000))
def test_a_group_with_fewer_tasks_than_cpus_has_room(nr, util, runnable):
    group = Still(machine(2, 4)).k.rqs[0].sd[-1].groups[0]
    s = groups.GroupStats(group, capacity=4096, weight=4, sum_nr=nr, util=util, runnable=runnable)
    s.classify(117)
    assert nr >= 4 or s.type == groups.HAS_SPARE
    assert nr > 4 or s.type != groups.OVERLOADED


@pytest.mark.parametrize(
    ("imbalance", "running", "rest"), [(2, 4, 0), (2, 5, 2), (3, 4, 3), (0, 9, 0)]
)
def test_the_allowance_between_nodes(imbalance, running, rest):
    assert groups.adjust_numa_imbalance(imbalance, running, 4) == rest


def stats(**values):
    return groups.GroupStats(Still(machine(2, 4)).k.rqs[0].sd[-1].groups[0], **values)


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
    assert slow.is_idler(stats(**best), stats(**other)) is better


@pytest.mark.parametrize(
    ("local", "idlest", "stays"),
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
def test_the_local_group_or_the_best_one(local, idlest, stays):
    s = Still(machine(2, 4))
    sd = s.k.rqs[0].sd[-1]
    assert (sd.has("NUMA"), sd.imb_numa_nr) == (True, 1)
    assert slow.stays_local(sd, s.task(), stats(**local), stats(**idlest)) is stays


def test_inside_a_node_a_load_must_differ_by_both_limits():
    s = Still(machine(1, 8, l2=4))
    sd = s.k.rqs[0].sd[-1]
    assert not sd.has("NUMA")
    p = s.task()
    for local, idlest, stays in ((1174, 1000, False), (1170, 1000, True), (800, 1000, True)):
        a, b = stats(type=6, avg_load=local), stats(type=6, avg_load=idlest)
        assert slow.stays_local(sd, p, a, b) is stays
    assert slow.stays_local(sd, p, stats(type=6, avg_load=20), stats(type=6, avg_load=200))
    assert not slow.stays_local(sd, p, stats(idle_cpus=1), stats(idle_cpus=2))
    assert slow.stays_local(sd, p, stats(idle_cpus=2), stats(idle_cpus=2))


def test_the_statistics_leave_the_task_and_forbidden_cpus_out():
    s = Still(machine(2, 4))
    [p, _, _] = s.run(0, 1, 4)
    sd = s.k.rqs[0].sd[-1]
    group = sd.groups[0]
    own = slow.update_sg_wakeup_stats(s.k, sd, group, p)
    assert (own.sum_nr, own.sum_h_nr, own.idle_cpus, own.weight) == (1, 1, 3, 4)
    p.allowed = frozenset([0, 1, 5])
    own = slow.update_sg_wakeup_stats(s.k, sd, group, p)
    assert (own.sum_nr, own.idle_cpus) == (1, 1)
    s.k.rqs[0].wake_list.append(s.task())
    assert slow.update_sg_wakeup_stats(s.k, sd, group, p).idle_cpus == 0


# --- CPUs of a group --------------------------------------------------------------------------------------------------


def test_the_cpu_that_became_idle_last():
    s = Still(machine(1, 4))
    group = Still(machine(2, 4)).k.rqs[0].sd[-1].groups[0]
    p = s.task()
    assert slow.find_dst_group_cpu(s.k, group, p, 0, 0) == 3
    s.k.rqs[1].idle_stamp = 5000
    assert slow.find_dst_group_cpu(s.k, group, p, 0, 0) == 1
    p.allowed = frozenset([0, 2])
    assert slow.find_dst_group_cpu(s.k, group, p, 0, 0) == 2
    s.k.rqs[0].idle_stamp = s.k.rqs[2].idle_stamp = 0
    assert (
        slow.find_dst_group_cpu(s.k, group, p, 3, 0) == 3
    )  # an idle CPU without a stamp is not found


def test_the_least_loaded_cpu_if_none_is_idle():
    s = Still(machine(1, 4))
    group = Still(machine(2, 4)).k.rqs[0].sd[-1].groups[0]
    s.run(0, 1, 2, 3)
    for rq, load in zip(s.k.rqs, (900, 800, 700, 700), strict=True):
        rq.cfs.avg.load_avg = load
    assert slow.find_dst_group_cpu(s.k, group, s.task(), 0, 0) == 2


# --- forks and execs --------------------------------------------------------------------------------------------------


def fork(s: Still, p, cpu: int) -> int:
    p.se.avg.last_update = 0
    return placement.select_task_rq_fair(s.k, p, cpu, "fork", cpu, False)


def test_forks_leave_a_node_when_it_has_less_room():
    s = Still(machine(2, 8))  # imb_numa_nr is 1
    s.run(0)
    assert (
        fork(s, s.task(0), 0) == 15
    )  # one task here already, and the other node has one idle CPU more
    s.run(15)
    assert (
        fork(s, s.task(0), 0) == 1
    )  # as many idle CPUs on both nodes, and the first one of this node


def test_a_large_node_keeps_its_first_forks():
    s = Still(machine(2, 16))
    assert s.k.rqs[0].sd[-1].imb_numa_nr == 2
    s.run(0)
    assert fork(s, s.task(0), 0) == 1
    s.run(1)
    assert fork(s, s.task(0), 0) == 31
    # the mask leaves one CPU of the local node, so no second task is allowed there
    s = Still(machine(2, 16))
    s.run(0)
    assert fork(s, s.task(0, allowed=[0, 16]), 0) == 16
    assert fork(s, s.task(0, allowed=[0, 1, 16]), 0) == 1


def test_forks_and_execs_of_bound_tasks_and_without_idle_cpus():
    s = Still(machine(2, 4))
    assert fork(s, s.task(0, allowed=[2, 3]), 0) == 2
    tasks = s.run(*range(8))
    for rq in s.k.rqs:
        rq.cfs.avg.load_avg = rq.cfs.avg.util_avg = 1000
    assert placement.select_task_rq_fair(s.k, tasks[1], 1, "exec", 1, False) == 1
    q = s.task(0)
    q.allowed = frozenset([99])
    assert slow.find_dst_cpu(s.k, s.k.rqs[0].sd[-1], q, 0, 5, "fork") == 5


def test_execs_go_where_more_cpus_are_idle():
    s = Still(machine(2, 8))
    tasks = s.run(0, 1, 2)
    assert placement.select_task_rq_fair(s.k, tasks[0], 0, "exec", 0, False) == 15


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_forks_get_an_allowed_cpu_and_an_idle_one_if_their_node_has_any(data):
    s = Still(machine(data.draw(st.sampled_from([1, 2, 4])), 4, data.draw(st.sampled_from([1, 2]))))
    cpus = len(s.k.rqs)
    busy = data.draw(st.lists(st.integers(0, cpus - 1), max_size=2 * cpus))
    s.run(*busy)
    allowed = data.draw(st.sets(st.integers(0, cpus - 1), min_size=1))
    cpu = data.draw(st.sampled_from(sorted(allowed)))
    chosen = fork(s, s.task(cpu, allowed=allowed), cpu)
    assert chosen in allowed
    if not set(busy) & allowed:
        assert s.k.idle_cpu(chosen)


# --- wake lists, migration --------------------------------------------------------------------------------------------


def test_a_task_is_left_to_an_idle_cpu_or_to_another_llc_to_queue():
    s = Still(machine(2, 4))
    s.run(0, 1, 5)
    for cpu, listed in ((0, False), (1, False), (2, True), (5, True), (6, True)):
        assert schedule.needs_wake_list(s.k, s.task(cpu), 0) is listed
    assert not schedule.needs_wake_list(s.k, s.task(3), 3)


def test_a_wake_list_is_emptied_in_order():
    s = Still(machine(2, 4))
    a, b = s.task(2), s.task(2)
    for p in (a, b):
        p.state = "waking"
        schedule.queue_woken(s.k, p, 0)
    assert s.k.rqs[2].wake_list == [a, b]
    assert not s.k.idle_cpu(2)
    s.k.cpu = 2
    schedule.sched_ttwu_pending(s.k, s.k.rqs[2])
    assert s.k.rqs[2].cfs_tasks == [b, a]


def test_a_task_that_wakes_elsewhere_is_subtracted_later():
    s = Still(machine())
    [p] = s.run(1)
    s.k.now_ns += 100 * MS
    p.state = "S"
    schedule.schedule(s.k, s.k.rqs[1])
    old = s.k.rqs[1].cfs
    assert old.avg.load_avg > 800
    assert (p.se.avg.load_avg, p.se.avg.util_avg) == (old.avg.load_avg, old.avg.util_avg)
    before = p.se.avg.util_avg
    s.k.now_ns += 32 * 1_048_576  # 32 periods of 1024 * 1024 ns: half
    p.state = "waking"
    s.k.set_task_cpu(p, 2)
    assert abs(p.se.avg.util_avg - before / 2) < 3  # CPU 1 is idle, so the time since then counts
    assert (old.removed_nr, old.removed_util) == (1, before)
    assert p.se.avg.last_update == 0
    assert p.se.exec_start == 0
    pelt.update_queue(s.k.now_ns, old)
    assert old.removed_nr == 0
    assert old.avg.load_avg == old.avg.util_avg == old.avg.runnable_avg == 0
    assert (
        max(old.avg.load_sum, old.avg.util_sum >> 10) < pelt.MIN_DIVIDER
    )  # less than 1 of an average
    eevdf_class.enqueue_task(s.k, s.k.rqs[2], p, wakeup=True)
    assert s.k.rqs[2].cfs.avg.util_avg == p.se.avg.util_avg > 0


def test_a_sleeper_that_moves_stays_asleep_and_keeps_its_lag():
    s = Still(machine())
    a, b = s.run(1, 1)
    s.k.now_ns += 1 * MS
    a.state = "S"
    schedule.schedule(s.k, s.k.rqs[1])
    assert a.se.sched_delayed
    assert a.se.on_rq
    estimate = s.k.rqs[1].cfs.avg.util_est
    schedule.move_task(s.k, a, 2, "periodic")
    for cpu, queued, delayed in ((1, 1, 0), (2, 1, 1)):
        q = s.k.rqs[cpu].cfs
        assert (q.h_nr_running, q.h_nr_delayed, q.nr_running) == (queued, delayed, queued)
    assert s.k.rqs[1].cfs.avg.util_est == estimate
    assert s.k.rqs[2].cfs.avg.util_est == 0
    assert a.se.sched_delayed
    # CPU 2 finds nothing to run: it picks the sleeper, which then leaves
    s.k.cpu = 2
    schedule.schedule(s.k, s.k.rqs[2])
    assert s.k.rqs[2].nr_running == s.k.rqs[2].cfs.h_nr_delayed == 0
    assert not a.se.sched_delayed
    assert b.se.on_rq


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 8 * MS), min_size=4, max_size=12), st.integers(0, 3))
def test_a_move_keeps_the_lag_of_a_task(times, others):
    """After a move the task is as far from the average of its new queue as it was from that of the old one."""
    s = Still(machine())
    tasks = s.run(1, 1, *[2] * others)
    for ns in times:
        s.k.now_ns += ns
        for cpu in (1, 2):
            s.k.cpu = cpu
            eevdf_class.update_curr(s.k, s.k.rqs[cpu].cfs)
            schedule.schedule(s.k, s.k.rqs[cpu])
    p = next(p for p in tasks[:2] if s.k.rqs[1].curr is not p)
    old, new = s.k.rqs[1].cfs, s.k.rqs[2].cfs
    lag = entity_lag(s.k, avg_vruntime(old), p.se)
    distance = p.se.deadline - p.se.vruntime
    s.k.cpu = 2
    schedule.move_task(s.k, p, 2, "periodic")
    assert p.se.deadline - p.se.vruntime == distance
    kept = avg_vruntime(new) - p.se.vruntime
    assert kept == 0 if others == 0 else abs(kept - lag) <= 2


def test_a_dying_cpu_pushes_its_tasks_in_the_order_in_which_it_picks_them():
    s = Still(machine(2, 4))
    a, b, c = s.run(1, 1, 1)
    s.k.now_ns += 1 * MS
    a.state = "S"
    schedule.schedule(s.k, s.k.rqs[1])
    assert a.se.sched_delayed
    s.k.active.discard(1)
    s.k.cpu = 1
    moved = []
    s.k.emit = lambda kind, **columns: moved.append(columns) if kind == "migrate" else None
    schedule.run_stopper(s.k, s.k.rqs[1], lambda: tasks_v6_12.push_all(s.k, s.k.rqs[1]))
    # b ran, so it was put back behind c, whose deadline is the same
    assert [(m["pid"], m["cpu"]) for m in moved] == [(c.pid, 0), (b.pid, 0)]
    assert not a.se.on_rq
    assert s.k.rqs[1].nr_running == s.k.rqs[1].cfs.nr_running == 0


def test_a_dying_cpu_leaves_the_load_of_its_groups():
    s = Still(machine())
    tg = s.k.add_group("g", 1024)
    for cpu, load in ((0, 700), (1, 300)):
        tg.cfs_rq[cpu].avg.load_avg = load
        s.k.now_ns += MS
        pelt.update_tg_load_avg(s.k.now_ns, tg.cfs_rq[cpu])
    assert tg.load_avg == 1000
    s.k.rqs[1].online = False
    tasks_v6_12.leave_groups(s.k, s.k.rqs[1])
    assert tg.load_avg == 700
    s.k.now_ns += MS
    pelt.update_tg_load_avg(s.k.now_ns, tg.cfs_rq[1])
    assert tg.load_avg == 700  # an offline CPU reports nothing
