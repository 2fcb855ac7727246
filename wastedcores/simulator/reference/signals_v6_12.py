"""The loads of CPUs and tasks that placement and balancing of Linux 6.12 compare (kernel/sched/fair.c, v6.12.107).

Every CPU has the capacity 1024: no real-time load, frequency or asymmetry reduces it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.simulator.reference import pelt_v6_12 as pelt
from wastedcores.simulator.reference.state import CfsRq, Rq, Task

if TYPE_CHECKING:
    from wastedcores.simulator.reference.kernel import Kernel

#: SCHED_CAPACITY_SCALE
CAPACITY = 1024


def cpu_load(rq: Rq) -> int:
    """Return the load of a CPU, with that of tasks that sleep (cpu_load(), v6.12.107)."""
    return rq.cfs.avg.load_avg


def cpu_runnable(rq: Rq) -> int:
    """Return how many tasks a CPU had to run on average, times 1024 (cpu_runnable(), v6.12.107)."""
    return rq.cfs.avg.runnable_avg


def task_util(p: Task) -> int:
    """Return the use that a task makes of a CPU (task_util(), v6.12.107)."""
    return p.se.avg.util_avg


def task_util_est(p: Task) -> int:
    """Return the use that a task is expected to make of a CPU (task_util_est(), v6.12.107)."""
    return max(p.se.avg.util_avg, p.se.avg.util_est)


def cpu_util(
    k: Kernel, cpu: int, p: Task | None = None, dst_cpu: int = -1, boost: bool = False
) -> int:
    """Return the use of a CPU as it is, or as it would be if ``p`` ran on ``dst_cpu`` (cpu_util(), v6.12.107).

    With ``boost``, tasks that wait for the CPU count as use.
    """
    avg = k.rqs[cpu].cfs.avg
    util, runnable, estimate = avg.util_avg, avg.runnable_avg, avg.util_est
    if p is not None and p.cpu == cpu != dst_cpu:
        util -= min(util, task_util(p))
        runnable -= min(runnable, p.se.avg.runnable_avg)
    elif p is not None and p.cpu != cpu == dst_cpu:
        util += task_util(p)
        runnable += p.se.avg.runnable_avg
    if boost:
        util = max(util, runnable)
    if p is not None and dst_cpu == cpu:
        estimate += p.se.avg.util_est
    elif p is not None and (p.on_rq or k.current(k.cpu) is p):
        estimate -= min(estimate, p.se.avg.util_est)
    return min(max(util, estimate), CAPACITY)


def cpu_util_without(k: Kernel, cpu: int, p: Task) -> int:
    """Return the use of a CPU without the contribution of ``p`` (cpu_util_without(), v6.12.107)."""
    return cpu_util(k, cpu, p if _contributes(cpu, p) else None)


def cpu_load_without(k: Kernel, rq: Rq, p: Task) -> int:
    """Return the load of a CPU without the contribution of ``p`` (cpu_load_without(), v6.12.107)."""
    load = cpu_load(rq)
    return load - min(load, task_h_load(k, p)) if _contributes(rq.cpu, p) else load


def cpu_runnable_without(rq: Rq, p: Task) -> int:
    """Return the runnable average of a CPU without the contribution of ``p`` (cpu_runnable_without(), v6.12.107)."""
    runnable = cpu_runnable(rq)
    return runnable - min(runnable, p.se.avg.runnable_avg) if _contributes(rq.cpu, p) else runnable


def _contributes(cpu: int, p: Task) -> bool:
    """Tell whether the averages of a CPU contain those of ``p``, which a new task's do not."""
    return p.cpu == cpu and p.se.avg.last_update != 0


def h_load(k: Kernel, q: CfsRq) -> int:
    """Return the load of a queue as seen from the root queue, from this jiffy (update_cfs_rq_h_load(), v6.12.107)."""
    if q.last_h_load_update != k.jiffies:
        se = q.tg.se[q.rq.cpu]
        if se is None:
            q.h_load = q.avg.load_avg
        else:
            above = se.cfs_rq
            q.h_load = h_load(k, above) * se.avg.load_avg // (above.avg.load_avg + 1)
        q.last_h_load_update = k.jiffies
    return q.h_load


def task_h_load(k: Kernel, p: Task) -> int:
    """Return the part of its CPU's load that is due to ``p`` (task_h_load(), v6.12.107)."""
    q = p.se.cfs_rq
    return p.se.avg.load_avg * h_load(k, q) // (q.avg.load_avg + 1)


def sync_entity_load_avg(p: Task) -> None:
    """Let the averages of a task decay up to the last update of its queue (sync_entity_load_avg(), v6.12.107)."""
    pelt.update_blocked_se(p.se.cfs_rq.avg.last_update, p.se)


def remove_entity_load_avg(p: Task) -> None:
    """Let the old queue of a task that wakes elsewhere subtract its averages later (remove_entity_load_avg(), v6.12.107)."""
    sync_entity_load_avg(p)
    q, avg = p.se.cfs_rq, p.se.avg
    q.removed_nr += 1
    q.removed_util += avg.util_avg
    q.removed_load += avg.load_avg
    q.removed_runnable += avg.runnable_avg


def migrate_task(k: Kernel, p: Task) -> None:
    """Take a task off the averages of the CPU that it leaves (migrate_task_rq_fair(), v6.12.107; its end in v6.1).

    A queued task was detached when it was dequeued. A task that sleeps leaves its averages for the old queue to subtract. If
    its old CPU is idle, the averages also decay until now, which the queue of that CPU has not seen yet
    (migrate_se_pelt_lag()).
    """
    se = p.se
    if p.state == "waking" and not se.sched_delayed and se.avg.last_update:
        remove_entity_load_avg(p)
        rq = se.cfs_rq.rq
        if rq.curr is rq.idle_task:
            pelt.update_blocked_se(k.now_ns, se)
    se.avg.last_update = 0
    p.se.exec_start = 0


def task_dead(p: Task) -> None:
    """Let the queue of a task that died subtract its averages (task_dead_fair(), v6.12.107; called by finish_task_switch())."""
    remove_entity_load_avg(p)
