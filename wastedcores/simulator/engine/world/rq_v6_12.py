"""Columns of a CPU that only v6.12 has. They lie in the row of its root queue, ``m[m[0, sim.CPUS] + cpu]``, behind the queue's.

Row ``cpu`` itself has no room left. The state of the CPU's random stream, which decides about newidle balancing, is the column
``task.RNG`` of this row, where the streams of tasks have it.
"""

from __future__ import annotations

#: the first column
FIRST = 40
(
    NOHZ_FLAGS,  # the kicks that wait for this CPU (nohz_flags())
    NOHZ_IDLE_BALANCE,  # those that its softirq handles
    HAS_BLOCKED_LOAD,
    LAST_BLOCKED_TICK,  # last_blocked_load_update_tick
    ILB_FLAGS,  # from here on: the locals of _nohz_idle_balance(), while its pass is under way
    ILB_BEGUN,
    ILB_NEXT_BALANCE,
    ILB_FOUND,
    ILB_BLOCKED,
    SIBLING,  # the next CPU of the same core, in a ring; offline CPUs are in it
    SHARE_ID,  # the first CPU of its cluster, or else of its LLC (sd_share_id)
    LAST_WAKEE,  # from here on: whom timers on this CPU wake while it is idle, which counts for its idle task
    WAKEE_FLIPS,
    WAKEE_FLIP_DECAY_TS,
    NEWIDLE_UNTIL,  # when the last newidle balancing ended: until then the CPU runs nothing else
    LAZY_RESCHED,  # the task gives way when its CPU next enters the kernel (TIF_NEED_RESCHED_LAZY)
    HRTICK,  # the timer that ends slices: time and sequence number (0: not pending)
    _HRTICK_SEQ,
    IN_SCHEDULE,
    HRTICK_DELAY,  # what to set the timer to at the end of schedule(), 0: nothing
    STOPPER_RUNS,  # rq.CURR is NULL then, too, but the CPU is not idle
) = range(FIRST, FIRST + 21)

# NOHZ_FLAGS: NOHZ_BALANCE_KICK, NOHZ_STATS_KICK, NOHZ_NEWILB_KICK and NOHZ_NEXT_KICK
BALANCE, STATS, NEWILB, NEXT = 1, 2, 4, 8
KICKS = BALANCE | STATS | NEXT
