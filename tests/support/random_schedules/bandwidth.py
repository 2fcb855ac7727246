"""The quota of a control group (kernel/sched/fair.c, CONFIG_CFS_BANDWIDTH, v6.12).

A group has a pool that is filled once in a period. A CPU takes 5 ms at a time from it. When the pool is empty, the CPU's part of
the group is throttled as soon as the running thread is put back; all its threads there stop to be runnable without a word in the
trace. The timer of the next period gives them time again, and an idle CPU then switches to one of them without a wakeup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.random_schedules.tasks import SLICE_US, Group, Task, cpus_of

if TYPE_CHECKING:
    from support.random_schedules.machine import Machine

#: what a CPU keeps when its last thread of the group sleeps (min_cfs_rq_runtime)
KEPT_US = 1_000
#: when what was given back is handed out (cfs_bandwidth_slack_period)
SLACK_US = 5_000


def begin(m: Machine, group: Group) -> None:
    """Start the timer of a group's period."""
    m.groups.append(group)
    group.pool = group.quota
    group.remaining = dict.fromkeys(range(m.cpus), 0)
    m.after(m.rng.randrange(1, group.period), _period, m, group)


def _period(m: Machine, group: Group) -> None:
    """Fill the pool and let throttled CPUs go on (do_sched_cfs_period_timer())."""
    m.after(group.period, _period, m, group)
    group.pool = group.quota
    m.touch_all()
    _distribute(m, group)


def _distribute(m: Machine, group: Group) -> None:
    """Give throttled CPUs what they owe and a little more, and unthrottle them (distribute_cfs_runtime())."""
    for c in cpus_of(group.throttled):
        if group.pool <= 0:
            return
        given = min(1 - group.remaining[c], group.pool)
        group.pool -= given
        group.remaining[c] += given
        if group.remaining[c] > 0:
            _unthrottle(m, group, c)


def _unthrottle(m: Machine, group: Group, c: int) -> None:
    group.throttled &= ~(1 << c)
    m.touch_all()
    # unthrottle_cfs_rq(): only an idle CPU is asked to reschedule
    if m.current[c] is None and m.length(c):
        m.resched(c)


def _assign(m: Machine, group: Group, c: int) -> bool:
    """Take a slice from the pool (__assign_cfs_rq_runtime()); False: there is nothing left."""
    wanted = SLICE_US - group.remaining[c]
    given = max(0, min(wanted, group.pool))
    group.pool -= given
    group.remaining[c] += given
    if group.pool <= 0:
        m.touch_all()
    return group.remaining[c] > 0


def charge(m: Machine, c: int, task: Task, us: int) -> None:
    """Charge the running thread's group (__account_cfs_rq_runtime())."""
    group = task.group
    assert group is not None
    group.remaining[c] -= us
    if group.remaining[c] <= 0 and not _assign(m, group, c):
        m.touch_all()
        m.resched(c)


def _throttle(m: Machine, group: Group, c: int) -> None:
    """Stop the group on a CPU unless there is something left after all (throttle_cfs_rq())."""
    if group.remaining[c] <= 0 and not group.throttled >> c & 1 and not _assign(m, group, c):
        group.throttled |= 1 << c
        m.touch_all()


def put(m: Machine, c: int, task: Task) -> None:
    """Look after a thread that stopped running (check_cfs_rq_runtime())."""
    if task.group is None:
        return
    if any(t.group is task.group for t in m.queue[c]):
        _throttle(m, task.group, c)
    else:
        _return_slack(m, task.group, c)


def enqueued(m: Machine, task: Task) -> None:
    """Look after a thread that was put on a runqueue (check_enqueue_throttle())."""
    group, current = task.group, m.current[task.cpu]
    if group is not None and not (current is not None and current.group is group):
        _throttle(m, group, task.cpu)


def dequeued(m: Machine, task: Task) -> None:
    """Look after a thread that was taken off a runqueue."""
    if task.group is not None:
        _return_slack(m, task.group, task.cpu)


def _return_slack(m: Machine, group: Group, c: int) -> None:
    """Give back what the CPU has left if no thread of the group is there any more (return_cfs_rq_runtime())."""
    current = m.current[c]
    if any(t.group is group for t in m.queue[c]) or (
        current is not None and current.group is group
    ):
        return
    slack = group.remaining[c] - KEPT_US
    if slack <= 0:
        return
    group.pool += slack
    group.remaining[c] -= slack
    if group.throttled and group.pool > SLICE_US and not group.slack_timer:
        group.slack_timer = True
        m.after(SLACK_US, _slack, m, group)


def _slack(m: Machine, group: Group) -> None:
    """Hand out what was given back (do_sched_cfs_slack_timer())."""
    group.slack_timer = False
    _distribute(m, group)
