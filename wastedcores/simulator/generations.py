"""Refuses kernels that the replay does not model."""

from __future__ import annotations

from wastedcores.errors import UnknownKernelError
from wastedcores.kernels import KernelModel
from wastedcores.kernels.generations import replayed_listed


def check_generation(kernel: KernelModel) -> None:
    """Check that a replay models the scheduler of this kernel."""
    if kernel.is_replayed or kernel.is_design:
        return
    near = (
        f"Take {kernel.stand_in}, the nearest release that it models"
        if kernel.stand_in
        else f"The nearest release whose balancer has been read is {kernel.nearest}"
    )
    raise UnknownKernelError(
        f"kernel {kernel.name!r}: the replay does not model the balancer of exactly this release. {near}. It models "
        f"{replayed_listed()} and, with only the domains of its own, every release before v5.5; `wastedcores domains` knows all "
        "of them."
    )
