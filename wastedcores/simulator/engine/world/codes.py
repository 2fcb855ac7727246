"""Integer codes shared by the compiled engine and the Python around it."""

from __future__ import annotations

# --- future events of a CPU, in the order of their words from R_EV on -----------------------------------------------------
EV_TICK = 0
EV_RUN = 1
EV_RESCHED = 2
EV_TTWU = 3
EV_KICK = 4
EV_STOP = 5
EV_SOFTIRQ = 6
# besides: a hotplug step (H_EV) and the timer of a task (T_EV)

# --- trace records ----------------------------------------------------------------------------------------------------
LOG_NR_RUNNING = 0
LOG_LOAD = 1
LOG_SWITCH = 2
LOG_WAKEUP = 3
LOG_WAKEUP_NEW = 4
LOG_MIGRATE = 5
LOG_FORK = 6
LOG_EXIT = 7
LOG_MARK = 8
LOG_BALANCE = 9
LOG_CONSIDERED = 10
LOG_REFUSED = 11
LOG_KINDS = [
    "nr_running",
    "load",
    "switch",
    "wakeup",
    "wakeup_new",
    "migrate",
    "fork",
    "exit",
    "mark",
    "balance",
    "considered",
    "balance",
]

# why a task moved, who balanced, who looked
WHY_WAKEUP = 0
WHY_FORK = 1
WHY_EXEC = 2
WHY_NEWIDLE = 3
WHY_PERIODIC = 4
WHY_NOHZ = 5
WHY_ACTIVE = 6
WHY_AFFINITY = 7
WHY_HOTPLUG = 8
LOOK_SIBLING = 9
LOOK_STATS = 10
LOOK_QUEUE = 11
LOOK_IDLEST_GROUP = 12
LOOK_IDLEST_CPU = 13
WHY_HANDOVER = 14
WHY_REFUSED = 15
OPS_OF_LOG = [
    "wakeup",
    "fork",
    "exec",
    "newidle",
    "periodic",
    "nohz",
    "active",
    "affinity",
    "hotplug",
    "select_idle_sibling",
    "update_sg_lb_stats",
    "find_busiest_queue",
    "find_idlest_group",
    "find_idlest_cpu",
    "handover",
    "refused",
]

# --- how a run ends ---------------------------------------------------------------------------------------------------
ST_RUNNING = 0
ST_DONE = 1
ST_UNTIL = 2
ST_LOG_FULL = 3
ST_DEADLOCK = 4
ST_ZERO_LOOP = 5
ST_NO_CPU = 6
ST_BAD_UNLOCK = 7
ST_TASKS_FULL = 8

# task states
S_NEW = 0
S_READY = 1  # queued or running
S_SLEEPING = 2
S_WAKING = 3  # on a wake list
S_DEAD = 4

# what a blocked or spinning task waits for
W_NOTHING = 0
W_TIMER = 1
W_BARRIER = 2
W_LOCK = 3
W_SEM = 4
W_CHILDREN = 5
W_JIFFY = 6  # its timer, which fires at a tick

# balance and wake-up code, chosen by the kernel model
BALANCE_V4_1 = 0
GI_NONE = 0
GI_PAPER = 1
GI_PATCH = 2

# optimisation modules of a design, their answers, and why one is refused (docs/design-mode.md)
(
    MOD_CACHE_AFFINITY,
    MOD_WAKER_LOCALITY,
    MOD_LOAD_BALANCE,
    MOD_NUMA,
    MOD_CONTENTION,
    MOD_POWER,
    MOD_WAKEUP_V4_1,
    MOD_BALANCE_V4_1,
) = range(8)
MODULES = [
    "cache_affinity",
    "waker_locality",
    "load_balance",
    "numa",
    "contention",
    "power",
    "wakeup_v4_1",
    "balance_v4_1",
]
RES_SILENT, RES_TAKEN, RES_REFUSED = range(3)
ANSWERS = ["silent", "taken", "refused"]
WASTEFUL, IMPOSSIBLE = range(2)
REFUSALS = ["a core would stay idle", "not possible"]
#: moments are the WHY_ codes below this
MOMENTS = 16

# sched_domain flags, v4.1 (include/linux/sched.h)
SD_LOAD_BALANCE = 0x1
SD_BALANCE_NEWIDLE = 0x2
SD_BALANCE_EXEC = 0x4
SD_BALANCE_FORK = 0x8
SD_BALANCE_WAKE = 0x10
SD_WAKE_AFFINE = 0x20
SD_SHARE_CPUCAPACITY = 0x80
SD_SHARE_PKG_RESOURCES = 0x200
SD_SERIALIZE = 0x400
SD_ASYM_PACKING = 0x800
SD_PREFER_SIBLING = 0x1000
SD_OVERLAP = 0x2000
SD_NUMA = 0x4000

# results of a load_balance() call, columns of the counts
RES_NOT_DESIGNATED, RES_BALANCED, RES_NO_QUEUE, RES_PINNED, RES_FAILED, RES_ACTIVE, RES_MOVED = (
    range(7)
)
RESULTS = ["not_designated", "balanced", "no_queue", "pinned", "failed", "active", "moved"]
IDLE_NAMES = ("idle", "busy", "newidle")

CPU_IDLE = 0
CPU_NOT_IDLE = 1
CPU_NEWLY_IDLE = 2
