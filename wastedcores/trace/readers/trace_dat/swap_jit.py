"""Turns the pages of a big-endian machine's ring buffers into the pages that a little-endian machine would have written.

Formats: as in ring_page_jit.py. The bit fields of an entry's first word have the machine's order, too: here the type is in the
upper five bits (struct ring_buffer_event, include/linux/ring_buffer.h).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import lean
from wastedcores.trace.readers.support import ring_page_jit as rj

U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


@lean
def _reverse(b: U8, at: int, size: int) -> None:
    """Reverse the bytes of a number."""
    for i in range(size // 2):
        one, other = b[at + i], b[at + size - 1 - i]
        b[at + i], b[at + size - 1 - i] = other, one


@lean
def _value(b: U8, at: int) -> Any:
    """Return the little-endian number of the four bytes at ``at``."""
    value: Any = 0
    for i in range(4):
        value |= np.int64(b[at + i]) << 8 * i
    return value


@lean
def _number(b: U8, at: int) -> Any:
    """Reverse the four bytes of a number, and return it."""
    _reverse(b, at, 4)
    return _value(b, at)


@lean
def _swap_page(b: U8, page: int, bound: int, start: int, rows: I32, fields: I64) -> None:
    """Swap the bytes of one page; entries that do not fit into it are left as they are, and the page's reader refuses them."""
    if page + start > bound:
        return
    _reverse(b, page, 8)
    _reverse(b, page + 8, start - 8)
    commit = _value(b, page + 8)
    at, stop = page + start, page + start + (commit & rj.PAGE_BYTES)
    if stop > bound:
        return
    if commit & rj.MISSED_STORED and stop + start - 8 <= bound:
        _reverse(b, stop, start - 8)
    while at + 4 <= stop:
        word = _number(b, at)
        kind, delta = word >> rj.DELTA_BITS, word & ((1 << rj.DELTA_BITS) - 1)
        word = kind | delta << rj.TYPE_BITS
        for i in range(4):
            b[at + i] = word >> 8 * i & 255
        if (kind == rj.PADDING_TYPE and delta == 0) or at + 8 > stop:
            return
        if kind == rj.TIME_EXTEND or kind == rj.TIME_STAMP:
            _number(b, at + 4)
            at += 8
            continue
        if kind == rj.PADDING_TYPE:
            at += 4 + max(_number(b, at + 4), 4)
            continue
        data, size = at + 4, 4 * kind
        if kind == 0:
            data, size = at + 8, _number(b, at + 4) - 4
        if size < 8 or data + size > stop:
            return
        _reverse(b, data, 2)
        _reverse(b, data + 4, 4)
        row = rows[np.int64(b[data]) | np.int64(b[data + 1]) << 8]
        if row >= 0:
            for i in range(fields.shape[1]):
                if fields[row, i, 1] and fields[row, i, 0] + fields[row, i, 1] <= size:
                    _reverse(b, data + fields[row, i, 0], fields[row, i, 1])
        at = data + (size + 3 & ~3)


@lean
def swap_pages(
    b: U8, begin: int, end: int, page_bytes: int, start: int, rows: I32, fields: I64
) -> None:
    """Swap the bytes of all pages between two places."""
    page = begin
    while page < end:
        bound = min(page + page_bytes, end)
        _swap_page(b, page, bound, start, rows, fields)
        page = bound
