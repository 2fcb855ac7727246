"""How busy a scheduling group is, as placement and balancing of Linux 6.12 judge it (kernel/sched/fair.c, v6.12.107).

The sums over a group are row ``s``, one of three (codes/stats_row.py).
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.codes import group_type
from wastedcores.simulator.engine.world.rows_jit import cpu_cfs_rq
from wastedcores.simulator.engine.world.rules_jit import rule
from wastedcores.simulator.engine.world.structs import NO_GROUP, Kernel, Modern, SgLbStats

NUMA_IMBALANCE_MIN = 2


@inner
def clear(k: Kernel, s: SgLbStats) -> None:
    """Set all statistics of a row to 0; it has no group."""
    for column in range(SgLbStats.group, SgLbStats.smt_balance + 1):
        s[column] = 0
    s.group = NO_GROUP


@inner
def counted(k: Kernel, cpu: int) -> int:
    """Return the fair tasks of a CPU, with sleepers that are still queued (h_nr_queued) or without (h_nr_runnable, v6.18.15)."""
    q = cpu_cfs_rq(k, cpu)
    nr = q.h_nr_running
    return nr if rule(k, Modern.sleepers_counted) else nr - q.h_nr_delayed


@inner
def has_capacity(k: Kernel, s: SgLbStats, pct: int) -> bool:
    """group_has_capacity(): return whether the group has room for another task."""
    if s.sum_nr < s.weight:
        return True
    if s.capacity * pct < s.runnable * 100:
        return False
    return s.capacity * 100 > s.util * pct


@inner
def is_overloaded(k: Kernel, s: SgLbStats, pct: int) -> bool:
    """group_is_overloaded(): return whether the group has more tasks than it can run."""
    if s.sum_nr <= s.weight:
        return False
    return s.capacity * 100 < s.util * pct or s.capacity * pct < s.runnable * 100


@inner
def classify(k: Kernel, s: SgLbStats, pct: int) -> int:
    """group_classify(): return the type of a group."""
    sgc = s.group.sgc
    if is_overloaded(k, s, pct):
        return group_type.OVERLOADED
    if sgc.imbalance != 0:
        return group_type.IMBALANCED
    if s.smt_balance != 0:
        return group_type.SMT_BALANCE
    return group_type.HAS_SPARE if has_capacity(k, s, pct) else group_type.FULLY_BUSY


@inner
def adjust_numa_imbalance(imbalance, dst_running, allowance):
    """adjust_numa_imbalance(): ignore a small imbalance between nodes while the destination runs few tasks."""
    if dst_running > allowance or imbalance > NUMA_IMBALANCE_MIN:
        return imbalance
    return imbalance * 0
