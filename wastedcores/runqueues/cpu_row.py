"""Columns of a CPU and its runqueue: row ``cpu`` of ``State.cpu``."""

from __future__ import annotations

(
    CURR,  # running pid, 0 idle, or one of the values below
    NR,  # tasks on the runqueue, the running one included, parked ones not
    KERNEL_NR,  # the kernel's nr_running, -1 unknown
    OFFLINE,  # 1 while the CPU is offline
    FREE_WAITING,  # waiting tasks that may run anywhere
    WAITING,  # waiting tasks
    FIRST_WAIT,  # ns, since when at least one task waits
    EPOCH,  # waits of earlier epochs are parked
    SEEN,  # ns, the last event that showed what the CPU runs
    BUSY_SINCE,  # ns, when the CPU last ceased to be idle
    DIFFERS,  # ns, since when the kernel's count differs from NR; -1: it does not
    MAYBE_IDLE,  # ns, when the CPU was last idle by either count, or may have been idle unseen, while the two differed
    SWITCHES,
    PARKED,  # tasks on its queue when it once went idle, so that they could not run; whether they can run now is not known
    ISOLATED,  # 1: only the threads that wait on it are asked for
    LATE,  # the last task whose wakeup here was told so soon after it ran that it may belong to that run; 0: none
) = range(16)
WIDTH = 16

# values of CURR
CURR_UNKNOWN = -1  # not known what the CPU runs
# in pass 1: perhaps offline until its first event, which its first switch decides
CURR_PERHAPS_OFFLINE = -3
CURR_FROM_SWITCH = -2  # in pass 1: the CPU's first switch does not say what it stops (prev_pid -1)
# a task ran there from before the first event to after the last; which one is not known
CURR_SOMEBODY = 2**31 - 1
