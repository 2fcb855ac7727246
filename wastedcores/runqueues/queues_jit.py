"""The steps by which a runqueue changes: a wait begins or ends, tasks are parked, the change is written down."""

from __future__ import annotations

from wastedcores.jit.compile import callee
from wastedcores.runqueues import cpu_row, task_row
from wastedcores.runqueues import state as se
from wastedcores.runqueues.doubts_jit import doubt, odd
from wastedcores.runqueues.state import Output, State


@callee
def count_waiting(s: State, p: int, by: int) -> None:
    """Count that a wait of task ``p`` begins (``by`` is 1) or ends (-1) on its CPU."""
    if s.numbers[se.STRICT] != 0 and s.task[p, task_row.EVIDENCE] == task_row.ASSUMED:
        return
    m = s.task[p, task_row.MASK]
    c = s.task[p, task_row.CPU]
    if m == task_row.FREE:
        s.cpu[c, cpu_row.FREE_WAITING] += by
    elif m > 0:
        s.restricted[c, m] += by


@callee
def begin_wait(s: State, p: int, c: int, t: int) -> None:
    """Task ``p`` joins the runqueue of ``c`` and waits; if it was running there, the caller has taken it off the queue."""
    s.task[p, task_row.STATE] = task_row.WAITING
    s.task[p, task_row.CPU] = c
    s.task[p, task_row.EPOCH] = s.cpu[c, cpu_row.EPOCH]
    unrecorded = s.numbers[se.UNRECORDED] != 0
    s.task[p, task_row.DOUBTED] = task_row.LOST_MEANWHILE if unrecorded else task_row.SURE
    s.since[p] = t
    s.cpu[c, cpu_row.NR] += 1
    s.cpu[c, cpu_row.WAITING] += 1
    if s.cpu[c, cpu_row.WAITING] == 1:
        s.cpu[c, cpu_row.FIRST_WAIT] = t
    count_waiting(s, p, 1)


@callee
def parked(s: State, p: int) -> bool:
    """Whether the waiting task ``p`` cannot run."""
    return s.task[p, task_row.EPOCH] != s.cpu[s.task[p, task_row.CPU], cpu_row.EPOCH]


@callee
def take_off(s: State, p: int) -> None:
    """Task ``p``, which is not parked, waits on its runqueue no longer."""
    old = s.task[p, task_row.CPU]
    count_waiting(s, p, -1)
    s.cpu[old, cpu_row.NR] -= 1
    s.cpu[old, cpu_row.WAITING] -= 1


@callee
def write_wait(s: State, out: Output, p: int, t: int) -> None:
    """Write down how long task ``p`` waited on its CPU with its present mask."""
    w = s.numbers[se.N_WAITS]
    if t > s.since[p] and out.wait.shape[1] > w:
        out.wait[se.TASK, w] = p
        out.wait[se.CPU, w] = s.task[p, task_row.CPU]
        out.wait[se.WAIT_MASK, w] = s.task[p, task_row.MASK]
        out.wait[se.WAIT_EVIDENCE, w] = s.task[p, task_row.EVIDENCE]
        out.wait_ns[se.START, w] = s.since[p]
        out.wait_ns[se.END, w] = t
        s.numbers[se.N_WAITS] = w + 1


@callee
def end_wait(s: State, out: Output, p: int, c: int, t: int) -> None:
    """End the wait of task ``p``, which is now seen on CPU ``c``.

    A parked task did not wait, unless it is seen on another CPU than before: then it had been moved unseen, and waited there.
    """
    old = s.task[p, task_row.CPU]
    if not parked(s, p):
        take_off(s, p)
    else:
        s.cpu[old, cpu_row.PARKED] -= 1
        if old == c:
            return
    write_wait(s, out, p, t)


@callee
def emit(s: State, out: Output, t: int, c: int, m: int, k: int) -> None:
    """Write the state of CPU ``c`` after event ``k``; if ``m`` > 0, also how many tasks of mask ``m`` wait on it."""
    n = s.numbers[se.N_CHANGES]
    if m > 0:
        out.change_ns[n] = t
        out.change[se.CPU, n] = c
        out.change[se.NR, n] = 0
        out.change[se.FREE, n] = s.restricted[c, m]
        out.change[se.MASK, n] = m
        out.change[se.CODE, n] = k
        n += 1
    nr = s.cpu[c, cpu_row.NR]
    if s.cpu[c, cpu_row.OFFLINE] != 0:
        nr = -1
    elif s.cpu[c, cpu_row.KERNEL_NR] >= 0:
        nr = s.cpu[c, cpu_row.KERNEL_NR]
    elif s.cpu[c, cpu_row.CURR] == cpu_row.CURR_UNKNOWN:
        nr = -1
    if s.cpu[c, cpu_row.ISOLATED] != 0 and nr <= 1:
        nr = -1
    out.change_ns[n] = t
    out.change[se.CPU, n] = c
    out.change[se.NR, n] = nr
    out.change[se.FREE, n] = s.cpu[c, cpu_row.FREE_WAITING]
    out.change[se.MASK, n] = task_row.FREE
    out.change[se.CODE, n] = k
    s.numbers[se.N_CHANGES] = n + 1


@callee
def park(s: State, out: Output, c: int, t: int, k: int) -> None:
    """CPU ``c`` goes idle although tasks wait on its queue, so these tasks have not been able to run since they began to wait."""
    odd(s, out, c, s.cpu[c, cpu_row.FIRST_WAIT], t, se.ODD_PARKED)
    for m in range(1, s.restricted.shape[1]):
        if s.restricted[c, m] != 0:
            s.restricted[c, m] = 0
            emit(s, out, t, c, m, k)
    s.cpu[c, cpu_row.FREE_WAITING] = 0
    s.cpu[c, cpu_row.PARKED] += s.cpu[c, cpu_row.WAITING]
    s.cpu[c, cpu_row.NR] -= s.cpu[c, cpu_row.WAITING]
    s.cpu[c, cpu_row.WAITING] = 0
    s.cpu[c, cpu_row.EPOCH] += 1


@callee
def woken_late(s: State, out: Output, c: int, t: int) -> None:
    """CPU ``c`` goes idle although a task waits: the task sleeps if its wakeup may have come late, after the run it caused."""
    p = s.cpu[c, cpu_row.LATE]
    waits = p > 0 and s.task[p, task_row.STATE] == task_row.WAITING and s.task[p, task_row.CPU] == c
    if waits and not parked(s, p) and s.task[p, task_row.DOUBTED] == task_row.PERHAPS_ASLEEP:
        doubt(s, out, c, s.since[p], t, se.MAYBE_SLEPT)
        take_off(s, p)
        s.task[p, task_row.STATE] = task_row.ASLEEP
        s.task[p, task_row.DOUBTED] = task_row.PERHAPS_WAITS
        emit(s, out, t, c, s.task[p, task_row.MASK], se.SWITCH)
