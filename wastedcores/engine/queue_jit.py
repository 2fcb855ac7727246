"""Future events in the order (time, sequence): a binary heap with one place per event.

An event is named by where its three words lie, ``row << SHIFT | column``: time, sequence, place in the heap + 1.
"""

from __future__ import annotations

from wastedcores.engine._apart import NOTHING, VALUE, apart
from wastedcores.engine._jit import inner
from wastedcores.engine.state import G_HEAP0, G_HEAP_N, G_SEQ, LOW, R_EV, SHIFT


@inner
def cpu_event(kind, cpu):
    """The event of this kind of a CPU."""
    return (cpu << SHIFT) + R_EV + 3 * kind


@inner
def time_of(m, event):
    """When the event is to happen."""
    return m[event >> SHIFT, event & LOW]


@inner
def pending(m, event):
    """Whether the event is planned."""
    return m[event >> SHIFT, (event & LOW) + 2] != 0


@inner
def at(m, i):
    """The event at place ``i`` of the heap."""
    return m[m[0, G_HEAP0] + (i >> SHIFT), i & LOW]


@inner
def put(m, i, event):
    """Place ``i`` of the heap gets ``event``."""
    m[m[0, G_HEAP0] + (i >> SHIFT), i & LOW] = event
    m[event >> SHIFT, (event & LOW) + 2] = i + 1


@inner
def before(m, a, b):
    """Whether event ``a`` comes before ``b``."""
    ta = m[a >> SHIFT, a & LOW]
    tb = m[b >> SHIFT, b & LOW]
    if ta != tb:
        return ta < tb
    return m[a >> SHIFT, (a & LOW) + 1] < m[b >> SHIFT, (b & LOW) + 1]


@inner
def sift_up(m, i, event):
    """Put ``event`` at place ``i`` or above."""
    while i > 0:
        parent = (i - 1) >> 1
        other = at(m, parent)
        if not before(m, event, other):
            break
        put(m, i, other)
        i = parent
    put(m, i, event)


@inner
def sift_down(m, i, event):
    """Put ``event`` at place ``i`` or below."""
    n = m[0, G_HEAP_N]
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and before(m, at(m, child + 1), at(m, child)):
            child += 1
        other = at(m, child)
        if not before(m, other, event):
            break
        put(m, i, other)
        i = child
    put(m, i, event)


@apart(NOTHING)
def cancel(m, event):
    """Take a pending event out; nothing if it is not pending."""
    i = m[event >> SHIFT, (event & LOW) + 2] - 1
    if i < 0:
        return
    m[event >> SHIFT, (event & LOW) + 2] = 0
    n = m[0, G_HEAP_N] - 1
    m[0, G_HEAP_N] = n
    if i == n:
        return
    last = at(m, n)
    if i > 0 and before(m, last, at(m, (i - 1) >> 1)):
        sift_up(m, i, last)
    else:
        sift_down(m, i, last)


@apart(NOTHING)
def push(m, event, time_ns):
    """Make ``event`` happen at ``time_ns``, instead of when it was to happen before."""
    cancel(m, event)
    m[event >> SHIFT, event & LOW] = time_ns
    m[event >> SHIFT, (event & LOW) + 1] = m[0, G_SEQ]
    m[0, G_SEQ] += 1
    i = m[0, G_HEAP_N]
    m[0, G_HEAP_N] = i + 1
    sift_up(m, i, event)


@apart(VALUE)
def pop(m):
    """Take the first event out."""
    event = at(m, 0)
    cancel(m, event)
    return event
