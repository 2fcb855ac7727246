"""Columns of a task: a row of ``State.task``, see :mod:`wastedcores.runqueues.task_rows`."""

from __future__ import annotations

(
    STATE,  # one of the values below
    CPU,  # where it is queued or was last, -1 unknown
    EPOCH,  # the runqueue's epoch when the current wait began
    MASK,  # mask id: FREE, PRESUMED_BOUND or an index of the distinct masks
    EVIDENCE,  # what says which CPUs it may use: one of the grades below
    RAN,  # the CPU it ran on last, -1 none
    MOVED_FROM,  # in pass 1: the origin of a migration seen before anything else of the task, -1 none
    WOKEN,  # 1 + CPU: while it still ran, a wakeup called it to this CPU; -1 - CPU: it was moved to this CPU; 0 none
    THROTTLED,  # 1: its control group has used up its CPU time, so it joins no runqueue
    LIMITED,  # whether its group has a limit of CPU time, so that it may be throttled while it seems to wait: a value below
    PARENT,  # in pass 1: its parent; 0 unknown
    REPINNED,  # found in pass 1: whether a move of it looks like one that a change of affinity causes: a value below
    PUSHED,  # found in pass 1: 1 if the stopper moved it, not on behalf of an idle CPU
    CHILD_REPINNED,  # found in pass 1: 1 if a child of it is REPINNED, ALL_REPINNED if its children inherit nothing
    REUSED,  # found in pass 1: 1 if another thread had its number before
    QUEUED,  # in pass 1: 1 while it runs or waits; -1 - CPU from its sched_waking, which names this CPU, until it runs
    WAKER,  # in pass 1: who woke it last, -1 unknown
    WAKER_CPU,  # in pass 1: the CPU on which this waker ran
    RECORDER,  # 1: it recorded the trace, so that a wakeup of it may be missing
    ROLE,  # the role that its name shows: one of the values below
    DOUBTED,  # why STATE may be wrong: one of the values below
) = range(21)
WIDTH = 21

# values of ROLE: migration/N moves running threads, cpuhp/N takes its CPU offline; both park when the CPU is offline
NO_ROLE, STOPPER, HOTPLUGGER = 0, 1, 2

# values of REPINNED. BY_SOMEBODY: the context of the move is not told. BY_ITSELF: the stopper was woken in the context of the
# thread itself, for an exec or because an interrupt brought the wakeup. BY_ANOTHER: another thread caused the move.
NOT_REPINNED, BY_SOMEBODY, BY_ITSELF, BY_ANOTHER = 0, 1, 2, 3

# value of CHILD_REPINNED for kthreadd: whoever asks for a kernel thread binds this thread before it first runs
# (kernel/kthread.c, v6.12: kthread_bind())
ALL_REPINNED = 2

# values of DOUBTED. A task that waits may no longer wait, because events were not recorded (LOST_MEANWHILE), or may have slept
# (PERHAPS_ASLEEP). A task that sleeps may wait (PERHAPS_WAITS). A task that runs, or sleeps again, ran without a recorded
# wakeup (UNWOKEN).
SURE, LOST_MEANWHILE, PERHAPS_ASLEEP, PERHAPS_WAITS, UNWOKEN = 0, 1, 2, 3, 4

# values of LIMITED
UNLIMITED, PERHAPS, LIMITED_FOR_SURE = 0, 1, 2

# values of EVIDENCE, see docs/verdict.md
ASSUMED = 0  # nothing: it is taken to be free
TOLD = 1  # an event or a snapshot
INHERITED = 2  # its parent's affinity was known at the fork, and nothing shows that a child of this parent got another one

# values of STATE
UNKNOWN, ASLEEP, WAITING, RUNNING = 0, 1, 2, 3

# values of MASK
FREE = 0  # it may run anywhere
PRESUMED_BOUND = -1  # it is named like a kernel thread of one CPU; no event and no snapshot says so
