"""Compiled access to CPU sets, which are bits of a row, and to lists, which run over rows."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.world import cpuset, sim, table


@inner
def row_of(m, mask):
    """Return the row of a set; the three sets that every function can name have negative numbers (cpuset.py)."""
    return mask if mask >= 0 else m[0, sim.SETS] + mask


@inner
def test(m, mask, cpu):
    """Return whether ``cpu`` is in the set."""
    return (m[row_of(m, mask), cpu >> cpuset.WORD_SHIFT] >> (cpu & cpuset.WORD_LOW)) & 1 != 0


@inner
def include(m, mask, cpu):
    """Add ``cpu`` to the set."""
    m[row_of(m, mask), cpu >> cpuset.WORD_SHIFT] |= 1 << (cpu & cpuset.WORD_LOW)


@inner
def exclude(m, mask, cpu):
    """Remove ``cpu`` from the set."""
    if test(m, mask, cpu):
        m[row_of(m, mask), cpu >> cpuset.WORD_SHIFT] ^= 1 << (cpu & cpuset.WORD_LOW)


@inner
def start_from_active(m):
    """Copy the active CPUs into `cpus` of load_balance()."""
    for word in range(m[0, sim.CPUSET_WORDS]):
        m[row_of(m, cpuset.LB), word] = m[row_of(m, cpuset.ACTIVE), word]


@inner
def is_empty(m, mask):
    """Return whether the set has no CPU."""
    for word in range(m[0, sim.CPUSET_WORDS]):  # noqa: SIM110 (numba has no generators here)
        if m[row_of(m, mask), word] != 0:
            return False
    return True


@inner
def item(m, i):
    """Return element ``i`` of the list of CPU numbers and other constants."""
    return m[m[0, sim.LIST0] + (i >> table.SHIFT), i & table.LOW]
