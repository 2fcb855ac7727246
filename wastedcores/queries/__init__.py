"""Queries: a choice of events, written as text, and the columns that it may use besides those of the trace.

``kind == "switch" and not comm in ("cc1", "as") and cpu < 8`` is a query. :func:`~wastedcores.queries.language.parse` turns it
into a polars expression, and :func:`~wastedcores.queries.decorate.events_where` applies it to a trace.
"""

from __future__ import annotations

from wastedcores.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "language": "Query parse QueryError",
        "columns": "Column added_columns columns_of",
        "completion": "complete",
        "spans": "Span",
        "lengths": "with_span",
        "decorate": "EventTable events_where filtered condition",
    },
)
