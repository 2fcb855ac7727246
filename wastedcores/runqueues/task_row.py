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
    WOKEN,  # 1 + the CPU to which a wakeup called it while it still ran, -1 - the one to which it was moved meanwhile, 0 none
    THROTTLED,  # 1: its control group has used up its CPU time, so it joins no runqueue
    LIMITED,  # whether its control group has a limit of CPU time, so that a wait of it may be none: one of the values below
    PARENT,  # in pass 1: its parent; 0 unknown
    REPINNED,  # found in pass 1: whether a move of it looks like one that a change of affinity causes: a value below
    PUSHED,  # found in pass 1: 1 if the stopper moved it, not on behalf of an idle CPU
    CHILD_REPINNED,  # found in pass 1: 1 if that holds of a child, ALL_REPINNED if its children inherit nothing
    REUSED,  # found in pass 1: 1 if its number was another thread's before
    QUEUED,  # in pass 1: 1 while it runs or waits, and -1 - CPU from a waking to that CPU on until it runs
    WAKER,  # in pass 1: who woke it last, -1 unknown
    WAKER_CPU,  # in pass 1: and on which CPU
    RECORDER,  # 1: it recorded the trace, so that a wakeup of it may be missing
    ROLE,  # what its name says that it does: one of the values below
    DOUBTED,  # why its state may be another one: one of the values below
) = range(21)
WIDTH = 21

# values of ROLE: migration/N moves running threads, cpuhp/N takes its CPU offline; both park when the CPU is offline
NO_ROLE, STOPPER, HOTPLUGGER = 0, 1, 2

# values of REPINNED: a move whose context is not told; one whose stopper was woken in the context of the thread itself, for exec
# or because the wakeup reached it as an interrupt; and one by another thread
NOT_REPINNED, BY_SOMEBODY, BY_ITSELF, BY_ANOTHER = 0, 1, 2, 3

# value of CHILD_REPINNED of kthreadd: who asks for a kernel thread binds it before it first runs (kernel/kthread.c, v6.12:
# kthread_bind())
ALL_REPINNED = 2

# values of DOUBTED: of a task that waits, that it may do so no longer, because events were not recorded, or that it may have
# slept; of one that sleeps, that it may wait; and of one that runs, or slept again since, that no wakeup told of it before
SURE, LOST_MEANWHILE, PERHAPS_ASLEEP, PERHAPS_WAITS, UNWOKEN = 0, 1, 2, 3, 4

# values of LIMITED
UNLIMITED, PERHAPS, LIMITED_FOR_SURE = 0, 1, 2

# values of EVIDENCE, see docs/verdict.md
ASSUMED = 0  # nothing: it is taken to be free
TOLD = 1  # an event or a snapshot
INHERITED = 2  # its parent's was told when it was forked, and nothing shows that a child of this parent got another one

# values of STATE
UNKNOWN, ASLEEP, WAITING, RUNNING = 0, 1, 2, 3

# values of MASK
FREE = 0  # it may run anywhere
PRESUMED_BOUND = -1  # it is named like a kernel thread of one CPU; no event and no snapshot says so
