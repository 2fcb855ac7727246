"""Balancing statistics of v6.12.107: every kind of group and every branch, on cases computed by hand."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.still_v6_12 import Still, groups, machine

from wastedcores.simulator.engine.balance import find_src_group_v6_12_jit as find_src_group
from wastedcores.simulator.engine.balance import find_src_group_v6_12_jit as group_stats
from wastedcores.simulator.engine.balance import find_src_group_v6_12_jit as sd_stats
from wastedcores.simulator.engine.codes.group_type import (
    FULLY_BUSY,
    HAS_SPARE,
    IMBALANCED,
    OVERLOADED,
    SMT_BALANCE,
)
from wastedcores.simulator.engine.codes.idle_type import IDLE, NEWLY_IDLE, NOT_IDLE
from wastedcores.simulator.engine.codes.sd_flag import PREFER_SIBLING
from wastedcores.simulator.engine.codes.stats_row import BUSIEST, LOCAL, SPARE
from wastedcores.simulator.engine.world import cpuset, cpusets_jit
from wastedcores.simulator.engine.world.structs import SdLbStats, SgLbStats
from wastedcores.simulator.vocabulary import BALANCED, MIGRATIONS


def totals(s: Still) -> SdLbStats:
    """Return what the groups of a domain come to."""
    return SdLbStats(s.k, s.k.scratch + 3)


def compared(
    local: dict, busiest: dict, m=None, idle: int = IDLE, total_load: int = 0, prefers=None
) -> tuple[str, str, int]:
    """Return why two groups count as balanced, what to move and how much; by default the nodes of 4 CPUs of a machine.

    The groups prefer siblings as their flags say, or as ``prefers`` says.
    """
    s = Still(m or machine(2, 4))
    env, out = s.env(idle=idle), totals(s)
    here, there = groups(env.sd)[:2]
    one = {"capacity": 1024 * here.group_weight, "weight": here.group_weight}
    s.stats(LOCAL, here, **(one | local))
    s.stats(BUSIEST, there, **(one | busiest))
    out.avg_load = total_load * 1024 // 8192
    out.prefer_sibling = there.flags & PREFER_SIBLING != 0 if prefers is None else prefers
    reason = s.call(find_src_group.balanced, env, s.k.scratch, out)
    if not reason:
        s.call(find_src_group.calculate_imbalance, env, s.k.scratch, out)
    return BALANCED[reason] if reason else "", MIGRATIONS[env.migration], env.imbalance


# --- kinds of groups --------------------------------------------------------------------------------------------------


def kind_of(imbalance: int = 0, **sums: int) -> int:
    s = booted()
    found = s.stats(SPARE, s.sd().groups, capacity=4096, weight=4, **sums)
    found.group.sgc.imbalance = imbalance
    return s.call(group_stats.classify, found, 117)


@cache
def booted() -> Still:
    return Still(machine(2, 4))


@pytest.mark.parametrize(
    ("sums", "kind"),
    [
        ({"sum_nr": 3, "util": 4096, "runnable": 9000}, HAS_SPARE),  # fewer tasks than CPUs
        ({"sum_nr": 4, "util": 3500}, HAS_SPARE),  # 4096 * 100 > 3500 * 117
        ({"sum_nr": 4, "util": 3501}, FULLY_BUSY),
        ({"sum_nr": 4, "util": 0, "runnable": 4793}, FULLY_BUSY),  # 4096 * 117 < 4793 * 100
        ({"sum_nr": 4, "util": 4096, "runnable": 9000}, FULLY_BUSY),  # not more tasks than CPUs
        ({"sum_nr": 5, "util": 3500, "runnable": 4792}, HAS_SPARE),
        ({"sum_nr": 5, "util": 3501}, OVERLOADED),
        ({"sum_nr": 5, "runnable": 4793}, OVERLOADED),
        ({"sum_nr": 4, "smt_balance": True}, SMT_BALANCE),
        ({"sum_nr": 4, "util": 3501, "smt_balance": True}, SMT_BALANCE),
        ({"sum_nr": 5, "util": 3501, "smt_balance": True}, OVERLOADED),
    ],
)
def test_the_kind_of_a_group(sums, kind):
    assert kind_of(**sums) == kind


def test_pinned_tasks_below_make_a_group_imbalanced():
    assert kind_of(1, sum_nr=1, smt_balance=True) == IMBALANCED
    assert kind_of(1, sum_nr=5, util=3501) == OVERLOADED


@given(st.integers(0, 12), st.integers(0, 8192), st.integers(0, 20000))
def test_a_group_with_fewer_tasks_than_cpus_has_room(nr, util, runnable):
    kind = kind_of(sum_nr=nr, util=util, runnable=runnable)
    assert nr >= 4 or kind == HAS_SPARE
    assert nr > 4 or kind != OVERLOADED


def sums(s: Still, env, place: int = 1, local: int = 0) -> tuple[SgLbStats, bool]:
    """Return the statistics of a group, and whether one of its CPUs has several tasks."""
    found = SgLbStats(s.k, s.k.scratch + SPARE)
    several = s.call(sd_stats.update_sg_lb_stats, env, groups(env.sd)[place], local, found)
    return found, several


def test_the_sums_over_the_cpus_of_a_group():
    s = Still(machine(2, 4))
    s.run(4, 4, 5)
    for cpu, load in ((4, 2000), (5, 900)):
        avg = s.cfs(cpu).avg
        avg.load_avg, avg.util_avg, avg.runnable_avg = load, load // 3, load // 2
    s.cfs(4).h_nr_delayed = 1
    env = s.env()
    got, several = sums(s, env)
    assert several
    assert (got.load, got.util, got.runnable) == (2900, 666 + 300, 1450)
    # a sleeper that is still queued counts in both
    assert (got.sum_nr, got.sum_h_nr, got.idle_cpus, got.weight) == (3, 3, 2, 4)
    assert (got.type, got.avg_load) == (HAS_SPARE, 0)
    for cpu in (0, 1, 2, 3, 4, 7):
        s.call(cpusets_jit.exclude, cpuset.LB, cpu)
    got, several = sums(s, env)
    assert (got.sum_nr, got.idle_cpus, got.weight, several) == (1, 1, 4, False)


def test_only_overloaded_groups_have_an_average_load():
    s = Still(machine(2, 4))
    s.run(4, 4, 5, 6, 7)
    for cpu in range(4, 8):
        s.cfs(cpu).avg.load_avg = s.cfs(cpu).avg.util_avg = 1000
    got, _ = sums(s, s.env())
    assert (got.type, got.avg_load) == (OVERLOADED, 1000)


def test_two_tasks_on_a_core_are_balanced_only_by_idle_cpus():
    s = Still(machine(1, 4, threads=2))
    s.run(2, 3)
    for idle, kind in ((IDLE, SMT_BALANCE), (NEWLY_IDLE, SMT_BALANCE), (NOT_IDLE, HAS_SPARE)):
        assert sums(s, s.env(idle=idle))[0].type == kind
    assert sums(s, s.env(cpu=2), 0, 1)[0].type == HAS_SPARE


# --- the busiest group ------------------------------------------------------------------------------------------------


def busier(m, first: dict, second: dict) -> bool:
    s = Still(m)
    _, a, b = groups(s.sd())
    busiest = s.stats(BUSIEST, a, sum_h_nr=2, **first)
    return s.call(sd_stats.pick_busiest, s.stats(SPARE, b, **({"sum_h_nr": 2} | second)), busiest)


def test_the_kind_decides_which_group_is_busiest():
    m = machine(3, 2)
    assert busier(m, {"type": FULLY_BUSY}, {"type": OVERLOADED})
    assert not busier(m, {"type": IMBALANCED}, {"type": SMT_BALANCE})
    assert not busier(m, {"type": HAS_SPARE}, {"type": OVERLOADED, "sum_h_nr": 0})


def test_among_groups_of_one_kind():
    m = machine(3, 2)
    over, spare, fully = {"type": OVERLOADED}, {"type": HAS_SPARE}, {"type": FULLY_BUSY}
    assert busier(m, over | {"avg_load": 5}, over | {"avg_load": 6})
    assert not busier(m, over | {"avg_load": 5}, over | {"avg_load": 5})
    assert not busier(m, {"type": IMBALANCED}, {"type": IMBALANCED})
    assert busier(m, fully, fully)  # the last one; v6.1 keeps the first
    assert busier(m, spare | {"idle_cpus": 2}, spare | {"idle_cpus": 1})
    assert not busier(m, spare | {"idle_cpus": 1}, spare | {"idle_cpus": 2, "sum_nr": 9})
    assert busier(m, spare | {"sum_nr": 1}, spare | {"sum_nr": 2})
    assert not busier(m, spare | {"sum_nr": 2}, spare | {"sum_nr": 2})


def test_among_cores_the_first_fully_busy_one_stays():
    m = machine(1, 6, threads=2)
    fully, smt = {"type": FULLY_BUSY}, {"type": SMT_BALANCE}
    assert not busier(m, fully, fully)
    assert not busier(m, smt, smt)
    assert busier(m, smt | {"idle_cpus": 1, "sum_nr": 2}, smt | {"idle_cpus": 1, "sum_nr": 3})


def update(s: Still, env) -> SdLbStats:
    s.call(sd_stats.update_sd_lb_stats, env, s.k.scratch, totals(s))
    return totals(s)


def test_the_first_group_with_a_task_is_busiest_at_first():
    s = Still(machine(2, 4))
    assert not update(s, s.env()).busiest
    s.run(4)
    assert update(s, s.env()).busiest == groups(s.sd())[1]
    assert totals(s).prefer_sibling


def test_only_the_highest_level_finds_that_no_cpu_has_several_tasks():
    s = Still(machine(2, 4))
    s.k.overload = 1
    update(s, s.env(0))
    assert s.k.overload
    update(s, s.env(1))
    assert not s.k.overload
    s.run(5, 5)
    s.k.overload = 0
    update(s, s.env(1))
    assert s.k.overload


@pytest.mark.parametrize(
    ("llc", "limits"),
    [(8, (8, 7, 6, 4, 1, 0)), (16, (16, 15, 12, 8, 2, 0)), (32, (32, 30, 25, 16, 5, 1))],
)
def test_nr_idle_scan(llc, limits):
    """The limits follow from (1024 - min((util * 117)**2 // 10240000, 1024)) * llc // 1024."""
    for util, limit in zip((0, 200, 400, 600, 800, 860), limits, strict=True):
        s = Still(machine(1, llc))
        for rq in s.k.rqs:
            s.cfs(rq.cpu).avg.util_avg = util
        update(s, s.env(idle=NEWLY_IDLE))
        assert s.sd(0, 0).shared.nr_idle_scan == 0
        update(s, s.env())
        assert s.sd(0, 0).shared.nr_idle_scan == limit


# --- balanced or not --------------------------------------------------------------------------------------------------

FULL = {"type": FULLY_BUSY, "sum_nr": 4, "sum_h_nr": 4}
OVER = {"type": OVERLOADED, "sum_nr": 6, "sum_h_nr": 6, "avg_load": 1500}


def test_nothing_is_pulled_into_a_group_that_is_worse_off():
    assert compared(FULL, {"sum_nr": 3, "sum_h_nr": 3})[0] == "local type"
    assert compared({"type": IMBALANCED}, FULL)[0] == "local type"


def test_average_loads_are_compared_if_both_groups_are_overloaded():
    def case(local: int, busiest: int, total: int = 8 * 1250) -> tuple[str, str, int]:
        return compared(OVER | {"avg_load": local}, OVER | {"avg_load": busiest}, total_load=total)

    assert case(1500, 1500)[0] == "local load"
    assert case(1250, 1500)[0] == "above average"  # 10000 * 1024 // 8192 = 1250
    assert case(1249, 1461)[0] == "margin"  # 146100 <= 117 * 1249 = 146133
    # min((1500 - 1250) * 4096, (1250 - 1000) * 4096) // 1024
    assert case(1000, 1500) == ("", "load", 1000)
    assert case(1100, 1500) == ("", "load", 600)
    # a busiest group below the average: the difference is unsigned, so the other term decides
    assert case(900, 1200) == ("", "load", 1400)


def test_siblings_are_evened_out_by_numbers_of_tasks():
    assert compared({"sum_nr": 2}, {"sum_nr": 4, "sum_h_nr": 4}) == ("", "task", 1)
    assert compared({"sum_nr": 1}, {"sum_nr": 6, "sum_h_nr": 6}) == ("", "task", 2)
    # one task more moves nobody, and a busy CPU does not look at the numbers
    assert compared({"sum_nr": 3, "idle_cpus": 1}, {"sum_nr": 4, "sum_h_nr": 4})[0] == "idle CPUs"
    assert compared({"sum_nr": 2}, {"sum_nr": 4, "sum_h_nr": 4}, idle=NOT_IDLE)[0] == "busy"
    # one sleeper that is still queued hides that a CPU is idle while a task waits
    assert compared({"sum_nr": 4, "idle_cpus": 1}, {"sum_nr": 5, "sum_h_nr": 5})[0] == "idle CPUs"


def test_the_allowance_between_nodes():
    # up to imb_numa_nr = 1 task, a difference of 2 is accepted
    assert compared({"sum_nr": 0, "idle_cpus": 4}, {"sum_nr": 2, "sum_h_nr": 2}) == ("", "task", 0)
    assert compared({"sum_nr": 0, "idle_cpus": 4}, {"sum_nr": 3, "sum_h_nr": 3}) == ("", "task", 1)


def test_a_group_with_room_takes_use_from_an_overloaded_one_of_another_llc():
    assert compared({"sum_nr": 1, "util": 700}, OVER) == ("", "util", 4096 - 700)
    assert compared({"sum_nr": 1, "util": 4200}, OVER) == ("", "task", 1)
    assert compared({"sum_nr": 1, "util": 4200}, OVER, idle=NOT_IDLE) == ("", "util", 0)


def test_average_loads_if_only_the_busiest_group_is_overloaded():
    full = FULL | {"load": 4000}
    # the local average is 1000, that of the domain 1250: min(250 * 4096, 250 * 4096) // 1024
    assert compared(full, OVER, total_load=10_000) == ("", "load", 1000)
    assert compared(full, OVER | {"avg_load": 1000}, total_load=10_000) == ("", "load", 0)
    assert compared(full, OVER, total_load=8000) == ("", "load", 0)
    # two fully busy groups: the average of the busiest is 0
    assert compared(full, FULL | {"idle_cpus": 0})[0] == "idle CPUs"


def test_pinned_tasks_move_one_task_at_a_time():
    assert compared(OVER, {"type": IMBALANCED, "sum_nr": 5}) == ("", "task", 1)
    assert compared({}, {"type": IMBALANCED, "sum_nr": 1}) == ("", "task", 1)


def test_single_cpus_of_an_llc():
    one = machine(1, 4)
    assert compared({}, {"sum_nr": 2, "sum_h_nr": 2}, m=one) == ("", "task", 1)
    assert compared({}, {"sum_nr": 1, "sum_h_nr": 1}, m=one)[0] == "single task"
    assert compared({"sum_nr": 1}, {"sum_nr": 2, "sum_h_nr": 2}, m=one) == ("", "task", 0)
    assert compared({}, {"type": OVERLOADED, "sum_nr": 2, "sum_h_nr": 2}, m=one) == ("", "task", 1)


def test_threads_of_cores():
    smt = machine(1, 4, threads=2)
    busy = {"type": SMT_BALANCE, "sum_nr": 2, "sum_h_nr": 2}
    assert compared({"idle_cpus": 2}, busy, m=smt) == ("", "task", 1)
    assert compared({"sum_nr": 1, "idle_cpus": 1}, busy, m=smt)[0] == "idle CPUs"


def test_groups_beyond_the_first_numa_level_are_compared_by_idle_cpus():
    """Groups of NUMA domains have no PREFER_SIBLING."""

    busiest = {"idle_cpus": 0, "sum_nr": 6, "sum_h_nr": 6}
    for idle, reason, imbalance in ((1, "idle CPUs", 0), (2, "", 1), (3, "", 1), (4, "", 2)):
        found = compared({"idle_cpus": idle, "sum_nr": 4 - idle}, busiest, prefers=0)
        assert found[::2] == (reason, imbalance)


@pytest.mark.parametrize(
    ("cores", "nr", "want"),
    [
        ((2, 2), (1, 4), 3),
        ((2, 2), (4, 1), 0),
        ((2, 2), (1, 0), 0),
        ((2, 4), (2, 8), 3),  # (2 * 8 - 4 * 2) = 8; (16 + 6) // 6
        ((4, 2), (0, 2), 3),  # 8; (16 + 6) // 6
        ((1, 7), (0, 2), 2),  # 2; (4 + 8) // 8 = 1, but one of two tasks can go to an idle core
        ((1, 7), (1, 9), 1),  # 2; 1
    ],
)
def test_sibling_imbalance(cores, nr, want):
    s = Still(machine(2, 4))
    for row, group in enumerate(groups(s.sd())):
        group.cores = cores[row]
        s.stats(row, group, sum_nr=nr[row])
    assert s.call(find_src_group.sibling_imbalance, s.env(), s.k.scratch) == want
    assert s.call(find_src_group.sibling_imbalance, s.env(idle=NOT_IDLE), s.k.scratch) == 0


def source(s: Still, migration: str, imbalance: int, without: int = -1) -> int:
    env = s.env()
    env.migration, env.imbalance = MIGRATIONS.index(migration), imbalance
    if without >= 0:
        s.call(cpusets_jit.exclude, cpuset.LB, without)
    return s.call(find_src_group.find_src_rq, env, groups(env.sd)[1])


def test_the_queue_with_the_highest_load():
    s = Still(machine(2, 4))
    assert source(s, "load", 9999) == -1
    s.run(4, 5, 5, 6, 6)
    for cpu, load in ((4, 3000), (5, 2000), (6, 2000)):
        s.cfs(cpu).avg.load_avg = load
    assert source(s, "load", 3000) == 4
    assert source(s, "load", 2999) == 5  # its only task would be too much


def test_the_queue_with_the_highest_use():
    s = Still(machine(2, 4))
    s.run(4, 5, 5, 6, 6)
    for cpu, util, runnable in ((4, 1024, 0), (5, 500, 600), (6, 550, 0)):
        avg = s.cfs(cpu).avg
        avg.util_avg, avg.runnable_avg = util, runnable
    assert source(s, "util", 1) == 5  # waiting counts as use, and a single task is not taken


def test_the_queue_with_the_most_tasks():
    s = Still(machine(2, 4))
    s.run(5, 6, 6, 7, 7)
    assert source(s, "task", 1) == 6
    assert source(s, "task", 1, without=6) == 7
