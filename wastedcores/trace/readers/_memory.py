"""Fresh memory from the kernel, zeroed."""

from __future__ import annotations

import mmap

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
