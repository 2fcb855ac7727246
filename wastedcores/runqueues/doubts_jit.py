"""Doubts: spans in which the rebuilt state of a CPU may be wrong, from the last moment at which it was certain."""

from __future__ import annotations

from wastedcores.jit.compile import callee
from wastedcores.runqueues import cpu_row, task_row
from wastedcores.runqueues import state as se
from wastedcores.runqueues.state import Output, State

#: a difference between nr_running and the rebuilt tasks that lasts this long is not due to the order of events
COUNT_SETTLES_NS = 10_000_000
#: a task that waits this long may be throttled: the default period of CPU quotas (kernel/sched/core.c, v6.12)
STARVED_NS = 100_000_000
#: if the time without any event before a contradiction is shorter than this, it hides nothing that matters
SILENCE_NS = 1_000_000
#: if an idle CPU does not run its only task within this time, the task is elsewhere or the CPU was not notified
LATE_NS = 1_000_000
#: a wait shorter than this is not doubted, even if the name of the task suggests that it is bound, if its control group has a
#: limit, or if the task recorded the trace
PRESUMED_NS = 500_000


@callee
def doubt(s: State, out: Output, c: int, start_ns: int, end_ns: int, reason: int) -> None:
    """Write down a doubt. If there is no room, extend the last doubt in time and to all CPUs; mixed reasons become ODD_COUNT."""
    if end_ns <= start_ns:
        return
    k = s.numbers[se.N_DOUBTS]
    if k == out.doubt.shape[1]:
        out.doubt[se.DOUBT_CPU, k - 1] = -1
        # ODD_QUEUE says that the CPU of the queue is busy, but nothing about the CPUs to which the doubt is extended
        if out.doubt[se.REASON, k - 1] != reason or reason == se.ODD_QUEUE:
            out.doubt[se.REASON, k - 1] = se.ODD_COUNT
        out.doubt[se.START, k - 1] = min(out.doubt[se.START, k - 1], start_ns)
        out.doubt[se.END, k - 1] = max(out.doubt[se.END, k - 1], end_ns)
        return
    out.doubt[se.DOUBT_CPU, k] = c
    out.doubt[se.START, k] = start_ns
    out.doubt[se.END, k] = end_ns
    out.doubt[se.REASON, k] = reason
    s.numbers[se.N_DOUBTS] = k + 1


@callee
def odd(s: State, out: Output, c: int, start_ns: int, end_ns: int, reason: int) -> None:
    """Note a contradiction about CPU ``c``.

    Where the kernel's nr_running is recorded, only a difference from that number matters. If no CPU had an event for long
    before the contradiction, events are missing or the time of the contradiction is wrong, so nothing in this silence is
    certain.
    """
    s.odd[reason] += 1
    if s.cpu[c, cpu_row.KERNEL_NR] >= 0:
        return
    if start_ns >= 0:
        doubt(s, out, c, start_ns, end_ns, reason)
    before_ns = s.numbers[se.BEFORE_NS]
    if reason < se.ODD_PARKED and before_ns >= 0 and end_ns - before_ns >= SILENCE_NS:
        doubt(s, out, -1, before_ns, end_ns, se.ODD_SILENCE)


@callee
def unseen_since(s: State, p: int, c: int) -> int:
    """Return since when ``p`` can have waited on ``c`` unseen (-1: unknown): no task waits on a CPU that is idle."""
    return max(s.since[p], s.cpu[c, cpu_row.BUSY_SINCE]) if s.since[p] >= 0 else -1


@callee
def odd_unseen(s: State, out: Output, p: int, c: int, t: int, reason: int) -> None:
    """Note a contradiction about CPU ``c`` that begins when ``p`` can first have waited there unseen.

    If ``p`` recorded the trace, its wakeups may be missing without a contradiction. But it may have waited, like any thread.
    """
    if s.task[p, task_row.RECORDER] != 0:
        since_ns = max(s.since[p], s.cpu[c, cpu_row.BUSY_SINCE])
        if s.cpu[c, cpu_row.KERNEL_NR] < 0 and t - since_ns >= PRESUMED_NS:
            doubt(s, out, c, since_ns, t, se.OWN_WAIT)
        return
    odd(s, out, c, unseen_since(s, p, c), t, reason)


@callee
def doubt_idle(s: State, out: Output, p: int, t: int) -> None:
    """When a wait of task ``p`` ends, doubt it if ``p`` may have slept instead, or if its CPU ran the idle task meanwhile."""
    c = s.task[p, task_row.CPU]
    if s.task[p, task_row.DOUBTED] == task_row.LOST_MEANWHILE:
        doubt(s, out, c, s.since[p], t, se.LOSS)
    elif s.task[p, task_row.DOUBTED] == task_row.PERHAPS_ASLEEP:
        doubt(s, out, c, s.since[p], t, se.MAYBE_SLEPT)
    if s.cpu[c, cpu_row.CURR] == 0 and s.cpu[c, cpu_row.KERNEL_NR] < 0:
        since_ns = max(s.since[p], s.cpu[c, cpu_row.SEEN])
        if t - since_ns >= LATE_NS:
            doubt(s, out, c, since_ns, t, se.ODD_PARKED)


@callee
def doubt_offline(s: State, out: Output, c: int, t: int) -> None:
    """Doubt the time before the first switch of CPU ``c`` if the CPU was offline or idle until then."""
    start_ns = s.cpu[c, cpu_row.SEEN]
    if s.cpu[c, cpu_row.CURR] < 0 and s.cpu[c, cpu_row.MAYBE_IDLE] == start_ns:
        if s.cpu[c, cpu_row.KERNEL_NR] < 0 and s.cpu[c, cpu_row.OFFLINE] == 0:
            doubt(s, out, c, start_ns, t, se.OFFLINE_OR_IDLE)


@callee
def doubt_parked(s: State, out: Output, c: int, t: int) -> None:
    """Doubt the time since CPU ``c`` became busy if parked tasks are on its queue: they may be able to run again."""
    if s.cpu[c, cpu_row.PARKED] > 0 and s.cpu[c, cpu_row.KERNEL_NR] < 0:
        doubt(s, out, c, s.cpu[c, cpu_row.BUSY_SINCE], t, se.ODD_PARKED)


@callee
def doubt_wait(s: State, out: Output, p: int, t: int) -> None:
    """When a wait of task ``p`` ends, doubt it if ``p`` may have been throttled, bound to this CPU, or not on this CPU at all."""
    c = s.task[p, task_row.CPU]
    waited_ns = t - s.since[p]
    limited = s.task[p, task_row.LIMITED]
    limit_ns = PRESUMED_NS if limited == task_row.LIMITED_FOR_SURE else STARVED_NS
    if limited != task_row.UNLIMITED and waited_ns >= limit_ns:
        odd(s, out, c, s.since[p], t, se.ODD_STARVED)
    if s.task[p, task_row.MASK] == task_row.PRESUMED_BOUND and waited_ns >= PRESUMED_NS:
        doubt(s, out, c, s.since[p], t, se.PRESUMED)
    doubt_idle(s, out, p, t)


@callee
def doubt_count(s: State, out: Output, c: int, t: int) -> None:
    """End the difference, if there is any, between the kernel's count of CPU ``c`` and the count of the rebuilt tasks.

    If the CPU was busy all the time by both counts, only the length of its queue is in doubt.
    """
    since_ns = s.cpu[c, cpu_row.DIFFERS]
    if since_ns >= 0 and t - since_ns >= COUNT_SETTLES_NS:
        reason = se.ODD_QUEUE if s.cpu[c, cpu_row.MAYBE_IDLE] < since_ns else se.ODD_COUNT
        s.odd[reason] += 1
        doubt(s, out, c, since_ns, t, reason)
    s.cpu[c, cpu_row.DIFFERS] = -1


@callee
def compare(s: State, out: Output, c: int, t: int) -> None:
    """Note since when the kernel's count of CPU ``c`` has differed from the count of the rebuilt tasks."""
    kernel_nr = s.cpu[c, cpu_row.KERNEL_NR]
    if s.cpu[c, cpu_row.CURR] == cpu_row.CURR_UNKNOWN:
        return
    if kernel_nr < 0 or kernel_nr == s.cpu[c, cpu_row.NR]:
        doubt_count(s, out, c, t)
        return
    if s.cpu[c, cpu_row.DIFFERS] < 0:
        s.cpu[c, cpu_row.DIFFERS] = t
    if kernel_nr == 0 or s.cpu[c, cpu_row.CURR] == 0:
        s.cpu[c, cpu_row.MAYBE_IDLE] = t
