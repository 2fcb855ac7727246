"""Reads ``perf.data`` directly, without perf."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import polars as pl

from wastedcores.files import digest_of_files
from wastedcores.trace.readers.perf_data import decoding
from wastedcores.trace.readers.perf_data import records_jit as pj
from wastedcores.trace.readers.perf_data.decoding import Found, TracepointReading, read_only, sha256
from wastedcores.trace.readers.perf_data.events import find_formats
from wastedcores.trace.readers.perf_data.header import read_header
from wastedcores.trace.readers.perf_data.plain import (
    PIPE_HEAD,
    decompress,
    files_of,
    from_folder,
    from_pipe,
    is_compressed,
)
from wastedcores.trace.readers.support.bytes_jit import PADDING
from wastedcores.trace.schema import KIND_DTYPE


class PerfDataReading(TracepointReading):
    """One pass over a perf.data file."""

    _advice = "record again, or import what perf script can still print of it"

    def __init__(self, path: Path, *, hashed: bool = False) -> None:
        super().__init__(path, "perf.data", hashed=hashed)
        self._state = np.array([-1, -1, -1, 0], np.int64)

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield event tables in order of time."""
        hashing = None
        if self.path.is_dir():
            mapped = from_folder(self.path, self._temporary())
        else:
            mapped = self._map()
            hashing = self._pool.submit(sha256, mapped) if self._hashed else None
            if mapped[8:16].tobytes() == PIPE_HEAD.to_bytes(8, "little"):
                mapped = from_pipe(mapped, self._temporary(), self.path)
        header = read_header(mapped, self.path)
        found = self.found
        found.kernel_release, found.cpus, found.clock = header.release, header.cpus, header.clock
        found.host, found.online = header.host, None if header.all_online else ()
        found.notes.update(header.notes)
        self._formats = find_formats(header.formats, self.path, header.samples)
        (begin, end), self._data = header.data, mapped
        if is_compressed(mapped, begin, end):
            self._data, begin, end = decompress(mapped, begin, end, self._temporary(), self.path)
        elif end + PADDING > len(mapped):  # rare, because features nearly always follow the records
            self._data = np.concatenate([mapped, np.zeros(PADDING, np.uint8)])
        self._data = read_only(self._data)
        yield from self._tables(begin, end)
        yield from self._lost_at_the_end()
        if header.overwrites:  # not before the sum of the stated losses is known
            found.overwritten[-1] = -1
            found.add_lost(-1, -1)
        self._count_samples({f.number: f.name for f in header.formats.values()})
        if self._hashed:
            found.sha256 = hashing.result() if hashing else digest_of_files(files_of(self.path))

    def _temporary(self) -> IO[bytes]:
        made: IO[bytes] = self.resources.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        return made

    def _search(self, at: int, end: int) -> Found:
        """Find the next records."""
        size = decoding.CHUNK_RECORDS
        records = pj.Records(np.empty(size, np.int64), np.empty(size, np.int64))
        n, at, problem = pj.index(
            self._data, at, end, self._formats, records, self._state, self._counts
        )
        safe = int(self._state[pj.SAFE])
        return Found(pj.Records(*(a[:n] for a in records)), at, problem, safe)

    def _lost_at_the_end(self) -> Iterator[pl.DataFrame]:
        """Count the lost events that only PERF_RECORD_LOST_SAMPLES states, and yield one event for them.

        The kernel writes a PERF_RECORD_LOST when a buffer has room again, so it never states a loss that lasts until the
        end. At the end of the file, perf record (6.1 and later) states all losses of every event, including those that a
        PERF_RECORD_LOST stated. Time and CPU of these records are 0 (tools/perf/builtin-record.c: record__read_lost_samples).
        """
        stated = sum(self.found.lost.values())
        more = int(self._state[pj.LOST_SAMPLES]) - stated
        if more > 0:
            self.found.add_lost(-1, more)
            end_ns = max(int(self._state[pj.NEWEST]), 0)
            event = {"ts_ns": [end_ns], "kind": ["lost"], "value": [more]}
            yield pl.DataFrame(event).cast({"kind": KIND_DTYPE})
