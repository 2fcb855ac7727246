"""Locks: their users end each other's sleeps.

The release of a lock wakes one of the tasks that wait at that moment. Under another kernel, other tasks may be waiting. Therefore
the workload has a lock, and the replay decides which task is woken. The length of a hold is measured if a task waited for the
lock and later woke another task. If only the wait or only the wakeup is seen, the hold gets the median length of the measured
holds. A lock for which no task waited leaves no trace and is not replayed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wastedcores.recovery import stretches_jit as sj
from wastedcores.recovery.task_tables import Seen

I64 = NDArray[np.int64]

#: if a task runs for longer than this many usual holds before it wakes another task, it has released the lock and taken it again
LONGEST = 2
#: these quantiles of the holds of a lock differ by a factor of two at most
QUARTILES = (0.25, 0.75)


def circles(waker: I64, sleeper: I64, slept: I64) -> I64:
    """Return for each wakeup the first task of its circle, which stands for the circle; -1 for a wakeup outside all circles.

    A circle is a set of tasks that wake each other, as the users of a lock do.

    Each task wakes at least two tasks of its circle that also wake it, at least half of all pairs wake each other, and the tasks
    end at least half of each other's sleeps. ``slept`` has the number of sleeps of each task.
    """
    count = len(slept)
    codes = np.unique(waker * count + sleeper)
    mutual = codes[np.isin(codes % count * count + codes // count, codes)]
    a, b = mutual // count, mutual % count
    first = np.arange(count)
    while True:  # find the first of all tasks that each task reaches
        least = first.copy()
        np.minimum.at(least, a, first[b])
        if (least == first).all():
            break
        first = least
    partners = np.bincount(a, minlength=count)
    fewest = np.full(count, count)
    np.minimum.at(fewest, first, np.where(partners > 0, partners, count))
    size = np.bincount(first, partners > 0, count)
    whole = (fewest >= 2) & (2 * np.bincount(first, partners, count) >= size * (size - 1))
    together = first[sleeper] == first[waker]
    ended = np.bincount(first[sleeper[together]], minlength=count)
    whole &= 2 * ended >= np.bincount(first, slept, count)
    return np.where(together & whole[first[sleeper]], first[sleeper], -1)


def of_locks(seen: Seen, sleeps: I64) -> I64:
    """Return for each sleep the lock that it waited for, or -1.

    The tasks of a circle are users of a lock if they mostly wake another task after they got the lock, and if the times between
    getting the lock and this wakeup are about equal.
    """
    slept = np.bincount(seen.sleeps[:, sj.S_TASK], minlength=len(seen.tasks))
    circle = circles(sleeps[:, sj.S_WAKER], sleeps[:, sj.S_TASK], slept)
    for one in np.unique(circle[circle >= 0]):
        mine = circle == one
        *_, length, closed = _turns(seen, sleeps[mine], circle[mine])
        if 2 * closed.sum() >= mine.sum():
            low, high = np.quantile(length[closed], QUARTILES)
            if high <= 2 * low:
                continue
        circle[mine] = -1
    return circle


def _turns(seen: Seen, sleeps: I64, circle: I64) -> tuple[NDArray[Any], ...]:
    """Return, ordered by task and clock, the moments at which tasks woke another task or got a lock for which they had waited.

    The columns are: task, clock, whether it got the lock, lock, its clock at the last sleep before and at the first sleep after
    the moment, the time until the next moment, and whether a hold begins here and ends at the next moment (the task did not sleep
    in between).
    """
    task = np.concatenate([sleeps[:, sj.S_TASK], sleeps[:, sj.S_WAKER]])
    at = np.concatenate([sleeps[:, sj.S_AT], sleeps[:, sj.S_WAKER_AT]])
    got = np.repeat([True, False], len(sleeps))
    lock = np.tile(circle, 2)
    # at equal clocks, getting a lock comes first: if a task wakes another one as soon as it gets the lock, the hold has length 0
    order = np.lexsort((~got, at, task))
    task, at, got, lock = task[order], at[order], got[order], lock[order]
    before, after = _between_sleeps(seen, task, at, got)
    following = np.append(at[1:], 0)
    closed = got & np.append((task[1:] == task[:-1]) & ~got[1:], False) & (following <= after)
    return task, at, got, lock, before, after, following - at, closed


def holds(seen: Seen, sleeps: I64, circle: I64) -> tuple[I64, I64, I64, I64, NDArray[np.bool_]]:
    """Return the holds of locks: task, beginning and end on the task's own clock, lock, and whether the end woke another task.

    A task never sleeps while it holds a lock, so there are no deadlocks.
    """
    task, at, got, lock, before, after, length, closed = _turns(seen, sleeps, circle)
    follows = np.append(task[1:] == task[:-1], False)
    usual = np.median(length[closed]).astype(np.int64) if closed.any() else 1
    closed &= length <= LONGEST * usual
    opened = np.append(False, closed[:-1])
    nearest = np.where(np.append(False, follows[:-1]), np.append(0, at[:-1]), 0)
    begin = np.where(got, at, np.maximum(at - usual, np.maximum(before, nearest)))
    end = np.where(closed, at + length, np.where(got, np.minimum(at + usual, after), at))
    limit = np.where(follows & ~closed, np.append(begin[1:], 0), np.iinfo(np.int64).max)
    end = np.minimum(end, np.maximum(limit, begin))
    keep = ~opened & (end > begin)
    return task[keep], begin[keep], end[keep], lock[keep], (~got | closed)[keep]


def _between_sleeps(seen: Seen, task: I64, at: I64, got: NDArray[np.bool_]) -> tuple[I64, I64]:
    """Return the clocks at the last sleep before and the first sleep after some moments; ``got`` marks the ends of sleeps."""
    clock = seen.sleeps[:, [sj.S_TASK, sj.S_AT]]
    span = (
        int(max(clock[:, 1].max(initial=0), at.max(initial=0), seen.tasks[:, sj.T_RAN].max())) + 2
    )
    keys = np.sort(clock[:, 0] * span + clock[:, 1])
    place = np.searchsorted(keys, task * span + at, "right")
    ends = seen.tasks[task, sj.T_RAN]
    following = keys[np.minimum(place, len(keys) - 1)]
    after = np.where((place < len(keys)) & (following // span == task), following % span, ends)
    previous = keys[np.maximum(place - 1, 0)]
    before = np.where((place > 0) & (previous // span == task), previous % span, 0)
    return np.where(got, at, before), np.maximum(after, at)
