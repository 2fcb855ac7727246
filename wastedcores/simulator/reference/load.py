"""The loads that the balancer compares (kernel/sched/fair.c and proc.c, v4.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.simulator.reference.arithmetic import decay_missed
from wastedcores.simulator.reference.state import CfsRq, Rq, Task, TaskGroup

if TYPE_CHECKING:
    from wastedcores.simulator.reference.kernel import Kernel


def update_cpu_load(rq: Rq, load: int, pending: int) -> None:
    """Move the five running averages on by ``pending`` ticks (proc.c: __update_cpu_load(), v4.1)."""
    rq.cpu_load[0] = load
    for i in range(1, 5):
        old = decay_missed(rq.cpu_load[i], pending - 1, i)
        new = load
        if new > old:
            new += (1 << i) - 1
        rq.cpu_load[i] = (old * ((1 << i) - 1) + new) >> i


def weighted_cpuload(rq: Rq) -> int:
    """Return the load of the queued entities, without blocked load (weighted_cpuload(), v4.1)."""
    return rq.cfs.runnable_load_avg


def cfs_rq_load_avg(rq: Rq) -> int:
    """Return the load of the queued and of the sleeping entities (cfs_rq_load_avg(), v4.19)."""
    return rq.cfs.runnable_load_avg + rq.cfs.blocked_load_avg


def source_load(rq: Rq, index: int) -> int:
    """Return a low estimate of the load of a CPU to take from; index t reads cpu_load[t - 1] (source_load(), LB_BIAS)."""
    total = weighted_cpuload(rq)
    return min(rq.cpu_load[index - 1], total) if index else total


def target_load(rq: Rq, index: int) -> int:
    """Return a high estimate of the load of a CPU to give to (target_load(), LB_BIAS)."""
    total = weighted_cpuload(rq)
    return max(rq.cpu_load[index - 1], total) if index else total


def cpu_avg_load_per_task(rq: Rq) -> int:
    """Return the mean load of a task on the run queue (cpu_avg_load_per_task(), v4.1)."""
    return rq.cfs.runnable_load_avg // rq.cfs.h_nr_running if rq.cfs.h_nr_running else 0


def cpu_usage(rq: Rq) -> int:
    """Return the utilization of a CPU in units of its capacity (get_cpu_usage(), v4.1)."""
    usage = rq.cfs.utilization_load_avg
    if usage >= 1024:
        return rq.cpu_capacity_orig
    return (usage * rq.cpu_capacity_orig) >> 10


def task_weight(p: Task) -> int:
    """Return the load with which wake_affine() counts a task (v4.1)."""
    return p.se.weight


def wake_wide(k: Kernel, p: Task, cpu: int) -> bool:
    """Tell whether waker and wakee wake so many tasks that they should not share a cache (wake_wide(), v4.1)."""
    factor = k.llc_size[cpu]
    return p.wakee_flips > factor and k.current(cpu).wakee_flips > factor * p.wakee_flips


def update_h_load(k: Kernel, cfs_rq: CfsRq) -> None:
    """Recompute, once per jiffy, the load of a queue as seen from the root queue (update_cfs_rq_h_load(), v4.1)."""
    if cfs_rq.last_h_load_update == k.jiffies:
        return
    path = []
    q = cfs_rq
    se = cfs_rq.tg.se[cfs_rq.rq.cpu]
    while se is not None:
        path.append(se)
        q = se.cfs_rq
        if q.last_h_load_update == k.jiffies:
            break
        se = se.parent
    if q.last_h_load_update != k.jiffies:
        q.h_load = q.runnable_load_avg
        q.last_h_load_update = k.jiffies
    for se in reversed(path):
        load = se.cfs_rq.h_load * se.load_avg_contrib // (se.cfs_rq.runnable_load_avg + 1)
        assert se.my_q is not None
        se.my_q.h_load = load
        se.my_q.last_h_load_update = k.jiffies


def task_h_load(k: Kernel, p: Task) -> int:
    """Return the load that moving ``p`` would take from its CPU (task_h_load(), v4.1)."""
    cfs_rq = p.se.cfs_rq
    update_h_load(k, cfs_rq)
    return p.se.load_avg_contrib * cfs_rq.h_load // (cfs_rq.runnable_load_avg + 1)


def effective_load(tg: TaskGroup, cpu: int, wl: int, wg: int) -> int:
    """Return the change of a CPU's load if a task of weight ``wl`` joins ``tg`` there (effective_load(), v4.1).

    ``wg`` is the change of the weight of the whole group.
    """
    if tg.se[cpu] is None:
        return wl
    se = tg.se[cpu]
    while se is not None:
        q = se.my_q
        assert q is not None
        # calc_tg_weight()
        total = wg + q.tg.load_avg - q.tg_load_contrib + q.weight
        w = q.weight + wl
        if total > 0 and w < total:
            wl = quotient(w * q.tg.shares, total)
        else:
            wl = q.tg.shares
        wl = max(wl, 2)
        wl -= se.weight
        wg = 0
        se = se.parent
    return wl


def quotient(a: int, b: int) -> int:
    """Divide as C does, rounding towards zero."""
    return a // b if a >= 0 else -(-a // b)
