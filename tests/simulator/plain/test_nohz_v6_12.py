"""When a CPU balances under v6.12.107 in the reference: ticks, tickless CPUs, newidle balancing; by hand and whole replays."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.still_v6_12 import V6_12, Still, machine

from wastedcores.simulator.reference import Kernel, Simulation, newidle_v6_12, nohz_v6_12, schedule
from wastedcores.simulator.reference.pelt_v6_12 import MIN_DIVIDER
from wastedcores.simulator.reference.state import SchedAvg
from wastedcores.simulator.reference.stats import IDLE, NOT_IDLE
from wastedcores.topology.domains import domain_events
from wastedcores.workload import Script, Workload

MS = 1_000_000


def idle_machine(nodes: int = 2, per_node: int = 4) -> Still:
    """Return a machine whose CPUs are all idle and tickless; no level is due."""
    s = Still(machine(nodes, per_node))
    for rq in s.k.rqs:
        rq.tick_stopped = True
        rq.next_balance = s.k.jiffies + 1000
        nohz_v6_12.nohz_balance_enter_idle(s.k, rq)
    return s


def waiting(s: Still) -> list[tuple[str, int]]:
    """Return the events that are planned, except ticks."""
    out = []
    while (event := s.k.pop()) is not None:
        if event[1] != "TICK":
            out.append((event[1], event[2]))
    return out


# --- intervals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weight", "idle", "busy"),
    [(2, 1, 7), (4, 1, 15), (8, 2, 31), (16, 4, 63), (32, 8, 127), (64, 16, 255)],
)
def test_intervals_in_jiffies(weight, idle, busy):
    s = Still(machine(1, weight))
    s.k.max_balance_interval = 1600  # that of 64 CPUs
    sd = s.k.rqs[0].sd[0]
    assert nohz_v6_12.balance_interval(s.k, sd, False) == idle
    assert nohz_v6_12.balance_interval(s.k, sd, True) == busy
    s.k.max_balance_interval = 6
    assert nohz_v6_12.balance_interval(s.k, sd, True) == 6


def test_a_pass_balances_the_levels_that_are_due():
    s = Still(machine(2, 4))
    rq = s.k.rqs[0]
    now = s.k.jiffies
    rq.sd[0].last_balance, rq.sd[1].last_balance = now - 1, now - 1
    nohz_v6_12.rebalance_domains(s.k, rq, IDLE)
    assert s.k.balance_calls == {(rq.sd[0].level, "idle", "balanced"): 1}
    # the interval doubled to 8 ms, two jiffies
    assert (rq.sd[0].last_balance, rq.sd[1].last_balance, rq.next_balance) == (
        now,
        now - 1,
        now + 1,
    )


def test_a_cpu_that_does_not_balance_a_level_leaves_out_those_above():
    s = Still(machine(2, 4))
    s.run(1)
    rq = s.k.rqs[1]
    for sd in rq.sd:
        sd.last_balance = 0
        sd.last_decay_max_lb_cost = s.k.jiffies
    s.k.rqs[1].sd[0].groups[0].balance_cpu = 0
    nohz_v6_12.rebalance_domains(s.k, rq, NOT_IDLE)
    assert [sd.last_balance for sd in rq.sd] == [s.k.jiffies, 0]


# --- tickless CPUs ----------------------------------------------------------------------------------------------------


def test_busy_cpus_are_counted_per_llc():
    s = idle_machine()
    shared = s.k.rqs[0].sd[0].shared
    assert (shared.nr_busy_cpus, s.k.nohz_has_blocked, s.k.nohz_needs_update) == (0, True, True)
    nohz_v6_12.nohz_balance_exit_idle(s.k, s.k.rqs[1])
    nohz_v6_12.nohz_balance_exit_idle(s.k, s.k.rqs[1])
    assert (shared.nr_busy_cpus, 1 in s.k.nohz_idle_cpus) == (1, False)
    nohz_v6_12.nohz_balance_enter_idle(s.k, s.k.rqs[1])
    nohz_v6_12.nohz_balance_enter_idle(s.k, s.k.rqs[1])
    assert shared.nr_busy_cpus == 0


def kicked(s: Still, cpu: int) -> tuple[list[tuple[str, int]], list[int]]:
    """Let a busy CPU tick; return the kicks on their way, and the flags of all CPUs."""
    s.k.rqs[cpu].idle_balance = False
    nohz_v6_12.nohz_balancer_kick(s.k, s.k.rqs[cpu])
    return waiting(s), [rq.nohz_flags for rq in s.k.rqs]


def test_a_lonely_task_kicks_nobody():
    s = idle_machine()
    s.k.nohz_has_blocked = s.k.nohz_needs_update = False
    s.run(0)
    assert kicked(s, 0) == ([], [0] * 8)


def test_two_tasks_kick_the_first_cpu_that_is_really_idle():
    s = idle_machine()
    s.k.nohz_has_blocked = s.k.nohz_needs_update = False
    s.run(1, 0, 0)  # CPU 1 has not ticked since
    both = nohz_v6_12.STATS | nohz_v6_12.BALANCE
    assert kicked(s, 0) == ([("KICK", 2)], [0, 0, both, 0, 0, 0, 0, 0])
    assert s.k.nohz_next_balance == s.k.jiffies + 1
    assert kicked(s, 0)[0] == []  # not again in the same jiffy
    s.k.nohz_next_balance = 0
    assert kicked(s, 0)[0] == []  # the first kick is still on its way


def test_two_busy_cpus_of_an_llc_kick():
    s = idle_machine()
    s.k.nohz_has_blocked = s.k.nohz_needs_update = False
    s.run(0, 1, 4)
    nohz_v6_12.nohz_balance_exit_idle(s.k, s.k.rqs[4])
    assert kicked(s, 0)[0] == []
    assert kicked(s, 1)[0] == [("KICK", 2)]


def test_old_averages_and_new_idle_cpus_kick_too():
    s = idle_machine()
    s.run(0)
    s.k.nohz_needs_update = False
    s.k.nohz_next_blocked = s.k.jiffies
    assert kicked(s, 0)[0] == []
    s.k.nohz_next_blocked -= 1
    assert kicked(s, 0)[1][1] == nohz_v6_12.STATS
    s.k.nohz_needs_update = True
    assert kicked(s, 0)[1][1] == nohz_v6_12.STATS | nohz_v6_12.NEXT


def test_the_balancer_goes_round_and_ends_with_itself(monkeypatch):
    s = idle_machine()
    s.run(5)
    seen = []
    monkeypatch.setattr(
        nohz_v6_12, "rebalance_domains", lambda k, rq, idle: seen.append(rq.cpu) or 0
    )
    for rq in s.k.rqs:
        rq.next_balance = s.k.jiffies + (rq.cpu == 7)
    s.k.rqs[3].nohz_flags = nohz_v6_12.STATS | nohz_v6_12.BALANCE | nohz_v6_12.NEXT
    nohz_v6_12.kick_arrives(s.k, s.k.rqs[3])
    assert seen == [4, 6, 0, 1, 2, 3]
    assert (s.k.nohz_next_balance, s.k.nohz_next_blocked) == (s.k.jiffies, s.k.jiffies + 8)
    assert not s.k.nohz_needs_update
    assert s.k.rqs[3].nohz_flags == 0


def test_a_pass_ends_when_its_cpu_gets_a_task():
    s = idle_machine()
    rq = s.k.rqs[3]
    rq.ilb_next, rq.ilb = 2, nohz_v6_12.IlbPass(nohz_v6_12.STATS | nohz_v6_12.NEXT, 0, 10**9)
    s.k.nohz_has_blocked = s.k.nohz_needs_update = False
    s.run(3)
    rq.need_resched = True
    nohz_v6_12.kick_arrives(s.k, rq)
    assert rq.ilb_next is None
    assert (s.k.nohz_has_blocked, s.k.nohz_needs_update) == (True, True)
    assert s.k.nohz_next_balance == 0


def test_a_kick_during_a_pass_is_not_lost():
    s = idle_machine()
    rq = s.k.rqs[1]
    rq.ilb_next, rq.ilb = 2, nohz_v6_12.IlbPass(nohz_v6_12.STATS, 0, 10**9)
    s.run(0, 0)
    assert kicked(s, 0)[0] == []
    nohz_v6_12.kick_arrives(s.k, rq)
    assert waiting(s) == [("KICK", 1)]
    nohz_v6_12.kick_arrives(s.k, rq)
    assert rq.nohz_flags == 0


def test_a_busy_cpu_drops_a_kick():
    s = idle_machine()
    s.run(1)
    s.k.rqs[1].nohz_flags = nohz_v6_12.STATS | nohz_v6_12.BALANCE
    nohz_v6_12.kick_arrives(s.k, s.k.rqs[1])
    assert (s.k.rqs[1].nohz_flags, s.k.rqs[1].ilb_next) == (0, None)


def test_averages_decay_once_per_jiffy():
    s = idle_machine()
    rq = s.k.rqs[2]
    rq.cfs.on_list = True
    rq.cfs.avg = SchedAvg(s.k.now_ns - 32 * 1024 * 1024, 1000 * 46718, 0, 0, 0, 1000, 0, 0)
    assert nohz_v6_12.update_nohz_stats(s.k, rq)
    assert rq.cfs.avg.load_avg in (499, 500)  # 32 periods are the half-life
    rq.cfs.avg.last_update -= 32 * 1024 * 1024
    assert nohz_v6_12.update_nohz_stats(s.k, rq)
    assert rq.cfs.avg.load_avg in (499, 500)
    rq.last_blocked_load_update_tick -= 1
    rq.cfs.avg.last_update -= 10**12
    assert not nohz_v6_12.update_nohz_stats(s.k, rq)
    assert (rq.cfs.on_list, rq.has_blocked_load, rq.cfs.avg.load_avg) == (False, False, 0)
    nohz_v6_12.nohz_balance_exit_idle(s.k, rq)
    rq.has_blocked_load = True
    assert not nohz_v6_12.update_nohz_stats(s.k, rq)


def test_an_idle_cpu_takes_one_tick_before_it_stops_it():
    s = Still(machine())
    rq = s.k.rqs[0]
    [p] = s.run(0)
    p.state, rq.cfs.curr.vlag = "X", 0
    s.k.cpu = 0
    schedule.schedule(s.k, rq)
    assert (rq.curr is rq.idle_task, rq.tick_stopped, 0 in s.k.nohz_idle_cpus) == (
        True,
        False,
        False,
    )
    schedule.stop_tick(s.k, rq)
    assert (rq.tick_stopped, 0 in s.k.nohz_idle_cpus) == (True, True)
    schedule.schedule(s.k, rq)  # the idle loop was left and entered again
    assert not rq.tick_stopped


# --- newidle ----------------------------------------------------------------------------------------------------------


class Draws:
    """A stream of numbers that a test chose."""

    def __init__(self, *numbers: int) -> None:
        self.left = list(numbers)

    def draw(self) -> int:
        return self.left.pop(0)


def newidle(s: Still, cpu: int, *draws: int) -> bool:
    s.k.cpu = cpu
    s.k.newidle_rng[cpu] = Draws(*draws)
    return newidle_v6_12.idle_balance(s.k, s.k.rqs[cpu])


def loaded() -> Still:
    s = Still(machine(2, 4))
    for p in s.run(1, 1, 1):
        p.se.exec_start = s.k.now_ns - MS
    return s


def test_a_level_is_tried_if_the_draw_is_at_most_one_more_than_its_ratio():
    s = loaded()
    sd = s.k.rqs[0].sd[0]
    assert newidle(s, 0, 1024 + 513)
    assert (sd.newidle_call, sd.newidle_success) == (513, 258)  # (1024 + 256) // 513 = 2
    s = loaded()
    assert not newidle(s, 0, 514, 514)
    assert not s.k.balance_calls
    assert [d.newidle_call for d in s.k.rqs[0].sd] == [513, 513]
    s = loaded()
    assert newidle(s, 7, 514, 0)  # the second level
    assert s.k.rqs[1].nr_running == 2


def test_without_ni_random_every_level_is_tried():
    s = loaded()
    s.k.newidle = "cost"
    assert newidle(s, 7)
    assert s.k.rqs[7].sd[1].newidle_success == 257


def test_before_5_16_a_cpu_that_idles_briefly_does_not_balance():
    s = loaded()
    s.k.newidle = "migration_cost"
    s.k.rqs[7].avg_idle = 499_999
    assert not newidle(s, 7)
    s.k.rqs[7].avg_idle = 500_000
    assert newidle(s, 7)


def test_an_attempt_that_fails_raises_the_cost_by_half_up_to_the_migration_cost():
    s = Still(machine())
    s.k.newidle, rq = "bump", s.k.rqs[0]
    sd = rq.sd[0]
    sd.max_newidle_lb_cost, rq.avg_idle = 10_000, 1_000_000
    costs = []
    for _ in range(12):
        s.k.overload = True
        assert not newidle(s, 0)
        costs.append(sd.max_newidle_lb_cost)
    assert costs[:3] == [15_000, 22_500, 33_750]
    assert costs[-1] == 500_200


def test_with_ni_rate_rare_attempts_are_made_more_often():
    s = Still(machine())
    s.k.newidle = "rate"
    sd = s.k.rqs[0].sd[0]
    sd.newidle_call, sd.newidle_success, sd.newidle_stamp_ns = 1023, 100, s.k.now_ns
    s.k.now_ns += 3 << 22
    nohz_v6_12.update_newidle_stats(s.k, sd, 1)
    assert sd.newidle_ratio == 101 + 3
    sd.newidle_call = 1023
    s.k.now_ns += 1 << 33
    nohz_v6_12.update_newidle_stats(s.k, sd, 0)
    assert sd.newidle_ratio == 1024


def test_the_ratio_follows_the_successes_of_512_calls():
    k = Still(machine()).k
    sd = k.rqs[0].sd[0]
    for want in (256, 128, 64):
        for _ in range(512):
            nohz_v6_12.update_newidle_stats(k, sd, 0)
        assert (sd.newidle_ratio, sd.newidle_call) == (want, 512)
    for _ in range(512):
        nohz_v6_12.update_newidle_stats(k, sd, 2)
    assert sd.newidle_ratio == 32 + 1024


def test_newidle_balancing_waits_for_a_cpu_with_several_tasks():
    s = loaded()
    s.k.overload = False
    s.k.rqs[0].next_balance = 10**9
    assert not newidle(s, 0)
    rq = s.k.rqs[0]
    assert rq.next_balance == min(rq.sd[0].last_balance + 1, s.k.jiffies + 250)
    assert rq.idle_stamp == s.k.now_ns


def test_newidle_balancing_must_cost_less_than_the_cpu_idles():
    s = loaded()
    rq = s.k.rqs[7]
    rq.avg_idle, rq.sd[0].max_newidle_lb_cost = 400_000, 400_001
    assert not newidle(s, 7)
    rq.sd[0].max_newidle_lb_cost, rq.sd[1].max_newidle_lb_cost = 10, 400_000
    assert not newidle(s, 7, 0)  # the first level costs more than nothing
    assert {key[0] for key in s.k.balance_calls} == {rq.sd[0].level}
    rq.sd[1].max_newidle_lb_cost = 10
    assert newidle(s, 7, 0, 0)
    assert rq.idle_stamp == 0


def test_a_wakeup_on_its_way_ends_newidle_balancing():
    s = loaded()
    stamp = s.k.rqs[0].idle_stamp
    s.k.rqs[0].wake_list.append(s.task(0))
    assert not newidle(s, 0)
    assert s.k.rqs[0].idle_stamp == stamp


def test_a_cpu_that_found_nothing_updates_averages_before_it_idles():
    s = idle_machine()
    s.k.rqs[0].avg_idle = 499_999
    assert not newidle(s, 0)
    assert s.k.rqs[0].nohz_flags == 0
    s.k.rqs[0].avg_idle = 500_000
    s.k.nohz_next_blocked = s.k.jiffies
    assert not newidle(s, 0)
    assert s.k.rqs[0].nohz_flags == nohz_v6_12.NEWILB
    nohz_v6_12.run_idle_balance(s.k, s.k.rqs[0])
    assert s.k.rqs[0].nohz_flags == 0
    assert s.k.nohz_next_blocked == s.k.jiffies + 8


def test_the_highest_cost_decays_once_per_second():
    s = Still(machine())
    sd = s.k.rqs[0].sd[0]
    assert not nohz_v6_12.update_newidle_cost(s.k, sd, 1000, 1)
    s.k.now_ns += 1000 * MS
    assert not nohz_v6_12.update_newidle_cost(s.k, sd, 0, 0)
    s.k.now_ns += 4 * MS
    assert nohz_v6_12.update_newidle_cost(s.k, sd, 0, 0)
    assert (sd.max_newidle_lb_cost, sd.newidle_call, sd.newidle_success) == (988, 513, 257)


@pytest.mark.parametrize(
    ("idle_for", "average"),
    [(1_000_000, 1_000_000), (0, 875_000), (7, 875_001), (9_000_000, 1_000_000)],
)
def test_the_mean_idle_time(idle_for, average):
    s = Still(machine())
    rq = s.k.rqs[0]
    rq.idle_stamp = s.k.now_ns - idle_for
    nohz_v6_12.update_wakeup_idle(s.k, rq)
    assert (rq.avg_idle, rq.idle_stamp) == (average, 0)


# --- whole replays ----------------------------------------------------------------------------------------------------


def replay(m, workload: Workload, seed: int = 1) -> Kernel:
    k = Kernel(m, V6_12, domain_events(m, V6_12))
    Simulation(k, workload.program(), seed=seed).run(until_ns=2_000 * MS)
    return k


def test_threads_spread_over_the_nodes():
    """Fork and newidle balancing give every CPU of the machine one of 8 threads."""
    w = Workload("eight")
    for i in range(8):
        w.task(f"t{i}", Script().compute(50 * MS), cpu=0)
    k = replay(machine(2, 4), w)
    assert all(rq.nr_running == 0 for rq in k.rqs)
    assert k.log[-1].ts_ns < 52 * MS


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
    k = Kernel(m, V6_12, domain_events(m, V6_12))
    sim = Simulation(k, w.program(), seed=draw(st.integers(0, 99)))
    after = sim._after

    def checked(kind: str) -> None:
        after(kind)
        for rq in k.rqs:
            check(k, rq)

    sim._after = checked  # type: ignore[method-assign]
    sim.run(until_ns=2_000 * MS)
    assert all(p.state == "X" for p in sim.tasks)


def check(k: Kernel, rq) -> None:
    """Check the invariants of a queue and of the tickless CPUs."""
    q = rq.cfs
    assert rq.nr_running == q.h_nr_running == q.nr_running == len(rq.cfs_tasks)
    assert q.h_nr_delayed == sum(p.se.sched_delayed for p in rq.cfs_tasks)
    assert all(p.cpu == rq.cpu and rq.cpu in p.allowed for p in rq.cfs_tasks)
    assert rq.curr is not rq.idle_task or rq.need_resched or not q.h_nr_running
    for signal in ("load", "util", "runnable"):
        average, total = getattr(q.avg, f"{signal}_avg"), getattr(q.avg, f"{signal}_sum")
        assert total >= average * MIN_DIVIDER >= 0
    for sd in rq.sd:
        assert sd.min_interval <= sd.balance_interval <= 512
        if sd.shared is not None and sd is rq.sd[k.llc_depth[rq.cpu] - 1]:
            idle = sum(k.rqs[c].sd[k.llc_depth[c] - 1].nohz_idle for c in sd.span)
            assert sd.shared.nr_busy_cpus == len(sd.span) - idle
    assert rq.cpu not in k.nohz_idle_cpus or rq.sd[k.llc_depth[rq.cpu] - 1].nohz_idle
