"""The loads the balancer compares (kernel/sched/fair.c and proc.c, v4.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.simulator.reference.arithmetic import decay_missed
from wastedcores.simulator.reference.state import CfsRq, Rq, Task, TaskGroup

if TYPE_CHECKING:
    from wastedcores.simulator.reference.kernel import Kernel


def update_cpu_load(rq: Rq, load: int, pending: int) -> None:
    """Shift the five running averages by ``pending`` ticks (proc.c: __update_cpu_load(), v4.1)."""
    rq.cpu_load[0] = load
    for i in range(1, 5):
        old = decay_missed(rq.cpu_load[i], pending - 1, i)
        new = load
        if new > old:
            new += (1 << i) - 1
        rq.cpu_load[i] = (old * ((1 << i) - 1) + new) >> i


def weighted_cpuload(rq: Rq) -> int:
    """weighted_cpuload(): queued entities only, no blocked load."""
    return rq.cfs.runnable_load_avg


def source_load(rq: Rq, index: int) -> int:
    """Low guess at the load of a CPU we might take from; index t reads cpu_load[t-1] (source_load(), LB_BIAS)."""
    total = weighted_cpuload(rq)
    return min(rq.cpu_load[index - 1], total) if index else total


def target_load(rq: Rq, index: int) -> int:
    """High guess at the load of a CPU we might give to (target_load(), LB_BIAS)."""
    total = weighted_cpuload(rq)
    return max(rq.cpu_load[index - 1], total) if index else total


def cpu_avg_load_per_task(rq: Rq) -> int:
    """cpu_avg_load_per_task()."""
    return rq.cfs.runnable_load_avg // rq.cfs.h_nr_running if rq.cfs.h_nr_running else 0


def get_cpu_usage(rq: Rq) -> int:
    """Utilization of a CPU in units of its capacity (get_cpu_usage(), v4.1)."""
    usage = rq.cfs.utilization_load_avg
    if usage >= 1024:
        return rq.cpu_capacity_orig
    return (usage * rq.cpu_capacity_orig) >> 10


def update_h_load(k: Kernel, cfs_rq: CfsRq) -> None:
    """Load of a queue seen from the root, recomputed once per jiffy (update_cfs_rq_h_load())."""
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
    """What moving ``p`` would take from its CPU's load (task_h_load())."""
    cfs_rq = p.se.cfs_rq
    update_h_load(k, cfs_rq)
    return p.se.load_avg_contrib * cfs_rq.h_load // (cfs_rq.runnable_load_avg + 1)


def effective_load(tg: TaskGroup, cpu: int, wl: int, wg: int) -> int:
    """How the CPU's load changes if weight ``wl`` joins ``tg`` there (effective_load(), v4.1)."""
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
            wl = _quotient(w * q.tg.shares, total)
        else:
            wl = q.tg.shares
        wl = max(wl, 2)
        wl -= se.weight
        wg = 0
        se = se.parent
    return wl


def _quotient(a: int, b: int) -> int:
    """C division: towards zero."""
    return a // b if a >= 0 else -(-a // b)
