"""Checks the events of a trace during the pass, and collects their number and range."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from wastedcores.errors import TraceContentError
from wastedcores.limits import MAX_CPUS, PID_MAX_LIMIT
from wastedcores.trace.schema import ASIDE, UNCOUNTED

#: No kernel is silent for this long, since its own threads wake up. If no CPU has an event for more than this time, the machine
#: slept, the clock was set, two recordings follow one another, or events are missing.
JUMP_NS = 60_000_000_000

_PIDS = ("pid", "prev_pid", "by_pid")


@dataclass
class Inspector:
    """Sees every event table of a file once; at the end it has the range of time, the number of events and the highest CPU."""

    where: str  #: name of the file in messages
    #: the CPUs of the given topology; None: any CPU that a kernel can have
    cpus: Collection[int] | None = None
    #: what was seen so far. Kinds in ``UNCOUNTED`` count in ``events`` only.
    start_ns: int | None = None
    end_ns: int | None = None
    events: int = 0
    tells: bool = False  #: whether any event states who ran or waited where
    #: numbers of events by kind, counted only until the first event that states this
    silent: Counter[str] = field(default_factory=Counter)
    highest_cpu: int = -1
    jumps: int = 0  #: number of gaps longer than :data:`JUMP_NS`
    #: time of the last line of a text; another line can have a later time
    last_line_ns: int | None = None
    #: what is unusual, for the header's provenance
    notes: dict[str, str] = field(default_factory=dict)

    def ranges(self, frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Check tables in file order, and yield them. Numbers that the given machine, or any machine, cannot have are refused."""
        for frame in frames:
            if "line" in frame.columns and frame.height:
                self.last_line_ns = int(frame["ts_ns"][-1])
            for column in ("cpu", "src_cpu"):
                if column in frame.columns and frame.height:
                    self._cpu_range(frame, column)
            for column in _PIDS:
                if column in frame.columns and frame.height and frame.schema[column] != pl.Int32:
                    self._pid_range(frame, column)
            if "nr_running" in frame.columns and frame.height:
                self._size_range(frame)
            if "value" in frame.columns and frame.height:
                self._online_range(frame)
            yield frame

    @property
    def ends_early(self) -> bool:
        """Whether the last line is older than another line: if the file was cut, events between these two times are missing."""
        return None not in (self.last_line_ns, self.end_ns) and self.last_line_ns < self.end_ns  # type: ignore[operator]

    def order(self, frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Count the events of tables in order of time, and yield the tables that are not empty."""
        for frame in frames:
            if not frame.height:
                continue
            ts = scheduling(frame)["ts_ns"]
            table = frame
            if ts.len():
                first, last = int(ts[0]), int(ts[-1])
                if self.start_ns is None:
                    self.start_ns = first
                before = first if self.end_ns is None else self.end_ns
                if last - before > JUMP_NS:
                    table = self._with_jumps(frame, ts.to_numpy(), before)
                self.end_ns = last
            self.events += table.height
            self.tells = self.tells or bool((~table["kind"].is_in(ASIDE)).any())
            if not self.tells:
                self.silent.update(dict(table["kind"].value_counts().iter_rows()))
            yield table

    def _with_jumps(self, frame: pl.DataFrame, ts: np.ndarray, before: int) -> pl.DataFrame:
        """Put a ``lost`` event before each event that comes after a gap: nobody knows what happened in the gap."""
        gaps = np.diff(ts, prepend=before)
        at = np.flatnonzero(gaps > JUMP_NS)
        if not at.size:
            return frame
        longest = int(at[np.argmax(gaps[at])])
        after = int(ts[longest])
        begin = after - int(gaps[longest])
        self.jumps += at.size
        self.notes.setdefault(
            "clock jump",
            f"no event for {(after - begin) / 1e9:.3f} s, from {begin / 1e9:.9f} s to {after / 1e9:.9f} s: the "
            "machine slept, the clock was set, or events are missing",
        )
        lost = pl.DataFrame({"ts_ns": ts[at] - 1}).with_columns(
            kind=pl.lit("lost"), value=pl.lit(-1, pl.Int64)
        )
        return _put(lost, frame)

    def _cpu_range(self, frame: pl.DataFrame, column: str) -> None:
        low, high = frame[column].min(), frame[column].max()
        if high is None:
            return
        assert isinstance(low, int)
        assert isinstance(high, int)
        highest = scheduling(frame)[column].max()
        if highest is not None:
            self.highest_cpu = max(self.highest_cpu, int(highest))  # type: ignore[arg-type]
        if self.cpus is not None:
            bad = frame.filter(
                pl.col(column).is_not_null() & ~pl.col(column).is_in(list(self.cpus))
            )
            expected = f"the given topology has {len(self.cpus)} CPUs, {_span(self.cpus)}"
        elif low < 0 or high >= MAX_CPUS:
            bad = frame.filter((pl.col(column) < 0) | (pl.col(column) >= MAX_CPUS))
            expected = f"a Linux kernel has CPUs 0 to {MAX_CPUS - 1} at most"
        else:
            return
        if bad.height:
            raise TraceContentError(
                f"{self._at(bad)}: an event of kind {bad['kind'][0]!s} names CPU {bad[column][0]}, but {expected}. Is "
                "it the topology of another machine, or is the line damaged?"
            )

    def _pid_range(self, frame: pl.DataFrame, column: str) -> None:
        low, high = frame[column].min(), frame[column].max()
        if high is None or (low >= -(2**31) and high < 2**31):  # type: ignore[operator]
            return
        bad = frame.filter((pl.col(column) < -(2**31)) | (pl.col(column) >= 2**31))
        raise TraceContentError(
            f"{self._at(bad)}: {column} is {bad[column][0]}; a pid has 32 bits. The line is damaged."
        )

    def _size_range(self, frame: pl.DataFrame) -> None:
        bad = frame.filter(~pl.col("nr_running").is_between(0, PID_MAX_LIMIT))
        if bad.height:
            raise TraceContentError(
                f"{self._at(bad)}: {bad['nr_running'][0]} tasks on the runqueue of CPU {bad['cpu'][0]}; expected 0 to "
                f"{PID_MAX_LIMIT}. The line is damaged."
            )

    def _online_range(self, frame: pl.DataFrame) -> None:
        bad = frame.filter(pl.col("kind") == "cpu_online", ~pl.col("value").is_in([0, 1]))
        if bad.height:
            raise TraceContentError(
                f"{self._at(bad)}: the state {bad['value'][0]} of CPU {bad['cpu'][0]}; expected 0 (offline) or 1 (online). "
                "The record is damaged."
            )

    def _at(self, rows: pl.DataFrame) -> str:
        return f"{self.where}, line {rows['line'][0]}" if "line" in rows.columns else self.where


def scheduling(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the events of a table without the kinds in ``UNCOUNTED``."""
    among = frame["kind"].is_in(UNCOUNTED)
    return frame.filter(~among) if among.any() else frame


def _put(rows: pl.DataFrame, frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table with a few more rows, sorted by time; rows of equal time keep their order."""
    same = rows.select(pl.col(c).cast(frame.schema[c]) for c in rows.columns if c in frame.columns)
    more = rows.select(c for c in rows.columns if c not in frame.columns)
    return pl.concat([frame, same.hstack(more)], how="diagonal").sort("ts_ns", maintain_order=True)


def _span(cpus: Collection[int]) -> str:
    return f"{min(cpus)} to {max(cpus)}" if cpus else "none"
