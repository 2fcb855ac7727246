"""Takes this tool's own tasks out of a recording, so that the recorder neither hides a violation nor causes one.

A recorder wakes up to empty the kernel's buffer. It often does so on an idle CPU, and this cuts an episode of waste in two.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from wastedcores.trace.parquet import read_parquet, stream_parquet
from wastedcores.trace.schema import SCHEMA
from wastedcores.trace.trace import BATCH_ROWS, Trace

#: a switch to be written: its place, its CPU, the task that stops, the task that starts, and the state of the task that stops.
#: The place is three times the number of a row, plus 0 (before the row's event), 1 (instead of the event) or 2 (after the event)
Written = tuple[int, int, int, int, str | None]


def threads_of(collector: int) -> set[int]:
    """Return the threads of this process, of the collector and of all processes that the collector has started.

    Processes that end during the search are left out.
    """
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parts[2])] = int(path.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
    processes = {os.getpid(), collector}
    while (
        more := {p for p, parent in parents.items() if parent in processes - {os.getpid()}}
        - processes
    ):
        processes |= more
    found = set()
    for process in processes:
        with suppress(OSError):
            found |= {int(thread) for thread in os.listdir(f"/proc/{process}/task")}
    return found


def written_without(
    recording: Path, pids: set[int], output: Path, broken: str | None = None
) -> Trace:
    """Copy a recording of task events as if some tasks had not run: where one of them ran, its CPU does something else.

    A task that it had interrupted goes on running. If there is no such task, a task that waits on the CPU runs. If no task waits,
    the CPU is idle.
    """
    trace = read_parquet(recording)
    left_out = _Leaver(pids)
    note = (
        f"{len(pids)} tasks of the recorder itself were left out, because they ran only to record"
    )
    header = trace.header.model_copy(
        update={
            "provenance": trace.header.provenance | {"own_tasks": note},
            "truncated_last_line": trace.header.truncated_last_line or broken,
        }
    )
    frames = trace.events.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True)
    stream_parquet(left_out.frames(frames), lambda: header, output)
    return read_parquet(output)


class _Leaver:
    """The state of each CPU and of the tasks that wait there, while events are copied.

    While a task of the recorder runs on a CPU, another task stands in for it: the task that it interrupted, or else the task
    that has waited longest on this CPU. If there is neither, the CPU is idle until a task wakes up on it.
    """

    def __init__(self, pids: set[int]) -> None:
        self.pids = sorted(pids)
        self.own = frozenset(pids)
        # by CPU, for those on which a task of the recorder runs: the task that stands in for it; 0: none
        self.stand_in: dict[int, int] = {}
        # by CPU: the tasks that wait on it; the task that has waited longest comes first
        self.waiting: dict[int, dict[int, None]] = {}
        self.waits_on: dict[int, int] = {}
        self.runs_on: dict[int, int] = {}
        #: by task: its last name and priority
        self.about: dict[int, tuple[str | None, int | None]] = {}
        self.began = False

    def frames(self, tables: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yield the tables without the recorder's tasks."""
        for table in tables:
            yield self._one(table)

    def _one(self, table: pl.DataFrame) -> pl.DataFrame:
        table = table.with_columns(by_pid=_not(self.pids))
        own = pl.col("pid").is_in(self.pids).fill_null(False)
        own_before = pl.col("prev_pid").is_in(self.pids).fill_null(False)
        numbered = table.with_columns(place=pl.int_range(pl.len(), dtype=pl.Int64) * 3 + 1)
        written = self._instead(table)
        self.about |= _about(table)
        kept = numbered.filter(~own & ~own_before)
        if not written:
            return kept.drop("place")
        changed = pl.DataFrame(
            [self._switch(table, *one) for one in written],
            schema={"place": pl.Int64, **SCHEMA},
        )
        return (
            pl.concat([changed, kept.select(changed.columns)])
            .sort("place", maintain_order=True)
            .drop("place")
        )

    def _instead(self, table: pl.DataFrame) -> list[Written]:
        """Return the switches that replace the switches of the recorder's tasks."""
        told = table.select(
            *(pl.col(c).cast(pl.String) for c in ("kind", "prev_state")), "cpu", "pid", "prev_pid"
        )
        rows = list(told.iter_rows())
        if not self.began:
            self._begin(rows)
        out: list[Written] = []
        for row, (kind, state, cpu, pid, prev) in enumerate(rows):
            if kind == "switch":
                self._at_switch(out, 3 * row, cpu, pid, prev, state)
            elif kind in ("wakeup", "wakeup_new", "migrate") and pid not in self.own:
                self._at_arrival(out, 3 * row, kind, cpu, pid)
        return out

    def _begin(self, rows: list[Any]) -> None:
        """Find the CPUs on which the recorder runs when the recording begins, and the tasks that wait at this moment."""
        self.began = True
        seen: set[int] = set(self.own)
        cpus: set[int] = set()
        recorders = []
        for kind, _, cpu, pid, prev in rows:
            if kind == "switch":
                if cpu not in cpus and prev in self.own:
                    recorders.append(cpu)
                cpus.add(cpu)
                seen.add(prev)
                if pid and pid not in seen:
                    self._wait(pid, cpu)
            seen.add(pid)
        for cpu in recorders:
            self._stand(cpu, self._longest(cpu))

    def _at_switch(
        self, out: list[Written], place: int, cpu: int, pid: int, prev: int, state: str | None
    ) -> None:
        """Follow a switch on a CPU, and replace the switch if one of its two tasks belongs to the recorder."""
        comes, leaves = pid in self.own, prev in self.own
        if comes and leaves:
            return
        if leaves:  # in the copy, the stand-in ran until now and stays runnable
            prev, state = self.stand_in.pop(cpu, 0), "R"
        goes_on = bool(prev) and (state or "R").startswith("R")
        if comes:
            pid = prev if goes_on else self._longest(cpu)
            self._stand(cpu, pid)
        else:
            self._run(pid, cpu)
        if prev == pid:
            return
        if goes_on:
            self._wait(prev, cpu)
        elif self.runs_on.get(prev) == cpu:
            del self.runs_on[prev]
        if comes or leaves:
            out.append((place + 1, cpu, prev, pid, state))

    def _at_arrival(self, out: list[Written], place: int, kind: str, cpu: int, pid: int) -> None:
        """Follow a task that becomes runnable on a CPU, or is moved to it."""
        ran_on = self.runs_on.get(pid)
        if kind == "migrate" and ran_on is not None and self.stand_in.get(ran_on) == pid:
            # a stand-in that is moved must first stop running on its old CPU
            self._stand(ran_on, self._longest(ran_on))
            out.append((place, ran_on, pid, self.stand_in[ran_on], "R"))
        elif ran_on is not None or (kind == "migrate" and pid not in self.waits_on):
            return
        self._wait(pid, cpu)
        if self.stand_in.get(cpu) == 0:
            self._stand(cpu, pid)
            out.append((place + 2, cpu, 0, pid, "R"))

    def _stand(self, cpu: int, pid: int) -> None:
        """Let a task stand in for the recorder on a CPU; pid 0: no task does."""
        self.stand_in[cpu] = pid
        self._run(pid, cpu)

    def _run(self, pid: int, cpu: int) -> None:
        self._wait_no_more(pid)
        if pid:
            self.runs_on[pid] = cpu

    def _wait(self, pid: int, cpu: int) -> None:
        self._wait_no_more(pid)
        self.runs_on.pop(pid, None)
        self.waits_on[pid] = cpu
        self.waiting.setdefault(cpu, {})[pid] = None

    def _wait_no_more(self, pid: int) -> None:
        cpu = self.waits_on.pop(pid, None)
        if cpu is not None:
            del self.waiting[cpu][pid]

    def _longest(self, cpu: int) -> int:
        """Return the task that has waited longest on a CPU; 0 if nobody waits."""
        return next(iter(self.waiting.get(cpu, ())), 0)

    def _switch(
        self, table: pl.DataFrame, place: int, cpu: int, prev: int, pid: int, state: str | None
    ) -> dict[str, Any]:
        """Return a row of a switch."""
        names: dict[str, str | int | None] = {}
        for who, of in ((pid, ""), (prev, "prev_")):
            idle = (f"swapper/{cpu}", 120)
            names[f"{of}comm"], names[f"{of}prio"] = (
                self.about.get(who, (None, None)) if who else idle
            )
        return {
            **dict.fromkeys(SCHEMA),
            "place": place,
            "ts_ns": table["ts_ns"][place // 3],
            "kind": "switch",
            "cpu": cpu,
            "pid": pid,
            "prev_pid": prev,
            "prev_state": state,
            **names,
        }


def _about(table: pl.DataFrame) -> dict[int, tuple[str | None, int | None]]:
    """Return the last name and priority of each task."""
    told = pl.concat(
        table.select(pid=f"{of}pid", comm=pl.col(f"{of}comm").cast(pl.String), prio=f"{of}prio")
        for of in ("", "prev_")
    )
    last = told.drop_nulls("pid").group_by("pid").agg(pl.all().drop_nulls().last())
    return {pid: (comm, prio) for pid, comm, prio in last.iter_rows()}


def _not(pids: list[int]) -> pl.Expr:
    """Return ``by_pid`` without the recorder's tasks, which do not appear in the copy."""
    return pl.when(~pl.col("by_pid").is_in(pids)).then(pl.col("by_pid"))
