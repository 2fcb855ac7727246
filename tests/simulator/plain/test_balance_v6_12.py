"""How v6.12.107 moves tasks: who balances, which tasks go, affinity, active balance; computed by hand."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.still_v6_12 import MS, Still, machine

from wastedcores.simulator.engine.balance import load_balance_v6_12_jit as balance
from wastedcores.simulator.engine.balance.load_balance_v6_12_jit import task_hot
from wastedcores.simulator.engine.codes import (
    balanced,
    group_type,
    lb_result,
    log_kind,
    log_op,
    task_state,
)
from wastedcores.simulator.engine.codes.idle_type import IDLE, NEWLY_IDLE, NOT_IDLE
from wastedcores.simulator.engine.codes.migration_type import BY_LOAD, BY_TASK, BY_UTIL
from wastedcores.simulator.engine.core import schedule_jit
from wastedcores.simulator.engine.world import decision_record, log_column
from wastedcores.simulator.engine.world.structs import NO_TASK, Decision, DecisionGroup


def pull(s: Still, cpu: int, level: int = -1, idle: int = IDLE) -> int:
    """Return how many tasks came; a CPU that may not balance gets none."""
    s.k.this_cpu = cpu
    found = s.call(balance.load_balance, cpu, s.sd(cpu, level), idle, log_op.PERIODIC)
    return max(found, 0)


# --- who balances -----------------------------------------------------------------------------------------------------


def designated(s: Still, level: int, group: list[int]) -> list[int]:
    return [c for c in group if s.call(balance.should_we_balance, s.env(level, c))]


def test_the_first_cpu_of_an_idle_core_balances_for_its_group():
    s = Still(machine(2, 8, threads=2))
    s.run(0, 3)
    assert designated(s, 1, [0, 1]) == [1]  # the group of a core; its idle CPU
    assert designated(s, 2, list(range(8))) == [4]  # CPUs 1 and 2 share their cores with busy ones
    s.run(4, 6)
    assert designated(s, 2, list(range(8))) == [1]  # no core is idle
    s.run(1, 2, 5, 7)
    assert designated(s, 2, list(range(8))) == [0]
    assert designated(s, 0, [2, 3]) == [2, 3]  # each is a group


@cache
def booted() -> Still:
    return Still(machine(2, 8, threads=2))


@settings(max_examples=40, deadline=None)
@given(st.sets(st.integers(0, 15)))
def test_exactly_one_cpu_balances_for_each_group(busy):
    s = booted().again()
    s.run(*busy)
    for level in range(3):
        for group in {s.cpus_of(s.sd(cpu, level).groups.span) for cpu in range(16)}:
            assert len(designated(s, level, sorted(group))) == 1


def test_a_newly_idle_cpu_balances_unless_a_task_arrives():
    s = Still(machine(1, 4))
    env = s.env(cpu=3, idle=NEWLY_IDLE)
    assert s.call(balance.should_we_balance, env)
    s.k.rqs[3].wake_list = s.task(3)
    assert not s.call(balance.should_we_balance, env)
    s.k.rqs[3].wake_list = NO_TASK
    s.run(3)
    assert not s.call(balance.should_we_balance, env)


# --- which tasks ------------------------------------------------------------------------------------------------------


def test_the_task_that_was_queued_longest_ago_goes_first():
    s = Still(machine(1, 4))
    first, *waiting = s.run(1, 1, 1, 1, 1)
    for i in range(3):
        waiting[i].se.exec_start = s.k.now_ns - MS
    assert pull(s, 0) == 2  # (5 - 0) >> 1
    assert [p.cpu for p in waiting] == [0, 0, 1, 1]
    assert first.cpu == 1
    assert s.k.rqs[0].nr_running == 2
    assert s.k.rqs[0].need_resched


def test_a_newly_idle_cpu_takes_one_task():
    s = Still(machine(1, 4))
    s.run(1, 1, 1, 1, 1)
    assert pull(s, 0, idle=NEWLY_IDLE) == 1


def test_an_idle_cpu_leaves_the_last_task():
    s = Still(machine(1, 4))
    s.run(1, 1)
    env = s.env(src=1)
    env.migration, env.imbalance, env.loop_max = BY_TASK, 5, 32
    assert s.call(balance.detach_tasks, env) == 1
    assert s.call(balance.detach_tasks, env) == 0


def test_cache_hot_tasks_stay_until_balancing_failed_often_enough():
    s = Still(machine(1, 4))
    _, p = s.run(1, 1)
    sd = s.sd(0, 0)
    p.se.exec_start = s.k.now_ns - 499_999
    assert [pull(s, 0), pull(s, 0)] == [0, 0]
    assert sd.nr_balance_failed == 2  # more than cache_nice_tries = 1
    assert pull(s, 0) == 1
    assert sd.nr_balance_failed == 0


def test_a_task_is_cold_after_half_a_millisecond_and_among_the_threads_of_a_core():
    s = Still(machine(1, 4, threads=2))
    _, p = s.run(1, 1)
    p.se.exec_start = s.k.now_ns - 499_999
    assert not s.call(task_hot, p, s.env(0, src=1))
    assert s.call(task_hot, p, s.env(1, src=1))
    p.se.exec_start -= 1
    assert not s.call(task_hot, p, s.env(1, src=1))
    p.se.cfs_rq.next = p.se
    assert not s.call(task_hot, p, s.env(1, src=1))
    s.run(0)
    assert s.call(task_hot, p, s.env(1, src=1))


@pytest.mark.parametrize(
    ("migration", "imbalance", "failed", "moves"),
    [
        (BY_LOAD, 999, 0, 1), (BY_LOAD, 998, 0, 0), (BY_LOAD, 499, 1, 1), (BY_LOAD, 498, 1, 0),
        (BY_UTIL, 400, 0, 1), (BY_UTIL, 399, 0, 0), (BY_UTIL, 200, 1, 1), (BY_TASK, 1, 0, 1),
    ],
)  # fmt: skip
def test_a_task_that_is_larger_than_the_imbalance_stays(migration, imbalance, failed, moves):
    s = Still(machine(1, 4))
    _, p = s.run(1, 1)
    p.se.exec_start = 0
    p.se.avg.load_avg, p.se.avg.util_avg, p.se.avg.util_est = 1000, 300, 400
    s.cfs(1).avg.load_avg = 2000  # task_h_load: 1000 * 2000 // 2001 = 999
    env = s.env(src=1)
    env.migration, env.imbalance, env.loop_max = migration, imbalance, 32
    env.sd.nr_balance_failed = failed
    assert s.call(balance.detach_tasks, env) == moves
    assert (env.heavy == 0) == moves


def test_a_sleeper_that_is_still_queued_moves_like_others():
    s = Still(machine(1, 4))
    running, p = s.run(1, 1)
    p.state, p.se.sched_delayed, p.se.exec_start = task_state.SLEEPING, 1, 0
    s.cfs(1).h_nr_delayed = 1
    assert pull(s, 0) == 1
    rq = s.k.rqs[0]
    assert (p.cpu, rq.nr_running, s.cfs(0).h_nr_delayed, s.cfs(1).h_nr_delayed) == (0, 1, 1, 0)
    # it gives the CPU nothing to run: the choice ends its delayed dequeue, and the CPU stays idle
    s.schedule(0)
    assert (not rq.curr, rq.nr_running, s.cfs(0).h_nr_delayed) == (True, 0, 0)
    assert running.cpu == 1


# --- affinity ---------------------------------------------------------------------------------------------------------


def pinned(s: Still, cpu: int, *masks) -> list:
    out = s.run(*[cpu] * len(masks))
    for p, mask in zip(out, masks, strict=True):
        s.allow(p, mask)
        p.se.exec_start = 0
    return out


def test_a_task_that_may_not_run_here_goes_to_another_cpu_of_the_group():
    s = Still(machine(2, 4))
    running, p, q = pinned(s, 4, [4], [2, 4], [4])
    assert pull(s, 0) == 1
    assert (running.cpu, p.cpu, q.cpu) == (4, 2, 4)


def test_what_affinity_forbids_marks_the_group_of_the_level_above():
    s = Still(machine(2, 4))
    pinned(s, 1, [0, 1], [1], [1])
    sd = s.sd(0, 0)
    assert pull(s, 0, 0) == 0
    assert sd.parent.groups.sgc.imbalance
    assert (sd.nr_balance_failed, sd.balance_interval) == (1, 4)
    # with all three pinned, the next try finds nothing else, and leaves the mark
    s.allow(s.k.rqs[1].curr, [1])
    assert pull(s, 0, 0) == 0
    assert sd.parent.groups.sgc.imbalance
    assert (sd.nr_balance_failed, sd.balance_interval) == (0, 8)
    s.cfs(1).h_nr_running = s.k.rqs[1].nr_running = 1
    assert pull(s, 0, 0) == 0
    assert not sd.parent.groups.sgc.imbalance


def test_queues_whose_tasks_are_all_pinned_are_left_out():
    s = Still(machine(1, 4))
    pinned(s, 1, [1], [1], [1])
    s.run(2, 2)[1].se.exec_start = 0
    assert pull(s, 0) == 1
    assert s.k.rqs[2].nr_running == 1


def test_the_interval_grows_to_512_ms_if_all_tasks_are_pinned():
    s = Still(machine(1, 2))
    for p in s.run(1, 1, 1):
        s.allow(p, [1])
    sd = s.sd(0, 0)
    seen = []
    for _ in range(10):
        sd.nr_balance_failed = 3
        assert pull(s, 0) == 0
        seen.append(sd.balance_interval)
    assert sd.nr_balance_failed == 0
    assert seen == [4, 8, 16, 32, 64, 128, 256, 512, 512, 512]


def test_a_balanced_domain_is_looked_at_half_as_often():
    s = Still(machine(1, 4))
    sd = s.sd(0, 0)
    assert (pull(s, 0), sd.balance_interval) == (0, 8)
    assert (pull(s, 0), sd.balance_interval) == (0, 8)
    s.run(2, 2)[1].se.exec_start = 0
    assert (pull(s, 0, idle=NEWLY_IDLE), sd.balance_interval) == (1, 4)
    assert (pull(s, 1, idle=NEWLY_IDLE), s.sd(1, 0).balance_interval) == (0, 4)


# --- active balance ---------------------------------------------------------------------------------------------------


def test_the_running_task_is_pushed_after_four_failures():
    s = Still(machine(1, 4))
    sd, src = s.sd(0, 0), s.k.rqs[1]
    running, p = s.run(1, 1)
    s.allow(p, [1, 2])
    s.run(2, 3)
    for failed in (1, 2, 3):
        assert pull(s, 0) == 0
        assert (sd.nr_balance_failed, src.active_balance) == (failed, False)
    assert pull(s, 0) == 0
    assert (sd.nr_balance_failed, src.active_balance, src.push_cpu) == (4, True, 0)
    assert sd.balance_interval == sd.min_interval
    s.k.this_cpu = 1
    s.call(schedule_jit.run_stopper, 1)
    assert (running.cpu, p.cpu, src.active_balance, sd.nr_balance_failed) == (0, 1, False, 0)
    assert src.curr == p


def test_no_active_balance_if_the_running_task_may_not_come():
    s = Still(machine(1, 4))
    sd, src = s.sd(0, 0), s.k.rqs[1]
    running, p = s.run(1, 1)
    s.allow(running, [1, 2])
    s.allow(p, [1, 2])
    s.run(2, 3)
    sd.nr_balance_failed, sd.balance_interval = 3, 8
    assert pull(s, 0) == 0
    assert not src.active_balance


# --- decisions --------------------------------------------------------------------------------------------------------


def test_decisions_say_what_was_compared():
    s = Still(machine(2, 4))
    s.k.decisions = s.tasks[-3].row  # rows that nothing else uses here
    s.run(4, 4)
    assert pull(s, 0) == 0
    packed = Decision(s.k, s.k.decisions).prefer_sibling
    assert packed >> decision_record.REASON_SHIFT == balanced.NO_IMBALANCE
    assert packed >> decision_record.MOVES_SHIFT & 3 == 1 + BY_TASK
    seen = [DecisionGroup(s.k, s.k.decisions + 1 + place) for place in range(2)]
    assert [g.type for g in seen] == [group_type.HAS_SPARE] * 2
    assert [g.nr_running for g in seen] == [0, 2]
    assert pull(s, 1, idle=NOT_IDLE) == 0
    records = [r for r in s.log() if r[log_column.KIND] == log_kind.DECISION]
    assert [r[log_column.OTHER] for r in records] == [lb_result.BALANCED, lb_result.NOT_DESIGNATED]
