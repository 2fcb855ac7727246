"""Waiting of tasks for each other: barriers, locks, semaphores (docs/replay-semantics.md, sections 3 and 4)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import status, task_state, waits_for
from wastedcores.simulator.engine.core.stretch_jit import start_stretch, stop_stretch
from wastedcores.simulator.engine.core.wakeup_jit import choose_cpu, queue_woken
from wastedcores.simulator.engine.world import rq, sim, table, task, wait
from wastedcores.simulator.engine.world.wait_lists_jit import append, unlink
from wastedcores.workload import ops

# task.SPIN is 0 without spinning, 1 while waiting and GRANTED while the task spends its last spin_ns
GRANTED = 2


@apart(VALUE)
def begin_wait(m, p, why, y, mode, limit):
    """Spin or block until the wait is granted; return whether the task blocked."""
    m[p, task.WAITS_FOR] = why
    m[p, task.WAIT_OBJECT] = y
    append(m, y, p)
    if mode == ops.MODE_BLOCK:
        block(m, p)
        return True
    m[p, task.SPIN] = 1
    if mode == ops.MODE_SPIN_BLOCK:
        m[p, task.LEFT] = limit
    else:
        m[p, task.LEFT] = table.INFINITE
        m[0, sim.COMPUTING] -= 1
    return False


@inner
def block(m, p):
    """Put the task to sleep at the schedule() that follows."""
    m[p, task.STATE] = task_state.SLEEPING
    m[p, task.LEFT] = 0
    m[0, sim.COMPUTING] -= 1


@apart(NOTHING)
def grant(m, p, by):
    """End the wait of ``p`` on behalf of ``by``: a spinner notices it, a sleeper joins the wake queue of ``by``."""
    if m[p, task.SPIN] != 0:
        if m[p, task.LEFT] >= table.INFINITE:
            m[0, sim.COMPUTING] += 1
        cpu = m[p, task.CPU]
        running = m[cpu, rq.CURR] == p
        if running:
            stop_stretch(m, cpu, p)
        m[p, task.SPIN] = GRANTED
        m[p, task.LEFT] = m[0, sim.SPIN_NS]
        if running:
            start_stretch(m, cpu, p, 0)
        return
    m[p, task.WAIT_NEXT] = -1
    if m[by, task.WAKE_Q_HEAD] < 0:
        m[by, task.WAKE_Q_HEAD] = p
    else:
        m[m[by, task.WAKE_Q_TAIL], task.WAIT_NEXT] = p
    m[by, task.WAKE_Q_TAIL] = p


@inner
def begin_wake(m, p):
    """Begin to wake the first task of the wake queue: choose its CPU.

    The operation that wakes is the one before the program counter. A POST to a pipe wakes with WF_SYNC (pipe_write(), fs/pipe.c).
    """
    first = m[p, task.WAKE_Q_HEAD]
    if m[first, task.WAITS_FOR] != waits_for.LOCK:
        m[first, task.WAITS_FOR] = waits_for.NOTHING
    op = m[p, task.PC] - 1
    choose_cpu(m, first, m[op, 0] == ops.OP_POST and m[op, 3] != 0)


@inner
def end_wake(m, p):
    """Finish waking the first task of the wake queue: enqueue it."""
    first = m[p, task.WAKE_Q_HEAD]
    m[p, task.WAKE_Q_HEAD] = m[first, task.WAIT_NEXT]
    queue_woken(m, first)


@apart(VALUE)
def barrier(m, p, y, mode, limit, deadline):
    """Arrive at a barrier; return whether the task continues at once."""
    m[y, wait.COUNT] += 1
    if m[y, wait.COUNT] < m[y, wait.PARTIES]:
        begin_wait(m, p, waits_for.BARRIER, y, mode, limit)
        return False
    m[y, wait.COUNT] = 0
    m[y, wait.GENERATION] += 1
    if deadline >= 0 and m[0, sim.NOW] >= m[0, sim.T_START] + deadline:
        m[y, wait.STOPPED] = 1
    other = m[y, wait.HEAD]
    m[y, wait.HEAD] = -1
    m[y, wait.TAIL] = -1
    while other >= 0:
        following = m[other, task.WAIT_NEXT]
        grant(m, other, p)
        other = following
    return True


@inner
def lock(m, p, y, mode, limit, shared):
    """Take a lock or wait for it; return whether the task continues at once."""
    if m[y, wait.OWNER] < 0 and (shared != 0 or m[y, wait.COUNT] == 0):
        if shared != 0:
            m[y, wait.COUNT] += 1
        else:
            m[y, wait.OWNER] = p
        m[p, task.WAITS_FOR] = waits_for.NOTHING
        return True
    begin_wait(m, p, waits_for.LOCK, y, mode, limit)
    return False


@inner
def shares(m, p):
    """Return whether a waiter sleeps in a shared LOCK; the program counter of a sleeper is at the LOCK."""
    return m[p, task.SPIN] == 0 and m[m[p, task.PC], 4] != 0


@apart(NOTHING)
def unlock(m, p, y, shared):
    """Give up a lock: hand it to the first spinner that runs, else wake the first sleeper, who tries again.

    Sleepers that share the lock are woken together and own it at once.
    """
    if (shared == 0 and m[y, wait.OWNER] != p) or (shared != 0 and m[y, wait.COUNT] == 0):
        m[0, sim.STATUS] = status.BAD_UNLOCK
        m[0, sim.CULPRIT] = p
        return
    if shared != 0:
        m[y, wait.COUNT] -= 1
        if m[y, wait.COUNT] > 0:
            return
    m[y, wait.OWNER] = -1
    other = m[y, wait.HEAD]
    before = -1
    while other >= 0:
        if m[other, task.SPIN] == 1 and m[m[other, task.CPU], rq.CURR] == other:
            unlink(m, y, other, before)
            m[y, wait.OWNER] = other
            grant(m, other, p)
            return
        before = other
        other = m[other, task.WAIT_NEXT]
    other = m[y, wait.HEAD]
    before = -1
    while other >= 0:
        following = m[other, task.WAIT_NEXT]
        if m[other, task.SPIN] == 0:
            unlink(m, y, other, before)
            if not shares(m, other):
                grant(m, other, p)
                return
            # a task that shares the lock owns it from now on
            m[y, wait.COUNT] += 1
            m[other, task.PC] += 1
            m[other, task.WAITS_FOR] = waits_for.NOTHING
            grant(m, other, p)
            if following < 0 or not shares(m, following):
                return
        else:
            before = other
        other = following


@apart(NOTHING)
def post(m, p, y, units):
    """Raise a semaphore by ``units``."""
    for _ in range(units):
        first = m[y, wait.HEAD]
        if first < 0:
            m[y, wait.COUNT] += 1
        else:
            unlink(m, y, first, -1)
            grant(m, first, p)
