"""Future events in the order (time, sequence): a heap of four children a node.

An event is named by where its three words lie, ``row << SHIFT | column``: time, sequence, unused. The heap holds copies of
time and sequence, so that comparing touches the heap only, and it is lazy twice: a cancelled or moved event leaves its old
entry behind (the sequence no longer agrees), and a popped root stays as a hole for the next push to fill.
"""

from __future__ import annotations

from wastedcores.engine._apart import NOTHING, apart
from wastedcores.engine._jit import inner
from wastedcores.engine.state import (
    G_HEAP0,
    G_HEAP_N,
    G_HEAP_ROOM,
    G_HOLE,
    G_SEQ,
    INFINITE,
    LOW,
    R_EV,
    SHIFT,
)

# an entry has four words (time, sequence, event, none), 32 entries a row; the four children of a node lie side by side
SKIP = 3
PER_ROW_SHIFT = 5
PER_ROW_LOW = 31


@inner
def cpu_event(kind, cpu):
    """The event of this kind of a CPU."""
    return (cpu << SHIFT) + R_EV + 3 * kind


@inner
def pending(m, event):
    """Whether the event is planned."""
    return m[event >> SHIFT, (event & LOW) + 1] != 0


@inner
def cancel(m, event):
    """Take an event out; nothing if it is not pending."""
    m[event >> SHIFT, (event & LOW) + 1] = 0


@inner
def put(m, i, time_ns, seq, event):
    """Place ``i`` of the heap gets an entry."""
    row = m[0, G_HEAP0] + ((i + SKIP) >> PER_ROW_SHIFT)
    column = ((i + SKIP) & PER_ROW_LOW) << 2
    m[row, column] = time_ns
    m[row, column + 1] = seq
    m[row, column + 2] = event


@inner
def sift_up(m, i, time_ns, seq, event):
    """Put an entry at place ``i`` or above."""
    heap = m[0, G_HEAP0]
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


@inner
def sift_down(m, i, n, time_ns, seq, event):
    """Put an entry at place ``i`` of ``n`` or below."""
    heap = m[0, G_HEAP0]
    while True:
        child = 4 * i + 1
        if child >= n:
            break
        row = heap + ((child + SKIP) >> PER_ROW_SHIFT)
        column = ((child + SKIP) & PER_ROW_LOW) << 2
        best = time_ns
        best_seq = seq
        least = -1
        for k in range(min(4, n - child)):
            other = m[row, column + 4 * k]
            other_seq = m[row, column + 4 * k + 1]
            if other < best or (other == best and other_seq < best_seq):
                best = other
                best_seq = other_seq
                least = k
        if least < 0:
            break
        put(m, i, best, best_seq, m[row, column + 4 * least + 2])
        i = child + least
    put(m, i, time_ns, seq, event)


@inner
def fill_hole(m):
    """The last entry takes the place of the root that was popped."""
    m[0, G_HOLE] = 0
    n = m[0, G_HEAP_N] - 1
    m[0, G_HEAP_N] = n
    if n > 0:
        row = m[0, G_HEAP0] + ((n + SKIP) >> PER_ROW_SHIFT)
        column = ((n + SKIP) & PER_ROW_LOW) << 2
        sift_down(m, 0, n, m[row, column], m[row, column + 1], m[row, column + 2])


@apart(NOTHING)
def sweep(m):
    """Drop the entries that events have left behind."""
    if m[0, G_HOLE] != 0:
        fill_hole(m)
    heap = m[0, G_HEAP0]
    n = m[0, G_HEAP_N]
    kept = 0
    for i in range(n):
        row = heap + ((i + SKIP) >> PER_ROW_SHIFT)
        column = ((i + SKIP) & PER_ROW_LOW) << 2
        event = m[row, column + 2]
        if m[event >> SHIFT, (event & LOW) + 1] == m[row, column + 1]:
            # places in front are free: the kept ones are a heap of their own that grows
            sift_up(m, kept, m[row, column], m[row, column + 1], event)
            kept += 1
    m[0, G_HEAP_N] = kept


@apart(NOTHING)
def push(m, event, time_ns):
    """Make ``event`` happen at ``time_ns``, instead of when it was to happen before."""
    seq = m[0, G_SEQ] + 1
    m[0, G_SEQ] = seq
    m[event >> SHIFT, event & LOW] = time_ns
    m[event >> SHIFT, (event & LOW) + 1] = seq
    n = m[0, G_HEAP_N]
    if m[0, G_HOLE] != 0:
        m[0, G_HOLE] = 0
        sift_down(m, 0, n, time_ns, seq, event)
        return
    if n >= m[0, G_HEAP_ROOM]:
        sweep(m)
        n = m[0, G_HEAP_N]
    m[0, G_HEAP_N] = n + 1
    sift_up(m, n, time_ns, seq, event)


@inner
def first_time(m):
    """When the next event is to happen; INFINITE if there is none. The root is that event then."""
    heap = m[0, G_HEAP0]
    column = SKIP << 2
    while True:
        if m[0, G_HOLE] != 0:
            fill_hole(m)
        if m[0, G_HEAP_N] == 0:
            return INFINITE
        event = m[heap, column + 2]
        if m[event >> SHIFT, (event & LOW) + 1] == m[heap, column + 1]:
            return m[heap, column]
        m[0, G_HOLE] = 1


@inner
def pop(m):
    """Take out the event that ``first_time`` found."""
    m[0, G_HOLE] = 1
    event = m[m[0, G_HEAP0], (SKIP << 2) + 2]
    cancel(m, event)
    return event
