"""A replay and its numbers: :func:`replay`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from wastedcores.errors import ModelWarning, UnknownKernelError
from wastedcores.kernels import KernelModel
from wastedcores.simulator.design import suggestions
from wastedcores.simulator.engine.world import table, task
from wastedcores.simulator.measure import RawReplay, Summary, summarize
from wastedcores.simulator.simulate import simulate
from wastedcores.simulator.to_trace import to_trace
from wastedcores.simulator.vocabulary import BALANCE_RESULTS, IDLE_TYPES
from wastedcores.topology.machine import Machine
from wastedcores.topology.source import find_machine
from wastedcores.trace.trace import Trace
from wastedcores.workload.builder import Workload
from wastedcores.workload.program import Costs, Program
from wastedcores.workload.scenarios import scenario


@dataclass(frozen=True)
class Replay:
    """One replay: its trace and its numbers.

    Attributes
    ----------
    trace
        Events in the trace model; header ``source_format="replay"``.
    summary
        The workload's result and busy CPUs in its window.
    tasks
        pid, comm, completed_ns (null: still there at the end), units (rounds of the outermost loop).
    suggestions
        Of a design: module, moment, asked, silent, taken, refused (docs/design-mode.md); of a Linux no rows.
    balance_calls
        level (entry of the level table, 0 = SMT), idle (idle, busy, newidle), result, calls.
    raw
        What the engine left; ``raw.wall_s`` is the time it took, ``raw.events`` what it handled.
    notes
        What of the workload's description is not as it would be on a real machine.
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

    @property
    def warnings(self) -> list[str]:
        """What the reader of the numbers should know: of the kernel, and of the workload's description."""
        return [w for w in (self.kernel.replay_warning, *self.notes) if w]

    @property
    def makespan_ns(self) -> int:
        """From the beginning of the measured window to its end."""
        return self.summary.end_ns - self.summary.start_ns

    @property
    def busy_cpus(self) -> float:
        """Mean number of busy CPUs in the window."""
        return float(self.summary.busy_per_cpu.sum())

    @property
    def busy_per_node(self) -> list[float]:
        """The same by node."""
        nodes = np.asarray(self.machine.node_of_cpu)
        return [
            float(self.summary.busy_per_cpu[nodes == n].sum()) for n in range(self.machine.nodes)
        ]

    def to_json(self) -> dict[str, Any]:
        """Schema ``wastedcores.replay/1``, without the invariant."""
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
    kernel: KernelModel | str = "v4.1",
    seed: int = 1,
    until_ns: int | None = None,
    *,
    costs: Costs | None = None,
    considered: bool = False,
    load: bool = True,
) -> Replay:
    """Run a workload on a machine under a kernel's scheduler.

    Parameters
    ----------
    workload
        What runs.
    machine, kernel
        Or their names; a machine also as a file or ``live``.
    seed
        Of every random draw: same seed, same bytes.
    until_ns
        Stop after this much simulated time; None: when every task that is no daemon has finished.
    costs
        Machine constants of docs/replay-semantics.md; None: those of the machine.
    considered, load
        Whether to trace the CPUs each decision looked at, and the weight of the runqueues.

    Raises
    ------
    WorkloadError
        A deadlock, a loop without time, an affinity to no online CPU; names the task and the simulated time.
    UnknownKernelError
        Not a kernel of the v4.1 generation.
    UsageError
        A seed or an end of time out of range.

    Warns
    -----
    ModelWarning
        A kernel before 5.5 other than v4.1: only its domains are its own, see
        :attr:`wastedcores.kernels.KernelModel.replay_warning`.
    """
    machine = find_machine(machine).machine if isinstance(machine, str) else machine
    kernel = check_kernel(kernel)
    if kernel.replay_warning:
        warnings.warn(kernel.replay_warning, ModelWarning, stacklevel=2)
    program = workload.program()
    raw = simulate(
        program,
        machine,
        kernel,
        seed=seed,
        until_ns=until_ns,
        costs=costs,
        considered=considered,
        load=load,
    )
    summary = summarize(raw, program, machine, workload.measure, workload.counted_nodes)
    return Replay(
        workload.name,
        kernel,
        machine,
        seed,
        to_trace(raw, program, machine, kernel, workload.name, seed),
        summary,
        workload.measure.name if workload.measure else None,
        _task_table(raw, program),
        _balance_table(raw),
        raw,
        suggestions(raw.masks, kernel),
        workload.notes,
    )


def check_kernel(kernel: KernelModel | str) -> KernelModel:
    """The kernel, if the replay can stand for it.

    Raises
    ------
    UnknownKernelError
        None of that name, or one that balances by Linux 5.5's rules.
    """
    kernel = KernelModel.named(kernel) if isinstance(kernel, str) else kernel
    if kernel.generation != "v4.1":
        raise UnknownKernelError(
            f"kernel {kernel.name!r} balances by Linux 5.5's rules, which the replay does not model; take v4.1 (or, with "
            "only the domains of its own, another one before v5.5); `wastedcores domains` knows all"
        )
    return kernel


def _task_table(raw: RawReplay, program: Program) -> pl.DataFrame:
    done = raw.tasks[:, task.EXITED]
    return pl.DataFrame(
        {
            "pid": raw.pids,
            "comm": raw.comms(program),
            "completed_ns": [int(d) - table.EPOCH_NS if d >= 0 else None for d in done],
            "units": raw.tasks[:, task.UNITS0],
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
    kernel: KernelModel | str = "v4.1",
    machine: Machine | str | None = None,
    seed: int = 1,
    given: Mapping[str, Any] | None = None,
    until_ns: int | None = None,
) -> Replay:
    """Run a scenario by name; ``given`` changes its parameters, ``machine`` None takes the one it is made for.

    Raises
    ------
    UsageError
        Unknown scenario or parameter.
    """
    found = scenario(name)
    where = machine if machine is not None else found.machine
    on = find_machine(where).machine if isinstance(where, str) else where
    r = replay(
        found.workload(on, seed, given), on, kernel, seed, until_ns, considered=found.considered
    )
    return replace(r, name=name)
