"""Sleeps that no task ends: sleeps for timers, which end at regular times, and for devices, which end at irregular times."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wastedcores.recovery import stretches_jit as sj
from wastedcores.recovery.classes import DEVICE, TIMER, UNENDED, UNKNOWN
from wastedcores.recovery.task_tables import Seen

I64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

#: sleeps are regular if at least the share REGULAR of them differs from their median by at most CLOSE times the median. In short
#: sleeps the slack of timers is greater than this: they may differ by SLACK_NS, but at most by CLOSE_IF_SHORT times the median
REGULAR, CLOSE, SLACK_NS, CLOSE_IF_SHORT = 0.8, 0.02, 60_000, 0.1
#: a task with fewer sleeps than this is not regular
TIMES = 3


def find_timers(seen: Seen) -> I64:
    """Give the class TIMER or DEVICE to the sleeps that no known task has ended; return each task's period, or 0."""
    sleeps = seen.sleeps
    sleeps[sleeps[:, sj.S_WAKE_NS] < 0, sj.S_CLASS] = UNENDED
    free = np.flatnonzero(sleeps[:, sj.S_CLASS] == UNKNOWN)
    sleeps[free, sj.S_CLASS] = DEVICE
    period = np.zeros(len(seen.tasks), np.int64)
    for mine in _by_task(sleeps, free):
        apart = np.diff(sleeps[mine, sj.S_WAKE_NS])
        if _regular(_lengths(sleeps[mine])[1:]):
            sleeps[mine, sj.S_CLASS] = TIMER
        elif _regular(apart):
            sleeps[mine, sj.S_CLASS] = TIMER
            period[sleeps[mine[0], sj.S_TASK]] = round(float(np.median(apart)))
    return period


def regular_tasks(seen: Seen, free: I64) -> Bool:
    """Return the tasks whose sleeps have one length or end at equal distances, as timers do."""
    s = seen.sleeps
    found = np.zeros(len(seen.tasks), np.bool_)
    for mine in _by_task(s, free):
        if _regular(_lengths(s[mine])[1:]) or _regular(np.diff(s[mine, sj.S_WAKE_NS])):
            found[s[mine[0], sj.S_TASK]] = True
    return found


def _by_task(s: I64, free: I64) -> list[I64]:
    """Return the sleeps of each task in order, for tasks that slept often enough to show a period."""
    order = free[np.lexsort((s[free, sj.S_OUT_NS], s[free, sj.S_TASK]))]
    cuts = np.flatnonzero(np.diff(s[order, sj.S_TASK])) + 1
    return [mine for mine in np.split(order, cuts) if len(mine) >= TIMES]


def _lengths(sleeps: I64) -> I64:
    """Return how long sleeps lasted, in ns."""
    return np.subtract(sleeps[:, sj.S_WAKE_NS], sleeps[:, sj.S_OUT_NS], dtype=np.int64)


def _regular(lengths: I64) -> bool:
    """Tell whether most lengths are about the same."""
    median = float(np.median(lengths))
    allowed = max(CLOSE * median, min(SLACK_NS, CLOSE_IF_SHORT * median))
    return bool(np.mean(np.abs(lengths - median) <= allowed) >= REGULAR)
