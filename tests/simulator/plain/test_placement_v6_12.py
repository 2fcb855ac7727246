"""Placement of wakeups under v6.12.107: every branch, on cases computed by hand."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.still_v6_12 import MS, Still, machine

from wastedcores.simulator.engine.balance import idle_sibling_v6_12_jit as sis
from wastedcores.simulator.engine.balance import placement_v6_12_jit as placement
from wastedcores.simulator.engine.balance.select_task_rq_v4_1_jit import record_wakee
from wastedcores.simulator.engine.codes import log_kind, sd_flag
from wastedcores.simulator.engine.world import log_column
from wastedcores.simulator.engine.world.structs import TaskStruct


def sibling(s: Still, p: TaskStruct, prev: int, target: int) -> int:
    return s.call(sis.select_idle_sibling, p, prev, target)


def wake(s: Still, p: TaskStruct, cpu: int) -> int:
    s.k.this_cpu = cpu
    return s.call(placement.select_task_rq_fair, p, sd_flag.BALANCE_WAKE, 0)


# --- wakers and wakees ------------------------------------------------------------------------------------------------


def test_wakees_are_counted_and_halved_after_a_second():
    s = Still(machine())
    waker, a, b = s.task(), s.task(), s.task()
    for p in (a, a, b, a):
        s.call(record_wakee, waker, p)
    assert waker.wakee_flips == 3
    waker.wakee_flip_decay_ts = s.k.jiffies - s.k.hz
    s.call(record_wakee, waker, a)
    assert waker.wakee_flips == 3  # exactly a second is not more than one
    waker.wakee_flip_decay_ts -= 1
    s.call(record_wakee, waker, a)
    assert (waker.wakee_flips, waker.wakee_flip_decay_ts) == (1, s.k.jiffies)


@pytest.mark.parametrize(
    ("waker", "wakee", "wide"),
    [(15, 4, False), (16, 4, True), (4, 16, True), (100, 3, False), (3, 3, False), (19, 5, False)],
)
def test_wake_wide_compares_with_the_size_of_the_llc(waker, wakee, wide):
    s = Still(machine(2, 4))
    [p] = s.run(0)
    p.wakee_flips = waker
    q = s.task(5)
    q.wakee_flips = wakee
    assert s.call(placement.wake_wide, q, 0) == wide


# --- wake_affine() ----------------------------------------------------------------------------------------------------


def test_an_idle_cpu_of_the_waker_counts_only_in_the_same_llc():
    s = Still(machine(2, 4))
    s.run(1)
    assert s.call(placement.wake_affine_idle, 0, 1, False) == 0
    assert s.call(placement.wake_affine_idle, 0, 2, False) == 2  # both are idle
    assert s.call(placement.wake_affine_idle, 0, 5, False) == 5  # the waker's is far away
    s.run(5)
    assert s.call(placement.wake_affine_idle, 0, 5, False) == -1


def test_a_sync_waker_that_runs_alone_gives_its_cpu_away():
    s = Still(machine(2, 4))
    s.run(0)
    assert s.call(placement.wake_affine_idle, 0, 5, True) == 0
    s.k.rqs[0].nr_running, s.cfs(0).h_nr_delayed = 2, 1
    assert s.call(placement.wake_affine_idle, 0, 5, True) == 0  # the other one is asleep
    s.cfs(0).h_nr_delayed = 0
    assert s.call(placement.wake_affine_idle, 0, 5, True) == 5
    s.run(5)
    assert s.call(placement.wake_affine_idle, 0, 5, True) == -1


def weights(here: int, there: int, task: int, current: int = 0, sync: bool = False) -> int:
    """Ask wake_affine_weight() with these loads of the waker's CPU 0, of the last CPU 5, the task and the waker."""
    s = Still(machine(2, 4))
    [waker] = s.run(0)
    s.cfs(0).avg.load_avg = here
    waker.se.avg.load_avg = current
    s.cfs(5).avg.load_avg = there
    p = s.task(5)
    p.se.avg.load_avg = task
    return s.call(placement.wake_affine_weight, s.sd(), p, 0, 5, sync)


def test_loads_are_compared_with_a_bias_of_eight_percent():
    # task_h_load of p: 500 * 2000 // 2001 = 499; the other CPU without it: 1501 * 108 = 162108
    assert weights(1121, 2000, 500) == 0  # (1121 + 499) * 100 = 162000
    assert weights(1123, 2000, 500) == -1  # 162200


def test_a_sync_waker_does_not_count_and_wins_a_tie():
    # the waker: 1000 * 1000 // 1001 = 999, so 1 is left here; the task is 0
    assert weights(1000, 0, 0, 1000) == -1
    assert weights(1000, 1, 0, 1000, sync=True) == 0  # 1 * 100 < 1 * 108 + 1
    assert weights(1000, 0, 0, 1000, sync=True) == -1  # 100 is more than 0 + 1
    assert weights(0, 0, 0, 0, sync=True) == 0  # 0 < 0 + 1
    assert weights(0, 0, 0, 0) == -1


def test_a_task_whose_load_is_above_that_of_its_cpu():
    """The load of its last CPU decayed after it went to sleep, so the difference is negative."""
    s = Still(machine(2, 4))
    p = s.task(5)
    q = s.cfs(5)
    p.se.avg.load_avg, q.avg.load_avg = 1000, 10
    q.h_load, q.last_h_load_update = 1000, s.k.jiffies
    assert s.call(placement.wake_affine_weight, s.sd(), p, 0, 5, False) == -1


# --- select_task_rq_fair() --------------------------------------------------------------------------------------------


def test_a_wakeup_goes_to_the_llc_of_its_last_cpu_or_of_its_waker():
    s = Still(machine(2, 4))
    s.scan(4)
    s.run(0, 4)
    s.cfs(4).avg.load_avg = 5000
    p = s.task(4)
    assert wake(s, p, 0) == 1  # the load on CPU 4 sends it to the LLC of CPU 0
    s.cfs(4).avg.load_avg = 0
    assert wake(s, p, 0) == 5


def test_a_wide_waker_or_an_affinity_keeps_a_wakeup_in_its_llc():
    s = Still(machine(2, 4))
    s.scan(4)
    [waker, _] = s.run(0, 4)
    s.cfs(4).avg.load_avg = 5000
    p = s.task(4, allowed=range(1, 8))
    assert wake(s, p, 0) == 5
    p = s.task(4)
    waker.wakee_flips, p.wakee_flips = 100, 4
    assert wake(s, p, 0) == 5


def test_nodes_farther_than_30_have_no_affine_wakeups():
    s = Still(machine(2, 4, far=40))
    s.scan(4)
    s.run(0, 4)
    s.cfs(4).avg.load_avg = 5000
    assert wake(s, s.task(4), 0) == 5


def test_a_timer_on_an_idle_cpu_counts_as_a_waker():
    s = Still(machine())
    p = s.task(1)
    wake(s, p, 0)
    assert s.cfs(0).rq_modern.wakee_flips == 1


# --- select_idle_sibling() --------------------------------------------------------------------------------------------


def test_target_then_previous_cpu():
    s = Still(machine(2, 4))
    s.scan(4)
    p = s.task(1)
    assert sibling(s, p, 1, 2) == 2
    s.run(2)
    assert sibling(s, p, 1, 2) == 1
    assert p.recent_used_cpu == 0  # neither choice got as far as the recently used CPU


def test_a_bound_kernel_thread_leaves_its_cpu_to_the_task():
    s = Still(machine(2, 4))
    s.scan(4)
    [worker] = s.run(1)
    worker.kthread = 1  # kworker/1:0
    p = s.task(1)
    p.recent_used_cpu = 1
    assert wake(s, p, 1) == 2  # not yet bound
    s.allow(worker, [1])
    p.recent_used_cpu = 1
    assert wake(s, p, 1) == 1
    s.modern.in_interrupt = 1  # a timer interrupted the kworker
    assert wake(s, p, 1) == 2
    s.modern.in_interrupt = 0
    s.k.rqs[1].nr_running = 2
    assert wake(s, p, 1) == 2


def test_the_cpu_that_was_used_before_the_last_wakeup():
    s = Still(machine(2, 4))
    s.scan(0)
    s.run(1, 2)
    p = s.task(1)
    p.recent_used_cpu = 3
    assert sibling(s, p, 1, 2) == 3
    assert p.recent_used_cpu == 1
    assert sibling(s, p, 1, 2) == 2  # CPU 1 is the previous one
    p.recent_used_cpu = 5  # another LLC
    assert sibling(s, p, 1, 2) == 2
    p.recent_used_cpu = 3
    s.allow(p, [0, 1, 2])
    assert sibling(s, p, 1, 2) == 2


def test_without_an_llc_only_the_target_remains():
    s = Still(machine(4, 1))
    s.run(1)
    assert not s.k.rqs[1].sd_llc
    assert sibling(s, s.task(1), 1, 1) == 1


def test_clusters_come_first():
    """Of an LLC with two clusters of four CPUs, the cluster of the target is searched first."""
    s = Still(machine(1, 8, l2=4))
    s.scan(8)
    p = s.task(5)
    s.run(0, 1, 2)
    assert sibling(s, p, 5, 2) == 3  # CPU 5 is idle, but in the other cluster
    s.run(3)
    s.scan(2)
    assert sibling(s, p, 5, 2) == 5  # the search ended in the first cluster; CPU 5 was remembered
    s.run(5)
    p.recent_used_cpu = 7
    assert sibling(s, p, 5, 2) == 7
    s.scan(8)
    # three busy CPUs of the cluster, then those from CPU 3 on
    assert sibling(s, s.task(5), 5, 2) == 4
    s.scan(4)
    assert sibling(s, s.task(5), 5, 2) == 2


# --- select_idle_cpu(), select_idle_core(), select_idle_smt() ---------------------------------------------------------


@pytest.mark.parametrize(("limit", "found"), [(0, 0), (1, 0), (2, 0), (3, 3), (8, 3)])
def test_a_search_looks_at_no_more_cpus_than_allowed(limit, found):
    """CPUs 0, 1 and 2 are busy, and CPU 3 is the third one behind the target."""
    s = Still(machine(1, 8))
    s.scan(limit)
    s.run(0, 1, 2)
    assert sibling(s, s.task(0), 0, 0) == found


def test_a_search_wraps_and_leaves_out_forbidden_cpus():
    s = Still(machine(1, 8))
    s.scan(8)
    s.run(*range(2, 8))
    assert sibling(s, s.task(6), 6, 6) == 0
    assert sibling(s, s.task(6, allowed=[1, 6]), 6, 6) == 1
    assert sibling(s, s.task(6, allowed=[5, 6]), 6, 6) == 6


def test_the_other_thread_of_the_previous_core_comes_before_a_search():
    s = Still(machine(1, 8, threads=2))
    s.scan(8)
    s.run(0, 2)
    assert sibling(s, s.task(2), 2, 0) == 3
    assert sibling(s, s.task(2, allowed=[0, 1, 2]), 2, 0) == 1
    s.run(3)
    assert sibling(s, s.task(2), 2, 0) == 1


def test_an_idle_core_is_searched_without_limit():
    s = Still(machine(1, 8, threads=2))
    s.run(0, 2, 4)
    s.scan(1, idle_cores=1)
    assert sibling(s, s.task(0), 0, 0) == 6
    shared = s.k.rqs[0].sd_llc.shared
    assert shared.has_idle_cores
    s.run(6)
    assert sibling(s, s.task(0), 0, 0) == 1  # the first idle thread met, behind the target
    assert not shared.has_idle_cores
    s.scan(0, idle_cores=1)
    assert sibling(s, s.task(0, allowed=[0, 5]), 0, 0) == 0  # no search at all


def test_a_core_is_idle_when_its_last_cpu_is():
    s = Still(machine(1, 8, threads=2))
    [a, b] = s.run(0, 1)
    shared = s.k.rqs[0].sd_llc.shared
    for p, whole in ((a, False), (b, True)):
        s.later(MS)
        s.sleeps(p)
        assert shared.has_idle_cores == whole


@cache
def booted(threads: int) -> Still:
    return Still(machine(2, 8, threads))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_search_never_looks_farther_than_allowed(data):
    """The CPU that a wakeup gets is in the LLC of the target, and is idle unless it is the target itself."""
    threads = data.draw(st.sampled_from([1, 2]))
    s = booted(threads).again()
    s.k.log_considered = 1
    busy = data.draw(st.sets(st.integers(0, 15)))
    s.run(*busy)
    limit = data.draw(st.integers(0, 8))
    s.scan(limit, idle_cores=data.draw(st.integers(0, 1)))
    cores = s.k.rqs[0].sd_llc.shared.has_idle_cores
    s.log()
    prev, target = data.draw(st.integers(0, 15)), data.draw(st.integers(0, 15))
    chosen = sibling(s, s.task(prev), prev, target)
    assert chosen == target or chosen // 8 == target // 8
    assert chosen == target or chosen not in busy
    # the CPUs of a search are a set of bits in the record behind it
    looked = [r[log_column.CPU] for r in s.log() if r[log_column.KIND] == log_kind.CONSIDERED_PART]
    for cpus in looked:
        assert (threads == 2 and cores) or cpus.bit_count() <= limit
    if threads == 1 and limit == 8:
        free = [c for c in range(target // 8 * 8, target // 8 * 8 + 8) if c not in busy]
        assert chosen in (free or [target])
