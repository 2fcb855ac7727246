"""What is concluded where a switch is missing: a task stops where it did not run, or runs without having been woken."""

from __future__ import annotations

from wastedcores.jit.compile import callee
from wastedcores.runqueues import cpu_row, task_row
from wastedcores.runqueues import state as se
from wastedcores.runqueues.doubts_jit import doubt, odd, odd_unseen
from wastedcores.runqueues.queues_jit import emit, parked, take_off
from wastedcores.runqueues.state import Output, State


@callee
def _stop_unseen(s: State, out: Output, c: int, t: int, k: int) -> None:
    """The task that seemed to run on ``c`` was seen elsewhere: what ``c`` runs is unknown until its next switch."""
    s.cpu[c, cpu_row.NR] -= 1
    s.cpu[c, cpu_row.CURR] = cpu_row.CURR_UNKNOWN
    s.cpu[c, cpu_row.MAYBE_IDLE] = t
    emit(s, out, t, c, 0, k)


@callee
def ran_unseen(s: State, out: Output, q: int, c: int, t: int) -> None:
    """Task ``q`` stops on CPU ``c``, where it was not known to run: an event is missing."""
    state, old = s.task[q, task_row.STATE], s.task[q, task_row.CPU]
    if state == task_row.ASLEEP or (state == task_row.UNKNOWN and s.since[q] >= 0):
        odd_unseen(s, out, q, c, t, se.ODD_OUT_WITHOUT_IN)
    if state == task_row.WAITING and not parked(s, q):
        odd_unseen(s, out, q, old, t, se.ODD_OUT_WITHOUT_IN)
        if old != c:
            odd_unseen(s, out, q, c, t, se.ODD_OUT_WITHOUT_IN)
        take_off(s, q)
        if old != c:
            emit(s, out, t, old, s.task[q, task_row.MASK], se.SWITCH)
    elif state == task_row.WAITING:
        s.cpu[old, cpu_row.PARKED] -= 1
    elif state == task_row.RUNNING:
        odd(s, out, old, s.cpu[old, cpu_row.SEEN], t, se.ODD_OUT_WITHOUT_IN)
        _stop_unseen(s, out, old, t, se.SWITCH)


@callee
def in_unseen(s: State, out: Output, p: int, c: int, t: int) -> None:
    """Task ``p`` begins to run on CPU ``c``, and did not wait before."""
    state, old = s.task[p, task_row.STATE], s.task[p, task_row.CPU]
    if state == task_row.RUNNING:
        if old == c:
            s.cpu[c, cpu_row.NR] -= 1
            return
        seen_ns = s.cpu[old, cpu_row.SEEN]
        odd(s, out, old, seen_ns, t, se.ODD_MIGRATE_ELSEWHERE)
        odd(s, out, c, seen_ns, t, se.ODD_MIGRATE_ELSEWHERE)
        _stop_unseen(s, out, old, t, se.SWITCH)
    elif state == task_row.ASLEEP:
        odd_unseen(s, out, p, c, t, se.ODD_IN_WITHOUT_WAKEUP)
    elif s.since[p] >= 0:  # its last stop was not seen, and at this stop it did not go to sleep
        odd_unseen(s, out, p, old, t, se.ODD_LEFT_UNSEEN)
        if old != c:
            odd_unseen(s, out, p, c, t, se.ODD_LEFT_UNSEEN)


@callee
def curr_left_unseen(s: State, out: Output, q: int, c: int, t: int) -> int:
    """The task that ran on ``c`` left at a switch that was not recorded; return the earliest time of that switch.

    At the time of that switch, ``q``, which stops now, was already runnable.
    """
    x = s.cpu[c, cpu_row.CURR]
    left = s.cpu[c, cpu_row.SEEN]
    if q > 0:
        state = s.task[q, task_row.STATE]
        if state == task_row.WAITING or state == task_row.ASLEEP:
            left = max(left, s.since[q])
    s.cpu[c, cpu_row.MAYBE_IDLE] = t
    if q >= 0:
        odd(s, out, c, left, t, se.ODD_LEFT_UNSEEN)
    if x > 0 and s.task[x, task_row.STATE] == task_row.RUNNING and s.task[x, task_row.CPU] == c:
        s.task[x, task_row.STATE] = task_row.UNKNOWN
        s.since[x] = left if q >= 0 else -1
        s.cpu[c, cpu_row.NR] -= 1
    return left


@callee
def doubt_unseen(s: State, out: Output, c: int, t: int) -> None:
    """Doubt the time in which nobody knows what CPU ``c`` ran, because the task that it seemed to run was seen elsewhere."""
    since_ns = s.cpu[c, cpu_row.MAYBE_IDLE]
    if s.cpu[c, cpu_row.CURR] == cpu_row.CURR_UNKNOWN and since_ns > s.cpu[c, cpu_row.SEEN]:
        if s.cpu[c, cpu_row.KERNEL_NR] < 0 and s.cpu[c, cpu_row.OFFLINE] == 0:
            doubt(s, out, c, since_ns, t, se.ODD_LEFT_UNSEEN)
