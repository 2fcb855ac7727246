"""Columns of the real-time tasks of a CPU, ``struct rt_rq``: row ``m[0, sim.RT0] + cpu``. One more row has what all share."""

from __future__ import annotations

(
    HEAD,  # the queued tasks with the running one, the most urgent first
    TAIL,
    NR_RUNNING,
    COUNTED,  # how many of them rq->nr_running counts: all, or none while they are throttled (rt_queued)
    THROTTLED,
    TIME,  # for how long they ran in this period, in ns
    PUSH_LATER,  # push when the switch is done (rq->post_schedule)
) = range(7)

# columns of the last row
(
    ENTRY,  # address of the compiled real-time class
    TIMER,  # the timer of the period: time and sequence number (0: not pending)
    _TIMER_SEQ,
    PERIOD_CPU,  # the CPU of that timer, -1 if it does not run
    PUSHED,  # how often a task became pushable
    TIME_SLICE,  # the quantum of SCHED_RR in ticks
) = range(6)
