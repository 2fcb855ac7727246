"""Placement, push and pull of real-time tasks (kernel/sched/rt.c and cpupri.c, v4.1)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import log_op, sd_flag
from wastedcores.simulator.engine.fair.cfs_jit import resched
from wastedcores.simulator.engine.fair.entity_jit import set_task_rq
from wastedcores.simulator.engine.realtime.queue_jit import (
    dequeue_rt,
    enqueue_rt,
    first_pushable,
    highest,
    priority_of,
    requeue,
    rt_of,
)
from wastedcores.simulator.engine.world import cpuset, domain, rq, rt_rq, sim, task
from wastedcores.simulator.engine.world.cpusets_jit import test
from wastedcores.simulator.engine.world.log_jit import log_migrate


@inner
def may_run(m, p, cpu):
    """Return whether ``p`` may run on ``cpu``, which is active."""
    return test(m, m[p, task.CPUS_ALLOWED], cpu) and test(m, cpuset.ACTIVE, cpu)


@apart(VALUE)
def lowest_priority(m, p):
    """cpupri_find(): return the lowest priority of the CPUs where ``p`` may run, or -1 if it is not below that of ``p``.

    CPUs with fair tasks and idle CPUs are equal.
    """
    out = m[p, task.RT_PRIORITY]
    for cpu in range(m[0, sim.CPUS]):
        if may_run(m, p, cpu):
            out = min(out, highest(m, cpu))
    return out if out < m[p, task.RT_PRIORITY] else -1


@apart(VALUE)
def first_at(m, p, priority, mask):
    """Return the first CPU of the mask (0: of all) with that priority where ``p`` may run, or -1."""
    for cpu in range(m[0, sim.CPUS]):
        if may_run(m, p, cpu) and highest(m, cpu) == priority and (mask == 0 or test(m, mask, cpu)):
            return cpu
    return -1


@apart(VALUE)
def find_lowest_rq(m, p):
    """find_lowest_rq(): return the CPU to which a task should go, its own or one near to it, or -1."""
    least = lowest_priority(m, p)
    if m[p, task.NR_CPUS_ALLOWED] == 1 or least < 0:
        return -1
    own = m[p, task.CPU]
    if may_run(m, p, own) and highest(m, own) == least:
        return own
    this = m[0, sim.CPU]
    here = may_run(m, p, this) and highest(m, this) == least
    sd = m[own, rq.SD]
    for _ in range(m[own, rq.NR_DOMAINS]):
        if m[sd, domain.FLAGS] & sd_flag.WAKE_AFFINE:
            if here and test(m, m[sd, domain.SPAN], this):
                return this
            near = first_at(m, p, least, m[sd, domain.SPAN])
            if near >= 0:
                return near
        sd = m[sd, domain.PARENT]
    return this if here else first_at(m, p, least, 0)


@inner
def as_urgent(m, cpu, p):
    """Return whether a CPU runs a real-time task that ``p`` should avoid: a pinned one, or one that is at least as urgent."""
    curr = m[cpu, rq.CURR]
    return priority_of(m, cpu) != 0 and (
        m[curr, task.NR_CPUS_ALLOWED] < 2 or m[curr, task.RT_PRIORITY] >= m[p, task.RT_PRIORITY]
    )


@apart(VALUE)
def select_task_rq_rt(m, p, flag):
    """select_task_rq_rt(): return the CPU of a woken or new task, its own unless that runs something as urgent."""
    cpu = m[p, task.CPU]
    if flag != sd_flag.BALANCE_EXEC and as_urgent(m, cpu, p):
        target = find_lowest_rq(m, p)
        if target >= 0:
            return target
    return cpu


@inner
def move(m, p, dst, why):
    """Take a task to another CPU, as push_rt_task() and pull_rt_task() do."""
    src = m[p, task.CPU]
    dequeue_rt(m, p)
    log_migrate(m, p, src, dst, why)
    set_task_rq(m, p, dst)
    enqueue_rt(m, p, 0)


@apart(VALUE)
def push_rt_task(m, cpu):
    """push_rt_task(): move the most urgent waiting task to a CPU that runs something less urgent; return whether one moved."""
    p = first_pushable(m, cpu, -1)
    if p < 0 or m[rt_of(m, cpu), rt_rq.NR_RUNNING] < 2:
        return False
    if m[p, task.RT_PRIORITY] > priority_of(m, cpu):
        resched(m, cpu)
        return False
    dst = find_lowest_rq(m, p)
    if dst < 0 or dst == cpu:
        return False
    move(m, p, dst, log_op.PUSH)
    resched(m, dst)
    return True


@apart(NOTHING)
def push_rt_tasks(m, cpu):
    """push_rt_tasks(): push until nothing moves any more."""
    while push_rt_task(m, cpu) != 0:
        pass


@apart(VALUE)
def pull_rt_task(m, this):
    """pull_rt_task(): take waiting tasks that are more urgent than what is left here; return whether any moved.

    The CPU pulls by itself; it does not ask the others to push (RT_PUSH_IPI).
    """
    pulled = False
    for src in range(m[0, sim.CPUS]):
        if src == this or not test(m, cpuset.ACTIVE, src) or m[rt_of(m, src), rt_rq.NR_RUNNING] < 2:
            continue
        p = first_pushable(m, src, -1)
        if p < 0 or m[p, task.RT_PRIORITY] <= highest(m, this):
            continue
        p = first_pushable(m, src, this)
        if p < 0 or m[p, task.RT_PRIORITY] <= highest(m, this):
            continue
        if m[p, task.RT_PRIORITY] > priority_of(m, src):
            continue
        move(m, p, this, log_op.PULL)
        pulled = True
    return pulled


@apart(NOTHING)
def check_preempt_rt(m, cpu, p):
    """check_preempt_curr(), check_preempt_curr_rt(), check_preempt_equal_prio(): one of the two is a real-time task."""
    curr = m[cpu, rq.CURR]
    if m[p, task.RT_PRIORITY] > m[curr, task.RT_PRIORITY]:
        resched(m, cpu)
        return
    if m[p, task.RT_PRIORITY] < m[curr, task.RT_PRIORITY] or m[cpu, rq.NEED_RESCHED] != 0:
        return
    # a task that must run here takes the CPU of one that may run elsewhere
    if m[curr, task.NR_CPUS_ALLOWED] == 1 or lowest_priority(m, curr) < 0:
        return
    if m[p, task.NR_CPUS_ALLOWED] > 1 and lowest_priority(m, p) >= 0:
        return
    requeue(m, cpu, p, 1)
    resched(m, cpu)


@apart(NOTHING)
def woken_rt(m, cpu, p):
    """task_woken_rt(): push a woken task away if it will not run here soon."""
    if (
        m[cpu, rq.CURR] != p
        and m[cpu, rq.NEED_RESCHED] == 0
        and m[p, task.NR_CPUS_ALLOWED] > 1
        and as_urgent(m, cpu, p)
    ):
        push_rt_tasks(m, cpu)
