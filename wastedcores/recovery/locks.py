"""Locks: their users end each other's sleeps.

Which task is woken when a lock is given back depends on the tasks that wait at that moment, so under another kernel it is
another task. Therefore the workload has a lock, and the replay decides which task is woken. The length of a hold is measured if a
task waited for the lock and later woke another task. If only one of these two events is seen, the median of the measured holds
is taken. A lock for which no task waited leaves no trace and is not replayed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wastedcores.recovery import stretches_jit as sj
from wastedcores.recovery.task_tables import Seen

I64 = NDArray[np.int64]

#: if a task runs for more than this many usual holds before it wakes another task, it has released the lock and taken it again
LONGEST = 2
#: these quantiles of the holds of a lock differ by a factor of two at most
QUARTILES = (0.25, 0.75)


def circles(waker: I64, sleeper: I64, slept: I64) -> I64:
    """Return for each wakeup the first task of its circle, which stands for the circle, or -1.

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

    A circle has a lock if its tasks, after they got the lock, mostly wake another task, and do so after about equal times.
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
    """Return the moments at which tasks got a lock for which they had waited or woke another task, ordered by task and clock.

    The columns are: task, clock, whether it got the lock, lock, the clocks at its sleeps before and after the moment, the time
    until the next moment, and whether a hold begins here and ends at the next moment (the task did not sleep in between).
    """
    task = np.concatenate([sleeps[:, sj.S_TASK], sleeps[:, sj.S_WAKER]])
    at = np.concatenate([sleeps[:, sj.S_AT], sleeps[:, sj.S_WAKER_AT]])
    got = np.repeat([True, False], len(sleeps))
    lock = np.tile(circle, 2)
    # the order of equal clocks leaves out tasks that wake another task at once when they get the lock
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
    """Return the clocks at the sleeps before and after some moments. A moment that ends a sleep is itself the clock before."""
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
