"""How busy a scheduling group is, as placement and balancing of Linux 6.12 judge it (kernel/sched/fair.c, v6.12.107)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wastedcores.simulator.reference.domains import SchedGroup
    from wastedcores.simulator.reference.state import Rq

#: enum group_type; of these, 2 (misfit) and 4 (asymmetric packing) never occur here
HAS_SPARE, FULLY_BUSY, MISFIT, SMT_BALANCE, ASYM_PACKING, IMBALANCED, OVERLOADED = range(7)
#: NUMA_IMBALANCE_MIN
NUMA_IMBALANCE_MIN = 2


@dataclass(repr=False)
class GroupStats:
    """The sums over the CPUs of a group (struct sg_lb_stats); ``sum_nr`` counts rq->nr_running, ``sum_h_nr`` fair tasks."""

    group: SchedGroup | None = None
    avg_load: int = 0
    load: int = 0
    util: int = 0
    runnable: int = 0
    capacity: int = 0
    sum_nr: int = 0
    sum_h_nr: int = 0
    idle_cpus: int = 0
    weight: int = 0
    type: int = HAS_SPARE
    smt_balance: bool = False

    def classify(self, pct: int) -> None:
        """Set the type from the sums; ``pct`` is the domain's imbalance_pct (group_classify(), v6.12.107)."""
        assert self.group is not None
        if self.is_overloaded(pct):
            self.type = OVERLOADED
        elif self.group.sgc.imbalance:
            self.type = IMBALANCED
        elif self.smt_balance:
            self.type = SMT_BALANCE
        else:
            self.type = HAS_SPARE if self.has_capacity(pct) else FULLY_BUSY

    def has_capacity(self, pct: int) -> bool:
        """Tell whether the group has room for another task (group_has_capacity(), v6.12.107)."""
        if self.sum_nr < self.weight:
            return True
        if self.capacity * pct < self.runnable * 100:
            return False
        return self.capacity * 100 > self.util * pct

    def is_overloaded(self, pct: int) -> bool:
        """Tell whether the group has more tasks than it can run (group_is_overloaded(), v6.12.107)."""
        if self.sum_nr <= self.weight:
            return False
        return self.capacity * 100 < self.util * pct or self.capacity * pct < self.runnable * 100


def counted(rq: Rq) -> int:
    """Return the fair tasks of a CPU, with sleepers that are still queued (h_nr_queued) or without (h_nr_runnable, v6.18.15)."""
    return rq.cfs.h_nr_running - (0 if rq.rules.sleepers_counted else rq.cfs.h_nr_delayed)


def adjust_numa_imbalance(imbalance: int, dst_running: int, allowance: int) -> int:
    """Ignore a small imbalance between nodes while the destination runs few tasks (adjust_numa_imbalance(), v6.12.107)."""
    if dst_running > allowance or imbalance > NUMA_IMBALANCE_MIN:
        return imbalance
    return 0
