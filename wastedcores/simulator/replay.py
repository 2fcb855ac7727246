"""A replay with its trace and its numbers: :func:`replay`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from wastedcores.errors import ModelWarning
from wastedcores.kernels import KernelModel
from wastedcores.shown import Shown
from wastedcores.simulator.design import suggestions
from wastedcores.simulator.engine.world import table
from wastedcores.simulator.engine.world.structs import TaskStruct
from wastedcores.simulator.limits import as_booted, check_generation
from wastedcores.simulator.measure import RawReplay, Summary, summarize
from wastedcores.simulator.simulate import simulate
from wastedcores.simulator.to_trace import to_trace
from wastedcores.simulator.vocabulary import BALANCE_RESULTS, IDLE_TYPES
from wastedcores.topology.machine import Machine
from wastedcores.topology.source import find_machine
from wastedcores.trace.header import Window
from wastedcores.trace.trace import Trace
from wastedcores.units import human_ns, number, result_words
from wastedcores.workload.builder import Workload
from wastedcores.workload.program import Costs, Program, costs_of
from wastedcores.workload.scenarios import scenario

if TYPE_CHECKING:
    from wastedcores.simulator.plain.modules import Module


@dataclass(frozen=True, repr=False)
class Replay(Shown):
    """One replay: its trace and its numbers.

    Attributes
    ----------
    trace
        The events of the replay. The header has ``source_format="replay"`` and the window that the workload measures.
    summary
        The workload's result and the busy CPUs in its window.
    tasks
        The columns pid, comm, completed_ns (null if the task had not ended), and units (rounds of the outermost loop).
    suggestions
        The columns module, moment, asked, silent, taken, refused (docs/design-mode.md). For Linux this table has no rows.
    balance_calls
        The columns level (entry of the level table, 0 = SMT), idle (idle, busy, newidle), result, calls.
    raw
        The engine's own output. ``raw.wall_s`` is the time that the engine took, ``raw.events`` the number of events.
    notes
        How the workload's description differs from what would happen on a real machine.
    """

    name: str
    kernel: KernelModel
    machine: Machine
    seed: int
    trace: Trace
    summary: Summary
    result_name: str | None
    tasks: pl.DataFrame
    balance_calls: pl.DataFrame
    raw: RawReplay
    suggestions: pl.DataFrame
    notes: tuple[str, ...] = ()

    def _facts(self) -> dict[str, str]:
        facts = {
            "scenario": self.name,
            "kernel": self.kernel.name,
            "machine": self.machine.name,
            "seed": str(self.seed),
            "makespan": human_ns(self.makespan_ns),
            "busy CPUs": number(self.busy_cpus),
        }
        if self.result_name is not None and self.summary.result is not None:
            facts[result_words(self.result_name)] = number(self.summary.result)
        return facts

    @property
    def warnings(self) -> list[str]:
        """What the reader of the numbers should know about the kernel and about the workload's description."""
        return [w for w in (self.kernel.replay_warning, self.kernel.left_out, *self.notes) if w]

    @property
    def makespan_ns(self) -> int:
        """The length of the measured window in ns."""
        return self.summary.end_ns - self.summary.start_ns

    @property
    def busy_cpus(self) -> float:
        """The mean number of busy CPUs in the window."""
        return float(self.summary.busy_per_cpu.sum())

    @property
    def busy_per_node(self) -> list[float]:
        """The mean number of busy CPUs in the window for each node."""
        nodes = np.asarray(self.machine.node_of_cpu)
        return [
            float(self.summary.busy_per_cpu[nodes == n].sum()) for n in range(self.machine.nodes)
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the replay as a dictionary (schema ``wastedcores.replay/1``), without the result of the invariant."""
        result = (
            None
            if self.result_name is None
            else {"name": self.result_name, "value": self.summary.result}
        )
        tasks = {
            f"{comm}/{pid}": {"completed_ns": done, "units": units}
            for pid, comm, done, units in self.tasks.iter_rows()
        }
        return {
            "schema": "wastedcores.replay/1",
            "scenario": self.name,
            "kernel": self.kernel.name,
            "warnings": self.warnings,
            "machine": self.machine.name,
            "seed": self.seed,
            "makespan_ns": self.makespan_ns,
            "result": result,
            "busy_cpus": self.busy_cpus,
            "busy_per_node": self.busy_per_node,
            "idle_while_overloaded": self.summary.idle_while_overloaded,
            "tasks": tasks,
            "suggestions": self.suggestions.to_dicts(),
            "events": self.raw.events,
            "wall_s": self.raw.wall_s,
        }


def replay(
    workload: Workload,
    machine: Machine | str,
    kernel: KernelModel | str | None = None,
    seed: int = 1,
    until_ns: int | None = None,
    *,
    costs: Costs | None = None,
    considered: bool = False,
    load: bool = True,
    decisions: bool = False,
    modules: Sequence[Module | str] | None = None,
    policies: Mapping[str, Callable[..., Any]] | None = None,
) -> Replay:
    """Run a workload on a machine under a kernel's scheduler.

    Parameters
    ----------
    workload
        The workload to run.
    machine, kernel
        A machine and a kernel model, or their names. The machine may be a preset, a file or ``live``. The default
        kernel is v4.1 or, if ``modules`` is given, the core module of a design.
    seed
        Seed of all random draws. A replay with the same seed gives the same bytes.
    until_ns
        Stop after this much simulated time. None: stop when every task that is no daemon has finished.
    costs
        The machine constants (docs/replay-semantics.md). None: the constants of ``machine``.
    considered, load
        ``considered``: whether to trace the CPUs that each decision looked at. ``load``: whether to trace the weights of the
        runqueues.
    decisions
        Whether to trace every call of load_balance(): what it saw and why it gave up (events of kind ``decision``). The other
        events do not depend on this parameter.
    modules
        Optimisation modules of your own (:class:`wastedcores.simulator.Module`) or names of shipped modules, in the order in
        which the core module asks them. With a module of your own, everything runs as plain Python: about 10,000 events per
        second.
    policies
        Functions of your own for decisions of the kernel: ``{"select_idle_sibling": f}``. Each takes the same arguments as the
        engine's function of this name (docs/design-mode.md). Everything then runs as plain Python.

    Returns
    -------
    Replay
        The trace and the numbers.

    Raises
    ------
    WorkloadError
        The workload deadlocks, has a loop that takes no simulated time, or has a task that may run on no online CPU. The text
        names the task and the simulated time.
    UnknownKernelError
        The replay does not model the scheduler of this kernel.
    UsageError
        The seed or ``until_ns`` is out of range, a given module or function is not one, or a module or function gave an
        impossible answer.

    Warns
    -----
    ModelWarning
        The replay models only a part of this kernel, such as its domains; see
        :attr:`wastedcores.kernels.KernelModel.replay_warning`.
    """
    machine = find_machine(machine).machine if isinstance(machine, str) else machine
    kernel = check_kernel(kernel or ("v4.1" if modules is None else "core"))
    if kernel.replay_warning:
        warnings.warn(kernel.replay_warning, ModelWarning, stacklevel=2)
    program = as_booted(workload.program(), machine, kernel)
    plain = None
    if modules or policies:
        from wastedcores.simulator.plain.own import plain_engine

        kernel, plain = plain_engine(kernel, machine, program, modules or (), policies or {})
    raw = simulate(
        program,
        machine,
        kernel,
        seed=seed,
        until_ns=until_ns,
        costs=costs,
        considered=considered,
        load=load,
        decisions=decisions,
        plain=plain,
    )
    summary = summarize(raw, program, machine, workload.measure, workload.counted_nodes)
    trace = to_trace(raw, program, machine, kernel, workload.name, seed)
    if (summary.start_ns, summary.end_ns) != (0, raw.end_ns):
        measured = Window(start_ns=summary.start_ns, end_ns=summary.end_ns)
        trace = trace.with_header(window=measured)
    return Replay(
        workload.name,
        kernel,
        machine,
        seed,
        trace,
        summary,
        workload.measure.name if workload.measure else None,
        _task_table(raw, program),
        _balance_table(raw),
        raw,
        suggestions(raw.masks, kernel),
        workload.notes,
    )


def check_kernel(kernel: KernelModel | str) -> KernelModel:
    """Find a kernel model, and check that the replay models its balancing."""
    kernel = KernelModel.named(kernel) if isinstance(kernel, str) else kernel
    check_generation(kernel)
    return kernel


def _task_table(raw: RawReplay, program: Program) -> pl.DataFrame:
    done = raw.tasks[:, TaskStruct.exited]
    return pl.DataFrame(
        {
            "pid": raw.pids,
            "comm": raw.comms(program),
            "completed_ns": [int(d) - table.EPOCH_NS if d >= 0 else None for d in done],
            "units": raw.tasks[:, TaskStruct.units],
        },
        schema={"pid": pl.Int64, "comm": pl.String, "completed_ns": pl.Int64, "units": pl.Int64},
    )


def _balance_table(raw: RawReplay) -> pl.DataFrame:
    rows = [
        (
            level,
            IDLE_TYPES[idle],
            BALANCE_RESULTS[result],
            int(raw.counts[level, idle, result]),
        )
        for level, idle, result in np.argwhere(raw.counts)
    ]
    return pl.DataFrame(
        rows,
        schema={"level": pl.Int64, "idle": pl.String, "result": pl.String, "calls": pl.Int64},
        orient="row",
    )


def replay_scenario(
    name: str,
    kernel: KernelModel | str | None = None,
    machine: Machine | str | None = None,
    seed: int = 1,
    given: Mapping[str, Any] | None = None,
    until_ns: int | None = None,
    *,
    decisions: bool = False,
    refill_ns: int = 0,
    modules: Sequence[Module | str] | None = None,
    policies: Mapping[str, Callable[..., Any]] | None = None,
) -> Replay:
    """Run a scenario by name.

    Parameters
    ----------
    name
        Name of the scenario.
    kernel
        A kernel model or its name. None: the kernel of the scenario's usual replay, which is mostly v4.1.
    machine
        A machine or its name. None: the machine that the scenario is made for.
    seed
        Seed of all random draws.
    given
        Parameters of the scenario that differ from their defaults.
    until_ns
        Stop after this much simulated time. None: stop when every task that is no daemon has finished.
    decisions
        Whether to trace the balancer's decisions, as in :func:`replay`.
    refill_ns
        The time in ns that a task loses whenever it starts to run under another last-level cache than the one it last used.
    modules, policies
        As for :func:`replay`.

    Returns
    -------
    Replay
        The trace and the numbers.

    Raises
    ------
    UsageError
        The scenario or a parameter is unknown.
    """
    found = scenario(name)
    where = machine if machine is not None else found.machine
    on = find_machine(where).machine if isinstance(where, str) else where
    usual = found.kernel if modules is None else None
    r = replay(
        found.workload(on, seed, given),
        on,
        usual if kernel is None else kernel,
        seed,
        until_ns,
        considered=found.considered,
        decisions=decisions,
        costs=replace(costs_of(on), refill_ns=refill_ns) if refill_ns else None,
        modules=modules,
        policies=policies,
    )
    return replace(r, name=name)
