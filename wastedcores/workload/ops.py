"""Codes of the operations in the programs of tasks (docs/replay-semantics.md, section 2)."""

OP_EXIT = 0
OP_COMPUTE = 1
OP_COMPUTE_EXP = 2
OP_SLEEP = 3
OP_SLEEP_EXP = 4
OP_LOOP = 5
OP_LOOP_BARRIER = 6
OP_BARRIER = 7
OP_LOCK = 8
OP_UNLOCK = 9
OP_POST = 10
OP_WAIT = 11
OP_FORK = 12
OP_WAIT_CHILDREN = 13
OP_AFFINITY = 14
OP_NICE = 15
OP_YIELD = 16
OP_MARK = 17
OP_EXEC = 18
OP_SIGNAL = 19
OP_CATCH = 20
OP_WAIT_SIGNAL = 21
OP_TIMER = 22
OP_SLEEP_JIFFIES = 23
OP_TOUCH = 24
OP_FLUSH = 25
OP_SHEPHERD = 26
OP_SESSION = 27
OP_POLICY = 28

#: operations whose target is the number of a semaphore, a condition or a timer
OF_A_SEMAPHORE = {
    OP_POST, OP_WAIT, OP_SIGNAL, OP_CATCH, OP_WAIT_SIGNAL, OP_TIMER, OP_FLUSH, OP_SHEPHERD,
}  # fmt: skip

#: the scheduling policies and their numbers (include/uapi/linux/sched.h)
POLICIES = {"other": 0, "fifo": 1, "rr": 2, "batch": 3, "idle": 5}

MODE_SPIN = 0
MODE_BLOCK = 1
MODE_SPIN_BLOCK = 2
