"""Columns of a task. A task's first columns are those of its entity (:mod:`~wastedcores.simulator.engine.world.entity`)."""

from __future__ import annotations

(
    CFS_TASKS_NEXT,  # neighbours in rq->cfs_tasks
    CFS_TASKS_PREV,
    CPU,
    GROUP,  # number of its task group; 0 is the root group
    NUMBER,  # tasks are numbered in the order of their birth
    STATE,  # codes/task_state.py; a cache line begins here
    PC,  # row of the next operation of its program
    LEFT,  # work of the present stretch that is still to do, in ns at the nominal speed
    SPIN,  # 1: it spins, 2: what it spun for has been granted
    WAKE_Q_HEAD,  # first of the tasks that it is about to wake
    STARTED,  # when its program began, -1 before that
    RNG,  # state of its random stream
    WAITS_FOR,  # codes/waits_for.py
    SLOT0,  # four loop counters
    _S1,
    _S2,
    _S3,
    UNITS0,  # how many times each of the four loops went round
    _U1,
    _U2,
    _U3,
    TIMER,  # its timer: time and sequence number (0: not pending)
    _TIMER_SEQ,
    WAIT_OBJECT,  # the wait object or, for a timer, the CPU that it waits for
    CPUS_ALLOWED,  # row of the CPU set
    NR_CPUS_ALLOWED,
    LAST_WAKEE,
    WAKEE_FLIPS,
    WAKEE_FLIP_DECAY_TS,
    WAIT_NEXT,  # next task in a wait list, wake queue or wake list
    WAKE_Q_TAIL,
    NICE,
    PARENT,
    CHILDREN,  # how many of its children are alive
    DAEMON,
    EXITED,  # when it exited, -1 before that
    TEMPLATE,
    SIGNALS_SEEN,  # how often the condition had been signalled at the last CATCH
    HOME,  # the node of the CPU where the task was placed at its birth
    POLICY,  # number of the scheduling policy (workload/ops.py); 0 for SCHED_OTHER
    RT_PRIORITY,  # 1 to 99 for a real-time task, 0 for others
    TIME_SLICE,  # ticks left of the quantum of SCHED_RR
    RT_NEXT,  # neighbours in the queue of real-time tasks
    RT_PREV,
    ON_RT,  # whether it is on that queue
    PUSHABLE,  # when it joined the pushable tasks, as a growing number; 0 if it is none of them
    RAN_LLC,  # 1 + the last-level cache behind which it ran last, 0: it has not run
) = range(19, 66)
