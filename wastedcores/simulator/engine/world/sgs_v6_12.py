"""Columns of a row that holds ``struct sg_lb_stats`` of v6.12, the statistics of a scheduling group, and which row is whose.

They lie behind v4.1's statistics in the same rows.
"""

from __future__ import annotations

#: the first column
FIRST = 20
(
    GROUP,  # row of the group, -1 for none
    AVG_LOAD,
    LOAD,
    UTIL,
    RUNNABLE,
    CAPACITY,
    SUM_NR,  # rq->nr_running
    SUM_H_NR,  # fair tasks
    IDLE_CPUS,
    WEIGHT,
    TYPE,
    SMT_BALANCE,
    END,  # the column behind the last one
) = range(FIRST, FIRST + 13)

# TYPE (enum group_type); MISFIT and ASYM_PACKING never occur
HAS_SPARE, FULLY_BUSY, MISFIT, SMT_BALANCE_TYPE, ASYM_PACKING, IMBALANCED, OVERLOADED = range(7)
# the three rows: the local group, the busiest so far, and the group that is being looked at
LOCAL, BUSIEST, SPARE = range(3)
