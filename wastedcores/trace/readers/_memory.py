"""Fresh memory from the kernel, zeroed."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

#: <asm-generic/mman-common.h>
_MADV_DONTNEED = 4
#: more than this is asked of the kernel in pages of 2 MiB, which it clears at once
_HUGE = 4 << 20


def pages(size: int, *, sparse: bool = False) -> mmap.mmap:
    """At least ``size`` bytes.

    Parameters
    ----------
    sparse
        Little of it will be used: only what is touched is to become memory.
    """
    memory = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= _HUGE and not sparse and hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def let_go(mapped: np.ndarray) -> None:
    """Have the pages of a mapped file unmapped, which takes as long as mapping them; others may run meanwhile.

    They come back when they are looked at again. Not for memory without a file: that would be cleared.
    """
    page = mmap.PAGESIZE
    begin = mapped.ctypes.data // page * page
    size = ctypes.c_size_t(mapped.ctypes.data + mapped.nbytes - begin)
    ctypes.CDLL(None).madvise(ctypes.c_void_p(begin), size, _MADV_DONTNEED)
