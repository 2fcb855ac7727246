"""Reads ``trace.dat`` directly, without trace-cmd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from wastedcores.trace.readers.perf_data import records_jit as pj
from wastedcores.trace.readers.perf_data.decoding import Found, TracepointReading, sha256
from wastedcores.trace.readers.perf_data.events import find_formats
from wastedcores.trace.readers.support.tracepoints import WAKEUP, WAKING
from wastedcores.trace.readers.trace_dat.header import Buffer, DatHeader, read_header
from wastedcores.trace.readers.trace_dat.pages import Pages
from wastedcores.trace.schema import KINDS


class TraceDatReading(TracepointReading):
    """One pass over a trace.dat file of version 6 or 7. If it has several buffers, the one with most scheduler events is read."""

    _advice = "copy or record it again"

    def __init__(self, path: Path, *, hashed: bool = False) -> None:
        super().__init__(path, "trace.dat", hashed=hashed)
        #: whether the recording has sched_waking and no sched_wakeup; None: neither event was seen yet
        self._only_wakings: bool | None = None

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield event tables in order of time."""
        mapped = self._map()
        header = self._read_header(mapped)
        hashing = self._pool.submit(sha256, mapped) if self._hashed else None
        opened = {n: self._open(mapped, b, header) for n, b in _filled(header).items()}
        hotplug = header.hotplug.result() if header.hotplug else None
        formats = find_formats(
            header.formats, self.path, page_start=header.page_start, hotplug=hotplug
        )
        self._formats = formats._replace(place=False)
        buffer, self._pages = self._choose(opened, header)
        self._data = self._pages.data
        found = self.found
        found.kernel_release, found.host, found.cpus = header.release, header.host, header.cpus
        found.clock = buffer.clock
        if buffer.blocks:
            found.source_format = "tracefs"
        found.truncated = header.truncated
        found.overwritten.update(buffer.overrun)
        self._threads.know(header.comms)
        for frame in self._tables(0, self._pages.size):
            late = header.offset_ns
            yield frame.with_columns(pl.col("ts_ns") + late) if late else frame
        self._count_samples(header.names)
        # the pages say where events were lost, and the kernel's counts say how many
        for cpu, n in (buffer.overrun + buffer.dropped).items():
            found.lost[cpu] = n
        found.sha256 = hashing.result() if hashing else None

    def _read_header(self, mapped: np.ndarray) -> DatHeader:
        return read_header(mapped, self.path, self._pool)

    def _choose(self, opened: dict[str, Pages], header: DatHeader) -> tuple[Buffer, Pages]:
        """Choose the buffer with the most scheduler events, and note what is left out."""
        if len(opened) == 1:
            events, (name, pages) = {}, next(iter(opened.items()))
        else:
            events = {n: self._sched_events(p, header) for n, p in opened.items()}
            name = max(opened, key=lambda n: events[n])
            pages = opened[name].again()
        if len(header.buffers) > 1:
            self.found.notes["buffer"] = name or "the top one"
            others = [
                f"{n or 'the top one'} ({k} events)" for n, k in events.items() if k and n != name
            ]
            if others:
                self.found.notes["buffers_left_out"] = ", ".join(others)
        return header.buffers[name], pages

    def _open(self, mapped: np.ndarray, buffer: Buffer, header: DatHeader) -> Pages:
        return Pages(mapped, buffer, header, self.path, self._pool, self.resources)

    def _sched_events(self, pages: Pages, header: DatHeader) -> int:
        """Count the scheduler's events in a buffer."""
        counts = np.zeros(65536, np.int64)
        while pages.live is None or pages.live:
            _, where, problem = pages.take(self._formats, counts)
            self._refuse(problem, where, 0)
        return sum(int(counts[n]) for n, name in header.names.items() if name.startswith("sched_"))

    def _search(self, at: int, end: int) -> Found:
        """Take the next events of all CPUs."""
        records, where, problem = self._pages.take(self._formats, self._counts)
        if self._only_wakings is None:
            self._settle(records)
        safe = int(records.ts[-1]) if records.ts.size else at
        at = where if problem else self._pages.done
        return Found(records, at, problem, safe)

    def _settle(self, records: pj.Records) -> None:
        """Decide whether sched_waking events become wakeups: they do if the first records with either have no sched_wakeup."""
        codes = records.ref & 255
        if (codes == WAKEUP).any():
            self._only_wakings = False
            self._formats.kinds[WAKING] = KINDS.index("waking")
        elif (codes == WAKING).any():
            self._only_wakings = True
            self._formats = self._formats._replace(place=True)


def _filled(header: DatHeader) -> dict[str, Buffer]:
    """Return the buffers that have pages; if no buffer has any, return the first buffer."""
    filled = {n: b for n, b in header.buffers.items() if any(size for _, _, size in b.pages)}
    return filled or dict([next(iter(header.buffers.items()))])
