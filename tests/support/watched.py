"""A replay as plain Python in which a test looks at the kernel whenever a function of the engine returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wastedcores.kernels import KernelModel
from wastedcores.simulator import RawReplay, simulate
from wastedcores.simulator.plain.engine import PlainEngine
from wastedcores.topology.machine import Machine
from wastedcores.workload.program import Program


def watched(
    program: Program,
    machine: Machine,
    kernel: KernelModel,
    function: Any,
    check: Callable[..., None],
    **options: Any,
) -> RawReplay:
    """Replay; ``check`` gets what ``function`` of the engine got, the kernel first. The options are those of simulate()."""
    plain = PlainEngine(machine, program)
    before = plain.of(function)

    def own(k, *about):
        result = before(k, *about)
        check(k, *about)
        return result

    plain.replace(function, own)
    return simulate(program, machine, kernel, plain=plain, **options)
