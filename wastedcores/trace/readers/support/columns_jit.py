"""Event columns that compiled readers write in their final types, and which of their values are there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import lean
from wastedcores.trace.readers.support.bytes_jit import load64

U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
I16 = NDArray[np.int16]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]


class Columns(NamedTuple):
    """Columns of the trace schema, (rows,) each; what is null stays 0.

    ``low`` and ``high`` have a bit for each column that may be null (:data:`HAS_CPU` ...): the value is there.
    """

    ts_ns: I64
    kind: U8
    cpu: I32
    pid: I32
    comm: U32
    prio: I16
    prev_pid: I32
    prev_comm: U32
    prev_prio: I16
    prev_state: U32
    src_cpu: I32
    by_pid: I32
    by_comm: U32
    value: I64
    low: U8
    high: U8


#: those that may be null, in the order of their bits
NULLABLE = Columns._fields[2:14]
(
    HAS_CPU,
    HAS_PID,
    HAS_COMM,
    HAS_PRIO,
    HAS_PREV_PID,
    HAS_PREV_COMM,
    HAS_PREV_PRIO,
    HAS_PREV_STATE,
) = (1 << i for i in range(8))
HAS_SRC_CPU, HAS_BY_PID, HAS_BY_COMM, HAS_VALUE = (1 << i for i in range(4))

_ONES = np.array([bin(i).count("1") for i in range(256)], np.int64)


@lean
def _transposed(x: np.uint64) -> np.uint64:
    """Bit c of byte r becomes bit r of byte c (Hacker's Delight, 7-3)."""
    t = (x ^ (x >> np.uint64(7))) & np.uint64(0x00AA00AA00AA00AA)
    x = x ^ t ^ (t << np.uint64(7))
    t = (x ^ (x >> np.uint64(14))) & np.uint64(0x0000CCCC0000CCCC)
    x = x ^ t ^ (t << np.uint64(14))
    t = (x ^ (x >> np.uint64(28))) & np.uint64(0x00000000F0F0F0F0)
    return x ^ t ^ (t << np.uint64(28))


@lean
def bitmaps(low: U8, high: U8, rows: int, out: U8, counts: I64) -> None:
    """Turn a byte of bits per row into bitmaps per column.

    Parameters
    ----------
    low, high
        As in :class:`Columns`; zero from ``rows`` on, up to a multiple of 8.
    out
        (16, bytes), bytes at least rows / 8 rounded up: filled.
    counts
        (16,) how many bits of each column are set: filled.
    """
    counts[:] = 0
    for at in range((rows + 7) // 8):
        a = _transposed(load64(low, 8 * at))
        b = _transposed(load64(high, 8 * at))
        for c in range(8):
            x = np.uint8(a >> np.uint64(8 * c) & np.uint64(255))
            y = np.uint8(b >> np.uint64(8 * c) & np.uint64(255))
            out[c, at] = x
            out[8 + c, at] = y
            counts[c] += _ONES[x]
            counts[8 + c] += _ONES[y]
