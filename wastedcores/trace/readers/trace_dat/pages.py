"""Unpacks the pages of one buffer of a ``trace.dat`` file, and finds the events in them in the order of their times."""

from __future__ import annotations

import os
import struct
import tempfile
from concurrent.futures import Executor
from contextlib import ExitStack
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

import numpy as np
import zstandard

from wastedcores.errors import TraceFormatError, WastedCoresError
from wastedcores.trace.readers.perf_data import decoding
from wastedcores.trace.readers.perf_data import records_jit as pj
from wastedcores.trace.readers.support.bytes_jit import PADDING
from wastedcores.trace.readers.trace_dat import ring_jit as rj
from wastedcores.trace.readers.trace_dat.cursor import MOST_TIMES, unpack
from wastedcores.trace.readers.trace_dat.header import Buffer, DatHeader

#: A chunk with more bytes than this is refused; trace-cmd puts ten pages into one.
_MAX_CHUNK = 1 << 28
#: Chunks that a thread unpacks at a time.
_CHUNKS = 64
#: Up to this many bytes are unpacked into memory; if there are more, all are unpacked into a temporary file.
_IN_MEMORY = 1 << 28


class Pages:
    """The pages of one buffer.

    Parameters
    ----------
    mapped
        The bytes of the file.
    buffer
        The buffer.
    header
        The head of the file, which tells the size and the order of bytes of a page.
    path
        The file, for messages.
    pool
        The threads that unpack.
    resources
        What closes the temporary files in the end.

    Attributes
    ----------
    data
        The bytes to which the places of events refer.
    size
        The number of bytes of all pages.
    live
        The number of CPUs that still have events to take; None before the first call of :meth:`take`.
    """

    def __init__(
        self,
        mapped: np.ndarray,
        buffer: Buffer,
        header: DatHeader,
        path: Path,
        pool: Executor,
        resources: ExitStack,
    ) -> None:
        self.path, self.page_bytes = path, header.page_bytes
        self.data, places = mapped, buffer.pages
        if buffer.compressed or buffer.blocks:
            plain = resources.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
            if buffer.blocks:
                self.data, places = _gathered(mapped, buffer, plain, path)
            else:
                self.data, places = _unpacked(mapped, buffer, header, plain, path, pool)
        if header.order == "big":
            plain = resources.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
            self.data, places = _swapped(self.data, places, header, plain, path)
        self.data = decoding.read_only(self.data)
        self._cpus = np.zeros((len(places), rj.N_COLUMNS), np.int64)
        self._cpus[:, rj.LOSS] = -1
        for row, (cpu, at, size) in zip(self._cpus, sorted(places), strict=True):
            row[[rj.CPU, rj.PAGE, rj.END, rj.BEGUN]] = cpu, at, at + size, not buffer.overrun[cpu]
        self.size = sum(size for _, _, size in places)
        self._initial = self._cpus.copy()
        self._heap = np.zeros(len(places) + 1, np.int64)
        self.live: int | None = None

    def again(self) -> Self:
        """Go back to the beginning."""
        self._cpus[:] = self._initial
        self.live = None
        return self

    @property
    def done(self) -> int:
        """How many bytes have been passed, in whole pages; this is less than :attr:`size` as long as more events follow."""
        done = int((self._cpus[:, rj.PAGE] - self._initial[:, rj.PAGE]).sum())
        return self.size if self.live == 0 else min(done, self.size - 1)

    def take(self, formats: pj.Formats, counts: np.ndarray) -> tuple[pj.Records, int, int]:
        """Take the next events, or losses, of all CPUs."""
        size = decoding.CHUNK_RECORDS
        records = pj.Records(np.empty(size, np.int64), np.empty(size, np.int64))
        n, problem = 0, pj.OK
        if self.live is None:
            live, problem = rj.begin(
                self.data, self._cpus, self._heap, self.page_bytes, formats, counts
            )
            row = self._heap[live]
            self.live = live
        if problem == pj.OK:
            n, self.live, problem = rj.merge(
                self.data,
                self._cpus,
                self._heap,
                self.live,
                self.page_bytes,
                formats,
                counts,
                records,
            )
            row = self._heap[0]
        at = int(self._cpus[row, rj.AT]) if problem else 0
        return pj.Records(*(a[:n] for a in records)), at, problem


def _unpacked(
    mapped: np.ndarray,
    buffer: Buffer,
    header: DatHeader,
    plain: Any,
    path: Path,
    pool: Executor,
) -> tuple[np.ndarray, list[tuple[int, int, int]]]:
    """Unpack all chunks into a temporary file; return its bytes, and the places of the CPUs' pages in it."""
    chunks: list[tuple[int, int, int, int]] = []
    places, total = [], 0
    for cpu, at, size in buffer.pages:
        begin = total
        for chunk in _chunks(mapped, at, size, header, path):
            chunks.append((*chunk, total))
            total += chunk[2]
            if total > MOST_TIMES * len(mapped):
                raise TraceFormatError(
                    f"{path}: byte {at}: its compressed events have more than {MOST_TIMES} times the size of the file, "
                    "which trace-cmd never packed. The file is damaged or made to fill a disk."
                )
        places.append((cpu, begin, total - begin))
    data = _room(total, plain, path)

    def fill(part: list[tuple[int, int, int, int]]) -> None:
        unpacker = zstandard.ZstdDecompressor()
        for at, packed, size, to in part:
            raw = mapped[at : at + packed].tobytes()
            content = unpack(raw, size, path, at, header.packing, unpacker)
            data[to : to + size] = np.frombuffer(content, np.uint8)

    for _ in pool.map(fill, (chunks[i : i + _CHUNKS] for i in range(0, len(chunks), _CHUNKS))):
        pass
    return np.asarray(data), places


def _gathered(
    mapped: np.ndarray, buffer: Buffer, plain: Any, path: Path
) -> tuple[np.ndarray, list[tuple[int, int, int]]]:
    """Put the blocks of each CPU together; return all bytes, and the places of the CPUs' pages in them."""
    data = _room(sum(size for _, _, size in buffer.blocks), plain, path)
    places, to = [], 0
    for cpu, blocks in groupby(sorted(buffer.blocks), key=itemgetter(0)):
        begin = to
        for _, at, size in blocks:
            data[to : to + size] = mapped[at : at + size]
            to += size
        places.append((cpu, begin, to - begin))
    return np.asarray(data), places


def _room(size: int, plain: Any, path: Path) -> np.ndarray:
    """Return room for ``size`` bytes and the padding after them, in memory or in a temporary file."""
    if size <= _IN_MEMORY:
        return np.zeros(size + PADDING, np.uint8)
    try:
        # writing to a map of a full disk would be fatal
        os.posix_fallocate(plain.fileno(), 0, size + PADDING)
        return np.memmap(plain, np.uint8, "r+")
    except OSError as e:
        raise WastedCoresError(
            f"{path}: unpacking its compressed events to {tempfile.gettempdir()} failed ({e.strerror or e}). "
            "Set TMPDIR to a folder with room."
        ) from e


def _swapped(
    data: np.ndarray, places: list[tuple[int, int, int]], header: DatHeader, plain: Any, path: Path
) -> tuple[np.ndarray, list[tuple[int, int, int]]]:
    """Copy big-endian pages and make the copies little-endian; return all bytes, and the places of the CPUs' pages in them."""
    from wastedcores.trace.readers.trace_dat.swap_jit import swap_pages

    rows = np.full(65536, -1, np.int32)
    numbers = [
        [
            (at, size)
            for kind, at, size in f.fields.values()
            if size in (2, 4, 8) and (kind[-1:] != "]" or kind.startswith("__data_loc"))
        ]
        for f in header.formats.values()
    ]
    fields = np.zeros((len(numbers), max(map(len, numbers), default=0) or 1, 2), np.int64)
    for row, (format, mine) in enumerate(zip(header.formats.values(), numbers, strict=True)):
        rows[format.number] = row
        # the common fields, which lie in the first 8 bytes of every event, are swapped anyway
        own = [f for f in mine if f[0] >= 8]
        fields[row, : len(own)] = np.array(own, np.int64).reshape(-1, 2)
    room = _room(sum(size for _, _, size in places), plain, path)
    there, to = [], 0
    for cpu, at, size in places:
        room[to : to + size] = data[at : at + size]
        swap_pages(room, to, to + size, header.page_bytes, header.page_start, rows, fields)
        there.append((cpu, to, size))
        to += size
    return np.asarray(room), there


def _chunks(
    mapped: np.ndarray, at: int, size: int, header: DatHeader, path: Path
) -> list[tuple[int, int, int]]:
    """Return the place, the packed size and the unpacked size of each of a CPU's chunks."""
    order = ">" if header.order == "big" else "<"
    end = at + 4 + size  # trace-cmd 3.1 does not count the number of chunks in this size
    if not size:
        return []
    found = []
    count = struct.unpack(f"{order}I", mapped[at : at + 4].tobytes())[0] if size >= 4 else 0
    at += 4
    for _ in range(min(count, size // 8)):
        packed, plain = (
            struct.unpack(f"{order}II", mapped[at : at + 8].tobytes())
            if at + 8 <= end
            else (size, 0)
        )
        at += 8
        if at + packed > end or plain > _MAX_CHUNK:
            break
        found.append((at, packed, plain))
        at += packed
    if len(found) != count:
        raise TraceFormatError(
            f"{path}: byte {at}: {count} chunks of compressed events should be here, and {len(found)} fit in. The file is cut "
            "short or damaged: copy or record it again."
        )
    return found
