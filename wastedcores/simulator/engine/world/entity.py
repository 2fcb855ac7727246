"""Columns of a scheduling entity: ``struct sched_entity`` with its ``struct sched_avg``.

They are also the first columns of a task, as the kernel embeds an entity in every task. What a tick reads of an
entity lies in two cache lines of eight columns each.
"""

from __future__ import annotations

(
    WEIGHT,  # load.weight
    CFS_RQ,  # the queue that the entity is on, or will be enqueued on
    PARENT,  # the group entity above it, -1 at the root
    MY_Q,  # the queue that a group entity stands for, -1 for a task
    ON_RQ,
    VRUNTIME,
    EXEC_START,
    SUM_EXEC_RUNTIME,
    LAST_RUNNABLE_UPDATE,  # the second cache line begins here
    RUNNABLE_AVG_SUM,
    RUNNING_AVG_SUM,
    AVG_PERIOD,
    LOAD_AVG_CONTRIB,
    UTILIZATION_AVG_CONTRIB,
    PREV_SUM_EXEC_RUNTIME,
    INV_WEIGHT,  # load.inv_weight
    NEXT,  # neighbours in the queue, which is sorted by vruntime
    PREV,
    DECAY_COUNT,
) = range(19)
