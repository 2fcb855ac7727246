"""Columns of the rows that hold the decision that is being made: a row for the call of load_balance(), then a row per group.

The rows exist only if decisions are logged (``sim.DECISIONS``). Each row is logged as whole records of ``PER_RECORD`` values.
"""

from __future__ import annotations

#: values in a record of the log, behind its time and its kind
PER_RECORD = 6

(
    BY_CPU,  # the CPU that executed the call: the idle load balancer calls it on behalf of others
    IDLE,  # codes/idle_type.py
    DESIGNATED,  # the CPU that may balance for the local group
    DST_CPU,  # the CPU that pulled in the end, another one of the group if a task may not run on the first
    BUSIEST,  # place of the busiest group in the ring, -1 if there is none
    IMBALANCE,  # load to move
    AVERAGE,  # average load of the domain
    IMBALANCE_PCT,
    TRIES,  # how often a busiest group was looked for: once more after each queue with pinned tasks only
    FAILED,  # nr_balance_failed before the call
    INTERVAL,  # balance_interval before the call, ms
    PINNED,  # looks at a task that did not move, by reason
    RUNNING,
    HOT,
    HEAVY,
    SRC_NR_RUNNING,  # nr_running of the source before the call took anything
    NR_GROUPS,
    PREFER_SIBLING,  # 1: the level below prefers to spread tasks over its siblings; v6.12 adds two more values
) = range(18)
WIDTH = 18

#: v6.12: from these bits of PREFER_SIBLING on lie what is to move (lb_env.MOVES) and why nothing is (codes/balanced.py)
MOVES_SHIFT, REASON_SHIFT = 1, 3

(
    SPAN,  # row of the CPU set
    LOCAL,
    TYPE,  # sgs.py
    LOAD,
    AVG_LOAD,
    MIN_LOAD,  # -1 if no CPU was considered
    MAX_LOAD,
    NR_RUNNING,
    IDLE_CPUS,
    CAPACITY,
    USAGE,
    LOAD_PER_TASK,
) = range(12)
GROUP_WIDTH = 12

#: v6.12 has no least load and no load per task, and these values instead
H_NR_QUEUED, RUNNABLE = MIN_LOAD, LOAD_PER_TASK
