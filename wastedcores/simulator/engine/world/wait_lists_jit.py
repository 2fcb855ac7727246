"""Lists of the tasks that wait for a barrier, lock or semaphore, in order of arrival."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.world import task, wait


@inner
def append(m, y, p):
    """Append ``p`` to the list of wait object ``y``."""
    m[p, task.WAIT_NEXT] = -1
    if m[y, wait.HEAD] < 0:
        m[y, wait.HEAD] = p
    else:
        m[m[y, wait.TAIL], task.WAIT_NEXT] = p
    m[y, wait.TAIL] = p


@inner
def unlink(m, y, p, before):
    """Remove ``p``, whose predecessor is ``before`` (-1 for none), from the list."""
    if before < 0:
        m[y, wait.HEAD] = m[p, task.WAIT_NEXT]
    else:
        m[before, task.WAIT_NEXT] = m[p, task.WAIT_NEXT]
    if m[y, wait.TAIL] == p:
        m[y, wait.TAIL] = before


@inner
def leave(m, y, p):
    """Remove ``p`` from the list, wherever it is."""
    before = -1
    other = m[y, wait.HEAD]
    while other != p:
        before = other
        other = m[other, task.WAIT_NEXT]
    unlink(m, y, p, before)
