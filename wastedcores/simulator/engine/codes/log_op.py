"""Operations (``log_column.OP``); ``vocabulary.OPERATIONS`` has their names in traces."""

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
    PUSH,
    PULL,
) = range(18)
