"""Sleeps that nobody ends: timers, which end at regular times, and devices, which do not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wastedcores.recovery import stretches_jit as sj
from wastedcores.recovery.classes import DEVICE, TIMER, UNENDED, UNKNOWN
from wastedcores.recovery.seen import Seen

I64 = NDArray[np.int64]

#: sleeps are regular if this share of them is this close to their median
REGULAR, CLOSE, CLOSE_NS = 0.8, 0.02, 60_000
#: and if there are this many
TIMES = 3


def find_timers(seen: Seen) -> I64:
    """Give the class TIMER or DEVICE to the sleeps that nobody is known to have ended.

    Parameters
    ----------
    seen
        The tables; classes are written into ``seen.sleeps``.

    Returns
    -------
    array
        int64 (tasks,): the period of tasks that wake at equal distances however long they ran; 0 for all others.
    """
    sleeps = seen.sleeps
    sleeps[sleeps[:, sj.S_WAKE_NS] < 0, sj.S_CLASS] = UNENDED
    free = np.flatnonzero(sleeps[:, sj.S_CLASS] == UNKNOWN)
    sleeps[free, sj.S_CLASS] = DEVICE
    period = np.zeros(len(seen.tasks), np.int64)
    order = free[np.lexsort((sleeps[free, sj.S_OUT_NS], sleeps[free, sj.S_TASK]))]
    cuts = np.flatnonzero(np.diff(sleeps[order, sj.S_TASK])) + 1
    for mine in np.split(order, cuts):
        if len(mine) < TIMES:
            continue
        length = sleeps[mine, sj.S_WAKE_NS] - sleeps[mine, sj.S_OUT_NS]
        apart = np.diff(sleeps[mine, sj.S_WAKE_NS])
        if _regular(length[1:]):
            sleeps[mine, sj.S_CLASS] = TIMER
        elif _regular(apart):
            sleeps[mine, sj.S_CLASS] = TIMER
            period[sleeps[mine[0], sj.S_TASK]] = round(float(np.median(apart)))
    return period


def _regular(lengths: I64) -> bool:
    """Tell whether most lengths are about the same."""
    median = float(np.median(lengths))
    close = np.abs(lengths - median) <= max(CLOSE * median, CLOSE_NS)
    return bool(np.mean(close) >= REGULAR)
