"""Exact facts about Linux v4.1 (docs/scheduler-model.md, sections 1 to 6), checked on the engine as plain Python."""

from __future__ import annotations

from itertools import pairwise

import pytest
from support.still_v6_12 import MS, Still, groups

from wastedcores.jit.plain import Plain
from wastedcores.kernels import KernelModel
from wastedcores.simulator import RawReplay, simulate
from wastedcores.simulator.engine.balance import group_stats_jit as stats
from wastedcores.simulator.engine.balance import load_balance_v4_1_jit as balance
from wastedcores.simulator.engine.balance import select_task_rq_v4_1_jit as placement
from wastedcores.simulator.engine.balance.rebalance_domains_jit import interval_of
from wastedcores.simulator.engine.codes import group_type_v4_1, log_kind, sd_flag, stats_row
from wastedcores.simulator.engine.codes.idle_type import IDLE, NEWLY_IDLE, NOT_IDLE
from wastedcores.simulator.engine.fair import decay_jit, entity_jit, load_jit
from wastedcores.simulator.engine.fair.weights import INVERSES, WEIGHTS
from wastedcores.simulator.engine.world import log_column
from wastedcores.simulator.engine.world.structs import (
    CfsRq,
    LbEnv,
    SdLbStats,
    SgLbStatsV4,
    TaskStruct,
)
from wastedcores.simulator.plain.engine import PlainEngine
from wastedcores.topology.machine import Machine
from wastedcores.workload import ops
from wastedcores.workload.program import Program, TaskSpec

PLAIN = Plain()
HOG = ((ops.OP_COMPUTE, 10_000_000 * MS, 10_000_000 * MS, 0, 0), (ops.OP_EXIT, 0, 0, 0, 0))


def machine(cpus: int, nodes: int = 1, smt: int = 1) -> Machine:
    far = [[10 if i == j else 16 for j in range(nodes)] for i in range(nodes)]
    node = [n * nodes // cpus for n in range(cpus)]
    facts = {"name": "test", "cpus": cpus, "node_of_cpu": node, "distance": far}
    return Machine.from_dict(facts | {"core_of_cpu": [n // smt for n in range(cpus)]})


def kernel(on: Machine, name: str = "v4.1") -> Still:
    return Still(on, kernel=KernelModel.named(name))


def replayed(
    on: Machine, tasks: list[TaskSpec], shares: tuple[int, ...] = (1024,), until_ms: int = 1500
) -> tuple[RawReplay, PlainEngine]:
    """Return a replay and the engine at its end."""
    program = Program(tuple(tasks), shares=shares)
    plain = PlainEngine(on, program)
    return simulate(
        program, on, KernelModel.named("v4.1"), until_ns=until_ms * MS, plain=plain
    ), plain


# --- section 1: CFS on one CPU ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpus", "tasks", "quantum_ms"),
    [(4, 2, 12), (4, 3, 8), (4, 4, 8), (4, 5, 4), (8, 2, 16), (8, 3, 12)],
)
def test_quanta(cpus, tasks, quantum_ms):
    # docs/scheduler-model.md, section 8.1: 12, 8, 8, 4 ms on 4 CPUs; 16 and 12 ms on 8 and more, as in the recordings
    specs = [TaskSpec(f"t{i}", HOG, allowed=frozenset([0])) for i in range(tasks)]
    switches = replayed(machine(cpus), specs, until_ms=600)[0].of(log_kind.SWITCH)
    times = switches[switches[:, log_column.CPU] == 0, log_column.TS]
    assert {round((b - a) / MS) for a, b in list(pairwise(times))[8:]} == {quantum_ms}


def test_weights__one_nice_level_is_a_quarter():
    assert WEIGHTS[20] == 1024
    assert WEIGHTS[0] == 88761
    assert WEIGHTS[39] == 15
    for weight, inv in zip(WEIGHTS, INVERSES, strict=True):
        assert abs((1 << 32) // weight - inv) <= 1


@pytest.mark.parametrize(
    ("online", "latency_ms"), [(1, 6), (2, 12), (3, 12), (4, 18), (7, 18), (8, 24), (64, 24)]
)
def test_tunables_follow_the_number_of_cpus(online, latency_ms):
    k = kernel(machine(online)).k
    assert k.sched_latency == latency_ms * MS
    assert k.min_granularity * 8 == k.sched_latency
    assert k.wakeup_granularity * 6 == k.sched_latency


# --- section 2: load --------------------------------------------------------------------------------------------------


def test_pelt_tables():
    assert decay_jit.Y_SUM[:4].tolist() == [0, 1002, 1982, 2941]
    assert decay_jit.Y_SUM[32] == 23371
    assert decay_jit.Y_INV[1] == 0xFA83B2DA
    assert PLAIN.of(decay_jit.contrib_of)(345) == decay_jit.LOAD_AVG_MAX == 47742
    # the kernel multiplies by 0xffffffff and shifts, which makes the result smaller by one
    assert PLAIN.of(decay_jit.decay_load)(1024, 32) == 511
    assert PLAIN.of(decay_jit.decay_load)(47742, 2017) == 0


def spread(threads: int, twice: int = 0) -> PlainEngine:
    """Run a session of ``threads`` threads that never sleep, one per CPU, of which ``twice`` share CPU 0."""
    cpus = [0] * twice + list(range(1 if twice else 0, 64))
    tasks = [
        TaskSpec(f"t{i}", HOG, group=1, allowed=frozenset([cpu]), start_cpu=cpu)
        for i, cpu in enumerate(cpus[:threads])
    ]
    return replayed(machine(64), tasks, (1024, 1024))[1]


@pytest.mark.parametrize(
    ("threads", "twice", "contribution", "scaled", "h_load", "per_task"),
    [
        (1, 0, 1023, 1022, 1021, 1020),
        (8, 0, 127, 127, 126, 125),
        pytest.param(60, 0, 17, 17, 16, 15, marks=pytest.mark.slow),
        pytest.param(64, 0, 15, 15, 14, 13, marks=pytest.mark.slow),
        pytest.param(64, 2, 31, 31, 30, 14, marks=pytest.mark.slow),
    ],
)
def test_group_contribution(threads, twice, contribution, scaled, h_load, per_task):
    # docs/scheduler-model.md, section 2.5,
    # with every rounding of its formulas: a group that uses less than one CPU in total (one thread:
    # runnable_avg 1023 of 1024) is scaled once more, and a thread's share is rounded down below the queue's h_load
    plain = spread(threads, twice)
    k = plain.rqs.k
    q = CfsRq(k, k.cfs_rq0 + k.nr_cpus)
    tg = q.task_group
    assert q.tg_load_contrib * tg.shares // (tg.load_avg + 1) == contribution
    assert q.entity.load_avg_contrib == scaled == plain.of(load_jit.weighted_cpuload)(k, 0)
    assert plain.of(load_jit.task_h_load)(k, TaskStruct(k, k.task0)) == per_task
    assert q.h_load == h_load


def test_always_running_task_contributes_1023():
    plain = replayed(machine(2), [TaskSpec("t", HOG, allowed=frozenset([1]))])[1]
    k = plain.rqs.k
    assert TaskStruct(k, k.task0).se.load_avg_contrib == 1023
    assert plain.of(load_jit.weighted_cpuload)(k, 1) == 1023


def test_cpu_load_history__index_t_reads_entry_t_minus_1():
    s = kernel(machine(2))
    s.k.rqs[0].cpu_load[:] = [10, 20, 30, 40, 50]
    s.cfs(0).runnable_load_avg = 25
    assert [s.call(load_jit.source_load, 0, t) for t in (0, 1, 2, 3)] == [25, 10, 20, 25]
    assert [s.call(load_jit.target_load, 0, t) for t in (0, 1, 2, 3)] == [25, 25, 25, 30]


def test_missed_ticks_decay_as_the_kernel_rounds():
    decay_missed = PLAIN.of(load_jit.decay_missed)
    assert decay_missed(1000, 3, 1) == 125
    assert decay_missed(1000, 1, 2) == 750
    assert decay_missed(1000, 64, 3) == 0


# --- section 5: balancing ---------------------------------------------------------------------------------------------


def test_intervals_per_level_on_the_paper_machine():
    s = kernel(Machine.preset("bulldozer8x8"))
    own = [s.sd(0, level) for level in range(4)]
    assert [sd.span_weight for sd in own] == [2, 8, 40, 64]
    tick_ms = s.k.tick_ns // MS
    assert [s.call(interval_of, sd, True) * tick_ms for sd in own] == [64, 256, 1280, 2048]
    assert [s.call(interval_of, sd, False) * tick_ms for sd in own] == [4, 8, 40, 64]
    own[3].balance_interval = 512
    assert s.call(interval_of, own[3], True) * tick_ms == 6400


def test_capacity_of_an_smt_cpu_is_589():
    s = kernel(machine(16, nodes=2, smt=2))
    assert {rq.cpu_capacity for rq in s.k.rqs} == {589}
    assert [g.sgc.capacity for g in groups(s.sd())] == [8 * 589, 8 * 589]


def run_on(s: Still, cpu: int, contributions: list[int]) -> None:
    """Pretend that entities with these contributions are queued on a CPU and keep it busy."""
    rq, q = s.k.rqs[cpu], s.cfs(cpu)
    q.runnable_load_avg = sum(contributions)
    rq.cpu_load[:] = [sum(contributions)] * 5
    q.h_nr_running = rq.nr_running = len(contributions)
    q.utilization_load_avg = 1024
    rq.curr = s.new(cpu)


def two_nodes(name: str = "v4.1") -> Still:
    """Return the example of docs/scheduler-model.md, section 5.8.

    R runs on CPU 0 of node 0, whose other seven CPUs are idle. Node 1 has two make threads per CPU.
    """
    s = kernel(machine(16, nodes=2, smt=2), name)
    run_on(s, 0, [1023])
    for cpu in range(8, 16):
        run_on(s, cpu, [15, 16])
    return s


def attempt(s: Still, cpu: int, idle: int, level: int = -1) -> SdLbStats | None:
    """Return the busiest group and the imbalance, if there is one."""
    env, out = s.env(level, cpu, idle), SdLbStats(s.k, s.k.scratch + 3)
    found = s.call(stats.find_busiest_group, env.sd, cpu, idle, s.k.scratch, out)
    env.imbalance = out.imbalance
    return out if found else None


def test_group_imbalance__an_idle_cpu_sees_a_balanced_machine():
    s = two_nodes()
    assert attempt(s, 3, IDLE) is None
    local = SgLbStatsV4(s.k, s.k.scratch + stats_row.LOCAL)
    busiest = SgLbStatsV4(s.k, s.k.scratch + stats_row.BUSIEST)
    assert (local.avg_load, busiest.avg_load) == (222, 53)
    assert local.group_capacity == 4712
    assert busiest.group_type == group_type_v4_1.OVERLOADED
    assert SdLbStats(s.k, s.k.scratch + 3).avg_load > 53


def test_group_imbalance__a_newly_idle_cpu_gets_one_thread():
    s = two_nodes()
    out = attempt(s, 3, NEWLY_IDLE)
    assert s.cpus_of(out.busiest.span) == set(range(8, 16))
    assert out.imbalance == 15


@pytest.mark.parametrize("fix", ["group_imbalance", "group_imbalance:patch"])
def test_group_imbalance__fixed(fix):
    # half the difference of the busiest CPU there (31) and the least loaded here (0)
    assert attempt(two_nodes(f"v4.1+{fix}"), 3, IDLE).imbalance == 15


def test_the_second_level_of_the_bug__the_pair_of_r_hides_other_queues():
    # inside node 0 the busiest pair is that of R and a make thread. R is skipped (one task, more load than the imbalance), the
    # thread on its sibling is running, and the two threads on CPU 2 are not examined
    s = two_nodes()
    run_on(s, 1, [15])
    run_on(s, 2, [15, 15])
    group = attempt(s, 4, IDLE, -2).busiest
    assert s.cpus_of(group.span) == {0, 1}
    queue = s.call(balance.find_busiest_queue, LbEnv(s.k, s.k.scratch + 4), group)
    assert queue == -1 or s.k.rqs[queue].nr_running == 1


def test_only_a_newly_idle_cpu_looks_for_the_queue_of_a_cpu_that_runs_one_task():
    """find_busiest_group(): an idle CPU needs two idle CPUs more than the busiest group has, unless that is overloaded."""
    s = kernel(machine(4))
    run_on(s, 2, [1023])
    assert attempt(s, 1, IDLE) is None
    assert s.cpus_of(attempt(s, 1, NEWLY_IDLE).busiest.span) == {2}


def designated(s: Still, idle: int) -> list[int]:
    return [c for c in range(8) if s.call(balance.should_we_balance, s.env(-1, c, idle))]


def test_designated_cpu_is_the_first_idle_of_the_local_group():
    s = two_nodes()
    assert designated(s, IDLE) == [1]
    for cpu in range(1, 8):
        run_on(s, cpu, [15])
    assert designated(s, NOT_IDLE) == [s.sd(3).groups.balance_cpu] == [0]
    assert 3 in designated(s, NEWLY_IDLE)


def test_the_published_construction_patch_lets_everybody_balance():
    assert designated(two_nodes("v4.1+group_construction:patch"), IDLE) == list(range(8))


def test_group_construction__nodes_1_2_and_4_have_nobody_to_pull_from():
    s = kernel(Machine.preset("bulldozer8x8"))
    spans = [[s.cpus_of(g.span) for g in groups(s.sd(8 * node))] for node in range(8)]
    assert [n for n in range(8) if all(8 * n in span for span in spans[n])] == [1, 2, 4]


def test_a_task_stays_as_hot_as_it_was_when_its_cpu_last_read_the_clock():
    s = kernel(machine(2))
    p, slept = s.new(0), s.k.now_ns
    p.se.exec_start = slept
    s.later(300_000)
    s.call(entity_jit.enqueue_task, p, False, False)
    env = s.env(-1, 1, NEWLY_IDLE, src=0)
    s.go_to(slept + 3 * MS)
    # load_balance() of v4.1 does not update the clock of the source, but every other action on the source does
    assert s.call(balance.task_hot, p, env)
    s.call(load_jit.update_blocked_averages, 0)
    assert not s.call(balance.task_hot, p, env)


# --- section 6: placement ---------------------------------------------------------------------------------------------


def test_select_idle_sibling__wholly_idle_pairs_only():
    s = kernel(machine(8, smt=2))
    p = s.new(0)
    for cpu in (0, 2, 4):
        run_on(s, cpu, [1023])
    # 3 and 5 are idle but their siblings are not; the pair 6, 7 is wholly idle
    assert s.call(placement.select_idle_sibling, p, 0) == 6
    run_on(s, 6, [1023])
    # no pair is left: only the sibling of the target is considered
    assert s.call(placement.select_idle_sibling, p, 0) == 1
    run_on(s, 1, [1023])
    assert s.call(placement.select_idle_sibling, p, 0) == 0


def test_overload_on_wakeup_patch__the_cpu_idle_for_longest():
    s = kernel(machine(8), "v4.1+overload_on_wakeup")
    p = s.new(0, range(1, 8))
    for cpu in range(6):
        run_on(s, cpu, [1023])
    s.k.rqs[6].idle_stamp, s.k.rqs[7].idle_stamp = 200, 100
    for prev, chosen in ((0, 7), (6, 6)):
        assert s.call(placement.select_task_rq_fair, p, prev, sd_flag.BALANCE_WAKE, 1, 0) == chosen
