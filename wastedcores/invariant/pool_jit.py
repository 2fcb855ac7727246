"""Threads that could run and do not, whatever runqueue they are on, and CPUs that may be idle.

This needs only the switches and one event per wakeup. Where a thread is placed, which moves are missing, and which queue it
is on do not matter, so what contradicts the rebuilt runqueues does not matter here either.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import jit
from wastedcores.runqueues import task_row
from wastedcores.runqueues.state import (
    FORGET,
    FORK,
    HOTPLUG,
    SNAPSHOT,
    STAYS,
    SWITCH,
    THROTTLE,
    UNTHROTTLE,
    WAKEUP,
    WAKEUP_NEW,
    Events,
)

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

#: a wakeup that comes so late after the thread began to run is not missing: the clocks of two CPUs differ
SKEW_NS = 1_000_000

# columns of Pool.task; STATE has the values of task_row
STATE, WOKEN, LATE = 0, 1, 2
# columns of Pool.task_ns: since when it sleeps, and when it began to run without a wakeup
SINCE, BEGAN = 0, 1


class Pool(NamedTuple):
    """Carried from batch to batch."""

    task: NDArray[np.int8]  # (pids, 3)
    task_ns: I64  # (pids, 2)
    nr: I32  # (cpus,) 0 may be idle, 1 busy, -1 offline
    mask: I32  # (pids,) mask id of a thread of which it is known all the time, else 0: it may run anywhere
    waiting: I64  # (masks,) threads that could run and do not, by mask id
    may_idle: I64  # (masks,) CPUs of the mask that may be idle
    has: NDArray[np.uint8]  # (masks, cpus) 1: the mask has the CPU


class Changes(NamedTuple):
    """Rows that one call writes: runqueues, of which the last one stands for all waiting threads, and spans in doubt."""

    ts_ns: I64
    cpu: I32
    nr: I32
    span: I64  # (room, 2)
    n: I64  # (2,) valid rows and spans


@jit
def _row(out: Changes, t: int, c: int, nr: int) -> None:
    k = out.n[0]
    out.ts_ns[k], out.cpu[k], out.nr[k] = t, c, nr
    out.n[0] = k + 1


@jit
def useful(p: Pool) -> int:
    """Return how many threads wait that may use a CPU that may be idle."""
    n = 0
    for m in range(p.waiting.size):
        if p.may_idle[m] > 0:
            n += p.waiting[m]
    return n


@jit
def _count(p: Pool, out: Changes, t: int, q: int, by: int) -> None:
    p.waiting[p.mask[q]] += by
    _row(out, t, p.nr.size, useful(p) + 1)


@jit
def _set(p: Pool, out: Changes, t: int, c: int, nr: int) -> None:
    """CPU ``c`` may be idle (0), is busy (1) or offline (-1)."""
    change = (1 if nr == 0 else 0) - (1 if p.nr[c] == 0 else 0)
    p.nr[c] = nr
    _row(out, t, c, nr)
    if change != 0:
        for m in range(p.may_idle.size):
            if p.has[m, c] != 0:
                p.may_idle[m] += change
        if p.may_idle.size > 1:
            _row(out, t, p.nr.size, useful(p) + 1)


@jit
def _wait(p: Pool, out: Changes, t: int, q: int) -> None:
    if p.task[q, STATE] != task_row.WAITING:
        p.task[q, STATE] = task_row.WAITING
        _count(p, out, t, q, 1)


@jit
def _sleep(p: Pool, out: Changes, t: int, q: int) -> None:
    if p.task[q, STATE] == task_row.WAITING:
        _count(p, out, t, q, -1)
    p.task[q, STATE] = task_row.ASLEEP
    p.task_ns[q, SINCE] = t


@jit
def _settle(p: Pool, out: Changes, q: int) -> None:
    """No wakeup of thread ``q`` came: it may have waited since it slept."""
    if p.task[q, LATE] != 0:
        p.task[q, LATE] = 0
        k = out.n[1]
        out.span[k, 0], out.span[k, 1] = p.task_ns[q, SINCE], p.task_ns[q, BEGAN]
        out.n[1] = k + 1


@jit
def _begin(p: Pool, out: Changes, t: int, q: int, trusted: bool) -> None:
    """Thread ``q`` begins to run."""
    if p.task[q, STATE] == task_row.WAITING:
        _count(p, out, t, q, -1)
    elif p.task[q, STATE] != task_row.RUNNING and not trusted:
        p.task[q, LATE] = 1
        p.task_ns[q, BEGAN] = t
    p.task[q, STATE] = task_row.RUNNING
    p.task[q, WOKEN] = 0


@jit
def _stop(p: Pool, out: Changes, t: int, q: int, keeps: bool, idle: bool) -> None:
    """Thread ``q`` stops; a CPU that goes idle beside a thread that could run shows that it may not (it is throttled)."""
    _settle(p, out, q)
    if (keeps and not idle) or (p.task[q, WOKEN] != 0 and not keeps):
        _wait(p, out, t, q)
    else:
        _sleep(p, out, t, q)
    p.task[q, WOKEN] = 0


@jit
def pool(e: Events, wakings: bool, trusted: NDArray[np.bool_], p: Pool, out: Changes) -> None:
    """Apply events; ``out`` has room for eight rows and two spans per event. Threads that are ``trusted`` never waited unseen."""
    out.n[:] = 0
    for i in range(e.code.size):
        k, t, c, q = e.code[i], e.ts_ns[i], e.cpu[i], e.pid[i]
        if k == SWITCH:
            x = e.prev_pid[i]
            if x > 0:
                _stop(p, out, t, x, e.aux[i] == STAYS, q == 0)
            if q > 0:
                _begin(p, out, t, q, trusted[q])
            _set(p, out, t, c, 1 if q > 0 else 0)
        elif k == HOTPLUG:
            _set(p, out, t, c, 0 if e.aux[i] != 0 else -1)
        elif k == FORGET:
            _set(p, out, t, c, 0)
        elif q <= 0:
            continue
        elif k == WAKEUP or k == WAKEUP_NEW or k == UNTHROTTLE:
            if p.task[q, STATE] == task_row.RUNNING:
                if p.task[q, LATE] != 0 and t - p.task_ns[q, BEGAN] <= SKEW_NS:
                    p.task[q, LATE] = 0
                elif wakings:
                    p.task[q, WOKEN] = 1
            else:
                _wait(p, out, t, q)
        elif k == THROTTLE:
            if p.task[q, STATE] == task_row.WAITING:
                _sleep(p, out, t, q)
        elif k == FORK:
            if p.task[q, STATE] != task_row.RUNNING:
                _sleep(p, out, t, q)
        elif k == SNAPSHOT:
            if p.task[q, STATE] == task_row.UNKNOWN:
                if e.aux[i] == task_row.WAITING:
                    _wait(p, out, t, q)
                elif e.aux[i] == task_row.ASLEEP:
                    _sleep(p, out, t, q)
