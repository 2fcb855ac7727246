"""Finds wakers by exclusion: all other tasks have an alibi, because they did not run when the sleeps ended.

Before ``sched_waking``, the event of a wakeup on a far CPU does not say which task decided it. But the waker was running. Tasks
with the same name and parent, such as the servers of a queue, are examined together: if exactly one task of their family ran at
the end of each of their sleeps, this task woke them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wastedcores.recovery import stretches_jit as sj
from wastedcores.recovery.task_tables import Seen
from wastedcores.recovery.timers import regular_tasks

I64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

#: a waker last ran at most this long before its wakeup was recorded on the other CPU
LATELY_NS = 6_000
#: a waker is inferred from at least TIMES sleeps. At the share MISSED of their ends the waker need not have run, because
#: interrupts also wake tasks
TIMES, MISSED = 5, 0.02
#: if the sleeps are those of a single task, the chance that the waker ran at all their ends by coincidence is at most this
CHANCE = 0.01
#: about this many pairs of a sleep and a task are examined, once for all groups of tasks and once for all single tasks
MOST_PAIRS = 1_000_000


def wakers_by_alibi(seen: Seen, free: I64, eldest: I64) -> tuple[I64, I64]:
    """Find the wakers of sleeps that no other task can have ended."""
    s = seen.sleeps
    free = free[~regular_tasks(seen, free)[s[free, sj.S_TASK]]]
    free = free[seen.tasks[s[free, sj.S_TASK], sj.T_PARENT] >= 0]
    names = np.unique(seen.comms, return_inverse=True)[1] if seen.comms else np.empty(0, np.int64)
    pool = seen.tasks[:, sj.T_PARENT] * (len(seen.tasks) + 1) + names
    sleeps, wakers = [np.empty(0, np.int64)], [np.empty(0, np.int64)]

    def ask(mine: I64, alone: bool, pairs: int) -> bool:
        waker = _only_one(seen, mine, eldest, alone, pairs)
        if waker >= 0:
            there = _present(seen, np.full(len(mine), waker), s[mine, sj.S_WAKE_NS])
            sleeps.append(mine[there])
            wakers.append(np.full(int(there.sum()), waker))
        return waker >= 0

    groups = _split(free, pool[s[free, sj.S_TASK]])
    alone = [np.empty(0, np.int64)]
    for mine in groups:
        several = np.ptp(s[mine, sj.S_TASK]) > 0
        if not several or not ask(mine, False, MOST_PAIRS // len(groups)):
            alone.append(mine)
    left = np.concatenate(alone)
    single = _split(left, s[left, sj.S_TASK])
    for mine in single:
        ask(mine, True, MOST_PAIRS // len(single))
    return np.concatenate(sleeps), np.concatenate(wakers)


def _split(sleeps: I64, key: I64) -> list[I64]:
    """Return groups of sleeps with the same key, without the groups that are too small."""
    order = np.argsort(key, kind="stable")
    cuts = np.flatnonzero(np.diff(key[order])) + 1
    return [g for g in np.split(sleeps[order], cuts) if len(g) >= TIMES]


def _only_one(seen: Seen, mine: I64, eldest: I64, alone: bool, pairs: int) -> int:
    """Return the only task that can have ended some sleeps, or -1; look at about ``pairs`` pairs of sleeps and tasks."""
    s, t = seen.sleeps, seen.tasks
    wake = s[mine, sj.S_WAKE_NS]
    family = np.flatnonzero(eldest == eldest[s[mine[0], sj.S_TASK]])
    gone = np.where(t[family, sj.T_EXIT_NS] >= 0, t[family, sj.T_EXIT_NS], seen.end_ns)
    born = t[family, sj.T_FIRST_NS]
    early, late = np.quantile(wake, (MISSED, 1 - MISSED))
    family = family[(born <= early) & (gone + LATELY_NS >= late) & (t[family, sj.T_RAN] > 0)]
    wake = wake[:: min(len(wake) * len(family) // pairs + 1, len(wake) // TIMES)]
    there = _present(seen, np.repeat(family, len(wake)), np.tile(wake, len(family)))
    missed = (~there).reshape(len(family), len(wake)).sum(axis=1)
    left = family[missed <= MISSED * len(wake)]
    if len(left) != 1:
        return -1
    lives = int(seen.end_ns - t[left[0], sj.T_FIRST_NS])
    share = float(t[left[0], sj.T_RAN]) / max(lives, 1)
    return -1 if alone and share ** len(wake) > CHANCE else int(left[0])


def _present(seen: Seen, task: I64, ts_ns: I64) -> Bool:
    """Tell whether tasks ran at some moments, or shortly before."""
    before, ran = seen.clock(task, ts_ns - LATELY_NS)
    after, runs = seen.clock(task, ts_ns)
    return ran | runs | (after > before)
