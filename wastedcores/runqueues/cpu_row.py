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
    EPOCH,  # grows when tasks are parked: a task whose wait began in an earlier epoch is parked
    SEEN,  # ns, the last event that showed what the CPU runs
    BUSY_SINCE,  # ns, when the CPU last ceased to be idle
    DIFFERS,  # ns, since when the kernel's count differs from NR; -1: it does not
    MAYBE_IDLE,  # ns, when the CPU was last idle by KERNEL_NR or by NR while they differed, or may have been idle unseen
    SWITCHES,
    PARKED,  # tasks that were on its queue when it went idle, so they could not run; whether they can run now is not known
    ISOLATED,  # 1: only the threads that wait on it are of interest
    LATE,  # the last task whose wakeup here came so soon after its run began that the wakeup may have caused this run; 0: none
) = range(16)
WIDTH = 16

# values of CURR
CURR_UNKNOWN = -1  # not known what the CPU runs
# in pass 1: the CPU was perhaps offline until its first event; its first switch decides this
CURR_PERHAPS_OFFLINE = -3
CURR_FROM_SWITCH = -2  # in pass 1: the CPU's first switch does not say what it stops (prev_pid -1)
# a task ran there from before the first event to after the last; which one is not known
CURR_SOMEBODY = 2**31 - 1
