"""What each recovered task does, in order: its forks, marks, posts, sleeps and its end, each at a time on the task's clock."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wastedcores.recovery import stretches_jit as sj
from wastedcores.recovery.barriers import Rounds
from wastedcores.recovery.classes import (
    CHILD,
    DEVICE,
    LIKELY,
    MESSAGE,
    TIMER,
    UNENDED,
)
from wastedcores.recovery.joins import Joins, alive
from wastedcores.recovery.locks import holds, of_locks
from wastedcores.recovery.messages import synchronous
from wastedcores.recovery.task_tables import Seen

I64 = NDArray[np.int64]

# columns of an action: the task, its clock, the time in the trace, what it does, an argument, and a cost or a time
A_TASK, A_AT, A_NS, A_WHAT, A_WITH, A_COST = range(6)
A_WIDTH = 6
# the kinds of actions, in the order in which actions of the same moment happen
LAST, POST, UNLOCK, FORK, MARK, MEET, WAIT, LOCK, SLEEP, UNTIL, CHILDREN, STOP, END = range(13)


@dataclass
class Timeline:
    """All actions, ordered by task and time; the number of semaphores between tasks, and which semaphores wake synchronously."""

    actions: I64
    semaphores: int
    sync: NDArray[np.bool_]


@dataclass
class Waits:
    """How tasks wait for each other, as far as a single sleep does not show it."""

    #: the rounds of barriers, and the rounds of masters and their workers
    rounds: Rounds
    joins: Joins
    period: I64  #: int64 (tasks,): the periods of tasks with a timer, in ns


def timeline(seen: Seen, waits: Waits, wake_ns: int, llc_of_cpu: I64 | None = None) -> Timeline:
    """Assemble what each task does."""
    messages, sync = _messages(seen, wake_ns, llc_of_cpu)
    semaphores = len(sync)
    parts = [
        *messages,
        *_joins(seen, waits.joins, semaphores, wake_ns),
        *_barriers(seen, waits.rounds, wake_ns),
        _births(seen),
        rows(seen.marks[:, sj.M_TASK], seen.marks[:, sj.M_AT], seen.marks[:, sj.M_NS], MARK, np.arange(len(seen.marks))),
        *_nobody(seen, waits.period),
        _children(seen),
        _ends(seen),
    ]  # fmt: skip
    masters = int(waits.joins.of_master.max(initial=-1)) + 1
    sync = np.append(sync, np.zeros(masters, np.bool_))
    return Timeline(in_order(np.concatenate(parts)), len(sync), sync)


def in_order(actions: I64) -> I64:
    """Return actions ordered by task and time."""
    return actions[np.lexsort((actions[:, A_WHAT], actions[:, A_NS], actions[:, A_TASK]))]


def rows(task: I64, at: I64, ns: I64, what: int, arg: I64 | int, cost: I64 | int = 0) -> I64:
    """Make actions."""
    made = np.empty((len(task), A_WIDTH), np.int64)
    for column, value in zip(range(A_WIDTH), (task, at, ns, what, arg, cost), strict=True):
        made[:, column] = value
    return made


def _of_class(seen: Seen, *classes: int) -> I64:
    return seen.sleeps[np.isin(seen.sleeps[:, sj.S_CLASS], classes)]


def _messages(
    seen: Seen, wake_ns: int, llc_of_cpu: I64 | None
) -> tuple[list[I64], NDArray[np.bool_]]:
    """Return the waits and the actions that end them. Each pair of tasks has a semaphore (maybe a synchronous one) or a lock."""
    s = _of_class(seen, MESSAGE, LIKELY)
    circle = of_locks(seen, s)
    locks = _locks(seen, s[circle >= 0], circle[circle >= 0], wake_ns)
    s = s[circle < 0]
    pair = s[:, sj.S_WAKER] * len(seen.tasks) + s[:, sj.S_TASK]
    number = np.unique(pair, return_inverse=True)[1]
    waits = rows(s[:, sj.S_TASK], s[:, sj.S_AT], s[:, sj.S_OUT_NS], WAIT, number)
    # a task that exits may wake another task after its exit was recorded
    exits = seen.tasks[s[:, sj.S_WAKER]]
    gone = (exits[:, sj.T_EXIT_NS] >= 0) & (exits[:, sj.T_EXIT_NS] < s[:, sj.S_WAKER_NS])
    at = np.where(gone, exits[:, sj.T_EXIT_AT], s[:, sj.S_WAKER_AT])
    when = np.where(gone, exits[:, sj.T_EXIT_NS], s[:, sj.S_WAKER_NS])
    posts = rows(s[:, sj.S_WAKER], at, when, POST, number, wake_ns)
    return [waits, posts, *locks], synchronous(seen, s, number, llc_of_cpu)


def _locks(seen: Seen, sleeps: I64, circle: I64, wake_ns: int) -> list[I64]:
    """Return how the users of locks take them and give them back."""
    task, begin, end, lock, woke = holds(seen, sleeps, circle)
    number = np.unique(lock, return_inverse=True)[1]
    return [
        rows(task, begin, seen.moment(task, begin), LOCK, number),
        rows(task, end, seen.moment(task, end), UNLOCK, number, np.where(woke, wake_ns, 0)),
    ]


def _joins(seen: Seen, joins: Joins, semaphores: int, wake_ns: int) -> list[I64]:
    """Return the reports of workers and the waits of their masters; each master has a semaphore.

    If a master came after all workers were done, its wait is put into its program at the place that the master had reached when
    the last worker was done.
    """
    s = seen.sleeps[joins.sleep]
    number = semaphores + joins.of_master
    reports = rows(
        s[:, sj.S_TASK], s[:, sj.S_AT] - wake_ns, joins.reported_ns, POST, number[joins.of_sleep], wake_ns
    )  # fmt: skip
    done_ns = np.zeros(len(joins.master), np.int64)
    np.maximum.at(done_ns, joins.of_sleep, s[:, sj.S_OUT_NS])
    clock, _ = seen.clock(joins.master, done_ns)
    slept = joins.wait >= 0
    at = np.where(slept, seen.sleeps[joins.wait, sj.S_AT], clock)
    ns = np.where(slept, seen.sleeps[joins.wait, sj.S_OUT_NS], done_ns)
    of = joins.of_sleep  # the master waits once for each worker
    return [reports, rows(joins.master[of], at[of], ns[of], WAIT, number[of])]


def _barriers(seen: Seen, rounds: Rounds, wake_ns: int) -> list[I64]:
    """Return the arrivals of all rounds; the last task to arrive bears the cost of the wakeups."""
    s = seen.sleeps[rounds.sleep]
    early = rows(s[:, sj.S_TASK], s[:, sj.S_AT], s[:, sj.S_OUT_NS], MEET, rounds.of_sleep)
    release = rounds.ts_ns[rounds.of_late]
    clock, _ = seen.clock(rounds.late, release)
    woken = np.bincount(rounds.of_sleep, minlength=len(rounds.ts_ns))
    first = np.zeros(len(rounds.late), np.bool_)
    first[np.unique(rounds.of_late, return_index=True)[1]] = True
    cost = np.where(first, woken[rounds.of_late] * wake_ns, 0)
    late = rows(rounds.late, clock - wake_ns, release, LAST, rounds.of_late, cost)
    return [early, late]


def _births(seen: Seen) -> I64:
    """Return the forks."""
    born = np.flatnonzero(seen.tasks[:, sj.T_PARENT] >= 0)
    t = seen.tasks[born]
    return rows(t[:, sj.T_PARENT], t[:, sj.T_BORN_AT], t[:, sj.T_BORN_NS], FORK, born)


def _nobody(seen: Seen, period: I64) -> list[I64]:
    """Return the sleeps that end without another task, and the sleeps that had not ended when the trace ended."""
    s = _of_class(seen, TIMER, DEVICE)
    absolute = period[s[:, sj.S_TASK]] > 0
    length = s[:, sj.S_WAKE_NS] - s[:, sj.S_OUT_NS]
    what = np.where(absolute & (s[:, sj.S_CLASS] == TIMER), UNTIL, SLEEP)
    sleeps = rows(s[:, sj.S_TASK], s[:, sj.S_AT], s[:, sj.S_OUT_NS], SLEEP, length)
    sleeps[:, A_WHAT] = what
    sleeps[:, A_COST] = np.where(what == UNTIL, s[:, sj.S_WAKE_NS] - seen.start_ns, 0)
    u = _of_class(seen, UNENDED)
    return [sleeps, rows(u[:, sj.S_TASK], u[:, sj.S_AT], u[:, sj.S_OUT_NS], STOP, 0)]


def _children(seen: Seen) -> I64:
    """Return the waits for children: each lasts until no more children are alive than at its end in the recording.

    A wait before another fork throttles the parent, as in ``make -j``: it lasts until fewer children are alive than the largest
    number that was ever alive. After its last fork, a parent waits until as few children are alive as when it continued in the
    recording. Some parents wait for all their children before they fork again, as after ``wait`` in a shell. This is assumed if
    none of a parent's children was alive at any fork that followed a wait. Then its waits before forks follow the rule for the
    last wait.
    """
    s = _of_class(seen, CHILD)
    parts = [np.empty((0, A_WIDTH), np.int64)]
    for parent in np.unique(s[:, sj.S_TASK]).tolist():
        mine = s[s[:, sj.S_TASK] == parent]
        ts, count = alive(seen, parent)
        born = seen.tasks[seen.tasks[:, sj.T_PARENT] == parent]
        forks = np.sort(born[:, sj.T_BORN_NS])
        until = _ends_of_waits(seen, parent, mine[:, sj.S_WAKE_NS])
        left = count[np.maximum(np.searchsorted(ts, until, "right") - 1, 0)]
        throttle = mine[:, sj.S_OUT_NS] < forks[-1]
        most = int(count.max()) - 1
        following = forks[np.searchsorted(forks, mine[throttle, sj.S_OUT_NS], "right")]
        if count[np.searchsorted(ts, following) - 1].any():
            left[throttle] = most
        else:
            until = np.minimum(until[throttle], following - 1)
            left[throttle] = count[np.searchsorted(ts, until, "right") - 1]
        parts.append(
            rows(mine[:, sj.S_TASK], mine[:, sj.S_AT], mine[:, sj.S_OUT_NS], CHILDREN, left)
        )
        if throttle.any():
            parts.append(_undelayed(seen, parent, born, mine[throttle], most))
    return np.concatenate(parts)


def _undelayed(seen: Seen, parent: int, born: I64, waits: I64, most: int) -> I64:
    """Return the waits of a throttled parent in which it did not sleep, because a child had ended before the wait.

    The parent's work between such a wait and the next fork is the median of this work for the waits that show a sleep. But the
    wait comes after the parent's last action before this fork, because a child may need this action in order to end.
    """
    born = born[np.argsort(born[:, sj.T_BORN_NS])]
    at, ns = born[:, sj.T_BORN_AT], born[:, sj.T_BORN_NS]
    following = np.searchsorted(ns, waits[:, sj.S_OUT_NS], "right")
    lead = int(np.median(at[following] - waits[:, sj.S_AT]))
    before = np.setdiff1d(np.arange(1, len(born)), following)
    acts = np.sort(np.append(_acts(seen, parent), ns))
    last_ns = acts[np.searchsorted(acts, ns[before]) - 1]
    parents = np.full(len(before), parent)
    wait_at = np.maximum(at[before] - lead, seen.clock(parents, last_ns)[0])
    wait_ns = np.maximum(seen.moment(parents, wait_at), last_ns)
    return rows(parents, wait_at, wait_ns, CHILDREN, most)


def _ends_of_waits(seen: Seen, parent: int, wake_ns: I64) -> I64:
    """Return when a parent does something else after its waits for children: sleep, wake another task, write a mark, or exit.

    Until that moment, the parent may have continued because several children had ended.
    """
    exit_ns = int(seen.tasks[parent, sj.T_EXIT_NS])
    acts = np.sort(np.append(_acts(seen, parent), exit_ns if exit_ns >= 0 else seen.end_ns))
    return acts[np.minimum(np.searchsorted(acts, wake_ns, "right"), len(acts) - 1)]


def _acts(seen: Seen, task: int) -> I64:
    """Return when a task sleeps, wakes another task or writes a mark, in order."""
    ts = [
        table[table[:, owner] == task, when]
        for table, owner, when in (
            (seen.sleeps, sj.S_TASK, sj.S_OUT_NS),
            (seen.sleeps, sj.S_WAKER, sj.S_WAKER_NS),
            (seen.marks, sj.M_TASK, sj.M_NS),
        )
    ]
    return np.sort(np.concatenate(ts))


def _ends(seen: Seen) -> I64:
    """Return the end of each task: its exit, or the end of what it computed until the trace ended."""
    t = seen.tasks
    gone = t[:, sj.T_EXIT_NS] >= 0
    awake = ~gone & (t[:, sj.T_STATE] != sj.ASLEEP)
    last, _ = seen.clock(np.arange(len(t)), np.full(len(t), seen.end_ns))
    at = np.where(gone, t[:, sj.T_EXIT_AT], last)
    ns = np.where(gone, t[:, sj.T_EXIT_NS], seen.end_ns + 1)
    ends = rows(np.arange(len(t)), at, ns, END, np.where(gone, 1, 0))
    return ends[gone | awake]
