"""The compiled part of the check for CPUs that are busy and slow."""

from __future__ import annotations

import numpy as np

from wastedcores.jit.compile import jit


@jit
def busy_and_slow(busy, clock, limit_khz, out):
    """Find the times in which one CPU was busy at a known frequency of at most ``limit_khz``."""
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
