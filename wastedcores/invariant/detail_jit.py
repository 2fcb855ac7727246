"""Times within chosen episodes: how long each CPU was idle or overloaded, and which events began the overloads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import jit
from wastedcores.runqueues.state import COUNT

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


@jit
def add_overlap(lo: int, hi: int, starts: I64, ends: I64, into: I64, column: int) -> None:
    """Add the overlap of [lo, hi) with each of the sorted, disjoint episodes to ``into[episode, column]``."""
    k = np.searchsorted(ends, lo, side="right")
    while k < starts.size and starts[k] < hi:
        into[k, column] += min(hi, ends[k]) - max(lo, starts[k])
        k += 1


@jit
def cpu_times(
    ts_ns: I64,
    cpu: I32,
    nr: I32,
    code: NDArray[np.int8],
    starts: I64,
    ends: I64,
    now: I32,
    since: I64,
    cause: I32,
    idle_ns: I64,
    over_ns: I64,
    cause_ns: I64,
) -> None:
    """Process nr_running changes.

    ``now``, ``since`` and ``cause`` (cpus,) carry over to the next call. Times are added to ``idle_ns`` and ``over_ns``
    (episodes, cpus) and to ``cause_ns`` (episodes, codes + 1), whose column ``code + 1`` has the time of the overloads that began
    with an event of this code.
    """
    begun = 0  # episodes that began before the present change
    for i in range(ts_ns.size):
        c = cpu[i]
        while begun < starts.size and starts[begun] < ts_ns[i]:
            begun += 1
        # the kernel changes nr_running before it reports the wakeup or move that caused the change
        if cause[c] == COUNT + 1 and code[i] != COUNT:
            cause[c] = code[i] + 1
        if nr[i] == now[c]:
            continue
        if begun > 0 and ends[begun - 1] > since[c]:
            # otherwise no episode overlaps the time since the CPU's last change; this is so for most changes
            if now[c] == 0:
                add_overlap(since[c], ts_ns[i], starts, ends, idle_ns, c)
            elif now[c] >= 2:
                add_overlap(since[c], ts_ns[i], starts, ends, over_ns, c)
                add_overlap(since[c], ts_ns[i], starts, ends, cause_ns, cause[c])
        if nr[i] >= 2 and now[c] < 2:
            cause[c] = code[i] + 1
        now[c] = nr[i]
        since[c] = ts_ns[i]


@jit
def cpu_times_end(
    end_ns: int,
    starts: I64,
    ends: I64,
    now: I32,
    since: I64,
    cause: I32,
    idle_ns: I64,
    over_ns: I64,
    cause_ns: I64,
) -> None:
    """Add the states that lasted until the end."""
    for c in range(now.size):
        if now[c] == 0:
            add_overlap(since[c], end_ns, starts, ends, idle_ns, c)
        elif now[c] >= 2:
            add_overlap(since[c], end_ns, starts, ends, over_ns, c)
            add_overlap(since[c], end_ns, starts, ends, cause_ns, cause[c])
