"""Birth, sleep and death of tasks (docs/replay-semantics.md, section 2)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.core.schedule_jit import move_group
from wastedcores.simulator.engine.core.wakeup_jit import fork_task, try_to_wake_up
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.fair.load_jit import jiffies
from wastedcores.simulator.engine.tasks.sync_jit import block
from wastedcores.simulator.engine.world.codes import (
    LOG_EXIT,
    S_DEAD,
    S_NEW,
    S_SLEEPING,
    W_CHILDREN,
    W_TIMER,
)
from wastedcores.simulator.engine.world.cpusets_jit import item
from wastedcores.simulator.engine.world.log_jit import pid_of, record
from wastedcores.simulator.engine.world.random_jit import stream
from wastedcores.simulator.engine.world.state import (
    G_COMPUTING,
    G_CPU,
    G_IDLE_TICKS,
    G_LIVE,
    G_NOW,
    G_NTASKS,
    G_SEED,
    G_STATIC,
    G_T0,
    G_TEMPLATE0,
    G_TIMERS,
    R_KEEP_TICK,
    SE_INV,
    SE_MYQ,
    SE_WEIGHT,
    SHIFT,
    T_CHILDREN,
    T_DAEMON,
    T_DONE,
    T_EV,
    T_KHEAD,
    T_LAST_WAKEE,
    T_MASK,
    T_NALLOWED,
    T_NICE,
    T_NUM,
    T_PARENT,
    T_PC,
    T_RNG,
    T_STARTED,
    T_STATE,
    T_TEMPLATE,
    T_TG,
    T_WAIT,
    WIDTH,
)


@inner
def set_nice(m, p, nice):
    """set_load_weight()."""
    m[p, T_NICE] = nice
    m[p, SE_WEIGHT] = item(m, m[0, G_STATIC] + nice + 20)
    m[p, SE_INV] = item(m, m[0, G_STATIC] + 40 + nice + 20)


@apart(VALUE)
def new_task(m, template, parent, group):
    """Fill the next free task row from a template; ``parent`` -1: a top-level task."""
    number = m[0, G_NTASKS]
    m[0, G_NTASKS] = number + 1
    p = m[0, G_T0] + number
    t = m[0, G_TEMPLATE0] + template
    for i in range(WIDTH):
        m[p, i] = 0
    m[p, T_NUM] = number
    m[p, T_TEMPLATE] = template
    m[p, T_PC] = m[t, T_PC]
    m[p, T_DAEMON] = m[t, T_DAEMON]
    m[p, SE_MYQ] = -1
    m[p, T_STATE] = S_NEW
    m[p, T_PARENT] = parent
    m[p, T_LAST_WAKEE] = -1
    m[p, T_KHEAD] = -1
    m[p, T_DONE] = -1
    m[p, T_STARTED] = -1
    m[p, T_MASK] = m[t, T_MASK]
    m[p, T_NALLOWED] = m[t, T_NALLOWED]
    nice = m[t, T_NICE]
    tg = group
    if parent >= 0:
        if m[t, T_MASK] < 0:
            m[p, T_MASK] = m[parent, T_MASK]
            m[p, T_NALLOWED] = m[parent, T_NALLOWED]
        if nice < -20:
            nice = m[parent, T_NICE]
        if group < 0:
            tg = m[parent, T_TG]
        m[parent, T_CHILDREN] += 1
    m[p, T_TG] = tg
    set_nice(m, p, nice)
    m[p, T_RNG] = stream(m[0, G_SEED], number)
    if m[p, T_DAEMON] == 0:
        m[0, G_LIVE] += 1
    return p


@inner
def sleep(m, p, length):
    """Block until a timer wakes the task."""
    length = max(length, 1)
    m[p, T_WAIT] = W_TIMER
    block(m, p)
    m[0, G_TIMERS] += 1
    queue_jit.push(m, (p << SHIFT) + T_EV, m[0, G_NOW] + length)


@apart(NOTHING)
def exit_task(m, p):
    """do_exit(): tell the parent, leave."""
    cpu = m[0, G_CPU]
    record(m, LOG_EXIT, cpu, pid_of(m, p), -1, -1, -1, -1)
    m[p, T_DONE] = m[0, G_NOW]
    if m[p, T_DAEMON] == 0:
        m[0, G_LIVE] -= 1
    if m[p, T_TG] > 0:
        move_group(m, p, 0)
    m[cpu, R_KEEP_TICK] = jiffies(m) + m[0, G_IDLE_TICKS]
    parent = m[p, T_PARENT]
    if parent >= 0 and m[parent, T_STATE] != S_DEAD:
        m[parent, T_CHILDREN] -= 1
        if m[parent, T_STATE] == S_SLEEPING and m[parent, T_WAIT] == W_CHILDREN:
            try_to_wake_up(m, parent, True)
    m[p, T_STATE] = S_DEAD
    m[0, G_COMPUTING] -= 1


@apart(NOTHING)
def fork(m, p, template, group, thread):
    """FORK: a child from a template; a process leaves work for RCU, a thread does not."""
    child = new_task(m, template, p, group)
    cpu = m[0, G_CPU]
    if thread == 0:
        m[cpu, R_KEEP_TICK] = jiffies(m) + m[0, G_IDLE_TICKS]
    fork_task(m, child, cpu, p)
