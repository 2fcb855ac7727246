"""The log of the reference as a trace, on which every check and figure works; :func:`replay_design`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from wastedcores.kernels import KernelModel
from wastedcores.simulator.reference.core import Module
from wastedcores.simulator.reference.kernel import Kernel
from wastedcores.simulator.reference.simulation import Simulation
from wastedcores.topology.domains import domain_events
from wastedcores.topology.machine import Machine
from wastedcores.trace.header import Header
from wastedcores.trace.schema import COLUMNS, conform
from wastedcores.trace.trace import Trace
from wastedcores.workload.builder import Workload
from wastedcores.workload.program import costs_of


def to_trace(sim: Simulation, name: str) -> Trace:
    """Convert the log of a finished simulation into a trace.

    Parameters
    ----------
    sim
        The simulation, after its run.
    name
        Name of the workload, for the header.

    Returns
    -------
    Trace
        The trace.
    """
    k = sim.k
    comms = {t.pid: t.comm for t in (*k.stoppers, *sim.tasks)} | {0: "<idle>"}
    rows: list[dict[str, Any]] = []
    for event in k.log:
        row = {"ts_ns": event.ts_ns, "kind": event.kind, **dict(event.columns)}
        mask = row.get("cpu_mask")
        if mask is not None:
            row["cpu_mask"] = sum(1 << c for c in mask).to_bytes(-(-k.machine.cpus // 8), "little")
        if row.get("pid", 0) < 0:
            row["pid"] = None
        for column in ("pid", "prev_pid", "by_pid"):
            if row.get(column) is not None:
                row[column.replace("pid", "comm")] = comms[row[column]]
        rows.append(row)
    used = {"ts_ns", "kind"}.union(*rows)
    schema = {
        c: (pl.String if dtype_is_text(c) else COLUMNS[c].dtype) for c in COLUMNS if c in used
    }
    frame = conform(pl.DataFrame(rows, schema=schema), f"reference replay of {name}")
    header = Header(
        source_format="replay",
        follows_affinity=True,
        kernel_release=k.model.name,
        clock="simulated",
        cpus=k.machine.cpus,
        cpus_online=list(k.machine.online_cpus),
        machine=k.machine.to_dict(),
        start_ns=0,
        end_ns=k.log[-1].ts_ns if k.log else 0,
        events=frame.height,
        every_switch=True,
        provenance={"scenario": name, "seed": str(sim.seed), "kernel": k.model.name},
    )
    return Trace(frame.lazy(), header)


def dtype_is_text(column: str) -> bool:
    """Tell whether a column is first filled with text and converted to categories later."""
    return isinstance(COLUMNS[column].dtype, (pl.Categorical, pl.Enum, pl.String))


def replay_design(
    workload: Workload,
    machine: Machine | str,
    modules: Sequence[Module | str] = (),
    seed: int = 1,
    until_ns: int = 1_000_000_000,
) -> tuple[Trace, Kernel]:
    """Run a workload under the core module with these optimisation modules, in plain Python.

    This is slow (about 10 000 events per second), for modules of your own on small machines. Shipped modules run compiled
    in ``replay(workload, machine, "core+cache_affinity")``.

    Parameters
    ----------
    workload, machine
        As for :func:`wastedcores.simulator.replay.replay`.
    modules
        Modules of your own or names of shipped ones, in the order in which the core asks them.
    seed
        As for :func:`wastedcores.simulator.replay.replay`.
    until_ns
        Stop after this much simulated time, in ns.

    Returns
    -------
    tuple of Trace and Kernel
        The log as a trace, and the kernel; ``kernel.core.counts`` has the numbers of suggestions taken and refused.

    Raises
    ------
    WorkloadError
        The program cannot be run to its end; see :meth:`Simulation.run`.
    """
    machine = Machine.preset(machine) if isinstance(machine, str) else machine
    program = workload.program()
    model = KernelModel.named("core")
    steps = tuple(("online" if up else "offline", cpu) for _, cpu, up in program.hotplug)
    trees = domain_events(machine.after(steps), model.linux)
    k = Kernel(machine, model, trees, costs_of(machine), modules=modules)
    sim = Simulation(k, program, seed)
    sim.run(until_ns)
    return to_trace(sim, workload.name), k
