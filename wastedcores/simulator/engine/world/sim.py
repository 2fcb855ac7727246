"""Columns of row 0 behind those of CPU 0: the globals of a simulation."""

from __future__ import annotations

#: the first column of the globals
FIRST = 55
(
    LOAD_V4_4,  # whether load is tracked as v4.4 does, and not as v4.1 does
    NOW,
    SEQ,  # the last sequence number that an event was given
    JIFFIES,  # NOW // TICK_NS
    TICK_NS,
    CPUS,
    CPU,  # the CPU in whose context the code runs
    STATUS,  # codes/status.py
    IRQ_NS,
    LOG_N,  # records in the log
    LOG_ROOM,  # records that fit in the log
    LOG_MARGIN,  # records that one event may write
    LIVE_TASKS,  # tasks that keep the replay going
    UNTIL,
    EVENTS,  # events handled
    STEPS,  # operations since time last passed
    HEAP_HOLE,  # 1: the root of the heap was taken out
    HEAP0,
    HEAP_N,
    HEAP_ROOM,  # entries that fit in the heap
    TICKS0,  # first row of the ring of ticks to come
    TICKS_HEAD,  # how many ticks were taken out of the ring
    TICKS_TAIL,  # how many ticks were put into the ring
    TICKS_LOW,  # places of the ring, less one
    RUNS0,  # first row of the tournament of the ends of stretches
    COMPUTING,  # tasks that will go on by themselves
    TIMERS,  # timers and hotplug steps that are pending
    NOHZ_NR_CPUS,
    NOHZ_NEXT_BALANCE,
    OVERLOAD,  # root_domain.overload
    LOG_LOAD,  # whether the weight of the runqueues is logged
    LOG_CONSIDERED,  # whether the CPUs that each decision looked at are logged
    SETS,  # the row behind the named CPU sets (cpuset.py), which is the core row
    RUNS,  # leaves of the tournament
    CULPRIT,  # the task that a status is about
    TASK_GROUPS,
    TASK_ROOM,  # tasks that fit in the table
    NR_TASKS,
    CFS_RQ0,  # from here on: first rows of the sections
    ENTITY0,
    TASK_GROUP0,
    DOMAIN0,
    SCHED_GROUP0,
    CAPACITY0,
    WAIT0,
    TEMPLATE0,
    STEP0,
    SCRATCH,  # three rows of sg_lb_stats, one each of sd_lb_stats and lb_env, and the machine's random stream
    CPUSET0,
    LIST0,
    OP0,
    TASK0,
    LOG0,
    DOMAIN_LISTS,  # place in the lists: per tree and CPU the first domain, the number of domains, the id of the LLC
    WEIGHT_LISTS,  # place in the lists: weights and then inverse weights of nice -20..19
    IDLE_TICKS,
    SKEW_NS,
    IPI_NS,
    SWITCH_NS,
    WAKE_NS,
    SPIN_NS,
    LB_BASE_NS,
    LB_CPU_NS,
    HZ,
    SCHED_LATENCY,
    MIN_GRANULARITY,
    WAKEUP_GRANULARITY,
    MAX_LB_INTERVAL,
    ALWAYS_BALANCE,
    GROUP_IMBALANCE_FIX,  # GI_*
    OVERLOAD_ON_WAKEUP_FIX,
    T_START,  # when the workload begins
    SEED,
    LOG_LOST,  # records that found no room in the log
    CPUSET_WORDS,  # words of a CPU set
    CLOCK0,  # first row of the clocks (clock.py), 0 if all CPUs run at one constant speed
    FORK_WAIT,  # the strategy of the fork/wait paper, 0 for none
    DECISIONS,  # first row of the decision that is being made (decision.py), 0 if decisions are not logged
    RT0,  # first row of the real-time queues (rt_rq.py), 0 if no task changes its policy
    FAIR_ENTRY,  # address of the fair class of v6.12, 0 for v4.1's
    BASE_SLICE,  # sysctl_sched_base_slice (v6.12)
) = range(FIRST, FIRST + 81)

#: values of GROUP_IMBALANCE_FIX
GI_NONE, GI_PAPER, GI_PATCH = range(3)
