"""The scheduling classes: each function hands over to the class of its task, and a task may change its policy.

Source: kernel/sched/core.c, v4.1. The real-time class comes before the fair class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.simulator.reference import realtime
from wastedcores.simulator.reference.arithmetic import PRIO_TO_WEIGHT, PRIO_TO_WMULT
from wastedcores.simulator.reference.state import Rq, Task

if TYPE_CHECKING:
    from wastedcores.simulator.reference.kernel import Kernel

#: WEIGHT_IDLEPRIO and WMULT_IDLEPRIO (kernel/sched/sched.h, v4.1)
IDLE_WEIGHT, IDLE_WMULT = 3, 1431655765


def enqueue_task(
    k: Kernel,
    rq: Rq,
    p: Task,
    wakeup: bool = False,
    waking: bool = False,
    initial: bool = False,
    head: bool = False,
) -> None:
    """Put a task on a run queue (enqueue_task(), v4.1); ``head`` is ENQUEUE_HEAD, which only the real-time class heeds."""
    if p.rt_priority:
        realtime.enqueue_task(k, rq, p, head)
    else:
        k.fair.enqueue_task(k, rq, p, wakeup, waking, initial)


def dequeue_task(k: Kernel, rq: Rq, p: Task, sleep: bool) -> None:
    """Take a task off its run queue (dequeue_task(), v4.1)."""
    if p.rt_priority:
        realtime.dequeue_task(k, rq, p)
    else:
        k.fair.dequeue_task(k, rq, p, sleep)


def put_prev_task(k: Kernel, rq: Rq, p: Task) -> None:
    """Put back the task that ran (put_prev_task(), v4.1)."""
    if p.rt_priority:
        realtime.put_prev_task(k, rq, p)
    else:
        k.fair.put_prev_task(k, p)


def set_curr_task(k: Kernel, p: Task) -> None:
    """Make a task the running one of its class (set_curr_task_rt() and set_curr_task_fair(), v4.1)."""
    if p.rt_priority:
        p.se.exec_start = k.now_ns
    else:
        for se in p.se.levels():
            k.fair.set_next_entity(k, se.cfs_rq, se)


def set_load_weight(p: Task) -> None:
    """Set the weight that the fair class gives a task (set_load_weight(), v4.1)."""
    if p.policy == "idle":
        p.se.weight, p.se.inv = IDLE_WEIGHT, IDLE_WMULT
    else:
        p.se.weight, p.se.inv = PRIO_TO_WEIGHT[p.nice + 20], PRIO_TO_WMULT[p.nice + 20]


def sched_fork(k: Kernel, p: Task, parent: Task) -> None:
    """Let a new task inherit the policy of its parent (sched_fork(), v4.1).

    Its SCHED_RR quantum is a whole one (__sched_fork(), v4.6; before, it had what was left of the parent's).
    """
    p.policy, p.rt_priority = parent.policy, parent.rt_priority
    p.time_slice = realtime.rr_timeslice(k)
    set_load_weight(p)


def set_scheduler(k: Kernel, p: Task, policy: str, priority: int) -> None:
    """Change the policy of the running task (__sched_setscheduler(), v4.1).

    Changes within the fair class, too, take the task off its queue, as from v4.2.
    """
    if p.policy == policy and p.rt_priority == priority:
        return
    rq, before = k.rqs[p.cpu], p.rt_priority
    dequeue_task(k, rq, p, sleep=False)
    put_prev_task(k, rq, p)
    p.policy, p.rt_priority = policy, priority
    set_load_weight(p)
    set_curr_task(k, p)
    # to the tail only if the priority rises
    enqueue_task(k, rq, p, head=before >= priority)
    realtime.check_class_changed(k, rq, p, before)
