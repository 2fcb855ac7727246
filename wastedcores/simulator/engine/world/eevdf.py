"""Columns that entities and CFS queues have under v6.12 only: ``struct sched_avg``, and what EEVDF adds.

They lie behind all other columns of entities, tasks and queues, so that v4.1 does not touch them.
"""

from __future__ import annotations

#: the first column
FIRST = 96
# struct sched_avg, of an entity or of a queue
(
    LAST_UPDATE,
    LOAD_SUM,
    RUNNABLE_SUM,
    UTIL_SUM,
    PERIOD_CONTRIB,
    LOAD_AVG,
    RUNNABLE_AVG,
    UTIL_AVG,
    UTIL_EST,
    UNCHANGED,  # UTIL_AVG_UNCHANGED
) = range(FIRST, FIRST + 10)
# an entity
(
    DEADLINE,
    SLICE,
    CUSTOM_SLICE,
    VLAG,  # lag at the last dequeue; before v6.17, while the entity runs, the deadline that it had when it was picked
    REL_DEADLINE,
    SCHED_DELAYED,
    RUNNABLE_WEIGHT,
) = range(FIRST + 10, FIRST + 17)
# a queue; its H_NR_RUNNING is h_nr_queued
(
    AVG_VRUNTIME,  # sums over the entities in the tree
    AVG_LOAD,
    ZERO_VRUNTIME,
    H_NR_DELAYED,
    PROPAGATE,
    PROP_RUNNABLE_SUM,
    LAST_UPDATE_TG,
    REMOVED_NR,  # what tasks that woke elsewhere left behind (struct removed); its load is cfs_rq.REMOVED_LOAD
    REMOVED_UTIL,
    REMOVED_RUNNABLE,
) = range(FIRST + 17, FIRST + 27)
# a task
(
    RECENT_USED_CPU,
    KTHREAD,  # whether it has the name of a kernel thread of which each CPU has one; templates have this column, too
    UTIL_EWMA,  # the two numbers of which v6.1 takes the larger one as UTIL_EST (struct util_est)
    UTIL_ENQUEUED,
) = range(FIRST + 27, FIRST + 31)
#: an entity: the vruntime up to which it is protected (v6.17)
VPROT = FIRST + 31
