"""Threads that could run and do not, whatever runqueue they are on, and CPUs that may be idle.

This needs only the switches and one event per wakeup. Which queue a thread is on does not matter, so events that contradict the
rebuilt runqueues do not matter here either.

Where the trace tells each placement and move, a thread on the queue of an idle CPU does not count: either it is about to run
there, or its control group is throttled there. Then other threads of the group cannot run on that CPU either
(kernel/sched/fair.c, v6.12: throttle_cfs_rq() takes the group's cfs_rq of one CPU from its runqueue). On a CPU that was not
recorded, a thread waits only while that CPU is busy.

After a loss any sleeping thread may have been woken unseen. It can only wait on a CPU that has not been idle since the loss,
because a CPU goes idle only when no waiting thread is left on its queue. So until every CPU has been idle once, waste is possible
whenever some CPU may be idle, and never while all CPUs are busy. A thread that begins to run without a wakeup was one of the
threads that were woken unseen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import callee, rare
from wastedcores.runqueues import task_row

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

# columns of Pool.task; STATE has the values of task_row
STATE, WOKEN, LATE = 0, 1, 2
# columns of Pool.task_ns
(
    SINCE,  # since when it sleeps
    FROM,  # from when on it may have waited
    BEGAN,  # when it began to run without a wakeup
    MOVED,  # since when it may have waited on the CPU that it left at its first move since it fell asleep; -1: no move
    EARLY,  # when it was last woken while it ran; as clocks differ, this may have been after it stopped
    AT,  # when it was last moved; as clocks differ, this may have been after it stopped or was woken
    IDLE,  # for how long, before it fell asleep, some CPU may have been idle
) = range(7)
# values of LATE. UNWOKEN: the wakeup to its last run is missing or comes late. PERHAPS: a wakeup came when it slept again; either
# this is the late wakeup, or the thread waits now.
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
    waiting: I64  # (kinds,) number of the queued threads whose CPU is not certainly idle
    may_idle: I64  # (kinds,) number of CPUs that threads of the kind may use and that may be idle
    has: NDArray[np.uint8]  # (kinds, cpus) 1: threads of the kind may use the CPU
    group: I32  # (kinds,) the group that limits the threads; 0: none is known
    placed: int  # 1: the trace tells on which queue each thread is
    wakes_at_fork: (
        int  # 1: nothing tells when a new thread is woken, which is right after its birth
    )
    all_seen: int  # 1: no CPU is unknown at first and no loss is known, so that a wakeup is late rather than missing
    curr: I32  # (cpus,) what each CPU runs; 0 idle, -1 unknown
    # (3,) number of CPUs that may be idle; for how long, from the start to the last change of this number, it was above 0; and
    # the time of this change
    some_idle: I64
    busy_ns: I64  # (cpus,) when each CPU ceased to be idle; if that is not known, an earlier time
    lost_ns: I64  # times of losses that can explain a missing wakeup, in order
    # (cpus,) 1: idle at some time since the last loss, so that nobody waits there unseen
    was_idle: NDArray[np.uint8]
    since_ns: I64  # (1,) since when threads may wait unseen: events were lost, or a runnable thread has no event; -1: none
    dark: NDArray[np.uint8]  # (cpus,) 1: nothing tells what the CPU did, or whether it was recorded
    ghosts: I32  # (2,) number of threads that may wait unseen on dark CPUs; and 1 + the only dark CPU, or 0 if there are several


class Changes(NamedTuple):
    """Rows that one call writes: runqueues (the last runqueue stands for all waiting threads), and spans in doubt."""

    ts_ns: I64
    cpu: I32
    nr: I32
    waiting: I32  # threads that wait, whether or not they may use a CPU that may be idle
    ghosts: I32  # threads that may wait unseen, and could use a CPU that may be idle
    span: I64  # (room, 2)
    n: I64  # (2,) valid rows and spans


@callee
def _row(out: Changes, t: int, c: int, nr: int, waiting: int, ghosts: int) -> None:
    k = out.n[0]
    out.ts_ns[k], out.cpu[k], out.nr[k], out.waiting[k], out.ghosts[k] = t, c, nr, waiting, ghosts
    out.n[0] = k + 1


@callee
def useful(p: Pool) -> int:
    """Return how many of the waiting threads may use a CPU that may be idle."""
    n = 0
    for k in range(p.waiting.size):
        if p.may_idle[k] > 0:
            n += p.waiting[k]
            for c in range(p.dark.size if p.ghosts[0] > 0 else 0):
                if p.dark[c] != 0 and p.nr[c] == 0 and p.may_idle[k] == p.has[k, c]:
                    n -= p.queued[c, k]
    return n


@callee
def haunting(p: Pool) -> int:
    """Return how many threads may wait unseen while a CPU may be idle. If all are on the only dark CPU, that CPU is busy."""
    only, idle, others = p.ghosts[1] - 1, 0, 0
    for c in range(p.nr.size):
        if p.nr[c] == 0:
            idle += 1
            others += 1 if c != only else 0
    if p.since_ns[0] >= 0 and idle > 0:
        return p.nr.size
    return p.ghosts[0] if others > 0 else 0


@callee
def pool_row(p: Pool, out: Changes, t: int) -> None:
    """Write how many of the threads that wait now could use a CPU that may be idle."""
    unseen = haunting(p)
    _row(out, t, p.nr.size, useful(p) + unseen + 1, p.waiting.sum(), unseen)


@callee
def throttled(p: Pool, c: int, group: int) -> bool:
    """Whether CPU ``c`` is idle although threads of a group are on its queue."""
    n = 0
    if group != 0 and p.idle[c] != 0:
        for k in range(p.waiting.size):
            if p.group[k] == group:
                n += p.queued[c, k]
    return n > 0


@callee
def _offer(p: Pool, c: int, group: int, by: int) -> None:
    """Note that the threads of a group may use CPU ``c`` from now on (1) or no longer (-1); ``group`` -1: all threads."""
    for k in range(p.may_idle.size):
        if p.has[k, c] != 0 and (group < 0 or p.group[k] == group):
            p.may_idle[k] += by


@rare
def count(p: Pool, out: Changes, t: int, q: int, by: int) -> None:
    """Thread ``q`` begins to wait on its queue (1), or ceases to (-1)."""
    c, k = p.cpu[q], p.kind[q]
    before = throttled(p, c, p.group[k])
    p.queued[c, k] += by
    after = throttled(p, c, p.group[k])
    if before != after:
        _offer(p, c, p.group[k], 1 if before else -1)
    if p.idle[c] == 0:
        p.waiting[k] += by
    if p.idle[c] == 0 or before != after:
        pool_row(p, out, t)


@callee
def some_idle_ns(p: Pool, t: int) -> int:
    """Return for how long, since the start and until ``t``, some CPU may have been idle: nobody can run while all are busy."""
    return p.some_idle[1] + (t - p.some_idle[2] if p.some_idle[0] > 0 else 0)


@rare
def blocked(p: Pool, c: int, by: int) -> None:
    """Note that the groups of the threads on CPU ``c``'s queue are throttled there (-1), or no longer (1)."""
    for k in range(p.group.size):
        if p.queued[c, k] > 0 and throttled(p, c, p.group[k]):
            first = True  # kind of its group
            for other in range(k):
                first &= p.group[other] != p.group[k] or p.queued[c, other] == 0
            if first:
                _offer(p, c, p.group[k], by)


@rare
def set_cpu(p: Pool, out: Changes, t: int, c: int, nr: int, idle: int) -> None:
    """CPU ``c`` may be idle (0), is busy (1) or offline (-1); ``idle`` 1: it is idle for certain."""
    some = False
    if p.idle[c] != idle:
        for k in range(p.waiting.size):
            if p.queued[c, k] != 0:
                p.waiting[k] += (p.idle[c] - idle) * p.queued[c, k]
                some = True
    if some:
        blocked(p, c, 1)
    change = (1 if nr == 0 else 0) - (1 if p.nr[c] == 0 else 0)
    p.some_idle[1], p.some_idle[2] = some_idle_ns(p, t), t
    p.some_idle[0] += change
    p.nr[c], p.idle[c] = nr, idle
    if change != 0:
        _offer(p, c, -1, change)
    if some:
        blocked(p, c, -1)
    _row(out, t, c, nr, 0, 0)
    waits = p.ghosts[0] > 0 or p.since_ns[0] >= 0
    for k in range(p.waiting.size):
        waits |= p.waiting[k] > 0
    if some or (change != 0 and waits):
        # the set of CPUs that may be idle has changed, so the waiting threads are counted anew
        pool_row(p, out, t)


@rare
def move(p: Pool, out: Changes, t: int, q: int, c: int) -> None:
    """Thread ``q`` is on the queue of CPU ``c``."""
    if p.cpu[q] == c or p.placed == 0:
        return
    if p.task[q, STATE] == task_row.WAITING:
        count(p, out, t, q, -1)
        p.cpu[q] = c
        count(p, out, t, q, 1)
    else:
        p.cpu[q] = c


@callee
def wait(p: Pool, out: Changes, t: int, q: int) -> None:
    """Thread ``q`` waits."""
    if p.task[q, STATE] != task_row.WAITING:
        p.task[q, STATE] = task_row.WAITING
        count(p, out, t, q, 1)


@callee
def sleep(p: Pool, out: Changes, t: int, q: int) -> None:
    """Thread ``q`` sleeps."""
    if p.task[q, STATE] == task_row.WAITING:
        count(p, out, t, q, -1)
    p.task[q, STATE] = task_row.ASLEEP
    p.task_ns[q, SINCE], p.task_ns[q, MOVED] = t, -1
    p.task_ns[q, IDLE] = some_idle_ns(p, t)
