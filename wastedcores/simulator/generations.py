"""The kernels that a replay models, and how much of each: the whole scheduler of v4.1, and v6.12's on one CPU."""

from __future__ import annotations

from wastedcores.errors import UnknownKernelError, WorkloadError
from wastedcores.kernels import KernelModel
from wastedcores.topology.machine import Machine
from wastedcores.workload.program import Program

#: the release whose fair class (EEVDF) and load tracking are modelled, as of 6.12.107
EEVDF = (6, 12)


def check_generation(kernel: KernelModel) -> None:
    """Check that a replay models the scheduler of this kernel, or at least a part of it.

    Parameters
    ----------
    kernel
        The kernel of a replay.

    Raises
    ------
    UnknownKernelError
        It balances by Linux 5.5's rules and is not v6.12.
    """
    if kernel.generation != "v4.1" and kernel.version[:2] != EEVDF:
        raise UnknownKernelError(
            f"kernel {kernel.name!r} balances by Linux 5.5's rules, which the replay does not model; take v4.1 (or, with "
            "only the domains of its own, another one before v5.5), or v6.12 for threads that are pinned to one CPU each; "
            "`wastedcores domains` knows all of them."
        )


def check_modelled(kernel: KernelModel, program: Program, machine: Machine) -> None:
    """Check that a replay under this kernel needs nothing that is not modelled: of v6.12, whatever chooses among CPUs.

    Parameters
    ----------
    kernel, program, machine
        What is replayed where.

    Raises
    ------
    UnknownKernelError
        The kernel is not modelled at all.
    WorkloadError
        A task could be placed on or moved to another CPU, or a CPU goes offline.
    """
    check_generation(kernel)
    if not kernel.has_eevdf or machine.cpus == 1:
        return
    why = _needs_balancing(program, machine)
    if why:
        raise WorkloadError(
            f"kernel {kernel.name!r}: the replay models how this kernel shares out one CPU (EEVDF), not yet how it places "
            f"and balances threads over several, and {why}. Pin every thread to one CPU, or take v4.1."
        )


def _needs_balancing(program: Program, machine: Machine) -> str | None:
    """Say what of a program lets the scheduler choose among CPUs; None if nothing does."""
    if program.hotplug:
        return "a CPU of this workload goes offline"
    for task in program.tasks:
        if task.allowed is None or len(task.allowed) > 1:
            many = machine.cpus if task.allowed is None else len(task.allowed)
            return f"thread {task.comm!r} may run on {many} CPUs"
    for template in program.templates:
        if template.allowed is not None and len(template.allowed) > 1:
            return f"thread {template.comm!r} may run on {len(template.allowed)} CPUs"
    if any(len(mask) > 1 for mask in program.masks):
        return "a thread sets an affinity of several CPUs"
    cpus = {cpu for spec in (*program.tasks, *program.templates) for cpu in spec.allowed or ()}
    if len(program.shares) > 1 and len(cpus.union(*program.masks)) > 1:
        return "balancing also updates the loads by which its task groups share several CPUs"
    return None
