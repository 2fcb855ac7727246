"""The letters of prev_state, for readers that find it as the kernel's number."""

from __future__ import annotations

import polars as pl

#: bits of prev_state (include/linux/sched.h and TASK_STATE_TO_CHAR_STR of 3.0 to 6.18). 64 is a dead task up to 4.13, and a
#: parked one since; the bit of a preempted task is above those of all letters.
_BITS = {1: "S", 2: "D", 4: "T", 8: "t", 16: "X", 32: "Z", 64: "X", 128: "I"}
_PARKED = 64
#: The names of threads that are parked when their CPU goes offline end with its number.
_PARKS = r"/\d+$"


def with_letters(events: pl.DataFrame, column: str) -> pl.DataFrame:
    """Put the letters of a kernel's numbers into ``prev_state``."""
    raw = events[column]
    values = raw.drop_nulls().unique()
    number = [int(v, 0) if isinstance(v, str) else int(v) for v in values]
    letters = {
        v: next((t for bit, t in _BITS.items() if n & bit), "R+" if n else "R")
        for v, n in zip(values, number, strict=True)
    }
    state = raw.replace_strict(letters, default=None, return_dtype=pl.String)
    parked = [v for v, n in zip(values, number, strict=True) if n == _PARKED]
    name = pl.col("prev_comm").cast(pl.String)
    is_parked = pl.col(column).is_in(parked) & name.str.contains(_PARKS).fill_null(False)
    stated = pl.when(is_parked).then(pl.lit("P")).otherwise(pl.lit(state))
    known = [pl.col("prev_state")] if "prev_state" in events.columns else []
    return events.with_columns(prev_state=pl.coalesce(*known, stated)).drop(column)
