"""Columns of a row that holds ``struct sg_lb_stats``, the statistics of a scheduling group, and which row is whose."""

from __future__ import annotations

(
    GROUP_LOAD,
    GROUP_USAGE,
    SUM_NR_RUNNING,
    SUM_WEIGHTED_LOAD,
    IDLE_CPUS,
    GROUP_CAPACITY,
    AVG_LOAD,
    LOAD_PER_TASK,
    GROUP_WEIGHT,
    GROUP_NO_CAPACITY,
    GROUP_TYPE,
    MIN_LOAD,
    MAX_LOAD,
) = range(13)

# GROUP_TYPE
OTHER, IMBALANCED, OVERLOADED = range(3)
# the three rows: the local group, the busiest so far, and the group that is being looked at
LOCAL, BUSIEST, SPARE = range(3)
