"""How busy a scheduling group is, as placement and balancing of Linux 6.12 judge it (kernel/sched/fair.c, v6.12.107).

The sums over a group are row ``s``, one of three (world/sgs_v6_12.py).
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.world import (
    cfs_rq,
    eevdf,
    group_capacity,
    sched_group,
    sgs_v6_12,
    sim,
    v6_12,
)
from wastedcores.simulator.engine.world.rules_jit import rule

NUMA_IMBALANCE_MIN = 2


@inner
def clear(m, s):
    """Set all statistics of a row to 0; it has no group."""
    for column in range(sgs_v6_12.FIRST, sgs_v6_12.END):
        m[s, column] = 0
    m[s, sgs_v6_12.GROUP] = -1


@inner
def counted(m, cpu):
    """Return the fair tasks of a CPU, with sleepers that are still queued (h_nr_queued) or without (h_nr_runnable, v6.18.15)."""
    q = m[0, sim.CPUS] + cpu
    nr = m[q, cfs_rq.H_NR_RUNNING]
    return nr if rule(m, v6_12.SLEEPERS_COUNTED) else nr - m[q, eevdf.H_NR_DELAYED]


@inner
def has_capacity(m, s, pct):
    """group_has_capacity(): return whether the group has room for another task."""
    if m[s, sgs_v6_12.SUM_NR] < m[s, sgs_v6_12.WEIGHT]:
        return True
    if m[s, sgs_v6_12.CAPACITY] * pct < m[s, sgs_v6_12.RUNNABLE] * 100:
        return False
    return m[s, sgs_v6_12.CAPACITY] * 100 > m[s, sgs_v6_12.UTIL] * pct


@inner
def is_overloaded(m, s, pct):
    """group_is_overloaded(): return whether the group has more tasks than it can run."""
    if m[s, sgs_v6_12.SUM_NR] <= m[s, sgs_v6_12.WEIGHT]:
        return False
    return (
        m[s, sgs_v6_12.CAPACITY] * 100 < m[s, sgs_v6_12.UTIL] * pct
        or m[s, sgs_v6_12.CAPACITY] * pct < m[s, sgs_v6_12.RUNNABLE] * 100
    )


@inner
def classify(m, s, pct):
    """group_classify(): return the type of a group."""
    sgc = m[m[s, sgs_v6_12.GROUP], sched_group.SGC]
    if is_overloaded(m, s, pct):
        return sgs_v6_12.OVERLOADED
    if m[sgc, group_capacity.IMBALANCE] != 0:
        return sgs_v6_12.IMBALANCED
    if m[s, sgs_v6_12.SMT_BALANCE] != 0:
        return sgs_v6_12.SMT_BALANCE_TYPE
    return sgs_v6_12.HAS_SPARE if has_capacity(m, s, pct) else sgs_v6_12.FULLY_BUSY


@inner
def adjust_numa_imbalance(imbalance, dst_running, allowance):
    """adjust_numa_imbalance(): ignore a small imbalance between nodes while the destination runs few tasks."""
    if dst_running > allowance or imbalance > NUMA_IMBALANCE_MIN:
        return imbalance
    return imbalance * 0
