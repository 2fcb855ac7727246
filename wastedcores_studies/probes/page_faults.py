"""The cost of touching newly allocated memory (Sites, Anomalies in Linux Processor Use, Figure 6)."""

from __future__ import annotations

import ctypes
import mmap
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from statistics import median

import numpy as np
import polars as pl

from wastedcores.errors import UsageError

#: length of the article's allocation, in bytes
LENGTH = 1_000_000
HUGE = 2 << 20
#: madvise(2): make these pages present and writable at once, as writing to each of them would (Linux 5.14)
MADV_POPULATE_WRITE = 23
_LONGEST = 1 << 30
_NOT_LINUX = "Page faults are measured with Linux's mmap() and madvise(); this is another system."

_now = time.perf_counter_ns


def measure(length: int = LENGTH, runs: int = 9) -> pl.DataFrame:
    """Measure what it costs to allocate memory and to touch each of its pages, in several ways.

    Parameters
    ----------
    length
        Bytes of an allocation.
    runs
        The number of allocations; the results are medians over them.

    Returns
    -------
    polars.DataFrame
        One row per way: way, faults (page faults of the first touch), allocate_us (mmap() and madvise()), touch_us (the first
        touch of each page), again_us (the second), page_us (allocation and first touch, per page). A way that this kernel does
        not offer is left out.

    Raises
    ------
    UsageError
        The length or the number of runs is impossible, or this is not Linux.
    """
    if not 1 <= length <= _LONGEST or runs < 1:
        raise UsageError(f"{length} bytes, {runs} runs: expected 1 B to 1 GiB, and at least 1 run.")
    pages = -(-length // mmap.PAGESIZE)
    rows = []
    for way, allocate in _ways(length).items():
        try:
            # one more run, whose result is left out, because this program itself touches memory for the first time in it
            made = [_once(allocate, pages, way == "read first") for _ in range(runs + 1)][1:]
        except OSError:
            continue
        faults, *times = (median(column) for column in zip(*made, strict=True))
        allocate_us, touch_us, again_us = (t / 1e3 for t in times)
        rows.append(
            {
                "way": way,
                "faults": int(faults),
                "allocate_us": allocate_us,
                "touch_us": touch_us,
                "again_us": again_us,
                "page_us": (allocate_us + touch_us) / pages,
            }
        )
    return pl.DataFrame(rows)


def faults_over_time(length: int = LENGTH) -> pl.DataFrame:
    """Touch each page of a new allocation of ``length`` bytes, and note when each touch began and ended.

    A row has page, start_ns and end_ns since the allocation began. Page -1 is the allocation itself.
    """
    begin = _now()
    memory = _private(length)
    at = [begin, _now()]
    for offset in range(0, length, mmap.PAGESIZE):
        start = _now()
        memory[offset] = 1
        at += [start, _now()]
    memory.close()
    starts, ends = np.array(at[::2]) - begin, np.array(at[1::2]) - begin
    return pl.DataFrame(
        {"page": np.arange(-1, len(starts) - 1), "start_ns": starts, "end_ns": ends}
    )


def _ways(length: int) -> dict[str, Callable[[], tuple[mmap.mmap, int]]]:
    """Return functions that allocate memory; each returns the memory, and the offset at which touching begins."""

    def groups(pages: int) -> Callable[[], tuple[mmap.mmap, int]]:
        def allocate() -> tuple[mmap.mmap, int]:
            memory, step = _private(length), pages * mmap.PAGESIZE
            for offset in range(0, length, step):
                memory.madvise(MADV_POPULATE_WRITE, offset, min(step, length - offset))
            return memory, 0

        return allocate

    def populated() -> tuple[mmap.mmap, int]:
        try:
            return groups(-(-length // mmap.PAGESIZE))()
        except OSError:  # before Linux 5.14, where THP may make the pages of a long mapping huge
            return _private(length, mmap.MAP_POPULATE), 0

    return {
        "touch": lambda: (_private(length), 0),
        "read first": lambda: (_private(length), 0),
        "4 pages at once": groups(4),
        "16 pages at once": groups(16),
        "populate all": populated,
        "huge pages": lambda: _huge(length),
    }


def _private(length: int, more: int = 0) -> mmap.mmap:
    """Map anonymous memory in pages of the usual size."""
    if not sys.platform.startswith("linux"):
        raise UsageError(_NOT_LINUX)
    memory = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | more)
    with suppress(OSError):  # a kernel that has no huge pages
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return memory


def _huge(length: int) -> tuple[mmap.mmap, int]:
    """Map anonymous memory in huge pages; touching begins at the first address where a huge page begins."""
    memory = mmap.mmap(-1, length + 2 * HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    byte = ctypes.c_char.from_buffer(memory)
    offset = -ctypes.addressof(byte) % HUGE
    del byte
    return memory, offset


def _once(
    allocate: Callable[[], tuple[mmap.mmap, int]], pages: int, read: bool
) -> tuple[int, int, int, int]:
    """Allocate, touch twice and free; return the faults and the three times in ns."""
    begin = _now()
    memory, offset = allocate()
    allocated = _now()
    view = np.frombuffer(memory, np.uint8, offset=offset)[: pages * mmap.PAGESIZE : mmap.PAGESIZE]
    before, start = _faults(), _now()
    if read:
        view.sum()
    view[:] = 1
    first, faults = _now(), _faults() - before
    view[:] = 2
    second = _now()
    del view
    memory.close()
    return faults, allocated - begin, first - start, second - first


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
