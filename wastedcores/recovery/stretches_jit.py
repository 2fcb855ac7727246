"""One pass over a trace's task events: what every task did, on a clock of its own CPU time.

Each task has a clock that advances while the task is on a CPU. Everything that a task does (it sleeps, forks, wakes another task,
writes a mark, exits) is noted with the time on this clock, because this time stays the same when the scheduler changes.
The cost of a context switch is the scheduler's and not the task's, so the clock starts ``switch_ns`` after each switch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import inner, jit

I64 = NDArray[np.int64]

# columns of the table of each task's first row, and of the table of name changes
F_PID, F_ROW, F_TASK = range(3)
C_TASK, C_ROW, C_PREV = range(3)


# codes of events
SWITCH, WAKEUP, WAKEUP_NEW, MIGRATE, FORK, EXIT, MARK, WAKING = range(8)
# columns of an event
E_TS, E_KIND, E_CPU, E_PID, E_PREV, E_ASLEEP, E_BY, E_SRC, E_IRQ, E_ROW = range(10)
E_WIDTH = 10

# columns of a task
(
    T_PID,  # its number in the trace
    T_PARENT,  # the task that forked it, or -1
    T_BORN_AT,  # the parent's clock at the fork
    T_BORN_NS,  # time of the fork; -1: it is older than the trace
    T_FIRST_NS,  # time and CPU at which it is seen first
    T_FIRST_CPU,
    T_FIRST_STATE,  # ASLEEP, WAITING or RUNNING before the event that shows it first
    T_EXIT_NS,  # time of its end (of its exit event, or later if it runs on for long); -1: no end was seen
    T_EXIT_AT,  # its clock at its end
    T_STATE,  # its state after the last event
    T_RAN,  # its clock (while it runs: its clock at T_SINCE)
    T_SINCE,  # when its present span on a CPU began, after the cost of the switch
    T_CPU,  # the CPU on which it is
    T_SLEEP,  # row of its present sleep, or -1
    T_SLEPT,  # time asleep
    T_NUMBER,  # how many sleeps it had
    T_MOVED,  # whether it was ever seen on two CPUs
    T_PRIO_ROW,  # row of an event that shows its name and priority
    T_HERE_NS,  # when it became runnable on its present CPU
    T_EXITING_NS,  # time of its exit event, or -1
) = range(20)
T_WIDTH = 20
#: Since 6.16, do_exit() of kernel/exit.c writes the exit event before exit_mm(). In older kernels, a task uses at most this much
#: CPU time after the event; in recordings of 4.1 and 6.1 it was at most 88 us.
EXITING_NS = 100_000

# the state in which a switch leaves the task that ran, in E_ASLEEP
AWAKE, SLEEPS, DEAD = range(3)

UNSEEN, ASLEEP, WAITING, RUNNING, GONE = range(5)

# columns of a sleep
(
    S_TASK,
    S_OUT_NS,  # when it left the CPU
    S_AT,  # its clock at that moment
    S_OUT_CPU,
    S_WAKE_NS,  # when it became runnable; -1: it still sleeps when the trace ends
    S_BY,  # the task that ran where the wakeup happened; or -1: none, or not known; or INTERRUPT
    S_BY_AT,  # that task's clock
    S_FAR,  # 1: the wakeup was decided on another CPU than the one on which the task was queued, so S_BY is its waker
    S_TOLD_NS,  # the time of the event that told S_BY
    S_FROM_CPU,  # where it was before it was woken
    S_WAKE_CPU,
    S_CLASS,  # filled in later
    S_WAKER,  # filled in later: the task that ended the sleep, or -1
    S_WAKER_AT,  # filled in later: that task's clock
    S_WAKER_NS,  # filled in later: when the waker acted (before the wakeup, if the waker was on a far CPU)
) = range(15)
S_WIDTH = 15
#: stands for an interrupt that decided the wakeup on another CPU than the CPU on whose queue the task was put
INTERRUPT = -2
#: A task is put on a queue within this time after the sched_migrate_task of its wakeup (in recordings of 4.1 to 6.12, within 8
#: us). An earlier sched_migrate_task is from the balancer, which moves sleepers since 6.12 (delayed dequeue, fair.c).
PLACED_WITHIN_NS = 50_000
#: in S_FAR until the wakeup: the task that moved the sleeper pulled it to its own CPU
PULLED = 2
#: in S_FAR: a sched_waking names the task that woke the sleeper
NAMED = 3

# columns of a piece: a span on a CPU, and the task's clock at its beginning
# P_HERE is when the task became runnable on that CPU
P_TASK, P_SINCE, P_END, P_CLOCK, P_CPU, P_HERE = range(6)
P_WIDTH = 6

# columns of a mark
M_TASK, M_AT, M_NS, M_ROW = range(4)
M_WIDTH = 4


@inner
def _clock(tasks: I64, t: int, now: int) -> int:
    """Return a task's own clock."""
    ran = tasks[t, T_RAN]
    if tasks[t, T_STATE] == RUNNING and now > tasks[t, T_SINCE]:
        ran += now - tasks[t, T_SINCE]
    return ran


@inner
def _new(tasks: I64, n: int, of_pid: I64, pid: int, now: int, cpu: int, row: int) -> int:
    """Begin a task; return its number."""
    tasks[n] = 0
    tasks[n, T_PID] = pid
    tasks[n, T_PARENT] = -1
    tasks[n, T_BORN_NS] = -1
    tasks[n, T_FIRST_NS] = now
    tasks[n, T_FIRST_CPU] = cpu
    tasks[n, T_EXIT_NS] = tasks[n, T_EXITING_NS] = -1
    tasks[n, T_CPU] = cpu
    tasks[n, T_SLEEP] = -1
    tasks[n, T_PRIO_ROW] = row
    of_pid[pid] = n
    return n


@inner
def _place(tasks: I64, t: int, now: int, cpu: int) -> None:
    """Note where a task is."""
    if tasks[t, T_CPU] != cpu:
        tasks[t, T_HERE_NS] = now
        tasks[t, T_MOVED] = 1
        tasks[t, T_CPU] = cpu


@inner
def _begin_sleep(tasks: I64, sleeps: I64, s: int, t: int, now: int, cpu: int) -> None:
    """Note that a task sleeps."""
    sleeps[s] = -1
    sleeps[s, S_TASK] = t
    sleeps[s, S_OUT_NS] = now
    sleeps[s, S_AT] = tasks[t, T_RAN]
    sleeps[s, S_OUT_CPU] = sleeps[s, S_FROM_CPU] = cpu
    sleeps[s, S_FAR] = 0
    sleeps[s, S_CLASS] = 0
    tasks[t, T_SLEEP] = s
    tasks[t, T_NUMBER] += 1


@inner
def _name_waker(tasks: I64, sleeps: I64, t: int, by: int, event: I64, far: int) -> None:
    """Note the task that ran where a task's wakeup was decided, unless a sched_migrate_task has already shown this task.

    A wakeup that an interrupt decided has no waker. But an interrupt on the sleeper's new CPU may only have put the sleeper on
    the queue there. If a task moves the sleeper to its own CPU, the move is part of the wakeup only if the same task then also
    puts the sleeper on the queue of this CPU. Otherwise the balancer pulled the sleeper.
    """
    s, now = tasks[t, T_SLEEP], event[E_TS]
    if s < 0 or sleeps[s, S_FAR] == NAMED:
        return
    told = sleeps[s, S_TOLD_NS]
    if event[E_KIND] != MIGRATE:
        there = sleeps[s, S_FAR] != PULLED or (
            by == sleeps[s, S_BY] and not far and not event[E_IRQ]
        )
        if told >= 0 and now - told <= PLACED_WITHIN_NS and there:
            sleeps[s, S_FAR] = int(sleeps[s, S_FAR] > 0)
            return
        sleeps[s, S_FROM_CPU] = tasks[t, T_CPU]
    else:
        sleeps[s, S_FROM_CPU] = event[E_SRC]
        if by >= 0 and tasks[by, T_CPU] == event[E_CPU]:
            far = PULLED
    if event[E_IRQ]:
        by = INTERRUPT if far else -1
    sleeps[s, S_BY], sleeps[s, S_TOLD_NS] = by, now
    sleeps[s, S_BY_AT] = _clock(tasks, by, now) if by >= 0 else 0
    sleeps[s, S_FAR] = far if by >= 0 else 0


@inner
def _waking(tasks: I64, sleeps: I64, t: int, by: int, event: I64) -> None:
    """Note who wakes a sleeper: the task that ran where its sched_waking was written, or an interrupt there."""
    s = tasks[t, T_SLEEP]
    if tasks[t, T_STATE] != ASLEEP or s < 0 or (by < 0 and not event[E_IRQ]):
        return
    sleeps[s, S_BY] = INTERRUPT if event[E_IRQ] else by
    sleeps[s, S_BY_AT] = 0 if event[E_IRQ] else _clock(tasks, by, event[E_TS])
    sleeps[s, S_TOLD_NS], sleeps[s, S_FROM_CPU] = event[E_TS], tasks[t, T_CPU]
    sleeps[s, S_FAR] = NAMED


@inner
def _wake(tasks: I64, sleeps: I64, t: int, now: int, cpu: int) -> None:
    """End a task's sleep."""
    s = tasks[t, T_SLEEP]
    if s >= 0:
        sleeps[s, S_WAKE_NS] = now
        sleeps[s, S_WAKE_CPU] = cpu
        tasks[t, T_SLEPT] += now - sleeps[s, S_OUT_NS]
        tasks[t, T_SLEEP] = -1
    elif tasks[t, T_EXIT_NS] >= 0:  # it slept while it exited
        tasks[t, T_EXIT_NS], tasks[t, T_EXIT_AT] = now, tasks[t, T_RAN]
    tasks[t, T_STATE] = WAITING
    tasks[t, T_HERE_NS] = now


@inner
def _switch_out(tasks: I64, sleeps: I64, s: int, t: int, now: int, cpu: int, asleep: int) -> int:
    """Take a task from its CPU; return the number of sleeps."""
    tasks[t, T_RAN] = _clock(tasks, t, now)
    if asleep and tasks[t, T_EXIT_NS] >= 0:
        # a task may sleep while it exits, but this is no sleep of its program
        tasks[t, T_STATE] = GONE if asleep == DEAD else ASLEEP
        if asleep == DEAD and tasks[t, T_RAN] - tasks[t, T_EXIT_AT] > EXITING_NS:
            tasks[t, T_EXIT_NS], tasks[t, T_EXIT_AT] = now, tasks[t, T_RAN]
    elif asleep:
        tasks[t, T_STATE] = ASLEEP
        _begin_sleep(tasks, sleeps, s, t, now, cpu)
        s += 1
    else:
        tasks[t, T_STATE] = WAITING
        tasks[t, T_HERE_NS] = now
    return s


@inner
def _switch_in(tasks: I64, sleeps: I64, t: int, now: int, cpu: int, switch_ns: int) -> None:
    """Put a task on a CPU; if its wakeup is missing, it woke up now."""
    state = tasks[t, T_STATE]
    if state == ASLEEP:
        _wake(tasks, sleeps, t, now, cpu)
    elif state == UNSEEN:
        tasks[t, T_FIRST_STATE] = WAITING
    _place(tasks, t, now, cpu)
    tasks[t, T_STATE] = RUNNING
    tasks[t, T_SINCE] = now + switch_ns


@inner
def _seen_running(tasks: I64, t: int, start_ns: int) -> None:
    """Assume that a task which is running when it is first seen has run since the trace began."""
    tasks[t, T_FIRST_NS] = tasks[t, T_SINCE] = tasks[t, T_HERE_NS] = start_ns
    tasks[t, T_FIRST_STATE] = tasks[t, T_STATE] = RUNNING


@inner
def _other(tasks: I64, sleeps: I64, t: int, event: I64, by: int) -> None:
    """Handle an event of a task that is no switch, no birth and no mark."""
    now, kind, cpu = event[E_TS], event[E_KIND], event[E_CPU]
    if kind == EXIT:
        tasks[t, T_EXIT_NS] = tasks[t, T_EXITING_NS] = now
        tasks[t, T_EXIT_AT] = _clock(tasks, t, now)
        return
    if kind == MIGRATE:
        _name_waker(tasks, sleeps, t, by, event, 1)
    elif tasks[t, T_STATE] == ASLEEP:
        far = event[E_SRC] >= 0 and event[E_SRC] != cpu
        _name_waker(tasks, sleeps, t, by, event, int(far))
        _wake(tasks, sleeps, t, now, cpu)
    # a wakeup can name another CPU before the task has left its old CPU
    if tasks[t, T_STATE] != RUNNING:
        _place(tasks, t, now, cpu)


@inner
def _fork(tasks: I64, t: int, parent: int, now: int) -> None:
    """Note a birth."""
    tasks[t, T_BORN_NS] = now
    tasks[t, T_FIRST_STATE] = tasks[t, T_STATE] = ASLEEP
    tasks[t, T_PARENT] = parent
    tasks[t, T_BORN_AT] = _clock(tasks, parent, now) if parent >= 0 else 0


@inner
def _task_of(tasks: I64, of_pid: I64, n: int, event: I64, start_ns: int) -> int:
    """Return the task of an event; a new task gets the number n."""
    pid, kind = event[E_PID], event[E_KIND]
    t = of_pid[pid]
    if t < 0 or kind == FORK:
        t = _new(tasks, n, of_pid, pid, event[E_TS], event[E_CPU], event[E_ROW])
        if kind == EXIT or kind == MARK:
            _seen_running(tasks, t, start_ns)
        if kind == MIGRATE:
            tasks[t, T_CPU] = tasks[t, T_FIRST_CPU] = event[E_SRC]
    return t


@inner
def _piece(tasks: I64, pieces: I64, n: int, t: int, now: int) -> int:
    """Note the span on a CPU that ends now; return the number of spans."""
    if tasks[t, T_STATE] != RUNNING or now <= tasks[t, T_SINCE]:
        return n
    pieces[n, P_TASK], pieces[n, P_SINCE], pieces[n, P_END] = t, tasks[t, T_SINCE], now
    pieces[n, P_CLOCK], pieces[n, P_CPU] = tasks[t, T_RAN], tasks[t, T_CPU]
    pieces[n, P_HERE] = tasks[t, T_HERE_NS]
    return n + 1


@jit
def changes(
    events: I64, comm: I64, prev_comm: I64, first: I64, of_pid: I64, last: I64, out: I64
) -> int:
    """Write each change of a name: task, row, whether it is the row's previous task. Return their number; -1 if ``out`` is full.

    ``comm`` and ``prev_comm`` have a number for each event's name, -1 for none. ``first`` has the tasks in the order of the rows
    that show them first. ``of_pid`` and ``last`` (the name of each task) begin with -1.
    """
    n = k = 0
    for row in range(len(events)):
        while k < len(first) and first[k, F_ROW] <= row:
            of_pid[first[k, F_PID]] = first[k, F_TASK]
            k += 1
        for former in range(2):
            pid = events[row, E_PREV] if former else events[row, E_PID]
            name = prev_comm[row] if former else comm[row]
            if pid <= 0 or name < 0 or pid >= len(of_pid):
                continue
            task = of_pid[pid]
            if task < 0 or last[task] == name:
                continue
            if n == len(out):
                return -1
            last[task] = name
            out[n, C_TASK], out[n, C_ROW], out[n, C_PREV] = task, row, former
            n += 1
    return n


@jit
def stretches(
    events: I64,
    tasks: I64,
    sleeps: I64,
    marks: I64,
    pieces: I64,
    of_pid: I64,
    of_cpu: I64,
    start_ns: int,
    switch_ns: int,
) -> tuple[int, int, int, int]:
    """Go through the events once and fill the tables; return the number of rows of each table.

    ``events`` is in order of time. E_ASLEEP tells whether a switch leaves its task asleep or dead. ``of_cpu`` is -2 for a CPU
    without a switch so far, and -1 for an idle CPU. If a switch names another previous task than the task that was running on the
    CPU, the running task has left the CPU without an event, at the latest at the switch.
    """
    n = s = m = k = 0
    for e in range(len(events)):
        event = events[e]
        now, kind, cpu = event[E_TS], event[E_KIND], event[E_CPU]
        prev = event[E_PREV] if kind == SWITCH else 0
        gone = of_cpu[cpu] if kind == SWITCH else -1
        if gone >= 0 and gone != of_pid[prev] and tasks[gone, T_STATE] == RUNNING:
            k = _piece(tasks, pieces, k, gone, now)
            s = _switch_out(tasks, sleeps, s, gone, now, cpu, 0)
        if prev > 0:
            p = of_pid[prev]
            if p < 0:
                p = _new(tasks, n, of_pid, prev, now, cpu, event[E_ROW])
                _seen_running(tasks, p, start_ns if of_cpu[cpu] == -2 else now)
                n += 1
            k = _piece(tasks, pieces, k, p, now)
            s = _switch_out(tasks, sleeps, s, p, now, cpu, event[E_ASLEEP])
            if tasks[p, T_STATE] == GONE:
                of_pid[prev] = -1
        if kind == SWITCH:
            of_cpu[cpu] = -1
        if event[E_PID] <= 0:
            continue
        by = of_pid[event[E_BY]] if event[E_BY] > 0 else -1
        t = _task_of(tasks, of_pid, n, event, start_ns)
        n += int(t == n)
        if kind == SWITCH:
            _switch_in(tasks, sleeps, t, now, cpu, switch_ns)
            of_cpu[cpu] = t
        elif kind == FORK:
            _fork(tasks, t, by, now)
        elif kind == MARK:
            marks[m, M_TASK], marks[m, M_AT] = t, _clock(tasks, t, now)
            marks[m, M_NS], marks[m, M_ROW] = now, event[E_ROW]
            m += 1
        else:
            if tasks[t, T_STATE] == UNSEEN:  # it has been asleep since the trace began
                tasks[t, T_STATE] = tasks[t, T_FIRST_STATE] = ASLEEP
                _begin_sleep(tasks, sleeps, s, t, start_ns, tasks[t, T_CPU])
                s += 1
            if kind == WAKING:
                _waking(tasks, sleeps, t, by, event)
            else:
                _other(tasks, sleeps, t, event, by)
    for t in range(n):
        k = _piece(tasks, pieces, k, t, events[-1, E_TS])
    return n, s, m, k
