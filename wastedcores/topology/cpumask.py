"""CPU sets as Python integers: bit c is set if CPU c is in the set, as in the kernel's ``struct cpumask``.

A set of 8192 CPUs takes 1 KiB, and union, intersection and comparison are single operations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def cpumask_of(cpus: Sequence[int] | npt.NDArray[np.int32]) -> int:
    """Return the set of these CPU numbers."""
    some = cpus.tolist() if isinstance(cpus, np.ndarray) else list(cpus)
    if len(some) <= 32:
        bits = 0
        for cpu in some:
            bits |= 1 << cpu
        return bits
    flags = np.zeros(max(some) + 1, dtype=np.uint8)
    flags[some] = 1
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def cpus_in(mask: int) -> list[int]:
    """Return the CPU numbers of a set, ascending."""
    if mask.bit_length() > 64:
        raw = np.frombuffer(mask.to_bytes((mask.bit_length() + 7) // 8, "little"), dtype=np.uint8)
        return np.flatnonzero(np.unpackbits(raw, bitorder="little")).tolist()
    cpus = []
    while mask:
        lowest = mask & -mask
        cpus.append(lowest.bit_length() - 1)
        mask ^= lowest
    return cpus


def cpumask_first(mask: int) -> int:
    """Return the lowest CPU of a set; -1 if the set is empty (the kernel returns nr_cpu_ids)."""
    return (mask & -mask).bit_length() - 1
