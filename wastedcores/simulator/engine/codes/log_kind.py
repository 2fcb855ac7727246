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
    DECISION_PART,  # follows its DECISION and has six of the decision's values
    AFFINITY,
    CONSIDERED_PART,  # follows a CONSIDERED record that names no row of the table; it has words of that record's set of CPUs
) = range(18)
