"""The entry of the real-time class: the next task, and changes of the policy (kernel/sched/rt.c and core.c, v4.1)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.fair.cfs_jit import put_prev_task, resched, set_next_task
from wastedcores.simulator.engine.fair.entity_jit import dequeue_task, enqueue_task
from wastedcores.simulator.engine.realtime import seam_jit
from wastedcores.simulator.engine.realtime.push_pull_jit import (
    check_preempt_rt,
    pull_rt_task,
    push_rt_tasks,
    select_task_rq_rt,
    woken_rt,
)
from wastedcores.simulator.engine.realtime.queue_jit import (
    count_tasks,
    dequeue_rt,
    enqueue_rt,
    first_pushable,
    highest,
    period,
    put_prev,
    requeue,
    rt_of,
    shared,
    tick_rt,
    update_curr,
)
from wastedcores.simulator.engine.tasks.weight_jit import set_load_weight
from wastedcores.simulator.engine.world import entity, rt_rq, sim, task


@apart(VALUE)
def pick_rt(m, cpu, prev, before):
    """pick_next_task_rt(): return the next real-time task or -1, after pulling one if the CPU becomes less urgent.

    ``before`` is the priority of what ran; ``prev`` is -1 after idle and after the stopper.
    """
    if before > highest(m, cpu):
        pull_rt_task(m, cpu)
    update_curr(m, cpu)
    rt = rt_of(m, cpu)
    if m[rt, rt_rq.COUNTED] == 0:
        return -1
    if prev >= 0:
        if m[prev, task.RT_PRIORITY] != 0:
            put_prev(m, cpu, prev)
        else:
            put_prev_task(m, prev)
    p = m[rt, rt_rq.HEAD]
    m[p, entity.EXEC_START] = m[0, sim.NOW]
    m[p, task.PUSHABLE] = 0
    m[rt, rt_rq.PUSH_LATER] = 1 if first_pushable(m, cpu, -1) >= 0 else 0
    return p


@inner
def post_schedule(m, cpu):
    """post_schedule_rt(): push the tasks that wait behind the one just chosen."""
    rt = rt_of(m, cpu)
    if m[rt, rt_rq.PUSH_LATER] != 0:
        m[rt, rt_rq.PUSH_LATER] = 0
        push_rt_tasks(m, cpu)


@apart(NOTHING)
def set_policy(m, p, policy, priority):
    """__sched_setscheduler() of the running task, and check_class_changed().

    Changes within the fair class, too, take the task off its queue, as from v4.2.
    """
    before = m[p, task.RT_PRIORITY]
    if m[p, task.POLICY] == policy and before == priority:
        return
    cpu = m[p, task.CPU]
    if before != 0:
        dequeue_rt(m, p)
    else:
        dequeue_task(m, p, False)
        put_prev_task(m, p)
    m[p, task.POLICY] = policy
    m[p, task.RT_PRIORITY] = priority
    set_load_weight(m, p)
    if priority != 0:
        m[p, entity.EXEC_START] = m[0, sim.NOW]
        # to the tail only if the priority rises
        enqueue_rt(m, p, 1 if before >= priority else 0)
        if before > priority:
            pull_rt_task(m, cpu)
        if before != 0 and priority < highest(m, cpu):
            resched(m, cpu)
        return
    set_next_task(m, p)
    enqueue_task(m, p, False, False)
    if before != 0:
        if m[rt_of(m, cpu), rt_rq.NR_RUNNING] == 0:
            pull_rt_task(m, cpu)
        resched(m, cpu)


@inner
def offline(m, cpu):
    """rq_offline_rt(), __disable_runtime(): let the tasks of a CPU that goes offline run, so that they can be moved."""
    rt = rt_of(m, cpu)
    m[rt, rt_rq.TIME] = 0
    m[rt, rt_rq.THROTTLED] = 0
    count_tasks(m, cpu)


@apart(VALUE)
def about_a_cpu(m, question, cpu, p, c):
    """Answer a question about a CPU."""
    if question == seam_jit.PICK:
        return pick_rt(m, cpu, p, c)
    if question == seam_jit.PUT_PREV:
        put_prev(m, cpu, p)
    elif question == seam_jit.TICK:
        tick_rt(m, cpu, p)
    elif question == seam_jit.PREEMPT:
        check_preempt_rt(m, cpu, p)
    elif question == seam_jit.WOKEN:
        woken_rt(m, cpu, p)
    elif question == seam_jit.YIELD:
        requeue(m, cpu, p, 0)  # yield_task_rt()
    elif question == seam_jit.POST_SCHEDULE:
        post_schedule(m, cpu)
    elif question == seam_jit.OFFLINE:
        offline(m, cpu)
        return m[rt_of(m, cpu), rt_rq.HEAD]
    return 0


@apart(VALUE, entry=True)
def answer(m, question, a, b, c):
    """Do what the scheduler asks (realtime/seam_jit.py) and return the answer."""
    if question == seam_jit.ENQUEUE:
        enqueue_rt(m, a, b)
    elif question == seam_jit.DEQUEUE:
        dequeue_rt(m, a)
    elif question == seam_jit.SELECT:
        return select_task_rq_rt(m, a, b)
    elif question == seam_jit.PERIOD:
        period(m)
    elif question == seam_jit.SET_POLICY:
        set_policy(m, a, b, c)
    elif question == seam_jit.BORN:
        m[a, task.TIME_SLICE] = m[shared(m), rt_rq.TIME_SLICE]
    else:
        return about_a_cpu(m, question, a, b, c)
    return 0
