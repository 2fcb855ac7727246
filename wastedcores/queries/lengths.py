"""Finds the pairs of events that begin and end a span, and how much time is between them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import numpy as np
import polars as pl

from wastedcores.errors import UsageError
from wastedcores.queries.language import parse
from wastedcores.queries.spans import Span

#: numbers below this can be used as indices directly; Linux has at most 2^22 pids
NUMBERED_BELOW = 1 << 23


def with_span(events: pl.DataFrame, span: Span) -> pl.DataFrame:
    """Add the lengths of a span to the events that begin it."""
    if span.column in events.columns:
        raise UsageError(
            f"span {span.name!r}: the column {span.column!r} exists already; give the span another name."
        )
    return events.with_columns(lengths(events, span).alias(span.column))


def lengths(events: pl.DataFrame, span: Span, *, at_end: bool = False) -> pl.Series:
    """Return the lengths of a span at the events that begin it, or at the events that end it."""
    from wastedcores.queries.names_jit import NONE, pair

    schema = dict(events.schema)
    broken_by = span.broken_by or span.keys[0]
    # what one CPU lost does not concern the spans of other CPUs, but any task may have run on that CPU
    lost = pl.col("kind") == "lost" if "kind" in schema else pl.lit(False)
    here = pl.lit({*span.keys, broken_by} == {"cpu"}) & pl.col(broken_by).is_not_null()
    missing = [c for c in (*span.keys, broken_by, *(span.same or ())) if c not in schema]
    if missing:
        raise UsageError(f"span {span.name!r}: there is no column {missing[0]!r}.")
    chosen = events.select(  # selected together with a column of the table, so that constant queries have its height
        "ts_ns",
        begins=parse(span.begin, schema=schema).where,
        ends=parse(span.end, schema=schema).where,
        breaks=parse(span.broken or "False", schema=schema).where | (lost & here),
        forgets=lost & ~here,
    )
    keys = numbered(events[c] for c in (*span.keys, broken_by))
    checks = numbered(events[c] for c in span.same) if span.same else [np.zeros(1, np.int32)] * 2
    opened = np.full(1 + max(int(k.max(initial=-1)) for k in keys), NONE, np.int64)
    ts, begins, ends, breaks, forgets = (_read_only(c) for c in chosen)
    k0, k1, k2, c0, c1 = (_read_only(c) for c in (*keys, *checks))
    found = pl.Series(pair(ts, begins, ends, breaks, forgets, k0, k1, k2, c0, c1, opened, at_end))
    return found.set(found == NONE, None)


def _read_only(column: pl.Series | np.ndarray) -> np.ndarray:
    """Return a read-only array, as some of polars' arrays are, so that the function is compiled for one type only."""
    array = np.asarray(column).view()
    array.flags.writeable = False
    return array


def numbered(columns: Iterable[pl.Series]) -> list[np.ndarray]:
    """Number the values of some columns from 0 on, equal values alike, so that the numbers can be indices of arrays."""
    given = list(columns)
    if all(c.dtype.is_integer() for c in given):
        ends = [cast(int, e) for c in given for e in (c.min(), c.max()) if e is not None]
        if all(0 <= e < NUMBERED_BELOW for e in ends):
            return [c.cast(pl.Int32).fill_null(-1).to_numpy() for c in given]
        given = [c.cast(pl.Int64) for c in given]
    elif len({c.dtype for c in given}) > 1:
        given = [c.cast(pl.String) for c in given]
    known = pl.concat([c.rename("value").unique() for c in given]).unique().drop_nulls().to_frame()
    known = known.with_row_index("number")
    return [
        c.rename("value")
        .to_frame()
        .join(known, on="value", how="left", maintain_order="left")["number"]
        .cast(pl.Int64)
        .fill_null(-1)
        .cast(pl.Int32)
        .to_numpy()
        for c in given
    ]
