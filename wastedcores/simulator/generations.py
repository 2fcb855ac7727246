"""The kernels that a replay models, and how much of each: the scheduler of v4.1, and v6.12's on one CPU or, if asked, on all."""

from __future__ import annotations

from wastedcores.errors import UnknownKernelError, WorkloadError
from wastedcores.kernels import KernelModel
from wastedcores.kernels.tables import UNVALIDATED
from wastedcores.topology.machine import Machine
from wastedcores.workload import ops
from wastedcores.workload.program import Program


def check_generation(kernel: KernelModel) -> None:
    """Check that a replay models the scheduler of this kernel, or at least a part of it.

    Parameters
    ----------
    kernel
        The kernel of a replay.

    Raises
    ------
    UnknownKernelError
        The replay models nothing of it.
    """
    if kernel.is_replayed or kernel.is_design or kernel.is_replayed_on_one_cpu:
        return
    raise UnknownKernelError(
        f"kernel {kernel.name!r} balances by the rules of {kernel.generation}, which the replay does not model; the nearest "
        f"release whose balancer has been read is {kernel.nearest}. Take v4.1 (or, with only the domains of its own, another "
        "one before v5.5), or v6.12.107 for threads that are pinned to one CPU each; `wastedcores domains` knows all of them."
    )


def check_modelled(kernel: KernelModel, program: Program, machine: Machine) -> None:
    """Check that a replay under this kernel needs nothing that is not modelled: of v6.12, whatever chooses among CPUs.

    That is modelled for a kernel whose name asks for it (``v6.12.107+unvalidated``).

    Parameters
    ----------
    kernel, program, machine
        What is replayed where.

    Raises
    ------
    UnknownKernelError
        The kernel is not modelled at all.
    WorkloadError
        A task could be placed on or moved to another CPU, a CPU goes offline, or a task is not SCHED_NORMAL.
    """
    check_generation(kernel)
    if not kernel.is_replayed_on_one_cpu or kernel.balances_v6_12:
        return
    specs = (*program.tasks, *program.templates)
    if any(row[0] == ops.OP_POLICY for spec in specs for row in spec.rows):
        raise WorkloadError(
            f"kernel {kernel.name!r}: the replay models this kernel's SCHED_NORMAL only, and this workload changes a policy. "
            "Leave that out, or take v4.1."
        )
    why = None if machine.cpus == 1 else _needs_balancing(program, machine)
    if why:
        raise WorkloadError(
            f"kernel {kernel.name!r}: the replay models how this kernel shares out one CPU (EEVDF). How it places and "
            f"balances threads over several is modelled but not validated, and {why}. Pin every thread to one CPU, take v4.1, or "
            f"ask for that model: {kernel.name}+{UNVALIDATED} (docs/linux-6.12.md says how far it agrees with recordings)."
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
