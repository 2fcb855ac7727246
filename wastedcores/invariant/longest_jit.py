"""Times per CPU within episodes, from the changes of one batch; changes outside of the episodes are hardly looked at."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import lean

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


class Watch(NamedTuple):
    """The state between batches, (cpus,) each."""

    now: I32  # tasks on each runqueue, -1 unknown
    seen: NDArray[np.bool_]  # scratch memory
    since: I64  # within an open episode: since when a runqueue has been as it is
    idle_ns: I64  # of the open episode so far
    over_ns: I64


@lean
def state_before(cpu: I32, nr: I32, first: int, end: int, w: Watch) -> None:
    """Bring ``w.now`` from before change ``first`` to before change ``end``, by the last change of each CPU."""
    w.seen[:] = False
    left = w.now.size
    i = end - 1
    while i >= first and left:
        c = cpu[i]
        if not w.seen[c]:
            w.seen[c] = True
            w.now[c] = nr[i]
            left -= 1
        i -= 1


@lean
def _account(c: int, until_ns: int, w: Watch) -> None:
    if w.now[c] == 0:
        w.idle_ns[c] += until_ns - w.since[c]
    elif w.now[c] > 1:
        w.over_ns[c] += until_ns - w.since[c]
    w.since[c] = until_ns


@lean
def within(
    ts_ns: I64, cpu: I32, nr: I32, counted: NDArray[np.uint8], first: int, end_ns: int, w: Watch
) -> int:
    """Add up the times of the open episode from change ``first`` on, until ``end_ns``; return the first change from then on."""
    i = first
    while i < ts_ns.size and ts_ns[i] < end_ns:
        c = cpu[i]
        if counted[c] and nr[i] != w.now[c]:
            _account(c, ts_ns[i], w)
            w.now[c] = nr[i]
        i += 1
    for c in range(w.now.size):
        if counted[c]:
            _account(c, end_ns, w)
    return i


@lean
def open_episode(start_ns: int, w: Watch) -> None:
    """Begin an episode."""
    w.since[:] = start_ns
    w.idle_ns[:] = 0
    w.over_ns[:] = 0
