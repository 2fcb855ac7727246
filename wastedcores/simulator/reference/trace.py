"""The log of the reference as a trace, on which every check and figure works; :func:`replay_design`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from wastedcores.errors import UsageError
from wastedcores.kernels import KernelModel
from wastedcores.simulator.booted import as_booted
from wastedcores.simulator.reference.core import Module
from wastedcores.simulator.reference.kernel import EPOCH_NS, Kernel
from wastedcores.simulator.reference.simulation import Simulation
from wastedcores.topology.domains import domain_events
from wastedcores.topology.machine import Machine
from wastedcores.topology.source import find_machine
from wastedcores.trace.header import Header
from wastedcores.trace.schema import COLUMNS, conform
from wastedcores.trace.trace import Trace
from wastedcores.workload.builder import Workload
from wastedcores.workload.program import costs_of
from wastedcores.workload.scenarios import scenario


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
    UsageError
        A module is none, or its answer cannot be meant, or it changed the state of the kernel.
    WorkloadError
        The program cannot be run to its end; see :meth:`Simulation.run`.
    """
    machine = Machine.preset(machine) if isinstance(machine, str) else machine
    return _run(workload, machine, KernelModel.named("core"), modules, {}, seed, until_ns)


def replay_reference(
    name: str,
    machine: Machine | str | None = None,
    kernel: str | None = None,
    *,
    policies: Mapping[str, Callable[..., Any]] | None = None,
    modules: Sequence[Module | str] | None = None,
    seed: int = 1,
    given: Mapping[str, Any] | None = None,
    until_ns: int = 1_000_000_000,
) -> Trace:
    """Run a scenario in plain Python, with decisions or modules of your own.

    Parameters
    ----------
    name
        Name of the scenario (``wastedcores scenarios``).
    machine
        A machine or its name. None: the machine that the scenario is made for.
    kernel
        Name of the kernel; None: that of the usual replay, mostly v4.1. With ``modules`` it is the core module instead.
    policies
        Name of a decision of :class:`Policies` -> your function for it.
    modules
        As for :func:`replay_design`.
    seed, given
        As for :func:`wastedcores.simulator.replay.replay_scenario`.
    until_ns
        Stop after this much simulated time, in ns.

    Returns
    -------
    Trace
        The log as a trace, for every check, figure and comparison.

    Raises
    ------
    UsageError
        A name is unknown, a policy is no function, or a module or policy changed the state of the kernel.
    WorkloadError
        The program cannot be run to its end; see :meth:`Simulation.run`.
    """
    found = scenario(name)
    where = machine if machine is not None else found.machine
    on = find_machine(where).machine if isinstance(where, str) else where
    if modules is not None:
        kernel = "core"
    model = KernelModel.named(found.kernel if kernel is None else kernel)
    workload = found.workload(on, seed, given)
    return _run(workload, on, model, modules, policies or {}, seed, until_ns)[0]


def _run(
    workload: Workload,
    machine: Machine,
    model: KernelModel,
    modules: Sequence[Module | str] | None,
    policies: Mapping[str, Callable[..., Any]],
    seed: int,
    until_ns: int,
) -> tuple[Trace, Kernel]:
    program = as_booted(workload.program(), machine, model)
    steps = tuple(("online" if up else "offline", cpu) for _, cpu, up in program.hotplug)
    trees = domain_events(machine.after(steps), model.linux)
    k = Kernel(machine, model, trees, costs_of(machine), modules=modules)
    for decision, function in policies.items():
        setattr(k.policies, decision, function)
    sim = Simulation(k, program, seed)
    try:
        sim.run(until_ns)
    except AssertionError as e:
        own = [type(m).__name__ for m in modules or () if not isinstance(m, str)]
        if not own and not policies:
            raise
        raise UsageError(
            f"the state of the simulated kernel contradicts itself at {(k.now_ns - EPOCH_NS) / 1e6:.3f} ms. Something of "
            f"{', '.join([*own, *policies])} has changed it: modules and policies may read the kernel and its threads, and "
            "answer, but a module never changes them, and a policy only as the function does that it replaces."
        ) from e
    return to_trace(sim, workload.name), k
