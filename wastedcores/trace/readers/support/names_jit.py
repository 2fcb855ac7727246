"""A hash table that numbers strings of up to 16 bytes, such as names of tasks (TASK_COMM_LEN, include/linux/sched.h)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import lean
from wastedcores.trace.readers.support.bytes_jit import load64

U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]

#: Longest name of a task: TASK_COMM_LEN is 16 with the final zero (include/linux/sched.h).
COMM_MAX = 15
#: Number of bytes to keep -> mask of a load.
_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(9)], np.uint64)


def new_names(slots: int = 1 << 15) -> U64:
    """Return an empty table of strings, (slots, 5). ``slots`` is a power of two; half of the slots can be used.

    The columns of a slot are the first 8 bytes of its string, the other 8 bytes, and the string's number plus 1 (0: the
    slot is free). Columns 3 and 4 have the two halves again, in the row with the string's number. The last row of column 3 has
    the count of strings, because no string gets the number of this row.
    """
    return np.zeros((slots, 5), np.uint64)


def names_count(names: U64) -> int:
    """Return the number of strings in the table."""
    return int(names[-1, 3])


@lean
def has_zero(x: np.uint64, n: int) -> bool:
    """Return whether one of the lowest ``n`` bytes is zero."""
    ones = np.uint64(0x0101010101010101)
    highs = np.uint64(0x8080808080808080)
    return ((x - ones) & ~x & highs & _MASKS[n]) != 0


@lean
def intern_words(low: np.uint64, high: np.uint64, names: U64) -> Any:
    """Return the number of a string of up to 16 bytes, given by its halves; -2 if the table is full."""
    slots = names.shape[0]
    h = (low ^ (high * np.uint64(0x9E3779B97F4A7C15))) * np.uint64(0x9E3779B97F4A7C15)
    slot = np.int64(h >> np.uint64(40)) & (slots - 1)
    while names[slot, 2] != 0:
        if names[slot, 0] == low and names[slot, 1] == high:
            return np.int64(names[slot, 2]) - 1
        slot = (slot + 1) & (slots - 1)
    count = np.int64(names[slots - 1, 3])
    if count >= slots // 2:
        return -2
    names[slot, 0] = names[count, 3] = low
    names[slot, 1] = names[count, 4] = high
    names[slot, 2] = count + 1
    names[slots - 1, 3] = count + 1
    return count


@lean
def intern_all(halves: U64, names: U64) -> None:
    """Add strings, given as (strings, 2) halves, in their order to a table that has room for them."""
    for i in range(halves.shape[0]):
        intern_words(halves[i, 0], halves[i, 1], names)


@lean
def intern(b: U8, i: int, n: int, names: U64) -> Any:
    """Return the number of the string of ``n`` <= 16 bytes at ``i``; -2 if the table is full or the string has a zero byte."""
    low = load64(b, i) & _MASKS[min(n, 8)]
    high = load64(b, i + 8) & _MASKS[max(n - 8, 0)]
    if has_zero(low, min(n, 8)) or has_zero(high, max(n - 8, 0)):
        return -2
    return intern_words(low, high, names)
