"""Columns of the row that holds ``struct lb_env``."""

from __future__ import annotations

(
    SD,
    DST_CPU,
    IDLE,
    SRC_CPU,
    FLAGS,
    LOOP,
    LOOP_MAX,
    LOOP_BREAK,
    IMBALANCE,
    NEW_DST_CPU,
    TASKS,  # the detached tasks, linked by task.CFS_TASKS_NEXT
    WHY,  # codes/log_op.py
    DST_GROUP,  # the group whose CPUs are dst_grpmask, -1 for none
) = range(13)

# FLAGS: LBF_*
ALL_PINNED, NEED_BREAK, DST_PINNED, SOME_PINNED = 1, 2, 4, 8
