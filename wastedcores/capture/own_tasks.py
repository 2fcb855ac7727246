"""Takes this tool's own tasks out of a recording, so that the recorder neither hides a violation nor causes one.

A recorder wakes up to empty the kernel's buffer. It often does so on an idle CPU, and cuts an episode of waste in two there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from wastedcores.trace.parquet import read_parquet, stream_parquet
from wastedcores.trace.schema import SCHEMA
from wastedcores.trace.trace import BATCH_ROWS, Trace

_PREV = ["prev_pid", "prev_comm", "prev_prio", "prev_state"]


def threads_of(collector: int) -> set[int]:
    """Return the threads of this process, of the collector and of all processes that the collector has started.

    Processes that vanish meanwhile are left out.
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
        found |= {int(p.name) for p in Path(f"/proc/{process}/task").glob("[0-9]*")}
    return found


def written_without(
    recording: Path, pids: set[int], output: Path, broken: str | None = None
) -> Trace:
    """Copy a recording of task events without some tasks: where one of them ran, its CPU does what it would have done.

    A CPU that was idle before stays idle, and a task that was interrupted goes on running.

    Parameters
    ----------
    recording
        A Parquet file without runqueue sizes, which would count these tasks.
    pids
        The tasks.
    output
        The file to write.
    broken
        Why the recording is not complete; None: it is.

    Returns
    -------
    Trace
        The written file, opened.

    Raises
    ------
    WastedCoresError
        The file cannot be written.
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
    """The state of each CPU while its events are copied."""

    def __init__(self, pids: set[int]) -> None:
        self.pids = sorted(pids)
        # by CPU: the switch from a runnable task to one of these
        self.interrupted: dict[int, dict[str, Any]] = {}

    def frames(self, tables: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yield the tables without the tasks."""
        for table in tables:
            yield self._one(table)

    def _one(self, table: pl.DataFrame) -> pl.DataFrame:
        own = pl.col("pid").is_in(self.pids)
        own_before = pl.col("prev_pid").is_in(self.pids)
        is_switch = pl.col("kind") == "switch"
        numbered = table.with_row_index("row")
        looked_at = numbered.filter(
            (is_switch & (own.fill_null(False) | own_before.fill_null(False)))
            | ((pl.col("kind") == "migrate") & ~own)
        )
        kept = numbered.join(looked_at.filter(is_switch), on="row", how="anti").filter(
            is_switch | ~own.fill_null(False)
        )
        written = [new for row in looked_at.iter_rows(named=True) for new in self._instead(row)]
        if not written:
            return kept.drop("row").with_columns(by_pid=_not(self.pids))
        changed = pl.DataFrame(written, schema={"row": pl.UInt32, **SCHEMA})
        return (
            pl.concat([changed, kept.select(changed.columns)])
            .sort("row", maintain_order=True)
            .drop("row")
            .with_columns(by_pid=_not(self.pids))
        )

    def _instead(self, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the rows that replace a switch from or to one of the tasks, or that precede a migration."""
        if row["kind"] == "migrate":
            # an interrupted task that is moved stops running before that
            for cpu, entry in list(self.interrupted.items()):
                if entry["prev_pid"] == row["pid"]:
                    del self.interrupted[cpu]
                    yield _idle_next(entry) | {"row": row["row"], "ts_ns": row["ts_ns"]}
            return
        comes, leaves = row["pid"] in self.pids, row["prev_pid"] in self.pids
        if comes and leaves:
            return
        if comes:
            if row["prev_pid"] == 0:
                return
            if (row["prev_state"] or "").startswith("R"):
                self.interrupted[row["cpu"]] = row
            else:
                yield _idle_next(row)
            return
        stopped = self.interrupted.pop(row["cpu"], None)
        if stopped is None:
            idle = (0, f"swapper/{row['cpu']}", 120, "R")
            if row["pid"] != 0:
                yield row | dict(zip(_PREV, idle, strict=True))
        elif stopped["prev_pid"] != row["pid"]:
            yield row | {name: stopped[name] for name in _PREV}


def _idle_next(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"pid": 0, "comm": f"swapper/{row['cpu']}", "prio": 120}


def _not(pids: list[int]) -> pl.Expr:
    """Return ``by_pid`` without the tasks: they are not there to wake anybody."""
    return pl.when(~pl.col("by_pid").is_in(pids)).then(pl.col("by_pid"))
