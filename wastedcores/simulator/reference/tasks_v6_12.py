"""What happens to tasks of modern kernels besides running: another nice value or task group, a dying CPU (v6.12.107).

The class, CFS of v6.1 or EEVDF, is asked as ``k.fair``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.simulator.reference import pelt_v6_12 as pelt
from wastedcores.simulator.reference.arithmetic import PRIO_TO_WEIGHT, PRIO_TO_WMULT
from wastedcores.simulator.reference.state import Rq, Task, TaskGroup

if TYPE_CHECKING:
    from wastedcores.simulator.reference.kernel import Kernel


def set_user_nice(k: Kernel, p: Task, nice: int) -> None:
    """Change the weight of the running task (set_user_nice(), reweight_task_fair() and prio_changed_fair(), v6.12.107)."""
    change = nice - p.nice
    if not change:
        return
    rq = k.rqs[p.cpu]
    k.fair.dequeue_task(k, rq, p, sleep=False, migrating=False, saved=True)
    k.fair.put_prev_task(k, p)
    p.nice = nice
    k.fair.reweight_entity(k, p.se, PRIO_TO_WEIGHT[nice + 20] << 10, PRIO_TO_WMULT[nice + 20])
    k.fair.enqueue_task(k, rq, p)
    k.fair.set_next_task(k, p, first=False)
    if change > 0 and rq.cfs.nr_running > 1:
        k.resched(rq)


def move_group(k: Kernel, p: Task, tg: TaskGroup) -> None:
    """Move the running task to another group (sched_move_task(), core.c, and task_change_group_fair(), v6.12.107)."""
    rq = k.rqs[p.cpu]
    k.fair.dequeue_task(k, rq, p, sleep=False, migrating=False)
    k.fair.put_prev_task(k, p)
    pelt.detach_task(k.now_ns, p.se)
    p.se.avg.last_update = 0
    p.tg = tg
    k.fair.set_task_rq(p, p.cpu)
    pelt.attach_task(k.now_ns, p.se)
    k.fair.enqueue_task(k, rq, p)
    k.fair.set_next_task(k, p, first=False)
    k.resched(rq)


def leave_groups(k: Kernel, rq: Rq) -> None:
    """Take a dying CPU off the loads of all task groups (clear_tg_offline_cfs_rqs(), v6.12.107)."""
    if not k.model.rules.tg_load_avg_limited:
        return
    for tg in k.groups[1:]:
        q = tg.cfs_rq[rq.cpu]
        tg.load_avg -= q.tg_load_contrib
        q.tg_load_contrib, q.last_update_tg = 0, k.now_ns


def push_all(k: Kernel, rq: Rq) -> None:
    """Move every task that a dying CPU picks to another CPU (balance_push() and __balance_push_cpu_stop(), core.c, v6.12.107).

    The sleepers that are still queued leave the queue when they are picked.
    """
    while (p := k.fair.pick_task(k, rq)) is not None:
        k.log_op = "hotplug"
        target = k.fallback_cpu(p)
        k.fair.dequeue_task(k, rq, p, sleep=False)
        k.set_task_cpu(p, target)
        k.fair.enqueue_task(k, k.rqs[target], p)
        k.check_preempt_curr(k.rqs[target], p)
