"""Operations (``log_column.OP``): why a task moved, who balanced, and which function looked at CPUs."""

from __future__ import annotations

(
    WAKEUP,
    FORK,
    EXEC,
    NEWIDLE,
    PERIODIC,
    NOHZ,
    ACTIVE,
    AFFINITY,
    HOTPLUG,
    SELECT_IDLE_SIBLING,
    UPDATE_SG_LB_STATS,
    FIND_BUSIEST_QUEUE,
    FIND_IDLEST_GROUP,
    FIND_IDLEST_CPU,
    HANDOVER,
    REFUSED,
) = range(16)

#: the trace's name of each operation
NAMES = [
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
