"""How v6.12.107 moves tasks in the reference: who balances, which tasks go, affinity, active balance; by hand."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.still_v6_12 import Still, machine

from wastedcores.simulator.reference import balance_v6_12 as balance
from wastedcores.simulator.reference import schedule
from wastedcores.simulator.reference.stats import IDLE, NEWLY_IDLE, NOT_IDLE
from wastedcores.simulator.reference.stats_v6_12 import Env

MS = 1_000_000


def env_of(s: Still, cpu: int, level: int = -1, idle: str = IDLE, src: int = -1) -> Env:
    sd = s.k.rqs[cpu].sd[level]
    return Env(sd, cpu, idle, set(sd.span), frozenset(sd.groups[0].mask), src_cpu=src)


def pull(s: Still, cpu: int, level: int = -1, idle: str = IDLE) -> int:
    s.k.cpu = cpu
    return balance.load_balance(s.k, cpu, s.k.rqs[cpu].sd[level], idle)[0]


# --- who balances -----------------------------------------------------------------------------------------------------


def designated(s: Still, level: int, group: list[int]) -> list[int]:
    return [c for c in group if balance.should_we_balance(s.k, env_of(s, c, level))]


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


@settings(max_examples=40, deadline=None)
@given(st.sets(st.integers(0, 15)))
def test_exactly_one_cpu_balances_for_each_group(busy):
    s = Still(machine(2, 8, threads=2))
    s.run(*busy)
    for level in range(3):
        groups = {tuple(rq.sd[level].groups[0].cpus) for rq in s.k.rqs}
        for group in groups:
            assert len(designated(s, level, list(group))) == 1


def test_a_newly_idle_cpu_balances_unless_a_task_arrives():
    s = Still(machine(1, 4))
    env = env_of(s, 3, idle=NEWLY_IDLE)
    assert balance.should_we_balance(s.k, env)
    s.k.rqs[3].wake_list.append(s.task(3))
    assert not balance.should_we_balance(s.k, env)
    s.k.rqs[3].wake_list.clear()
    s.run(3)
    assert not balance.should_we_balance(s.k, env)


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
    env = env_of(s, 0, src=1)
    env.migration, env.imbalance, env.loop_max = "task", 5, 32
    assert len(balance.detach_tasks(s.k, env)) == 1
    assert not balance.detach_tasks(s.k, env)


def test_cache_hot_tasks_stay_until_balancing_failed_often_enough():
    s = Still(machine(1, 4))
    _, p = s.run(1, 1)
    sd = s.k.rqs[0].sd[0]
    p.se.exec_start = s.k.now_ns - 499_999
    assert [pull(s, 0), pull(s, 0)] == [0, 0]
    assert sd.nr_balance_failed == 2  # more than cache_nice_tries = 1
    assert pull(s, 0) == 1
    assert sd.nr_balance_failed == 0


def test_a_task_is_cold_after_half_a_millisecond_and_among_the_threads_of_a_core():
    s = Still(machine(1, 4, threads=2))
    _, p = s.run(1, 1)
    p.se.exec_start = s.k.now_ns - 499_999
    assert not balance.task_hot(s.k, env_of(s, 0, 0, src=1), p)
    assert balance.task_hot(s.k, env_of(s, 0, 1, src=1), p)
    p.se.exec_start -= 1
    assert not balance.task_hot(s.k, env_of(s, 0, 1, src=1), p)
    p.se.cfs_rq.next = p.se
    assert not balance.task_hot(s.k, env_of(s, 0, 1, src=1), p)
    s.run(0)
    assert balance.task_hot(s.k, env_of(s, 0, 1, src=1), p)


@pytest.mark.parametrize(
    ("migration", "imbalance", "failed", "moves"),
    [
        ("load", 999, 0, 1), ("load", 998, 0, 0), ("load", 499, 1, 1), ("load", 498, 1, 0),
        ("util", 400, 0, 1), ("util", 399, 0, 0), ("util", 200, 1, 1), ("task", 1, 0, 1),
    ],
)  # fmt: skip
def test_a_task_that_is_larger_than_the_imbalance_stays(migration, imbalance, failed, moves):
    s = Still(machine(1, 4))
    _, p = s.run(1, 1)
    p.se.exec_start = 0
    p.se.avg.load_avg, p.se.avg.util_avg, p.se.avg.util_est = 1000, 300, 400
    s.k.rqs[1].cfs.avg.load_avg = 2000  # task_h_load: 1000 * 2000 // 2001 = 999
    env = env_of(s, 0, src=1)
    env.migration, env.imbalance, env.loop_max = migration, imbalance, 32
    env.sd.nr_balance_failed = failed
    assert len(balance.detach_tasks(s.k, env)) == moves
    assert env.asked.heavy == 1 - moves or not moves


def test_a_sleeper_that_is_still_queued_moves_like_others():
    s = Still(machine(1, 4))
    running, p = s.run(1, 1)
    p.state, p.se.sched_delayed, p.se.exec_start = "S", True, 0
    s.k.rqs[1].cfs.h_nr_delayed = 1
    assert pull(s, 0) == 1
    rq = s.k.rqs[0]
    assert (p.cpu, rq.nr_running, rq.cfs.h_nr_delayed, s.k.rqs[1].cfs.h_nr_delayed) == (0, 1, 1, 0)
    # it gives the CPU nothing to run: the choice ends its delayed dequeue, and the CPU stays idle
    s.k.cpu = 0
    schedule.schedule(s.k, rq)
    assert (rq.curr is rq.idle_task, rq.nr_running, rq.cfs.h_nr_delayed) == (True, 0, 0)
    assert running.cpu == 1


# --- affinity ---------------------------------------------------------------------------------------------------------


def pinned(s: Still, cpu: int, *masks) -> list:
    out = s.run(*[cpu] * len(masks))
    for p, mask in zip(out, masks, strict=True):
        p.allowed = frozenset(mask)
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
    sd = s.k.rqs[0].sd[0]
    assert pull(s, 0, 0) == 0
    assert sd.parent.groups[0].sgc.imbalance
    assert (sd.nr_balance_failed, sd.balance_interval) == (1, 4)
    # with all three pinned, the next try finds nothing else, and leaves the mark
    s.k.rqs[1].curr.allowed = frozenset([1])
    assert pull(s, 0, 0) == 0
    assert sd.parent.groups[0].sgc.imbalance
    assert (sd.nr_balance_failed, sd.balance_interval) == (0, 8)
    s.k.rqs[1].cfs.h_nr_running = s.k.rqs[1].nr_running = 1
    assert pull(s, 0, 0) == 0
    assert not sd.parent.groups[0].sgc.imbalance


def test_queues_whose_tasks_are_all_pinned_are_left_out():
    s = Still(machine(1, 4))
    pinned(s, 1, [1], [1], [1])
    s.run(2, 2)[1].se.exec_start = 0
    assert pull(s, 0) == 1
    assert s.k.rqs[2].nr_running == 1


def test_the_interval_grows_to_512_ms_if_all_tasks_are_pinned():
    s = Still(machine(1, 2))
    for p in s.run(1, 1, 1):
        p.allowed = frozenset([1])
    sd = s.k.rqs[0].sd[0]
    seen = []
    for _ in range(10):
        sd.nr_balance_failed = 3
        assert pull(s, 0) == 0
        seen.append(sd.balance_interval)
    assert sd.nr_balance_failed == 0
    assert seen == [4, 8, 16, 32, 64, 128, 256, 512, 512, 512]


def test_a_balanced_domain_is_looked_at_half_as_often():
    s = Still(machine(1, 4))
    sd = s.k.rqs[0].sd[0]
    assert (pull(s, 0), sd.balance_interval) == (0, 8)
    assert (pull(s, 0), sd.balance_interval) == (0, 8)
    s.run(2, 2)[1].se.exec_start = 0
    assert (pull(s, 0, idle=NEWLY_IDLE), sd.balance_interval) == (1, 4)
    assert (pull(s, 1, idle=NEWLY_IDLE), s.k.rqs[1].sd[0].balance_interval) == (0, 4)


# --- active balance ---------------------------------------------------------------------------------------------------


def test_the_running_task_is_pushed_after_four_failures():
    s = Still(machine(1, 4))
    sd, src = s.k.rqs[0].sd[0], s.k.rqs[1]
    running, p = s.run(1, 1)
    p.allowed = frozenset([1, 2])
    s.run(2, 3)
    for failed in (1, 2, 3):
        assert pull(s, 0) == 0
        assert (sd.nr_balance_failed, src.active_balance) == (failed, False)
    assert pull(s, 0) == 0
    assert (sd.nr_balance_failed, src.active_balance, src.push_cpu) == (4, True, 0)
    assert sd.balance_interval == sd.min_interval
    s.k.cpu = 1
    schedule.run_stopper(s.k, src, lambda: balance.active_load_balance(s.k, src))
    assert (running.cpu, p.cpu, src.active_balance, sd.nr_balance_failed) == (0, 1, False, 0)
    assert src.curr is p


def test_no_active_balance_if_the_running_task_may_not_come():
    s = Still(machine(1, 4))
    sd, src = s.k.rqs[0].sd[0], s.k.rqs[1]
    running, p = s.run(1, 1)
    running.allowed = p.allowed = frozenset([1, 2])
    s.run(2, 3)
    sd.nr_balance_failed, sd.balance_interval = 3, 8
    assert pull(s, 0) == 0
    assert not src.active_balance


# --- decisions --------------------------------------------------------------------------------------------------------


def test_decisions_say_what_was_compared():
    s = Still(machine(2, 4))
    s.k.decisions = True
    s.run(4, 4)
    assert pull(s, 0) == 0
    [event] = [dict(e.columns) for e in s.k.log if e.kind == "decision"]
    text = json.loads(event["text"])
    assert event["op"] == "balanced"
    assert (text["compares"], text["reason"], text["migration"]) == (
        "group_type",
        "no imbalance",
        "task",
    )
    assert text["groups"]["type"] == ["has_spare", "has_spare"]
    assert text["groups"]["nr_running"] == [0, 2]
    assert pull(s, 1, idle=NOT_IDLE) == 0
    assert [dict(e.columns)["op"] for e in s.k.log if e.kind == "decision"] == [
        "balanced",
        "not_designated",
    ]
