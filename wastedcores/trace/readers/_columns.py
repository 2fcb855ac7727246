"""Room for the columns of many events, and the table made of them without a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from wastedcores.engine.columns_jit import NULLABLE, Columns, bitmaps
from wastedcores.trace.readers._arrow import bits, column
from wastedcores.trace.readers._crew import Crew, Job
from wastedcores.trace.readers._memory import populate, used
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


def arrays(
    parts: list[tuple[Any, int]], memory: Callable[[int], np.ndarray] = used
) -> list[np.ndarray]:
    """Arrays of (type, length) side by side; each has room up to a multiple of 64.

    Parameters
    ----------
    memory
        Gives it: what is in the arrays is what that says (_memory.py).
    """
    sizes = [(np.dtype(t).itemsize * n + 127) // 64 * 64 for t, n in parts]
    raw = memory(sum(sizes))
    found = []
    at = 0
    for (kind, n), size in zip(parts, sizes, strict=True):
        found.append(raw[at : at + size].view(kind)[:n])
        at += size
    return found


def room(rows: int) -> Columns:
    """Columns for so many events, with anything in them; :func:`make_ready` comes before the first event."""
    return Columns(*arrays([(_TYPES[c], rows + 8) for c in Columns._fields]))


def make_ready(columns: Columns) -> None:
    """Have memory made of it where there is none yet, and zeros where something must be even if it is null."""
    for name in columns._fields:
        values: np.ndarray = getattr(columns, name)
        if name != "value":  # mostly nothing will be in it
            populate(values)
        if name in _CATEGORIES or name in ("low", "high"):
            values[:] = 0


def table_of(columns: Columns, rows: int, crew: Crew) -> pl.DataFrame:
    """The first ``rows`` events as a table; of what is null throughout there is no column.

    Parameters
    ----------
    columns
        Must not change any more. Names are polars' numbers (_vocabulary.py).
    crew
        Has polars look at the numbers of categories, one column each.
    """
    out: dict[str, Any] = {"ts_ns": pl.Series(columns.ts_ns[:rows])}
    out["kind"] = crew.submit(_categories, columns.kind[:rows], KIND_DTYPE, None)
    valid = np.empty((16, rows // 8 + 1), np.uint8)
    counts = np.zeros(16, np.int64)
    bitmaps(columns.low, columns.high, rows, valid, counts)
    for bit, name in enumerate(NULLABLE):
        values, nulls = getattr(columns, name)[:rows], rows - int(counts[bit])
        if nulls == rows:
            continue
        if name in _CATEGORIES:
            there = bits(valid[bit], rows) if nulls else None
            out[name] = crew.submit(_categories, values, pl.Categorical(), there)
        else:
            out[name] = column(values, valid[bit], nulls)
    crew.finish(job for job in out.values() if isinstance(job, Job))
    return pl.DataFrame({c: s.result() if isinstance(s, Job) else s for c, s in out.items()})


def _categories(values: np.ndarray, dtype: Any, there: pl.Series | None) -> pl.Series:
    """What polars numbers so. It looks at every number, twice as long if it is told before which are null."""
    categories = pl.Series(values).cat.to(dtype)
    return (
        categories if there is None else categories.zip_with(there, pl.Series([None], dtype=dtype))
    )
