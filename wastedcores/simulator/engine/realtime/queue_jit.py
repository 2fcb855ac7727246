"""The queue of a CPU's real-time tasks, their runtime and throttling (kernel/sched/rt.c, v4.1)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.fair.cfs_jit import resched
from wastedcores.simulator.engine.fair.entity_jit import add_nr_running
from wastedcores.simulator.engine.world import cpuset, entity, rq, rt_rq, sim, table, task
from wastedcores.simulator.engine.world.cpusets_jit import test
from wastedcores.simulator.engine.world.log_jit import log_load

#: sysctl_sched_rt_runtime and sysctl_sched_rt_period
RUNTIME_NS = 950_000_000
PERIOD_NS = 1_000_000_000
#: the policies with a meaning of their own (include/uapi/linux/sched.h)
SCHED_RR = 2


@inner
def rt_of(m, cpu):
    """Return the row of a CPU's real-time queue."""
    return m[0, sim.RT0] + cpu


@inner
def shared(m):
    """Return the row of what all real-time queues share."""
    return m[0, sim.RT0] + m[0, sim.CPUS]


@inner
def highest(m, cpu):
    """rt_rq->highest_prio.curr: return the greatest priority of the queue, 0 if it is empty."""
    p = m[rt_of(m, cpu), rt_rq.HEAD]
    return m[p, task.RT_PRIORITY] if p >= 0 else 0


@inner
def priority_of(m, cpu):
    """Return the priority of the task that runs, 0 for a fair task and for idle."""
    curr = m[cpu, rq.CURR]
    return m[curr, task.RT_PRIORITY] if curr >= 0 else 0


@apart(NOTHING)
def count_tasks(m, cpu):
    """enqueue_top_rt_rq(), dequeue_top_rt_rq(): let nr_running count the tasks of the queue, or none while throttled.

    The kernel takes off all tasks before it counts them again, and may set rd->overload then.
    """
    rt = rt_of(m, cpu)
    n = 0 if m[rt, rt_rq.THROTTLED] != 0 else m[rt, rt_rq.NR_RUNNING]
    change = n - m[rt, rt_rq.COUNTED]
    if change == 0:
        return
    others = m[cpu, rq.NR_RUNNING] - m[rt, rt_rq.COUNTED]
    m[rt, rt_rq.COUNTED] = n
    log_load(m, cpu)
    add_nr_running(m, cpu, change)
    if n > 0 and others < 2 and others + n >= 2:
        m[0, sim.OVERLOAD] = 1


@apart(NOTHING)
def insert(m, cpu, p, head):
    """Put a task behind, or with ``head`` before, the others of its priority."""
    rt = rt_of(m, cpu)
    priority = m[p, task.RT_PRIORITY]
    following = m[rt, rt_rq.HEAD]
    before = -1
    while following >= 0 and (
        m[following, task.RT_PRIORITY] > priority
        or (m[following, task.RT_PRIORITY] == priority and head == 0)
    ):
        before = following
        following = m[following, task.RT_NEXT]
    m[p, task.RT_NEXT] = following
    m[p, task.RT_PREV] = before
    if before >= 0:
        m[before, task.RT_NEXT] = p
    else:
        m[rt, rt_rq.HEAD] = p
    if following >= 0:
        m[following, task.RT_PREV] = p
    else:
        m[rt, rt_rq.TAIL] = p


@apart(NOTHING)
def take_out(m, cpu, p):
    """Take a task out of the list."""
    rt = rt_of(m, cpu)
    before = m[p, task.RT_PREV]
    following = m[p, task.RT_NEXT]
    if before >= 0:
        m[before, task.RT_NEXT] = following
    else:
        m[rt, rt_rq.HEAD] = following
    if following >= 0:
        m[following, task.RT_PREV] = before
    else:
        m[rt, rt_rq.TAIL] = before


@inner
def requeue(m, cpu, p, head):
    """requeue_task_rt(): move a queued task behind, or before, the others of its priority."""
    take_out(m, cpu, p)
    insert(m, cpu, p, head)


@inner
def make_pushable(m, p):
    """enqueue_pushable_task(): append a task that waits to the pushable ones, if it may run elsewhere."""
    if m[p, task.NR_CPUS_ALLOWED] > 1:
        m[shared(m), rt_rq.PUSHED] += 1
        m[p, task.PUSHABLE] = m[shared(m), rt_rq.PUSHED]


@apart(VALUE)
def first_pushable(m, cpu, dst):
    """Return the most urgent pushable task of ``cpu`` that may run on ``dst`` (-1: anywhere), or -1."""
    out = -1
    p = m[rt_of(m, cpu), rt_rq.HEAD]
    while p >= 0 and (out < 0 or m[p, task.RT_PRIORITY] == m[out, task.RT_PRIORITY]):
        if (
            m[p, task.PUSHABLE] != 0
            and (out < 0 or m[p, task.PUSHABLE] < m[out, task.PUSHABLE])
            and (dst < 0 or test(m, m[p, task.CPUS_ALLOWED], dst))
        ):
            out = p
        p = m[p, task.RT_NEXT]
    return out


# --- time ---------------------------------------------------------------------------------------------------------------


@apart(NOTHING)
def update_curr(m, cpu):
    """update_curr_rt(), sched_rt_runtime_exceeded(): charge the running real-time task, throttle when the runtime is over.

    Queues do not borrow runtime of each other: RT_RUNTIME_SHARE is off since v5.10.
    """
    if priority_of(m, cpu) == 0:
        return
    p = m[cpu, rq.CURR]
    delta = m[0, sim.NOW] - m[p, entity.EXEC_START]
    if delta <= 0:
        return
    m[p, entity.SUM_EXEC_RUNTIME] += delta
    m[p, entity.EXEC_START] = m[0, sim.NOW]
    rt = rt_of(m, cpu)
    m[rt, rt_rq.TIME] += delta
    if m[rt, rt_rq.THROTTLED] == 0 and m[rt, rt_rq.TIME] > RUNTIME_NS:
        m[rt, rt_rq.THROTTLED] = 1
        count_tasks(m, cpu)
    if m[rt, rt_rq.THROTTLED] != 0:
        resched(m, cpu)


@inner
def plan_period(m, time_ns):
    """Plan the next expiry of the period's timer."""
    queue_jit.push(m, (shared(m) << table.SHIFT) + rt_rq.TIMER, time_ns)


@apart(NOTHING)
def enqueue_rt(m, p, head):
    """enqueue_task_rt(). The timer of the period, if it does not run, expires at once (start_rt_bandwidth(), v4.5)."""
    cpu = m[p, task.CPU]
    m[cpu, rq.CLOCK] = m[0, sim.NOW]
    if m[shared(m), rt_rq.PERIOD_CPU] < 0:
        m[shared(m), rt_rq.PERIOD_CPU] = m[0, sim.CPU]
        plan_period(m, m[0, sim.NOW])
    insert(m, cpu, p, head)
    m[p, task.ON_RT] = 1
    m[rt_of(m, cpu), rt_rq.NR_RUNNING] += 1
    count_tasks(m, cpu)
    if p != m[cpu, rq.CURR]:
        make_pushable(m, p)


@apart(NOTHING)
def dequeue_rt(m, p):
    """dequeue_task_rt(): take a task off its queue."""
    cpu = m[p, task.CPU]
    m[cpu, rq.CLOCK] = m[0, sim.NOW]
    update_curr(m, cpu)
    take_out(m, cpu, p)
    m[p, task.ON_RT] = 0
    m[p, task.PUSHABLE] = 0
    m[rt_of(m, cpu), rt_rq.NR_RUNNING] -= 1
    count_tasks(m, cpu)


@apart(NOTHING)
def put_prev(m, cpu, p):
    """put_prev_task_rt(): charge the task that ran, which another CPU may take if it is still queued."""
    update_curr(m, cpu)
    if m[p, task.ON_RT] != 0:
        make_pushable(m, p)


@apart(NOTHING)
def period(m):
    """do_sched_rt_period_timer(): give every queue the runtime of a new period."""
    s = shared(m)
    cpu = m[s, rt_rq.PERIOD_CPU]
    for c in range(m[0, sim.CPUS]):
        if test(m, cpuset.ACTIVE, cpu):
            break
        cpu = c
    m[0, sim.CPU] = cpu
    idle = True
    for cpu in range(m[0, sim.CPUS]):
        if not test(m, cpuset.ACTIVE, cpu):
            continue
        rt = rt_of(m, cpu)
        enqueue = False
        if m[rt, rt_rq.TIME] > 0:
            m[rt, rt_rq.TIME] -= min(m[rt, rt_rq.TIME], RUNTIME_NS)
            if m[rt, rt_rq.THROTTLED] != 0 and m[rt, rt_rq.TIME] < RUNTIME_NS:
                m[rt, rt_rq.THROTTLED] = 0
                enqueue = True
            if m[rt, rt_rq.TIME] > 0 or m[rt, rt_rq.NR_RUNNING] > 0:
                idle = False
        elif m[rt, rt_rq.NR_RUNNING] > 0:
            idle = False
            enqueue = m[rt, rt_rq.THROTTLED] == 0
        if enqueue and m[rt, rt_rq.NR_RUNNING] > 0:
            count_tasks(m, cpu)
            if highest(m, cpu) > priority_of(m, cpu):
                resched(m, cpu)
    if idle:
        m[s, rt_rq.PERIOD_CPU] = -1
    else:
        plan_period(m, m[0, sim.NOW] + PERIOD_NS)


@apart(NOTHING)
def tick_rt(m, cpu, p):
    """task_tick_rt(): charge the running task, and end the quantum of SCHED_RR."""
    update_curr(m, cpu)
    log_load(m, cpu)
    if m[p, task.POLICY] != SCHED_RR:
        return
    m[p, task.TIME_SLICE] -= 1
    if m[p, task.TIME_SLICE] != 0:
        return
    m[p, task.TIME_SLICE] = m[shared(m), rt_rq.TIME_SLICE]
    before = m[p, task.RT_PREV]
    following = m[p, task.RT_NEXT]
    if (before >= 0 and m[before, task.RT_PRIORITY] == m[p, task.RT_PRIORITY]) or (
        following >= 0 and m[following, task.RT_PRIORITY] == m[p, task.RT_PRIORITY]
    ):
        requeue(m, cpu, p, 0)
        resched(m, cpu)
