"""Which row of the tables about tasks belongs to which pid.

The tables of the compiled state machine have a row of about 100 bytes per task, and several copies of them are in memory. Linux
gives out pids in order, up to 32,768 on old machines and up to 4,194,304 where systemd sets ``kernel.pid_max``. So on a server
that has run for weeks, a row per pid would take hundreds of megabytes for a few hundred tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.runqueues.events import require_inside
from wastedcores.trace.header import Header, TaskFacts
from wastedcores.trace.trace import Trace

#: if no pid is higher than this, the row of a task is its pid, which saves a pass over the events (a tenth of the time of a
#: check)
ROW_PER_PID = 1 << 17

_PIDS = ("pid", "prev_pid", "by_pid")


@dataclass(frozen=True)
class TaskRows:
    """The rows of the tables about tasks; row 0 is the idle task."""

    #: the trace, with row numbers in place of pids unless all pids are small
    trace: Trace
    count: int
    #: (count,) the pid of each row, in ascending order; None: the row is the pid
    pid: NDArray[np.int32] | None = None

    def pids(self, rows: NDArray[np.int64] | NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the pids of these rows."""
        return rows.astype(np.int32) if self.pid is None else self.pid[rows]

    def rows(self, pids: NDArray[np.int64] | NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the rows of these pids, which must be in the trace."""
        return pids.astype(np.int64) if self.pid is None else np.searchsorted(self.pid, pids)


def task_rows(trace: Trace, top_pid: int) -> TaskRows:
    """Give every task of a trace a row.

    * ``top_pid``: the highest pid of its events.
    * Raises TraceContentError if an event names a higher pid.
    """
    if top_pid <= ROW_PER_PID:
        return TaskRows(trace, top_pid + 1)
    told = [pid for task in _tasks(trace.header) for pid in (task.pid, task.tgid, task.ppid) if pid]
    limit = max(top_pid, *told, 2) + 1
    there = np.zeros(limit + 1, np.bool_)  # the last one is for -1, which stands for no task
    there[[0, 1, 2, *told]] = True  # the idle task, init and kthreadd keep their pids
    for batch in trace.batches(_PIDS):
        pids = [batch[c].fill_null(-1).to_numpy() for c in _PIDS]
        require_inside(trace.name, pids, top_pid + 1, "pid")
        for column in pids:
            there[column] = True
    pid = np.flatnonzero(there[:limit]).astype(np.int32)
    row = np.full(limit + 1, -1, np.int32)
    row[pid] = np.arange(pid.size, dtype=np.int32)

    def rows(column: pl.Series) -> pl.Series:
        return pl.Series(row[column.fill_null(-1).to_numpy()])

    events = trace.events.with_columns(
        pl.when(pl.col(c) >= 0).then(
            pl.col(c).map_batches(rows, return_dtype=pl.Int32, is_elementwise=True)
        )
        for c in _PIDS
    )
    header = trace.header
    lists = {
        name: [_renumbered(task, row) for task in tasks]
        for name, tasks in (("tasks", header.tasks), ("later_tasks", header.later_tasks))
        if tasks is not None
    }
    return TaskRows(Trace(events, header.model_copy(update=lists), trace.path), pid.size, pid)


def _tasks(header: Header) -> Iterator[TaskFacts]:
    yield from header.tasks or []
    yield from header.later_tasks or []


def _renumbered(task: TaskFacts, row: NDArray[np.int32]) -> TaskFacts:
    numbers = {
        name: int(row[pid]) if pid else pid
        for name, pid in (("pid", task.pid), ("tgid", task.tgid), ("ppid", task.ppid))
    }
    return task.model_copy(update=numbers)
