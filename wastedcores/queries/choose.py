"""The events of a trace that a query chooses."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from wastedcores.errors import UsageError
from wastedcores.queries.columns import columns_of
from wastedcores.queries.decorate import Decoration, EventTable
from wastedcores.queries.language import Query
from wastedcores.queries.spans import Span
from wastedcores.trace.named import TraceLike
from wastedcores.trace.named import open as opened
from wastedcores.trace.schema import COLUMNS


def events_where(
    trace: TraceLike,
    query: str | Query | pl.Expr,
    *,
    functions: Sequence[Decoration] = (),
    spans: Sequence[Span] = (),
) -> pl.DataFrame:
    """Return the events that a query chooses.

    Parameters
    ----------
    trace
        The trace.
    query
        A query as text, a query that was read, or any polars expression that is true or false.
    functions
        The user's decorations: functions from a table of events to one with more columns.
    spans
        Pairs of events whose lengths the query may use, besides those of :data:`wastedcores.queries.spans.SPANS`.

    Returns
    -------
    polars.DataFrame
        The events, with the columns of the trace and those that the query uses.

    Raises
    ------
    QueryError
        The text is no query.
    UsageError
        A polars expression cannot be computed from the events.
    """
    table = EventTable(opened(trace), functions, spans)
    where, columns = condition(table, query)
    return filtered(table.with_columns([*COLUMNS, *sorted(columns)]), where)


def condition(table: EventTable, query: str | Query | pl.Expr) -> tuple[pl.Expr, set[str]]:
    """Return a query as an expression, and the columns that it uses."""
    read = table.parse(query) if isinstance(query, str) else query
    if isinstance(read, Query):
        return read.where, set(read.columns)
    return read, set(read.meta.root_names())


def filtered(events: pl.DataFrame, where: pl.Expr) -> pl.DataFrame:
    """Return the events for which an expression is true."""
    try:
        return events.filter(where)
    except pl.exceptions.PolarsError as e:
        known = ", ".join(c for c in columns_of(dict(events.schema)))
        reason = str(e).partition("\n")[0]
        raise UsageError(f"the query cannot be computed: {reason}. The columns are {known}.") from e
