"""The loads that the balancer of Linux 4.4 compares, where they differ from v4.1's (kernel/sched/fair.c, v4.4).

The functions have the names of :mod:`load`, so that the balancer calls either module as ``k.loads``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.simulator.reference.load import quotient
from wastedcores.simulator.reference.state import CfsRq, Rq, Task, TaskGroup

if TYPE_CHECKING:
    from wastedcores.simulator.reference.kernel import Kernel


def cpu_usage(rq: Rq) -> int:
    """Return the utilization of a CPU, which is at most its capacity (cpu_util(), v4.4)."""
    return min(rq.cfs.avg.util_avg, rq.cpu_capacity_orig)


def task_weight(p: Task) -> int:
    """Return the load with which wake_affine() counts a task (v4.4)."""
    return p.se.avg.load_avg


def wake_wide(k: Kernel, p: Task, cpu: int) -> bool:
    """Tell whether waker and wakee wake so many tasks that they should not share a cache (wake_wide(), v4.4)."""
    factor = k.llc_size[cpu]
    fewer, more = sorted((p.wakee_flips, k.current(cpu).wakee_flips))
    return fewer >= factor and more >= fewer * factor


def _update_h_load(k: Kernel, q: CfsRq) -> None:
    """Recompute, once per jiffy, the load of a queue as seen from the root queue (update_cfs_rq_h_load(), v4.4)."""
    if q.last_h_load_update == k.jiffies:
        return
    se = q.tg.se[q.rq.cpu]
    if se is None:
        q.h_load = q.avg.load_avg
    else:
        up = se.cfs_rq
        _update_h_load(k, up)
        q.h_load = up.h_load * se.avg.load_avg // (up.avg.load_avg + 1)
    q.last_h_load_update = k.jiffies


def task_h_load(k: Kernel, p: Task) -> int:
    """Return the load that moving ``p`` would take from its CPU (task_h_load(), v4.4)."""
    q = p.se.cfs_rq
    _update_h_load(k, q)
    return p.se.avg.load_avg * q.h_load // (q.avg.load_avg + 1)


def effective_load(tg: TaskGroup, cpu: int, wl: int, wg: int) -> int:
    """Return the change of a CPU's load if a task of load ``wl`` joins ``tg`` there (effective_load(), v4.4).

    ``wg`` is the change of the load of the whole group.
    """
    se = tg.se[cpu]
    while se is not None:
        q = se.my_q
        assert q is not None
        total = wg + q.tg.load_avg - q.tg_load_contrib + q.weight  # calc_tg_weight()
        w = q.avg.load_avg + wl
        wl = quotient(w * q.tg.shares, total) if total > 0 and w < total else q.tg.shares
        wl = max(wl, 2) - se.avg.load_avg
        wg = 0
        se = se.parent
    return wl
