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
from wastedcores.simulator.engine.world.structs import NO_TASK, Kernel, TaskStruct


@apart(VALUE)
def pick_rt(k: Kernel, cpu: int, prev: TaskStruct, before: int) -> TaskStruct:
    """pick_next_task_rt(): return the next real-time task or NULL, after pulling one if the CPU becomes less urgent.

    ``before`` is the priority of what ran; ``prev`` is NULL after idle and after the stopper.
    """
    if before > highest(k, cpu):
        pull_rt_task(k, cpu)
    update_curr(k, cpu)
    rt = rt_of(k, cpu)
    if rt.counted == 0:
        return NO_TASK
    if prev != NO_TASK:
        if prev.rt_priority != 0:
            put_prev(k, cpu, prev)
        else:
            put_prev_task(k, prev)
    p = rt.head
    p.se.exec_start = k.now_ns
    p.pushable = 0
    rt.push_later = 1 if first_pushable(k, cpu, -1) != NO_TASK else 0
    return p


@inner
def post_schedule(k: Kernel, cpu: int) -> None:
    """post_schedule_rt(): push the tasks that wait behind the one just chosen."""
    rt = rt_of(k, cpu)
    if rt.push_later != 0:
        rt.push_later = 0
        push_rt_tasks(k, cpu)


@apart(NOTHING)
def set_policy(k: Kernel, p: TaskStruct, policy: int, priority: int) -> None:
    """__sched_setscheduler() of the running task, and check_class_changed().

    Changes within the fair class, too, take the task off its queue, as from v4.2.
    """
    before = p.rt_priority
    if p.policy == policy and before == priority:
        return
    cpu = p.cpu
    if before != 0:
        dequeue_rt(k, p)
    else:
        dequeue_task(k, p, False)
        put_prev_task(k, p)
    p.policy = policy
    p.rt_priority = priority
    set_load_weight(k, p)
    if priority != 0:
        p.se.exec_start = k.now_ns
        # to the tail only if the priority rises
        enqueue_rt(k, p, 1 if before >= priority else 0)
        if before > priority:
            pull_rt_task(k, cpu)
        if before != 0 and priority < highest(k, cpu):
            resched(k, cpu)
        return
    set_next_task(k, p)
    enqueue_task(k, p, False, False)
    if before != 0:
        if rt_of(k, cpu).nr_running == 0:
            pull_rt_task(k, cpu)
        resched(k, cpu)


@inner
def offline(k: Kernel, cpu: int) -> None:
    """rq_offline_rt(), __disable_runtime(): let the tasks of a CPU that goes offline run, so that they can be moved."""
    rt = rt_of(k, cpu)
    rt.time = 0
    rt.throttled = 0
    count_tasks(k, cpu)


@apart(VALUE)
def about_a_cpu(k: Kernel, question: int, cpu: int, p: TaskStruct, c: int) -> int:
    """Answer a question about a CPU."""
    if question == seam_jit.PICK:
        return pick_rt(k, cpu, p, c).row
    if question == seam_jit.PUT_PREV:
        put_prev(k, cpu, p)
    elif question == seam_jit.TICK:
        tick_rt(k, cpu, p)
    elif question == seam_jit.PREEMPT:
        check_preempt_rt(k, cpu, p)
    elif question == seam_jit.WOKEN:
        woken_rt(k, cpu, p)
    elif question == seam_jit.YIELD:
        requeue(k, cpu, p, 0)  # yield_task_rt()
    elif question == seam_jit.POST_SCHEDULE:
        post_schedule(k, cpu)
    elif question == seam_jit.OFFLINE:
        offline(k, cpu)
        return rt_of(k, cpu).head.row
    return 0


@apart(VALUE, entry=True)
def answer(k: Kernel, question: int, a: int, b: int, c: int) -> int:
    """Do what the scheduler asks (realtime/seam_jit.py) and return the answer."""
    if question == seam_jit.ENQUEUE:
        enqueue_rt(k, TaskStruct(k, a), b)
    elif question == seam_jit.DEQUEUE:
        dequeue_rt(k, TaskStruct(k, a))
    elif question == seam_jit.SELECT:
        return select_task_rq_rt(k, TaskStruct(k, a), b)
    elif question == seam_jit.PERIOD:
        period(k)
    elif question == seam_jit.SET_POLICY:
        set_policy(k, TaskStruct(k, a), b, c)
    elif question == seam_jit.BORN:
        TaskStruct(k, a).time_slice = shared(k).time_slice
    else:
        return about_a_cpu(k, question, a, TaskStruct(k, b), c)
    return 0
