"""The critical path of some work: what had to happen before what, followed backwards from the end of the work.

A task that runs is itself on the path. A task that waited for a CPU was delayed by its wait; the part of the wait in which a CPU
that it may use was idle was avoidable. From a task that slept, the path goes on to the task that ended the sleep, at the moment
when it did so: what the waker did before this moment belongs to the path, what it did afterwards does not. A sleep that no task
ended (but a timer or a device) is itself on the path. Who ended a sleep is found as for ``wastedcores recover``
(:mod:`wastedcores.recovery`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.analysis import critical_path_jit as cj
from wastedcores.errors import UsageError
from wastedcores.invariant.avoidable import IdleTime
from wastedcores.recovery import stretches_jit as sj
from wastedcores.recovery.barriers import Rounds
from wastedcores.recovery.classes import CHILD, NAMES
from wastedcores.recovery.facts import gather
from wastedcores.recovery.predicted_part import find_span
from wastedcores.recovery.recovered import classify
from wastedcores.recovery.task_tables import Seen, seen
from wastedcores.runqueues.batch import wait_table
from wastedcores.runqueues.runqueues import runqueues
from wastedcores.runqueues.state import new_output
from wastedcores.trace.header import Window
from wastedcores.trace.named import TraceLike
from wastedcores.trace.named import open as opened
from wastedcores.trace.trace import Trace

PATH_SCHEMA = "wastedcores.path/1"

I64 = NDArray[np.int64]

#: what a task does on the path, by number of :mod:`.critical_path_jit`
WHAT = ("running", "waiting", "sleeping")


@dataclass(frozen=True)
class CriticalPath:
    """The critical path of some work."""

    #: Table in order of time: start_ns, end_ns, what (``running``, ``waiting`` for a CPU or ``sleeping``), pid, comm, cpu,
    #: why (for a sleep: what ended it), avoidable_ns (for a wait: the time in which a CPU that the thread may use was idle).
    segments: pl.DataFrame
    #: The part of the trace that the path covers.
    start_ns: int
    end_ns: int
    end: str  #: What the path leads to, in words.

    @property
    def length_ns(self) -> int:
        """The length of the path."""
        return self.end_ns - self.start_ns

    @property
    def totals(self) -> dict[str, int]:
        """Time in ns that the path spends ``running``, in ``avoidable`` and ``other_waiting``, and ``sleeping``."""
        length = pl.col("end_ns") - pl.col("start_ns")
        by = dict(self.segments.group_by("what").agg(length.sum()).iter_rows())
        avoidable = int(self.segments["avoidable_ns"].sum())
        return {
            "running": int(by.get("running", 0)),
            "avoidable": avoidable,
            "other_waiting": int(by.get("waiting", 0)) - avoidable,
            "sleeping": int(by.get("sleeping", 0)),
        }

    @property
    def threads(self) -> pl.DataFrame:
        """The threads on the path, in descending order of their time on it.

        The columns are pid, comm, running_ns, avoidable_ns, other_waiting_ns (other waiting for a CPU), sleeping_ns and cpus.
        """
        length = pl.col("end_ns") - pl.col("start_ns")
        waiting = pl.when(what="waiting").then(length - pl.col("avoidable_ns")).otherwise(0)
        return (
            self.segments.group_by("pid", "comm")
            .agg(
                running_ns=length.filter(what="running").sum(),
                avoidable_ns=pl.col("avoidable_ns").sum(),
                other_waiting_ns=waiting.sum(),
                sleeping_ns=length.filter(what="sleeping").sum(),
                cpus=pl.col("cpu").filter(pl.col("cpu") >= 0).unique().sort(),
                total=length.sum(),
            )
            .sort("total", "pid", descending=[True, False])
            .drop("total")
        )

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``wastedcores path --json`` prints."""
        return {
            "schema": PATH_SCHEMA,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "end": self.end,
            **{f"{name}_ns": ns for name, ns in self.totals.items()},
            "threads": self.threads.head(64).to_dicts(),
            "segments": self.segments.to_dicts(),
        }


def critical_path(
    trace: TraceLike,
    end: str | int | None = None,
    *,
    window: Window | None = None,
    whole: bool = False,
) -> CriticalPath:
    """Find the critical path of a trace.

    Parameters
    ----------
    trace
        Any trace with switches and wakeups.
    end
        What the path leads to: the pid of a thread, or the beginning of a mark's text. Default: the mark that ends the measured
        window, else the last task that exits, else the last run of the thread that ran longest.
    window
        The part of the trace to look at; default: the one that the recording names, else all.
    whole
        Ignore the window that the recording names.

    Returns
    -------
    CriticalPath
        The segments of the path, and where its time went.

    Raises
    ------
    UsageError
        The named thread or mark does not exist, or no thread ran.
    TraceContentError
        The trace lacks switches or wakeups.
    """
    trace = opened(trace)
    if window is not None or whole:
        trace = trace.with_header(window=window)
    s = seen(trace, 0)
    rounds = classify(s, gather(s, trace.header.tasks, ())).rounds
    task, end_ns, words = _end(trace, s, end)
    known = trace.header.window
    start_ns = max(known.start_ns, s.start_ns) if known else s.start_ns
    if end_ns <= start_ns:
        raise UsageError(f"{trace.name}: {words} is not after the beginning of the window.")
    found = _walk(s, rounds, task, start_ns, end_ns)
    return CriticalPath(_table(trace, s, found), start_ns, end_ns, words)


def _end(trace: Trace, s: Seen, end: str | int | None) -> tuple[int, int, str]:
    """Return the task with which the path ends, the time, and both in words."""
    window = trace.header.window
    latest = min(window.end_ns, s.end_ns) if window else s.end_ns
    if isinstance(end, str) and not end.isdecimal():
        for i, text in enumerate(s.texts):
            if text.startswith(end):
                return int(s.marks[i, sj.M_TASK]), int(s.marks[i, sj.M_NS]), f'the mark "{text}"'
        listed = ", ".join(repr(t) for t in s.texts[:8]) or "none"
        raise UsageError(f"{trace.name}: no mark begins with {end!r}; the trace has {listed}.")
    if end is not None:
        tasks = np.flatnonzero(s.tasks[:, sj.T_PID] == int(end))
        pieces = s.pieces[
            np.isin(s.pieces[:, sj.P_TASK], tasks) & (s.pieces[:, sj.P_SINCE] < latest)
        ]
        if not len(pieces):
            raise UsageError(f"{trace.name}: thread {end} never ran in the window.")
        last = pieces[np.argmax(pieces[:, sj.P_END])]
        task = int(last[sj.P_TASK])
        return task, min(int(last[sj.P_END]), latest), f"the end of {s.comms[task]} ({end})"
    # tasks that may spin are included: their time cannot be predicted, but they do end
    span = find_span(trace, s, np.ones(len(s.tasks), np.bool_))
    if not span.ending:
        return _busiest(trace, s, latest)
    if span.marks:
        return span.ending[0], span.end_ns, f'the mark "{span.marks[1]}"'
    ending = np.array(span.ending)
    task = int(ending[np.argmax(s.tasks[ending, sj.T_EXIT_NS])])
    return (
        task,
        int(s.tasks[task, sj.T_EXIT_NS]),
        f"the exit of {s.comms[task]} ({s.tasks[task, sj.T_PID]})",
    )


def _busiest(trace: Trace, s: Seen, latest: int) -> tuple[int, int, str]:
    """Return the same as :func:`_end`, but for the thread that ran longest; used if no work ends in the trace."""
    window = trace.header.window
    first = max(window.start_ns, s.start_ns) if window else s.start_ns
    inside = (s.pieces[:, sj.P_SINCE] < latest) & (s.pieces[:, sj.P_END] > first)
    pieces = s.pieces[inside & (s.tasks[s.pieces[:, sj.P_TASK], sj.T_PID] > 0)]
    if not len(pieces):
        raise UsageError(
            f"{trace.name}: no thread ran in the window, so there is no path. Look at another one with --between, or at --whole."
        )
    since = np.maximum(pieces[:, sj.P_SINCE], first)
    ran = np.bincount(pieces[:, sj.P_TASK], np.minimum(pieces[:, sj.P_END], latest) - since)
    task = int(np.argmax(ran))
    end = int(pieces[pieces[:, sj.P_TASK] == task, sj.P_END].max())
    words = f"the last run of {s.comms[task]} ({s.tasks[task, sj.T_PID]}; it ran longest, and nothing ends)"
    return task, min(end, latest), words


def _walk(s: Seen, rounds: Rounds, task: int, start_ns: int, end_ns: int) -> I64:
    """Return the segments of the path in order of time."""
    n = len(s.tasks)
    order = np.lexsort((s.sleeps[:, sj.S_OUT_NS], s.sleeps[:, sj.S_TASK]))
    sleeps = _ended_by(s, rounds)[order]
    starts = np.arange(n + 1)
    first_piece = np.searchsorted(s.pieces[:, sj.P_TASK], starts)
    first_sleep = np.searchsorted(s.sleeps[order, sj.S_TASK], starts)
    tasks = np.ascontiguousarray(s.tasks[:, [sj.T_PARENT, sj.T_BORN_NS]])
    spans = np.ascontiguousarray(s.pieces[:, [sj.P_SINCE, sj.P_END, sj.P_CPU]])
    room = 1024
    while True:
        out = np.empty((room, cj.G_WIDTH), np.int64)
        found = cj.walk(task, end_ns, start_ns, spans, first_piece, sleeps, first_sleep, tasks, out)
        if found >= 0:
            return out[:found][::-1]
        room *= 4


def _ended_by(s: Seen, rounds: Rounds) -> I64:
    """Return, for each sleep, its beginning and end, the task that ended it, the time when that task did so, and its class."""
    rows = np.ascontiguousarray(
        s.sleeps[:, [sj.S_OUT_NS, sj.S_WAKE_NS, sj.S_WAKER, sj.S_WAKER_NS, sj.S_CLASS]]
    )
    child = np.flatnonzero(rows[:, cj.S_CLASS] == CHILD)
    exits = s.tasks[rows[child, cj.S_WAKER], sj.T_EXIT_NS]
    rows[child, cj.S_WAKER_NS] = np.minimum(exits, rows[child, cj.S_WAKE])
    last = np.full(len(rounds.ts_ns), -1)
    last[rounds.of_late[::-1]] = rounds.late[::-1]
    rows[rounds.sleep, cj.S_WAKER] = last[rounds.of_sleep]
    rows[rounds.sleep, cj.S_WAKER_NS] = np.minimum(
        rounds.ts_ns[rounds.of_sleep], rows[rounds.sleep, cj.S_WAKE]
    )
    return rows


def _table(trace: Trace, s: Seen, found: I64) -> pl.DataFrame:
    """Return the segments with names, and with the avoidable part of each wait."""
    task, what, why = found[:, cj.G_TASK], found[:, cj.G_WHAT], found[:, cj.G_CLASS]
    pid = s.tasks[task, sj.T_PID]
    avoidable = np.zeros(len(found), np.int64)
    waits = np.flatnonzero(what == cj.WAITING)
    if len(waits):
        since, until = (found[waits, c] for c in (cj.G_START, cj.G_END))
        avoidable[waits] = _avoidable(trace, pid[waits], since, until)
    return pl.DataFrame(
        {
            "start_ns": found[:, cj.G_START],
            "end_ns": found[:, cj.G_END],
            "what": [WHAT[w] for w in what],
            "pid": pid,
            "comm": [s.comms[t] for t in task],
            "cpu": found[:, cj.G_CPU],
            "why": [
                NAMES.get(int(c)) if w == cj.SLEEPING else None
                for c, w in zip(why, what, strict=True)
            ],
            "avoidable_ns": avoidable,
        },
        schema_overrides={"why": pl.String, "what": pl.String, "comm": pl.String},
    )


def _avoidable(trace: Trace, pid: I64, start_ns: I64, end_ns: I64) -> I64:
    """Return for how long each of these threads waited while a CPU that it might use then was idle.

    As in a check, isolated CPUs do not count, and a thread that may not run, like a throttled one, does not count as waiting.
    """
    rq = runqueues(trace)
    counted = np.ones(rq.cpus, np.uint8)
    counted[[c for c in trace.header.isolated_cpus or [] if c < rq.cpus]] = 0
    row = np.minimum(rq.tasks.rows(pid), rq.tasks.count - 1)
    # the runqueues may cover only a part of the trace, in which the thread does not occur
    task = np.where(rq.tasks.pids(row) == pid, row, -1)
    mine = pl.col("task").is_in(np.unique(task).tolist())
    here = pl.col("cpu").is_in(np.flatnonzero(counted).tolist())
    idle = IdleTime(rq, counted)
    parts = [wait_table(new_output(0, 0, 0), 0)]
    for batch in rq.batches(waits=True):
        idle.add(batch)
        if batch.waits is not None:
            parts.append(batch.waits.filter(mine, here))
    waits = pl.concat(parts).sort("task", "start_ns")
    if not waits.height:
        return np.zeros(len(pid), np.int64)
    of = waits["task"].cast(pl.Int64).to_numpy()
    mask, began, ended = (waits[c].to_numpy() for c in ("mask", "start_ns", "end_ns"))
    lost = idle.until(mask, ended) - idle.until(mask, began)
    before = np.cumsum(lost) - lost
    # keys that order the waits by thread and time
    span = rq.end_ns - rq.start_ns + 2
    keys = of * span + began - rq.start_ns

    def up_to(ts_ns: I64) -> I64:
        """Return the time lost in all waits that began before each moment; the last of these waits counts up to the moment."""
        now = np.clip(ts_ns, rq.start_ns, rq.end_ns)
        at = np.searchsorted(keys, task * span + now - rq.start_ns, side="right") - 1
        last = np.maximum(at, 0)
        until = np.where(of[last] == task, np.minimum(now, ended[last]), ended[last])
        part = idle.until(mask[last], until) - idle.until(mask[last], began[last])
        return np.where(at >= 0, before[last] + part, 0)

    return up_to(end_ns) - up_to(start_ns)
