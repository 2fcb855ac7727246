"""Pass 1 over a trace of task events: the state before its first event."""

from __future__ import annotations

from wastedcores.jit.compile import callee, lean
from wastedcores.runqueues import cpu_row, task_row
from wastedcores.runqueues import state as se
from wastedcores.runqueues.queues_jit import begin_wait
from wastedcores.runqueues.state import Events, State


@callee
def _was(s: State, p: int, state: int, c: int) -> None:
    """Task ``p``, of which nothing else is known, was at first in state ``state`` on CPU ``c``."""
    if p > 0 and s.task[p, task_row.STATE] == task_row.UNKNOWN:
        s.task[p, task_row.STATE] = state
        s.task[p, task_row.CPU] = c


@callee
def _forget(s: State, p: int) -> None:
    """Task ``p`` is first seen after a loss, so nothing is known of it at the start of the trace."""
    if (
        p > 0
        and s.task[p, task_row.STATE] == task_row.UNKNOWN
        and s.task[p, task_row.MOVED_FROM] < 0
    ):
        s.task[p, task_row.STATE] = task_row.ASLEEP
        s.task[p, task_row.DOUBTED] = task_row.PERHAPS_WAITS


@callee
def _had_waited(s: State, p: int, c: int) -> None:
    """Task ``p``, of which nothing else is known, had been waiting on CPU ``c``, or on the CPU from which it was moved."""
    if s.task[p, task_row.RECORDER] != 0:  # its wakeup may be missing
        _was(s, p, task_row.ASLEEP, c)
        return
    moved_from = s.task[p, task_row.MOVED_FROM]
    _was(s, p, task_row.WAITING, moved_from if moved_from >= 0 else c)


@callee
def _woken_late(s: State, p: int, t: int, k: int) -> None:
    """Task ``p``, which first ran shortly before, is woken at ``t``, or is born: it may have slept until then.

    A wakeup may also find a task that still runs but is about to sleep (kernel/sched/core.c, v6.12: try_to_wake_up()).
    """
    late = s.began[p] >= 0 and t - s.began[p] <= se.SKEW_NS
    if p > 0 and s.task[p, task_row.STATE] == task_row.WAITING and late:
        if k == se.FORK or k == se.WAKEUP_NEW:
            s.task[p, task_row.STATE] = task_row.ASLEEP
        else:
            s.task[p, task_row.DOUBTED] = task_row.PERHAPS_ASLEEP


@callee
def _unlisted(s: State, p: int, c: int) -> None:
    """Task ``p``, which the snapshot of all tasks does not list, appears on CPU ``c``: when it became runnable is not known.

    Some kernels hide the tasks of a virtual machine's agent from BPF (seen on 6.18).
    """
    if p > 0 and s.task[p, task_row.STATE] == task_row.UNKNOWN:
        _was(s, p, task_row.ASLEEP, c)
        s.since[p] = s.numbers[se.LISTED_NS]


@callee
def _comes_online(s: State, p: int, q: int) -> bool:
    """Whether a CPU may have been offline before its first event, which runs or wakes task ``p`` in the context of ``q``.

    cpuhp/N and migration/N are woken on a CPU that comes online, and migration/N runs first (kernel/cpu.c:
    cpuhp_online_idle(), v6.12; bringup_wait_for_ap(), v4.14). So a CPU that runs cpuhp/N first was online and idle, and may be
    going offline. If another CPU woke migration/N, an older kernel may have brought the CPU up, but any kernel also wakes
    the migration threads of all CPUs to stop the machine (kernel/stop_machine.c), so the CPU may as well have been idle.
    """
    return q == 0 and p > 0 and s.task[p, task_row.ROLE] != task_row.NO_ROLE


@callee
def _first_switch(s: State, t: int, c: int, p: int, q: int, listed: bool) -> None:
    """Infer the state at the start from a switch from ``q`` to ``p``; ``listed``: an earlier snapshot lists all tasks."""
    curr = s.cpu[c, cpu_row.CURR]
    first = curr == cpu_row.CURR_UNKNOWN or curr == cpu_row.CURR_PERHAPS_OFFLINE
    if first and s.numbers[se.LOSSY] == 0:
        told = q >= 0 and curr == cpu_row.CURR_UNKNOWN and not _comes_online(s, p, q)
        told |= q == 0 and p > 0 and s.task[p, task_row.ROLE] == task_row.HOTPLUGGER
        s.cpu[c, cpu_row.CURR] = q if told else cpu_row.CURR_FROM_SWITCH
    if listed and s.cpu[c, cpu_row.CURR] != q:
        _unlisted(s, q, c)
    _was(s, q, task_row.RUNNING, c)
    if listed:
        _unlisted(s, p, c)
    elif p > 0 and s.task[p, task_row.STATE] == task_row.UNKNOWN:
        _had_waited(s, p, c)
        s.began[p] = t


@callee
def _queued(s: State, p: int, c: int, by: int, where: int) -> None:
    """Task ``p`` was put on the runqueue of CPU ``c``, in the context of ``by`` on CPU ``where``."""
    if p > 0:
        s.task[p, task_row.QUEUED] = 1 if s.numbers[se.WAKINGS] == 0 else -1 - c
        s.task[p, task_row.WAKER] = by
        s.task[p, task_row.WAKER_CPU] = where
    if by > 0 and where >= 0:  # the switch to ``by`` may be missing
        s.task[by, task_row.RAN] = where


@callee
def _looks_repinned(s: State, p: int, c: int, by: int) -> int:
    """Return the value of REPINNED that a move of task ``p`` to CPU ``c``, in the context of ``by``, makes likely.

    A load balancer moves waiting threads to the CPU that it runs on; when it balances for other idle CPUs, it runs in the
    context of the idle task. When the affinity of a waiting thread is changed, the caller moves the thread. When the affinity of
    a running thread is changed, the caller wakes the stopper, which moves the thread (kernel/sched/core.c, v6.12:
    affine_move_task()). The stopper also serves active balancing, which wakes the stopper from the CPU that pulls (fair.c:
    sched_balance_rq()), and sched_exec(), which looks exactly like a change of affinity. cpuhp/N empties a CPU that goes offline;
    a thread that was bound to this CPU, or may have been, gets another affinity (select_fallback_rq()). Where only sched_waking
    was recorded, the move by which a wakeup chooses a CPU comes after sched_waking (core.c: try_to_wake_up()), and the readers
    have already put the thread on the chosen CPU (trace/readers/support/sched_waking_jit.py).
    """
    if by == 0:
        return 0
    told = s.task[p, task_row.EVIDENCE] == task_row.TOLD
    if by > 0 and told and s.task[p, task_row.MASK] == task_row.FREE:
        waker = s.task[by, task_row.WAKER] if s.task[by, task_row.ROLE] == task_row.STOPPER else by
        if waker > 0 and s.task[waker, task_row.ROLE] == task_row.HOTPLUGGER:
            return 0
    if by > 0 and s.task[by, task_row.ROLE] == task_row.STOPPER:
        waker = s.task[by, task_row.WAKER]
        if waker == 0 or s.task[by, task_row.WAKER_CPU] == c:
            return 0
        if waker < 0:
            return task_row.BY_SOMEBODY
        return task_row.BY_ITSELF if waker == p else task_row.BY_ANOTHER
    if s.task[p, task_row.QUEUED] == 0 or s.task[p, task_row.QUEUED] == -1 - c:
        return 0
    if by < 0:
        return task_row.BY_SOMEBODY
    return task_row.BY_ANOTHER if s.task[by, task_row.RAN] != c else 0


@callee
def _note_moves(
    s: State, k: int, t: int, c: int, p: int, q: int, by: int, where: int, keeps: int
) -> None:
    """Find the threads whose affinity may have changed, their parents, and the times of these changes."""
    if k == se.SWITCH:
        if q > 0:
            s.task[q, task_row.QUEUED] = 1 if keeps == se.STAYS else 0
        if p > 0:
            s.task[p, task_row.QUEUED] = 1
            s.task[p, task_row.RAN] = c
    elif k == se.WAKEUP or k == se.WAKEUP_NEW:
        _queued(s, p, c, by, where)
    elif k == se.FORK and p > 0:
        if s.task[p, task_row.QUEUED] != 0 or s.task[p, task_row.RAN] >= 0:
            s.task[p, task_row.REUSED] = 1
        s.task[p, task_row.QUEUED] = 0
        s.task[p, task_row.PARENT] = max(by, 0)
    elif k == se.MIGRATE and p > 0:
        pushed = by > 0 and s.task[by, task_row.ROLE] == task_row.STOPPER
        pushed &= s.task[max(by, 0), task_row.WAKER] != 0
        if pushed:
            s.task[p, task_row.PUSHED] = 1
        by_whom = _looks_repinned(s, p, c, by)
        if by_whom != 0:
            s.task[p, task_row.REPINNED] = max(s.task[p, task_row.REPINNED], by_whom)
            s.task[s.task[p, task_row.PARENT], task_row.CHILD_REPINNED] = 1
        if pushed or (by_whom != 0 and by_whom != task_row.BY_ITSELF):
            n = s.numbers[se.N_REPINS]
            if n < se.MOST_REPINS:
                s.repin_ns[n] = t
            s.numbers[se.N_REPINS] = n + 1


@lean
def infer_start(e: Events, s: State) -> None:
    """Infer what must have been true before the first event of each CPU and each task.

    A CPU runs the task that its first switch stops (pid -1: not known), or the task in whose context its first event happened. A
    task that is switched in without an earlier wakeup had been waiting, unless a snapshot should have listed it. A task that is
    stopped had been running. A task that is woken, forked or unthrottled had not been on a runqueue.
    """
    for i in range(e.code.size):
        k, c, p, by = e.code[i], e.cpu[i], e.pid[i], e.by_pid[i]
        _note_moves(s, k, e.ts_ns[i], c, p, e.prev_pid[i], by, e.src_cpu[i], e.aux[i])
        if k == se.FORGET:
            s.numbers[se.LOSSY] = 1
            continue
        if s.numbers[se.LOSSY] != 0:
            _forget(s, p)
            _forget(s, e.prev_pid[i])
            _forget(s, by)
        listed = 0 <= s.numbers[se.LISTED_NS] < e.ts_ns[i]
        if k == se.SWITCH:
            _first_switch(s, e.ts_ns[i], c, p, e.prev_pid[i], listed)
            continue
        if k == se.MIGRATE:
            if listed:
                _unlisted(s, p, e.src_cpu[i])
            elif (
                p > 0
                and s.task[p, task_row.STATE] == task_row.UNKNOWN
                and s.task[p, task_row.MOVED_FROM] < 0
            ):
                s.task[p, task_row.MOVED_FROM] = e.src_cpu[i]
            continue
        if k == se.SNAPSHOT and e.aux[i] == task_row.ASLEEP:
            _was(s, p, task_row.ASLEEP, c)
            continue
        if k == se.SNAPSHOT and e.aux[i] == task_row.WAITING:
            _had_waited(s, p, c)
            continue
        if k == se.WAKEUP or k == se.WAKEUP_NEW or k == se.FORK or k == se.UNTHROTTLE:
            _woken_late(s, p, e.ts_ns[i], k)
            _was(s, p, task_row.ASLEEP, c)
        # the task in whose context the event happened was running on CPU ``where``
        where = c if k == se.FORK or k == se.EXIT or k == se.CONTEXT else e.src_cpu[i]
        if by >= 0 and where >= 0 and s.numbers[se.LOSSY] == 0:
            if s.cpu[where, cpu_row.CURR] == cpu_row.CURR_UNKNOWN:
                offline = where == c and _comes_online(s, p, by)  # a CPU may wake another's
                s.cpu[where, cpu_row.CURR] = cpu_row.CURR_PERHAPS_OFFLINE if offline else by
                _was(s, by, task_row.RUNNING, where)


@lean
def settle_start(s: State, start_ns: int) -> None:
    """After pass 1: fill the runqueues of the first moment."""
    s.cpu[:, cpu_row.SEEN] = start_ns
    s.cpu[:, cpu_row.BUSY_SINCE] = start_ns
    for p in range(1, s.task.shape[0]):
        if s.task[p, task_row.STATE] == task_row.UNKNOWN and s.task[p, task_row.MOVED_FROM] >= 0:
            # the task was moved between runqueues and never ran: it had been waiting, or its wakeup is missing
            waited = s.task[p, task_row.RECORDER] == 0
            s.task[p, task_row.STATE] = task_row.WAITING if waited else task_row.ASLEEP
            s.task[p, task_row.CPU] = s.task[p, task_row.MOVED_FROM]
            # the trace may end before its wakeup, and the balancer moves tasks that sleep but stay queued (v6.12: fair.c)
            s.task[p, task_row.DOUBTED] = task_row.PERHAPS_ASLEEP
        c = s.task[p, task_row.CPU]
        if s.task[p, task_row.STATE] == task_row.RUNNING:
            if s.cpu[c, cpu_row.CURR] == p:
                s.task[p, task_row.RAN] = c
            else:
                s.task[p, task_row.STATE] = task_row.WAITING
        if s.task[p, task_row.STATE] == task_row.WAITING:
            doubted = s.task[p, task_row.DOUBTED]
            begin_wait(s, p, c, start_ns)
            s.task[p, task_row.DOUBTED] = doubted
    for c in range(s.cpu.shape[0]):
        curr = s.cpu[c, cpu_row.CURR]
        if curr < cpu_row.CURR_UNKNOWN:
            s.cpu[c, cpu_row.CURR] = cpu_row.CURR_UNKNOWN
        elif curr > 0:
            if s.task[curr, task_row.STATE] == task_row.RUNNING and s.task[curr, task_row.CPU] == c:
                s.cpu[c, cpu_row.NR] += 1
            else:  # an earlier event shows it elsewhere or asleep, so the switch to it is missing
                s.cpu[c, cpu_row.CURR] = cpu_row.CURR_UNKNOWN
        if s.cpu[c, cpu_row.CURR] == cpu_row.CURR_UNKNOWN:
            s.cpu[c, cpu_row.MAYBE_IDLE] = start_ns
