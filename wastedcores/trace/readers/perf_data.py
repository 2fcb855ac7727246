"""``perf.data`` read directly, without perf."""

from __future__ import annotations

import hashlib
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import polars as pl

from wastedcores.engine import perfdata_jit as pj
from wastedcores.engine import perffields_jit as pf
from wastedcores.engine import text_jit as tj
from wastedcores.engine.bytes_jit import PADDING
from wastedcores.engine.columns_jit import HAS_CPU
from wastedcores.engine.order_jit import sort_runs
from wastedcores.errors import TraceContentError, TraceFormatError, WastedCoresError
from wastedcores.trace.readers._columns import room, table_of, zeros
from wastedcores.trace.readers._facts import Facts
from wastedcores.trace.readers._perf_header import Format, PerfHeader, read_header, state_names
from wastedcores.trace.readers._perf_packed import decompress, is_compressed
from wastedcores.trace.readers._vocabulary import NameTable, Vocabulary
from wastedcores.trace.readers._wakings import NOTE as WAKINGS_NOTE
from wastedcores.trace.schema import KINDS

#: How a file written by perf record begins
MAGIC = b"PERFILE2"
#: Records found in one go; more are held only if perf's rounds are longer
CHUNK_RECORDS = 1 << 16
#: Events that are taken apart in one go
CHUNK_ROWS = 1 << 15
#: Events of a table
TABLE_ROWS = 1 << 20

_TASK = ("comm", "pid", "prio")
_WAKE = (*_TASK, "target_cpu", "success")
#: event -> (code, fields in the places that perfdata_jit and perffields_jit look for them)
_EVENTS: dict[str, tuple[int, tuple[str, ...]]] = {
    "sched_switch": (
        tj.SWITCH,
        (
            "prev_comm",
            "prev_pid",
            "prev_prio",
            "prev_state",
            "next_comm",
            "next_pid",
            "next_prio",
        ),
    ),
    "sched_wakeup": (tj.WAKEUP, _WAKE),
    "sched_wakeup_new": (tj.WAKEUP_NEW, _WAKE),
    "sched_waking": (tj.WAKING, _WAKE),
    "sched_migrate_task": (tj.MIGRATE, (*_TASK, "orig_cpu", "dest_cpu")),
    "sched_process_fork": (tj.FORK, ("parent_comm", "parent_pid", "child_comm", "child_pid")),
    "sched_process_exit": (tj.EXIT, _TASK),
    "sched_process_exec": (pj.EXEC, ("filename", "pid", "old_pid")),
    "cpu_idle": (tj.CPU_IDLE, ("state", "cpu_id")),
    "cpu_frequency": (pj.FREQUENCY, ("state", "cpu_id")),
    "print": (pj.MARK, ("buf",)),
}
_KINDS = {
    tj.SWITCH: "switch",
    tj.WAKEUP: "wakeup",
    tj.WAKEUP_NEW: "wakeup_new",
    tj.WAKING: "wakeup",
    tj.MIGRATE: "migrate",
    tj.FORK: "fork",
    tj.EXIT: "exit",
    tj.CPU_IDLE: "cpu_idle",
    pj.EXEC: "exec",
    pj.MARK: "mark",
    pj.FREQUENCY: "frequency",
    pj.LOST: "lost",
}
#: fields that are strings; all others are numbers
_STRINGS = {"comm", "prev_comm", "next_comm", "parent_comm", "child_comm", "filename", "buf"}
#: a ``long``: what is meant is in its lower half
_LONG = {"prev_state"}
#: fields that some kernels do not have
_OPTIONAL = {"success"}
_PROBLEMS = {
    pj.TOO_SHORT: "a record shorter than its head",
    pj.BAD_TIME: "a record whose time has more than 63 bits",
    pj.BAD_FIELDS: "a record shorter than the fields of its tracepoint",
    pj.BAD_CPU: f"a record of a CPU that cannot be: Linux has CPUs 0 to {pj.MAX_CPUS - 1} at most",
    pj.BAD_PRIO: "a record with a priority of more than 16 bits",
    pj.BAD_LOST: f"a record that says more than {pj.MAX_LOST} events were lost",
}


class Source:
    """A perf.data file, mapped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.hashed = False
        self.sha256: str | None = None
        self.lines = 0
        self.cut_line: tuple[int, str] | None = None

    def map(self) -> np.ndarray:
        """Bytes of the file, and :data:`PADDING` more that may be looked at."""
        try:
            data = np.asarray(np.memmap(self.path, np.uint8, "r"))
        except (OSError, ValueError) as e:
            raise WastedCoresError(f"{self.path}: cannot be mapped ({e}).") from e
        return data

    def hash(self, data: np.ndarray) -> None:
        """Note the file's SHA-256."""
        digest = hashlib.sha256()
        for at in range(0, len(data), 1 << 24):
            digest.update(data[at : at + (1 << 24)])  # type: ignore[arg-type]
        self.sha256 = digest.hexdigest()


def read(source: Source, facts: Facts) -> Iterator[pl.DataFrame]:
    """Yield event tables in order of time."""
    data = source.map()
    header = read_header(data, source.path)
    facts.kernel_release, facts.cpus, facts.clock = header.release, header.cpus, header.clock
    facts.notes.update(header.notes)
    begin, end = header.data
    if end + PADDING > len(data):  # nearly always features follow
        data = np.concatenate([data, np.zeros(PADDING, np.uint8)])
    reader = _Reader(source.path, header, facts)
    with ExitStack() as stack:
        hashing = None
        if source.hashed:
            hashing = stack.enter_context(ThreadPoolExecutor(1)).submit(source.hash, source.map())
        if is_compressed(data, begin, end):
            plain = stack.enter_context(tempfile.TemporaryFile())
            data, begin, end = decompress(data, begin, end, plain, source.path)
        yield from reader.tables(data, begin, end)
        if hashing:
            hashing.result()


class _Reader:
    def __init__(self, path: Path, header: PerfHeader, facts: Facts) -> None:
        self.path, self.header, self.facts = path, header, facts
        self.vocabulary = Vocabulary()
        self.names = NameTable(self.vocabulary)
        self.workers = threading.local()
        (self.comm_of,) = zeros([(np.int32, pj.MAX_PID + 1)])
        self.codes = np.full(65536, pj.IGNORED, np.int8)
        self.fields = np.zeros((pj.N_CODES, pj.MAX_FIELDS, 3), np.int64)
        self.needed = np.zeros(pj.N_CODES, np.int64)
        self.counts = np.zeros(65536, np.int64)
        self.kinds = np.zeros(pj.N_CODES, np.uint8)
        for code, kind in _KINDS.items():
            self.kinds[code] = KINDS.index(kind)
        self.states = self.vocabulary.numbers(["R"])
        self.comm_of[0] = self.names.number(b"swapper") + 1
        # a sched_waking counts only where there is no sched_wakeup
        recorded = set(header.formats)
        self.place = "sched_waking" in recorded and "sched_wakeup" not in recorded
        for name, format in header.formats.items():
            if name in _EVENTS and (name != "sched_waking" or self.place):
                self._learn(format)

    def _learn(self, format: Format) -> None:
        code, wanted = _EVENTS[format.name]
        for place, name in enumerate(wanted):
            if name not in format.fields:
                if name in _OPTIONAL:
                    continue
                raise TraceFormatError(
                    f"{self.path}: its kernel's {format.name} has no field {name!r} (it has "
                    f"{', '.join(format.fields)}); this reader needs it."
                )
            kind, offset, size = format.fields[name]
            dynamic = kind.startswith("__data_loc")
            sizes = (4, 8) if name in _LONG else (4,)
            if name in _STRINGS:
                good = size == 4 if dynamic else kind.endswith("]")
                expected = "a string"
                tail = name in ("filename", "buf")
                what = pj.T_DYNAMIC if dynamic else pj.T_TAIL if tail else pj.T_COMM
            else:
                good = size in sizes and not kind.endswith("]") and not dynamic
                expected = f"a number of {' or '.join(map(str, sizes))} bytes"
                what = pj.T_INT
            if not good:
                raise TraceFormatError(
                    f"{self.path}: field {name!r} of {format.name} is a {kind} of {size} bytes; expected {expected}."
                )
            self.fields[code, place] = offset, size, what
            self.needed[code] = max(self.needed[code], offset + size)
        self.codes[format.number] = code
        if format.name == "sched_switch":
            self.states = self.vocabulary.numbers(state_names(format.print_fmt))

    def tables(self, data: np.ndarray, begin: int, end: int) -> Iterator[pl.DataFrame]:
        """Records in order of time, as perf does: what is older than the round before last is safe."""
        header = self.header
        at = begin
        records = _Records()
        table: _Table | None = None
        seen = np.zeros(pj.MAX_CPUS, np.bool_)
        last = np.zeros(pj.MAX_CPUS, np.int64)
        with ThreadPoolExecutor(2) as pool:
            try:
                while at < end:
                    records.make_room(CHUNK_RECORDS)
                    ts, ref = records.ts, records.ref
                    limit = records.n + CHUNK_RECORDS
                    n, at, problem = pj.index(
                        data, at, end, header.layouts, header.ids, header.which, header.dense, self.codes,
                        ts[:limit], ref[:limit], records.n, records.clock, self.counts,
                    )  # fmt: skip
                    records.added(n)
                    self._problem(problem, at, end)
                    if problem == pj.CUT:
                        at = end
                    ready = records.ready(at >= end)
                    if self.place and at < end and ready:
                        ready = pj.whole_until(data, ts, ref, ready, header.layouts, seen)
                    if not ready:
                        continue
                    if table and table.rows + ready > table.size:
                        yield self._finished(data, table)
                        table = None
                    if table is None:
                        likely = int(ready * (end - begin) / (at - begin) * 1.2)
                        table = _Table(max(ready, min(TABLE_ROWS, likely)))
                    self._arrange(data, records, ready, table, last, pool)
                    records.drop(ready)
                if table and table.rows:
                    yield self._finished(data, table)
            finally:
                pool.shutdown(cancel_futures=True)
        self._finish()

    def _arrange(
        self,
        data: np.ndarray,
        records: _Records,
        n: int,
        table: _Table,
        last: np.ndarray,
        pool: ThreadPoolExecutor,
    ) -> None:
        """Give the first ``n`` records their rows, and have their fields taken apart."""
        i, first = 0, table.rows
        while True:
            i, table.rows, wakings, problem = pj.arrange(
                data, records.ts, records.ref, i, n, table.rows, self.header.layouts, self.fields, self.needed,
                self.place, last, self.comm_of, self.names.table, table.columns, table.refs, table.by,
            )  # fmt: skip
            if wakings:
                self.facts.notes["wakeups"] = WAKINGS_NOTE
            if problem != pj.NAMES_FULL:
                break
            self.names.grow()
        if problem:
            self._problem(problem, int(records.ref[i]) >> 16, 0)
        by_names = self.names.numbers()
        for row in range(first, table.rows, CHUNK_ROWS):
            end = min(row + CHUNK_ROWS, table.rows)
            table.work.append(pool.submit(self._decode, data, table, row, end, by_names))

    def _decode(
        self, data: np.ndarray, table: _Table, begin: int, end: int, by_names: np.ndarray
    ) -> None:
        if not hasattr(self.workers, "names"):
            self.workers.names = NameTable(self.vocabulary)
        names = self.workers.names
        row = begin
        while True:
            row, problem = pf.decode(
                data, table.refs, row, end, self.fields, self.kinds, names.table, table.columns, table.texts
            )  # fmt: skip
            if problem != pj.NAMES_FULL:
                break
            names.grow()
        if problem:
            self._problem(problem, int(table.refs[row]) >> 16, 0)
        pf.rename(
            table.refs, table.by, begin, end, names.numbers(), by_names, self.states, table.columns
        )

    def _finished(self, data: np.ndarray, table: _Table) -> pl.DataFrame:
        for future in table.work:
            future.result()
        columns, rows = table.columns, table.rows
        frame = table_of(columns, rows)
        for i in np.flatnonzero(columns.kind[:rows] == self.kinds[pj.LOST]):
            known = columns.low[i] & HAS_CPU
            self.facts.add_lost(int(columns.cpu[i]) if known else -1, int(columns.value[i]))
        return self._with_texts(frame, data, table.texts[:rows])

    def _with_texts(self, frame: pl.DataFrame, data: np.ndarray, told: np.ndarray) -> pl.DataFrame:
        """Add the texts of exec and mark events."""
        if not np.isin(self.codes, (pj.EXEC, pj.MARK)).any():
            return frame
        at = np.flatnonzero(told)
        texts = []
        for word in told[at].tolist():
            raw = data[word >> 16 : (word >> 16) + (word & 0xFFFF)].tobytes().split(b"\0")[0]
            texts.append(raw.decode("utf-8", "replace").rstrip("\n"))
        column = pl.Series([None], dtype=pl.String).new_from_index(0, frame.height)
        return frame.with_columns(text=column.scatter(at, texts) if texts else column)

    def _problem(self, problem: int, at: int, end: int) -> None:
        if problem == pj.CUT:
            self.facts.notes["truncated_last_line"] = (
                f"the last record, at byte {at} of {end}, is cut short"
            )
        elif problem == pj.COMPRESSED:
            raise TraceFormatError(
                f"{self.path}: byte {at}: a compressed record after plain ones, which perf does not write. Import the "
                "text: perf script --show-lost-events -F +cpu."
            )
        elif problem:
            raise TraceContentError(
                f"{self.path}: byte {at}: {_PROBLEMS[problem]}. The file is damaged: record again, or import what perf "
                "script can still print of it."
            )

    def _finish(self) -> None:
        by_number = {f.number: f.name for f in self.header.formats.values()}
        for number in np.flatnonzero(self.counts):
            code, n = self.codes[number], int(self.counts[number])
            if code == pj.IGNORED:
                self.facts.skipped[by_number.get(int(number), f"tracepoint {number}")] += n
            self.facts.every_switch |= code == tj.SWITCH


class _Table:
    """Rows being filled."""

    def __init__(self, size: int) -> None:
        self.size, self.rows = size, 0
        self.columns = room(size)
        self.refs, self.by, self.texts = zeros(
            [(np.int64, size), (np.int32, size), (np.int64, size)]
        )
        self.work: list[Future[None]] = []


class _Records:
    """When records are, and where: those in order that may come before later ones, then the new ones."""

    def __init__(self) -> None:
        self._size = 0
        self._all = np.empty((2, 0), np.int64)
        self._first = self._last = 0
        self._sorted_until = -1
        self._spare, self._bounds = self._all, self._all[0]
        self.clock = np.full(3, -1, np.int64)

    @property
    def ts(self) -> np.ndarray:
        """Times of the records there are, and of the room after them."""
        return self._all[0, self._first :]

    @property
    def ref(self) -> np.ndarray:
        """As ``ts``: where they are."""
        return self._all[1, self._first :]

    @property
    def n(self) -> int:
        """How many there are."""
        return self._last - self._first

    def make_room(self, more: int) -> None:
        """Have room for exactly ``more`` records."""
        n = self.n
        if self._last + more > self._size:
            self._size = 4 * (n + more)
            fresh = np.empty((2, self._size), np.int64)
            fresh[:, :n] = self._all[:, self._first : self._last]
            self._all, self._first, self._last = fresh, 0, n
            self._spare, self._bounds = np.empty_like(fresh), np.empty(self._size + 1, np.int64)

    def added(self, n: int) -> None:
        """There are ``n`` now."""
        self._last = self._first + n

    def ready(self, all_: bool) -> int:
        """How many, from the first on, nothing to come is older than; they are in order if that is not none."""
        safe = int(self.clock[pj.SAFE])
        if not all_ and safe <= self._sorted_until:
            return 0
        self._sorted_until = safe
        sort_runs(self.ts, self.ref, self.n, self._bounds, self._spare)
        return self.n if all_ else int(self.ts[: self.n].searchsorted(safe, side="right"))

    def drop(self, n: int) -> None:
        """The first ``n`` are done."""
        self._first += n
