"""Room for the columns of many events, and the table made of them without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from wastedcores.engine.columns_jit import NULLABLE, Columns, bitmaps
from wastedcores.trace.readers._arrow import column
from wastedcores.trace.readers._memory import pages
from wastedcores.trace.schema import COLUMNS, KIND_DTYPE

_TYPES: dict[str, Any] = {
    "ts_ns": np.int64,
    "kind": np.uint8,
    "cpu": np.int32,
    "pid": np.int32,
    "comm": np.uint32,
    "prio": np.int16,
    "prev_pid": np.int32,
    "prev_comm": np.uint32,
    "prev_prio": np.int16,
    "prev_state": np.uint32,
    "src_cpu": np.int32,
    "by_pid": np.int32,
    "by_comm": np.uint32,
    "value": np.int64,
    "low": np.uint8,
    "high": np.uint8,
}
_CATEGORIES = [c for c in Columns._fields if c in COLUMNS and COLUMNS[c].dtype == pl.Categorical()]


def zeros(parts: list[tuple[Any, int]], *, sparse: bool = False) -> list[np.ndarray]:
    """Arrays of zeros of (type, length), in memory that nobody touched yet; each has room up to a multiple of 64.

    Parameters
    ----------
    sparse
        Little of it will be used: only what is touched is to become memory.
    """
    sizes = [(np.dtype(t).itemsize * n + 127) // 64 * 64 for t, n in parts]
    memory = pages(sum(sizes), sparse=sparse)
    arrays = []
    at = 0
    for (kind, n), size in zip(parts, sizes, strict=True):
        arrays.append(np.frombuffer(memory, kind, n, at))
        at += size
    return arrays


def room(rows: int) -> Columns:
    """Columns for so many events, all null."""
    return Columns(*zeros([(_TYPES[c], rows + 8) for c in Columns._fields]))


def table_of(columns: Columns, rows: int) -> pl.DataFrame:
    """The first ``rows`` events as a table; of what is null throughout there is no column.

    Parameters
    ----------
    columns
        Must not change any more. Names are polars' numbers (_vocabulary.py).
    """
    valid = np.empty((16, rows // 8 + 1), np.uint8)
    counts = np.zeros(16, np.int64)
    bitmaps(columns.low, columns.high, rows, valid, counts)
    out = {"ts_ns": pl.Series(columns.ts_ns[:rows]), "kind": pl.Series(columns.kind[:rows])}
    for bit, name in enumerate(NULLABLE):
        if counts[bit]:
            values = getattr(columns, name)[:rows]
            out[name] = column(values, valid[bit], rows - int(counts[bit]))
    return pl.DataFrame(out).with_columns(
        pl.col("kind").cat.to(KIND_DTYPE),
        *(pl.col(c).cat.to(pl.Categorical()) for c in _CATEGORIES if c in out),
    )
