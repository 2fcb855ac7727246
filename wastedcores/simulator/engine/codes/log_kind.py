"""Kinds of log records (``log_column.KIND``); ``vocabulary.KINDS`` has their names in traces."""

(
    NR_RUNNING,
    LOAD,
    SWITCH,
    WAKEUP,
    WAKEUP_NEW,
    MIGRATE,
    FORK,
    EXIT,
    MARK,
    BALANCE,
    CONSIDERED,
    REFUSED,
    FREQUENCY,
    TICK,
    DECISION,
    DECISION_PART,  # comes after its decision and has six more of its values
    AFFINITY,
    CONSIDERED_PART,  # comes after a CONSIDERED that names no row of the table, and has words of the set of CPUs
) = range(18)
