"""Memory for the columns of many events, and the table made of them."""

from __future__ import annotations

import numpy as np
import polars as pl

from wastedcores.trace.readers.support.event_columns_jit import NULLABLE, Columns
from wastedcores.trace.schema import COLUMNS, KIND_DTYPE

_TYPES = {
    "ts_ns": "i8", "kind": "u1", "cpu": "i4", "pid": "i4", "comm": "u4", "prio": "i2", "prev_pid": "i4",
    "prev_comm": "u4", "prev_prio": "i2", "prev_state": "u4", "src_cpu": "i4", "by_pid": "i4", "by_comm": "u4",
    "value": "i8", "in_irq": "?", "low": "u1", "high": "u1", "text": "i8",
}  # fmt: skip


def columns_for(rows: int) -> Columns:
    """Return columns with room for ``rows`` events, filled with zeros.

    They share one block of memory: numpy asks the kernel for pages of 2 MiB if a block is large, and the page faults of
    small pages would take longer than the decoding.
    """
    room = -(-rows // 8) * 8  # so that every column is aligned
    ends = np.cumsum([np.dtype(t).itemsize * room for t in _TYPES.values()])
    parts = np.split(np.zeros(ends[-1], np.uint8), ends[:-1])
    return Columns(*(part.view(t)[:rows] for part, t in zip(parts, _TYPES.values(), strict=True)))


def table_of(columns: Columns, rows: int) -> pl.DataFrame:
    """Make a table of the first events; a column that is null throughout is left out."""
    kind = pl.Series(columns.kind[:rows]).cat.to(KIND_DTYPE)
    table = {"ts_ns": pl.Series(columns.ts_ns[:rows]), "kind": kind}
    for bit, name in enumerate(NULLABLE):
        flags = (columns.low if bit < 8 else columns.high)[:rows]
        present = (flags & np.uint8(1 << bit % 8)).astype(bool)
        if not present.any():
            continue
        values = pl.Series(getattr(columns, name)[:rows])
        if COLUMNS[name].dtype == pl.Categorical():
            values = values.cat.to(pl.Categorical())
        if not present.all():
            values = values.zip_with(pl.Series(present), pl.Series([None], dtype=values.dtype))
        table[name] = values
    return pl.DataFrame(table)
