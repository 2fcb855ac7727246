"""Turns the events of a trace into tables of its tasks, sleeps and wakeups: :func:`seen`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.errors import TraceContentError
from wastedcores.recovery import stretches_jit as sj
from wastedcores.trace.schema import KINDS
from wastedcores.trace.trace import Trace

I64 = NDArray[np.int64]

CODES = {
    "switch": sj.SWITCH, "wakeup": sj.WAKEUP, "wakeup_new": sj.WAKEUP_NEW, "migrate": sj.MIGRATE, "fork": sj.FORK,
    "exit": sj.EXIT, "mark": sj.MARK, "waking": sj.WAKING,
}  # fmt: skip
_LUT = np.full(len(KINDS), -1, np.int64)
for _kind, _code in CODES.items():
    _LUT[KINDS.index(_kind)] = _code
#: stands for a priority that no event tells (not -1, which is the priority of SCHED_DEADLINE)
_UNTOLD = -(2**15)


@dataclass
class Seen:
    """What a trace shows of its tasks."""

    #: int64: tables with one row per task, sleep, mark, and span on a CPU (the spans are ordered by task and time);
    #: :mod:`wastedcores.recovery.stretches_jit` names the columns
    tasks: I64
    sleeps: I64
    marks: I64
    pieces: I64
    comms: list[str]  #: the last name of each task
    names: list[set[str]]  #: all names that each task ever had
    #: int64 (tasks,): the nice value of each task when it was seen first or, for a task that was forked in the trace, when it was
    #: seen last (it began with its parent's nice value). Real-time tasks count as -20
    nice: I64
    #: bool (tasks,): tasks whose priority some event tells; all other tasks have nice 0
    told_nice: NDArray[np.bool_]
    realtime: NDArray[np.bool_]  #: bool (tasks,): tasks that are not of the fair class
    texts: list[str]  #: the text of each mark
    #: times of the first and the last event
    start_ns: int
    end_ns: int
    cpus: int  #: all CPU numbers are below this

    @cached_property
    def _keys(self) -> I64:
        """One number per span on a CPU; the numbers are ordered by task and time."""
        span = self.end_ns - self.start_ns + 2
        keys: I64 = self.pieces[:, sj.P_TASK] * span + self.pieces[:, sj.P_SINCE] - self.start_ns
        return keys

    def clock(self, task: I64, ts_ns: I64) -> tuple[I64, NDArray[np.bool_]]:
        """Return the tasks' own clocks at some moments, and whether the tasks were on a CPU."""
        piece, found = self._piece(task, ts_ns)
        inside = np.minimum(ts_ns, piece[:, sj.P_END]) - piece[:, sj.P_SINCE]
        clock = np.where(found, piece[:, sj.P_CLOCK] + inside, 0)
        return clock, found & (ts_ns <= piece[:, sj.P_END])

    def moment(self, task: I64, clock: I64) -> I64:
        """Return the earliest moments at which the tasks' own clocks showed these times."""
        span = int(max(self.pieces[:, sj.P_CLOCK].max(initial=0), clock.max(initial=0))) + 1
        keys = self.pieces[:, sj.P_TASK] * span + self.pieces[:, sj.P_CLOCK]
        at = np.searchsorted(keys, task * span + clock, side="left") - 1
        piece = self.pieces[np.maximum(at, 0)]
        mine = (at >= 0) & (piece[:, sj.P_TASK] == task)
        ns = np.minimum(piece[:, sj.P_SINCE] + clock - piece[:, sj.P_CLOCK], piece[:, sj.P_END])
        return np.where(mine, ns, self.tasks[task, sj.T_FIRST_NS])

    def ran_until(self, task: I64, ts_ns: I64) -> I64:
        """Return when tasks last ran before some moments, or the moment itself if a task ran then or had never run."""
        piece, found = self._piece(task, ts_ns)
        return np.where(found, np.minimum(piece[:, sj.P_END], ts_ns), ts_ns)

    def cpu(self, task: I64, ts_ns: I64) -> I64:
        """Return the CPUs on which tasks ran at some moments; -1 for a task that did not run."""
        piece, found = self._piece(task, ts_ns)
        return np.where(found & (ts_ns <= piece[:, sj.P_END]), piece[:, sj.P_CPU], -1)

    def runnable(self, cpu: I64, ts_ns: I64) -> I64:
        """Return how many runnable tasks some CPUs had at some moments."""
        asked = cpu * (self.end_ns - self.start_ns + 2) + ts_ns - self.start_ns
        came, left = self._arrivals
        return np.searchsorted(came, asked) - np.searchsorted(left, asked)

    @cached_property
    def _arrivals(self) -> tuple[I64, I64]:
        """A number for each arrival of a task on a CPU, and a number for each departure, both in order of CPU and time."""
        base = self.pieces[:, sj.P_CPU] * (self.end_ns - self.start_ns + 2) - self.start_ns
        return np.sort(base + self.pieces[:, sj.P_HERE]), np.sort(base + self.pieces[:, sj.P_END])

    def _piece(self, task: I64, ts_ns: I64) -> tuple[I64, NDArray[np.bool_]]:
        """Return each task's last span on a CPU that began before a moment, and whether there is such a span."""
        if not len(self.pieces):  # nothing ran for longer than a switch takes
            return np.zeros((len(task), sj.P_WIDTH), np.int64), np.zeros(len(task), np.bool_)
        span = self.end_ns - self.start_ns + 2
        at = np.searchsorted(self._keys, task * span + ts_ns - self.start_ns, side="right") - 1
        piece = self.pieces[np.maximum(at, 0)]
        return piece, (at >= 0) & (piece[:, sj.P_TASK] == task)


def seen(trace: Trace, switch_ns: int) -> Seen:
    """Go through the task events of a trace."""
    kinds = trace.kinds()
    for kind, event in (("switch", "sched_switch"), ("wakeup", "sched_wakeup")):
        if not kinds.get(kind):
            raise TraceContentError(
                f"{trace.name}: has no {event} events, so it does not show when tasks "
                f"{'run' if kind == 'switch' else 'stop sleeping'}, and their work cannot be recovered. Record it with "
                "sched_switch, sched_wakeup (or sched_waking), sched_wakeup_new, sched_migrate_task, sched_process_fork "
                "and sched_process_exit; `wastedcores capture` does."
            )
    state = pl.col("prev_state").cast(pl.String).str
    table = (
        trace.only(*CODES)
        # without the interrupt flag, a sched_waking may name a bystander
        .filter((pl.col("kind") != "waking") | pl.col("in_irq").is_not_null())
        .select(
            "ts_ns", "cpu", "pid", "prev_pid", "by_pid", "src_cpu", "comm", "prev_comm", "prio", "text", "in_irq",
            kind=pl.col("kind").to_physical(),
            asleep=pl.when(state.contains("^[XxZ]")).then(sj.DEAD)
            .when(~state.starts_with("R")).then(sj.SLEEPS),
        )
        .collect()
    )  # fmt: skip
    events = np.empty((table.height, sj.E_WIDTH), np.int64)
    for column, name, empty in (
        (sj.E_TS, "ts_ns", 0),
        (sj.E_CPU, "cpu", 0),
        (sj.E_PID, "pid", 0),
        (sj.E_PREV, "prev_pid", 0),
        (sj.E_BY, "by_pid", 0),
        (sj.E_SRC, "src_cpu", -1),
        (sj.E_ASLEEP, "asleep", 0),
        (sj.E_IRQ, "in_irq", 0),
    ):
        events[:, column] = table[name].cast(pl.Int64).fill_null(empty).to_numpy()
    events[:, sj.E_KIND] = _LUT[table["kind"].to_numpy()]
    events[:, sj.E_ROW] = np.arange(len(events))
    return _pass(table, events, switch_ns, trace.header.cpus or 0)


def _pass(table: pl.DataFrame, events: I64, switch_ns: int, cpus: int) -> Seen:
    code = events[:, sj.E_KIND]
    pids = max(int(events[:, c].max(initial=0)) for c in (sj.E_PID, sj.E_PREV, sj.E_BY)) + 1
    named = np.zeros(pids, np.bool_)
    named[events[:, sj.E_PID]] = named[events[:, sj.E_PREV]] = True
    most = int(((code == sj.FORK) | (code == sj.EXIT)).sum() + named.sum()) + 1
    tasks = np.zeros((most, sj.T_WIDTH), np.int64)
    slept = int(((code == sj.SWITCH) & (events[:, sj.E_ASLEEP] > 0)).sum())
    sleeps = np.empty((slept + most, sj.S_WIDTH), np.int64)
    marks = np.empty((int((code == sj.MARK).sum()) + 1, sj.M_WIDTH), np.int64)
    start_ns, end_ns = int(events[0, sj.E_TS]), int(events[-1, sj.E_TS])
    pieces = np.empty((int((code == sj.SWITCH).sum()) + most, sj.P_WIDTH), np.int64)
    of_pid = np.full(pids, -1, np.int64)
    cpus = max(cpus, int(events[:, [sj.E_CPU, sj.E_SRC]].max(initial=0)) + 1)
    of_cpu = np.full(cpus, -2, np.int64)
    n, s, m, k = sj.stretches(
        events, tasks, sleeps, marks, pieces, of_pid, of_cpu, start_ns, switch_ns
    )
    tasks, sleeps, marks, pieces = tasks[:n], sleeps[:s], marks[:m], pieces[:k]
    # the pieces of one task are already in order; numpy sorts 16-bit numbers by radix
    of_task = pieces[:, sj.P_TASK].astype(np.uint16 if n <= 1 << 16 else np.int64)
    pieces = pieces[np.argsort(of_task, kind="stable")]
    comms, names = _names(table, events, tasks)
    prio = _priorities(table, tasks)
    rows = marks[:, sj.M_ROW]
    return Seen(
        tasks,
        sleeps,
        marks,
        pieces,
        comms,
        names,
        np.where(prio == _UNTOLD, 0, np.clip(prio - 120, -20, 19)),
        prio != _UNTOLD,
        (prio != _UNTOLD) & (prio < 100),
        _distinct(table["text"].gather(rows).to_list()),
        start_ns,
        end_ns,
        cpus,
    )


def _distinct(texts: list[str]) -> list[str]:
    """Return the texts, with a number added to each text that occurs again, so that every mark of a replay can be found."""
    times: dict[str, int] = {}
    out = []
    for text in texts:
        times[text] = times.get(text, 0) + 1
        out.append(text if times[text] == 1 else f"{text} #{times[text]}")
    return out


def _first_rows(tasks: I64) -> pl.DataFrame:
    """Return pid, first row and number of each task, ordered by the first row."""
    return pl.DataFrame(
        {
            "pid": tasks[:, sj.T_PID].astype(np.int32),
            "row": tasks[:, sj.T_PRIO_ROW],
            "task": np.arange(len(tasks)),
        }
    ).sort("row")


def _names(table: pl.DataFrame, events: I64, tasks: I64) -> tuple[list[str], list[set[str]]]:
    """Return the last name of each task, and all its names. Tasks that used the same pid one after the other are kept apart."""
    told = [
        table[column].to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
        for column in ("comm", "prev_comm")
    ]
    first = _first_rows(tasks).select("pid", "row", "task").cast(pl.Int64).to_numpy()
    room = 4 * len(tasks) + 1024
    while True:
        out = np.empty((room, 3), np.int64)
        of_pid = np.full(int(tasks[:, sj.T_PID].max(initial=0)) + 1, -1, np.int64)
        last = np.full(len(tasks), -1, np.int64)
        n = sj.changes(events, told[0], told[1], np.ascontiguousarray(first), of_pid, last, out)
        if n >= 0:
            break
        room *= 4
    comms, names = ["" for _ in tasks], [set[str]() for _ in tasks]
    row, former = out[:n, sj.C_ROW], out[:n, sj.C_PREV] > 0
    texts = np.empty(n, object)
    for rows, names_of in ((~former, "comm"), (former, "prev_comm")):
        texts[rows] = table[names_of].gather(row[rows]).cast(pl.String).to_list()
    for task, comm in zip(out[:n, sj.C_TASK].tolist(), texts.tolist(), strict=True):
        comms[task] = comm
        names[task].add(comm)
    return comms, names


def _priorities(table: pl.DataFrame, tasks: I64) -> I64:
    """Return each task's first recorded priority (the last one if its birth was seen), or _UNTOLD if no event tells it."""
    told = (
        table.lazy()
        .select("pid", "prio", row=pl.int_range(pl.len(), dtype=pl.Int64))
        .filter(pl.col("prio").is_not_null())
        .with_columns(last=pl.col("row"))
        .collect()
    )
    # the rows of a task end where its pid is used again
    after = pl.col("row").shift(-1, fill_value=table.height).over("pid")
    first = _first_rows(tasks).with_columns(end=after - 1)
    old = first.join_asof(told, on="row", by="pid", strategy="forward", check_sortedness=False)
    born = first.sort("end").join_asof(
        told, left_on="end", right_on="last", by="pid", strategy="backward", check_sortedness=False
    )
    born = born.with_columns(prio=pl.when(pl.col("row_right") >= pl.col("row")).then("prio"))
    first_prio, last_prio = (
        found.sort("task")["prio"].cast(pl.Int64).fill_null(_UNTOLD).to_numpy()
        for found in (old, born)
    )
    return np.where(tasks[:, sj.T_PARENT] >= 0, last_prio, first_prio)
