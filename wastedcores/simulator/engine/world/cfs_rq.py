"""Columns of a CFS queue, ``struct cfs_rq``. What a tick reads of it lies in two cache lines."""

from __future__ import annotations

(
    CURR,
    LEFTMOST,
    MIN_VRUNTIME,
    NR_RUNNING,
    LOAD_WEIGHT,  # load.weight
    CPU,
    ENTITY,  # the group's entity in the parent queue, -1 for a root queue
    TASK_GROUP,
    RUNNABLE_LOAD_AVG,  # the second cache line begins here
    UTILIZATION_LOAD_AVG,
    H_NR_RUNNING,
    BLOCKED_LOAD_AVG,
    LAST_DECAY,
    DECAY_COUNTER,
    REMOVED_LOAD,
    TG_LOAD_CONTRIB,
    NEXT,  # the three buddies
    LAST,
    SKIP,
    RIGHTMOST,
    ON_LIST,
    TG_RUNNABLE_CONTRIB,
    H_LOAD,
    LAST_H_LOAD_UPDATE,
) = range(24)
