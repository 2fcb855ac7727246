"""Lines of tasks that wait for a barrier, lock or semaphore, in order of arrival."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.world.state import T_WNEXT, Y_HEAD, Y_TAIL


@inner
def append(m, y, p):
    """Last in the line of wait object ``y``."""
    m[p, T_WNEXT] = -1
    if m[y, Y_HEAD] < 0:
        m[y, Y_HEAD] = p
    else:
        m[m[y, Y_TAIL], T_WNEXT] = p
    m[y, Y_TAIL] = p


@inner
def unlink(m, y, p, before):
    """Take ``p``, whose predecessor is ``before`` (-1), out of the line."""
    if before < 0:
        m[y, Y_HEAD] = m[p, T_WNEXT]
    else:
        m[before, T_WNEXT] = m[p, T_WNEXT]
    if m[y, Y_TAIL] == p:
        m[y, Y_TAIL] = before


@inner
def leave(m, y, p):
    """Take ``p`` out of the line, wherever it stands."""
    before = -1
    other = m[y, Y_HEAD]
    while other != p:
        before = other
        other = m[other, T_WNEXT]
    unlink(m, y, p, before)
