"""Compiled access to CPU sets, which are the bits of a row, and to lists, which span several rows."""

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.world import cpuset, table
from wastedcores.simulator.engine.world.structs import Kernel


@inner
def row_of(k: Kernel, mask: int) -> int:
    """Return the row of a set. The named sets (cpuset.py), which every function can use, have negative numbers."""
    return mask if mask >= 0 else k.design.row + mask


@inner
def test(k: Kernel, mask: int, cpu: int) -> bool:
    """Return whether ``cpu`` is in the set."""
    return (k[row_of(k, mask), cpu >> cpuset.WORD_SHIFT] >> (cpu & cpuset.WORD_LOW)) & 1 != 0


@inner
def include(k: Kernel, mask: int, cpu: int) -> None:
    """Add ``cpu`` to the set."""
    k[row_of(k, mask), cpu >> cpuset.WORD_SHIFT] |= 1 << (cpu & cpuset.WORD_LOW)


@inner
def exclude(k: Kernel, mask: int, cpu: int) -> None:
    """Remove ``cpu`` from the set."""
    if test(k, mask, cpu):
        k[row_of(k, mask), cpu >> cpuset.WORD_SHIFT] ^= 1 << (cpu & cpuset.WORD_LOW)


@inner
def start_from_active(k: Kernel) -> None:
    """Copy the active CPUs into `cpus` of load_balance()."""
    for word in range(k.cpuset_words):
        k[row_of(k, cpuset.LB), word] = k[row_of(k, cpuset.ACTIVE), word]


@inner
def is_empty(k: Kernel, mask: int) -> bool:
    """Return whether the set has no CPU."""
    for word in range(k.cpuset_words):  # noqa: SIM110 (numba has no generators here)
        if k[row_of(k, mask), word] != 0:
            return False
    return True


@inner
def equal(k: Kernel, one: int, other: int) -> bool:
    """Return whether two sets have the same CPUs."""
    for word in range(k.cpuset_words):  # noqa: SIM110 (numba has no generators here)
        if k[row_of(k, one), word] != k[row_of(k, other), word]:
            return False
    return True


@inner
def item(k: Kernel, i: int) -> int:
    """Return element ``i`` of the list of CPU numbers and other constants."""
    return k[k.list0 + (i >> table.SHIFT), i & table.LOW]
