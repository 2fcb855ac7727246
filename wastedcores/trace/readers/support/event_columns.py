"""Memory for the columns of many events, and the table made of them without copying the numbers."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa

from wastedcores.trace.readers.support.event_columns_jit import NULLABLE, Columns
from wastedcores.trace.schema import COLUMNS, KIND_DTYPE

_TYPES = {
    "ts_ns": "i8", "kind": "u1", "cpu": "i4", "pid": "i4", "comm": "u4", "prio": "i2", "prev_pid": "i4",
    "prev_comm": "u4", "prev_prio": "i2", "prev_state": "u4", "src_cpu": "i4", "by_pid": "i4", "by_comm": "u4",
    "value": "i8", "low": "u1", "high": "u1", "text": "i8",
}  # fmt: skip


def columns_for(rows: int) -> Columns:
    """Return columns with room for ``rows`` events, filled with zeros."""
    return Columns(**{name: np.zeros(rows, t) for name, t in _TYPES.items()})


def table_of(columns: Columns, rows: int) -> pl.DataFrame:
    """Make a table of the first events; a column that is null throughout is left out.

    Parameters
    ----------
    columns
        They must not change any more, because the table refers to them. Names are polars' codes
        (:class:`~wastedcores.trace.readers.support.names.CategoryCodes`).
    rows
        Number of events.
    """
    kind = pl.Series(columns.kind[:rows]).cat.to(KIND_DTYPE)
    table = {"ts_ns": pl.Series(columns.ts_ns[:rows]), "kind": kind}
    for bit, name in enumerate(NULLABLE):
        flags = (columns.low if bit < 8 else columns.high)[:rows] & np.uint8(1 << bit % 8)
        present = np.count_nonzero(flags)
        if present:
            values: np.ndarray = getattr(columns, name)[:rows]
            valid = pa.py_buffer(np.packbits(flags, bitorder="little")) if present < rows else None
            arrow = pa.Array.from_buffers(
                pa.from_numpy_dtype(values.dtype),
                rows,
                [valid, pa.py_buffer(values)],
                rows - present,
            )
            series = pl.Series(arrow)
            is_name = COLUMNS[name].dtype == pl.Categorical()
            table[name] = series.cat.to(pl.Categorical()) if is_name else series
    return pl.DataFrame(table)
