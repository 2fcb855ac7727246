"""Why a domain is balanced under v6.12, in the order of ``vocabulary.BALANCED``."""

(
    NOT_BALANCED,
    NO_TASK,
    LOCAL_TYPE,
    LOCAL_LOAD,
    ABOVE_AVERAGE,
    MARGIN,
    BUSY,
    IDLE_CPUS,
    SINGLE_TASK,
    NO_IMBALANCE,
) = range(10)
