"""The world of a replay: one table of int64, and the names of its columns.

Everything the scheduler remembers is a **row** of the table ``m``; a row number is a handle, as a pointer is in the
kernel: CPU c is row c; then the queues (group g on CPU c at ``m[0, G_Q0] + g*cpus + c``), the group entities likewise
from G_SE0, task groups, domains, domain groups, capacities, waits, masks, the ticks and stretches to come, programs, tasks
(each with its entity), then the heap of other future events and the log. -1 is the null handle. Globals are the columns of
row 0 from G_FIRST on.

One table, because numba passes every array of a tuple by value and counts references to each: with an array per field,
or even eight arrays, the engine took 130 s to compile and ran at a third of the speed (measured 2026-11-21).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wastedcores.jit.table import WIDTH

#: the machine booted this long before the replay begins
EPOCH_NS = 4_000_000_000
#: lists that run over rows use the first 128 columns; SHIFT and LOW split the number of an element
LIST = 128
SHIFT = 7
LOW = 127
INFINITE = 1 << 62
#: sets of CPUs have 32 bits a word, so that no word is ever negative
WORD_SHIFT = 5
WORD_LOW = 31

# A line of the cache has eight columns. What a tick reads of an entity or a queue lies in two lines, of a
# CPU in three.

# --- sched_entity and sched_avg (also the first columns of a task) ---------------------------------------------------------
(
    SE_WEIGHT,
    SE_Q,  # queue it is (to be) queued on
    SE_PARENT,  # group entity above, -1 at the root
    SE_MYQ,  # queue it stands for, -1 for a task
    SE_ON_RQ,
    SE_VRUNTIME,
    SE_EXEC_START,
    SE_SUM_EXEC,
    SE_LAST_UPDATE,  # second line of the cache
    SE_RUNNABLE_SUM,
    SE_RUNNING_SUM,
    SE_PERIOD,
    SE_LOAD,  # load_avg_contrib
    SE_UTIL,  # utilization_avg_contrib
    SE_PREV_SUM,
    SE_INV,
    SE_NEXT,  # neighbours in the queue, by vruntime
    SE_PREV,
    SE_DECAY_COUNT,
) = range(19)
# --- task -------------------------------------------------------------------------------------------------------------
(
    T_CNEXT,  # neighbours in rq->cfs_tasks
    T_CPREV,
    T_CPU,
    T_TG,
    T_NUM,
    T_STATE,  # here begins a line of the cache
    T_PC,
    T_LEFT,  # ns of the present stretch still to run
    T_SPIN,  # 1: spinning
    T_KHEAD,  # its wake queue
    T_STARTED,
    T_RNG,
    T_WAIT,  # W_*
    T_SLOT0,  # 4 loop counters
    _S1,
    _S2,
    _S3,
    T_UNITS0,  # times each LOOP slot went round
    _U1,
    _U2,
    _U3,
    T_EV,  # its timer: time, sequence (0: not pending)
    _EV1,
    T_OBJ,  # what it waits for
    T_MASK,  # row of the set of CPUs
    T_NALLOWED,
    T_LAST_WAKEE,
    T_FLIPS,
    T_FLIP_DECAY,
    T_WNEXT,  # next in a wait list, wake queue or wake list
    T_KTAIL,
    T_NICE,
    T_PARENT,
    T_CHILDREN,
    T_DAEMON,
    T_DONE,  # when it exited
    T_TEMPLATE,
    T_SEEN,  # number of signals of a condition at the last CATCH
    T_RAN_SPIN,  # ns spun, all waits
    T_HOME,  # node of the CPU where it was placed when it was born
) = range(19, 59)

# --- rq ---------------------------------------------------------------------------------------------------------------
(
    R_CURR,  # running task, -1 idle
    R_NR,  # nr_running
    R_WAKE,  # head of the wake list
    R_NEED,  # need_resched
    R_NEXT_BALANCE,
    R_FRESH,  # 1: the running task was just switched in and has not gone on yet
    R_EV,  # future events of the CPU by kind, seven: time, sequence (0: not pending)
) = range(7)
(
    R_START,  # when the present stretch of the running task began
    R_SD,  # row of the innermost domain
    R_CAP,
    R_DELAY,  # ns before it goes on
    R_LAST_TICK,  # last_load_update_tick; here begins a line of the cache
    R_LOAD0,
    _L1,
    _L2,
    _L3,
    _L4,
    R_IDLE_BALANCE,
    R_NSD,
    R_CLOCK,  # its clock (update_rq_clock()): when it was last read, not now
    R_BUSY_SD,  # row of sd_busy, -1
    R_NOHZ_IDLE,  # sd_busy->nohz_idle
    R_IN_MASK,  # in nohz.idle_cpus_mask
    R_CAP_ORIG,
    R_ILB,  # 1 + the CPU its pass as idle balancer looks at next, 0: no pass under way
    R_STOPPED,  # tick stopped
    R_LOADW,  # load.weight
    R_LOGGED,  # last load.weight in the log
    R_THEAD,  # cfs_tasks
    R_TTAIL,
    R_IDLE_STAMP,
    R_AVG_IDLE,
    R_MAX_IDLE_COST,
    R_KICK,
    R_ACTIVE,
    R_PUSH_CPU,
    R_LLC_SD,  # row of sd_llc, -1
    R_LLC_SIZE,
    R_LLC_ID,
    R_KEEP_TICK,  # jiffy until which an idle CPU goes on ticking
    R_NODE,
    R_TOUCHED,  # its page counters changed since they were last folded
) = range(R_EV + 14, R_EV + 49)
# --- cfs_rq -----------------------------------------------------------------------------------------------------------
(
    Q_CURR,
    Q_LEFT,
    Q_MIN_V,
    Q_NR,
    Q_WEIGHT,
    Q_CPU,
    Q_SE,  # entity in the parent queue, -1 for a root queue
    Q_TG,
    Q_RLOAD,  # runnable_load_avg; second line of the cache
    Q_ULOAD,  # utilization_load_avg
    Q_H_NR,
    Q_BLOAD,  # blocked_load_avg
    Q_LAST_DECAY,
    Q_DECAYS,
    Q_REMOVED,
    Q_TG_CONTRIB,
    Q_NEXT,
    Q_LAST,
    Q_SKIP,
    Q_RIGHT,
    Q_ON_LIST,
    Q_TG_RUNNABLE,
    Q_H_LOAD,
    Q_H_JIFFY,
) = range(24)
# --- task_group -------------------------------------------------------------------------------------------------------
TG_SHARES, TG_LOAD, TG_RUNNABLE = range(3)
# --- sched_domain of one CPU -----------------------------------------------------------------------------------------------
(
    D_FLAGS,
    D_LAST,  # last_balance, jiffies
    D_INTERVAL,  # ms
    D_FACTOR,
    D_MAX_COST,
    D_NEXT_DECAY,
    D_PARENT,
    D_GROUPS,  # row of the first group; the ring is contiguous
    D_WEIGHT,
    D_LEVEL,
    D_CHILD,
    D_NGROUPS,
    D_MASK,  # row of the span
    D_MIN_INT,
    D_MAX_INT,
    D_PCT,
    D_TRIES,
    D_BUSY_IDX,
    D_IDLE_IDX,
    D_NEWIDLE_IDX,
    D_WAKE_IDX,
    D_FORK_IDX,
    D_FAILED,
    D_INDEX,  # entry of the level table
    D_COUNT0,  # load_balance calls, 3 kinds of idleness by 7 results
) = range(25)
# --- sched_group --------------------------------------------------------------------------------------------------------
(
    GR_LIST,  # CPUs: start in the list array, number
    GR_N,
    GR_MASK,
    GR_SGC,
    GR_BAL,  # group_balance_cpu
    GR_BLIST,  # CPUs of the group in its balance mask
    GR_BN,
) = range(7)
# --- sched_group_capacity -------------------------------------------------------------------------------------------------
C_CAPACITY, C_IMBALANCE, C_BUSY, C_NEXT_UPDATE = range(4)
# --- waits: barriers, locks, semaphores -----------------------------------------------------------------------------------
Y_PARTIES, Y_COUNT, Y_HEAD, Y_TAIL, Y_GEN, Y_STOPPED, Y_OWNER = range(7)

# --- a hotplug step -----------------------------------------------------------------------------------------------------
H_EV, _H1, H_CPU, H_ONLINE = range(4)

# --- globals ----------------------------------------------------------------------------------------------------------
#: first column of the globals: behind those of CPU 0
G_FIRST = 56
(
    G_NOW,
    G_SEQ,
    G_JIFFY,  # G_NOW // G_TICK
    G_TICK,
    G_CPUS,
    G_CPU,  # whose context the code runs in
    G_STATUS,
    G_IRQ,
    G_LOG_N,
    G_LOG_ROOM,
    G_MARGIN,  # records one event may write
    G_LIVE,  # tasks that keep the replay going
    G_UNTIL,
    G_EVENTS,
    G_STEPS,  # ops since time last passed
    G_HOLE,  # 1: the root of the heap was taken out
    G_HEAP0,
    G_HEAP_N,
    G_HEAP_ROOM,  # entries
    G_TICKS0,  # first row of the ticks to come, a ring
    G_TICKS_HEAD,  # counts those taken out
    G_TICKS_TAIL,  # and those put in
    G_TICKS_LOW,  # places, less one
    G_RUNS0,  # first row of the tournament of the ends of stretches
    G_COMPUTING,
    G_TIMERS,
    G_NOHZ_N,
    G_NOHZ_NEXT,
    G_OVERLOAD,
    G_LOAD_LOG,
    G_CONSIDERED,
    G_SETS,  # row behind the sets that every function can name
    G_RUNS,  # leaves of the tournament
    G_CULPRIT,
    G_GROUPS,
    G_TASKS,  # room for tasks
    G_NTASKS,  # used
    G_Q0,  # first rows of the sections
    G_SE0,
    G_TG0,
    G_SD0,
    G_GR0,
    G_C0,
    G_Y0,
    G_TEMPLATE0,
    G_STEP0,
    G_SCRATCH,  # 3 rows of statistics, results, lb_env, the machine's random stream
    G_MASK0,
    G_LIST0,
    G_OP0,
    G_T0,
    G_LOG0,
    G_TABLE,  # in the lists: per epoch and CPU the first domain, their number, the LLC's id
    G_STATIC,  # in the lists: weight and inverse of nice -20..19
    G_IDLE_TICKS,
    G_SKEW,
    G_IPI,
    G_SWITCH,
    G_WAKE,
    G_SPIN,
    G_LB_BASE,
    G_LB_CPU,
    G_HZ,
    G_LATENCY,
    G_MIN_GRAN,
    G_WAKEUP_GRAN,
    G_MAX_INTERVAL,
    G_ALWAYS_BALANCE,
    G_GI,
    G_OOW,
    G_T_START,  # of the workload
    G_SEED,
    G_LOST,  # records that found no room in the log
    G_WORDS,  # words of a set of CPUs
) = range(G_FIRST, G_FIRST + 74)

# --- the core row, m[0, G_SETS]: a design's (docs/design-mode.md) ---------------------------------------------------------
(
    K_ENTRY,  # address of the compiled core, 0: Linux decides
    K_SYNC,  # whether the waker of the wake-up in progress is about to sleep
    K_NODES,
    K_COUNTS,  # first row of the counts: a row per module, moment by result
    K_BUSY,  # first row of busy CPUs counted by node or cache
    K_NEAR,  # first row of the CPUs by nearness: cpus numbers for each CPU
    K_MODULES,  # how many to ask
    K_MODULE0,  # their codes, in order
) = range(8)

# sets of CPUs every function can name: rows before G_SETS
MASK_LB = -1  # `cpus` of load_balance
MASK_ACTIVE = -2
MASK_NOHZ = -3
#: columns of one log record
RECORD = 8


def table(rows: int) -> Any:
    """A zeroed table of rows, each of which begins a line of the cache."""
    words = np.zeros(rows * WIDTH + 8, dtype=np.int64)
    first = -(words.ctypes.data // 8) % 8
    return words[first : first + rows * WIDTH].reshape(rows, WIDTH)
