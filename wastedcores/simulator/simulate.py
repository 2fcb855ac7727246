"""Runs a program (wastedcores/workload/program.py) in the engine: :func:`simulate`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from wastedcores.errors import WorkloadError
from wastedcores.jit.units import prepare
from wastedcores.kernels import KernelModel
from wastedcores.simulator.decisions import take_decisions
from wastedcores.simulator.engine.codes import status, task_state, waits_for
from wastedcores.simulator.engine.world import cpuset, log_column, table
from wastedcores.simulator.engine.world.structs import Kernel, SchedDomain, TaskStruct
from wastedcores.simulator.limits import (
    MOST_TASKS,
    as_booted,
    check_cpus,
    check_ends,
    check_generation,
    check_places,
    check_seed,
    check_until,
)
from wastedcores.simulator.log import Log, take_scans
from wastedcores.simulator.measure import RawReplay
from wastedcores.simulator.parts import check_policies
from wastedcores.topology.domains import domain_events
from wastedcores.topology.machine import Machine
from wastedcores.workload.program import Costs, Program, costs_of

if TYPE_CHECKING:
    from wastedcores.simulator.plain.engine import PlainEngine
    from wastedcores.topology.domains import Domains

#: a replay without ``until_ns`` gives up after this much simulated time
PATIENCE_NS = 1_000_000_000_000


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
    decisions: bool = False,
    trees: Sequence[Domains] | None = None,
    log_records: int | None = None,
    plain: PlainEngine | None = None,
) -> RawReplay:
    """Run a program in the engine.

    Parameters
    ----------
    program, machine, kernel
        The program, the machine on which it runs, and the kernel.
    seed
        Seed of all random draws.
    until_ns
        Stop after this much simulated time. None: stop when every task that is no daemon has finished.
    costs
        Machine constants. None: ``costs_of(machine)``.
    considered, load
        ``considered``: whether to log the CPUs that each decision looked at. ``load``: whether to log the weights of the
        runqueues.
    decisions
        Whether to log every call of load_balance(): what it saw and why it gave up.
    trees
        Domains at boot and after each hotplug step of the program. None: they are built here.
    log_records
        How many records the engine collects before they are taken out of its table. The result does not depend on this
        number. None: as many records as fit in the processor's cache.
    plain
        The engine as plain Python, which then runs instead of the compiled engine.

    Returns
    -------
    RawReplay
        The log, the tasks and the counts.

    Raises
    ------
    WorkloadError
        The program deadlocks, never ends, has a loop that takes no simulated time, has a task that may run on no online CPU or
        that unlocks a lock without holding it, or makes more than a million tasks.
    UsageError
        The seed or ``until_ns`` is out of range, or the machine has more CPUs than the engine's CPU sets hold.
    """
    from wastedcores.simulator.engine import run_jit
    from wastedcores.simulator.world import build_world

    program = as_booted(program, machine, kernel)
    check_generation(kernel)
    check_seed(seed)
    check_cpus(machine)
    check_until(until_ns)
    check_places(program, machine.cpus)
    check_policies(program, kernel)
    if until_ns is None:
        check_ends(program)
    if trees is None:
        trees = trees_of(machine, program, kernel)
    if plain is None:
        # two processes compile all units together, before the time of the replay is measured
        prepare()
    run = run_jit.run if plain is None else plain.run(run_jit.run)
    m = build_world(
        program,
        machine,
        kernel,
        trees,
        costs or costs_of(machine),
        seed=seed,
        considered=considered,
        load=load,
        decided=decisions,
        log_records=log_records,
        plain=plain,
    )
    phase = int(m[0, Kernel.t_start]) - table.EPOCH_NS
    m[0, Kernel.until_ns] = m[0, Kernel.t_start] + (PATIENCE_NS if until_ns is None else until_ns)
    log = Log()
    began = time.perf_counter()
    m, ended = _run(run, m, log, len(program.hotplug))
    wall_s = time.perf_counter() - began
    if ended not in (status.DONE, status.UNTIL) or (ended == status.UNTIL and until_ns is None):
        raise _failure(m, ended, program, machine)
    if m[0, Kernel.log_lost]:
        raise AssertionError(
            f"the log was too small for one event: {m[0, Kernel.log_lost]} records lost"
        )
    first, n = int(m[0, Kernel.task0]), int(m[0, Kernel.nr_tasks])
    tasks = m[first : first + n].copy()
    records, masks, decided = log.whole(), m[:first], None
    if considered and kernel.is_modern:
        records, masks = take_scans(records, masks)
    if decisions:
        records, decided = take_decisions(records, m, trees)
    return RawReplay(
        records,
        masks,
        tasks,
        tasks[:, TaskStruct.number] + 1 + machine.cpus,
        _counts(m),
        int(m[0, Kernel.now_ns]) - table.EPOCH_NS,
        int(m[0, Kernel.events]),
        ended == status.DONE,
        wall_s,
        phase,
        decided,
    )


def _run(
    run: Callable[[np.ndarray], int], m: np.ndarray, log: Log, hotplug_steps: int
) -> tuple[np.ndarray, int]:
    """Run the engine until it ends, and return its table, which may have grown, and its last status."""
    from wastedcores.simulator.world import grown

    while True:
        with np.errstate(over="ignore"):  # splitmix64 overflows; only uncompiled code would warn
            ended = int(run(m))
        log.add(*_drain(m))
        if ended == status.TASKS_FULL:
            if m[0, Kernel.nr_tasks] >= MOST_TASKS:
                raise WorkloadError(
                    f"more than {MOST_TASKS} tasks after {_now(m)} of simulated time; fork less."
                )
            m = grown(m, 2 * int(m[0, Kernel.task_room]) + 64, hotplug_steps)
        elif ended != status.LOG_FULL:
            return m, ended


def with_steps(machine: Machine, program: Program) -> Machine:
    """Return the machine with the program's hotplug steps added after its own steps.

    Parameters
    ----------
    machine, program
        The machine of a replay and what runs on it.

    Returns
    -------
    Machine
        A new machine.
    """
    return machine.after([("online" if up else "offline", cpu) for _, cpu, up in program.hotplug])


def trees_of(machine: Machine, program: Program, kernel: KernelModel) -> list[Domains]:
    """Return the domains when the replay begins (the machine has then done its own steps) and after each step of the program."""
    return domain_events(with_steps(machine, program), kernel.linux)[len(machine.hotplug) :]


def _drain(m: np.ndarray) -> tuple[np.ndarray, int]:
    """Empty the log. Return the rows that hold its records until the engine continues, and the number of records."""
    first, n = int(m[0, Kernel.log0]), int(m[0, Kernel.log_n])
    m[0, Kernel.log_n] = 0
    return m[first : first + table.rows_for(n * log_column.WIDTH), : table.LIST], n


def _counts(m: np.ndarray) -> np.ndarray:
    """Return the numbers of load_balance() calls, int64 (levels, 3, 7)."""
    rows = m[int(m[0, Kernel.domain0]) : int(m[0, Kernel.sched_group0])]
    levels = int(rows[:, SchedDomain.index].max()) + 1 if len(rows) else 0
    out = np.zeros((levels, 3, 7), dtype=np.int64)
    counts = rows[:, SchedDomain.lb_count : SchedDomain.lb_count + 21].reshape(-1, 3, 7)
    np.add.at(out, rows[:, SchedDomain.index], counts)
    return out


def _now(m: np.ndarray) -> str:
    return f"{(int(m[0, Kernel.now_ns]) - table.EPOCH_NS) / 1e9:.6f} s"


_WAITS = {
    waits_for.TIMER: "its timer",
    waits_for.BARRIER: "barrier",
    waits_for.LOCK: "lock",
    waits_for.SEM: "semaphore",
    waits_for.CHILDREN: "its children",
    waits_for.JIFFY: "its timer",
}


def _failure(m: np.ndarray, ended: int, program: Program, machine: Machine) -> WorkloadError:
    """Return the error for a replay that ended with this status; it names the task and the simulated time."""
    g = m[0]
    at = _now(m)
    specs = (*program.templates, *program.tasks)

    def who(row: int) -> str:
        comm = specs[m[row, TaskStruct.template]].comm
        return f"task {comm!r} (pid {m[row, TaskStruct.number] + 1 + machine.cpus})"

    if ended in (status.DEADLOCK, status.UNTIL):
        first = int(g[Kernel.task0])
        row = next(
            p
            for p in range(first, first + int(g[Kernel.nr_tasks]))
            if m[p, TaskStruct.state] != task_state.DEAD and not m[p, TaskStruct.daemon]
        )
        waits = _waits_for(m, row, program)
        if ended == status.DEADLOCK:
            return WorkloadError(
                f"deadlock at {at}: {who(row)} waits for {waits} and no task is left that could end a wait; check who "
                "should signal it."
            )
        return WorkloadError(
            f"after {at} of simulated time {who(row)} has not finished (it waits for {waits}); give the "
            "workload an end, or an end of time (until)."
        )
    row = int(g[Kernel.culprit])
    if ended == status.NO_CPU:
        allowed = cpuset.cpus_of(m[m[row, TaskStruct.cpus_allowed]], machine.cpus)
        return WorkloadError(
            f"{who(row)} may run on no online CPU at {at}: its affinity has {allowed}; keep one of them online."
        )
    if ended == status.BAD_UNLOCK:
        return WorkloadError(
            f"{who(row)} unlocks a lock at {at} that it does not hold; every unlock needs a lock by the same task."
        )
    return WorkloadError(
        f"{who(row)}: program loops without time at {at}; give its loop something to compute or to wait for."
    )


def _waits_for(m: np.ndarray, row: int, program: Program) -> str:
    """Return what a task waits for; a wait object has the number by which the program names it."""
    kind = int(m[row, TaskStruct.waits_for])
    before = {
        waits_for.BARRIER: 0,
        waits_for.LOCK: len(program.barriers),
        waits_for.SEM: len(program.barriers) + program.locks,
    }
    text = _WAITS.get(kind, "a CPU")
    if kind not in before:
        return text
    return f"{text} {int(m[row, TaskStruct.wait_object] - m[0, Kernel.wait0]) - before[kind]}"
