"""What happens to tasks under EEVDF besides running: another nice value, yield, another task group, a dying CPU (v6.12.107)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.simulator.reference import pelt_v6_12 as pelt
from wastedcores.simulator.reference.arithmetic import PRIO_TO_WEIGHT, PRIO_TO_WMULT
from wastedcores.simulator.reference.eevdf import (
    clear_buddies,
    eligible,
    reweight_entity,
    update_curr,
    update_deadline,
)
from wastedcores.simulator.reference.eevdf_class import (
    dequeue_task,
    enqueue_task,
    pick_task,
    put_prev_task,
    set_next_task,
    set_task_rq,
)
from wastedcores.simulator.reference.state import Rq, Task, TaskGroup

if TYPE_CHECKING:
    from wastedcores.simulator.reference.kernel import Kernel


def set_user_nice(k: Kernel, p: Task, nice: int) -> None:
    """Change the weight of the running task (set_user_nice(), reweight_task_fair() and prio_changed_fair(), v6.12.107)."""
    change = nice - p.nice
    if not change:
        return
    rq = k.rqs[p.cpu]
    dequeue_task(k, rq, p, sleep=False, migrating=False)
    put_prev_task(k, p)
    p.nice = nice
    reweight_entity(k, p.se, PRIO_TO_WEIGHT[nice + 20] << 10, PRIO_TO_WMULT[nice + 20])
    enqueue_task(k, rq, p)
    set_next_task(k, p)
    if change > 0 and rq.cfs.nr_running > 1:
        k.resched(rq)


def yield_task(k: Kernel, rq: Rq, p: Task) -> None:
    """Let an eligible task forgo the rest of its slice (yield_task_fair(), v6.12.107)."""
    if rq.nr_running == 1:
        return
    se = p.se
    clear_buddies(se)
    update_curr(k, se.cfs_rq)
    if eligible(se.cfs_rq, se):
        se.vruntime = se.deadline
        update_deadline(k, se.cfs_rq, se)


def move_group(k: Kernel, p: Task, tg: TaskGroup) -> None:
    """Move the running task to another group (sched_move_task(), core.c, and task_change_group_fair(), v6.12.107)."""
    rq = k.rqs[p.cpu]
    dequeue_task(k, rq, p, sleep=False, migrating=False)
    put_prev_task(k, p)
    pelt.detach_task(k.now_ns, p.se)
    p.se.avg.last_update = 0
    p.tg = tg
    set_task_rq(p, p.cpu)
    pelt.attach_task(k.now_ns, p.se)
    enqueue_task(k, rq, p)
    set_next_task(k, p)
    k.resched(rq)


def leave_groups(k: Kernel, rq: Rq) -> None:
    """Take a dying CPU off the loads of all task groups (clear_tg_offline_cfs_rqs(), v6.12.107)."""
    for tg in k.groups[1:]:
        q = tg.cfs_rq[rq.cpu]
        tg.load_avg -= q.tg_load_contrib
        q.tg_load_contrib, q.last_update_tg = 0, k.now_ns


def push_all(k: Kernel, rq: Rq) -> None:
    """Move every task that a dying CPU picks to another CPU (balance_push() and __balance_push_cpu_stop(), core.c, v6.12.107).

    The sleepers that are still queued leave the queue when they are picked.
    """
    while (p := pick_task(k, rq)) is not None:
        k.log_op = "hotplug"
        target = k.fallback_cpu(p)
        dequeue_task(k, rq, p, sleep=False)
        k.set_task_cpu(p, target)
        enqueue_task(k, k.rqs[target], p)
        k.check_preempt_curr(k.rqs[target], p)
