"""``perf.data`` read directly, without perf."""

from __future__ import annotations

import hashlib
import mmap
import tempfile
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import polars as pl

from wastedcores.errors import TraceContentError, TraceFormatError, WastedCoresError
from wastedcores.limits import MAX_CPUS
from wastedcores.trace.readers.perf_data import fields_jit as pf
from wastedcores.trace.readers.perf_data import records_jit as pj
from wastedcores.trace.readers.perf_data.events import Events
from wastedcores.trace.readers.perf_data.header import PerfHeader, read_header
from wastedcores.trace.readers.perf_data.packed import decompress, is_compressed
from wastedcores.trace.readers.perf_data.records import Records, ThreadNames
from wastedcores.trace.readers.support.bytes_jit import PADDING
from wastedcores.trace.readers.support.columns import arrays, make_ready, room, table_of
from wastedcores.trace.readers.support.columns_jit import HAS_CPU
from wastedcores.trace.readers.support.crew import Crew, Job
from wastedcores.trace.readers.support.facts import Facts
from wastedcores.trace.readers.support.memory import let_go
from wastedcores.trace.readers.support.tracepoints import SWITCH
from wastedcores.trace.readers.support.vocabulary import NameTable, Vocabulary
from wastedcores.trace.readers.support.wakings import NOTE as WAKINGS_NOTE

#: How a file written by perf record begins
MAGIC = b"PERFILE2"
#: Records found in one go; more are held only if perf's rounds are longer
CHUNK_RECORDS = 1 << 16
#: Events that are taken apart in one go
CHUNK_ROWS = 1 << 15
#: Events of a table
TABLE_ROWS = 1 << 20
#: Bytes that are mapped while there is nothing else to do: the kernel takes a third of the time that we take to look
AHEAD_BYTES = 1 << 28

_PROBLEMS = {
    pj.TOO_SHORT: "a record shorter than its head",
    pj.BAD_TIME: "a record whose time has more than 63 bits",
    pj.BAD_FIELDS: "a record shorter than the fields of its tracepoint",
    pj.BAD_CPU: f"a record of a CPU that cannot be: Linux has CPUs 0 to {MAX_CPUS - 1} at most",
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
            mapped = np.memmap(self.path, np.uint8, "r")
        except (OSError, ValueError) as e:
            raise WastedCoresError(f"{self.path}: cannot be mapped ({e}).") from e
        # read ahead; and at the end the kernel need not note of every page that it was looked at (vma_has_recency)
        mapped._mmap.madvise(mmap.MADV_SEQUENTIAL)  # type: ignore[attr-defined]
        return np.asarray(mapped)

    def hash(self, data: np.ndarray) -> None:
        """Note the file's SHA-256."""
        digest = hashlib.sha256()
        for at in range(0, len(data), 1 << 24):
            digest.update(data[at : at + (1 << 24)])  # type: ignore[arg-type]
        self.sha256 = digest.hexdigest()


def read(source: Source, facts: Facts) -> Generator[pl.DataFrame, None, None]:
    """Yield event tables in order of time."""
    data = mapped = source.map()
    with ExitStack() as stack:
        crew = stack.enter_context(Crew())
        crew.submit(pj.touch, data, 0, AHEAD_BYTES)
        header = read_header(data, source.path)
        facts.kernel_release, facts.cpus, facts.clock = header.release, header.cpus, header.clock
        facts.notes.update(header.notes)
        begin, end = header.data
        if end + PADDING > len(data):  # nearly always features follow
            data = np.concatenate([data, np.zeros(PADDING, np.uint8)])
        reader = _Reader(source.path, header, facts)
        hashing = None
        if source.hashed:
            hashing = stack.enter_context(ThreadPoolExecutor(1)).submit(source.hash, mapped)
        if is_compressed(data, begin, end):
            plain = stack.enter_context(tempfile.TemporaryFile())
            data, begin, end = decompress(data, begin, end, plain, source.path)
        over = None if source.hashed or data is not mapped else mapped
        yield from reader.tables(data, begin, end, crew, over)
        if hashing:
            hashing.result()


class _Reader:
    def __init__(self, path: Path, header: PerfHeader, facts: Facts) -> None:
        self.path, self.header, self.facts = path, header, facts
        self.vocabulary = Vocabulary()
        self.workers = threading.local()
        self.events = Events(header.formats, path)
        self.threads = ThreadNames(NameTable(self.vocabulary))
        self.names: np.ndarray | None = None  # of the threads there were when perf began
        self.told: pj.Comms | None = None  # by the batch before, if its records told any names
        self.counts = np.zeros(65536, np.int64)
        self.seen = np.zeros(MAX_CPUS, np.bool_)

    def tables(
        self, data: np.ndarray, begin: int, end: int, crew: Crew, over: np.ndarray | None = None
    ) -> Iterator[pl.DataFrame]:
        """Records in order of time, as perf does: what is older than the round before last is safe.

        ``over`` is a mapped file that is done with once all records are read.
        """
        at = begin
        records = Records()
        table: _Table | None = None
        found = crew.submit(self._find, data, at, end, records, *records.room(CHUNK_RECORDS))
        while at < end:
            last, at, problem, safe = found.result()
            records.found(last)
            self._problem(problem, at, end)
            if problem == pj.CUT:
                at = end
            if at < end:  # whoever has nothing to do looks for the next ones
                more = records.room(CHUNK_RECORDS)
                found = crew.submit(self._find, data, at, end, records, *more)
            if table is None:  # room for as many as all will probably be
                likely = records.n * (end - begin) / max(at - begin, 1) * 1.1
                table = _Table(min(TABLE_ROWS, int(likely)), crew)
            ts, ref = records.ts, records.ref
            ready = records.ready(safe, at >= end)
            if at < end and ready:
                ready = self._whole(data, ts, ref, 0, ready)
            if not ready:
                continue
            if table.rows + ready > table.size:
                if table.rows:
                    yield self._finished(data, table, crew)
                table = _Table(max(ready, TABLE_ROWS), crew)
            self._submit(data, records, ready, table, crew)
            records.drop(ready)
        if table and table.rows:
            crew.finish(table.work)
            if over is not None:
                crew.submit(let_go, over)
            yield self._finished(data, table, crew)
        self._finish()

    def _find(
        self,
        data: np.ndarray,
        at: int,
        end: int,
        records: Records,
        ts: np.ndarray,
        ref: np.ndarray,
        n: int,
    ) -> tuple[int, int, int, int]:
        """Find the next records: up to which row, where to go on, what is wrong there, what is safe now."""
        header, events = self.header, self.events
        n, at, problem = pj.index(
            data, at, end, header.layouts, header.ids, header.which, header.dense, events.codes,
            events.success, ts, ref, n, records.clock, self.counts,
        )  # fmt: skip
        return n, at, problem, int(records.clock[pj.SAFE])

    def _whole(self, data: np.ndarray, ts: np.ndarray, ref: np.ndarray, i: int, n: int) -> int:
        """Where to cut so that no sched_waking is torn from its sched_migrate_task, at ``n`` or before."""
        if not self.events.place:
            return n
        return i + pj.whole_until(data, ts[i:], ref[i:], n - i, self.header.layouts, self.seen)

    def _submit(
        self,
        data: np.ndarray,
        records: Records,
        ready: int,
        table: _Table,
        crew: Crew,
    ) -> None:
        """Have the first events written into the table, in parts at the same time."""
        if self.told:  # what is about to change are names that the parts before still look up
            crew.finish(table.work)
            pj.forget_comms(self.told)
            self.told = None
        table.made.result()
        ts, ref = records.ts[:ready], records.ref[:ready]
        comms = self.threads.learn(data, ref)
        if comms.since.size:
            self.told = comms
        if self.names is None:
            self.names = self.threads.table.halves()
        i = 0
        while i < ready:
            end = min(i + CHUNK_ROWS, ready)
            if end < ready:
                end = self._whole(data, ts, ref, i, end)
                end = ready if end == i else end
            part = crew.submit(self._decode, data, table, comms, ts, ref, i, end, table.rows)
            table.work.append(part)
            records.looked_at(part)
            table.rows += end - i
            if self.told:
                table.rows -= pj.comm_records(ref, i, end)
            i = end

    def _decode(
        self,
        data: np.ndarray,
        table: _Table,
        comms: pj.Comms,
        ts: np.ndarray,
        ref: np.ndarray,
        i: int,
        end: int,
        row: int,
    ) -> None:
        own, events = self.workers, self.events
        if not hasattr(own, "names"):
            own.names = NameTable(self.vocabulary, self.names)
            own.last = np.empty((2, MAX_CPUS), np.int64)
        own.last[:] = -1
        while True:
            i, row, wakings, problem = pf.decode(
                data, ts, ref, i, end, row, self.header.layouts, events.fields, events.needed, events.kinds,
                events.place, own.last, comms, own.names.table, own.names.numbers(), events.states,
                table.columns, table.texts,
            )  # fmt: skip
            if wakings:
                self.facts.notes["wakeups"] = WAKINGS_NOTE
            if problem == pj.NAMES_FULL:
                own.names.grow()
            elif problem != pj.NAMES_NEW:
                break
        self._problem(problem, int(ref[i]) >> 16 if problem else 0, 0)

    def _finished(self, data: np.ndarray, table: _Table, crew: Crew) -> pl.DataFrame:
        crew.finish(table.work)
        columns, rows = table.columns, table.rows
        frame = table_of(columns, rows, crew)
        for i in np.flatnonzero(columns.kind[:rows] == self.events.kinds[pj.LOST]):
            known = columns.low[i] & HAS_CPU
            self.facts.add_lost(int(columns.cpu[i]) if known else -1, int(columns.value[i]))
        return self._with_texts(frame, data, table)

    def _with_texts(self, frame: pl.DataFrame, data: np.ndarray, table: _Table) -> pl.DataFrame:
        """Add the texts of exec and mark events."""
        if not np.isin(self.events.codes, (pj.EXEC, pj.MARK)).any():
            return frame
        told, kinds = table.texts, self.events.kinds
        at = np.flatnonzero(np.isin(table.columns.kind[: table.rows], kinds[[pj.EXEC, pj.MARK]]))
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
            code, n = self.events.codes[number], int(self.counts[number])
            if code == pj.IGNORED:
                self.facts.skipped[by_number.get(int(number), f"tracepoint {number}")] += n
            self.facts.every_switch |= code == SWITCH


class _Table:
    """Rows being filled."""

    def __init__(self, size: int, crew: Crew) -> None:
        self.size, self.rows = size, 0
        self.columns = room(size)
        (self.texts,) = arrays([(np.int64, size)])
        self.made = crew.submit(make_ready, self.columns)
        self.work: list[Job] = []
