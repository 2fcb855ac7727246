"""The kernels that a replay models: those with the scheduler of v4.1, and v6.12.107."""

from __future__ import annotations

from wastedcores.errors import UnknownKernelError, WorkloadError
from wastedcores.kernels import KernelModel
from wastedcores.workload import ops
from wastedcores.workload.program import Program


def check_generation(kernel: KernelModel) -> None:
    """Check that a replay models the scheduler of this kernel.

    Parameters
    ----------
    kernel
        The kernel of a replay.

    Raises
    ------
    UnknownKernelError
        The replay does not model it.
    """
    if kernel.is_replayed or kernel.is_design:
        return
    near = (
        f" Take {kernel.stand_in}, the nearest release that the replay models."
        if kernel.stand_in
        else ""
    )
    raise UnknownKernelError(
        f"kernel {kernel.name!r} balances by the rules of {kernel.generation}, which the replay does not model; the nearest "
        f"release whose balancer has been read is {kernel.nearest}.{near} Others are v4.1 and, with only the domains of its own, "
        "every release before v5.5; `wastedcores domains` knows all of them."
    )


def check_modelled(kernel: KernelModel, program: Program) -> None:
    """Check that a replay under this kernel needs nothing that is not modelled.

    Parameters
    ----------
    kernel, program
        What is replayed.

    Raises
    ------
    UnknownKernelError
        The kernel is not modelled.
    WorkloadError
        A task changes its policy under a modern kernel.
    """
    check_generation(kernel)
    check_constant_policies(kernel, program)


def check_constant_policies(kernel: KernelModel, program: Program) -> None:
    """Check that no task changes its policy under a modern kernel, of which only SCHED_NORMAL is modelled.

    Parameters
    ----------
    kernel, program
        What is replayed.

    Raises
    ------
    WorkloadError
        A task does.
    """
    if not kernel.is_modern:
        return
    specs = (*program.tasks, *program.templates)
    if any(row[0] == ops.OP_POLICY for spec in specs for row in spec.rows):
        raise WorkloadError(
            f"kernel {kernel.name!r}: the replay models this kernel's SCHED_NORMAL only, and this workload changes a policy. "
            "Leave that out, or take v4.1."
        )
