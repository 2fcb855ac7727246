"""The entry of the real-time class: the next task, and changes of the policy (kernel/sched/rt.c and core.c, v4.1)."""

from __future__ import annotations

from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.fair.cfs_jit import put_prev_task, resched, set_next_task
from wastedcores.simulator.engine.fair.entity_jit import dequeue_task, enqueue_task
from wastedcores.simulator.engine.realtime.push_pull_jit import pull_rt_task, push_rt_tasks
from wastedcores.simulator.engine.realtime.queue_jit import (
    count_tasks,
    dequeue_rt,
    enqueue_rt,
    first_pushable,
    highest,
    put_prev,
    requeue,
    rt_of,
    shared,
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


@apart(NOTHING)
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


@apart(VALUE)
def offline(k: Kernel, cpu: int) -> TaskStruct:
    """rq_offline_rt(), __disable_runtime(): let the tasks of a CPU that goes offline run; return the most urgent one."""
    rt = rt_of(k, cpu)
    rt.time = 0
    rt.throttled = 0
    count_tasks(k, cpu)
    return rt.head


@apart(NOTHING)
def yield_task_rt(k: Kernel, cpu: int, p: TaskStruct) -> None:
    """yield_task_rt(): put the task behind those of its priority."""
    requeue(k, cpu, p, 0)


@apart(NOTHING)
def born(k: Kernel, p: TaskStruct) -> None:
    """Give a new task its quantum."""
    p.time_slice = shared(k).time_slice
