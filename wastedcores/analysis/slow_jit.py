"""The compiled part of the check for CPUs that are busy and slow."""

from __future__ import annotations

import numpy as np

from wastedcores.jit.compile import jit


@jit
def busy_and_slow(busy, clock, limit_khz, out):
    """Go through the busy times and the known frequencies of one CPU.

    Parameters
    ----------
    busy : int64 (n, 2)
        Beginnings and ends of the times in which the CPU was busy, rising and apart.
    clock : int64 (m, 3)
        Beginnings, ends and kHz of the times in which its frequency is known, rising and apart.
    limit_khz : int
        A frequency up to this is slow.
    out : int64 (n + m, 2)
        Filled with the beginnings and ends of the times in which the CPU was busy and slow; those that touch are one.

    Returns
    -------
    spans, busy_ns, slow_ns : int
        How many rows of ``out`` are filled, the busy time whose frequency is known, and the part of it that was slow.
    """
    n, known, slow, i, j = 0, np.int64(0), np.int64(0), 0, 0
    while i < busy.shape[0] and j < clock.shape[0]:
        a, b = max(busy[i, 0], clock[j, 0]), min(busy[i, 1], clock[j, 1])
        if b > a:
            known += b - a
            if clock[j, 2] <= limit_khz:
                slow += b - a
                if n > 0 and out[n - 1, 1] == a:
                    out[n - 1, 1] = b
                else:
                    out[n, 0] = a
                    out[n, 1] = b
                    n += 1
        if busy[i, 1] < clock[j, 1]:
            i += 1
        else:
            j += 1
    return n, known, slow
