"""The rules that distinguish modern kernels from each other (wastedcores/kernels/rules.py), for compiled code."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.world import table
from wastedcores.simulator.engine.world.structs import Kernel


@inner
def rule(k: Kernel, which: int) -> bool:
    """Return whether the kernel has a rule; ``which`` is its column in the row of v6.12's globals."""
    return k[k.scratch + table.MODERN_ROW, which] != 0
