"""The rules that distinguish modern kernels from each other (wastedcores/kernels/rules.py), for compiled code."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.world import sim, v6_12


@inner
def rule(m, which):
    """Return whether the kernel has a rule; ``which`` is its column in the row of v6.12's globals."""
    return m[m[0, sim.SCRATCH] + v6_12.ROW, which] != 0
