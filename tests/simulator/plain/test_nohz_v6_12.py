"""When a CPU balances under v6.12.107: ticks, tickless CPUs, newidle balancing; computed by hand, and whole replays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.still_v6_12 import MS, V6_12, Still, chain, machine, tasks_of
from support.watched import watched

from wastedcores.simulator.engine.balance import nohz_v6_12_jit as nohz
from wastedcores.simulator.engine.balance import rebalance_domains_v6_12_jit as levels
from wastedcores.simulator.engine.codes import cpu_event, lb_result, log_op, task_state
from wastedcores.simulator.engine.codes import newidle as rule
from wastedcores.simulator.engine.codes.idle_type import IDLE, NOT_IDLE
from wastedcores.simulator.engine.codes.nohz_kick import BALANCE, NEWILB, NEXT, STATS
from wastedcores.simulator.engine.core import schedule_jit
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.fair.pelt_v6_12_jit import MIN_DIVIDER
from wastedcores.simulator.engine.run_jit import after_event
from wastedcores.simulator.engine.world import random_jit
from wastedcores.simulator.engine.world.structs import CfsRq, TaskStruct
from wastedcores.workload import Script, Workload


def idle_machine(left: int = 1) -> Still:
    """Return a machine whose CPUs are all idle and tickless; no level is due. Averages are ``left`` to update, as at first."""
    s = Still(machine(2, 4))
    for rq in s.k.rqs:
        rq.tick_stopped, rq.next_balance = 1, s.k.jiffies + 1000
        s.call(nohz.nohz_balance_enter_idle, rq.cpu)
    assert (s.modern.nohz_has_blocked, s.modern.nohz_needs_update) == (1, 1)
    s.modern.nohz_has_blocked = s.modern.nohz_needs_update = left
    return s


def waiting(s: Still) -> list[tuple[int, int]]:
    """Return the events that are planned, except ticks, and cancel them."""
    out = []
    for kind in range(cpu_event.RUN, cpu_event.SOFTIRQ + 1):
        for cpu in range(s.k.nr_cpus):
            event = s.of(queue_jit.event_of)(kind, cpu)
            if s.call(queue_jit.pending, event):
                out.append((kind, cpu))
                s.call(queue_jit.cancel, event)
    return out


def rebalance(s: Still, cpu: int, idle: int) -> None:
    s.call(levels.rebalance_domains, cpu, idle, log_op.PERIODIC)


def domains(s: Still, cpu: int) -> list:
    return list(chain(s.k.rqs[cpu].sd, "parent"))


@pytest.mark.parametrize(
    ("weight", "idle", "busy"),
    [(2, 1, 7), (4, 1, 15), (8, 2, 31), (16, 4, 63), (32, 8, 127), (64, 16, 255)],
)
def test_intervals_in_jiffies(weight, idle, busy):
    s = Still(machine(1, weight))
    s.k.max_lb_interval = 1600  # that of 64 CPUs
    sd = s.sd(0, 0)
    assert s.call(levels.interval_of, sd, False) == idle
    assert s.call(levels.interval_of, sd, True) == busy
    s.k.max_lb_interval = 6
    assert s.call(levels.interval_of, sd, True) == 6


def test_a_pass_balances_the_levels_that_are_due():
    s = Still(machine(2, 4))
    now, (near, far) = s.k.jiffies, domains(s, 0)
    near.last_balance = far.last_balance = now - 1
    rebalance(s, 0, IDLE)
    assert [list(sd.lb_count).count(0) for sd in (near, far)] == [20, 21]
    assert near.lb_count[7 * IDLE + lb_result.BALANCED] == 1
    # the interval doubled to 8 ms, two jiffies
    assert (near.last_balance, far.last_balance) == (now, now - 1)
    assert s.k.rqs[0].next_balance == now + 1


def test_a_cpu_that_does_not_balance_a_level_leaves_out_those_above():
    s = Still(machine(2, 4))
    s.run(1)
    for sd in domains(s, 1):
        sd.last_balance, sd.last_decay_max_lb_cost = 0, s.k.jiffies
    s.sd(1, 0).groups.balance_cpu = 0
    rebalance(s, 1, NOT_IDLE)
    assert [sd.last_balance for sd in domains(s, 1)] == [s.k.jiffies, 0]


# --- tickless CPUs ----------------------------------------------------------------------------------------------------


def test_busy_cpus_are_counted_per_llc():
    s = idle_machine()
    shared = s.sd(0, 0).shared
    assert shared.nr_busy_cpus == 0
    s.call(nohz.busy_again, 1)
    s.call(nohz.busy_again, 1)
    assert (shared.nr_busy_cpus, s.k.rqs[1].in_nohz_mask) == (1, False)
    s.call(nohz.nohz_balance_enter_idle, 1)
    s.call(nohz.nohz_balance_enter_idle, 1)
    assert shared.nr_busy_cpus == 0


def flags(s: Still, cpu: int) -> int:
    return s.cfs(cpu).rq_modern.nohz_flags


def kicked(s: Still, cpu: int) -> tuple[list[tuple[int, int]], list[int]]:
    """Let a busy CPU tick; return the kicks on their way, and the flags of all CPUs."""
    s.k.rqs[cpu].idle_balance = 0
    s.call(nohz.nohz_balancer_kick, cpu)
    return waiting(s), [flags(s, c) for c in range(s.k.nr_cpus)]


def test_a_lonely_task_kicks_nobody():
    s = idle_machine(left=0)
    s.run(0)
    assert kicked(s, 0) == ([], [0] * 8)


def test_two_tasks_kick_the_first_cpu_that_is_really_idle():
    s = idle_machine(left=0)
    s.run(1, 0, 0)  # CPU 1 has not ticked since
    assert kicked(s, 0) == ([(cpu_event.KICK, 2)], [0, 0, STATS | BALANCE, 0, 0, 0, 0, 0])
    assert s.k.nohz_next_balance == s.k.jiffies + 1
    assert kicked(s, 0)[0] == []  # not again in the same jiffy
    s.k.nohz_next_balance = 0
    assert kicked(s, 0)[0] == []  # the first kick is still on its way


def test_two_busy_cpus_of_an_llc_kick():
    s = idle_machine(left=0)
    s.run(0, 1, 4)
    s.call(nohz.busy_again, 4)
    assert kicked(s, 0)[0] == []
    assert kicked(s, 1)[0] == [(cpu_event.KICK, 2)]


def test_old_averages_and_new_idle_cpus_kick_too():
    s = idle_machine()
    s.run(0)
    s.modern.nohz_needs_update = 0
    s.modern.nohz_next_blocked = s.k.jiffies
    assert kicked(s, 0)[0] == []
    s.modern.nohz_next_blocked -= 1
    assert kicked(s, 0)[1][1] == STATS
    s.modern.nohz_needs_update = 1
    assert kicked(s, 0)[1][1] == STATS | NEXT


def test_the_balancer_goes_round_and_ends_with_itself():
    s = idle_machine()
    s.run(5)
    seen = []
    s.replace(levels.rebalance_domains, lambda k, cpu, idle, why: seen.append(cpu) or 0)
    for rq in s.k.rqs:
        rq.next_balance = s.k.jiffies + (rq.cpu == 7)
    s.cfs(3).rq_modern.nohz_flags = STATS | BALANCE | NEXT
    s.call(nohz.kick_arrives, 3)
    assert seen == [4, 6, 0, 1, 2, 3]
    assert (s.k.nohz_next_balance, s.modern.nohz_next_blocked) == (s.k.jiffies, s.k.jiffies + 8)
    assert not s.modern.nohz_needs_update
    assert flags(s, 3) == 0


def begin_pass(s: Still, cpu: int, kick: int) -> None:
    """Let a CPU be in the middle of a pass: it looks at the third CPU behind itself next."""
    ilb = s.cfs(cpu).rq_modern
    s.k.rqs[cpu].ilb_next, ilb.ilb_flags, ilb.ilb_next_balance = 3, kick, 10**9


def test_a_pass_ends_when_its_cpu_gets_a_task():
    s = idle_machine(left=0)
    begin_pass(s, 3, STATS | NEXT)
    s.run(3)
    s.k.rqs[3].need_resched = 1
    s.call(nohz.kick_arrives, 3)
    assert s.k.rqs[3].ilb_next == 0
    assert (s.modern.nohz_has_blocked, s.modern.nohz_needs_update) == (1, 1)
    assert s.k.nohz_next_balance == 0


def test_a_kick_during_a_pass_is_not_lost():
    s = idle_machine()
    begin_pass(s, 1, STATS)
    s.run(0, 0)
    assert kicked(s, 0)[0] == []
    s.call(nohz.kick_arrives, 1)
    assert waiting(s) == [(cpu_event.KICK, 1)]
    s.call(nohz.kick_arrives, 1)
    assert flags(s, 1) == 0


def test_a_busy_cpu_drops_a_kick():
    s = idle_machine()
    s.run(1)
    s.cfs(1).rq_modern.nohz_flags = STATS | BALANCE
    s.call(nohz.kick_arrives, 1)
    assert (flags(s, 1), s.k.rqs[1].ilb_next) == (0, 0)


def test_averages_decay_once_per_jiffy():
    s = idle_machine()
    q = s.cfs(2)
    q.on_list, q.avg.last_update = 1, s.k.now_ns - 32 * 1024 * 1024
    q.avg.load_sum, q.avg.load_avg = 1000 * 46718, 1000
    assert s.call(nohz.update_nohz_stats, 2)
    assert q.avg.load_avg in (499, 500)  # 32 periods are the half-life
    q.avg.last_update -= 32 * 1024 * 1024
    assert s.call(nohz.update_nohz_stats, 2)
    assert q.avg.load_avg in (499, 500)
    q.rq_modern.last_blocked_tick -= 1
    q.avg.last_update -= 10**12
    assert not s.call(nohz.update_nohz_stats, 2)
    assert (q.on_list, q.rq_modern.has_blocked_load, q.avg.load_avg) == (0, 0, 0)
    s.call(nohz.busy_again, 2)
    q.rq_modern.has_blocked_load = 1
    assert not s.call(nohz.update_nohz_stats, 2)


def test_an_idle_cpu_takes_one_tick_before_it_stops_it():
    s = Still(machine())
    rq = s.k.rqs[0]
    [p] = s.run(0)
    p.state, p.se.vlag = task_state.DEAD, 0
    s.schedule(0)
    assert (not rq.curr, rq.tick_stopped, rq.in_nohz_mask) == (True, 0, 0)
    s.call(schedule_jit.stop_tick, 0)
    assert (rq.tick_stopped, rq.in_nohz_mask) == (1, 1)
    s.schedule(0)  # the idle loop was left and entered again
    assert not rq.tick_stopped


# --- newidle ----------------------------------------------------------------------------------------------------------


def newidle(s: Still, cpu: int, *draws: int) -> bool:
    """Balance a CPU that runs out of tasks, with random numbers that a test chose."""
    numbers = map(np.uint64, draws)
    s.replace(random_jit.draw, lambda k, stream: next(numbers))
    s.k.this_cpu = cpu
    return s.call(levels.newidle_balance, cpu)


def loaded() -> Still:
    s = Still(machine(2, 4))
    for p in s.run(1, 1, 1):
        p.se.exec_start = s.k.now_ns - MS
    return s


def test_a_level_is_tried_if_the_draw_is_at_most_one_more_than_its_ratio():
    s = loaded()
    sd = s.sd(0, 0)
    assert newidle(s, 0, 1024 + 513)
    assert (sd.newidle_call, sd.newidle_success) == (513, 258)  # (1024 + 256) // 513 = 2
    s = loaded()
    assert not newidle(s, 0, 514, 514)
    assert not any(any(sd.lb_count) for sd in domains(s, 0))
    assert [sd.newidle_call for sd in domains(s, 0)] == [513, 513]
    s = loaded()
    assert newidle(s, 7, 514, 0)  # the second level
    assert s.k.rqs[1].nr_running == 2


def test_without_ni_random_every_level_is_tried():
    s = loaded()
    s.modern.newidle = rule.COST
    assert newidle(s, 7)
    assert s.sd(7).newidle_success == 257


def test_before_5_16_a_cpu_that_idles_briefly_does_not_balance():
    s = loaded()
    s.modern.newidle = rule.MIGRATION_COST
    s.k.rqs[7].avg_idle = 499_999
    assert not newidle(s, 7)
    s.k.rqs[7].avg_idle = 500_000
    assert newidle(s, 7)


def test_an_attempt_that_fails_raises_the_cost_by_half_up_to_the_migration_cost():
    s = Still(machine())
    s.modern.newidle, sd = rule.BUMP, s.sd(0, 0)
    sd.max_newidle_lb_cost, s.k.rqs[0].avg_idle = 10_000, 1_000_000
    costs = []
    for _ in range(12):
        s.k.overload = 1
        assert not newidle(s, 0)
        costs.append(sd.max_newidle_lb_cost)
    assert costs[:3] == [15_000, 22_500, 33_750]
    assert costs[-1] == 500_200


def test_with_ni_rate_rare_attempts_are_made_more_often():
    s = Still(machine())
    s.modern.newidle, sd = rule.RATE, s.sd(0, 0)
    sd.newidle_call, sd.newidle_success, sd.newidle_stamp = 1023, 100, s.k.now_ns
    s.later(3 << 22)
    s.call(levels.update_newidle_stats, sd, 1)
    assert sd.newidle_ratio == 101 + 3
    sd.newidle_call = 1023
    s.later(1 << 33)
    s.call(levels.update_newidle_stats, sd, 0)
    assert sd.newidle_ratio == 1024


def test_the_ratio_follows_the_successes_of_512_calls():
    s = Still(machine())
    sd = s.sd(0, 0)
    for want in (256, 128, 64):
        for _ in range(512):
            s.call(levels.update_newidle_stats, sd, 0)
        assert (sd.newidle_ratio, sd.newidle_call) == (want, 512)
    for _ in range(512):
        s.call(levels.update_newidle_stats, sd, 2)
    assert sd.newidle_ratio == 32 + 1024


def test_newidle_balancing_waits_for_a_cpu_with_several_tasks():
    s = loaded()
    rq = s.k.rqs[0]
    s.k.overload, rq.next_balance = 0, 10**9
    assert not newidle(s, 0)
    assert rq.next_balance == min(s.sd(0, 0).last_balance + 1, s.k.jiffies + 250)
    assert rq.idle_stamp == s.k.now_ns


def test_newidle_balancing_must_cost_less_than_the_cpu_idles():
    s = loaded()
    rq, (near, far) = s.k.rqs[7], domains(s, 7)
    rq.avg_idle, near.max_newidle_lb_cost = 400_000, 400_001
    assert not newidle(s, 7)
    near.max_newidle_lb_cost, far.max_newidle_lb_cost = 10, 400_000
    assert not newidle(s, 7, 0)  # the first level costs more than nothing
    assert (any(near.lb_count), any(far.lb_count)) == (True, False)
    far.max_newidle_lb_cost = 10
    assert newidle(s, 7, 0, 0)
    assert rq.idle_stamp == 0


def test_a_wakeup_on_its_way_ends_newidle_balancing():
    s = loaded()
    stamp = s.k.rqs[0].idle_stamp
    s.k.rqs[0].wake_list = s.task(0)
    assert not newidle(s, 0)
    assert s.k.rqs[0].idle_stamp == stamp


def test_a_cpu_that_found_nothing_updates_averages_before_it_idles():
    s = idle_machine()
    s.k.rqs[0].avg_idle = 499_999
    assert not newidle(s, 0)
    assert flags(s, 0) == 0
    s.k.rqs[0].avg_idle = 500_000
    s.modern.nohz_next_blocked = s.k.jiffies
    assert not newidle(s, 0)
    assert flags(s, 0) == NEWILB
    s.call(nohz.run_idle_balance, 0)
    assert flags(s, 0) == 0
    assert s.modern.nohz_next_blocked == s.k.jiffies + 8


def test_the_highest_cost_decays_once_per_second():
    s = Still(machine())
    sd = s.sd(0, 0)
    assert not s.call(levels.update_newidle_cost, sd, 1000, 1)
    s.later(1000 * MS)
    assert not s.call(levels.update_newidle_cost, sd, 0, 0)
    s.later(4 * MS)
    assert s.call(levels.update_newidle_cost, sd, 0, 0)
    assert (sd.max_newidle_lb_cost, sd.newidle_call, sd.newidle_success) == (988, 513, 257)


@pytest.mark.parametrize(
    ("idle_for", "average"),
    [(1_000_000, 1_000_000), (0, 875_000), (7, 875_001), (9_000_000, 1_000_000)],
)
def test_the_mean_idle_time(idle_for, average):
    s = Still(machine())
    rq = s.k.rqs[0]
    rq.idle_stamp = s.k.now_ns - idle_for
    s.call(levels.idle_cpu_woken, 0)
    assert (rq.avg_idle, rq.idle_stamp) == (average, 0)


# --- whole replays ----------------------------------------------------------------------------------------------------


def test_threads_spread_over_the_nodes():
    """Fork and newidle balancing give every CPU of the machine one of 8 threads."""
    w = Workload("eight")
    for i in range(8):
        w.task(f"t{i}", Script().compute(50 * MS), cpu=0)
    assert watched(w.program(), machine(2, 4), V6_12, after_event, check).end_ns < 52 * MS


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_what_holds_of_every_replay(data):
    draw = data.draw
    nodes, threads = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 2]))
    m = machine(nodes, 4, threads)
    w = Workload("any")
    n = draw(st.integers(2, 12))
    for i in range(n):
        script = Script().loop(draw(st.integers(1, 4)))
        script.compute(draw(st.integers(1, 20 * MS)))
        script.sleep(draw(st.integers(1, 5 * MS))).end()
        mask = draw(st.sets(st.integers(0, m.cpus - 1)))
        cpus = sorted(mask) or None
        w.task(f"t{i}", script, cpu=cpus[0] if cpus else 0, allowed=cpus)
    seed = draw(st.integers(0, 99))
    raw = watched(w.program(), m, V6_12, after_event, check, seed=seed, until_ns=2_000 * MS)
    assert (raw.tasks[:, TaskStruct.state] == task_state.DEAD).all()


def check(k, was_tick: int) -> None:
    """Check the invariants of the queues and of the tickless CPUs."""
    for rq in k.rqs:
        q, tasks = CfsRq(k, k.cfs_rq0 + rq.cpu), tasks_of(rq)
        assert rq.nr_running == q.h_nr_running == q.nr_running == len(tasks)
        assert q.h_nr_delayed == sum(p.se.sched_delayed for p in tasks)
        assert all(p.cpu == rq.cpu and rq.cpu in p.allowed for p in tasks)
        assert rq.curr or rq.need_resched or not q.h_nr_running
        for signal in ("load", "util", "runnable"):
            average, total = getattr(q.avg, f"{signal}_avg"), getattr(q.avg, f"{signal}_sum")
            assert total >= average * MIN_DIVIDER >= 0
        for sd in chain(rq.sd, "parent"):
            assert sd.min_interval <= sd.balance_interval <= 512
        llc = k.about.cpus_of(rq.sd_llc.span)
        idle = sum(k.rqs[c].sd_llc.nohz_idle for c in llc)
        assert rq.sd_llc.shared.nr_busy_cpus == len(llc) - idle
        assert rq.sd_llc.nohz_idle or not rq.in_nohz_mask
