"""Birth, sleep and death of tasks (docs/replay-semantics.md, section 2)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import log_kind, task_state, waits_for
from wastedcores.simulator.engine.core.schedule_jit import move_group
from wastedcores.simulator.engine.core.wakeup_jit import fork_task, try_to_wake_up
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.fair.load_jit import jiffies
from wastedcores.simulator.engine.realtime.of_class_jit import has_rt
from wastedcores.simulator.engine.tasks.sync_jit import block
from wastedcores.simulator.engine.tasks.weight_jit import set_load_weight
from wastedcores.simulator.engine.world import table
from wastedcores.simulator.engine.world.log_jit import pid_of, record
from wastedcores.simulator.engine.world.random_jit import stream
from wastedcores.simulator.engine.world.rows_jit import cpu_rq, rt_class
from wastedcores.simulator.engine.world.structs import NO_QUEUE, NO_TASK, Kernel, TaskStruct


@inner
def set_nice(k: Kernel, p: TaskStruct, nice: int) -> None:
    """set_load_weight(): set the nice level and the weight of a task."""
    p.nice = nice
    set_load_weight(k, p)


@apart(VALUE)
def new_task(k: Kernel, template: int, parent: TaskStruct, group: int) -> TaskStruct:
    """Fill the next free task row from a template and return it. ``parent`` is NULL for a top-level task."""
    number = k.nr_tasks
    k.nr_tasks = number + 1
    p = TaskStruct(k, k.task0 + number)
    t = TaskStruct(k, k.template0 + template)
    for i in range(table.WIDTH):
        p[i] = 0
    p.number = number
    p.template = template
    p.pc = t.pc
    p.daemon = t.daemon
    p.kthread = t.kthread
    p.se.my_q = NO_QUEUE
    p.state = task_state.NEW
    p.parent = parent
    p.last_wakee = NO_TASK
    p.wake_q_head = NO_TASK
    p.exited = -1
    p.started = -1
    p.cpus_allowed = t.cpus_allowed
    p.nr_cpus_allowed = t.nr_cpus_allowed
    nice = t.nice
    tg = group
    if parent != NO_TASK:
        if t.cpus_allowed < 0:
            p.cpus_allowed = parent.cpus_allowed
            p.nr_cpus_allowed = parent.nr_cpus_allowed
        if nice < -20:
            nice = parent.nice
        if group < 0:
            tg = parent.group
        parent.children += 1
        p.policy = parent.policy
        p.rt_priority = parent.rt_priority
    if has_rt(k):
        rt_class(k).task_born(k, p)
    p.group = tg
    set_nice(k, p, nice)
    p.random.state = stream(k.seed, number)
    if p.daemon == 0:
        k.live_tasks += 1
    return p


@inner
def sleep(k: Kernel, p: TaskStruct, length: int) -> None:
    """Block a task until a timer wakes it after ``length`` ns."""
    length = max(length, 1)
    p.waits_for = waits_for.TIMER
    p.wait_object = k.this_cpu
    block(k, p)
    k.timers += 1
    queue_jit.push(k, (p.row << table.SHIFT) + TaskStruct.timer, k.now_ns + length)


@apart(NOTHING)
def exit_task(k: Kernel, p: TaskStruct) -> None:
    """do_exit(): end a task and wake its parent if that waits for it."""
    cpu = k.this_cpu
    record(k, log_kind.EXIT, cpu, pid_of(k, p), -1, -1, -1, -1)
    p.exited = k.now_ns
    if p.daemon == 0:
        k.live_tasks -= 1
    if p.group > 0:
        move_group(k, p, 0)
    cpu_rq(k, cpu).keep_tick_until = jiffies(k) + k.idle_ticks
    parent = p.parent
    if parent != NO_TASK and parent.state != task_state.DEAD:
        parent.children -= 1
        if parent.state == task_state.SLEEPING and parent.waits_for == waits_for.CHILDREN:
            try_to_wake_up(k, parent, True)
    p.state = task_state.DEAD
    k.computing -= 1


@apart(NOTHING)
def fork(k: Kernel, p: TaskStruct, template: int, group: int, thread: int) -> None:
    """The operation FORK: make a child from a template. A process leaves work for RCU, a thread does not."""
    child = new_task(k, template, p, group)
    cpu = k.this_cpu
    if thread == 0:
        cpu_rq(k, cpu).keep_tick_until = jiffies(k) + k.idle_ticks
    fork_task(k, child, cpu, p)
