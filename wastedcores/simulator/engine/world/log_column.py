"""Columns of a log record. A replay's raw log is an array of int64 (records, WIDTH)."""

(
    TS,  # ns since the replay began
    KIND,  # codes/log_kind.py
    CPU,
    PID,  # the pid of the task; for "considered" the row of the CPU set; for "decision" the row of the domain
    OTHER,  # the previous task's pid, the waking or forking task's pid, the code of the module, or the result of a decision
    SRC,  # the CPU from which a task moves or is woken, or from which a decision pulls
    VALUE,  # nr_running, load, state of the previous task, number of a text, tasks moved, the row of an allowed CPU set
    OP,  # codes/log_op.py, -1 for none
) = range(8)
WIDTH = 8
