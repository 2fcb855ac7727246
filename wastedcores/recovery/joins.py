"""Masters that start their workers and wait for all of them, again and again, as in a parallel region of OpenMP.

A master is a task that ends sleeps of several other tasks, its workers. It waits for the workers if, before it starts the workers
again, one of its own sleeps ends when the last worker is done. The master's sleeps show only which workers were late in this run,
and under another kernel other workers are late. So in the workload every worker reports the end of its round to the master,
whether or not the master slept until that worker was done.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wastedcores.recovery import stretches_jit as sj
from wastedcores.recovery.classes import CHILD, JOIN, LIKELY, MESSAGE, UNKNOWN
from wastedcores.recovery.task_tables import Seen

I64 = NDArray[np.int64]

#: a parent is woken within this time after its child's exit event (exit_notify() of kernel/exit.c comes some us after it). If the
#: child leaves its CPU for ever much later than the event, the parent is woken within this time before the child leaves
WITHIN_NS = 100_000


def mark_exits_of_children(seen: Seen) -> None:
    """Give the class CHILD to each sleep that ends right after a child of the sleeping task exits."""
    tasks, sleeps = seen.tasks, seen.sleeps
    exits = np.flatnonzero((tasks[:, sj.T_EXIT_NS] >= 0) & (tasks[:, sj.T_PARENT] >= 0))
    exiting, exit_ns = tasks[:, sj.T_EXITING_NS], tasks[:, sj.T_EXIT_NS]
    tell_ns = np.maximum(exiting, exit_ns - WITHIN_NS)
    exits = exits[np.lexsort((tell_ns[exits], tasks[exits, sj.T_PARENT]))]
    if not len(exits):
        return
    span = seen.end_ns - seen.start_ns + 2
    keys = tasks[exits, sj.T_PARENT] * span + tell_ns[exits] - seen.start_ns
    wake, by = sleeps[:, sj.S_WAKE_NS], np.maximum(sleeps[:, sj.S_BY], 0)
    at = np.searchsorted(keys, sleeps[:, sj.S_TASK] * span + wake - seen.start_ns, "right") - 1
    # the task that ended the wait: the waker if it is a child that has exited, else the child that exited last
    named = (sleeps[:, sj.S_BY] >= 0) & (tasks[by, sj.T_PARENT] == sleeps[:, sj.S_TASK])
    named &= (exiting[by] >= 0) & (exiting[by] <= wake)
    child = np.where(named, by, exits[np.maximum(at, 0)])
    mine = (wake >= 0) & (tasks[child, sj.T_PARENT] == sleeps[:, sj.S_TASK])
    mine &= exiting[child] <= wake
    soon = wake - exit_ns[child] <= WITHIN_NS
    mine &= named | ((at >= 0) & soon & (sleeps[:, sj.S_FAR] == 0))
    mine &= exit_ns[child] >= sleeps[:, sj.S_OUT_NS] - WITHIN_NS
    sleeps[mine, sj.S_CLASS] = CHILD
    sleeps[mine, sj.S_WAKER] = child[mine]
    # a child that has woken its parent no longer counts as alive
    np.minimum.at(tasks[:, sj.T_EXIT_NS], child[mine], wake[mine])


def alive(seen: Seen, parent: int) -> tuple[I64, I64]:
    """Return how many children a task has over time."""
    mine = seen.tasks[seen.tasks[:, sj.T_PARENT] == parent]
    gone = mine[mine[:, sj.T_EXIT_NS] >= 0]
    ts = np.concatenate([mine[:, sj.T_BORN_NS], gone[:, sj.T_EXIT_NS]])
    change = np.concatenate([np.ones(len(mine), np.int64), -np.ones(len(gone), np.int64)])
    order = np.argsort(ts, kind="stable")
    return ts[order], np.cumsum(change[order])


#: a worker was done when its master woke if it had at most LEFT_NS of work left before its sleep. The master waited for the last
#: worker if some worker fell asleep at most SLEPT_NS before the master woke, or later
LEFT_NS, SLEPT_NS = 10_000, 5_000
#: a master is recognised if at least this many of its rounds, and at least this share of them, have several workers
ROUNDS, SEVERAL = 3, 0.5
#: among the rounds in which a master waited for the last worker or continued before it was done, at least the share WAITED are
#: waits; and a master continued too early in at most the share CONTRADICT of all its rounds
WAITED, CONTRADICT = 0.7, 0.1


@dataclass
class Joins:
    """The rounds in which masters wait for their workers."""

    #: int64 (n,): the sleeps before which workers report to the master; the number of the round; the time of the report
    sleep: I64
    of_sleep: I64
    reported_ns: I64
    #: int64 (rounds,): the sleep in which the master waits for the last worker; -1 if the master came after all workers were done
    wait: I64
    #: int64 (rounds,): the master's number among the tasks, and among the masters
    master: I64
    of_master: I64


@dataclass
class _Round:
    """The sleeps of workers that a master ends together, and what the master did before it ended them."""

    workers: I64
    #: the sleeps of the master in a round, up to the one that ended when all workers were done
    waits: I64
    #: whether the master slept until the last worker was done; whether it continued before the last worker was done
    waited: bool = False
    late: bool = False


def find_joins(seen: Seen) -> Joins:
    """Find the masters that wait for all their workers, and give the class JOIN to their sleeps."""
    s = seen.sleeps
    woken = np.flatnonzero(np.isin(s[:, sj.S_CLASS], (MESSAGE, LIKELY)))
    woken = woken[np.lexsort((s[woken, sj.S_WAKER_NS], s[woken, sj.S_WAKER]))]
    masters, first = np.unique(s[woken, sj.S_WAKER], return_index=True)
    found: list[tuple[int, list[_Round]]] = []
    for master, mine in zip(masters.tolist(), np.split(woken, first[1:]), strict=False):
        bursts = _bursts(s, master, mine)
        several = [b for b in bursts if len(b[0]) > 1]
        if len(several) < max(ROUNDS, SEVERAL * len(bursts)):
            continue
        rounds = [_round(seen, *b) for b in several]
        slept = [r for r in rounds if r.waited or r.late]
        if sum(r.waited for r in rounds) >= max(ROUNDS, WAITED * len(slept)) and (
            sum(r.late for r in rounds) <= CONTRADICT * len(rounds)
        ):
            found.append((master, [r for r in rounds if not r.late]))
    return _joined(s, found)


def _bursts(s: I64, master: int, woken: I64) -> list[tuple[I64, I64]]:
    """Return the sets of sleeps that a master ends without sleeping in between, and the master's own sleeps before each set."""
    own = np.flatnonzero(s[:, sj.S_TASK] == master)
    own = own[np.argsort(s[own, sj.S_OUT_NS], kind="stable")]
    before = np.searchsorted(s[own, sj.S_OUT_NS], s[woken, sj.S_WAKER_NS])
    cuts = np.flatnonzero(np.diff(before)) + 1
    slept = before[np.append(0, cuts)]
    return list(zip(np.split(woken, cuts), np.split(own, slept)[:-1], strict=True))


def _round(seen: Seen, workers: I64, own: I64) -> _Round:
    """Tell whether the master waited until all workers that it wakes next were done, and return the round."""
    s = seen.sleeps
    own = own[s[own, sj.S_WAKE_NS] >= 0]
    if not len(own):
        return _Round(workers, own)
    wakes, out = s[own, sj.S_WAKE_NS], s[workers, sj.S_OUT_NS]
    tasks = np.repeat(s[workers, sj.S_TASK], len(own))
    clock, _ = seen.clock(tasks, np.tile(wakes, len(workers)))
    left = s[workers, sj.S_AT][:, None] - clock.reshape(len(workers), len(own))
    done = (left <= LEFT_NS).all(axis=0)
    if not done.any():
        return _Round(workers, own[:0], late=True)
    last = int(done.argmax())
    just = bool((out >= wakes[last] - SLEPT_NS).any())
    own = own[: last + 1]
    by_worker = np.isin(s[own, sj.S_WAKER], s[workers, sj.S_TASK])
    free = by_worker | (s[own, sj.S_CLASS] == UNKNOWN)
    return _Round(workers, own[free], waited=just and bool(free[-1]))


def _joined(s: I64, found: list[tuple[int, list[_Round]]]) -> Joins:
    """Note the sleeps of all rounds."""
    sleep, of_sleep, reported = ([np.empty(0, np.int64)] for _ in range(3))
    wait, master, of_master = (list[int]() for _ in range(3))
    for number, (task, rounds) in enumerate(found):
        for r in rounds:
            out = s[r.workers, sj.S_OUT_NS]
            if r.waited:
                out = np.minimum(out, s[r.waits[-1], sj.S_WAKE_NS])
            sleep.append(r.workers)
            of_sleep.append(np.full(len(out), len(wait)))
            reported.append(out)
            wait.append(int(r.waits[-1]) if r.waited else -1)
            master.append(task)
            of_master.append(number)
            if r.waited:
                _end_waits(s, r, out)
    return Joins(
        np.concatenate(sleep),
        np.concatenate(of_sleep),
        np.concatenate(reported),
        np.array(wait, np.int64),
        np.array(master, np.int64),
        np.array(of_master, np.int64),
    )


def _end_waits(s: I64, r: _Round, out: I64) -> None:
    """Set the waker of each sleep of the master in a round: the worker that was done when the sleep ended."""
    wakes = s[r.waits, sj.S_WAKE_NS]
    nearest = np.abs(out[:, None] - wakes).argmin(axis=0)
    s[r.waits, sj.S_CLASS] = JOIN
    s[r.waits, sj.S_WAKER] = s[r.workers[nearest], sj.S_TASK]
    s[r.waits, sj.S_WAKER_AT] = s[r.workers[nearest], sj.S_AT]
    s[r.waits, sj.S_WAKER_NS] = np.minimum(out[nearest], wakes)
