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
    DECISION_PART,  # follows its decision: six more of its values
    AFFINITY,
    CONSIDERED_PART,  # follows a CONSIDERED without a row of the table: words of the set of CPUs
) = range(18)
