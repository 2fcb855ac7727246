"""Builds the world of a replay: the table that the engine runs on, in its state at the beginning.

This is the only place where Python objects become rows of the table (docs/replay-semantics.md, section 7). The columns are
named in :mod:`wastedcores.simulator.engine.world`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from wastedcores.jit.plain import Plain
from wastedcores.kernels import KernelModel
from wastedcores.simulator import balancing_v6_12, clocks, decisions, design, realtime
from wastedcores.simulator.domain_rows import CpuSets, Tree
from wastedcores.simulator.engine.codes import group_imbalance_fix
from wastedcores.simulator.engine.fair.weights import INVERSES, WEIGHTS
from wastedcores.simulator.engine.world import cpuset, table
from wastedcores.simulator.engine.world.structs import (
    HotplugStep,
    Kernel,
    Modern,
    Rq,
    SchedDomain,
    TaskGroup,
    TaskStruct,
    WaitObject,
)
from wastedcores.simulator.layout import Sizes, allocate, write_list
from wastedcores.topology.domains import Domains
from wastedcores.topology.levels import SD_NUMA
from wastedcores.topology.machine import Machine
from wastedcores.workload import ops
from wastedcores.workload.program import Costs, Program, Row, TaskSpec

#: room for this many children to begin with; the table grows when it is full
_CHILDREN = 1024
#: room for log records in the engine's table, where they stay in the processor's cache
_LOG_RECORDS = 1 << 16
#: names of the kernel's threads of which each CPU has one (is_per_cpu_kthread(), v6.12.107)
_PER_CPU_KTHREAD = re.compile(r"(kworker|ksoftirqd|migration|cpuhp|irq_work|idle_inject)/\d+")
#: group_imbalance of a kernel model -> k.group_imbalance_fix
_GROUP_IMBALANCE = {
    None: group_imbalance_fix.NONE,
    "paper": group_imbalance_fix.PAPER,
    "patch": group_imbalance_fix.PATCH,
}


def build_world(
    program: Program,
    machine: Machine,
    kernel: KernelModel,
    trees: Sequence[Domains],
    costs: Costs,
    *,
    seed: int,
    considered: bool,
    load: bool,
    decided: bool = False,
    log_records: int | None = None,
    plain: Plain | None = None,
) -> np.ndarray:
    """Build the table of a replay, for compiled functions or for plain ones."""
    cpusets = CpuSets()
    lists: list[int] = []
    rows = [Tree(tree.to_arrays(), cpusets, lists) for tree in trees]
    specs = (*program.templates, *program.tasks)
    everyone = range(machine.cpus)
    cpusets.number(everyone)
    masks = [cpusets.number(cpus) for cpus in program.masks]
    allowed = [everyone if t.allowed is None else t.allowed for t in specs]
    own = [cpusets.number(cpus) for cpus in allowed]
    starts = _places(specs)
    margin = 20_000 + (400 if considered else 40) * machine.cpus
    margin += decisions.records_per_event(trees, decided)
    records = max(_LOG_RECORDS, 4 * margin) if log_records is None else margin + log_records
    weight_lists = len(lists)
    domain_lists = weight_lists + len(WEIGHTS) + len(INVERSES)
    waits = [*_waits(program)]
    m = allocate(
        Sizes(
            cpus=machine.cpus,
            task_groups=len(program.shares),
            domains=sum(t.domains for t in rows),
            sched_groups=sum(t.groups for t in rows),
            capacities=sum(t.capacities for t in rows),
            waits=len(waits),
            templates=len(specs),
            hotplug_steps=len(program.hotplug),
            extra_rows=design.rows_of(machine, kernel)
            + clocks.rows_of(machine)
            + decisions.rows_of(trees, decided)
            + realtime.rows_of(program, machine.cpus)
            + balancing_v6_12.rows_of(trees, kernel),
            cpusets=len(cpusets),
            list_items=domain_lists + 3 * machine.cpus * len(rows),
            ops=max(sum(len(r) for r in starts), 1),
            tasks=len(program.tasks) + (_CHILDREN if program.templates else 0),
            log_records=records,
        )
    )
    g = m[0]
    g[Kernel.log_margin], g[Kernel.seed] = margin, seed
    g[Kernel.log_considered], g[Kernel.log_load] = considered, load
    g[Kernel.weight_lists], g[Kernel.domain_lists] = weight_lists, domain_lists
    cpusets.write(m)
    write_list(m, int(g[Kernel.list0]), [*lists, *WEIGHTS, *INVERSES, *_write_trees(m, rows)])
    m[: machine.cpus, Rq.node] = machine.node_of_cpu
    m[g[Kernel.design] + cpuset.ACTIVE] = cpuset.bits_of(trees[0].cpus)
    _write_machine_constants(g, costs)
    m[g[Kernel.scratch] + table.MODERN_ROW, Modern.refill_ns] = costs.refill_ns
    _write_kernel(m, machine, kernel, plain)
    behind_design = int(g[Kernel.design]) + 1 + design.rows_of(machine, kernel)
    clocks.install(m, behind_design, machine, costs, plain)
    behind_clocks = behind_design + clocks.rows_of(machine)
    if decided:
        g[Kernel.decisions] = behind_clocks
    behind_decisions = behind_clocks + decisions.rows_of(trees, decided)
    realtime.install(m, behind_decisions, program, costs, plain)
    behind_realtime = behind_decisions + realtime.rows_of(program, machine.cpus)
    balancing_v6_12.install(m, behind_realtime, trees, kernel, plain)
    _write_programs(m, starts, masks, len(program.barriers), program.locks)
    _write_specs(m, program, starts, own, [len(cpus) for cpus in allowed])
    _write_waits_and_steps(m, waits, program.hotplug)
    _start(m, program, kernel.base_slice_ns, plain)
    return m


def _write_waits_and_steps(
    m: np.ndarray, waits: Iterable[tuple[int, int]], hotplug: Iterable[tuple[int, int, bool]]
) -> None:
    """Write the wait objects and the hotplug steps."""
    for y, (column, value) in enumerate(waits, int(m[0, Kernel.wait0])):
        m[y, [WaitObject.head, WaitObject.tail, WaitObject.owner]] = -1
        m[y, column] = value
    for row, (_, cpu, online) in enumerate(hotplug, int(m[0, Kernel.step0])):
        m[row, [HotplugStep.cpu, HotplugStep.online]] = cpu, int(online)


def _waits(program: Program) -> Iterator[tuple[int, int]]:
    """Yield column and value of each wait object: barriers, then locks, then semaphores."""
    yield from ((WaitObject.parties, parties) for parties in program.barriers)
    yield from ((WaitObject.parties, 0) for _ in range(program.locks))
    yield from ((WaitObject.count, value) for value in program.semaphores)


def _places(specs: Sequence[TaskSpec]) -> dict[tuple[Row, ...], int]:
    """Return where each distinct program begins in the table of operations, which has them one after the other."""
    out: dict[tuple[Row, ...], int] = {}
    end = 0
    for spec in specs:
        if spec.rows not in out:
            out[spec.rows] = end
            end += len(spec.rows)
    return out


def _write_trees(m: np.ndarray, trees: Sequence[Tree]) -> list[int]:
    """Write the domains of all trees; return what the list of the domains of each tree's CPUs has to hold."""
    sd, group, capacity = (
        int(m[0, c]) for c in (Kernel.domain0, Kernel.sched_group0, Kernel.capacity0)
    )
    out: list[int] = []
    for tree in trees:
        out += tree.write(m, sd, group, capacity)
        sd, group, capacity = sd + tree.domains, group + tree.groups, capacity + tree.capacities
    return out


def _write_machine_constants(g: np.ndarray, costs: Costs) -> None:
    g[Kernel.tick_ns], g[Kernel.hz] = costs.tick_ns, 1_000_000_000 // costs.tick_ns
    g[Kernel.irq_ns], g[Kernel.skew_ns], g[Kernel.ipi_ns] = (
        costs.irq_ns,
        costs.skew_ns,
        costs.ipi_ns,
    )
    g[Kernel.switch_ns], g[Kernel.wake_ns], g[Kernel.spin_ns] = (
        costs.switch_ns,
        costs.wake_ns,
        costs.spin_ns,
    )
    g[Kernel.lb_base_ns], g[Kernel.lb_cpu_ns] = costs.lb_base_ns, costs.lb_cpu_ns
    g[Kernel.idle_ticks] = costs.idle_ticks


def _write_kernel(
    m: np.ndarray, machine: Machine, kernel: KernelModel, plain: Plain | None
) -> None:
    m[0, Kernel.always_balance] = kernel.every_cpu_balances
    m[0, Kernel.group_imbalance_fix] = _GROUP_IMBALANCE[kernel.group_imbalance]
    m[0, Kernel.overload_on_wakeup_fix] = kernel.overload_on_wakeup is not None
    m[0, Kernel.fork_wait] = kernel.fork_wait
    m[0, Kernel.load_v4_4] = kernel.tracks_load_v4_4
    domains = m[int(m[0, Kernel.domain0]) : int(m[0, Kernel.sched_group0])]
    if kernel.forks_avoid_blocked_load:
        domains[:, SchedDomain.fork_margin] = (
            1024 * (domains[:, SchedDomain.imbalance_pct] - 100) // 100
        )
    if kernel.forks_stay_on_node:
        domains[:, SchedDomain.stays_on_node] = (domains[:, SchedDomain.flags] & SD_NUMA) != 0
    if kernel.is_modern:
        m[0, Kernel.is_modern] = 1
    design.install(m, machine, kernel, plain)


#: operations whose target is the number of a lock, and of a semaphore, condition or timer
_OF_A_LOCK = {ops.OP_LOCK, ops.OP_UNLOCK}
_OF_A_SEMAPHORE = {
    ops.OP_POST,
    ops.OP_WAIT,
    ops.OP_SIGNAL,
    ops.OP_CATCH,
    ops.OP_WAIT_SIGNAL,
    ops.OP_TIMER,
    ops.OP_FLUSH,
    ops.OP_SHEPHERD,
}


def _write_programs(
    m: np.ndarray,
    starts: dict[tuple[Row, ...], int],
    masks: Sequence[int],
    barriers: int,
    locks: int,
) -> None:
    """Write the programs. A loop's target becomes a row, as does a CPU set; wait objects are counted from the first barrier."""
    op0, cpuset0 = int(m[0, Kernel.op0]), int(m[0, Kernel.cpuset0])
    out: list[Row] = []
    for rows, start in starts.items():
        for op, target, a, b, c in rows:
            number = target
            if op in (ops.OP_LOOP, ops.OP_LOOP_BARRIER):
                number += op0 + start
            elif op == ops.OP_AFFINITY:
                number = cpuset0 + masks[target]
            elif op in _OF_A_LOCK:
                number += barriers
            elif op in _OF_A_SEMAPHORE:
                number += barriers + locks
            out.append((op, number, a, b, c))
    m[op0 : op0 + len(out), :5] = np.array(out, dtype=np.int64).reshape(-1, 5)


def _write_specs(
    m: np.ndarray,
    program: Program,
    starts: dict[tuple[Row, ...], int],
    cpusets: Sequence[int],
    allowed: Sequence[int],
) -> None:
    """Write the templates and then the top-level tasks, as rows from which the engine makes tasks."""
    g = m[0]
    for i, spec in enumerate((*program.templates, *program.tasks)):
        row = g[Kernel.template0] + i
        template = i < len(program.templates)
        inherits = template and spec.allowed is None
        m[row, TaskStruct.pc] = g[Kernel.op0] + starts[spec.rows]
        m[row, TaskStruct.cpus_allowed] = -1 if inherits else g[Kernel.cpuset0] + cpusets[i]
        m[row, TaskStruct.nr_cpus_allowed] = allowed[i]
        m[row, TaskStruct.nice] = -1000 if template else spec.nice  # -1000: the parent's
        m[row, TaskStruct.daemon] = spec.daemon
        m[row, TaskStruct.kthread] = _PER_CPU_KTHREAD.match(spec.comm) is not None


def _start(m: np.ndarray, program: Program, base_slice_ns: int | None, plain: Plain | None) -> None:
    """Let the engine boot the machine, and plan the starts of the tasks and the hotplug steps."""
    from wastedcores.simulator.engine import run_jit

    k: Any = m
    add_step, add_top, start_state = run_jit.add_step, run_jit.add_top, run_jit.start_state
    if plain is not None:
        k = plain.kernel(m)
        add_step, add_top, start_state = map(plain.of, (add_step, add_top, start_state))
    g = m[0]
    with np.errstate(over="ignore"):  # splitmix64 wraps; only the uncompiled engine notices
        phase = int(start_state(k))
        if base_slice_ns is not None:
            m[0, Kernel.base_slice] = base_slice_ns
        for group, shares in enumerate(program.shares):
            m[g[Kernel.task_group0] + group, TaskGroup.shares] = shares
        begin = table.EPOCH_NS + (phase if program.random_phase else 0)
        g[Kernel.t_start] = begin
        for i, spec in enumerate(program.tasks, len(program.templates)):
            add_top(k, i, spec.group, spec.start_cpu, begin + spec.start_ns)
        for step, (time_ns, _, _) in enumerate(program.hotplug):
            add_step(k, step, begin + time_ns)
