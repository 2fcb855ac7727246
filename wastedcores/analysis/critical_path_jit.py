"""Walk backwards from the end of some work to what it waited for, step by step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import jit

I64 = NDArray[np.int64]

# what a task does in a segment
RUNNING, WAITING, SLEEPING = range(3)
# columns of a segment
G_TASK, G_START, G_END, G_WHAT, G_CPU, G_CLASS = range(6)
G_WIDTH = 6

# columns of a span on a CPU, ordered by task and time
P_START, P_END, P_CPU = range(3)
# columns of a sleep, ordered by task and time: when the task left its CPU, when it became runnable, which task ended the sleep
# (-1: none) and when, and the class of the sleep
S_OUT, S_WAKE, S_WAKER, S_WAKER_NS, S_CLASS = range(5)
# columns of a task: its parent (-1: none) and its birth
T_PARENT, T_BORN = range(2)

#: no class: the segment is no sleep
NO_CLASS = -2
#: after this many steps between tasks without going back in time, the tasks are taken to wait for each other in a circle
_CIRCLE = 64


@jit
def _last_before(times: I64, lo: int, hi: int, t: int) -> int:
    """Return the last row of [lo, hi) whose time is below ``t``; ``lo - 1`` if there is none."""
    while lo < hi:
        middle = (lo + hi) // 2
        if times[middle] < t:
            lo = middle + 1
        else:
            hi = middle
    return lo - 1


@jit
def _write(out: I64, n: int, task: int, start: int, end: int, what: int, cpu: int, why: int) -> int:
    """Write a segment, if it has any length; return the number of segments."""
    if end <= start:
        return n
    out[n, G_TASK], out[n, G_START], out[n, G_END] = task, start, end
    out[n, G_WHAT], out[n, G_CPU], out[n, G_CLASS] = what, cpu, why
    return n + 1


@jit
def walk(
    task: int,
    end_ns: int,
    start_ns: int,
    pieces: I64,
    first_piece: I64,
    sleeps: I64,
    first_sleep: I64,
    tasks: I64,
    out: I64,
) -> int:
    """Write the segments of the path, the last one first; return their number, or -1 if ``out`` is too small.

    ``first_piece`` and ``first_sleep`` (tasks + 1,) say where the rows of each task begin.
    """
    n, t, stuck = 0, end_ns, 0
    piece_start, sleep_out = pieces[:, P_START], sleeps[:, S_OUT]
    while t > start_ns:
        if n + 4 > len(out):
            return -1
        before = t
        i = _last_before(piece_start, first_piece[task], first_piece[task + 1], t)
        known = i >= first_piece[task]
        ended = pieces[i, P_END] if known else tasks[task, T_BORN]
        cpu = pieces[i, P_CPU] if known else -1
        k = _last_before(sleep_out, first_sleep[task], first_sleep[task + 1], t)
        slept = k >= first_sleep[task] and sleeps[k, S_OUT] >= ended
        if known and ended >= t:  # it was running
            n = _write(out, n, task, max(pieces[i, P_START], start_ns), t, RUNNING, cpu, NO_CLASS)
            t = pieces[i, P_START]
        elif slept:  # after its last run, it slept and then waited
            wake, waker = sleeps[k, S_WAKE], sleeps[k, S_WAKER]
            woken = 0 <= wake <= t
            wake = wake if woken else t
            n = _write(out, n, task, max(wake, start_ns), t, WAITING, cpu, NO_CLASS)
            jumps = waker >= 0 and woken and stuck < _CIRCLE
            t = min(wake, sleeps[k, S_WAKER_NS]) if jumps else sleeps[k, S_OUT]
            n = _write(out, n, task, max(t, start_ns), wake, SLEEPING, cpu, sleeps[k, S_CLASS])
            task = waker if jumps else task
        else:  # it was preempted, or it had not run yet
            n = _write(out, n, task, max(ended, start_ns), t, WAITING, cpu, NO_CLASS)
            t = ended
            if not known:
                if tasks[task, T_PARENT] < 0:
                    break
                task = tasks[task, T_PARENT]
        stuck = stuck + 1 if t == before else 0
    return n
