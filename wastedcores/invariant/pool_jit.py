"""Threads that could run and do not, whatever runqueue they are on, and CPUs that may be idle.

This needs only the switches and one event per wakeup. Which queue a thread is on does not matter, so what contradicts the
rebuilt runqueues does not matter here either.

Where the trace tells each placement and move, a thread on the queue of an idle CPU does not count: either it is about to run
there, or its control group is throttled there. Then other threads of the group cannot run on that CPU either
(kernel/sched/fair.c, v6.12: throttle_cfs_rq() takes the group's cfs_rq of one CPU from its runqueue). On a CPU that was not
recorded, a thread waits only while that CPU is busy.

After a loss any sleeping thread may have been woken unseen, and it waits on a CPU that was not idle since: a thread of which
nobody knows is no longer there when its CPU goes idle. So until every CPU was idle once, waste is possible whenever some CPU may
be idle, and never while all are busy. A thread that begins to run without a wakeup was one of those.
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
    MIGRATE,
    SKEW_NS,
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

# columns of Pool.task; STATE has the values of task_row
STATE, WOKEN, LATE = 0, 1, 2
# columns of Pool.task_ns
(
    SINCE,  # since when it sleeps
    FROM,  # from when on it may have waited
    BEGAN,  # when it began to run without a wakeup
    MOVED,  # from when on it may have waited on the CPU from which it was first moved since it sleeps; -1: it was not moved
    EARLY,  # when it was last woken while it ran; the clocks of two CPUs may tell of this before it stopped
    AT,  # when it was last moved; they may tell of this before it stopped or was woken, too
    IDLE,  # the part of the time before it slept in which some CPU may have been idle
) = range(7)
# values of LATE: its wakeup is missing or comes late; a wakeup came when it slept again: late, or to let it wait
UNWOKEN, PERHAPS = 1, 2


class Pool(NamedTuple):
    """Carried from batch to batch."""

    task: NDArray[np.int8]  # (tasks, 3)
    task_ns: I64  # (tasks, 7)
    nr: I32  # (cpus,) 0 may be idle, 1 busy, -1 offline
    #: (tasks,) kinds of threads: the CPUs that they may use and the groups that limit them
    kind: I32
    cpu: I32  # (tasks,) the CPU on whose queue the thread is; if not known, the number of CPUs
    queued: I64  # (cpus + 1, kinds) number of threads that could run and do not, by queue
    idle: NDArray[np.int8]  # (cpus + 1,) 1: certainly idle
    waiting: I64  # (kinds,) number of those whose CPU is not certainly idle
    may_idle: I64  # (kinds,) number of CPUs that these threads may use and that may be idle
    has: NDArray[np.uint8]  # (kinds, cpus) 1: these threads may use the CPU
    group: I32  # (kinds,) 0: no known group limits them
    placed: int  # 1: the trace tells on which queue each thread is
    wakes_at_fork: (
        int  # 1: nothing tells when a new thread is woken, which is right after its birth
    )
    all_seen: int  # 1: no CPU is unknown at first and no loss is known, so that a wakeup is late rather than missing
    curr: I32  # (cpus,) what each CPU runs; 0 idle, -1 unknown
    # (3,) number of CPUs that may be idle; for how long there was one since the start, until this number last changed; and when
    # that was
    some_idle: I64
    busy_ns: I64  # (cpus,) when each CPU stopped to be idle; it is not earlier if that is not known
    lost_ns: I64  # times of losses that can explain a missing wakeup, in order
    # (cpus,) 1: idle at some time since the last loss, so that nobody waits there unseen
    was_idle: NDArray[np.uint8]
    since_ns: I64  # (1,) since when threads may wait unseen: events were lost, or a runnable one has no event; -1: none do
    dark: NDArray[np.uint8]  # (cpus,) 1: nothing tells what the CPU did, or whether it was recorded
    ghosts: I32  # (2,) number of threads that may wait unseen on dark CPUs; and 1 + the only dark CPU, or 0 if there are several


class Changes(NamedTuple):
    """Rows that one call writes: runqueues, of which the last one stands for all waiting threads, and spans in doubt."""

    ts_ns: I64
    cpu: I32
    nr: I32
    waiting: I32  # threads that wait, whether or not they may use a CPU that may be idle
    ghosts: I32  # threads that may wait unseen, and could use a CPU that may be idle
    span: I64  # (room, 2)
    n: I64  # (2,) valid rows and spans


@jit
def _row(out: Changes, t: int, c: int, nr: int, waiting: int, ghosts: int) -> None:
    k = out.n[0]
    out.ts_ns[k], out.cpu[k], out.nr[k], out.waiting[k], out.ghosts[k] = t, c, nr, waiting, ghosts
    out.n[0] = k + 1


@jit
def useful(p: Pool) -> int:
    """Return how many threads wait that may use a CPU that may be idle."""
    n = 0
    for k in range(p.waiting.size):
        if p.may_idle[k] > 0:
            n += p.waiting[k]
            for c in range(p.dark.size):
                if p.dark[c] != 0 and p.nr[c] == 0 and p.may_idle[k] == p.has[k, c]:
                    n -= p.queued[c, k]
    return n


@jit
def haunting(p: Pool) -> int:
    """Return how many threads may wait unseen while a CPU may be idle. While the only dark CPU has them it is busy."""
    only, idle, others = p.ghosts[1] - 1, 0, 0
    for c in range(p.nr.size):
        if p.nr[c] == 0:
            idle += 1
            others += 1 if c != only else 0
    if p.since_ns[0] >= 0 and idle > 0:
        return p.nr.size
    return p.ghosts[0] if others > 0 else 0


@jit
def _pool_row(p: Pool, out: Changes, t: int) -> None:
    unseen = haunting(p)
    _row(out, t, p.nr.size, useful(p) + unseen + 1, p.waiting.sum(), unseen)


@jit
def throttled(p: Pool, c: int, group: int) -> bool:
    """Whether CPU ``c`` is idle beside threads of a group."""
    n = 0
    if group != 0 and p.idle[c] != 0:
        for k in range(p.waiting.size):
            if p.group[k] == group:
                n += p.queued[c, k]
    return n > 0


@jit
def _offer(p: Pool, c: int, group: int, by: int) -> None:
    """Note that the threads of a group may use CPU ``c`` from now on (1) or no longer (-1); ``group`` -1: all threads."""
    for k in range(p.may_idle.size):
        if p.has[k, c] != 0 and (group < 0 or p.group[k] == group):
            p.may_idle[k] += by


@jit
def _count(p: Pool, out: Changes, t: int, q: int, by: int) -> None:
    c, k = p.cpu[q], p.kind[q]
    before = throttled(p, c, p.group[k])
    p.queued[c, k] += by
    after = throttled(p, c, p.group[k])
    if before != after:
        _offer(p, c, p.group[k], 1 if before else -1)
    if p.idle[c] == 0:
        p.waiting[k] += by
    if p.idle[c] == 0 or before != after:
        _pool_row(p, out, t)


@jit
def some_idle_ns(p: Pool, t: int) -> int:
    """Return for how long, since the start and until ``t``, some CPU may have been idle: nobody can run while all are busy."""
    return p.some_idle[1] + (t - p.some_idle[2] if p.some_idle[0] > 0 else 0)


@jit
def _blocked(p: Pool, c: int, by: int) -> None:
    """Note that the groups of the threads on CPU ``c``'s queue are throttled there (-1), or no longer (1)."""
    for k in range(p.group.size):
        if p.queued[c, k] > 0 and throttled(p, c, p.group[k]):
            first = True  # of its group
            for other in range(k):
                first &= p.group[other] != p.group[k] or p.queued[c, other] == 0
            if first:
                _offer(p, c, p.group[k], by)


@jit
def _set(p: Pool, out: Changes, t: int, c: int, nr: int, idle: int) -> None:
    """CPU ``c`` may be idle (0), is busy (1) or offline (-1); ``idle`` 1: it is idle for certain."""
    some = False
    if p.idle[c] != idle:
        for k in range(p.waiting.size):
            if p.queued[c, k] != 0:
                p.waiting[k] += (p.idle[c] - idle) * p.queued[c, k]
                some = True
    if some:
        _blocked(p, c, 1)
    change = (1 if nr == 0 else 0) - (1 if p.nr[c] == 0 else 0)
    p.some_idle[1], p.some_idle[2] = some_idle_ns(p, t), t
    p.some_idle[0] += change
    p.nr[c], p.idle[c] = nr, idle
    if change != 0:
        _offer(p, c, -1, change)
    if some:
        _blocked(p, c, -1)
    _row(out, t, c, nr, 0, 0)
    waits = p.ghosts[0] > 0 or p.since_ns[0] >= 0
    for k in range(p.waiting.size):
        waits |= p.waiting[k] > 0
    if some or (change != 0 and waits):
        # the set of CPUs that may be idle has changed, so the waiting threads are counted anew
        _pool_row(p, out, t)


@jit
def _move(p: Pool, out: Changes, t: int, q: int, c: int) -> None:
    """Thread ``q`` is on the queue of CPU ``c``."""
    if p.cpu[q] == c or p.placed == 0:
        return
    if p.task[q, STATE] == task_row.WAITING:
        _count(p, out, t, q, -1)
        p.cpu[q] = c
        _count(p, out, t, q, 1)
    else:
        p.cpu[q] = c


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
    p.task_ns[q, SINCE], p.task_ns[q, MOVED] = t, -1
    p.task_ns[q, IDLE] = some_idle_ns(p, t)


@jit
def _unseen(out: Changes, start_ns: int, end_ns: int) -> None:
    k = out.n[1]
    out.span[k, 0], out.span[k, 1] = start_ns, end_ns
    out.n[1] = k + 1


@jit
def _lose(p: Pool, out: Changes, t: int, c: int) -> None:
    """Events of CPU ``c`` are lost: any thread may have been woken, put on another queue, or stopped."""
    nowhere = p.nr.size
    for d in range(nowhere):
        if p.idle[d] != 0:
            _blocked(p, d, 1)
    for k in range(p.waiting.size):
        p.waiting[k] = 0
        for d in range(nowhere):
            p.queued[nowhere, k] += p.queued[d, k]
            p.queued[d, k] = 0
        p.waiting[k] = p.queued[nowhere, k]
    p.cpu[:] = nowhere
    p.was_idle[:] = 0
    if p.since_ns[0] < 0:
        p.since_ns[0] = t
    q = p.curr[c]
    p.curr[c] = -1
    _set(p, out, t, c, 0, 0)
    if q > 0 and p.task[q, STATE] == task_row.RUNNING:
        _wait(p, out, t, q)
    _pool_row(p, out, t)


@jit
def _went_idle(p: Pool, out: Changes, t: int, c: int) -> None:
    """Note that CPU ``c`` was idle; once every online CPU has been, no thread waits unseen any longer."""
    if p.since_ns[0] < 0:
        return
    p.was_idle[c] = 1
    for d in range(p.was_idle.size):
        if p.was_idle[d] == 0 and p.nr[d] >= 0:
            return
    p.since_ns[0] = -1
    _pool_row(p, out, t)


@jit
def _settle(p: Pool, out: Changes, q: int) -> None:
    """Note that the wakeup of thread ``q`` is missing: it may have waited since it went to sleep."""
    if p.task[q, LATE] != 0:
        p.task[q, LATE] = 0
        since_ns = p.task_ns[q, FROM]
        k = np.searchsorted(p.lost_ns, since_ns)
        if k < p.lost_ns.size and p.lost_ns[k] < p.task_ns[q, BEGAN]:
            since_ns = p.lost_ns[k]
        _unseen(out, since_ns, p.task_ns[q, BEGAN])


@jit
def _unseen_from(p: Pool, t: int, c: int) -> int:
    """Return from when on a thread on the queue of CPU ``c`` may have waited unseen until ``t``: not while the CPU was idle."""
    return t if p.curr[c] == 0 else p.busy_ns[c]


@jit
def recorder_since(p: Pool, t: int, c: int, q: int) -> int:
    """Return since when thread ``q``, which is on CPU ``c``'s queue at ``t``, may have waited, if its wakeup is missing."""
    if some_idle_ns(p, t) <= p.task_ns[q, IDLE]:
        return t
    if p.placed == 0 or c == p.nr.size:
        return p.task_ns[q, SINCE]
    moved_ns = p.task_ns[q, MOVED]
    return max(p.task_ns[q, SINCE], moved_ns if moved_ns >= 0 else _unseen_from(p, t, c))


@jit
def _begin(p: Pool, out: Changes, t: int, c: int, q: int, recorder: bool) -> None:
    """Thread ``q`` begins to run on CPU ``c``. If all CPUs were busy since it slept, it does not matter whether it waited.

    A ``recorder`` wakes up without an event (perf is woken by an interrupt of its own events), but its later moves are told.
    """
    matters = some_idle_ns(p, t) > p.task_ns[q, IDLE]
    if p.task[q, STATE] == task_row.WAITING:
        _count(p, out, t, q, -1)
    elif p.task[q, LATE] == PERHAPS:
        _settle(p, out, q)  # if it waits since that wakeup, the one before is missing
        if matters:
            _unseen(out, p.task_ns[q, SINCE], t)
    elif p.task[q, STATE] != task_row.RUNNING and matters:
        _settle(p, out, q)
        p.task[q, LATE] = UNWOKEN
        from_ns = recorder_since(p, t, c, q) if recorder else p.task_ns[q, SINCE]
        p.task_ns[q, FROM], p.task_ns[q, BEGAN] = from_ns, t
        k = np.searchsorted(p.lost_ns, p.task_ns[q, SINCE])
        lost = k < p.lost_ns.size
        if p.task[q, STATE] == task_row.UNKNOWN and lost and p.lost_ns[k] < t:
            _unseen(out, p.task_ns[q, SINCE], t)  # it may have waited before the loss, too
            p.task[q, LATE] = 0
        elif p.since_ns[0] >= 0 and lost and p.lost_ns[k] + 1 >= p.since_ns[0]:
            p.task_ns[q, FROM] = t  # it is one of those that may wait unseen
    p.task[q, STATE] = task_row.RUNNING
    p.task[q, WOKEN] = 0


@jit
def _stop(p: Pool, out: Changes, t: int, q: int, keeps: bool, idle: bool) -> None:
    """Thread ``q`` stops; where the queues are not known, a CPU that goes idle beside it shows that it is throttled."""
    if p.all_seen == 0:
        _settle(p, out, q)
    if (keeps and (not idle or p.placed != 0)) or (p.task[q, WOKEN] != 0 and not keeps):
        _wait(p, out, t, q)
    else:
        _sleep(p, out, t, q)
        if t - p.task_ns[q, EARLY] <= SKEW_NS:  # it may have been woken right after
            _settle(p, out, q)
            p.task[q, LATE] = PERHAPS
            p.task_ns[q, FROM], p.task_ns[q, BEGAN] = t, t
    p.task[q, WOKEN] = 0


@jit
def _left(p: Pool, out: Changes, t: int, q: int, c: int) -> None:
    """Thread ``q`` begins to run on CPU ``c`` although it seemed to run on another one, which may be idle since."""
    for d in range(p.curr.size):
        if d != c and p.curr[d] == q:
            p.curr[d] = -1
            _set(p, out, t, d, 0, 0)


@jit
def pool(e: Events, wakings: bool, recorder: NDArray[np.bool_], p: Pool, out: Changes) -> None:
    """Apply events; ``out`` has room for ten rows and two spans per event."""
    out.n[:] = 0
    for i in range(e.code.size):
        k, t, c, q = e.code[i], e.ts_ns[i], e.cpu[i], e.pid[i]
        if k == SWITCH:
            x = e.prev_pid[i]
            if x > 0:
                if p.task[x, STATE] != task_row.RUNNING or t - p.task_ns[x, AT] > SKEW_NS:
                    _move(p, out, t, x, c)
                _stop(p, out, t, x, e.aux[i] == STAYS, q == 0)
            if q > 0:
                if p.task[q, STATE] == task_row.RUNNING:
                    _left(p, out, t, q, c)
                _begin(p, out, t, c, q, recorder[q])
            _set(p, out, t, c, 1 if q > 0 else 0, 1 if q == 0 else 0)
            if p.curr[c] == 0:
                p.busy_ns[c] = t
            p.curr[c] = q
            if q == 0:
                _went_idle(p, out, t, c)
        elif k == HOTPLUG:
            _set(p, out, t, c, 0 if e.aux[i] != 0 else -1, 0)
        elif k == FORGET:
            _lose(p, out, t, c)
        elif q <= 0:
            continue
        elif k == MIGRATE:
            if p.task[q, STATE] != task_row.WAITING and p.task[q, STATE] != task_row.RUNNING:
                p.was_idle[c] = 0  # it may have waited unseen, and now it may do so here
                if p.task_ns[q, MOVED] < 0:
                    src = e.src_cpu[i]
                    p.task_ns[q, MOVED] = (
                        p.task_ns[q, SINCE] if src < 0 else _unseen_from(p, t, src)
                    )
            p.task_ns[q, AT] = t
            _move(p, out, t, q, c)
        elif k == WAKEUP or k == WAKEUP_NEW or k == UNTHROTTLE:
            if k != UNTHROTTLE and p.cpu[q] != c and t - p.task_ns[q, AT] <= SKEW_NS:
                _move(p, out, t, q, p.nr.size)  # it may have been moved after this wakeup
            elif k != UNTHROTTLE:
                _move(p, out, t, q, c)
            late = p.task[q, LATE] == UNWOKEN and t - p.task_ns[q, BEGAN] <= SKEW_NS
            if late and p.task[q, STATE] == task_row.RUNNING:
                p.task[q, LATE] = 0
            elif late and p.task[q, STATE] != task_row.WAITING:
                p.task[q, LATE] = PERHAPS
            elif p.task[q, STATE] != task_row.RUNNING:
                if p.task[q, LATE] == PERHAPS:  # it has slept since
                    p.task[q, LATE] = 0
                _wait(p, out, t, q)
            elif wakings:
                p.task[q, WOKEN] = 1
            else:
                p.task_ns[q, EARLY] = t
        elif k == THROTTLE:
            if p.task[q, STATE] == task_row.WAITING:
                _sleep(p, out, t, q)
        elif k == FORK:
            if p.task[q, STATE] == task_row.RUNNING or p.task[q, STATE] == task_row.WAITING:
                continue
            _sleep(p, out, t, q)
            if p.wakes_at_fork != 0:
                _move(p, out, t, q, p.nr.size)
                _wait(p, out, t, q)
        elif k == SNAPSHOT and p.task[q, STATE] == task_row.UNKNOWN:
            if e.aux[i] == task_row.WAITING:
                _wait(p, out, t, q)
            elif e.aux[i] == task_row.ASLEEP:
                _sleep(p, out, t, q)
