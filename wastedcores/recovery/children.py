"""Sleeps of a parent that end because a child exits, as in wait4() or when a thread is joined."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wastedcores.recovery import stretches_jit as sj
from wastedcores.recovery.classes import CHILD
from wastedcores.recovery.task_tables import Seen

I64 = NDArray[np.int64]

#: a parent is woken within this time after the exit (exit_notify() of kernel/exit.c follows the event after some us)
WITHIN_NS = 100_000


def mark_exits_of_children(seen: Seen) -> None:
    """Give the class CHILD to the sleeps of parents that end right after the exit of one of their children."""
    tasks, sleeps = seen.tasks, seen.sleeps
    exits = np.flatnonzero((tasks[:, sj.T_EXIT_NS] >= 0) & (tasks[:, sj.T_PARENT] >= 0))
    exits = exits[np.lexsort((tasks[exits, sj.T_EXIT_NS], tasks[exits, sj.T_PARENT]))]
    if not len(exits):
        return
    span = seen.end_ns - seen.start_ns + 2
    keys = tasks[exits, sj.T_PARENT] * span + tasks[exits, sj.T_EXIT_NS] - seen.start_ns
    wake, by = sleeps[:, sj.S_WAKE_NS], np.maximum(sleeps[:, sj.S_BY], 0)
    at = np.searchsorted(keys, sleeps[:, sj.S_TASK] * span + wake - seen.start_ns, "right") - 1
    # the waker, if it is a child that has exited; else the child that exited last
    named = (sleeps[:, sj.S_BY] >= 0) & (tasks[by, sj.T_PARENT] == sleeps[:, sj.S_TASK])
    named &= (tasks[by, sj.T_EXIT_NS] >= 0) & (tasks[by, sj.T_EXIT_NS] <= wake)
    child = np.where(named, by, exits[np.maximum(at, 0)])
    after = wake - tasks[child, sj.T_EXIT_NS]
    mine = (wake >= 0) & (tasks[child, sj.T_PARENT] == sleeps[:, sj.S_TASK]) & (after >= 0)
    mine &= named | ((at >= 0) & (after <= WITHIN_NS) & (sleeps[:, sj.S_FAR] == 0))
    mine &= tasks[child, sj.T_EXIT_NS] >= sleeps[:, sj.S_OUT_NS] - WITHIN_NS
    sleeps[mine, sj.S_CLASS] = CHILD
    sleeps[mine, sj.S_WAKER] = child[mine]


def alive(seen: Seen, parent: int) -> tuple[I64, I64]:
    """Return how many children a task has over time."""
    mine = seen.tasks[seen.tasks[:, sj.T_PARENT] == parent]
    gone = mine[mine[:, sj.T_EXIT_NS] >= 0]
    ts = np.concatenate([mine[:, sj.T_BORN_NS], gone[:, sj.T_EXIT_NS]])
    change = np.concatenate([np.ones(len(mine), np.int64), -np.ones(len(gone), np.int64)])
    order = np.argsort(ts, kind="stable")
    return ts[order], np.cumsum(change[order])
