"""The machine and the kernel that the user states for a trace that does not name them."""

from __future__ import annotations

from typing import NamedTuple

from wastedcores.errors import TopologyError, UnknownKernelError
from wastedcores.kernels import KernelModel, is_release, recorded_kernel
from wastedcores.kernels.generations import replayed
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import grid
from wastedcores.topology.source import find_machine
from wastedcores.trace.named import TraceLike
from wastedcores.trace.named import open as opened
from wastedcores.trace.trace import Trace

#: The kernel that is assumed if none is named: the newest release that the replay has.
KERNEL = replayed()[-1]


class Place(NamedTuple):
    """Where a trace was recorded."""

    #: the machine and the kernel that the user or the trace names, or assumed ones
    machine: Machine
    kernel: KernelModel | str
    #: a sentence without a full stop for everything that was assumed because it was not named. Answers that depend on it have
    #: low trust.
    assumed: tuple[str, ...]


def place(trace: Trace, machine: Machine | None, kernel: KernelModel | str | None) -> Place:
    """Find the machine and the kernel of a trace."""
    header = trace.header
    assumed = []
    cpus = header.cpus or 1
    if machine is None and header.machine is not None:
        machine = Machine.from_dict(header.machine)
    elif machine is None:
        machine = grid("unknown", cores_per_llc=cpus)
        assumed.append(
            "the trace does not say on which machine it was recorded, and one level with the "
            f"{cpus} CPU{'s'[: cpus != 1]} that it names stands for it; "
            "what depends on levels and nodes has low trust until --machine NAME, FILE or live names it"
        )
    elif cpus > machine.cpus:
        raise TopologyError(
            f"{trace.name}: has CPUs 0-{cpus - 1}, but machine {machine.name} has {machine.cpus}. Was it recorded on another "
            "machine?"
        )
    named = kernel or header.kernel_model or header.kernel_release
    said = "the trace does not say which kernel it was recorded on"
    if named and not kernel:
        try:
            recorded_kernel(str(named))
        except UnknownKernelError:
            said = f"the trace calls its kernel {named!r}, which is no release"
            named = None
    if named is None:
        named = KERNEL
        assumed.append(
            f"{said}, and Linux {KERNEL} stands for it; what depends on the kernel has low trust until --kernel names it, as "
            "uname -r prints it there"
        )
    if header.scheduler:
        assumed.append(
            f"the scheduler {header.scheduler} ran instead of the kernel's own; what depends on that one has low trust"
        )
    return Place(machine, named, tuple(assumed))


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
        The kernel is no release and no model.
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
        # the suffix that a distributor appended to a release tells whose scheduler it is, so the suffix is kept
        stated = (
            {"kernel_release": kernel, "kernel_model": None}
            if is_release(kernel)
            else {"kernel_model": model}
        )
        found = found.with_header(**stated)
    return found
