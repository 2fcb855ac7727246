"""Reads ``perf.data`` directly, without perf."""

from __future__ import annotations

import hashlib
import mmap
import os
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl

from wastedcores.errors import TraceContentError, TraceFormatError, WastedCoresError
from wastedcores.limits import MAX_CPUS
from wastedcores.trace.readers.perf_data import fields_jit as pf
from wastedcores.trace.readers.perf_data import records_jit as pj
from wastedcores.trace.readers.perf_data.events import find_formats
from wastedcores.trace.readers.perf_data.header import Format, read_header
from wastedcores.trace.readers.perf_data.packed import decompress, is_compressed
from wastedcores.trace.readers.perf_data.records import ThreadNames, Waiting
from wastedcores.trace.readers.support.bytes_jit import PADDING
from wastedcores.trace.readers.support.event_columns import columns_for, table_of
from wastedcores.trace.readers.support.event_columns_jit import HAS_CPU, Columns
from wastedcores.trace.readers.support.names import CategoryCodes, NameTable
from wastedcores.trace.readers.support.reading import Reading
from wastedcores.trace.readers.support.sched_waking import NOTE as WAKINGS_NOTE
from wastedcores.trace.readers.support.tracepoints import SWITCH
from wastedcores.trace.schema import KIND_DTYPE

#: How a file written by perf record begins.
MAGIC = b"PERFILE2"
#: Records that are searched for at a time.
CHUNK_RECORDS = 1 << 16
#: Events that one thread decodes at a time.
CHUNK_ROWS = 1 << 15
#: Events of a table.
TABLE_ROWS = 1 << 20

_PROBLEMS = {
    pj.TOO_SHORT: "a record is shorter than its head",
    pj.BAD_TIME: "the time of a record has more than 63 bits",
    pj.BAD_FIELDS: "a record is shorter than the fields of its tracepoint",
    pj.BAD_CPU: f"a record names a CPU that cannot exist: Linux has CPUs 0 to {MAX_CPUS - 1} at most",
    pj.BAD_PRIO: "a record has a priority of more than 16 bits",
    pj.BAD_LOST: f"a record says that more than {pj.MAX_LOST} events were lost",
}


class _Table:
    """Rows that threads fill in."""

    def __init__(self, size: int) -> None:
        self.size, self.rows = size, 0
        self.columns = columns_for(size)
        self.parts: list[Future[None]] = []

    def wait(self) -> None:
        """Wait for all threads, and raise the first error."""
        for part in self.parts:
            part.result()


class PerfDataReading(Reading):
    """One pass over a perf.data file, which is mapped into memory.

    One thread searches for records while others decode the events found before.

    Parameters
    ----------
    path
        The file.
    hashed
        Compute its SHA-256.
    """

    def __init__(self, path: Path, *, hashed: bool = False) -> None:
        super().__init__(path, "perf.data")
        self._hashed = hashed
        self._categories = CategoryCodes()
        self._threads = ThreadNames(NameTable(self._categories))
        self._first_names: np.ndarray | None = None  # of the threads that existed when perf began
        self._changes: pj.Comms | None = None  # changes of names in the batch before
        self._worker = threading.local()
        self._state = np.array([-1, -1, -1, 0], np.int64)
        self._counts = np.zeros(65536, np.int64)
        self._cpus_seen = np.zeros(MAX_CPUS, np.bool_)
        self._pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)) + hashed)
        self.resources.callback(self._pool.shutdown, cancel_futures=True)

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield event tables in order of time."""
        mapped = self._map()
        header = read_header(mapped, self.path)
        found = self.found
        found.kernel_release, found.cpus, found.clock = header.release, header.cpus, header.clock
        found.host = header.host
        found.notes.update(header.notes)
        self._formats = find_formats(header, self.path)
        hashing = self._pool.submit(_sha256, mapped) if self._hashed else None
        (begin, end), self._data = header.data, mapped
        if is_compressed(mapped, begin, end):
            plain = self.resources.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
            self._data, begin, end = decompress(mapped, begin, end, plain, self.path)
        elif end + PADDING > len(mapped):  # nearly always features follow
            self._data = np.concatenate([mapped, np.zeros(PADDING, np.uint8)])
        yield from self._tables(begin, end)
        self._count_samples(header.formats)
        found.sha256 = hashing.result() if hashing else None

    def _map(self) -> np.ndarray:
        try:
            mapped = np.memmap(self.path, np.uint8, "r")
        except (OSError, ValueError) as e:
            raise WastedCoresError(f"{self.path}: cannot be mapped ({e}).") from e
        mapped._mmap.madvise(mmap.MADV_SEQUENTIAL)  # type: ignore[attr-defined]
        return np.asarray(mapped)

    def _tables(self, at: int, end: int) -> Iterator[pl.DataFrame]:
        begin, rows_found = at, 0
        waiting = Waiting()
        table = _Table(0)
        search: Future[tuple[pj.Records, int, int, int]] | None
        search = self._pool.submit(self._search, at, end)
        while search:
            records, at, problem, safe = search.result()
            self._refuse(problem, at, end)
            last = at >= end or problem == pj.CUT
            search = None if last else self._pool.submit(self._search, at, end)
            rows_found += records.ts.size
            waiting.add(records)
            ready = waiting.take(safe, last)
            if not last:
                n = self._whole(ready, 0, ready.ts.size)
                waiting.put_back(pj.Records(ready.ts[n:], ready.ref[n:]))
                ready = pj.Records(ready.ts[:n], ready.ref[:n])
            if table.rows + ready.ts.size > table.size:
                if table.rows:
                    yield self._finished(table)
                likely = rows_found * (end - begin) / max(at - begin, 1) * 1.1
                table = _Table(max(ready.ts.size, min(TABLE_ROWS, int(likely))))
            self._start_decoding(ready, table)
        if table.rows:
            yield self._finished(table)
        yield from self._lost_at_the_end()

    def _search(self, at: int, end: int) -> tuple[pj.Records, int, int, int]:
        """Find the next records: the records, where to go on, what is wrong there, and what nothing to come is older than."""
        records = pj.Records(np.empty(CHUNK_RECORDS, np.int64), np.empty(CHUNK_RECORDS, np.int64))
        n, at, problem = pj.index(
            self._data, at, end, self._formats, records, self._state, self._counts
        )
        return pj.Records(*(a[:n] for a in records)), at, problem, int(self._state[pj.SAFE])

    def _whole(self, records: pj.Records, i: int, n: int) -> int:
        """Return where to cut the records ``i`` to ``n`` so that no sched_waking loses its sched_migrate_task."""
        if not self._formats.place:
            return n
        return pj.whole_until(self._data, records, i, n, self._formats.layouts, self._cpus_seen)

    def _start_decoding(self, records: pj.Records, table: _Table) -> None:
        """Let threads write these events into the table, a part each."""
        if self._changes:  # the parts before still look up the names that are about to change
            table.wait()
            pj.end_batch(self._changes)
        comms = self._threads.learn(self._data, records.ref)
        self._changes = comms if comms.since.size else None
        if self._first_names is None:
            self._first_names = self._threads.table.halves()
        i, n = 0, records.ts.size
        while i < n:
            end = min(i + CHUNK_ROWS, n)
            if end < n:
                end = self._whole(records, i, end)
                end = n if end == i else end
            part = self._pool.submit(self._decode, table, comms, records, i, end, table.rows)
            table.parts.append(part)
            table.rows += end - i - (pj.comm_records(records.ref, i, end) if self._changes else 0)
            i = end

    def _decode(
        self, table: _Table, comms: pj.Comms, records: pj.Records, i: int, end: int, row: int
    ) -> None:
        """Write the events among the records ``i`` to ``end`` into the rows from ``row`` on; runs in several threads."""
        own = self._worker
        if not hasattr(own, "names"):
            own.names = NameTable(self._categories, self._first_names)
            own.last = np.empty((2, MAX_CPUS), np.int64)
        own.last[:] = -1
        while True:
            names = pf.Names(own.names.table, own.names.codes())
            i, row, wakings, problem = pf.decode(
                self._data,
                records,
                i,
                end,
                row,
                self._formats,
                comms,
                names,
                own.last,
                table.columns,
            )
            if wakings:
                self.found.notes["wakeups"] = WAKINGS_NOTE
            if problem == pj.NAMES_FULL:
                own.names.grow()
            elif problem != pj.NAMES_NEW:
                break
        self._refuse(problem, int(records.ref[i]) >> 16 if problem else 0, 0)

    def _finished(self, table: _Table) -> pl.DataFrame:
        table.wait()
        columns, rows = table.columns, table.rows
        for i in np.flatnonzero(columns.kind[:rows] == self._formats.kinds[pj.LOST]):
            known = columns.low[i] & HAS_CPU
            self.found.add_lost(int(columns.cpu[i]) if known else -1, int(columns.value[i]))
        return self._with_texts(table_of(columns, rows), columns, rows)

    def _with_texts(self, frame: pl.DataFrame, columns: Columns, rows: int) -> pl.DataFrame:
        """Add the texts of exec and mark events."""
        if not np.isin(self._formats.codes, (pj.EXEC, pj.MARK)).any():
            return frame
        kinds = self._formats.kinds[[pj.EXEC, pj.MARK]]
        at = np.flatnonzero(np.isin(columns.kind[:rows], kinds))
        texts = []
        for word in columns.text[at].tolist():
            raw = self._data[word >> 16 : (word >> 16) + (word & 0xFFFF)].tobytes().split(b"\0")[0]
            texts.append(raw.decode("utf-8", "replace").rstrip("\n"))
        column = pl.Series([None], dtype=pl.String).new_from_index(0, frame.height)
        return frame.with_columns(text=column.scatter(at, texts) if texts else column)

    def _lost_at_the_end(self) -> Iterator[pl.DataFrame]:
        """Count the lost events that only PERF_RECORD_LOST_SAMPLES states, and yield one event for them.

        The kernel writes a PERF_RECORD_LOST when a buffer has room again, so it never states a loss that lasts until the
        end. perf record (6.1 and later) closes the file with the losses of every event, those that were stated before
        included: time and CPU of these records are 0 (tools/perf/builtin-record.c: record__read_lost_samples).
        """
        stated = sum(self.found.lost.values())
        more = int(self._state[pj.LOST_SAMPLES]) - stated
        if more > 0:
            self.found.add_lost(-1, more)
            end_ns = max(int(self._state[pj.NEWEST]), 0)
            event = {"ts_ns": [end_ns], "kind": ["lost"], "value": [more]}
            yield pl.DataFrame(event).cast({"kind": KIND_DTYPE})

    def _refuse(self, problem: int, at: int, end: int) -> None:
        """Raise the error that belongs to a problem of the record at byte ``at``; note that the file is cut."""
        if problem == pj.CUT:
            self.found.truncated = f"the last record, at byte {at} of {end}, is cut short"
        elif problem == pj.COMPRESSED:
            raise TraceFormatError(
                f"{self.path}: byte {at}: a compressed record follows plain ones, which perf does not write. Import "
                "the text instead: perf script --show-lost-events -F +cpu."
            )
        elif problem:
            raise TraceContentError(
                f"{self.path}: byte {at}: {_PROBLEMS[problem]}. The file is damaged: record again, or import what perf "
                "script can still print of it."
            )

    def _count_samples(self, formats: dict[str, Format]) -> None:
        """Note which tracepoints were seen, and which of them were left out."""
        by_number = {f.number: f.name for f in formats.values()}
        for number in np.flatnonzero(self._counts):
            code, n = self._formats.codes[number], int(self._counts[number])
            if code == pj.IGNORED:
                self.found.skipped[by_number.get(int(number), f"tracepoint {number}")] += n
            self.found.every_switch |= bool(code == SWITCH)


def _sha256(data: np.ndarray) -> str:
    digest = hashlib.sha256()
    for at in range(0, len(data), 1 << 24):
        digest.update(data[at : at + (1 << 24)])  # type: ignore[arg-type]
    return digest.hexdigest()
