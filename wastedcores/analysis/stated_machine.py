"""A trace whose machine and kernel somebody states, because the trace itself does not."""

from __future__ import annotations

from wastedcores.errors import TopologyError
from wastedcores.kernels import is_release, recorded_kernel
from wastedcores.topology.machine import Machine
from wastedcores.topology.source import find_machine
from wastedcores.trace.named import TraceLike
from wastedcores.trace.named import open as opened
from wastedcores.trace.trace import Trace


def recorded_on(trace: TraceLike, machine: Machine | str = "", kernel: str = "") -> Trace:
    """Open a trace, and state on which machine and kernel it was recorded.

    Parameters
    ----------
    trace
        The trace, a file or the name of a data set.
    machine
        The machine, a preset, a file that describes one, or ``live`` for this machine; empty: what the trace says.
    kernel
        The kernel, such as ``v4.1`` or a release; empty: what the trace says.

    Returns
    -------
    Trace
        The trace with these facts in its header. Figures then group the CPUs by node, and explanations need nothing else.

    Raises
    ------
    TopologyError
        The trace has CPUs that the machine does not have.
    UnknownKernelError
        The kernel is unknown or older than all models.
    """
    found = opened(trace)
    if machine:
        on = machine if isinstance(machine, Machine) else find_machine(machine).machine
        if (found.header.cpus or 0) > on.cpus:
            raise TopologyError(
                f"{found.name}: has CPUs 0-{(found.header.cpus or 0) - 1}, but machine {on.name} has {on.cpus}. "
                "Was it recorded on another machine?"
            )
        found = found.with_header(machine=on.to_dict())
    if kernel:
        model = recorded_kernel(kernel)[0].name
        # what a distributor appended to a release says whose scheduler it is, so it is kept
        stated = (
            {"kernel_release": kernel, "kernel_model": None}
            if is_release(kernel)
            else {"kernel_model": model}
        )
        found = found.with_header(**stated)
    return found
