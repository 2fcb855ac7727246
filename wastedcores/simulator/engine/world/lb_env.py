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
    THIS_CPU,  # the CPU for which load_balance() was called
    MOVED,  # the tasks that it moved
    PINNED,  # from here on, for the log of decisions: looks at a task that affinity kept where it is,
    RUNNING,  # that was running,
    HOT,  # that was cache-hot,
    HEAVY,  # or whose load was more than twice the imbalance
    MIGRATION,  # what is to move (v6.12)
    REASON,  # the comparison that found the domain balanced (codes/balanced.py, v6.12)
    MOVES,  # 1 + what the last calculate_imbalance() decided to move, 0 if it was not called (v6.12)
) = range(22)

# FLAGS: LBF_*
ALL_PINNED, NEED_BREAK, DST_PINNED, SOME_PINNED, ACTIVE_LB = 1, 2, 4, 8, 16
# MIGRATION: enum migration_type; misfit tasks do not occur on machines whose CPUs are alike
BY_LOAD, BY_UTIL, BY_TASK = range(3)
