"""How tasks wait for each other: barriers, locks, semaphores (docs/replay-semantics.md, sections 3 and 4)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.core.stretch_jit import start_stretch, stop_stretch
from wastedcores.simulator.engine.core.wakeup_jit import choose_cpu, queue_woken
from wastedcores.simulator.engine.world.codes import (
    S_SLEEPING,
    ST_BAD_UNLOCK,
    W_BARRIER,
    W_LOCK,
    W_NOTHING,
)
from wastedcores.simulator.engine.world.state import (
    G_COMPUTING,
    G_CULPRIT,
    G_NOW,
    G_SPIN,
    G_STATUS,
    G_T_START,
    INFINITE,
    R_CURR,
    T_CPU,
    T_KHEAD,
    T_KTAIL,
    T_LEFT,
    T_OBJ,
    T_PC,
    T_SPIN,
    T_STATE,
    T_WAIT,
    T_WNEXT,
    Y_COUNT,
    Y_GEN,
    Y_HEAD,
    Y_OWNER,
    Y_PARTIES,
    Y_STOPPED,
    Y_TAIL,
)
from wastedcores.simulator.engine.world.wait_lists_jit import append, unlink
from wastedcores.workload.ops import MODE_BLOCK, MODE_SPIN_BLOCK

# T_SPIN: 0 not spinning, 1 waiting, 2 granted: runs out its last spin_ns
GRANTED = 2


@apart(VALUE)
def begin_wait(m, p, why, y, mode, limit):
    """Spin or block until granted; whether the task blocked."""
    m[p, T_WAIT] = why
    m[p, T_OBJ] = y
    append(m, y, p)
    if mode == MODE_BLOCK:
        block(m, p)
        return True
    m[p, T_SPIN] = 1
    if mode == MODE_SPIN_BLOCK:
        m[p, T_LEFT] = limit
    else:
        m[p, T_LEFT] = INFINITE
        m[0, G_COMPUTING] -= 1
    return False


@inner
def block(m, p):
    """The task goes to sleep at the schedule() that follows."""
    m[p, T_STATE] = S_SLEEPING
    m[p, T_LEFT] = 0
    m[0, G_COMPUTING] -= 1


@apart(NOTHING)
def grant(m, p, by):
    """What ``p`` waited for has come, through ``by``: a spinner notices, a sleeper joins the wake queue of ``by``."""
    if m[p, T_SPIN] != 0:
        if m[p, T_LEFT] >= INFINITE:
            m[0, G_COMPUTING] += 1
        cpu = m[p, T_CPU]
        running = m[cpu, R_CURR] == p
        if running:
            stop_stretch(m, cpu, p)
        m[p, T_SPIN] = GRANTED
        m[p, T_LEFT] = m[0, G_SPIN]
        if running:
            start_stretch(m, cpu, p, 0)
        return
    m[p, T_WNEXT] = -1
    if m[by, T_KHEAD] < 0:
        m[by, T_KHEAD] = p
    else:
        m[m[by, T_KTAIL], T_WNEXT] = p
    m[by, T_KTAIL] = p


@inner
def begin_wake(m, p):
    """Begin to wake the first of the task's wake queue: a CPU is chosen."""
    first = m[p, T_KHEAD]
    if m[first, T_WAIT] != W_LOCK:
        m[first, T_WAIT] = W_NOTHING
    choose_cpu(m, first, False)


@inner
def end_wake(m, p):
    """It is on its queue and leaves the wake queue."""
    first = m[p, T_KHEAD]
    m[p, T_KHEAD] = m[first, T_WNEXT]
    queue_woken(m, first)


@apart(VALUE)
def barrier(m, p, y, mode, limit, deadline):
    """Arrive at a barrier; whether the task goes on at once."""
    m[y, Y_COUNT] += 1
    if m[y, Y_COUNT] < m[y, Y_PARTIES]:
        begin_wait(m, p, W_BARRIER, y, mode, limit)
        return False
    m[y, Y_COUNT] = 0
    m[y, Y_GEN] += 1
    if deadline >= 0 and m[0, G_NOW] >= m[0, G_T_START] + deadline:
        m[y, Y_STOPPED] = 1
    other = m[y, Y_HEAD]
    m[y, Y_HEAD] = -1
    m[y, Y_TAIL] = -1
    while other >= 0:
        following = m[other, T_WNEXT]
        grant(m, other, p)
        other = following
    return True


@inner
def lock(m, p, y, mode, limit, shared):
    """Take a lock or wait for it; whether the task goes on at once."""
    if m[y, Y_OWNER] < 0 and (shared != 0 or m[y, Y_COUNT] == 0):
        if shared != 0:
            m[y, Y_COUNT] += 1
        else:
            m[y, Y_OWNER] = p
        m[p, T_WAIT] = W_NOTHING
        return True
    begin_wait(m, p, W_LOCK, y, mode, limit)
    return False


@inner
def shares(m, p):
    """Whether a waiter sleeps in a shared LOCK; a sleeper's program counter is at the LOCK."""
    return m[p, T_SPIN] == 0 and m[m[p, T_PC], 4] != 0


@apart(NOTHING)
def unlock(m, p, y, shared):
    """Give a lock up: to the first spinner that runs, else wake the first sleeper, who tries again.

    Sleepers that share it are woken together and have it at once.
    """
    if (shared == 0 and m[y, Y_OWNER] != p) or (shared != 0 and m[y, Y_COUNT] == 0):
        m[0, G_STATUS] = ST_BAD_UNLOCK
        m[0, G_CULPRIT] = p
        return
    if shared != 0:
        m[y, Y_COUNT] -= 1
        if m[y, Y_COUNT] > 0:
            return
    m[y, Y_OWNER] = -1
    other = m[y, Y_HEAD]
    before = -1
    while other >= 0:
        if m[other, T_SPIN] == 1 and m[m[other, T_CPU], R_CURR] == other:
            unlink(m, y, other, before)
            m[y, Y_OWNER] = other
            grant(m, other, p)
            return
        before = other
        other = m[other, T_WNEXT]
    other = m[y, Y_HEAD]
    before = -1
    while other >= 0:
        following = m[other, T_WNEXT]
        if m[other, T_SPIN] == 0:
            unlink(m, y, other, before)
            if not shares(m, other):
                grant(m, other, p)
                return
            # who shares it has it from now on
            m[y, Y_COUNT] += 1
            m[other, T_PC] += 1
            m[other, T_WAIT] = W_NOTHING
            grant(m, other, p)
            if following < 0 or not shares(m, following):
                return
        else:
            before = other
        other = following


@apart(NOTHING)
def post(m, p, y, units):
    """Raise a semaphore."""
    for _ in range(units):
        first = m[y, Y_HEAD]
        if first < 0:
            m[y, Y_COUNT] += 1
        else:
            unlink(m, y, first, -1)
            grant(m, first, p)
