"""Decodes the tracepoints of a binary file into event tables: one thread finds records, and other threads decode them."""

from __future__ import annotations

import hashlib
import mmap
import os
import threading
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from wastedcores.errors import TraceContentError, TraceFormatError, WastedCoresError
from wastedcores.limits import MAX_CPUS, PID_MAX_LIMIT
from wastedcores.trace.readers.perf_data import fields_jit as pf
from wastedcores.trace.readers.perf_data import records_jit as pj
from wastedcores.trace.readers.perf_data.order_jit import sort_runs
from wastedcores.trace.readers.support.event_columns import (
    CategoryCodes,
    NameTable,
    columns_for,
    table_of,
)
from wastedcores.trace.readers.support.event_columns_jit import HAS_CPU, Columns
from wastedcores.trace.readers.support.names_jit import COMM_MAX
from wastedcores.trace.readers.support.reading import Reading
from wastedcores.trace.readers.support.sched_waking import NOTE as WAKINGS_NOTE
from wastedcores.trace.readers.support.tracepoints import SWITCH


class Waiting:
    """Records that were found but not handed out yet, because records with earlier times may still follow.

    perf empties the CPUs' buffers in rounds. So no record follows that is older than the newest record of the round before last.
    """

    def __init__(self) -> None:
        self._found: list[pj.Records] = []
        self._safe = -1

    def add(self, records: pj.Records) -> None:
        """Add records in file order."""
        self._found.append(records)

    def take(self, safe: int, last: bool) -> pj.Records:
        """Remove the records up to the time ``safe``, before which no further record can lie, and return them sorted."""
        if not last and safe <= self._safe:
            return pj.Records(np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._safe = safe
        ts = np.concatenate([r.ts for r in self._found])
        ref = np.concatenate([r.ref for r in self._found])
        n = ts.size
        sort_runs(ts, ref, n, np.empty(n + 1, np.int64), np.empty((2, n), np.int64))
        ready = n if last else int(ts.searchsorted(safe, side="right"))
        self._found = [pj.Records(ts[ready:], ref[ready:])]
        return pj.Records(ts[:ready], ref[:ready])

    def put_back(self, records: pj.Records) -> None:
        """Put back the last of the records that :meth:`take` returned."""
        self._found.insert(0, records)


class ThreadNames:
    """The names of threads, as the records of forks and of changed names state them."""

    def __init__(self, table: NameTable) -> None:
        self.table = table
        self._now, self._before = np.zeros((2, PID_MAX_LIMIT + 1), np.uint32)
        self._latest = np.zeros(PID_MAX_LIMIT + 1, np.int32)
        swapper = table.number(b"swapper")
        self._now[0] = swapper + 1
        self._before[0] = table.codes()[swapper] + 1

    def know(self, comms: Mapping[int, bytes]) -> None:
        """Take the names of threads that a trace.dat states for the whole recording."""
        known = {
            tid: name
            for tid, name in {**comms, 0: b"<idle>"}.items()
            if tid <= PID_MAX_LIMIT
            and name != b"<...>"  # "<...>" is what the kernel prints if it has forgotten the name
        }
        numbers = {n: self.table.number(n[:COMM_MAX]) for n in dict.fromkeys(known.values())}
        codes = self.table.codes()
        self._before[list(known)] = codes[[numbers[n] for n in known.values()]] + 1

    def learn(self, data: np.ndarray, ref: np.ndarray) -> pj.Comms:
        """Return the names that threads have at each record of a batch."""
        changes = pj.comm_records(ref, 0, ref.size)
        comms = pj.Comms(
            self._before,
            self._latest,
            np.empty(changes, np.int64),
            np.empty(changes, np.int32),
            np.empty(changes, np.uint32),
            np.empty(changes, np.int32),
        )
        i = found = 0
        while changes:
            i, found, problem = pj.learn_comms(
                data, ref, i, self._now, self.table.table, found, comms
            )
            if problem == pj.OK:
                break
            self.table.grow()
        name = comms.name[:found]
        name[name > 0] = self.table.codes()[name[name > 0] - 1] + 1
        return comms._replace(
            since=comms.since[:found],
            tid=comms.tid[:found],
            name=name,
            earlier=comms.earlier[:found],
        )


#: Number of records that are searched for at a time.
CHUNK_RECORDS = 1 << 16
#: Number of events that one thread decodes at a time.
CHUNK_ROWS = 1 << 15
#: The most events of a table, unless more records become ready at once.
TABLE_ROWS = 1 << 20

_PROBLEMS = {
    pj.TOO_SHORT: "a record is shorter than its head",
    pj.BAD_TIME: "the time of a record has more than 63 bits",
    pj.BAD_FIELDS: "a record is shorter than the fields of its tracepoint",
    pj.BAD_CPU: f"a record names a CPU that cannot exist: Linux has CPUs 0 to {MAX_CPUS - 1} at most",
    pj.BAD_PRIO: "a record has a priority of more than 16 bits",
    pj.BAD_LOST: f"a record says that more than {pj.MAX_LOST} events were lost",
    pj.BAD_PAGE: "a page of the ring buffer says that it holds more than a page",
}


class Found(NamedTuple):
    """Records that were found, the place to continue, the problem at that place, and a time before which no other record lies."""

    records: pj.Records
    at: int
    problem: int
    safe: int


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


class TracepointReading(Reading):
    """One pass over a file of tracepoints that is mapped into memory: perf.data, or trace.dat."""

    kernel_states = True
    #: the layouts of records and tracepoints, set before the first search
    _formats: pj.Formats
    #: the bytes of the file, or of its unpacked records
    _data: np.ndarray
    #: what the user can do about a damaged file
    _advice = "record again"

    def __init__(self, path: Path, source_format: str, *, hashed: bool = False) -> None:
        super().__init__(path, source_format)
        self._hashed = hashed
        self._categories = CategoryCodes()
        self._threads = ThreadNames(NameTable(self._categories))
        self._first_names: np.ndarray | None = (
            None  # the names of the threads that existed when perf began
        )
        self._changes: pj.Comms | None = None  # changes of names in the previous batch
        self._worker = threading.local()
        self._counts = np.zeros(65536, np.int64)
        self._cpus_seen = np.zeros(MAX_CPUS, np.bool_)
        self._pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)) + hashed)
        self.resources.callback(self._pool.shutdown, cancel_futures=True)

    @abstractmethod
    def _search(self, at: int, end: int) -> Found:
        """Find the next records from byte ``at`` on. Calls run in a thread, one after the other."""

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
        search: Future[Found] | None
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

    def _whole(self, records: pj.Records, i: int, n: int) -> int:
        """Return where to cut the records ``i`` to ``n`` without separating a sched_waking from its sched_migrate_task."""
        if not self._formats.place:
            return n
        return pj.whole_until(self._data, records, i, n, self._formats, self._cpus_seen)

    def _start_decoding(self, records: pj.Records, table: _Table) -> None:
        """Let threads write these events into the table; each thread writes a part."""
        if self._changes:
            # threads may still look up names for earlier parts, and these names are about to change
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
                self.found.wakings = True
                self.found.notes["wakeups"] = WAKINGS_NOTE
            if problem == pj.NAMES_FULL:
                own.names.grow()
            elif problem != pj.NAMES_NEW:
                break
        self._refuse(problem, int(records.ref[i]) >> pj.PLACE if problem else 0, 0)

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
        kind, (execs, marks) = columns.kind[:rows], self._formats.kinds[[pj.EXEC, pj.MARK]]
        # np.isin would take ten times as long
        at = np.flatnonzero((kind == execs) | (kind == marks))
        texts = []
        for word in columns.text[at].tolist():
            raw = self._data[word >> 16 : (word >> 16) + (word & 0xFFFF)].tobytes().split(b"\0")[0]
            texts.append(raw.decode("utf-8", "replace").rstrip("\n"))
        column = pl.Series([None], dtype=pl.String).new_from_index(0, frame.height)
        return frame.with_columns(text=column.scatter(at, texts) if texts else column)

    def _refuse(self, problem: int, at: int, end: int) -> None:
        """Raise the error that belongs to a problem of the record at byte ``at``; if the file is only cut there, note this."""
        if problem == pj.CUT:
            self.found.truncated = f"the last record, at byte {at} of {end}, is cut short"
        elif problem == pj.COMPRESSED:
            raise TraceFormatError(
                f"{self.path}: byte {at}: a compressed record follows plain ones, which perf does not write. Import "
                "the text instead: perf script --show-lost-events -F +cpu."
            )
        elif problem:
            raise TraceContentError(
                f"{self.path}: byte {at}: {_PROBLEMS[problem]}. The file is damaged: {self._advice}."
            )

    def _count_samples(self, names: Mapping[int, str]) -> None:
        """Note which tracepoints were seen, and which of them were left out; ``names`` has all names by number."""
        for number in np.flatnonzero(self._counts):
            code, n = self._formats.codes[number], int(self._counts[number])
            if code == pj.IGNORED:
                self.found.skipped[names.get(int(number), f"tracepoint {number}")] += n
            self.found.every_switch |= bool(code == SWITCH)


def read_only(data: np.ndarray) -> np.ndarray:
    """Return the bytes as a read-only array, which a mapped file is, too, so that numba compiles for one kind of array only."""
    view = data.view()
    view.flags.writeable = False
    return view


def sha256(data: np.ndarray) -> str:
    """Return the SHA-256 of bytes in hexadecimal."""
    digest = hashlib.sha256()
    for at in range(0, len(data), 1 << 24):
        digest.update(data[at : at + (1 << 24)])  # type: ignore[arg-type]
    return digest.hexdigest()
