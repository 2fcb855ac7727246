"""Builds the world of a replay: the table that the engine runs on, in its state at the beginning.

This is the only place where Python objects become rows of the table (docs/replay-semantics.md, section 7). The columns are
named in :mod:`wastedcores.simulator.engine.world`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wastedcores.jit.plain import Plain
from wastedcores.kernels import KernelModel
from wastedcores.simulator import decisions, design, parts
from wastedcores.simulator.domain_rows import CpuSets, Tree
from wastedcores.simulator.engine.codes import group_imbalance_fix
from wastedcores.simulator.engine.fair.weights import INVERSES, WEIGHTS
from wastedcores.simulator.engine.world import cpuset, log_column
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
from wastedcores.simulator.engine.world.table import (
    EPOCH_NS,
    INFINITE,
    LIST,
    LOW,
    MODERN_ROW,
    SHIFT,
    WIDTH,
    new_table,
    rows_for,
    write_list,
)
from wastedcores.topology.domains import Domains
from wastedcores.topology.levels import SD_NUMA
from wastedcores.topology.machine import Machine
from wastedcores.workload import ops
from wastedcores.workload.program import Costs, Program, Row, TaskSpec

#: room for this many children to begin with; the table grows when it is full
_CHILDREN = 1024
#: room for log records in the engine's table; this many stay in the processor's cache
_LOG_RECORDS = 1 << 16
#: every replay has these rows from k.scratch on: six rows of scratch, the globals of modern kernels (world/structs: Modern), the
#: four named CPU sets (engine/world/cpuset.py) and the core row (Design)
_SCRATCH_ROWS = 12
#: the constants of a machine; each of them has a column of the same name in Kernel
_COSTS = (
    "tick_ns", "irq_ns", "skew_ns", "ipi_ns", "switch_ns", "wake_ns", "spin_ns", "lb_base_ns", "lb_cpu_ns", "idle_ticks",
)  # fmt: skip
#: names of kernel threads that exist once per CPU (is_per_cpu_kthread(), v6.12.107)
_PER_CPU_KTHREAD = re.compile(r"(kworker|ksoftirqd|migration|cpuhp|irq_work|idle_inject)/\d+")
#: for each value of KernelModel.group_imbalance: the value of k.group_imbalance_fix
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
    """Build the table of a replay, for the compiled engine or for the engine as plain Python.

    Row 0 says where each section begins (table.py).
    """
    n = machine.cpus
    cpusets = CpuSets()
    lists: list[int] = []
    rows = [Tree(tree.to_arrays(), cpusets, lists) for tree in trees]
    specs = (*program.templates, *program.tasks)
    everyone = range(n)
    cpusets.number(everyone)
    masks = [cpusets.number(cpus) for cpus in program.masks]
    allowed = [everyone if t.allowed is None else t.allowed for t in specs]
    own = [cpusets.number(cpus) for cpus in allowed]
    starts = _places(specs)
    waits = [*_waits(program)]
    margin = 20_000 + (400 if considered else 40) * n + decisions.records_per_event(trees, decided)
    records = max(_LOG_RECORDS, 4 * margin) if log_records is None else margin + log_records
    weight_lists = len(lists)
    domain_lists = weight_lists + len(WEIGHTS) + len(INVERSES)
    tasks = len(program.tasks) + (_CHILDREN if program.templates else 0)
    # the row counts of the parts that only some replays have; the rows of these parts follow the core row, in this order
    extra = (
        design.rows_of(machine, kernel),
        parts.clock_rows(machine),
        decisions.rows_of(trees, decided),
        parts.realtime_rows(program, n),
        parts.modern_rows(trees, kernel),
    )
    # ``runs`` and ``ticks`` are powers of two; a CPU has at most two ticks in the ring, its next tick and a cancelled tick
    runs = 1 << (n - 1).bit_length()
    ticks = 4 * runs
    groups = len(program.shares)
    sections = {
        Kernel.cfs_rq0: n * groups,
        Kernel.entity0: n * groups,
        Kernel.task_group0: groups,
        Kernel.domain0: sum(t.domains for t in rows),
        Kernel.sched_group0: sum(t.groups for t in rows),
        Kernel.capacity0: sum(t.capacities for t in rows),
        Kernel.wait0: len(waits),
        Kernel.template0: len(specs),
        Kernel.step0: len(program.hotplug),
        Kernel.scratch: _SCRATCH_ROWS + sum(extra),
        Kernel.cpuset0: len(cpusets),
        Kernel.list0: rows_for(domain_lists + 3 * n * len(rows)),
        Kernel.ticks0: rows_for(4 * ticks),
        Kernel.runs0: rows_for(2 * runs),
        Kernel.op0: max(sum(len(r) for r in starts), 1),
        Kernel.task0: tasks,
    }
    ends = n + np.cumsum([*sections.values()])
    g = np.zeros(WIDTH, dtype=np.int64)
    g[[*sections]] = [n, *ends[:-1]]
    g[Kernel.nr_cpus], g[Kernel.task_groups], g[Kernel.task_room] = n, groups, tasks
    g[Kernel.ticks_low], g[Kernel.runs] = ticks - 1, runs
    g[Kernel.design] = g[Kernel.scratch] + _SCRATCH_ROWS - 1
    g[Kernel.cpuset_words] = (n >> cpuset.WORD_SHIFT) + 1
    g[Kernel.log_margin], g[Kernel.seed] = margin, seed
    g[Kernel.log_considered], g[Kernel.log_load] = considered, load
    g[Kernel.weight_lists], g[Kernel.domain_lists] = weight_lists, domain_lists
    m = _with_heap_and_log(new_table(int(ends[-1])), g, len(program.hotplug), records)
    g = m[0]
    # at first no event is pending
    m[g[Kernel.ticks0] : g[Kernel.runs0], :LIST:4] = INFINITE
    m[g[Kernel.ticks0] + (4 * (ticks - 1) >> SHIFT), 4 * (ticks - 1) & LOW] = 0
    nodes = m[g[Kernel.runs0] : g[Kernel.op0], :LIST]
    nodes[:] = INFINITE + (np.arange(nodes.size).reshape(nodes.shape) << 12)
    cpusets.write(m)
    write_list(m, int(g[Kernel.list0]), [*lists, *WEIGHTS, *INVERSES, *_write_trees(m, rows)])
    m[:n, Rq.node] = machine.node_of_cpu
    m[g[Kernel.design] + cpuset.ACTIVE] = cpuset.bits_of(trees[0].cpus)
    for name in _COSTS:
        g[getattr(Kernel, name)] = getattr(costs, name)
    g[Kernel.hz] = 1_000_000_000 // costs.tick_ns
    m[g[Kernel.scratch] + MODERN_ROW, [Modern.refill_ns, Modern.syscall_ns]] = (
        costs.refill_ns,
        costs.syscall_ns,
    )
    _write_kernel(m, kernel)
    first = [int(g[Kernel.design]) + 1 + sum(extra[:i]) for i in range(len(extra))]
    design.install(m, machine, kernel, plain)
    parts.install_clocks(m, first[1], machine, costs, plain)
    g[Kernel.decisions] = first[2] if decided else 0
    parts.install_realtime(m, first[3], program, costs, plain)
    parts.install_modern(m, first[4], trees, kernel, plain)
    _write_programs(m, starts, masks, len(program.barriers), program.locks)
    _write_specs(m, program, starts, own, [len(cpus) for cpus in allowed])
    for y, (column, value) in enumerate(waits, int(g[Kernel.wait0])):
        m[y, [WaitObject.head, WaitObject.tail, WaitObject.owner]] = -1
        m[y, column] = value
    for row, (_, cpu, online) in enumerate(program.hotplug, int(g[Kernel.step0])):
        m[row, [HotplugStep.cpu, HotplugStep.online]] = cpu, int(online)
    _start(m, program, kernel.base_slice_ns, plain)
    return m


def _with_heap_and_log(head: np.ndarray, g: np.ndarray, steps: int, records: int) -> np.ndarray:
    """Return a table that begins with ``head``, whose last section is the tasks, and then has the heap and the log."""
    room = 2 * (8 * int(g[Kernel.nr_cpus]) + steps + int(g[Kernel.task_room])) + 64
    heap = rows_for(4 * (room + 3))
    g[Kernel.heap0], g[Kernel.heap_room] = len(head), room
    g[Kernel.log0], g[Kernel.log_room] = len(head) + heap, records
    m = new_table(len(head) + heap + rows_for(records * log_column.WIDTH))
    m[: len(head)] = head
    m[len(head) : len(head) + heap, :LIST:4] = INFINITE
    m[0, Kernel.load_v4_4 :] = g[Kernel.load_v4_4 :]
    return m


def grown(m: np.ndarray, tasks: int, steps: int) -> np.ndarray:
    """Return a copy of the world with room for more tasks; its log must be empty."""
    g = m[0].copy()
    heap, log = int(g[Kernel.heap0]), int(g[Kernel.log0])
    head = np.concatenate([m[:heap], new_table(tasks - int(g[Kernel.task_room]))])
    g[Kernel.task_room] = tasks
    out = _with_heap_and_log(head, g, steps, int(g[Kernel.log_room]))
    start = int(out[0, Kernel.heap0])
    out[start : start + log - heap] = m[heap:log]
    return out


def _waits(program: Program) -> Iterator[tuple[int, int]]:
    """Yield for each wait object the column to fill and its value. Barriers come first, then locks, then semaphores."""
    yield from ((WaitObject.parties, parties) for parties in program.barriers)
    yield from ((WaitObject.parties, 0) for _ in range(program.locks))
    yield from ((WaitObject.count, value) for value in program.semaphores)


def _places(specs: Sequence[TaskSpec]) -> dict[tuple[Row, ...], int]:
    """Return where each distinct program begins in the table of operations; the programs lie one after the other."""
    out: dict[tuple[Row, ...], int] = {}
    end = 0
    for spec in specs:
        if spec.rows not in out:
            out[spec.rows] = end
            end += len(spec.rows)
    return out


def _write_trees(m: np.ndarray, trees: Sequence[Tree]) -> list[int]:
    """Write the domains of all trees; return the list that says where each CPU's domains are in each tree."""
    sd, group, capacity = (
        int(m[0, c]) for c in (Kernel.domain0, Kernel.sched_group0, Kernel.capacity0)
    )
    out: list[int] = []
    for tree in trees:
        out += tree.write(m, sd, group, capacity)
        sd, group, capacity = sd + tree.domains, group + tree.groups, capacity + tree.capacities
    return out


def _write_kernel(m: np.ndarray, kernel: KernelModel) -> None:
    m[0, Kernel.always_balance] = kernel.every_cpu_balances
    m[0, Kernel.group_imbalance_fix] = _GROUP_IMBALANCE[kernel.group_imbalance]
    m[0, Kernel.overload_on_wakeup_fix] = kernel.overload_on_wakeup is not None
    m[0, Kernel.fork_wait] = kernel.fork_wait
    m[0, Kernel.load_v4_4] = kernel.tracks_load_v4_4
    m[0, Kernel.is_modern] = kernel.is_modern
    domains = m[int(m[0, Kernel.domain0]) : int(m[0, Kernel.sched_group0])]
    if kernel.forks_avoid_blocked_load:
        domains[:, SchedDomain.fork_margin] = (
            1024 * (domains[:, SchedDomain.imbalance_pct] - 100) // 100
        )
    if kernel.forks_stay_on_node:
        domains[:, SchedDomain.stays_on_node] = (domains[:, SchedDomain.flags] & SD_NUMA) != 0


#: operations whose target is the number of a lock
_OF_A_LOCK = {ops.OP_LOCK, ops.OP_UNLOCK}


def _write_programs(
    m: np.ndarray,
    starts: dict[tuple[Row, ...], int],
    masks: Sequence[int],
    barriers: int,
    locks: int,
) -> None:
    """Write the programs.

    The targets of loops and the CPU sets become numbers of rows. The numbers of wait objects count from the first barrier.
    """
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
            elif op in ops.OF_A_SEMAPHORE:
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
        m[row, TaskStruct.nice] = -1000 if template else spec.nice  # -1000: take the parent's
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
    with np.errstate(over="ignore"):  # splitmix64 overflows; only uncompiled code would warn
        phase = int(start_state(k))
        if base_slice_ns is not None:
            m[0, Kernel.base_slice] = base_slice_ns
        for group, shares in enumerate(program.shares):
            m[g[Kernel.task_group0] + group, TaskGroup.shares] = shares
        begin = EPOCH_NS + (phase if program.random_phase else 0)
        g[Kernel.t_start] = begin
        for i, spec in enumerate(program.tasks, len(program.templates)):
            add_top(k, i, spec.group, spec.start_cpu, begin + spec.start_ns)
        for step, (time_ns, _, _) in enumerate(program.hotplug):
            add_step(k, step, begin + time_ns)
