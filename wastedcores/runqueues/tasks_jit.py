"""Runqueues, rebuilt from task events in one pass by a small state machine per task. Memory is needed for the tasks only.

A task is running, waiting on a runqueue, or asleep. It joins a runqueue at its wakeup (on the wakeup's target CPU),
changes runqueues at sched_migrate_task, and leaves its runqueue at the switch that stops it in any state but R. A sched_waking
names the *previous* CPU of the task, so the readers take the target CPU from the move that follows. Cf. josefbacik/systing
"placement_exact" and docs/scheduler-model.md, section 11.6.

Two things bound what may be concluded from the rebuilt state. Where the trace has the kernel's own nr_running, that number
is the length of the runqueue, and the rebuilt tasks only say who waits. And where an event contradicts the state before
it, the span that may be wrong is written down as a *doubt*: from the last event that confirmed the state to the
contradiction.

A CPU that goes idle while tasks of its runqueue are runnable proves that these cannot run: their control group is throttled, or
core scheduling forbids it. They are *parked*: until they are seen again, they do not count as waiting. If no group has a quota,
the parked tasks must have left that runqueue unseen, and their place is in doubt until they are seen again.
"""

from __future__ import annotations

from wastedcores.jit.compile import callee, lean
from wastedcores.runqueues import cpu_row, task_row
from wastedcores.runqueues import state as se
from wastedcores.runqueues.doubts_jit import (
    PRESUMED_NS,
    compare,
    doubt,
    doubt_count,
    doubt_idle,
    doubt_offline,
    doubt_parked,
    doubt_wait,
    odd,
    odd_unseen,
    unseen_since,
)
from wastedcores.runqueues.queues_jit import (
    begin_wait,
    count_waiting,
    emit,
    end_wait,
    park,
    parked,
    woken_late,
    write_wait,
)
from wastedcores.runqueues.state import Events, Output, State
from wastedcores.runqueues.unseen_jit import curr_left_unseen, doubt_unseen, in_unseen, ran_unseen


@callee
def _switch_out(s: State, out: Output, q: int, c: int, t: int, keeps: bool) -> None:
    """Task ``q`` stops running on CPU ``c``.

    Where the clocks of CPUs differ, the next wakeup, move or run of ``q`` may be told before this stop although it came later.
    """
    woken, running = 0, s.task[q, task_row.STATE] == task_row.RUNNING
    if running and s.task[q, task_row.CPU] == c:
        s.cpu[c, cpu_row.NR] -= 1
        woken = s.task[q, task_row.WOKEN]
    elif running and t - s.began[q] <= se.SKEW_NS:  # it runs elsewhere already
        s.odd[se.ODD_OUT_WITHOUT_IN] += 1
        return
    else:
        ran_unseen(s, out, q, c, t)
    early = woken != 0 and t - s.early[q] <= se.SKEW_NS
    free = s.task[q, task_row.THROTTLED] == 0
    unwoken = s.task[q, task_row.DOUBTED] == task_row.UNWOKEN
    if keeps and free:
        begin_wait(s, q, -1 - woken if woken < 0 and early else c, t)
        if woken < 0 and early:
            s.task[q, task_row.DOUBTED] = task_row.PERHAPS_ASLEEP
            emit(s, out, t, -1 - woken, s.task[q, task_row.MASK], se.MIGRATE)
        return
    s.task[q, task_row.STATE] = task_row.ASLEEP
    s.task[q, task_row.CPU] = c
    s.since[q] = t
    s.task[q, task_row.DOUBTED] = task_row.UNWOKEN if unwoken else task_row.SURE
    if (
        woken > 0 and free and early and s.numbers[se.WAKINGS] != 0
    ):  # the waker waited for this switch
        begin_wait(s, q, woken - 1, t)
        s.task[q, task_row.DOUBTED] = task_row.PERHAPS_ASLEEP
        if woken - 1 != c:
            emit(s, out, t, woken - 1, s.task[q, task_row.MASK], se.WAKEUP)
    elif woken > 0 and free and (early or s.numbers[se.WAKINGS] != 0):
        s.task[q, task_row.CPU] = woken - 1
        s.task[q, task_row.DOUBTED] = task_row.PERHAPS_WAITS


@callee
def _switch_in(s: State, out: Output, p: int, q: int, c: int, t: int) -> None:
    """Task ``p`` begins to run on CPU ``c``, where ``q`` stopped."""
    old = s.task[p, task_row.CPU]
    unwoken = s.task[p, task_row.DOUBTED] == task_row.PERHAPS_ASLEEP
    if s.task[p, task_row.STATE] == task_row.WAITING:
        if old != c:
            odd(s, out, old, s.since[p], t, se.ODD_MIGRATE_ELSEWHERE)
            odd_unseen(s, out, p, c, t, se.ODD_MIGRATE_ELSEWHERE)
        if not parked(s, p):
            doubt_wait(s, out, p, t)
        elif s.task[p, task_row.LIMITED] == task_row.UNLIMITED:  # it was elsewhere, unseen
            odd(s, out, c, s.since[p], t, se.ODD_PARKED)
        elif q != 0:  # nobody knows when it became runnable while others ran here
            odd(s, out, c, s.cpu[c, cpu_row.BUSY_SINCE], t, se.ODD_PARKED)
        end_wait(s, out, p, c, t)
        if old != c:
            emit(s, out, t, old, s.task[p, task_row.MASK], se.SWITCH)
    else:
        unwoken = s.task[p, task_row.STATE] == task_row.ASLEEP
        in_unseen(s, out, p, c, t)
    s.cpu[c, cpu_row.NR] += 1
    s.task[p, task_row.DOUBTED] = task_row.UNWOKEN if unwoken else task_row.SURE
    s.began[p] = t
    s.task[p, task_row.STATE] = task_row.RUNNING
    s.task[p, task_row.CPU] = c
    s.task[p, task_row.RAN] = c
    s.task[p, task_row.WOKEN] = 0


@callee
def _switch(
    s: State, out: Output, t: int, c: int, p: int, q: int, keeps: bool, parks: bool
) -> None:
    """CPU ``c`` stops task ``q`` (-1: not known) and runs ``p``."""
    mask_p = s.task[p, task_row.MASK] if p > 0 else 0
    mask_q = s.task[q, task_row.MASK] if q > 0 else 0
    x = s.cpu[c, cpu_row.CURR]
    left = t
    if s.cpu[c, cpu_row.SWITCHES] == 0:
        doubt_offline(s, out, c, t)
    doubt_unseen(s, out, c, t)
    if x >= 0 and x != q:
        left = curr_left_unseen(s, out, q, c, t)
    if q > 0:
        _switch_out(s, out, q, c, t, keeps)
    if p > 0:
        if x == 0:
            s.cpu[c, cpu_row.BUSY_SINCE] = left
        _switch_in(s, out, p, q, c, t)
    s.cpu[c, cpu_row.CURR] = p
    if p == 0 and parks and q > 0 and s.task[q, task_row.ROLE] != task_row.NO_ROLE:
        # the CPU goes offline (kernel/cpu.c, v6.12: takedown_cpu())
        s.cpu[c, cpu_row.CURR] = cpu_row.CURR_UNKNOWN
    s.cpu[c, cpu_row.SEEN] = t
    s.cpu[c, cpu_row.SWITCHES] += 1
    if p == 0 and x != 0:
        doubt_parked(s, out, c, t)
    if p == 0 and s.cpu[c, cpu_row.WAITING] == 1:
        woken_late(s, out, c, t)
    if p == 0 and s.cpu[c, cpu_row.WAITING] > 0 and s.numbers[se.PARKS] != 0:
        park(s, out, c, t, se.SWITCH)
    if mask_q > 0 and mask_q != mask_p:
        emit(s, out, t, c, mask_q, se.SWITCH)
    emit(s, out, t, c, mask_p, se.SWITCH)
    compare(s, out, c, t)


@callee
def _woken_while_running(s: State, out: Output, t: int, c: int, p: int, late: bool) -> None:
    """Task ``p`` is woken while it seems to run; ``late``: the wakeup may be the one that made it run."""
    on = s.task[p, task_row.CPU]
    if late:
        s.task[p, task_row.DOUBTED] = task_row.SURE
    else:
        s.task[p, task_row.WOKEN] = c + 1
        s.early[p] = t
    if s.numbers[se.WAKINGS] != 0:
        return
    if on == c:  # it was about to sleep: the kernel reports such a wakeup, too
        s.odd[se.ODD_WAKEUP_OF_QUEUED] += 1
    else:  # nobody knows when it left the other CPU
        odd(s, out, on, s.cpu[on, cpu_row.SEEN], t, se.ODD_WAKEUP_OF_QUEUED)


@callee
def _wakeup(s: State, out: Output, t: int, c: int, p: int, k: int) -> None:
    """Task ``p`` joins the runqueue of CPU ``c``.

    A sched_waking of a running task finds it about to sleep. If the task then goes to sleep, the waker waited until it had
    stopped (kernel/sched/core.c, v6.12: try_to_wake_up, ``smp_cond_load_acquire(&p->on_cpu)``).
    """
    state = s.task[p, task_row.STATE]
    unwoken = s.task[p, task_row.DOUBTED] == task_row.UNWOKEN
    late = unwoken and t - s.began[p] <= se.SKEW_NS
    if state == task_row.RUNNING:
        _woken_while_running(s, out, t, c, p, late)
        return
    idle = s.cpu[c, cpu_row.CURR] == 0 and s.cpu[c, cpu_row.NR] == 0
    if late and state == task_row.ASLEEP and idle:
        # this is the wakeup that caused the last run, told late; if it is a new wakeup, the idle CPU runs the task at once
        s.task[p, task_row.CPU] = c
        s.task[p, task_row.DOUBTED] = task_row.PERHAPS_WAITS
        return
    if state == task_row.WAITING and not parked(s, p):
        old = s.task[p, task_row.CPU]
        if s.task[p, task_row.DOUBTED] == task_row.PERHAPS_ASLEEP:  # so it slept
            doubt_idle(s, out, p, t)
        else:
            odd(s, out, old, s.since[p], t, se.ODD_WAKEUP_OF_QUEUED)
            if old == c:
                return
        end_wait(s, out, p, c, t)
        emit(s, out, t, old, s.task[p, task_row.MASK], k)
    elif state == task_row.WAITING:
        s.cpu[s.task[p, task_row.CPU], cpu_row.PARKED] -= 1
    begin_wait(s, p, c, t)
    if late:  # this may be the wakeup that caused the last run; if so, the task sleeps now
        s.task[p, task_row.DOUBTED] = task_row.PERHAPS_ASLEEP
        s.cpu[c, cpu_row.LATE] = p
    emit(s, out, t, c, s.task[p, task_row.MASK], k)
    compare(s, out, c, t)


@callee
def _throttle(s: State, out: Output, t: int, c: int, p: int) -> None:
    """Task ``p`` is throttled: it leaves the runqueue of CPU ``c`` as soon as it stops running."""
    s.task[p, task_row.THROTTLED] = 1
    if s.task[p, task_row.STATE] == task_row.WAITING and not parked(s, p):
        old = s.task[p, task_row.CPU]
        end_wait(s, out, p, c, t)
        s.task[p, task_row.STATE] = task_row.ASLEEP
        s.since[p] = t
        emit(s, out, t, old, s.task[p, task_row.MASK], se.THROTTLE)
        compare(s, out, old, t)


@callee
def _unthrottle(s: State, out: Output, t: int, c: int, p: int) -> None:
    """Task ``p`` is back on the runqueue of CPU ``c``, without a wakeup."""
    s.task[p, task_row.THROTTLED] = 0
    if s.task[p, task_row.STATE] == task_row.ASLEEP:
        _wakeup(s, out, t, c, p, se.UNTHROTTLE)


@callee
def _migrate(s: State, out: Output, t: int, c: int, p: int, src: int) -> None:
    """Task ``p`` moves from CPU ``src`` (-1: not told) to CPU ``c``."""
    old, state = s.task[p, task_row.CPU], s.task[p, task_row.STATE]
    if state == task_row.RUNNING and old != c and s.task[p, task_row.WOKEN] <= 0:
        s.task[p, task_row.WOKEN] = -1 - c
        s.early[p] = t
    if state == task_row.RUNNING or (old == c and (src < 0 or src == c)):
        return
    if state != task_row.WAITING:
        s.task[p, task_row.CPU] = c
        return
    if src >= 0 and src != old and not parked(s, p):  # it had moved there unseen
        odd(s, out, old, s.since[p], t, se.ODD_MIGRATE_ELSEWHERE)
    doubt_wait(s, out, p, t)
    asleep = s.task[p, task_row.DOUBTED] == task_row.PERHAPS_ASLEEP
    end_wait(s, out, p, c, t)
    begin_wait(s, p, c, t)
    if asleep:
        s.task[p, task_row.DOUBTED] = task_row.PERHAPS_ASLEEP
    emit(s, out, t, old, s.task[p, task_row.MASK], se.MIGRATE)
    emit(s, out, t, c, s.task[p, task_row.MASK], se.MIGRATE)
    compare(s, out, old, t)
    compare(s, out, c, t)


@callee
def _fork(s: State, t: int, p: int, parent: int) -> None:
    """Task ``p`` is born."""
    state = s.task[p, task_row.STATE]
    if state == task_row.WAITING or state == task_row.RUNNING:
        return
    s.task[p, task_row.STATE] = task_row.ASLEEP
    s.task[p, task_row.CPU] = -1  # another task may have had this number before
    s.task[p, task_row.RAN] = -1
    s.since[p] = t
    if parent <= 0:
        return
    evidence = s.task[parent, task_row.EVIDENCE]
    if s.task[parent, task_row.CHILD_REPINNED] == task_row.ALL_REPINNED:
        evidence = task_row.ASSUMED
    if s.numbers[se.INHERITS] == 0:
        if s.task[p, task_row.EVIDENCE] == task_row.TOLD:  # a snapshot told of the child itself
            return
        repinned = s.task[p, task_row.REPINNED] + s.task[parent, task_row.CHILD_REPINNED]
        evidence = task_row.INHERITED if evidence > 0 and repinned == 0 else task_row.ASSUMED
    if evidence > 0 or s.task[p, task_row.EVIDENCE] > 0:
        s.task[p, task_row.MASK] = s.task[parent, task_row.MASK] if evidence > 0 else task_row.FREE
    s.task[p, task_row.EVIDENCE] = evidence
    limit = s.task[0, task_row.LIMITED]
    if (
        limit != task_row.UNLIMITED
    ):  # some group has a limit, and the task may have been put into it since
        limit = max(limit, s.task[parent, task_row.LIMITED])
        s.task[p, task_row.LIMITED] = max(limit, s.task[p, task_row.LIMITED])


@callee
def _affinity(s: State, out: Output, t: int, p: int, new: int) -> None:
    """Task ``p`` may run on the CPUs of mask ``new`` from now on."""
    old = s.task[p, task_row.MASK]
    if s.task[p, task_row.STATE] == task_row.RUNNING and s.numbers[se.LOOKS_LATE] != 0:
        c = s.task[p, task_row.CPU]
        changed = old != new and s.task[p, task_row.EVIDENCE] != task_row.ASSUMED
        if changed and s.cpu[c, cpu_row.SEEN] == t and t - s.since[p] >= PRESUMED_NS:
            doubt(s, out, c, s.since[p], t, se.MASK_TOLD_LATE)
    if s.task[p, task_row.STATE] != task_row.WAITING or parked(s, p):
        s.task[p, task_row.EVIDENCE] = task_row.TOLD
        s.task[p, task_row.MASK] = new
        return
    if old == new and s.task[p, task_row.EVIDENCE] == task_row.TOLD:
        return
    c = s.task[p, task_row.CPU]
    doubt_wait(s, out, p, t)
    write_wait(s, out, p, t)
    s.since[p] = t
    count_waiting(s, p, -1)
    if old > 0:
        emit(s, out, t, c, old, se.AFFINITY)
    s.task[p, task_row.EVIDENCE] = task_row.TOLD
    s.task[p, task_row.MASK] = new
    count_waiting(s, p, 1)
    emit(s, out, t, c, new, se.AFFINITY)


@callee
def _snapshot(s: State, out: Output, t: int, c: int, p: int, now: int) -> None:
    """Task ``p`` is on CPU ``c`` in state ``now``."""
    state = s.task[p, task_row.STATE]
    if state == task_row.WAITING or state == task_row.RUNNING:
        return
    if now == task_row.WAITING:
        begin_wait(s, p, c, t)
    elif now == task_row.RUNNING:
        s.cpu[c, cpu_row.NR] += 1
        s.cpu[c, cpu_row.CURR] = p
        s.cpu[c, cpu_row.SEEN] = t
        s.task[p, task_row.STATE] = task_row.RUNNING
        s.task[p, task_row.CPU] = c
        s.task[p, task_row.RAN] = c
    else:
        s.task[p, task_row.STATE] = task_row.ASLEEP
        s.task[p, task_row.CPU] = c
        s.since[p] = t
        return
    emit(s, out, t, c, s.task[p, task_row.MASK], se.SNAPSHOT)


@callee
def _forget(s: State, out: Output, t: int, c: int) -> None:
    """CPU ``c`` loses events: nobody knows what it runs until its next switch, or whether a thread waits until its next event."""
    for p in range(1, s.task.shape[0]):
        if s.task[p, task_row.STATE] == task_row.WAITING:
            s.task[p, task_row.DOUBTED] = task_row.LOST_MEANWHILE
    q = s.cpu[c, cpu_row.CURR]
    if q > 0 and s.task[q, task_row.STATE] == task_row.RUNNING:
        s.cpu[c, cpu_row.NR] -= 1
        s.task[q, task_row.STATE] = task_row.UNKNOWN
        s.since[q] = -1
    s.cpu[c, cpu_row.CURR] = cpu_row.CURR_UNKNOWN
    s.cpu[c, cpu_row.KERNEL_NR] = -1
    s.cpu[c, cpu_row.DIFFERS] = -1
    emit(s, out, t, c, 0, se.FORGET)


@lean
def run(e: Events, s: State, out: Output) -> None:
    """Pass 2: apply events; write runqueue changes, finished waits and doubts, and their numbers to ``s.numbers``.

    ``out`` has room for 10 changes per event, and for two per task that waits when the call begins.
    """
    s.numbers[se.N_CHANGES] = 0
    s.numbers[se.N_WAITS] = 0
    s.numbers[se.N_DOUBTS] = 0
    for i in range(e.code.size):
        k, t = e.code[i], e.ts_ns[i]
        c, p = e.cpu[i], e.pid[i]
        if i > 0:
            s.numbers[se.BEFORE_NS] = e.ts_ns[i - 1]
        if k == se.SWITCH:
            _switch(s, out, t, c, p, e.prev_pid[i], e.aux[i] == se.STAYS, e.aux[i] == se.PARKED)
        elif k == se.COUNT:
            s.cpu[c, cpu_row.KERNEL_NR] = e.aux[i]
            emit(s, out, t, c, 0, k)
            compare(s, out, c, t)
        elif k == se.HOTPLUG:
            s.cpu[c, cpu_row.OFFLINE] = 1 - e.aux[i]
            emit(s, out, t, c, 0, k)
        elif k == se.FORGET:
            _forget(s, out, t, c)
        elif p <= 0:
            continue
        elif k == se.WAKEUP or k == se.WAKEUP_NEW:
            _wakeup(s, out, t, c, p, k)
        elif k == se.THROTTLE:
            _throttle(s, out, t, c, p)
        elif k == se.UNTHROTTLE:
            _unthrottle(s, out, t, c, p)
        elif k == se.MIGRATE:
            _migrate(s, out, t, c, p, e.src_cpu[i])
        elif k == se.FORK:
            _fork(s, t, p, e.by_pid[i])
        elif k == se.EXIT:
            s.task[p, task_row.WOKEN] = 0
        elif k == se.AFFINITY:
            _affinity(s, out, t, p, e.aux[i])
        elif k == se.SNAPSHOT:
            _snapshot(s, out, t, c, p, e.aux[i])
    if e.code.size > 0:
        s.numbers[se.BEFORE_NS] = e.ts_ns[-1]


@lean
def finish(s: State, out: Output, end_ns: int) -> None:
    """Write the waits and doubts that had not ended when the trace ended."""
    s.numbers[se.N_WAITS] = 0
    s.numbers[se.N_DOUBTS] = 0
    for p in range(1, s.task.shape[0]):
        state, c = s.task[p, task_row.STATE], s.task[p, task_row.CPU]
        if state == task_row.WAITING and not parked(s, p):
            doubt_wait(s, out, p, end_ns)
            end_wait(s, out, p, c, end_ns)
        elif state == task_row.WAITING and s.task[p, task_row.LIMITED] == task_row.UNLIMITED:
            if s.cpu[c, cpu_row.KERNEL_NR] < 0:
                doubt(s, out, -1, s.since[p], end_ns, se.ELSEWHERE)
        elif state == task_row.ASLEEP and s.task[p, task_row.DOUBTED] == task_row.PERHAPS_WAITS:
            if s.since[p] >= 0 and s.cpu[c, cpu_row.CURR] != 0:
                doubt(s, out, c, unseen_since(s, p, c), end_ns, se.WOKEN_EARLY)
        elif state == task_row.ASLEEP and s.task[p, task_row.RECORDER] != 0 and c >= 0:
            if s.cpu[c, cpu_row.CURR] != 0:
                odd_unseen(s, out, p, c, end_ns, se.ODD_IN_WITHOUT_WAKEUP)
        elif state == task_row.UNKNOWN and s.since[p] >= 0:
            if s.cpu[c, cpu_row.CURR] != 0:
                odd_unseen(s, out, p, c, end_ns, se.ODD_LEFT_UNSEEN)
    for c in range(s.cpu.shape[0]):
        doubt_count(s, out, c, end_ns)
        doubt_unseen(s, out, c, end_ns)
        if s.cpu[c, cpu_row.CURR] != 0:
            doubt_parked(s, out, c, end_ns)
