"""Sorts records by time. They come as runs that are already in order; in each round, each CPU's buffer gives one run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import lean

I64 = NDArray[np.int64]


@lean
def _merge(ts: I64, ref: I64, low: int, mid: int, high: int, spare: I64) -> None:
    """Merge two neighbouring runs; of equal times, the first run's comes first. Only the parts that overlap are moved."""
    if ts[mid - 1] <= ts[mid]:
        return
    low += np.searchsorted(ts[low:mid], ts[mid], side="right")
    high = mid + np.searchsorted(ts[mid:high], ts[mid - 1], side="left")
    n = mid - low
    for i in range(n):
        spare[0, i] = ts[low + i]
        spare[1, i] = ref[low + i]
    i, j, k = 0, mid, low
    while i < n and j < high:
        first, second = spare[0, i], ts[j]
        later = spare[1, i]
        sooner = ref[j]
        take = second < first
        ts[k] = second if take else first
        ref[k] = sooner if take else later
        j += take
        i += not take
        k += 1
    while i < n:
        ts[k] = spare[0, i]
        ref[k] = spare[1, i]
        i += 1
        k += 1


@lean
def sort_runs(ts: I64, ref: I64, n: int, bounds: I64, spare: I64) -> int:
    """Sort the first ``n`` of ``ts``, and ``ref`` in the same way, by a stable merge sort of the runs; return their number."""
    if n == 0:
        return 0
    runs = 0
    bounds[0] = 0
    for i in range(1, n):
        if ts[i] < ts[i - 1]:
            runs += 1
            bounds[runs] = i
    runs += 1
    bounds[runs] = n
    found = runs
    while runs > 1:
        k = 0
        for r in range(0, runs - 1, 2):
            _merge(ts, ref, bounds[r], bounds[r + 1], bounds[r + 2], spare)
            k += 1
            bounds[k] = bounds[r + 2]
        if runs % 2:
            k += 1
            bounds[k] = n
        runs = k
    return found
