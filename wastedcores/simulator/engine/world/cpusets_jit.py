"""Sets of CPUs (bits of a row) and lists that run over rows, in the table of the world."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.world import cpuset, sim, table


@inner
def row_of(m, mask):
    """Row of a set: the three sets every function can name have negative names."""
    return mask if mask >= 0 else m[0, sim.SETS] + mask


@inner
def test(m, mask, cpu):
    """Whether ``cpu`` is in the set."""
    return (m[row_of(m, mask), cpu >> cpuset.WORD_SHIFT] >> (cpu & cpuset.WORD_LOW)) & 1 != 0


@inner
def include(m, mask, cpu):
    """Add ``cpu`` to the set."""
    m[row_of(m, mask), cpu >> cpuset.WORD_SHIFT] |= 1 << (cpu & cpuset.WORD_LOW)


@inner
def exclude(m, mask, cpu):
    """Take ``cpu`` out of the set."""
    if test(m, mask, cpu):
        m[row_of(m, mask), cpu >> cpuset.WORD_SHIFT] ^= 1 << (cpu & cpuset.WORD_LOW)


@inner
def start_from_active(m):
    """Make `cpus` of load_balance the active CPUs."""
    for word in range(m[0, sim.CPUSET_WORDS]):
        m[row_of(m, cpuset.LB), word] = m[row_of(m, cpuset.ACTIVE), word]


@inner
def is_empty(m, mask):
    """Whether no CPU is in the set."""
    for word in range(m[0, sim.CPUSET_WORDS]):  # noqa: SIM110 (numba has no generators here)
        if m[row_of(m, mask), word] != 0:
            return False
    return True


@inner
def item(m, i):
    """Element ``i`` of the list of CPU numbers and other constants."""
    return m[m[0, sim.LIST0] + (i >> table.SHIFT), i & table.LOW]
