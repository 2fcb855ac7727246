"""Room for the columns of many events, and the table made of them without a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from wastedcores.trace.readers.support.arrow import bits, column
from wastedcores.trace.readers.support.columns_jit import NULLABLE, Columns, bitmaps
from wastedcores.trace.readers.support.crew import Crew
from wastedcores.trace.readers.support.memory import populate, used
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
#: column -> the one it shares memory with: a switch has these and no other event has, so at one of both there is null
_SHARED = {"by_pid": "prev_pid", "by_comm": "prev_comm"}
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
    own = [c for c in Columns._fields if c not in _SHARED]
    found = dict(zip(own, arrays([(_TYPES[c], rows + 8) for c in own]), strict=True))
    return Columns(*(found[_SHARED.get(c, c)] for c in Columns._fields))


def make_ready(columns: Columns) -> None:
    """Have memory made of it where there is none yet, and zeros where something must be even if it is null."""
    for name in columns._fields:
        if name in _SHARED:
            continue
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
    kind = crew.submit(_categories, columns.kind[:rows], KIND_DTYPE)
    valid = np.empty((16, rows // 8 + 1), np.uint8)
    counts = np.zeros(16, np.int64)
    bitmaps(columns.low, columns.high, rows, valid, counts)
    there = {name: bit for bit, name in enumerate(NULLABLE) if counts[bit]}
    named = {
        memory: crew.submit(_categories, getattr(columns, memory)[:rows], pl.Categorical())
        for memory in {_SHARED.get(name, name) for name in there}
        if memory in _CATEGORIES
    }
    crew.finish([kind, *named.values()])
    out = {"ts_ns": pl.Series(columns.ts_ns[:rows]), "kind": kind.result()}
    for name, bit in there.items():
        nulls = rows - int(counts[bit])
        if name not in _CATEGORIES:
            out[name] = column(getattr(columns, name)[:rows], valid[bit], nulls)
            continue
        out[name] = named[_SHARED.get(name, name)].result()
        if nulls:
            none = pl.Series([None], dtype=pl.Categorical())
            out[name] = out[name].zip_with(bits(valid[bit], rows), none)
    return pl.DataFrame(out)


def _categories(values: np.ndarray, dtype: Any) -> pl.Series:
    """What polars numbers so. It looks at every number, twice as long if it knows which are null."""
    return pl.Series(values).cat.to(dtype)
