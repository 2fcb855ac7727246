"""Runqueues rebuilt from task events: one small state machine per task, one pass, memory by tasks and not by events.

A task is running, waiting on a runqueue, or asleep. It joins a runqueue at its wakeup (on the wakeup's target CPU),
changes runqueues at sched_migrate_task (sched_waking names the *previous* CPU and is not used), and leaves it at the
switch that stops it in any state but R. Cf. josefbacik/systing "placement_exact" and docs/scheduler-model.md, section 11.6.

Two things bound what may be concluded from the rebuilt state. Where the trace has the kernel's own nr_running, that number
is the length of the runqueue, and the rebuilt tasks only say who waits. And where an event contradicts the state before
it, the span that may be wrong is written down as a *doubt*: from the last event that confirmed the state to the
contradiction.

A CPU that goes idle while tasks of its runqueue are runnable proves that these cannot run: their control group is
throttled, or core scheduling forbids it. They are *parked*: they do not wait until they are seen again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import inner, jit

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
I8 = NDArray[np.int8]

# codes of events, made from the trace's kinds at the Python door
(
    SWITCH,
    WAKEUP,
    WAKEUP_NEW,
    MIGRATE,
    FORK,
    EXIT,
    AFFINITY,
    STATE,
    FORGET,
    CONTEXT,
    COUNT,
    HOTPLUG,
) = range(12)

# task states
T_UNKNOWN, T_ASLEEP, T_WAITING, T_RUNNING = 0, 1, 2, 3

# reasons of doubts, which are also the oddities counted
ODD_WAKEUP_OF_QUEUED, ODD_IN_WITHOUT_WAKEUP, ODD_OUT_WITHOUT_IN, ODD_MIGRATE_ELSEWHERE = 0, 1, 2, 3
ODD_LEFT_UNSEEN, ODD_PARKED, ODD_STARVED, ODD_COUNT, PRESUMED = 4, 5, 6, 7, 8
N_ODD = 9

CUR_UNKNOWN = -1  # nobody knows what the CPU runs
CUR_FROM_SWITCH = -2  # in pass 1: the CPU's first switch does not say what it stops (prev_pid -1)
FREE = 0  # mask id of a task that may run anywhere
#: mask id of a task that is named like a kernel thread of one CPU; nothing else says so
PRESUMED_BOUND = -1

SEVERAL = -2  # a task that ran on more than one CPU

#: a difference between nr_running and the rebuilt tasks that lasts this long is no matter of the order of events
COUNT_SETTLES_NS = 10_000_000
#: a task that waits this long may be throttled: the default period of CPU quotas (kernel/sched/core.c, v6.12)
STARVED_NS = 100_000_000
#: and longer than this per task of the runqueue: slices of CFS are at most 24 ms (kernel/sched/fair.c, v4.1)
STARVED_PER_TASK_NS = 25_000_000
#: shorter waits of tasks that are bound by name only are nothing to doubt about
PRESUMED_NS = 1_000_000


class TaskState(NamedTuple):
    """Carried from batch to batch. (pids,) or (cpus,) as said."""

    state: I8  # (pids,) T_*
    cpu: I32  # (pids,) where it is queued or was last, -1 unknown
    since: I64  # (pids,) ns, start of the current wait or sleep; 0 unknown
    epoch: I32  # (pids,) the runqueue's epoch when the current wait began
    mask: I32  # (pids,) mask id: FREE, PRESUMED_BOUND or an index of the distinct masks
    known: I8  # (pids,) 1: the mask is known, not assumed
    ran: I32  # (pids,) the CPU it ran on, -1 none, SEVERAL
    cur: I32  # (cpus,) running pid, 0 idle, CUR_UNKNOWN
    nr: I32  # (cpus,) tasks on the runqueue, the running one included, parked ones not
    free: I32  # (cpus,) waiting tasks that may run anywhere
    restricted: I32  # (cpus, masks) waiting tasks by mask id
    waiting: I32  # (cpus,) waiting tasks
    first_wait: I64  # (cpus,) ns, since when at least one task waits
    rq_epoch: I32  # (cpus,) waits of earlier epochs are parked
    seen: I64  # (cpus,) ns, the last event that showed what the CPU runs
    busy_since: I64  # (cpus,) ns, when the CPU last ceased to be idle
    kernel_nr: I32  # (cpus,) the kernel's nr_running, -1 unknown
    differs: I64  # (cpus,) ns, since when it differs from nr; -1: it does not
    offline: I8  # (cpus,) 1 while the CPU is offline
    switches: I64  # (cpus,)
    odd: I64  # (N_ODD,)
    parks: I8  # (1,) 1: moves are told when they happen, so a CPU that goes idle proves something about who waits there
    starved_ns: I64  # (1,) a task that waits this long may be throttled; 0: none is
    lossy: I8  # (1,) 1 once pass 1 met a loss: what is first seen later says nothing of the start


class Changes(NamedTuple):
    """Rows written by :func:`run`: the runqueue of ``cpu`` after an event.

    A row with ``mask`` > 0 says instead that ``free`` tasks of that mask id now wait on ``cpu``.
    """

    ts_ns: I64
    cpu: I32
    nr: I32  # -1: unknown
    free: I32
    mask: I32
    code: I8  # the event behind it


class Waits(NamedTuple):
    """Finished waits: task ``pid`` waited on the runqueue of ``cpu``."""

    pid: I32
    cpu: I32
    start_ns: I64
    end_ns: I64


class Doubts(NamedTuple):
    """Spans in which the state of ``cpu`` may be wrong; ``n[0]`` of them are valid. CPU -1 stands for all."""

    cpu: I32
    start_ns: I64
    end_ns: I64
    reason: I8
    n: I64  # (1,)


def new_state(pids: int, cpus: int, masks: int) -> TaskState:
    """Nothing known yet. ``masks`` counts the distinct affinity masks, FREE included."""
    return TaskState(
        state=np.zeros(pids, np.int8),
        cpu=np.full(pids, -1, np.int32),
        since=np.zeros(pids, np.int64),
        epoch=np.zeros(pids, np.int32),
        mask=np.zeros(pids, np.int32),
        known=np.zeros(pids, np.int8),
        ran=np.full(pids, -1, np.int32),
        cur=np.full(cpus, CUR_UNKNOWN, np.int32),
        nr=np.zeros(cpus, np.int32),
        free=np.zeros(cpus, np.int32),
        restricted=np.zeros((cpus, masks), np.int32),
        waiting=np.zeros(cpus, np.int32),
        first_wait=np.zeros(cpus, np.int64),
        rq_epoch=np.zeros(cpus, np.int32),
        seen=np.zeros(cpus, np.int64),
        busy_since=np.zeros(cpus, np.int64),
        kernel_nr=np.full(cpus, -1, np.int32),
        differs=np.full(cpus, -1, np.int64),
        offline=np.zeros(cpus, np.int8),
        switches=np.zeros(cpus, np.int64),
        odd=np.zeros(N_ODD, np.int64),
        parks=np.ones(1, np.int8),
        starved_ns=np.zeros(1, np.int64),
        lossy=np.zeros(1, np.int8),
    )


def new_doubts(room: int) -> Doubts:
    """Room for ``room`` doubts of one call."""
    return Doubts(
        np.zeros(room, np.int32),
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
        np.zeros(room, np.int8),
        np.zeros(1, np.int64),
    )


@jit
def infer_start(
    code: I8,
    cpu: I32,
    src_cpu: I32,
    pid: I32,
    prev_pid: I32,
    by_pid: I32,
    s: TaskState,
    moved_from: I32,
) -> None:
    """Pass 1: what must have been true before the first event of each CPU and each task.

    A CPU runs what its first switch stops (pid -1: not known), or the task in whose context its first event happened.
    A task that is switched in without a wakeup before had been waiting; one that is stopped had been running; one that
    is woken or forked had not been on a runqueue. ``moved_from`` (pids,) remembers the origin of a migration seen
    before that.
    """
    for i in range(code.size):
        k = code[i]
        where = src_cpu[i]
        if k == FORGET:
            s.lossy[0] = 1
            continue
        if s.lossy[0] != 0:
            for p in (pid[i], prev_pid[i], by_pid[i]):
                if p > 0 and s.state[p] == T_UNKNOWN and moved_from[p] < 0:
                    s.state[p] = T_ASLEEP
        if k == SWITCH:
            p, q, c = pid[i], prev_pid[i], cpu[i]
            if s.cur[c] == CUR_UNKNOWN and s.lossy[0] == 0:
                s.cur[c] = q if q >= 0 else CUR_FROM_SWITCH
            if q > 0 and s.state[q] == T_UNKNOWN:
                s.state[q] = T_RUNNING
                s.cpu[q] = c
            if p > 0 and s.state[p] == T_UNKNOWN:
                s.state[p] = T_WAITING
                s.cpu[p] = moved_from[p] if moved_from[p] >= 0 else c
            continue
        if k == MIGRATE:
            if pid[i] > 0 and s.state[pid[i]] == T_UNKNOWN and moved_from[pid[i]] < 0:
                moved_from[pid[i]] = where
            continue
        if (k == WAKEUP or k == WAKEUP_NEW or k == FORK) and pid[i] > 0:
            if s.state[pid[i]] == T_UNKNOWN:
                s.state[pid[i]] = T_ASLEEP
                s.cpu[pid[i]] = cpu[i]
        # the task in whose context it happened was running there
        if by_pid[i] >= 0:
            if k == FORK or k == EXIT or k == CONTEXT:
                where = cpu[i]
            if where >= 0 and s.cur[where] == CUR_UNKNOWN and s.lossy[0] == 0:
                s.cur[where] = by_pid[i]
                if by_pid[i] > 0 and s.state[by_pid[i]] == T_UNKNOWN:
                    s.state[by_pid[i]] = T_RUNNING
                    s.cpu[by_pid[i]] = where


@inner
def _doubt(d: Doubts, c: int, start_ns: int, end_ns: int, reason: int) -> None:
    """Write a doubt down; when there is no room, the last one grows and stands for all CPUs."""
    if end_ns <= start_ns:
        return
    k = d.n[0]
    if k == d.cpu.size:
        d.cpu[k - 1] = -1
        d.start_ns[k - 1] = min(d.start_ns[k - 1], start_ns)
        d.end_ns[k - 1] = max(d.end_ns[k - 1], end_ns)
        return
    d.cpu[k] = c
    d.start_ns[k] = start_ns
    d.end_ns[k] = end_ns
    d.reason[k] = reason
    d.n[0] = k + 1


@inner
def _odd(s: TaskState, d: Doubts, c: int, start_ns: int, end_ns: int, reason: int) -> None:
    """A contradiction about CPU ``c``. Where the kernel counts, only a difference from its count matters."""
    s.odd[reason] += 1
    if s.kernel_nr[c] < 0 and start_ns > 0:
        _doubt(d, c, start_ns, end_ns, reason)


@inner
def _starved(s: TaskState, waited_ns: int, c: int) -> bool:
    """Whether so long a wait on CPU ``c`` makes it possible that the task was throttled."""
    limit = s.starved_ns[0]
    return limit > 0 and waited_ns >= max(limit, STARVED_PER_TASK_NS * s.nr[c])


@inner
def _since(s: TaskState, p: int, c: int) -> int:
    """The earliest time since when ``p`` can have waited on ``c`` unseen: as long as a CPU is idle, nobody waits there."""
    return max(s.since[p], s.busy_since[c]) if s.since[p] > 0 else 0


@inner
def _count(s: TaskState, p: int, by: int) -> None:
    """A wait of task ``p`` begins (+1) or ends (-1) on its CPU."""
    m = s.mask[p]
    if m == FREE:
        s.free[s.cpu[p]] += by
    elif m > 0:
        s.restricted[s.cpu[p], m] += by


@inner
def _begin_wait(s: TaskState, p: int, c: int, t: int) -> None:
    """Task ``p`` joins the runqueue of ``c`` and waits; a task that had been running there leaves before."""
    s.state[p] = T_WAITING
    s.cpu[p] = c
    s.since[p] = t
    s.epoch[p] = s.rq_epoch[c]
    s.nr[c] += 1
    s.waiting[c] += 1
    if s.waiting[c] == 1:
        s.first_wait[c] = t
    _count(s, p, 1)


@inner
def _parked(s: TaskState, p: int) -> bool:
    """Whether the waiting task ``p`` cannot run."""
    return s.epoch[p] != s.rq_epoch[s.cpu[p]]


@inner
def _end_wait(s: TaskState, p: int, c: int, t: int, waits: Waits, n: int) -> int:
    """Task ``p`` leaves the runqueue on which it waited, for CPU ``c``.

    A parked task did not wait. But one that turns up on another CPU had been moved unseen, and waited.
    """
    old = s.cpu[p]
    if _parked(s, p):
        if old == c:
            return n
    else:
        _count(s, p, -1)
        s.nr[old] -= 1
        s.waiting[old] -= 1
    if t > s.since[p] and waits.pid.size > n:
        waits.pid[n] = p
        waits.cpu[n] = old
        waits.start_ns[n] = s.since[p]
        waits.end_ns[n] = t
        n += 1
    return n


@inner
def _emit(s: TaskState, out: Changes, n: int, t: int, c: int, m: int, k: int) -> int:
    """Write the state of CPU ``c``, and that of mask ``m`` on it where ``m`` > 0."""
    if m > 0:
        out.ts_ns[n] = t
        out.cpu[n] = c
        out.nr[n] = 0
        out.free[n] = s.restricted[c, m]
        out.mask[n] = m
        out.code[n] = k
        n += 1
    out.ts_ns[n] = t
    out.cpu[n] = c
    if s.offline[c] != 0:
        out.nr[n] = -1
    elif s.kernel_nr[c] >= 0:
        out.nr[n] = s.kernel_nr[c]
    else:
        out.nr[n] = s.nr[c] if s.cur[c] != CUR_UNKNOWN else -1
    out.free[n] = s.free[c]
    out.mask[n] = FREE
    out.code[n] = k
    return n + 1


@inner
def _compare(s: TaskState, d: Doubts, c: int, t: int) -> None:
    """Note since when the kernel's count of CPU ``c`` has been another than that of the rebuilt tasks."""
    if s.kernel_nr[c] < 0 or s.cur[c] == CUR_UNKNOWN:
        return
    if s.kernel_nr[c] == s.nr[c]:
        if s.differs[c] >= 0 and t - s.differs[c] >= COUNT_SETTLES_NS:
            s.odd[ODD_COUNT] += 1
            _doubt(d, c, s.differs[c], t, ODD_COUNT)
        s.differs[c] = -1
    elif s.differs[c] < 0:
        s.differs[c] = t


@inner
def _park(s: TaskState, d: Doubts, out: Changes, n: int, c: int, t: int, k: int) -> int:
    """CPU ``c`` goes idle beside waiting tasks: these cannot run, nor could they since they began to wait."""
    _odd(s, d, c, s.first_wait[c], t, ODD_PARKED)
    for m in range(1, s.restricted.shape[1]):
        if s.restricted[c, m] != 0:
            s.restricted[c, m] = 0
            n = _emit(s, out, n, t, c, m, k)
    s.free[c] = 0
    s.nr[c] -= s.waiting[c]
    s.waiting[c] = 0
    s.rq_epoch[c] += 1
    return n


@inner
def _stop_unseen(s: TaskState, out: Changes, n: int, c: int, t: int, k: int) -> int:
    """The task that seemed to run on ``c`` was seen elsewhere: what ``c`` runs is unknown until its next switch."""
    s.nr[c] -= 1
    s.cur[c] = CUR_UNKNOWN
    return _emit(s, out, n, t, c, 0, k)


@inner
def _switch_out(
    s: TaskState, d: Doubts, out: Changes, n: int, q: int, c: int, t: int, keeps: bool
) -> int:
    """Task ``q`` stops running on CPU ``c``."""
    if s.state[q] == T_RUNNING and s.cpu[q] == c:
        s.nr[c] -= 1
    else:
        # an event is missing: it must have been running here
        old = s.cpu[q]
        if s.state[q] == T_ASLEEP or (s.state[q] == T_UNKNOWN and s.since[q] > 0):
            _odd(s, d, c, _since(s, q, c), t, ODD_OUT_WITHOUT_IN)
        if s.state[q] == T_WAITING and not _parked(s, q):
            _odd(s, d, old, _since(s, q, old), t, ODD_OUT_WITHOUT_IN)
            if old != c:
                _odd(s, d, c, _since(s, q, c), t, ODD_OUT_WITHOUT_IN)
            _count(s, q, -1)
            s.nr[old] -= 1
            s.waiting[old] -= 1
            if old != c:
                n = _emit(s, out, n, t, old, s.mask[q], SWITCH)
        elif s.state[q] == T_RUNNING:
            _odd(s, d, old, s.seen[old], t, ODD_OUT_WITHOUT_IN)
            n = _stop_unseen(s, out, n, old, t, SWITCH)
    if keeps:
        _begin_wait(s, q, c, t)
    else:
        s.state[q] = T_ASLEEP
        s.since[q] = t
        s.cpu[q] = c
    return n


@inner
def _switch_in(
    s: TaskState,
    d: Doubts,
    out: Changes,
    n: int,
    waits: Waits,
    w: int,
    p: int,
    q: int,
    c: int,
    t: int,
) -> tuple[int, int]:
    """Task ``p`` begins to run on CPU ``c``, where ``q`` stopped."""
    old = s.cpu[p]
    if s.state[p] == T_WAITING:
        if old != c:
            _odd(s, d, old, s.since[p], t, ODD_MIGRATE_ELSEWHERE)
            _odd(s, d, c, _since(s, p, c), t, ODD_MIGRATE_ELSEWHERE)
        if _parked(s, p):
            if q != 0:  # when it became able to run while others ran here is not told
                _odd(s, d, c, s.busy_since[c], t, ODD_PARKED)
        else:
            waited = t - s.since[p]
            if _starved(s, waited, old):
                _odd(s, d, old, s.since[p], t, ODD_STARVED)
            if s.mask[p] == PRESUMED_BOUND and waited >= PRESUMED_NS:
                _doubt(d, old, s.since[p], t, PRESUMED)
        w = _end_wait(s, p, c, t, waits, w)
        if old != c:
            n = _emit(s, out, n, t, old, s.mask[p], SWITCH)
    elif s.state[p] == T_RUNNING:
        if old != c:
            _odd(s, d, old, s.seen[old], t, ODD_MIGRATE_ELSEWHERE)
            _odd(s, d, c, s.seen[old], t, ODD_MIGRATE_ELSEWHERE)
            n = _stop_unseen(s, out, n, old, t, SWITCH)
        else:
            s.nr[c] -= 1
    elif s.state[p] == T_ASLEEP:
        _odd(s, d, c, _since(s, p, c), t, ODD_IN_WITHOUT_WAKEUP)
    elif s.since[p] > 0:  # it had left unseen, and not to sleep
        _odd(s, d, old, _since(s, p, old), t, ODD_LEFT_UNSEEN)
        if old != c:
            _odd(s, d, c, _since(s, p, c), t, ODD_LEFT_UNSEEN)
    s.nr[c] += 1
    s.state[p] = T_RUNNING
    s.cpu[p] = c
    s.ran[p] = c if s.ran[p] == -1 or s.ran[p] == c else SEVERAL
    return n, w


@jit
def settle_start(s: TaskState, moved_from: I32, start_ns: int) -> None:
    """After pass 1: fill the runqueues of the first moment."""
    s.seen[:] = start_ns
    s.busy_since[:] = start_ns
    for p in range(1, s.state.size):
        if s.state[p] == T_UNKNOWN and moved_from[p] >= 0:
            s.state[p] = T_WAITING  # moved between runqueues and never run: it had been waiting
            s.cpu[p] = moved_from[p]
        if s.state[p] == T_RUNNING and s.cur[s.cpu[p]] != p:
            s.state[p] = T_WAITING
        if s.state[p] == T_RUNNING:
            s.ran[p] = s.cpu[p]
        if s.state[p] == T_WAITING:
            _begin_wait(s, p, s.cpu[p], start_ns)
    for c in range(s.cur.size):
        if s.cur[c] > 0:
            s.nr[c] += 1
        elif s.cur[c] == CUR_FROM_SWITCH:
            s.cur[c] = CUR_UNKNOWN


@jit
def run(
    code: I8,
    ts_ns: I64,
    cpu: I32,
    src_cpu: I32,
    pid: I32,
    prev_pid: I32,
    aux: I32,
    s: TaskState,
    out: Changes,
    waits: Waits,
    d: Doubts,
) -> tuple[int, int]:
    """Pass 2: apply events; write runqueue changes, finished waits and doubts.

    Parameters
    ----------
    aux
        SWITCH: 1 if the task left stays on the runqueue (state R or R+); AFFINITY: the new mask id;
        STATE: the task's state T_*; COUNT: nr_running; HOTPLUG: 1 online, 0 offline.
    out
        Room for 8 rows per event, and for one per task that waits when the call begins.

    Returns
    -------
    int, int
        Rows written to ``out`` and to ``waits``.
    """
    n = 0
    w = 0
    d.n[0] = 0
    for i in range(code.size):
        k = code[i]
        t = ts_ns[i]
        if k == SWITCH:
            c, p, q = cpu[i], pid[i], prev_pid[i]
            mask_p = s.mask[p] if p > 0 else 0
            mask_q = s.mask[q] if q > 0 else 0
            x = s.cur[c]
            left = t
            if x >= 0 and x != q:
                # another task was running here: it left at a switch that was not recorded, nobody knows to where;
                # that was after the task which stops now had become able to run
                left = s.seen[c]
                if q > 0 and (s.state[q] == T_WAITING or s.state[q] == T_ASLEEP):
                    left = max(left, s.since[q])
                if q >= 0:
                    _odd(s, d, c, left, t, ODD_LEFT_UNSEEN)
                if x > 0 and s.state[x] == T_RUNNING and s.cpu[x] == c:
                    s.state[x] = T_UNKNOWN
                    s.since[x] = left if q >= 0 else 0
                    s.nr[c] -= 1
            if q > 0:
                n = _switch_out(s, d, out, n, q, c, t, aux[i] != 0)
            if p > 0:
                if x == 0:
                    s.busy_since[c] = left
                n, w = _switch_in(s, d, out, n, waits, w, p, q, c, t)
            s.cur[c] = p
            s.seen[c] = t
            s.switches[c] += 1
            if p == 0 and s.waiting[c] > 0 and s.parks[0] != 0:
                n = _park(s, d, out, n, c, t, k)
            if mask_q > 0 and mask_q != mask_p:
                n = _emit(s, out, n, t, c, mask_q, k)
            n = _emit(s, out, n, t, c, mask_p, k)
            _compare(s, d, c, t)
        elif k == WAKEUP or k == WAKEUP_NEW:
            c, p = cpu[i], pid[i]
            if p <= 0:
                continue
            if (
                s.state[p] == T_RUNNING
            ):  # it was about to sleep: the kernel reports such a wakeup, too
                s.odd[ODD_WAKEUP_OF_QUEUED] += 1
                continue
            if s.state[p] == T_WAITING:
                old = s.cpu[p]
                if not _parked(s, p):
                    _odd(s, d, old, s.since[p], t, ODD_WAKEUP_OF_QUEUED)
                    if old == c:
                        continue
                    w = _end_wait(s, p, c, t, waits, w)
                    n = _emit(s, out, n, t, old, s.mask[p], k)
            _begin_wait(s, p, c, t)
            n = _emit(s, out, n, t, c, s.mask[p], k)
            _compare(s, d, c, t)
        elif k == MIGRATE:
            c, p = cpu[i], pid[i]
            if p <= 0 or s.cpu[p] == c:
                continue
            if s.state[p] == T_WAITING:
                old = s.cpu[p]
                w = _end_wait(s, p, c, t, waits, w)
                _begin_wait(s, p, c, t)
                n = _emit(s, out, n, t, old, s.mask[p], k)
                n = _emit(s, out, n, t, c, s.mask[p], k)
                _compare(s, d, old, t)
                _compare(s, d, c, t)
            elif s.state[p] != T_RUNNING:
                s.cpu[p] = c
        elif k == FORK:
            p = pid[i]
            if p > 0 and s.state[p] != T_WAITING and s.state[p] != T_RUNNING:
                s.state[p] = T_ASLEEP
                s.since[p] = t
                s.ran[p] = -1
                parent = src_cpu[i]
                if parent > 0:  # a child inherits its affinity, as far as anybody knows it
                    if s.known[parent] == 1 or s.known[p] == 1:
                        s.mask[p] = s.mask[parent]
                    s.known[p] = s.known[parent]
        elif k == AFFINITY:
            p = pid[i]
            if p <= 0:
                continue
            s.known[p] = 1
            if s.mask[p] == aux[i]:
                continue
            old_mask = s.mask[p]
            if s.state[p] == T_WAITING and not _parked(s, p):
                _count(s, p, -1)
                if old_mask > 0:
                    n = _emit(s, out, n, t, s.cpu[p], old_mask, k)
                s.mask[p] = aux[i]
                _count(s, p, 1)
                n = _emit(s, out, n, t, s.cpu[p], s.mask[p], k)
            else:
                s.mask[p] = aux[i]
        elif k == STATE:
            c, p = cpu[i], pid[i]
            if p <= 0 or s.state[p] == T_WAITING or s.state[p] == T_RUNNING:
                continue
            if aux[i] == T_WAITING:
                _begin_wait(s, p, c, t)
            elif aux[i] == T_RUNNING:
                s.nr[c] += 1
                s.state[p] = T_RUNNING
                s.cpu[p] = c
                s.ran[p] = c
                s.cur[c] = p
                s.seen[c] = t
            else:
                s.state[p] = T_ASLEEP
                s.since[p] = t
                s.cpu[p] = c
                continue
            n = _emit(s, out, n, t, c, s.mask[p], k)
        elif k == COUNT:
            c = cpu[i]
            s.kernel_nr[c] = aux[i]
            n = _emit(s, out, n, t, c, 0, k)
            _compare(s, d, c, t)
        elif k == HOTPLUG:
            c = cpu[i]
            s.offline[c] = 1 - aux[i]
            n = _emit(s, out, n, t, c, 0, k)
        elif k == FORGET:
            # events of this CPU were lost: what it runs is unknown until its next switch
            c = cpu[i]
            q = s.cur[c]
            if q > 0 and s.state[q] == T_RUNNING:
                s.nr[c] -= 1
                s.state[q] = T_UNKNOWN
                s.since[q] = 0
            s.cur[c] = CUR_UNKNOWN
            s.kernel_nr[c] = -1
            s.differs[c] = -1
            n = _emit(s, out, n, t, c, 0, k)
    return n, w


@jit
def finish(s: TaskState, end_ns: int, waits: Waits, d: Doubts) -> int:
    """Waits and doubts that had not ended when the trace did; returns the number of waits."""
    n = 0
    d.n[0] = 0
    for p in range(1, s.state.size):
        if s.state[p] == T_WAITING and not _parked(s, p):
            waited = end_ns - s.since[p]
            c = s.cpu[p]
            if _starved(s, waited, c):
                _odd(s, d, c, s.since[p], end_ns, ODD_STARVED)
            if s.mask[p] == PRESUMED_BOUND and waited >= PRESUMED_NS:
                _doubt(d, c, s.since[p], end_ns, PRESUMED)
            n = _end_wait(s, p, c, end_ns, waits, n)
        elif s.state[p] == T_UNKNOWN and s.since[p] > 0:
            if s.cur[s.cpu[p]] != 0:
                _odd(s, d, s.cpu[p], _since(s, p, s.cpu[p]), end_ns, ODD_LEFT_UNSEEN)
    for c in range(s.cur.size):
        if s.differs[c] >= 0 and end_ns - s.differs[c] >= COUNT_SETTLES_NS:
            s.odd[ODD_COUNT] += 1
            _doubt(d, c, s.differs[c], end_ns, ODD_COUNT)
    return n
