"""The queue of a CPU's real-time tasks, their runtime and throttling (kernel/sched/rt.c, v4.1)."""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.fair.cfs_jit import resched
from wastedcores.simulator.engine.fair.entity_jit import add_nr_running
from wastedcores.simulator.engine.world import cpuset, table
from wastedcores.simulator.engine.world.cpusets_jit import test
from wastedcores.simulator.engine.world.log_jit import log_load
from wastedcores.simulator.engine.world.rows_jit import cpu_rq
from wastedcores.simulator.engine.world.structs import NO_TASK, Kernel, RtRq, RtShared, TaskStruct

#: sysctl_sched_rt_runtime and sysctl_sched_rt_period
RUNTIME_NS = 950_000_000
PERIOD_NS = 1_000_000_000
#: the only policy for which the code has to test (include/uapi/linux/sched.h)
SCHED_RR = 2


@inner
def rt_of(k: Kernel, cpu: int) -> RtRq:
    """Return the row of a CPU's real-time queue."""
    return RtRq(k, k.rt0 + cpu)


@inner
def shared(k: Kernel) -> RtShared:
    """Return the row that all real-time queues share."""
    return RtShared(k, k.rt0 + k.nr_cpus)


@inner
def highest(k: Kernel, cpu: int) -> int:
    """rt_rq->highest_prio.curr: return the greatest priority of the queue, 0 if it is empty."""
    p = rt_of(k, cpu).head
    return p.rt_priority if p else 0


@inner
def priority_of(k: Kernel, cpu: int) -> int:
    """Return the priority of the task that runs, 0 for a fair task and for idle."""
    curr = cpu_rq(k, cpu).curr
    return curr.rt_priority if curr else 0


@apart(NOTHING)
def count_tasks(k: Kernel, cpu: int) -> None:
    """enqueue_top_rt_rq(), dequeue_top_rt_rq(): let nr_running count the tasks of a queue, but none while the queue is throttled.

    The kernel subtracts all tasks of the queue and adds them again. When it adds them it may set rd->overload.
    """
    rt = rt_of(k, cpu)
    n = 0 if rt.throttled != 0 else rt.nr_running
    change = n - rt.counted
    if change == 0:
        return
    others = cpu_rq(k, cpu).nr_running - rt.counted
    rt.counted = n
    log_load(k, cpu)
    add_nr_running(k, cpu, change)
    if n > 0 and others < 2 and others + n >= 2:
        k.overload = 1


@apart(NOTHING)
def insert(k: Kernel, cpu: int, p: TaskStruct, head: int) -> None:
    """Put a task behind the other tasks of its priority, or before them if ``head`` is set."""
    rt = rt_of(k, cpu)
    priority = p.rt_priority
    following = rt.head
    before = NO_TASK
    while following and (
        following.rt_priority > priority or (following.rt_priority == priority and head == 0)
    ):
        before = following
        following = following.rt_next
    p.rt_next = following
    p.rt_prev = before
    if before:
        before.rt_next = p
    else:
        rt.head = p
    if following:
        following.rt_prev = p
    else:
        rt.tail = p


@apart(NOTHING)
def take_out(k: Kernel, cpu: int, p: TaskStruct) -> None:
    """Take a task out of the list."""
    rt = rt_of(k, cpu)
    before = p.rt_prev
    following = p.rt_next
    if before:
        before.rt_next = following
    else:
        rt.head = following
    if following:
        following.rt_prev = before
    else:
        rt.tail = before


@inner
def requeue(k: Kernel, cpu: int, p: TaskStruct, head: int) -> None:
    """requeue_task_rt(): move a queued task behind the other tasks of its priority, or before them if ``head`` is set."""
    take_out(k, cpu, p)
    insert(k, cpu, p, head)


@inner
def make_pushable(k: Kernel, p: TaskStruct) -> None:
    """enqueue_pushable_task(): append a waiting task to the pushable tasks, if it may run on another CPU."""
    if p.nr_cpus_allowed > 1:
        shared(k).pushed += 1
        p.pushable = shared(k).pushed


@apart(VALUE)
def first_pushable(k: Kernel, cpu: int, dst: int) -> TaskStruct:
    """Return the most urgent pushable task of ``cpu`` that may run on ``dst`` (-1: anywhere), or NULL."""
    out = NO_TASK
    p = rt_of(k, cpu).head
    while p and (not out or p.rt_priority == out.rt_priority):
        if (
            p.pushable != 0
            and (not out or p.pushable < out.pushable)
            and (dst < 0 or test(k, p.cpus_allowed, dst))
        ):
            out = p
        p = p.rt_next
    return out


# --- time ---------------------------------------------------------------------------------------------------------------


@apart(NOTHING)
def update_curr(k: Kernel, cpu: int) -> None:
    """update_curr_rt(), sched_rt_runtime_exceeded(): charge the running real-time task; throttle the queue if its time is over.

    Queues do not borrow runtime from each other: RT_RUNTIME_SHARE is off since v5.10.
    """
    if priority_of(k, cpu) == 0:
        return
    p = cpu_rq(k, cpu).curr
    delta = k.now_ns - p.se.exec_start
    if delta <= 0:
        return
    p.se.sum_exec_runtime += delta
    p.se.exec_start = k.now_ns
    rt = rt_of(k, cpu)
    rt.time += delta
    if rt.throttled == 0 and rt.time > RUNTIME_NS:
        rt.throttled = 1
        count_tasks(k, cpu)
    if rt.throttled != 0:
        resched(k, cpu)


@inner
def plan_period(k: Kernel, time_ns: int) -> None:
    """Plan the next expiry of the period's timer."""
    queue_jit.push(k, (shared(k).row << table.SHIFT) + RtShared.timer, time_ns)


@apart(NOTHING)
def enqueue_rt(k: Kernel, p: TaskStruct, head: int) -> None:
    """enqueue_task_rt(). If the period's timer does not run, start it; it expires at once (start_rt_bandwidth(), v4.5)."""
    cpu = p.cpu
    cpu_rq(k, cpu).clock = k.now_ns
    if shared(k).period_cpu < 0:
        shared(k).period_cpu = k.this_cpu
        plan_period(k, k.now_ns)
    insert(k, cpu, p, head)
    p.on_rt = 1
    rt_of(k, cpu).nr_running += 1
    count_tasks(k, cpu)
    if p != cpu_rq(k, cpu).curr:
        make_pushable(k, p)


@apart(NOTHING)
def dequeue_rt(k: Kernel, p: TaskStruct) -> None:
    """dequeue_task_rt(): take a task off its queue."""
    cpu = p.cpu
    cpu_rq(k, cpu).clock = k.now_ns
    update_curr(k, cpu)
    take_out(k, cpu, p)
    p.on_rt = 0
    p.pushable = 0
    rt_of(k, cpu).nr_running -= 1
    count_tasks(k, cpu)


@apart(NOTHING)
def put_prev(k: Kernel, cpu: int, p: TaskStruct) -> None:
    """put_prev_task_rt(): charge the task that ran. If it is still queued, another CPU may take it from now on."""
    update_curr(k, cpu)
    if p.on_rt != 0:
        make_pushable(k, p)


@apart(NOTHING)
def period_timer(k: Kernel) -> None:
    """do_sched_rt_period_timer(): give every queue the runtime of a new period."""
    s = shared(k)
    cpu = s.period_cpu
    for c in range(k.nr_cpus):
        if test(k, cpuset.ACTIVE, cpu):
            break
        cpu = c
    k.this_cpu = cpu
    idle = True
    for cpu in range(k.nr_cpus):
        if not test(k, cpuset.ACTIVE, cpu):
            continue
        rt = rt_of(k, cpu)
        enqueue = False
        if rt.time > 0:
            rt.time -= min(rt.time, RUNTIME_NS)
            if rt.throttled != 0 and rt.time < RUNTIME_NS:
                rt.throttled = 0
                enqueue = True
            if rt.time > 0 or rt.nr_running > 0:
                idle = False
        elif rt.nr_running > 0:
            idle = False
            enqueue = rt.throttled == 0
        if enqueue and rt.nr_running > 0:
            count_tasks(k, cpu)
            if highest(k, cpu) > priority_of(k, cpu):
                resched(k, cpu)
    if idle:
        s.period_cpu = -1
    else:
        plan_period(k, k.now_ns + PERIOD_NS)


@apart(NOTHING)
def task_tick(k: Kernel, cpu: int, p: TaskStruct) -> None:
    """task_tick_rt(): charge the running task, and end the quantum of SCHED_RR."""
    update_curr(k, cpu)
    log_load(k, cpu)
    if p.policy != SCHED_RR:
        return
    p.time_slice -= 1
    if p.time_slice != 0:
        return
    p.time_slice = shared(k).time_slice
    before = p.rt_prev
    following = p.rt_next
    if (before and before.rt_priority == p.rt_priority) or (
        following and following.rt_priority == p.rt_priority
    ):
        requeue(k, cpu, p, 0)
        resched(k, cpu)
