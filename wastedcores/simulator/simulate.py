"""From a flat program to the engine and back: :func:`simulate`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from wastedcores.errors import WorkloadError
from wastedcores.kernels import KernelModel
from wastedcores.simulator import design
from wastedcores.simulator.engine.world import codes
from wastedcores.simulator.engine.world import state as s
from wastedcores.simulator.limits import (
    MOST_TASKS,
    check_cpus,
    check_ends,
    check_seed,
    check_until,
    check_wheels,
)
from wastedcores.simulator.log import Log
from wastedcores.simulator.measure import RawReplay
from wastedcores.topology.domains import domain_events
from wastedcores.topology.machine import Machine
from wastedcores.workload import ops
from wastedcores.workload.program import Costs, Program, Row, TaskSpec, costs_of

if TYPE_CHECKING:
    from wastedcores.topology.domains import Domains

#: a replay without ``until_ns`` gives up after this much simulated time
PATIENCE_NS = 1_000_000_000_000
#: room for rows of the log in the engine's table, where they stay in the processor's cache
_LOG_ROWS = 1 << 16


def simulate(
    program: Program,
    machine: Machine,
    kernel: KernelModel,
    *,
    seed: int = 1,
    until_ns: int | None = None,
    costs: Costs | None = None,
    considered: bool = False,
    load: bool = True,
    trees: Sequence[Domains] | None = None,
) -> RawReplay:
    """Run a flat program in the compiled engine.

    Parameters
    ----------
    program, machine, kernel
        What runs where under what.
    seed
        Of every random draw.
    until_ns
        Stop after this much simulated time; None: when every task that is no daemon has finished.
    costs
        Machine constants; None: :func:`costs_of`.
    considered, load
        Whether to log the CPUs each decision looked at, and the weight of the runqueues.
    trees
        Domains at boot and after each hotplug step of the program; None: built here.

    Raises
    ------
    WorkloadError
        A program that cannot run or never ends, see :func:`_explain`; more than a million tasks.
    UsageError
        A seed or an end of time out of range, or a machine of more CPUs than the engine's sets hold.
    """
    from wastedcores.simulator.engine.run_jit import run
    from wastedcores.simulator.layout import grown

    check_seed(seed)
    check_cpus(machine)
    check_until(until_ns)
    if until_ns is None:
        check_ends(program)
    m = _prepare(
        program, machine, kernel, seed, costs or costs_of(machine), considered, load, trees
    )
    phase = int(m[0, s.G_T_START]) - s.EPOCH_NS
    m[0, s.G_UNTIL] = s.EPOCH_NS + phase + (PATIENCE_NS if until_ns is None else until_ns)
    log = Log()
    began = time.perf_counter()
    while True:
        with np.errstate(over="ignore"):  # splitmix64 wraps; only the uncompiled engine notices
            status = int(run(m))
        log.add(*_drain(m))
        if status == codes.ST_TASKS_FULL:
            if m[0, s.G_NTASKS] >= MOST_TASKS:
                raise WorkloadError(
                    f"more than {MOST_TASKS} tasks after {(int(m[0, s.G_NOW]) - s.EPOCH_NS) / 1e9:.6f} s of simulated "
                    "time; fork less"
                )
            m = grown(m, 2 * int(m[0, s.G_TASKS]) + 64, len(program.hotplug))
        elif status != codes.ST_LOG_FULL:
            break
    wall_s = time.perf_counter() - began
    if status not in (codes.ST_DONE, codes.ST_UNTIL) or (
        status == codes.ST_UNTIL and until_ns is None
    ):
        raise _explain(m, status, program, machine)
    if m[0, s.G_LOST]:
        raise AssertionError(f"the log was too small for one event: {m[0, s.G_LOST]} records lost")
    t0, n = int(m[0, s.G_T0]), int(m[0, s.G_NTASKS])
    return RawReplay(
        log.whole(),
        m[: int(m[0, s.G_T0])],
        m[t0 : t0 + n].copy(),
        _counts(m),
        int(m[0, s.G_NOW]) - s.EPOCH_NS,
        int(m[0, s.G_EVENTS]),
        status == codes.ST_DONE,
        wall_s,
        phase,
    )


def _prepare(
    program: Program,
    machine: Machine,
    kernel: KernelModel,
    seed: int,
    costs: Costs,
    considered: bool,
    load: bool,
    trees: Sequence[Domains] | None,
) -> np.ndarray:
    """Everything as arrays, in the state of docs/replay-semantics.md, section 7."""
    from wastedcores.simulator.engine.start_jit import add_step, add_top, start_state
    from wastedcores.simulator.layout import Layout, bits_of

    if trees is None:
        trees = domain_events(with_steps(machine, program), kernel.linux)
    cpus = machine.cpus
    check_wheels(program, cpus)
    layout = Layout(
        cpus,
        len(program.shares),
        len(program.barriers) + program.locks + len(program.semaphores),
        len(program.templates) + len(program.tasks),
        len(program.tasks) + _forks(program),
    )
    for tree in trees:
        layout.add_epoch(tree.to_arrays())
    specs = (*program.templates, *program.tasks)
    everyone = layout.mask(range(cpus))
    mask_of = [layout.mask(cpus_) for cpus_ in program.masks]
    own = [
        (layout.mask(t.allowed), len(t.allowed)) if t.allowed is not None else (everyone, cpus)
        for t in specs
    ]
    rows, start = _ops(program, specs, mask_of)
    margin = 20_000 + (400 if considered else 40) * cpus
    m = layout.world(
        program.hotplug,
        rows,
        max(_LOG_ROWS, 4 * margin),
        np.asarray(machine.node_of_cpu),
        design.rows_of(machine, kernel),
    )
    design.install(m, machine, kernel)
    g = m[0]
    _absolute(m, program, start)
    g[s.G_MARGIN] = margin
    for column, value in (
        (s.G_TICK, costs.tick_ns),
        (s.G_HZ, 1_000_000_000 // costs.tick_ns),
        (s.G_IRQ, costs.irq_ns),
        (s.G_SKEW, costs.skew_ns),
        (s.G_IPI, costs.ipi_ns),
        (s.G_SWITCH, costs.switch_ns),
        (s.G_WAKE, costs.wake_ns),
        (s.G_SPIN, costs.spin_ns),
        (s.G_LB_BASE, costs.lb_base_ns),
        (s.G_LB_CPU, costs.lb_cpu_ns),
        (s.G_IDLE_TICKS, costs.idle_ticks),
        (s.G_ALWAYS_BALANCE, int(kernel.every_cpu_balances)),
        (
            s.G_GI,
            {None: codes.GI_NONE, "paper": codes.GI_PAPER, "patch": codes.GI_PATCH}[
                kernel.group_imbalance
            ],
        ),
        (s.G_OOW, int(kernel.overload_on_wakeup is not None)),
        (s.G_CONSIDERED, int(considered)),
        (s.G_LOAD_LOG, int(load)),
        (s.G_SEED, seed),
    ):
        g[column] = value
    for i, spec in enumerate(specs):
        row = g[s.G_TEMPLATE0] + i
        template = i < len(program.templates)
        m[row, s.T_PC] = g[s.G_OP0] + start[i]
        inherits = template and spec.allowed is None
        m[row, s.T_MASK] = -1 if inherits else g[s.G_MASK0] + own[i][0]
        m[row, s.T_NALLOWED] = own[i][1]
        m[row, s.T_NICE] = -1000 if template else spec.nice
        m[row, s.T_DAEMON] = int(spec.daemon)
    y = g[s.G_Y0]
    values = [
        *((s.Y_PARTIES, p) for p in program.barriers),
        *((s.Y_PARTIES, 0) for _ in range(program.locks)),
        *((s.Y_COUNT, v) for v in program.semaphores),
    ]
    for i, (column, value) in enumerate(values):
        m[y + i, [s.Y_HEAD, s.Y_TAIL, s.Y_OWNER]] = -1
        m[y + i, column] = value
    m[m[0, s.G_SETS] + s.MASK_ACTIVE] = bits_of(trees[0].cpus)
    with np.errstate(over="ignore"):
        phase = int(start_state(m))
        for tg, shares in enumerate(program.shares):
            m[g[s.G_TG0] + tg, s.TG_SHARES] = shares
        g[s.G_T_START] = s.EPOCH_NS + (phase if program.random_phase else 0)
        for i, task in enumerate(program.tasks):
            add_top(
                m,
                len(program.templates) + i,
                task.group,
                task.start_cpu,
                g[s.G_T_START] + task.start_ns,
            )
        for step, (time_ns, _, _) in enumerate(program.hotplug):
            add_step(m, step, g[s.G_T_START] + time_ns)
    return m


def _absolute(m: np.ndarray, program: Program, start: Sequence[int]) -> None:
    """Jumps and sets of CPUs in the programs become rows."""
    first, last = int(m[0, s.G_OP0]), int(m[0, s.G_T0])
    rows = m[first:last]
    rows[(rows[:, 0] == ops.OP_LOOP) | (rows[:, 0] == ops.OP_LOOP_BARRIER), 1] += first
    rows[rows[:, 0] == ops.OP_AFFINITY, 1] += m[0, s.G_MASK0]


def _drain(m: np.ndarray) -> tuple[np.ndarray, int]:
    """Take the log out: where it lies until the engine goes on, and how many records it has."""
    first, n = int(m[0, s.G_LOG0]), int(m[0, s.G_LOG_N])
    rows = -(-n * s.RECORD // s.LIST)
    m[0, s.G_LOG_N] = 0
    return m[first : first + rows, : s.LIST], n


def with_steps(machine: Machine, program: Program) -> Machine:
    """The machine with the program's hotplug steps behind its own."""
    steps = tuple(("online" if up else "offline", cpu) for _, cpu, up in program.hotplug)
    return replace(machine, hotplug=machine.hotplug + steps)


def _forks(program: Program) -> int:
    """Room for children to begin with; the table grows when it is full."""
    return 1024 if program.templates else 0


def _ops(
    program: Program, specs: Sequence[TaskSpec], mask_of: Sequence[int]
) -> tuple[np.ndarray, list[int]]:
    """All programs back to back, numbers made absolute; where each begins."""
    rows: list[Row] = []
    start: list[int] = []
    seen: dict[tuple[Row, ...], int] = {}
    locks = len(program.barriers)
    semaphores = locks + program.locks
    shift = {
        ops.OP_LOCK: locks,
        ops.OP_UNLOCK: locks,
        ops.OP_POST: semaphores,
        ops.OP_WAIT: semaphores,
        ops.OP_SIGNAL: semaphores,
        ops.OP_CATCH: semaphores,
        ops.OP_WAIT_SIGNAL: semaphores,
        ops.OP_TIMER: semaphores,
        ops.OP_FLUSH: semaphores,
        ops.OP_SHEPHERD: semaphores,
    }
    for spec in specs:
        if spec.rows not in seen:
            first = seen[spec.rows] = len(rows)
            for op, target, *rest in spec.rows:
                if op in (ops.OP_LOOP, ops.OP_LOOP_BARRIER):
                    number = target + first
                elif op == ops.OP_AFFINITY:
                    number = mask_of[target]
                else:
                    number = target + shift.get(op, 0)
                rows.append((op, number, rest[0], rest[1], rest[2]))
        start.append(seen[spec.rows])
    return np.array(rows or [(0, 0, 0, 0, 0)], dtype=np.int64), start


def _counts(m: np.ndarray) -> np.ndarray:
    first, last = int(m[0, s.G_SD0]), int(m[0, s.G_GR0])
    rows = m[first:last]
    levels = int(rows[:, s.D_INDEX].max()) + 1 if len(rows) else 0
    out = np.zeros((levels, 3, 7), dtype=np.int64)
    np.add.at(out, rows[:, s.D_INDEX], rows[:, s.D_COUNT0 : s.D_COUNT0 + 21].reshape(-1, 3, 7))
    return out


_WAITS = {
    codes.W_TIMER: "its timer",
    codes.W_BARRIER: "barrier",
    codes.W_LOCK: "lock",
    codes.W_SEM: "semaphore",
    codes.W_CHILDREN: "its children",
    codes.W_JIFFY: "its timer",
}


def _explain(m: np.ndarray, status: int, program: Program, machine: Machine) -> WorkloadError:
    """Name the task and the simulated time."""
    g = m[0]
    t0 = int(g[s.G_T0])
    at = f"{(int(g[s.G_NOW]) - s.EPOCH_NS) / 1e9:.6f} s"
    specs = (*program.templates, *program.tasks)

    def who(row: int) -> str:
        return (
            f"task {specs[m[row, s.T_TEMPLATE]].comm!r} (pid {m[row, s.T_NUM] + 1 + machine.cpus})"
        )

    if status in (codes.ST_DEADLOCK, codes.ST_UNTIL):
        row = next(
            t0 + i
            for i in range(int(g[s.G_NTASKS]))
            if m[t0 + i, s.T_STATE] != codes.S_DEAD and not m[t0 + i, s.T_DAEMON]
        )
        waits = _WAITS.get(int(m[row, s.T_WAIT]), "a CPU")
        if m[row, s.T_WAIT] in (codes.W_BARRIER, codes.W_LOCK, codes.W_SEM):
            base = int(g[s.G_Y0])
            base += len(program.barriers) if m[row, s.T_WAIT] != codes.W_BARRIER else 0
            base += program.locks if m[row, s.T_WAIT] == codes.W_SEM else 0
            waits += f" {int(m[row, s.T_OBJ]) - base}"
        if status == codes.ST_DEADLOCK:
            return WorkloadError(
                f"deadlock at {at}: {who(row)} waits for {waits} and no task is left that could end a wait; check who "
                "should signal it"
            )
        return WorkloadError(
            f"after {at} of simulated time {who(row)} has not finished (it waits for {waits}); give the "
            "workload an end, or an end of time (until)"
        )
    row = int(g[s.G_CULPRIT])
    if status == codes.ST_NO_CPU:
        from wastedcores.simulator.layout import cpus_of

        allowed = cpus_of(m[m[row, s.T_MASK]], machine.cpus)
        return WorkloadError(
            f"{who(row)} may run on no online CPU at {at}: its affinity has {allowed}; keep one of them online"
        )
    if status == codes.ST_BAD_UNLOCK:
        return WorkloadError(
            f"{who(row)} unlocks a lock at {at} that it does not hold; every unlock needs a lock by the same task"
        )
    return WorkloadError(
        f"{who(row)}: program loops without time at {at}; give its loop something to compute or to wait for"
    )
