"""Exact facts about Linux v4.1 (docs/scheduler-model.md, sections 1 to 6), checked on the plain-Python reference."""

from __future__ import annotations

from itertools import pairwise

import pytest

from wastedcores.kernels import KernelModel
from wastedcores.simulator import log_column, log_kind
from wastedcores.simulator.reference import (
    Kernel,
    Program,
    Simulation,
    TaskSpec,
    arithmetic,
    balance,
    fair,
    load,
    nohz,
    placement,
    stats,
)
from wastedcores.simulator.reference.state import Task
from wastedcores.simulator.reference.stats import IDLE, NEWLY_IDLE, NOT_IDLE, Env
from wastedcores.topology.domains import domain_events
from wastedcores.topology.machine import Machine
from wastedcores.workload import ops

MS = 1_000_000
HOG = ((ops.OP_COMPUTE, 10_000_000 * MS, 10_000_000 * MS, 0, 0), (ops.OP_EXIT, 0, 0, 0, 0))


def machine(cpus: int, nodes: int = 1, smt: int = 1) -> Machine:
    far = [[10 if i == j else 16 for j in range(nodes)] for i in range(nodes)]
    return Machine.from_dict(
        {
            "name": "test",
            "cpus": cpus,
            "node_of_cpu": [n * nodes // cpus for n in range(cpus)],
            "distance": far,
            "core_of_cpu": [n // smt for n in range(cpus)],
        }
    )


def kernel(on: Machine, name: str = "v4.1") -> Kernel:
    k = Kernel(on, KernelModel.named(name), domain_events(on, name))
    k.attach_domains(k.trees[0], 0)
    return k


def simulate(
    on: Machine, tasks: list[TaskSpec], shares: tuple[int, ...] = (1024,), until_ms: int = 1500
):
    k = Kernel(on, KernelModel.named("v4.1"), domain_events(on, "v4.1"))
    sim = Simulation(k, Program(tuple(tasks), shares=shares), 1)
    for tg in k.groups[1:]:
        for se in tg.se:
            # a new session: the share of CPU time of an old one may stay up to 1/64 too low (tg_runnable_contrib)
            se.avg_period, se.decay_count = 0, 0
    sim.run(until_ms * MS)
    return sim


def quanta(log: list[tuple[int, int, int]]) -> list[int]:
    """Return the times in ms between switches on CPU 0, without the first ones; ``log`` has time, CPU and pid."""
    times = [t for t, cpu, _ in log if cpu == 0]
    return [round((b - a) / MS) for a, b in pairwise(times)][8:]


# --- section 1: CFS on one CPU ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpus", "tasks", "quantum_ms"),
    [(4, 2, 12), (4, 3, 8), (4, 4, 8), (4, 5, 4), (8, 2, 16), (8, 3, 12)],
)
@pytest.mark.parametrize("by", ["reference", "engine"])
def test_quanta(by, cpus, tasks, quantum_ms):
    # docs/scheduler-model.md, section 8.1: 12, 8, 8, 4 ms on 4 CPUs; 16 and 12 ms on 8 and more, as in the recordings
    specs = tuple(TaskSpec(f"t{i}", HOG, allowed=frozenset([0])) for i in range(tasks))
    program = Program(specs)
    on = machine(cpus)
    if by == "reference":
        k = Kernel(on, KernelModel.named("v4.1"), domain_events(on, "v4.1"))
        Simulation(k, program, 1).run(600 * MS)
        log = [
            (e.ts_ns, dict(e.columns)["cpu"], dict(e.columns)["pid"])
            for e in k.log
            if e.kind == "switch"
        ]
    else:
        from wastedcores.simulator import simulate as run_engine

        raw = run_engine(program, on, KernelModel.named("v4.1"), seed=1, until_ns=600 * MS)
        columns = [log_column.TS, log_column.CPU, log_column.PID]
        log = [tuple(r) for r in raw.of(log_kind.SWITCH)[:, columns].tolist()]
    assert set(quanta(log)) == {quantum_ms}


def test_weights__one_nice_level_is_a_quarter():
    assert arithmetic.PRIO_TO_WEIGHT[20] == 1024
    assert arithmetic.PRIO_TO_WEIGHT[0] == 88761
    assert arithmetic.PRIO_TO_WEIGHT[39] == 15
    for weight, inv in zip(arithmetic.PRIO_TO_WEIGHT, arithmetic.PRIO_TO_WMULT, strict=True):
        assert abs((1 << 32) // weight - inv) <= 1


@pytest.mark.parametrize(
    ("online", "latency_ms"), [(1, 6), (2, 12), (3, 12), (4, 18), (7, 18), (8, 24), (64, 24)]
)
def test_tunables_follow_the_number_of_cpus(online, latency_ms):
    k = kernel(machine(online))
    assert k.latency_ns == latency_ms * MS
    assert k.min_granularity_ns * 8 == k.latency_ns
    assert k.wakeup_granularity_ns * 6 == k.latency_ns


# --- section 2: load --------------------------------------------------------------------------------------------------


def test_pelt_tables():
    assert arithmetic.YN_SUM[:4] == (0, 1002, 1982, 2941)
    assert arithmetic.YN_SUM[32] == 23371
    assert arithmetic.YN_INV[1] == 0xFA83B2DA
    assert arithmetic.contribution(345) == arithmetic.LOAD_AVG_MAX == 47742
    # the kernel multiplies by 0xffffffff and shifts, which makes the result smaller by one
    assert arithmetic.decay_load(1024, 32) == 511
    assert arithmetic.decay_load(47742, 2017) == 0


def spread(threads: int, twice: int = 0) -> Simulation:
    """Run a session of ``threads`` threads that never sleep, one per CPU, of which ``twice`` share CPU 0."""
    cpus = [0] * twice + list(range(1 if twice else 0, 64))
    tasks = [
        TaskSpec(f"t{i}", HOG, group=1, allowed=frozenset([cpu]), start_cpu=cpu)
        for i, cpu in enumerate(cpus[:threads])
    ]
    return simulate(machine(64), tasks, (1024, 1024))


@pytest.mark.parametrize(
    ("threads", "twice", "contribution", "scaled", "h_load", "per_task"),
    [
        (1, 0, 1023, 1022, 1021, 1020),
        (8, 0, 127, 127, 126, 125),
        (60, 0, 17, 17, 16, 15),
        (64, 0, 15, 15, 14, 13),
        (64, 2, 31, 31, 30, 14),
    ],
)
def test_group_contribution(threads, twice, contribution, scaled, h_load, per_task):
    # docs/scheduler-model.md, section 2.5,
    # with every rounding of its formulas: a group that uses less than one CPU in total (one thread:
    # runnable_avg 1023 of 1024) is scaled once more, and a thread's share is rounded down below the queue's h_load
    sim = spread(threads, twice)
    k = sim.k
    tg, se, q = k.groups[1], k.groups[1].se[0], k.groups[1].cfs_rq[0]
    assert q.tg_load_contrib * tg.shares // (tg.load_avg + 1) == contribution
    assert se.load_avg_contrib == scaled == load.weighted_cpuload(k.rqs[0])
    assert load.task_h_load(k, sim.tasks[0]) == per_task
    assert q.h_load == h_load


def test_always_running_task_contributes_1023():
    sim = simulate(machine(2), [TaskSpec("t", HOG, allowed=frozenset([1]))])
    assert sim.tasks[0].se.load_avg_contrib == 1023
    assert load.weighted_cpuload(sim.k.rqs[1]) == 1023


def test_cpu_load_history__index_t_reads_entry_t_minus_1():
    k = kernel(machine(2))
    rq = k.rqs[0]
    rq.cpu_load = [10, 20, 30, 40, 50]
    rq.cfs.runnable_load_avg = 25
    assert [load.source_load(rq, t) for t in (0, 1, 2, 3)] == [25, 10, 20, 25]
    assert [load.target_load(rq, t) for t in (0, 1, 2, 3)] == [25, 25, 25, 30]


def test_missed_ticks_decay_as_the_kernel_rounds():
    assert arithmetic.decay_missed(1000, 3, 1) == 125
    assert arithmetic.decay_missed(1000, 1, 2) == 750
    assert arithmetic.decay_missed(1000, 64, 3) == 0


# --- section 5: balancing ---------------------------------------------------------------------------------------------


def test_intervals_per_level_on_the_paper_machine():
    k = kernel(Machine.preset("bulldozer8x8"))
    own = k.rqs[0].sd
    assert [len(sd.span) for sd in own] == [2, 8, 40, 64]
    tick_ms = k.tick_ns // MS
    assert [nohz.balance_interval(k, sd, True) * tick_ms for sd in own] == [64, 256, 1280, 2048]
    assert [nohz.balance_interval(k, sd, False) * tick_ms for sd in own] == [4, 8, 40, 64]
    own[3].balance_interval = 512
    assert nohz.balance_interval(k, own[3], True) * tick_ms == 6400


def test_capacity_of_an_smt_cpu_is_589():
    k = kernel(machine(16, nodes=2, smt=2))
    assert {rq.cpu_capacity for rq in k.rqs} == {589}
    assert [g.sgc.capacity for g in k.rqs[0].sd[-1].groups] == [8 * 589, 8 * 589]


def run_on(k: Kernel, cpu: int, contributions: list[int]) -> None:
    """Pretend that entities with these contributions are queued on a CPU and keep it busy."""
    rq = k.rqs[cpu]
    rq.cfs.runnable_load_avg = sum(contributions)
    rq.cpu_load = [sum(contributions)] * 5
    rq.cfs.h_nr_running = rq.nr_running = len(contributions)
    rq.cfs.utilization_load_avg = 1024
    rq.curr = Task(1000 + cpu, "busy", k.groups[0], frozenset([cpu]), cpu=cpu)


@pytest.fixture
def two_nodes() -> Kernel:
    """Return the example of docs/scheduler-model.md, section 5.8.

    R runs on CPU 0 of node 0, whose other seven CPUs are idle. Node 1 has two make threads per CPU.
    """
    k = kernel(machine(16, nodes=2, smt=2))
    run_on(k, 0, [1023])
    for cpu in range(8, 16):
        run_on(k, cpu, [15, 16])
    return k


def attempt(k: Kernel, cpu: int, idle: str):
    env = Env(k.rqs[cpu].sd[-1], cpu, idle, set(k.active), None)
    return stats.find_busiest_group(k, env), env


def test_group_imbalance__an_idle_cpu_sees_a_balanced_machine(two_nodes):
    local, busiest, average = stats.update_sd_lb_stats(
        two_nodes, Env(two_nodes.rqs[3].sd[-1], 3, IDLE, set(two_nodes.active), None)
    )
    assert (local.avg_load, busiest.avg_load) == (222, 53)
    assert local.capacity == 4712
    assert busiest.type == stats.OVERLOADED
    assert attempt(two_nodes, 3, IDLE)[0] is None
    assert average > 53


def test_group_imbalance__a_newly_idle_cpu_gets_one_thread(two_nodes):
    busiest, env = attempt(two_nodes, 3, NEWLY_IDLE)
    assert busiest is not None
    assert busiest.group.cpus == list(range(8, 16))
    assert env.imbalance == 15


@pytest.mark.parametrize("fix", ["group_imbalance", "group_imbalance:patch"])
def test_group_imbalance__fixed(fix, two_nodes):
    two_nodes.model = KernelModel.named(f"v4.1+{fix}")
    busiest, env = attempt(two_nodes, 3, IDLE)
    assert busiest is not None
    # half the difference of the busiest CPU there (31) and the least loaded here (0)
    assert env.imbalance == 15


def test_the_second_level_of_the_bug__the_pair_of_r_hides_other_queues(two_nodes):
    # inside node 0 the busiest pair is that of R and a make thread. R is skipped (one task, more load than the imbalance), the
    # thread on its sibling is running, and the two threads on CPU 2 are not examined
    k = two_nodes
    run_on(k, 1, [15])
    run_on(k, 2, [15, 15])
    env = Env(k.rqs[4].sd[-2], 4, IDLE, set(k.active), None)
    busiest = stats.find_busiest_group(k, env)
    assert busiest is not None
    assert busiest.group.cpus == [0, 1]
    queue = stats.find_busiest_queue(k, env, busiest.group)
    assert queue is None or queue.nr_running == 1


def test_designated_cpu_is_the_first_idle_of_the_local_group(two_nodes):
    k = two_nodes
    sd = k.rqs[3].sd[-1]
    may = [
        cpu
        for cpu in range(8)
        if balance.should_we_balance(k, Env(k.rqs[cpu].sd[-1], cpu, IDLE, set(k.active), None))
    ]
    assert may == [1]
    for cpu in range(1, 8):
        run_on(k, cpu, [15])
    may = [
        cpu
        for cpu in range(8)
        if balance.should_we_balance(k, Env(k.rqs[cpu].sd[-1], cpu, NOT_IDLE, set(k.active), None))
    ]
    assert may == [sd.groups[0].balance_cpu] == [0]
    assert balance.should_we_balance(k, Env(sd, 3, NEWLY_IDLE, set(k.active), None))


def test_the_published_construction_patch_lets_everybody_balance(two_nodes):
    two_nodes.model = KernelModel.named("v4.1+group_construction:patch")
    k = two_nodes
    assert all(
        balance.should_we_balance(k, Env(k.rqs[cpu].sd[-1], cpu, IDLE, set(k.active), None))
        for cpu in range(8)
    )


def test_group_construction__nodes_1_2_and_4_have_nobody_to_pull_from():
    k = kernel(Machine.preset("bulldozer8x8"))
    alone = [
        node for node in range(8) if all(8 * node in g.cpus for g in k.rqs[8 * node].sd[-1].groups)
    ]
    assert alone == [1, 2, 4]


def test_a_task_stays_as_hot_as_it_was_when_its_cpu_last_read_the_clock():
    k = kernel(machine(2))
    source, p = k.rqs[0], Task(99, "p", k.groups[0], frozenset(range(2)), cpu=0)
    fair.set_task_rq(p, 0)
    slept = k.now_ns
    p.se.exec_start = slept
    k.now_ns = slept + 300_000
    fair.enqueue_task(k, source, p)
    env = Env(k.rqs[1].sd[-1], 1, NEWLY_IDLE, set(k.active), None, src_cpu=0)
    k.now_ns = slept + 3 * MS
    # load_balance() of v4.1 does not update the clock of the source, but every other action on the source does
    assert balance.task_hot(k, env, p)
    nohz.update_blocked_averages(k, source)
    assert not balance.task_hot(k, env, p)


# --- section 6: placement ---------------------------------------------------------------------------------------------


def test_select_idle_sibling__wholly_idle_pairs_only():
    k = kernel(machine(8, smt=2))
    p = Task(99, "p", k.groups[0], frozenset(range(8)), cpu=0)
    for cpu in (0, 2, 4):
        run_on(k, cpu, [1023])
    # 3 and 5 are idle but their siblings are not; the pair 6, 7 is wholly idle
    assert placement.select_idle_sibling(k, p, 0) == 6
    run_on(k, 6, [1023])
    # no pair is left: only the sibling of the target is considered
    assert placement.select_idle_sibling(k, p, 0) == 1
    run_on(k, 1, [1023])
    assert placement.select_idle_sibling(k, p, 0) == 0


def test_overload_on_wakeup_patch__the_cpu_idle_for_longest():
    k = kernel(machine(8), "v4.1+overload_on_wakeup")
    p = Task(99, "p", k.groups[0], frozenset(range(1, 8)), cpu=0)
    for cpu in range(6):
        run_on(k, cpu, [1023])
    k.rqs[6].idle_stamp, k.rqs[7].idle_stamp = 200, 100
    assert placement.select_task_rq_fair(k, p, 0, "wake", 1, False) == 7
    assert placement.select_task_rq_fair(k, p, 6, "wake", 1, False) == 6
