"""Barriers: the tasks of a group sleep until the last task of the group arrives and wakes them.

A release is a burst of wakeups. Tasks that are woken in the same bursts again and again form a group. A group meets at a
barrier if in most rounds exactly one member did not sleep, and this member is not always the same one. Otherwise a task outside
the group wakes its members, or always the same member does (a master and its workers). Each wakeup is then a message.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wastedcores.recovery import stretches_jit as sj
from wastedcores.recovery.barriers_jit import split
from wastedcores.recovery.classes import BARRIER, UNKNOWN
from wastedcores.recovery.task_tables import Seen

I64 = NDArray[np.int64]

#: two wakeups of one release follow each other within this time
GAP_NS = 50_000
#: a release takes at most this time
RELEASE_NS = 1_000_000
#: tasks belong to a group if they are woken together in at least this share of their sleeps
TOGETHER = 0.3
#: for a barrier, at least this many rounds, and this share of all rounds, must have exactly one task that did not sleep
ROUNDS, ONE_MISSING = 3, 0.5
#: the smallest group: of two tasks at a barrier only one sleeps, so that two tasks are never woken together
SMALLEST = 3
#: a known waker must be the last task to arrive at the barrier, except in this share of the cases
CONTRADICT = 0.3
#: a task that arrives last in a larger share of the rounds is a master and not a member
MASTER = 0.9
#: about this many pairs of wakeups are examined
MOST_PAIRS = 1_000_000


@dataclass
class Rounds:
    """The rounds of all barriers."""

    #: int64 (n,): the sleeps that end in rounds, and the number of the round of each sleep
    sleep: I64
    of_sleep: I64
    #: int64 (m,): the tasks that arrived without a sleep, and the number of the round of each; the last to arrive is among them
    late: I64
    of_late: I64
    ts_ns: I64  #: int64 (rounds,): time of each release
    parties: I64  #: int64 (rounds,): how many tasks took part
    group: I64  #: int64 (rounds,): which group of tasks met

    def takes_part(self, seen: Seen) -> NDArray[np.bool_]:
        """Return which tasks meet at a barrier, bool (tasks,)."""
        found = np.zeros(len(seen.tasks), np.bool_)
        found[seen.sleeps[self.sleep, sj.S_TASK]] = True
        found[self.late] = True
        return found


def find_barriers(seen: Seen) -> Rounds:
    """Find the rounds of all barriers and give the class BARRIER to their sleeps."""
    sleeps = seen.sleeps
    free = np.flatnonzero((sleeps[:, sj.S_CLASS] == UNKNOWN) & (sleeps[:, sj.S_WAKE_NS] >= 0))
    free = free[np.argsort(sleeps[free, sj.S_WAKE_NS], kind="stable")]
    found: list[tuple[I64, I64, int, int]] = []
    groups = _groups(sleeps[free], len(seen.tasks))
    for number in np.unique(groups[groups >= 0]).tolist():
        members = np.flatnonzero(groups == number)
        mine = free[np.isin(sleeps[free, sj.S_TASK], members)]
        found += [(*r, number) for r in _rounds_of(seen, members, mine)]
    for sleep, _, _, _ in found:
        sleeps[sleep, sj.S_CLASS] = BARRIER
    count = np.arange(len(found))
    none = [np.empty(0, np.int64)]
    return Rounds(
        np.concatenate([f[0] for f in found] + none),
        np.repeat(count, [len(f[0]) for f in found]),
        np.concatenate([f[1] for f in found] + none),
        np.repeat(count, [len(f[1]) for f in found]),
        np.array([f[2] for f in found], np.int64),
        np.array([len(f[0]) + len(f[1]) for f in found], np.int64),
        np.array([f[3] for f in found], np.int64),
    )


def _groups(woken: I64, tasks: int) -> I64:
    """Return the group of each task, -1 for none; ``woken`` has the sleeps in the order of their ends."""
    woken, burst = _sampled(woken)
    first, second = _pairs(woken, burst)
    total = np.bincount(woken[:, sj.S_TASK], minlength=tasks)
    low, high = np.minimum(first, second), np.maximum(first, second)
    codes, count = np.unique(low * tasks + high, return_counts=True)
    low, high = codes // tasks, codes % tasks
    close = (count >= ROUNDS) & (count >= TOGETHER * np.maximum(total[low], total[high]))
    group = np.arange(tasks)

    def root(t: int) -> int:
        while group[t] != t:
            group[t] = group[group[t]]
            t = group[t]
        return t

    for a, b in zip(low[close].tolist(), high[close].tolist(), strict=True):
        group[root(a)] = root(b)
    roots = np.array([root(t) for t in range(tasks)], np.int64)
    alone = np.bincount(roots, minlength=tasks)[roots] < SMALLEST
    return np.where(alone, -1, roots)


def _sampled(woken: I64) -> tuple[I64, I64]:
    """Return the wakeups of all bursts, or of every n-th burst if all have too many pairs; and the burst of each wakeup."""
    ts = woken[:, sj.S_WAKE_NS]
    burst = np.cumsum(np.diff(ts, prepend=ts[:1]) > GAP_NS)
    size = np.bincount(burst) if len(burst) else np.zeros(1, np.int64)
    apart = -(-int((size * (size - 1) // 2).sum()) // MOST_PAIRS)
    keep = burst % max(apart, 1) == 0
    return woken[keep], burst[keep]


def _pairs(woken: I64, burst: I64) -> tuple[I64, I64]:
    """Return the tasks of all pairs of wakeups in the same burst."""
    ts, task = woken[:, sj.S_WAKE_NS], woken[:, sj.S_TASK]
    first, second, pairs = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
    for step in range(1, len(woken)):
        same = np.flatnonzero(
            (burst[step:] == burst[:-step]) & (ts[step:] - ts[:-step] < RELEASE_NS)
        )
        pairs += len(same)
        if not len(same) or pairs > 4 * MOST_PAIRS:
            break
        apart = same[task[same] != task[same + step]]
        first.append(task[apart])
        second.append(task[apart + step])
    return np.concatenate(first), np.concatenate(second)


def _rounds_of(seen: Seen, members: I64, mine: I64) -> list[tuple[I64, I64, int]]:
    """Return a group's rounds: sleeps, tasks that did not sleep, time of the release. A group without a barrier has no rounds."""
    cuts = _split(seen.sleeps[mine])
    late = _missing(seen, members, mine, cuts)
    release = seen.sleeps[mine[np.concatenate(([0], cuts))], sj.S_WAKE_NS]
    rounds = list(zip(np.split(mine, cuts), late, release.tolist(), strict=True))
    last = [int(tasks[0]) for tasks in late if len(tasks) == 1]
    alone = len(last)
    if alone < ROUNDS or alone < ONE_MISSING * len(rounds):
        return []
    if np.bincount(last).max() > MASTER * len(last) or _contradicted(seen, rounds):
        return []
    return [r for r in rounds if len(r[1]) and 2 * len(r[0]) >= len(r[0]) + len(r[1])]


def _contradicted(seen: Seen, rounds: list[tuple[I64, I64, int]]) -> bool:
    """Tell whether too many known wakers are not among the members that did not sleep in the round of the wakeup."""
    tasks, numbers = len(seen.tasks), np.arange(len(rounds))
    rows = seen.sleeps[np.concatenate([r[0] for r in rounds])]
    of = np.repeat(numbers, [len(r[0]) for r in rounds])
    told = rows[:, sj.S_FAR] > 0
    by = rows[told, sj.S_BY]
    late = np.concatenate([r[1] for r in rounds])
    late = late + tasks * np.repeat(numbers, [len(r[1]) for r in rounds])
    others = (by < 0) | ~np.isin(by + tasks * of[told], late)
    return int(others.sum()) > CONTRADICT * len(by)


def _split(woken: I64) -> I64:
    """Return where all rounds after the first begin."""
    cuts = np.empty(len(woken), np.int64)
    wake_ns, out_ns = (np.ascontiguousarray(woken[:, c]) for c in (sj.S_WAKE_NS, sj.S_OUT_NS))
    return cuts[1 : split(wake_ns, out_ns, GAP_NS, RELEASE_NS, cuts)]


def _missing(seen: Seen, members: I64, mine: I64, cuts: I64) -> list[I64]:
    """Return, for each round, the members that have no sleep in this round and were on a CPU at its release."""
    task, release = seen.sleeps[mine, sj.S_TASK], seen.sleeps[mine, sj.S_WAKE_NS]
    begin, end = np.append(0, cuts), np.append(cuts, len(mine))
    first, exit_ns = (seen.tasks[members, c] for c in (sj.T_FIRST_NS, sj.T_EXIT_NS))
    out: list[I64] = []
    some = max(1, MOST_PAIRS // len(members))
    for at in range(0, len(begin), some):
        b, e = begin[at : at + some], end[at : at + some]
        now = release[b]
        there = (first <= now[:, None]) & ((exit_ns < 0) | (exit_ns > now[:, None]))
        of = np.repeat(np.arange(len(b)), e - b)
        there[of, np.searchsorted(members, task[b[0] : e[-1]])] = False
        row, column = np.nonzero(there)
        _, running = seen.clock(members[column], now[row])
        row, column = row[running], column[running]
        out += np.split(members[column], np.searchsorted(row, np.arange(1, len(b))))
    return out
