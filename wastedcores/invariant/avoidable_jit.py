"""How long an idle CPU could have run a thread: for each set of allowed CPUs, the time in which one of them was idle."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import jit

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


class IdleState(NamedTuple):
    """What :func:`steps` carries from batch to batch. A mask is a set of CPUs; mask 0 has all CPUs that take part."""

    nr: I32  # (cpus,) tasks on each runqueue, -1 unknown
    counted: NDArray[np.uint8]  # (cpus,) 1: the CPU takes part
    first: I32  # (cpus + 1,) where the masks of each CPU begin in ``mask``
    mask: I32  # the masks that contain each CPU, CPU after CPU
    idle: I32  # (masks,) idle CPUs of the mask
    since: I64  # (masks,) since when the mask has had an idle CPU
    sum_ns: I64  # (masks,) time for which the mask had an idle CPU, up to ``since``


class Steps(NamedTuple):
    """The moments at which a mask's time with an idle CPU begins or ceases to grow; ``n[0]`` rows are valid."""

    mask: I32
    ts_ns: I64
    sum_ns: I64  # the time with an idle CPU up to ts_ns
    grows: NDArray[np.uint8]  # 1: from ts_ns on it grows
    n: I64  # (1,)


@jit
def steps(s: IdleState, out: Steps, ts_ns: I64, cpu: I32, nr: I32) -> None:
    """Take changes of runqueues in order of time; ``out`` needs room for one step per change and mask of its CPU."""
    n = 0
    for i in range(ts_ns.size):
        c = cpu[i]
        if s.counted[c] == 0:
            continue
        change = (1 if nr[i] == 0 else 0) - (1 if s.nr[c] == 0 else 0)
        s.nr[c] = nr[i]
        if change == 0:
            continue
        for k in range(s.first[c], s.first[c + 1]):
            m = s.mask[k]
            s.idle[m] += change
            if s.idle[m] == 0:
                s.sum_ns[m] += ts_ns[i] - s.since[m]
            elif not (change == 1 and s.idle[m] == 1):
                continue
            s.since[m] = ts_ns[i]
            out.mask[n] = m
            out.ts_ns[n] = ts_ns[i]
            out.sum_ns[n] = s.sum_ns[m]
            out.grows[n] = s.idle[m] > 0
            n += 1
    out.n[0] = n


#: columns of the table of threads: the end of the last wait, the avoidable part of the present wait, the number of waits that
#: were partly avoidable, the time waited, the avoidable part of it, and the longest avoidable part of one wait
LAST_END, PRESENT, WAITS, WAITED, AVOIDABLE, LONGEST = range(6)
WIDTH = 6


@jit
def collect(task: I32, start_ns: I64, end_ns: I64, avoidable_ns: I64, threads: I64) -> None:
    """Add pieces of waits, in order of time for each thread, to the table of threads (tasks, WIDTH).

    A piece that begins where the thread's last piece ended belongs to the same wait: the thread was moved.
    """
    for i in range(task.size):
        p = task[i]
        if start_ns[i] != threads[p, LAST_END]:
            threads[p, PRESENT] = 0
        threads[p, LAST_END] = end_ns[i]
        threads[p, WAITED] += end_ns[i] - start_ns[i]
        if avoidable_ns[i] == 0:
            continue
        if threads[p, PRESENT] == 0:
            threads[p, WAITS] += 1
        threads[p, PRESENT] += avoidable_ns[i]
        threads[p, AVOIDABLE] += avoidable_ns[i]
        threads[p, LONGEST] = max(threads[p, LONGEST], threads[p, PRESENT])
