"""Reads systing's Parquet tables (josefbacik/systing): ``sched_slice.parquet`` and its companions in one folder.

No real recording was ever read. The tests make tables from systing's published schema.

Tables and columns: src/trace/schema.rs @0749c755; their meaning: SCHEMA_CHANGES.md @072bb415 (schema versions 1 to 25) and
src/analyze/sched_aggregate.rs @6265c978. A slice is a stay of a thread on a CPU. A slice without ``end_state`` ended because the
thread was preempted. A row of ``thread_state`` with state 0 is a sched_waking and names the CPU on which the thread last ran;
since schema 16, ``sched_migrate`` tells on which CPU the thread was put. If the tables are read in this way, the machine-wide
time in violation equals work_conservation_violation_ns of ``systing-analyze sched aggregate``, to the nanosecond.

The tables do not tell what ran on a CPU before its first slice: until then the CPU's state is unknown, as it is to systing.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl

from wastedcores.errors import TraceContentError, TraceFormatError, WastedCoresError
from wastedcores.files import digest_of_files
from wastedcores.trace.parquet import UNREADABLE, check_decodes
from wastedcores.trace.readers.support.reading import FactsBuilder, Reading

#: Average number of rows, of all tables together, that are decoded at a time.
BATCH_ROWS = 1 << 20
_SLICE = "sched_slice"
#: Table -> the columns that are needed from it.
TABLES: dict[str, tuple[str, ...]] = {
    _SLICE: ("ts", "dur", "cpu", "utid", "end_state", "priority"),
    "thread": ("utid", "tid", "name"),
    "thread_state": ("ts", "utid", "state", "cpu"),
    "sched_migrate": ("ts", "utid", "orig_cpu", "dest_cpu"),
    "wakeup_new": ("ts", "cpu", "utid", "target_cpu"),
    "process_exit": ("ts", "cpu", "utid"),
    "counter": ("ts", "track_id", "value"),
    "counter_track": ("id", "name"),
    "sysinfo": ("release",),
    "systing_manifest": ("systing_version", "schema_version"),
}
_NEEDED = (_SLICE, "thread")
#: The counter of all events that BPF had to drop (sched_aggregate.rs: missed_sched_events).
MISSED = "Missed sched/IRQ events"
#: Bits of the kernel's task states (include/linux/sched.h), as sched_switch prints them
_STATES = {1: "S", 2: "D", 4: "T", 8: "t", 16: "X", 32: "Z", 64: "P", 128: "I"}

#: Order of events with equal times: a task is woken, then placed, then switched to (sched_aggregate.rs: EV_*)
_RANK = {"lost": 0, "wakeup": 1, "wakeup_new": 1, "migrate": 2, "switch": 3, "exit": 4, "mark": 5}


class SystingReading(Reading):
    """One pass over the tables of a folder; if its ``sched_slice.parquet`` is given, all tables beside it are read, too."""

    def __init__(self, path: Path, *, hashed: bool = False) -> None:
        super().__init__(path, "systing")

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield event tables in order of time, one per window of time."""
        tables = self._open()
        try:
            run = _Decoder(self.path, tables, self.found)
            edges = run.edges()
            self.found.lines = run.rows
            for start, end in pairwise(edges):
                yield run.window(start, end)
        except UNREADABLE as e:
            said = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
            raise WastedCoresError(
                f"{self.path}: reading its tables failed ({said}). One of them is damaged: copy or record them again."
            ) from e
        run.finish()

    def _open(self) -> dict[str, pl.LazyFrame]:
        """Find the tables and check their columns."""
        folder, prefix = self._place()
        files: list[Path] = []
        tables: dict[str, pl.LazyFrame] = {}
        for name, columns in TABLES.items():
            file = folder / f"{prefix}{name}.parquet"
            if file.exists():
                tables[name] = _scan(file, columns)
                files.append(file)
            elif name in _NEEDED:
                raise TraceFormatError(
                    f"{file}: the file is absent. Expected systing's tables in one folder; {_SLICE} numbers its "
                    "threads, and only thread.parquet says which they are. Copy the whole folder."
                )
        self.found.sha256 = digest_of_files(files)
        return tables

    def _place(self) -> tuple[Path, str]:
        """Return the folder and how all names in it begin, because systing-util writes ``<trace id>_sched_slice.parquet``."""
        if not self.path.is_dir():
            prefix, found, _ = self.path.name.rpartition(f"{_SLICE}.parquet")
            return self.path.parent, prefix if found else ""
        names = sorted(f.name for f in self.path.glob(f"*{_SLICE}.parquet"))
        if len(names) > 1:
            raise TraceFormatError(
                f"{self.path}: the folder has {len(names)} recordings of systing ({', '.join(names[:3])}, ...). Name the "
                f"{_SLICE}.parquet of one of them."
            )
        if not names:
            raise TraceFormatError(
                f"{self.path}: the folder has no {_SLICE}.parquet. Name the folder of systing's Parquet tables."
            )
        return self.path, names[0].removesuffix(f"{_SLICE}.parquet")


def _scan(file: Path, columns: tuple[str, ...]) -> pl.LazyFrame:
    try:
        check_decodes(file)
        table = pl.scan_parquet(file)
        have = table.collect_schema()
    except UNREADABLE as e:
        said = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
        raise TraceFormatError(
            f"{file}: cannot be opened as Parquet ({said}). It is probably cut short: systing writes the end of its "
            "tables when it stops. Copy or record it again."
        ) from e
    missing = [c for c in columns if c not in have]
    if missing:
        raise TraceFormatError(
            f"{file}: has no column {missing[0]!r}; expected systing's table with {', '.join(columns)}, got "
            f"{', '.join(have)}."
        )
    return table.select(columns)


class _Decoder:
    """Decodes windows of time, and remembers what every CPU ran last."""

    def __init__(self, path: Path, tables: dict[str, pl.LazyFrame], facts: FactsBuilder) -> None:
        self.path, self.tables, self.facts = path, tables, facts
        self.threads = (
            tables["thread"]
            .select("utid", pid=pl.col("tid").cast(pl.Int32), comm=pl.col("name").cast(pl.String))
            .unique("utid", keep="last")
            .collect()
        )
        self.slices = tables[_SLICE].filter(pl.col("cpu") >= 0)
        self.exact = "sched_migrate" in tables
        self.before = pl.DataFrame()
        self.gaps = 0
        self.rows = 0
        self.end_ns: int | None = None
        self.lost = self._lost()
        self._facts()

    def _facts(self) -> None:
        facts = self.facts
        facts.clock = "boot"  # SCHEMA_CHANGES.md: "the trace tables' ts are boot-monotonic"
        if "sysinfo" in self.tables:
            release = self.tables["sysinfo"].head(1).collect()["release"].to_list()
            facts.kernel_release = release[0] if release else None
        if "systing_manifest" in self.tables:
            for version, schema in self.tables["systing_manifest"].head(1).collect().iter_rows():
                facts.notes["recorded_by"] = f"systing {version} (schema {schema})"
        if not self.exact:
            facts.notes["placement"] = (
                "no sched_migrate table (systing before 1.13.9): a woken thread is taken to wait on the CPU it ran on "
                "next"
            )

    def _lost(self) -> pl.DataFrame:
        """Return an event for each time at which BPF's counter of drops has grown."""
        empty = pl.DataFrame(schema={"ts_ns": pl.Int64, "value": pl.Int64})
        if not {"counter", "counter_track"} <= self.tables.keys():
            return empty
        tracks = self.tables["counter_track"].filter(pl.col("name") == MISSED).select("id")
        grown = (
            self.tables["counter"]
            .join(tracks, left_on="track_id", right_on="id", how="semi")
            .sort("ts")
            .select(ts_ns="ts", value=pl.col("value").diff().fill_null(pl.col("value")))
            .filter(pl.col("value") > 0)
            .with_columns(pl.col("value").cast(pl.Int64))
            .collect()
        )
        if grown.height:
            self.facts.add_lost(-1, int(grown["value"].sum()))
        return grown if grown.height else empty

    def edges(self) -> list[int]:
        """Return times that cut the recording into pieces of about :data:`BATCH_ROWS` rows."""
        ends = self.slices.select(
            low=pl.col("ts").min(),
            high=(pl.col("ts") + pl.col("dur")).max(),
            rows=pl.len(),
            untimed=pl.col("ts").null_count(),
        ).collect(engine="streaming")
        low, self.end_ns, self.rows, untimed = ends.row(0)
        self._require_times(_SLICE, untimed)
        if not self.rows:
            return []
        for name in ("thread_state", "sched_migrate", "wakeup_new", "process_exit"):
            if name in self.tables:
                facts = self.tables[name].select(
                    low=pl.col("ts").min(),
                    high=pl.col("ts").max(),
                    rows=pl.len(),
                    untimed=pl.col("ts").null_count(),
                )
                first, last, rows, untimed = facts.collect(engine="streaming").row(0)
                self._require_times(name, untimed)
                if rows:
                    low, self.end_ns = min(low, first), max(self.end_ns or last, last)
                    self.rows += rows
        if self.end_ns is None:  # no slice has a length
            self.end_ns = low
        parts = max(1, self.rows // BATCH_ROWS)
        cuts = np.linspace(low, self.end_ns + 1, parts + 1).astype(np.int64).tolist()
        return [*cuts[:-1], self.end_ns + 1]

    def _require_times(self, name: str, untimed: int) -> None:
        """Refuse a table in which rows have no time, because such rows would be in no window."""
        if untimed:
            raise TraceContentError(
                f"{self.path}: {untimed} rows of {name}.parquet have no time (ts). The table is damaged: copy or record it "
                "again."
            )

    def window(self, start: int, end: int) -> pl.DataFrame:
        """Return the events of a window of time, in order."""
        frames = [self._switches(start, end), self._woken(start, end)]
        for name, kind, source, target in (
            ("sched_migrate", "migrate", "orig_cpu", "dest_cpu"),
            ("wakeup_new", "wakeup_new", "cpu", "target_cpu"),
        ):
            if name in self.tables:
                part = self._part(name, start, end)
                cpus = {"src_cpu": source, "cpu": target}
                frames.append(part.select("ts_ns", "pid", "comm", **cpus, kind=pl.lit(kind)))
        if "process_exit" in self.tables:
            gone = self._part("process_exit", start, end)
            frames.append(gone.select("ts_ns", "pid", "comm", "cpu", kind=pl.lit("exit")))
        frames.append(
            self.lost.filter(pl.col("ts_ns").is_between(start, end, closed="left")).with_columns(
                kind=pl.lit("lost")
            )
        )
        if self.end_ns is not None and end > self.end_ns:
            text = "systing: end of the recording"
            frames.append(pl.DataFrame({"ts_ns": [self.end_ns], "kind": ["mark"], "text": [text]}))
        rank = pl.col("kind").replace_strict(_RANK, return_dtype=pl.Int8)
        table = pl.concat(frames, how="diagonal_relaxed").with_columns(rank=rank)
        return table.sort("ts_ns", "rank", maintain_order=True).drop("rank")

    def _part(self, name: str, start: int, end: int) -> pl.DataFrame:
        """Return the rows of a table in a window, with pid and comm. Rows of idle tasks are left out, except in slices."""
        table = self.slices if name == _SLICE else self.tables[name]
        part = table.filter(pl.col("ts").is_between(start, end, closed="left")).collect(
            engine="streaming"
        )
        part = part.join(self.threads, on="utid", how="left", maintain_order="left")
        lacking = part.filter(pl.col("pid").is_null())
        if lacking.height:
            raise TraceContentError(
                f"{self.path}: thread {lacking['utid'][0]} of {name}.parquet has no row in thread.parquet. The tables "
                "are of different recordings, or one of them is damaged."
            )
        part = part.rename({"ts": "ts_ns"})
        return part if name == _SLICE else part.filter(pl.col("pid") > 0)

    def _switches(self, start: int, end: int) -> pl.DataFrame:
        """Return a switch at the start of every slice; it stops the thread of the slice before on the same CPU."""
        now = self._part(_SLICE, start, end).select(
            "ts_ns",
            "cpu",
            "pid",
            "comm",
            left_in=_letters(self.slices.collect_schema()["end_state"]),
            prio=pl.col("priority").cast(pl.Int16, strict=False),
            stop_ns=pl.col("ts_ns") + pl.col("dur"),
            old=pl.lit(False),
        )
        table = pl.concat([self.before, now]) if self.before.height else now
        table = table.sort("cpu", "ts_ns", maintain_order=True)
        earlier = {
            "prev_pid": "pid",
            "prev_comm": "comm",
            "prev_prio": "prio",
            "prev_state": "left_in",
        }
        table = table.with_columns(
            *(pl.col(c).shift(1).over("cpu").alias(name) for name, c in earlier.items()),
            gap=pl.col("ts_ns") - pl.col("stop_ns").shift(1).over("cpu"),
        )
        self.gaps += int((table["gap"].fill_null(0) != 0).sum())
        self.before = table.group_by("cpu", maintain_order=True).last().select(now.columns)
        self.before = self.before.with_columns(old=pl.lit(True))
        return table.filter(~pl.col("old")).select(
            "ts_ns",
            "cpu",
            "pid",
            "comm",
            "prio",
            pl.col("prev_pid").fill_null(-1),
            "prev_comm",
            "prev_prio",
            pl.col("prev_state").fill_null("R"),
            kind=pl.lit("switch"),
        )

    def _woken(self, start: int, end: int) -> pl.DataFrame:
        if "thread_state" not in self.tables:
            return pl.DataFrame(schema={"ts_ns": pl.Int64, "kind": pl.String})
        text = self.tables["thread_state"].collect_schema()["state"] == pl.String
        runnable = pl.col("state") == (pl.lit("R") if text else pl.lit(0))
        part = self._part("thread_state", start, end).filter(runnable, pl.col("cpu") >= 0)
        part = part.select("ts_ns", "pid", "comm", "cpu", "utid", kind=pl.lit("wakeup"))
        if not self.exact:
            wanted = part.select("utid").unique().lazy()
            later = (
                self.slices.filter(pl.col("ts") >= start)
                .join(wanted, on="utid", how="semi")
                .select("utid", "ts", ran_on="cpu")
                .collect(engine="streaming")
                .sort("ts")
            )
            part = part.sort("ts_ns", maintain_order=True).join_asof(
                later,
                left_on="ts_ns",
                right_on="ts",
                by="utid",
                strategy="forward",
                check_sortedness=False,
            )
            part = part.with_columns(cpu=pl.coalesce("ran_on", "cpu"))
        return part.select("ts_ns", "pid", "comm", "cpu", "kind")

    def finish(self) -> None:
        """Note that slices have gaps between them."""
        if self.gaps:
            self.facts.notes["gaps"] = (
                f"{self.gaps} slices do not begin where the one before them on their CPU ends: switches in between are "
                "missing"
            )


def _letters(dtype: pl.DataType) -> pl.Expr:
    """Return the letters of ``end_state``; if it is absent, the thread is still runnable. systing before 1.0 wrote text."""
    state = pl.col("end_state")
    if dtype == pl.String:
        return state.fill_null("R")
    letters = pl.lit("?")
    for bit, letter in reversed(_STATES.items()):
        letters = pl.when(state.cast(pl.Int64) & bit != 0).then(pl.lit(letter)).otherwise(letters)
    return pl.when(state.fill_null(0) == 0).then(pl.lit("R")).otherwise(letters)
