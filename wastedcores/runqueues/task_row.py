"""Columns of a task: row ``pid`` of ``State.task``."""

from __future__ import annotations

(
    STATE,  # one of the values below
    CPU,  # where it is queued or was last, -1 unknown
    EPOCH,  # the runqueue's epoch when the current wait began
    MASK,  # mask id: FREE, PRESUMED_BOUND or an index of the distinct masks
    KNOWN,  # 1: the mask is known, not assumed
    RAN,  # the CPU it ran on last, -1 none
    MOVED_FROM,  # in pass 1: the origin of a migration seen before anything else of the task, -1 none
    WOKEN,  # 1 + the CPU to which a sched_waking called it while it still ran, 0 none
    THROTTLED,  # 1: its control group has used up its CPU time, so it joins no runqueue
) = range(9)
WIDTH = 9

# values of STATE
UNKNOWN, ASLEEP, WAITING, RUNNING = 0, 1, 2, 3

# values of MASK
FREE = 0  # it may run anywhere
PRESUMED_BOUND = -1  # it is named like a kernel thread of one CPU; no event and no snapshot says so
