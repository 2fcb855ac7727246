"""Memory for much data: what is given back is used again, since the kernel clears every page that it gives.

A virtual machine may have to wait for its host as well: free pages go back to it (Documentation/mm/free_page_reporting.rst).
"""

from __future__ import annotations

import ctypes
import mmap
import threading
import weakref
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

#: <asm-generic/mman-common.h>
_MADV_DONTNEED = 4
_MADV_POPULATE_WRITE = 23
#: more than this is asked of the kernel in pages of 2 MiB, which it clears at once
_HUGE = 4 << 20
#: so much is kept of what was given back
_KEPT_BYTES = 128 << 20


class _Shelf:
    """Memory that was given back, the oldest first."""

    def __init__(self) -> None:
        self._kept: list[mmap.mmap] = []
        self._bytes = 0
        self._lock = threading.RLock()  # the collector of garbage may put while its thread takes

    def take(self, size: int) -> mmap.mmap | None:
        """The smallest that is large enough, but not more than twice as large."""
        with self._lock:
            fit = [m for m in self._kept if size <= len(m) <= 2 * size]
            if not fit:
                return None
            best = min(fit, key=len)
            self._kept.remove(best)
            self._bytes -= len(best)
            return best

    def put(self, memory: mmap.mmap) -> None:
        with self._lock:
            self._kept.append(memory)
            self._bytes += len(memory)
            while self._bytes > _KEPT_BYTES:
                self._bytes -= len(self._kept.pop(0))


_shelf = _Shelf()


def used(size: int) -> NDArray[np.uint8]:
    """At least ``size`` bytes of anything. Given back when no array looks at them any more."""
    size = max(size, 1)
    memory = _shelf.take(size)
    if memory is None:
        memory = _mapped(size)
        if size >= _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
    owner = (ctypes.c_char * len(memory)).from_buffer(memory)
    weakref.finalize(owner, _shelf.put, memory).atexit = False
    return np.frombuffer(owner, np.uint8)  # type: ignore[call-overload, no-any-return]


def sparse(size: int) -> NDArray[np.uint8]:
    """At least ``size`` zeros, little of which will be used: only what is touched is to become memory."""
    return np.frombuffer(_mapped(max(size, 1)), np.uint8)


def _mapped(size: int) -> mmap.mmap:
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def let_go(mapped: np.ndarray) -> None:
    """Have the pages of a mapped file unmapped, which takes as long as mapping them; others may run meanwhile.

    They come back when they are looked at again. Not for memory without a file: that would be cleared.
    """
    _madvise(mapped, _MADV_DONTNEED)


def populate(array: np.ndarray) -> None:
    """Have the kernel make memory of it now. Where it cannot (before 5.14), it will when it is looked at."""
    _madvise(array, _MADV_POPULATE_WRITE)


def _madvise(array: np.ndarray, advice: int) -> None:
    begin = array.ctypes.data // mmap.PAGESIZE * mmap.PAGESIZE
    size = ctypes.c_size_t(array.ctypes.data + array.nbytes - begin)
    _libc().madvise(ctypes.c_void_p(begin), size, advice)


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)
