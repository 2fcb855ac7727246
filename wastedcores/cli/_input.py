"""Resolve what the user named, before anything runs: traces, data sets, scenarios, kernels and machines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wastedcores.topology.machine import Machine
    from wastedcores.trace.trace import Trace
    from wastedcores.workload.scenarios import Scenario


def open_input(
    name: Path,
    format: str | None = None,
    snapshot: str | None = None,
    between: Sequence[str] | None = None,
) -> Trace:
    """Open the trace file ``name``, or the data set of that name; if ``format`` is None, detect the format.

    ``snapshot`` is a file with facts about the trace's tasks, or ``live``. ``between`` cuts a window out of the trace.
    """
    if snapshot is not None:
        from wastedcores.capture.snapshot import read_snapshot, with_snapshot

        taken = read_snapshot(snapshot)  # first, because reading a trace may take long
        return with_snapshot(open_input(name, format), taken, snapshot)
    from wastedcores.trace.named import open

    return open(name, format=format, between=between)


def recorded_machine(
    trace: Trace, name: str | None, steps: Sequence[tuple[str, int]]
) -> Machine | None:
    """Return the machine ``name`` or the trace's own, after hotplug steps; None if neither a name nor a step was given."""
    from wastedcores.topology.machine import Machine
    from wastedcores.topology.source import find_machine

    on = find_machine(name).machine if name else None
    if steps and on is None and trace.header.machine:
        on = Machine.from_dict(trace.header.machine)
    return on.after(steps) if steps and on is not None else on


def kernel_of(trace: Trace, kernel: str | None, machine: str | None) -> str | None:
    """Return the kernel that the user names; if neither user nor trace names one, return that of the machine, otherwise None."""
    from wastedcores.topology.source import find_machine

    if kernel or machine is None or trace.header.kernel_model or trace.header.kernel_release:
        return kernel
    return find_machine(machine).kernel


def resolve_replay(
    scenario: str, kernels: Sequence[str], machine: str | None, seed: int, given: dict[str, str]
) -> tuple[Scenario, Machine]:
    """Find a scenario and its machine, and refuse every wrong name or value before a replay starts.

    If ``machine`` is None, the scenario's own machine is taken. ``given`` has values of the scenario's parameters.
    """
    from wastedcores.simulator import with_steps
    from wastedcores.simulator.limits import check_seed
    from wastedcores.simulator.replay import check_kernel
    from wastedcores.topology.source import find_machine
    from wastedcores.workload.scenarios import scenario as find

    found = find(scenario)
    for kernel in kernels:
        check_kernel(kernel)
    check_seed(seed)
    on = find_machine(found.machine if machine is None else machine).machine
    with_steps(on, found.workload(on, seed, given).program())
    return found, on
