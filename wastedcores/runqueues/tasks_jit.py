"""Runqueues rebuilt from task events in one pass: one small state machine per task, so memory does not depend on events.

A task is running, waiting on a runqueue, or asleep. It joins a runqueue at its wakeup (on the wakeup's target CPU),
changes runqueues at sched_migrate_task (sched_waking names the *previous* CPU and is not used), and leaves it at the
switch that stops it in any state but R. Cf. josefbacik/systing "placement_exact" and docs/scheduler-model.md, section 11.6.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import jit

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
I8 = NDArray[np.int8]

# codes of events; stream.py translates the trace's kinds to them
SWITCH, WAKEUP, WAKEUP_NEW, MIGRATE, FORK, EXIT, AFFINITY, STATE, FORGET, CONTEXT = range(10)

# task states
T_UNKNOWN, T_ASLEEP, T_WAITING, T_RUNNING = 0, 1, 2, 3

# oddities that are counted
ODD_WAKEUP_OF_QUEUED, ODD_IN_WITHOUT_WAKEUP, ODD_OUT_WITHOUT_IN, ODD_MIGRATE_ELSEWHERE = 0, 1, 2, 3
ODD_LEFT_UNSEEN = 4
N_ODD = 5

CUR_UNKNOWN = -1  # it is not known what the CPU runs
CUR_FROM_SWITCH = -2  # in pass 1: the CPU's first switch does not say what it stops (prev_pid -1)
FREE = 0  # mask id of a task that may run anywhere
BOUND = -1  # mask id of a task that may run on its own CPU only


class TaskState(NamedTuple):
    """The state that is carried from batch to batch."""

    state: I8  # (pids,) T_*
    cpu: I32  # (pids,) where it is queued or was last, -1 unknown
    since: I64  # (pids,) ns, start of the current wait
    mask: I32  # (pids,) mask id: FREE, BOUND or an index of the distinct masks
    cur: I32  # (cpus,) running pid, 0 idle, CUR_UNKNOWN
    nr: I32  # (cpus,) tasks on the runqueue, the running one included
    free: I32  # (cpus,) waiting tasks that may run anywhere
    restricted: I32  # (cpus, masks) waiting tasks by mask id
    odd: I64  # (N_ODD,)
    lossy: I8  # (1,) 1 once pass 1 met a loss: tasks first seen later say nothing about the start


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


def new_state(pids: int, cpus: int, masks: int) -> TaskState:
    """Return a state in which nothing is known. ``masks`` counts the distinct affinity masks, FREE included."""
    return TaskState(
        np.zeros(pids, np.int8),
        np.full(pids, -1, np.int32),
        np.zeros(pids, np.int64),
        np.zeros(pids, np.int32),
        np.full(cpus, CUR_UNKNOWN, np.int32),
        np.zeros(cpus, np.int32),
        np.zeros(cpus, np.int32),
        np.zeros((cpus, masks), np.int32),
        np.zeros(N_ODD, np.int64),
        np.zeros(1, np.int8),
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
    """Pass 1: infer the state that must have held before the first event of each CPU and each task.

    A CPU ran the task that its first switch stops (pid -1: not known), or the task in whose context its first event
    happened. A task that is switched in without an earlier wakeup had been waiting. A task that is stopped had been
    running. A task that is woken or forked had not been on a runqueue. ``moved_from`` (pids,) holds the origin of a
    migration that was seen before any of these.
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
        # the task in whose context the event happened was running there
        if by_pid[i] >= 0:
            if k == FORK or k == EXIT or k == CONTEXT:
                where = cpu[i]
            if where >= 0 and s.cur[where] == CUR_UNKNOWN and s.lossy[0] == 0:
                s.cur[where] = by_pid[i]
                if by_pid[i] > 0 and s.state[by_pid[i]] == T_UNKNOWN:
                    s.state[by_pid[i]] = T_RUNNING
                    s.cpu[by_pid[i]] = where


@jit
def _count(s: TaskState, p: int, by: int) -> None:
    """Count a wait of task ``p`` that begins (+1) or ends (-1) on its CPU."""
    m = s.mask[p]
    if m == FREE:
        s.free[s.cpu[p]] += by
    elif m > 0:
        s.restricted[s.cpu[p], m] += by


@jit
def settle_start(s: TaskState, moved_from: I32, start_ns: int) -> None:
    """Fill the runqueues of the first moment after pass 1."""
    for p in range(1, s.state.size):
        if s.state[p] == T_UNKNOWN and moved_from[p] >= 0:
            s.state[p] = T_WAITING  # moved between runqueues and never run: it had been waiting
            s.cpu[p] = moved_from[p]
        if s.state[p] == T_RUNNING and s.cur[s.cpu[p]] != p:
            s.state[p] = T_WAITING
        if s.state[p] == T_WAITING:
            s.nr[s.cpu[p]] += 1
            s.since[p] = start_ns
            _count(s, p, 1)
    for c in range(s.cur.size):
        if s.cur[c] > 0:
            s.nr[c] += 1
        elif s.cur[c] == CUR_FROM_SWITCH:
            s.cur[c] = CUR_UNKNOWN


@jit
def _begin_wait(s: TaskState, p: int, c: int, t: int) -> None:
    """Let task ``p`` wait on CPU ``c`` from ``t`` on."""
    s.state[p] = T_WAITING
    s.cpu[p] = c
    s.since[p] = t
    _count(s, p, 1)


@jit
def _end_wait(s: TaskState, p: int, t: int, waits: Waits, n: int) -> int:
    """End the wait of task ``p`` at ``t`` and append it to ``waits``, of which ``n`` are valid; return the new ``n``."""
    _count(s, p, -1)
    if t > s.since[p] and waits.pid.size > n:
        waits.pid[n] = p
        waits.cpu[n] = s.cpu[p]
        waits.start_ns[n] = s.since[p]
        waits.end_ns[n] = t
        n += 1
    return n


@jit
def _emit(s: TaskState, out: Changes, n: int, t: int, c: int, m: int, k: int) -> int:
    """Append the state of CPU ``c``, and that of mask ``m`` on it if ``m`` > 0; return the new number of rows."""
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
    out.nr[n] = s.nr[c] if s.cur[c] != CUR_UNKNOWN else -1
    out.free[n] = s.free[c]
    out.mask[n] = FREE
    out.code[n] = k
    return n + 1


@jit
def _switch_out(s: TaskState, q: int, c: int, t: int, keeps: bool) -> None:
    """Stop task ``q`` on CPU ``c``; it goes on waiting there if it ``keeps`` its place on the runqueue."""
    if s.state[q] != T_RUNNING or s.cpu[q] != c:
        # an event is missing: it must have been running here
        s.odd[ODD_OUT_WITHOUT_IN] += 1
        if s.state[q] == T_WAITING:
            _count(s, q, -1)
            s.nr[s.cpu[q]] -= 1
        elif s.state[q] == T_RUNNING:
            s.nr[s.cpu[q]] -= 1
        s.nr[c] += 1
        s.cpu[q] = c
    if keeps:
        _begin_wait(s, q, c, t)
    else:
        s.state[q] = T_ASLEEP
        s.nr[c] -= 1


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
) -> tuple[int, int]:
    """Pass 2: apply events, write runqueue changes (at most 6 rows per event) and finished waits (at most 3 per event).

    Parameters
    ----------
    aux
        SWITCH: 1 if the task left stays on the runqueue (state R or R+); AFFINITY: the new mask id;
        STATE: the task's state T_*.

    Returns
    -------
    int, int
        Rows written to ``out`` and to ``waits``.
    """
    n = 0
    w = 0
    for i in range(code.size):
        k = code[i]
        t = ts_ns[i]
        if k == SWITCH:
            c, p, q = cpu[i], pid[i], prev_pid[i]
            mask_p = 0
            mask_q = 0
            x = s.cur[c]
            if x > 0 and x != q and s.state[x] == T_RUNNING and s.cpu[x] == c:
                # another task was running here: it left at an unrecorded switch, and it is not known where it went
                s.odd[ODD_LEFT_UNSEEN] += 1
                s.state[x] = T_UNKNOWN
                s.nr[c] -= 1
            if q > 0:
                _switch_out(s, q, c, t, aux[i] != 0)
                mask_q = s.mask[q]
            if p > 0:
                mask_p = s.mask[p]
                if s.state[p] == T_WAITING:
                    w = _end_wait(s, p, t, waits, w)
                    if s.cpu[p] != c:
                        s.odd[ODD_MIGRATE_ELSEWHERE] += 1
                        old = s.cpu[p]
                        s.nr[old] -= 1
                        s.nr[c] += 1
                        n = _emit(s, out, n, t, old, mask_p, k)
                elif s.state[p] == T_RUNNING:
                    if s.cpu[p] != c:
                        s.odd[ODD_MIGRATE_ELSEWHERE] += 1
                        s.nr[s.cpu[p]] -= 1
                        s.nr[c] += 1
                        n = _emit(s, out, n, t, s.cpu[p], 0, k)
                else:
                    if s.state[p] == T_ASLEEP:
                        s.odd[ODD_IN_WITHOUT_WAKEUP] += 1
                    s.nr[c] += 1
                s.state[p] = T_RUNNING
                s.cpu[p] = c
            s.cur[c] = p
            if mask_q > 0 and mask_q != mask_p:
                n = _emit(s, out, n, t, c, mask_q, k)
            n = _emit(s, out, n, t, c, mask_p, k)
        elif k == WAKEUP or k == WAKEUP_NEW:
            p = pid[i]
            if p <= 0:
                continue
            if s.state[p] == T_WAITING or s.state[p] == T_RUNNING:
                s.odd[ODD_WAKEUP_OF_QUEUED] += 1
                continue
            s.nr[cpu[i]] += 1
            _begin_wait(s, p, cpu[i], t)
            n = _emit(s, out, n, t, cpu[i], s.mask[p], k)
        elif k == MIGRATE:
            p = pid[i]
            if p <= 0 or s.cpu[p] == cpu[i]:
                continue
            if s.state[p] == T_WAITING:
                old = s.cpu[p]
                w = _end_wait(s, p, t, waits, w)
                s.nr[old] -= 1
                s.nr[cpu[i]] += 1
                _begin_wait(s, p, cpu[i], t)
                n = _emit(s, out, n, t, old, s.mask[p], k)
                n = _emit(s, out, n, t, cpu[i], s.mask[p], k)
            elif s.state[p] != T_RUNNING:
                s.cpu[p] = cpu[i]
        elif k == FORK:
            p = pid[i]
            if p > 0 and s.state[p] != T_WAITING and s.state[p] != T_RUNNING:
                s.state[p] = T_ASLEEP
                if src_cpu[i] > 0:  # the parent's pid: a child inherits the affinity of its parent
                    s.mask[p] = s.mask[src_cpu[i]]
        elif k == AFFINITY:
            p = pid[i]
            if p <= 0 or s.mask[p] == aux[i]:
                continue
            old_mask = s.mask[p]
            if s.state[p] == T_WAITING:
                _count(s, p, -1)
                if old_mask > 0:
                    n = _emit(s, out, n, t, s.cpu[p], old_mask, k)
                s.mask[p] = aux[i]
                _count(s, p, 1)
                n = _emit(s, out, n, t, s.cpu[p], s.mask[p], k)
            else:
                s.mask[p] = aux[i]
        elif k == STATE:
            p = pid[i]
            if p <= 0 or s.state[p] == T_WAITING or s.state[p] == T_RUNNING:
                continue
            if aux[i] == T_WAITING:
                s.nr[cpu[i]] += 1
                _begin_wait(s, p, cpu[i], t)
            elif aux[i] == T_RUNNING:
                s.nr[cpu[i]] += 1
                s.state[p] = T_RUNNING
                s.cpu[p] = cpu[i]
                s.cur[cpu[i]] = p
            else:
                s.state[p] = T_ASLEEP
                s.cpu[p] = cpu[i]
                continue
            n = _emit(s, out, n, t, cpu[i], s.mask[p], k)
        elif k == FORGET:
            # events of this CPU were lost: what it runs is unknown until its next switch
            q = s.cur[cpu[i]]
            if q > 0 and s.state[q] == T_RUNNING:
                s.nr[cpu[i]] -= 1
                s.state[q] = T_UNKNOWN
            s.cur[cpu[i]] = CUR_UNKNOWN
            n = _emit(s, out, n, t, cpu[i], 0, k)
    return n, w


@jit
def open_waits(s: TaskState, end_ns: int, waits: Waits) -> int:
    """Write the waits that had not ended at the trace's end; return their number."""
    n = 0
    for p in range(1, s.state.size):
        if s.state[p] == T_WAITING:
            n = _end_wait(s, p, end_ns, waits, n)
    return n
