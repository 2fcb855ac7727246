"""A heap with four children per node for the future events that the other queues of ``queue_jit`` do not hold.

It holds copies of an event's time and sequence number, so that a comparison touches only the heap. It is lazy in two ways. An
event that is cancelled or moved leaves its old entry behind, whose sequence number then no longer agrees. A root that is popped
leaves a hole for the next push to fill.
"""

from __future__ import annotations

import numpy as np

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.world import sim, table

# An entry has four words (time, sequence number, event, unused), and a row has 32 entries. The four children of a node are
# adjacent. Places behind the last entry have the time INFINITE.
SKIP = 3
PER_ROW_SHIFT = 5
PER_ROW_LOW = 31
#: the column of the root in the first row
HEAP_ROOT = SKIP << 2


@inner
def put(m, i, time_ns, seq, event):
    """Write an entry at place ``i`` of the heap."""
    row = m[0, sim.HEAP0] + ((i + SKIP) >> PER_ROW_SHIFT)
    column = ((i + SKIP) & PER_ROW_LOW) << 2
    m[row, column] = time_ns
    m[row, column + 1] = seq
    m[row, column + 2] = event


@inner
def sift_up(m, i, time_ns, seq, event):
    """Write an entry at place ``i`` or, if it is earlier than its parents, above."""
    heap = m[0, sim.HEAP0]
    while i > 0:
        parent = (i - 1) >> 2
        row = heap + ((parent + SKIP) >> PER_ROW_SHIFT)
        column = ((parent + SKIP) & PER_ROW_LOW) << 2
        other = m[row, column]
        if other < time_ns or (other == time_ns and m[row, column + 1] < seq):
            break
        put(m, i, other, m[row, column + 1], m[row, column + 2])
        i = parent
    put(m, i, time_ns, seq, event)


@apart(VALUE)
def first_of_equals(m, row, column, best):
    """Return which of four children comes first among those whose time is ``best``."""
    least = -1
    for k in range(4):
        if m[row, column + 4 * k] == best and (
            least < 0 or m[row, column + 4 * k + 1] < m[row, column + 4 * least + 1]
        ):
            least = k
    return least


@inner
def sift_down(m, i, n, time_ns, seq, event):
    """Write an entry at place ``i`` of ``n`` or, if it is later than its children, below."""
    heap = m[0, sim.HEAP0]
    while True:
        child = 4 * i + 1
        if child >= n:
            break
        row = heap + ((child + SKIP) >> PER_ROW_SHIFT)
        column = ((child + SKIP) & PER_ROW_LOW) << 2
        # written so that it compiles to conditional moves, because the branches would be unpredictable
        t0 = m[row, column]
        t1 = m[row, column + 4]
        t2 = m[row, column + 8]
        t3 = m[row, column + 12]
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
            least = first_of_equals(m, row, column, best)
        if time_ns == best and seq < m[row, column + 4 * least + 1]:
            break
        put(m, i, best, m[row, column + 4 * least + 1], m[row, column + 4 * least + 2])
        i = child + least
    put(m, i, time_ns, seq, event)


@inner
def fill_hole(m):
    """Move the last entry to the place of the root that was popped."""
    m[0, sim.HEAP_HOLE] = 0
    n = m[0, sim.HEAP_N] - 1
    m[0, sim.HEAP_N] = n
    row = m[0, sim.HEAP0] + ((n + SKIP) >> PER_ROW_SHIFT)
    column = ((n + SKIP) & PER_ROW_LOW) << 2
    last = m[row, column]
    m[row, column] = table.INFINITE
    if n > 0:
        sift_down(m, 0, n, last, m[row, column + 1], m[row, column + 2])


@apart(NOTHING)
def sweep(m):
    """Drop the entries that cancelled and moved events have left behind."""
    if m[0, sim.HEAP_HOLE] != 0:
        fill_hole(m)
    heap = m[0, sim.HEAP0]
    n = m[0, sim.HEAP_N]
    kept = 0
    for i in range(n):
        row = heap + ((i + SKIP) >> PER_ROW_SHIFT)
        column = ((i + SKIP) & PER_ROW_LOW) << 2
        event = m[row, column + 2]
        time_ns = m[row, column]
        m[row, column] = table.INFINITE
        if m[event >> table.SHIFT, (event & table.LOW) + 1] == m[row, column + 1]:
            # the places in front are free, and the entries kept so far form a heap of their own
            sift_up(m, kept, time_ns, m[row, column + 1], event)
            kept += 1
    m[0, sim.HEAP_N] = kept


@inner
def heap_push(m, time_ns, seq, event):
    """Add an entry."""
    n = m[0, sim.HEAP_N]
    if m[0, sim.HEAP_HOLE] != 0:
        m[0, sim.HEAP_HOLE] = 0
        sift_down(m, 0, n, time_ns, seq, event)
        return
    if n >= m[0, sim.HEAP_ROOM]:
        sweep(m)
        n = m[0, sim.HEAP_N]
    m[0, sim.HEAP_N] = n + 1
    sift_up(m, n, time_ns, seq, event)
