"""Numbers made small as Parquet has them: codes into a dictionary, bits without gaps, differences.

Format: https://github.com/apache/parquet-format/blob/master/Encodings.md (RLE_DICTIONARY, DELTA_BINARY_PACKED).
Bitmaps of what is there have a bit for each row, lowest first, which is Arrow's bitmap and Parquet's definition levels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wastedcores.engine._jit import jit

U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]

#: values of a block of differences, and of a part of it that has bits of its own
BLOCK, PART = 128, 32


@jit
def encode(
    values: I32, valid: U8, skip: int, lookup: I32, low: int, codes: I32, first: I32
) -> tuple[int, int]:
    """Number the values that are there in the order in which they come first.

    Parameters
    ----------
    values
        (rows,); what is null may be anything.
    valid, skip
        Bitmap and the bit of row 0; an empty one: all are there.
    lookup, low
        Zero for every value from ``low`` on; left with each value's number plus 1.
    codes
        (rows + 1,) filled: the number of each value that is there, without gaps.
    first
        (rows,) filled: where each number's value came first.

    Returns
    -------
    present, distinct
        How many values are there and how many different ones; distinct is -1 if one lies outside of ``lookup``.
    """
    present = np.uintp(0)  # no sign: numba need not ask whether to count from the end
    if valid.size:  # first where they are, without a branch: what is null cannot be foretold
        for i in range(values.size):
            k = np.uintp(i + skip)
            codes[present] = i
            present += (np.uintp(valid[k >> np.uintp(3)]) >> (k & np.uintp(7))) & np.uintp(1)
    else:
        for i in range(values.size):
            codes[i] = i
        present = np.uintp(values.size)
    distinct = 0
    for i in range(int(present)):
        r = np.uintp(i)
        row = codes[r]
        slot = np.int64(values[np.uintp(row)]) - low
        if slot < 0 or slot >= lookup.size:
            return int(present), -1
        code = lookup[np.uintp(slot)]
        if code == 0:
            first[distinct] = row
            distinct += 1
            code = distinct
            lookup[np.uintp(slot)] = code
        codes[r] = code - 1
    return int(present), distinct


@jit
def compact(values: I64, valid: U8, skip: int, out: I64) -> int:
    """Copy the values that are there without gaps; how many there are. ``out`` has one more than ``values``."""
    present = np.uintp(0)
    for i in range(values.size):
        k = np.uintp(i + skip)
        out[present] = values[np.uintp(i)]
        present += (np.uintp(valid[k >> np.uintp(3)]) >> (k & np.uintp(7))) & np.uintp(1)
    return int(present)


@jit
def pack(codes: I32, n: int, width: int, out: U64) -> int:
    """Write the first ``n`` codes with ``width`` bits each, lowest bit first, in whole groups of 8.

    Parameters
    ----------
    out
        Filled: little-endian words; room for ``n * width / 64 + 2 + width / 8`` of them.

    Returns
    -------
    int
        How many bytes.
    """
    word = np.uint64(0)
    fill = 0
    k = 0
    for i in range(n):
        code = np.uint64(codes[i])
        word |= code << np.uint64(fill)
        fill += width
        if fill >= 64:
            out[k] = word
            k += 1
            fill -= 64
            word = code >> np.uint64(width - fill) if fill else np.uint64(0)
    size = (n + 7) // 8 * width
    while 8 * k < size:
        out[k] = word
        word = np.uint64(0)
        k += 1
    return size


@jit
def _number(out: U8, at: int, value: int) -> int:
    """Write ``value`` with 7 bits per byte; where it ends."""
    while value >= 128:
        out[at] = value & 127 | 128
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


@jit
def _signed(out: U8, at: int, value: int) -> int:
    """Write ``value`` with its sign in the lowest bit; where it ends."""
    return _number(out, at, 2 * value if value >= 0 else -2 * value - 1)


@jit
def differences(values: I64, n: int, words: U64, raw: U8, out: U8) -> int:
    """Write the first ``n`` values as DELTA_BINARY_PACKED.

    Parameters
    ----------
    values
        The highest is less than 2**62 above the lowest, and each less than 2**62 away from 0.
    words, raw
        Scratch, the same memory: :data:`PART` words and their bytes.
    out
        Filled; room for 40 bytes and 8 * BLOCK + 16 for every block that is begun.

    Returns
    -------
    int
        How many bytes.
    """
    at = _number(out, 0, BLOCK)
    at = _number(out, at, BLOCK // PART)
    at = _number(out, at, n)
    at = _signed(out, at, values[0] if n else 0)
    begin = 1
    while begin < n:
        end = min(begin + BLOCK, n)
        least = values[begin] - values[begin - 1]
        for i in range(begin + 1, end):
            least = min(least, values[i] - values[i - 1])
        at = _signed(out, at, least)
        widths = at
        at += BLOCK // PART
        for part in range(BLOCK // PART):
            low = min(begin + part * PART, end)
            high = min(low + PART, end)
            most = 0
            for i in range(low, high):
                most |= values[i] - values[i - 1] - least
            width = 0
            while most >> width:
                width += 1
            out[widths + part] = width
            if width == 0:
                continue
            word = np.uint64(0)
            fill = 0
            k = 0
            for i in range(low, high):
                more = np.uint64(values[i] - values[i - 1] - least)
                word |= more << np.uint64(fill)
                fill += width
                if fill >= 64:
                    words[k] = word
                    k += 1
                    fill -= 64
                    word = more >> np.uint64(width - fill) if fill else np.uint64(0)
            size = PART // 8 * width
            while 8 * k < size:
                words[k] = word
                word = np.uint64(0)
                k += 1
            for i in range(size):
                out[at + i] = raw[i]
            at += size
        begin = end
    return at
