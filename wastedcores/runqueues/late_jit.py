"""Wakeups that come later than the trace says, for recordings that have sched_waking and no sched_wakeup.

A sched_waking comes before the thread is put on a queue (try_to_wake_up(), kernel/sched/core.c, v6.12): the waker may first
wait until the thread has left its CPU, and then asks the other CPU to queue it (ttwu_queue_wakelist()). When the thread is queued
is not recorded. What is called certain must hold for every possible time of queueing, so each thread is taken to be queued as
late as possible: a fixed time after its waking, or when it begins to run if that is sooner.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import jit
from wastedcores.runqueues.state import MIGRATE, SWITCH, WAKEUP, Events

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


class Woken(NamedTuple):
    """Threads that were woken and are not queued yet; carried from batch to batch."""

    due_ns: I64  # (tasks,) when the thread is queued at the latest; -1: it was not woken
    cpu: I32  # (tasks,) the CPU whose queue it will join
    running: NDArray[np.bool_]  # (tasks,) whether the thread runs
    order: I32  # (room,) threads in the order of their wakings; some of them may have begun to run since
    order_ns: I64  # (room,) when each of these threads was due
    ends: I64  # (2,) the first valid row and the first free row of ``order``


def delayed(stream: Iterator[Events], late_ns: int, running: NDArray[np.bool_]) -> Iterator[Events]:
    """Yield the same events, but each wakeup ``late_ns`` later, or when its thread begins to run if that is sooner.

    ``running``: whether each task runs at first. A task that is woken while it runs may go on, and sleep later.
    """
    none, tasks = np.zeros(0, np.int64), running.size
    woken = Woken(
        np.full(tasks, -1), np.full(tasks, -1, np.int32), running.copy(), none.astype(np.int32),
        none, np.zeros(2, np.int64),
    )  # fmt: skip
    for e in stream:
        first, end = woken.ends.tolist()
        left, size = end - first, e.code.size
        order = np.concatenate([woken.order[first:end], np.empty(size, np.int32)])
        order_ns = np.concatenate([woken.order_ns[first:end], np.empty(size, np.int64)])
        woken = woken._replace(order=order, order_ns=order_ns, ends=np.array([0, left]))
        out = Events(*(np.empty(size + left, column.dtype) for column in e))
        n = delay(e, late_ns, woken, out)
        yield Events(*(column[:n] for column in out))  # type: ignore[arg-type]


@jit
def _queue(out: Events, n: int, t: int, q: int, w: Woken) -> int:
    """Write the delayed wakeup of thread ``q``. It names no waker, because the waker does something else by then."""
    w.due_ns[q] = -1
    if w.running[q]:
        return n
    out.code[n], out.ts_ns[n], out.cpu[n], out.pid[n] = WAKEUP, t, w.cpu[q], q
    out.src_cpu[n], out.prev_pid[n], out.by_pid[n], out.aux[n] = -1, -1, -1, 0
    return n + 1


@jit
def delay(e: Events, late_ns: int, w: Woken, out: Events) -> int:
    """Write the events of a batch and the wakeups that are due; return how many events were written."""
    n = 0
    for i in range(e.code.size):
        t, q = e.ts_ns[i], e.pid[i]
        while w.ends[0] < w.ends[1] and w.order_ns[w.ends[0]] <= t:
            first = w.order[w.ends[0]]
            if w.due_ns[first] == w.order_ns[w.ends[0]]:
                n = _queue(out, n, w.due_ns[first], first, w)
            w.ends[0] += 1
        if e.code[i] == WAKEUP and q > 0:
            if w.due_ns[q] < 0 and not w.running[q]:
                w.due_ns[q], w.cpu[q] = t + late_ns, e.cpu[i]
                w.order[w.ends[1]], w.order_ns[w.ends[1]] = q, t + late_ns
                w.ends[1] += 1
            continue
        if e.code[i] == SWITCH:
            if e.prev_pid[i] > 0:
                w.running[e.prev_pid[i]] = False
            if q > 0:
                if w.due_ns[q] >= 0:
                    n = _queue(out, n, t, q, w)
                w.running[q] = True
        elif e.code[i] == MIGRATE and q > 0:
            w.cpu[q] = e.cpu[i]
        out.code[n], out.ts_ns[n], out.cpu[n], out.src_cpu[n] = (
            e.code[i],
            t,
            e.cpu[i],
            e.src_cpu[i],
        )
        out.pid[n], out.prev_pid[n], out.by_pid[n], out.aux[n] = (
            q,
            e.prev_pid[i],
            e.by_pid[i],
            e.aux[i],
        )
        n += 1
    return n
