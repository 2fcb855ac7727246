"""The work of a thread of a group: checksums of an array that fits into a core's L2 cache."""

from __future__ import annotations

from wastedcores.jit.compile import jit


@jit
def checksum(array, times):
    """Add up an array several times, as Sites' threads do, and return a sum that depends on the whole array."""
    a, b = 1, 0
    for _ in range(times):
        for value in array:
            a = (a + value) % 65521
            b = (b + a) % 65521
    return b << 16 | a
