"""Columns of the row that holds the globals of v6.12's balancer, ``m[m[0, sim.SCRATCH] + ROW]``."""

from __future__ import annotations

#: the row, counted from ``sim.SCRATCH``
ROW = 6
(
    ENTRY,  # address of the balancer of v6.12, 0 if it does not balance
    NOHZ_HAS_BLOCKED,  # nohz.has_blocked: averages of tickless CPUs are left to update
    NOHZ_NEEDS_UPDATE,  # nohz.needs_update: sim.NOHZ_NEXT_BALANCE has to be computed anew
    NOHZ_NEXT_BLOCKED,  # nohz.next_blocked: the jiffy at which they are due
    NEWIDLE,  # when newidle balancing tries a level, codes/newidle.py
    DELAY_DEQUEUE,  # likewise DELAY_DEQUEUE
    SIS_UTIL,  # likewise SIS_UTIL
    IDLE_TICKS_BEFORE_STOP,  # 1: an idle CPU takes one tick before it stops its tick, as without a cpuidle governor
    TG_LOAD_AVG_LIMITED,  # this and the following as in wastedcores/kernels/rules.py
    WHOLE_CORES_BALANCE,
    SIBLINGS_COUNTED,
    PREFER_SIBLING_OF_CHILD,
    LAST_FULLY_BUSY,
    PLACEMENT_MASKED,
    WAITING_IS_USE,
    CLUSTERS_SCANNED,
    SLEEPERS_COUNTED,
    SLEEPERS_PULLED,
    INELIGIBLE_WAIT,
    SLICE_END_STORED,
    REWEIGHT,  # 0 lag, 1 place, 2 average
    EXACT_AVERAGES,
    SLEEPERS_LAG_KEPT,
    WAKEUP_PICKS,
    UTIL_EST_AT_DEQUEUE,
    IDLE_TIME_AT_EXIT,
    SLICE_TIMER,
    LAZY_PREEMPTION,
    SMT_ACTIVE,  # sched_smt_active()
    CLUSTERS,  # sched_cluster_active
    IN_INTERRUPT,  # a timer wakes a task, and not the task that runs
    SCAN_LEFT,  # of a search for an idle CPU: how many CPUs it may still examine
    SCAN_CPU,  # the idle CPU that it found, -1 for none
    SCAN_OVER,
    REFILL_NS,  # of all kernels: what a task pays when it first runs behind another last-level cache
) = range(35)

REWEIGHT_LAG, REWEIGHT_PLACE, REWEIGHT_AVERAGE = range(3)
