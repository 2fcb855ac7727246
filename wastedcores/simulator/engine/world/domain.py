"""Columns of a ``struct sched_domain``, of which every CPU has its own."""

from __future__ import annotations

(
    FLAGS,
    LAST_BALANCE,  # jiffies
    BALANCE_INTERVAL,  # ms
    BUSY_FACTOR,
    MAX_NEWIDLE_LB_COST,
    NEXT_DECAY_MAX_LB_COST,
    PARENT,
    GROUPS,  # row of the first group; the rows of the ring are contiguous
    SPAN_WEIGHT,
    LEVEL,
    CHILD,
    NR_GROUPS,
    SPAN,  # row of the CPU set
    MIN_INTERVAL,
    MAX_INTERVAL,
    IMBALANCE_PCT,
    CACHE_NICE_TRIES,
    BUSY_IDX,
    IDLE_IDX,
    NEWIDLE_IDX,
    WAKE_IDX,
    FORKEXEC_IDX,
    NR_BALANCE_FAILED,
    INDEX,  # entry of the level table
    FORK_MARGIN,  # within this a group's load is about equal for a new task (v4.10), 0 before
    STAYS_ON_NODE,  # whether another group has to be less loaded than the local one by more than that (v4.17, SD_NUMA)
    LB_COUNT0,  # 3 x 7 numbers of load_balance() calls, by idle type and result
) = range(27)
