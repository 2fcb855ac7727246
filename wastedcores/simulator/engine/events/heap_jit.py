"""A heap with four children per node for the future events that the other queues of ``queue_jit`` do not hold.

It holds copies of an event's time and sequence number, so that a comparison touches only the heap. It is lazy in two ways. An
event that is cancelled or moved leaves its old entry behind, whose sequence number then no longer agrees. A root that is popped
leaves a hole for the next push to fill.
"""

from __future__ import annotations

import numpy as np

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.world import table
from wastedcores.simulator.engine.world.structs import Kernel

# An entry has four words (time, sequence number, event, unused), and a row has 32 entries. The four children of a node are
# adjacent. Places behind the last entry have the time INFINITE.
SKIP = 3
PER_ROW_SHIFT = 5
PER_ROW_LOW = 31
#: the column of the root in the first row
HEAP_ROOT = SKIP << 2


@inner
def put(k: Kernel, i: int, time_ns: int, seq: int, event: int) -> None:
    """Write an entry at place ``i`` of the heap."""
    row = k.heap0 + ((i + SKIP) >> PER_ROW_SHIFT)
    column = ((i + SKIP) & PER_ROW_LOW) << 2
    k[row, column] = time_ns
    k[row, column + 1] = seq
    k[row, column + 2] = event


@inner
def sift_up(k: Kernel, i: int, time_ns: int, seq: int, event: int) -> None:
    """Write an entry at place ``i`` or, if it is earlier than its parents, above."""
    heap = k.heap0
    while i > 0:
        parent = (i - 1) >> 2
        row = heap + ((parent + SKIP) >> PER_ROW_SHIFT)
        column = ((parent + SKIP) & PER_ROW_LOW) << 2
        other = k[row, column]
        if other < time_ns or (other == time_ns and k[row, column + 1] < seq):
            break
        put(k, i, other, k[row, column + 1], k[row, column + 2])
        i = parent
    put(k, i, time_ns, seq, event)


@apart(VALUE)
def first_of_equals(k: Kernel, row: int, column: int, best: int) -> int:
    """Return which of four children comes first among those whose time is ``best``."""
    least = -1
    for nth in range(4):
        if k[row, column + 4 * nth] == best and (
            least < 0 or k[row, column + 4 * nth + 1] < k[row, column + 4 * least + 1]
        ):
            least = nth
    return least


@inner
def sift_down(k: Kernel, i: int, n: int, time_ns: int, seq: int, event: int) -> None:
    """Write an entry at place ``i`` of ``n`` or, if it is later than its children, below."""
    heap = k.heap0
    while True:
        child = 4 * i + 1
        if child >= n:
            break
        row = heap + ((child + SKIP) >> PER_ROW_SHIFT)
        column = ((child + SKIP) & PER_ROW_LOW) << 2
        # written so that it compiles to conditional moves, because the branches would be unpredictable
        t0 = k[row, column]
        t1 = k[row, column + 4]
        t2 = k[row, column + 8]
        t3 = k[row, column + 12]
        ta = t1 if t1 < t0 else t0
        a = 1 if t1 < t0 else 0
        tb = t3 if t3 < t2 else t2
        b = 3 if t3 < t2 else 2
        best = tb if tb < ta else ta
        least = b if tb < ta else a
        if time_ns < best:
            break
        if (
            np.int64(t0 == best)
            + np.int64(t1 == best)
            + np.int64(t2 == best)
            + np.int64(t3 == best)
            > 1
        ):
            least = first_of_equals(k, row, column, best)
        if time_ns == best and seq < k[row, column + 4 * least + 1]:
            break
        put(k, i, best, k[row, column + 4 * least + 1], k[row, column + 4 * least + 2])
        i = child + least
    put(k, i, time_ns, seq, event)


@inner
def fill_hole(k: Kernel) -> None:
    """Move the last entry to the place of the root that was popped."""
    k.heap_hole = 0
    n = k.heap_n - 1
    k.heap_n = n
    row = k.heap0 + ((n + SKIP) >> PER_ROW_SHIFT)
    column = ((n + SKIP) & PER_ROW_LOW) << 2
    last = k[row, column]
    k[row, column] = table.INFINITE
    if n > 0:
        sift_down(k, 0, n, last, k[row, column + 1], k[row, column + 2])


@apart(NOTHING)
def sweep(k: Kernel) -> None:
    """Drop the entries that cancelled and moved events have left behind."""
    if k.heap_hole != 0:
        fill_hole(k)
    heap = k.heap0
    n = k.heap_n
    kept = 0
    for i in range(n):
        row = heap + ((i + SKIP) >> PER_ROW_SHIFT)
        column = ((i + SKIP) & PER_ROW_LOW) << 2
        event = k[row, column + 2]
        time_ns = k[row, column]
        k[row, column] = table.INFINITE
        if k[event >> table.SHIFT, (event & table.LOW) + 1] == k[row, column + 1]:
            # the places in front are free, and the entries kept so far form a heap of their own
            sift_up(k, kept, time_ns, k[row, column + 1], event)
            kept += 1
    k.heap_n = kept


@inner
def heap_push(k: Kernel, time_ns: int, seq: int, event: int) -> None:
    """Add an entry."""
    n = k.heap_n
    if k.heap_hole != 0:
        k.heap_hole = 0
        sift_down(k, 0, n, time_ns, seq, event)
        return
    if n >= k.heap_room:
        sweep(k)
        n = k.heap_n
    k.heap_n = n + 1
    sift_up(k, n, time_ns, seq, event)
