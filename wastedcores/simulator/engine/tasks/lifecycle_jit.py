"""Birth, sleep and death of tasks (docs/replay-semantics.md, section 2)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import log_kind, task_state, waits_for
from wastedcores.simulator.engine.core.schedule_jit import move_group
from wastedcores.simulator.engine.core.wakeup_jit import fork_task, try_to_wake_up
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.fair.load_jit import jiffies
from wastedcores.simulator.engine.realtime.seam_jit import BORN, ask_rt, has_rt
from wastedcores.simulator.engine.tasks.sync_jit import block
from wastedcores.simulator.engine.tasks.weight_jit import set_load_weight
from wastedcores.simulator.engine.world import eevdf, entity, rq, sim, table, task
from wastedcores.simulator.engine.world.log_jit import pid_of, record
from wastedcores.simulator.engine.world.random_jit import stream


@inner
def set_nice(m, p, nice):
    """set_load_weight(): set the nice level and the weight of a task."""
    m[p, task.NICE] = nice
    set_load_weight(m, p)


@apart(VALUE)
def new_task(m, template, parent, group):
    """Fill the next free task row from a template and return it. ``parent`` is -1 for a top-level task."""
    number = m[0, sim.NR_TASKS]
    m[0, sim.NR_TASKS] = number + 1
    p = m[0, sim.TASK0] + number
    t = m[0, sim.TEMPLATE0] + template
    for i in range(table.WIDTH):
        m[p, i] = 0
    m[p, task.NUMBER] = number
    m[p, task.TEMPLATE] = template
    m[p, task.PC] = m[t, task.PC]
    m[p, task.DAEMON] = m[t, task.DAEMON]
    m[p, eevdf.KTHREAD] = m[t, eevdf.KTHREAD]
    m[p, entity.MY_Q] = -1
    m[p, task.STATE] = task_state.NEW
    m[p, task.PARENT] = parent
    m[p, task.LAST_WAKEE] = -1
    m[p, task.WAKE_Q_HEAD] = -1
    m[p, task.EXITED] = -1
    m[p, task.STARTED] = -1
    m[p, task.CPUS_ALLOWED] = m[t, task.CPUS_ALLOWED]
    m[p, task.NR_CPUS_ALLOWED] = m[t, task.NR_CPUS_ALLOWED]
    nice = m[t, task.NICE]
    tg = group
    if parent >= 0:
        if m[t, task.CPUS_ALLOWED] < 0:
            m[p, task.CPUS_ALLOWED] = m[parent, task.CPUS_ALLOWED]
            m[p, task.NR_CPUS_ALLOWED] = m[parent, task.NR_CPUS_ALLOWED]
        if nice < -20:
            nice = m[parent, task.NICE]
        if group < 0:
            tg = m[parent, task.GROUP]
        m[parent, task.CHILDREN] += 1
        m[p, task.POLICY] = m[parent, task.POLICY]
        m[p, task.RT_PRIORITY] = m[parent, task.RT_PRIORITY]
    if has_rt(m):
        ask_rt(m, BORN, p, 0, 0)
    m[p, task.GROUP] = tg
    set_nice(m, p, nice)
    m[p, task.RNG] = stream(m[0, sim.SEED], number)
    if m[p, task.DAEMON] == 0:
        m[0, sim.LIVE_TASKS] += 1
    return p


@inner
def sleep(m, p, length):
    """Block a task until a timer wakes it after ``length`` ns."""
    length = max(length, 1)
    m[p, task.WAITS_FOR] = waits_for.TIMER
    m[p, task.WAIT_OBJECT] = m[0, sim.CPU]
    block(m, p)
    m[0, sim.TIMERS] += 1
    queue_jit.push(m, (p << table.SHIFT) + task.TIMER, m[0, sim.NOW] + length)


@apart(NOTHING)
def exit_task(m, p):
    """do_exit(): end a task and wake its parent if that waits for it."""
    cpu = m[0, sim.CPU]
    record(m, log_kind.EXIT, cpu, pid_of(m, p), -1, -1, -1, -1)
    m[p, task.EXITED] = m[0, sim.NOW]
    if m[p, task.DAEMON] == 0:
        m[0, sim.LIVE_TASKS] -= 1
    if m[p, task.GROUP] > 0:
        move_group(m, p, 0)
    m[cpu, rq.KEEP_TICK_UNTIL] = jiffies(m) + m[0, sim.IDLE_TICKS]
    parent = m[p, task.PARENT]
    if parent >= 0 and m[parent, task.STATE] != task_state.DEAD:
        m[parent, task.CHILDREN] -= 1
        if (
            m[parent, task.STATE] == task_state.SLEEPING
            and m[parent, task.WAITS_FOR] == waits_for.CHILDREN
        ):
            try_to_wake_up(m, parent, True)
    m[p, task.STATE] = task_state.DEAD
    m[0, sim.COMPUTING] -= 1


@apart(NOTHING)
def fork(m, p, template, group, thread):
    """The operation FORK: make a child from a template. A process leaves work for RCU, a thread does not."""
    child = new_task(m, template, p, group)
    cpu = m[0, sim.CPU]
    if thread == 0:
        m[cpu, rq.KEEP_TICK_UNTIL] = jiffies(m) + m[0, sim.IDLE_TICKS]
    fork_task(m, child, cpu, p)
