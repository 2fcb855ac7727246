"""Columns of a runqueue, ``struct rq``: row ``cpu`` of the table. A tick reads three cache lines of it."""

from __future__ import annotations

(
    CURR,  # the running task, -1 for idle
    NR_RUNNING,
    WAKE_LIST,  # first task of the wake list
    NEED_RESCHED,
    NEXT_BALANCE,
    SWITCHED_IN,  # 1: the running task was just switched in and its program has not gone on yet
    EVENTS,  # the CPU's future events, seven kinds (codes/cpu_event.py): time and sequence number (0: not pending)
) = range(7)
(
    STRETCH_START,  # when the present stretch of the running task began
    SD,  # row of the innermost domain
    CPU_CAPACITY,
    DELAY,  # ns before the task that was switched in goes on
    LAST_LOAD_UPDATE_TICK,  # a cache line begins here
    CPU_LOAD0,  # cpu_load[0..4]
    _L1,
    _L2,
    _L3,
    _L4,
    IDLE_BALANCE,
    NR_DOMAINS,
    CLOCK,  # what update_rq_clock() read last, not the present time
    SD_BUSY,  # row of sd_busy, -1 if there is none
    NOHZ_IDLE,  # sd_busy->nohz_idle
    IN_NOHZ_MASK,  # whether the CPU is in nohz.idle_cpus_mask
    CPU_CAPACITY_ORIG,
    ILB_NEXT,  # 1 + the CPU that its pass as idle load balancer looks at next, 0: no pass under way
    TICK_STOPPED,
    LOAD_WEIGHT,  # load.weight
    LOGGED_WEIGHT,  # the load.weight that was logged last
    CFS_TASKS,  # head and tail of cfs_tasks
    CFS_TASKS_TAIL,
    IDLE_STAMP,
    AVG_IDLE,
    MAX_IDLE_BALANCE_COST,
    NOHZ_KICK,  # whether a NOHZ kick is on its way or being handled
    ACTIVE_BALANCE,
    PUSH_CPU,
    SD_LLC,  # row of sd_llc, -1 if there is none
    SD_LLC_SIZE,
    SD_LLC_ID,
    KEEP_TICK_UNTIL,  # the jiffy until which an idle CPU keeps its tick
    NODE,
    TOUCHED,  # whether its page counters changed since they were last folded
) = range(EVENTS + 14, EVENTS + 49)
