"""Events with columns that are not in the trace: those that a query names, and those that a user's functions add."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias

import numpy as np
import polars as pl

from wastedcores.errors import MissingEventsError, UsageError
from wastedcores.queries import names
from wastedcores.queries.columns import added_columns, columns_of
from wastedcores.queries.language import Query, parse
from wastedcores.queries.lengths import lengths, with_span
from wastedcores.queries.spans import SPANS, Span
from wastedcores.topology.machine import Machine
from wastedcores.trace.named import TraceLike
from wastedcores.trace.named import open as opened
from wastedcores.trace.schema import COLUMNS, KINDS
from wastedcores.trace.trace import Trace


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
        A query as text, a parsed query, or any polars expression that is true or false.
    functions
        The user's decorations: functions from a table of events to a table with more columns.
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


#: a user's decoration: events in, events with more columns out
Decoration: TypeAlias = Callable[[pl.DataFrame], pl.DataFrame]
#: columns with names of tasks, and the columns with the pids of these tasks
_COMMS = {"comm": "pid", "prev_comm": "prev_pid", "by_comm": "by_pid"}
#: an added column -> the columns from which it is computed
_FROM = {
    "idle_before_ns": ("kind", "cpu", "pid", "prev_pid"),
    "node": ("cpu",),
    "frequency_khz": ("kind", "cpu", "value"),
    "cause": ("kind", "op"),
}
#: kinds of events whose ``value`` is the frequency of ``cpu`` in kHz
_FREQUENCIES = tuple(k for k in ("frequency", "tick") if k in KINDS)


class EventTable:
    """The events of a trace in memory, with the columns that are asked for.

    First, missing names of tasks are filled in by following forks and execs. Then the user's functions run. At last, the other
    columns that are not in the trace are added.
    """

    def __init__(
        self, trace: Trace, functions: Sequence[Decoration] = (), spans: Sequence[Span] = ()
    ) -> None:
        """Read nothing yet, unless there are functions."""
        self.trace = trace
        self.spans = {s.column: s for s in (*SPANS.values(), *spans)}
        self.table: pl.DataFrame | None = None
        self.last: pl.DataFrame | None = None
        if functions:
            table = self._read(COLUMNS)
            for function in functions:
                table = _applied(function, table)
            self.table = table

    def parse(self, text: str) -> Query:
        """Read a query that may use the columns of this table and all that can be added; see :func:`.language.parse`."""
        columns = {c.name: c.dtype for c in COLUMNS.values()} if self.table is None else {}
        added = dict(self.table.schema) if self.table is not None else {}
        return parse(text, schema={c: pl.Int64() for c in self.spans} | columns | added)

    def with_columns(self, columns: Iterable[str]) -> pl.DataFrame:
        """Return the events with ``ts_ns``, ``kind``, ``cpu`` and these columns."""
        wanted = list(dict.fromkeys(["ts_ns", "kind", "cpu", *columns]))
        order: list[str] = []
        for column in wanted:
            self._needed(column, order)
        table = self._read(order) if self.table is None else self.table
        for column in order:
            if column not in table.columns:
                table = self._with_column(table, column)
        if self.table is not None:
            self.table = table  # keep the added columns, so that they are not computed again
        self.last = table.select(wanted)
        return self.last

    def rows(self, numbers: np.ndarray) -> pl.DataFrame:
        """Return some events with all columns of the trace, and with those that were computed before."""
        if self.table is not None:
            return self.table[numbers]
        first, last = (int(numbers[0]), int(numbers[-1]) + 1) if numbers.size else (0, 0)
        # most windows are short, so reading all events between the first and the last is quicker than selecting single ones
        between = self.trace.events.slice(first, last - first).collect()
        rows = between[numbers - first]
        cached = self.last[numbers] if self.last is not None else rows.select()
        return rows.with_columns(cached[c] for c in cached.columns)

    def _read(self, columns: Collection[str]) -> pl.DataFrame:
        needed = set(columns) | {pid for name, pid in _COMMS.items() if name in columns}
        events = self._collect(needed)
        gaps = [
            pl.col(name).is_null() & (pl.col(pid) > 0)
            for name, pid in _COMMS.items()
            if name in needed
        ]
        if gaps and events.select(pl.any_horizontal(gaps).any()).item():
            known = {t.pid: t.comm for t in self.trace.header.tasks or () if t.comm}
            events = names.with_names(self._collect(needed | set(names.NEEDED)), known)
        return events

    def _collect(self, columns: set[str]) -> pl.DataFrame:
        try:
            return self.trace.events.select(c for c in COLUMNS if c in columns).collect()
        except pl.exceptions.PolarsError as e:
            raise UsageError(f"{self.trace.name}: the events cannot be read: {e}") from e

    def _needed(self, column: str, order: list[str], under: tuple[str, ...] = ()) -> None:
        """Add a column to ``order``, after the columns from which it is made."""
        if column in order:
            return
        if column in under:
            raise UsageError(f"column {column!r} is made from itself; change its span.")
        have = self.table.columns if self.table is not None else COLUMNS
        if column not in have:
            sources: Iterable[str] = _FROM.get(column, ())
            if column in self.spans:
                span = self.spans[column]
                queries = [q for q in (span.begin, span.end, span.broken) if q]
                used = [c for query in queries for c in self.parse(query).columns]
                others = (*span.keys, *(span.same or ()), span.broken_by)
                sources = sorted({*used, *others} - {""})
            elif column not in _FROM:
                raise UsageError(
                    f"column {column!r}: a trace does not have it. Computed are {', '.join(added_columns())}."
                )
            for source in sources:
                self._needed(source, order, (*under, column))
        order.append(column)

    def _with_column(self, events: pl.DataFrame, column: str) -> pl.DataFrame:
        if column in self.spans:
            return with_span(events, self.spans[column])
        if column == "idle_before_ns":
            return events.with_columns(idle_before_ns=lengths(events, SPANS["idle"], at_end=True))
        if column == "node":
            return events.with_columns(node=_node(self.trace))
        if column == "frequency_khz":
            return events.with_columns(frequency_khz=_frequency(self.trace))
        # categories, because texts of millions of events are slow
        kind = pl.col("kind").cast(pl.Categorical())
        fork = pl.lit("fork", dtype=pl.Categorical())
        told = pl.when(pl.col("kind") == "wakeup_new").then(fork).otherwise(kind)
        return events.with_columns(cause=pl.coalesce("op", told))


def _applied(function: Decoration, events: pl.DataFrame) -> pl.DataFrame:
    name = getattr(function, "__name__", "the decoration")
    out = function(events)
    if isinstance(out, pl.LazyFrame):
        out = out.collect()
    lacks = [c for c in ("ts_ns", "kind", "cpu") if c not in getattr(out, "columns", ())]
    if lacks:
        raise UsageError(
            f"{name} must return a polars table with the columns ts_ns, kind and cpu; {lacks[0]!r} is missing."
        )
    return out if out["ts_ns"].is_sorted() else out.sort("ts_ns", maintain_order=True)


def _frequency(trace: Trace) -> pl.Expr:
    if not set(_FREQUENCIES) & set(trace.kinds()):
        raise MissingEventsError(
            f"{trace.name}: no 'frequency' and no 'tick' events, so the frequency of a CPU is not known. "
            "wastedcores doctor says whether this machine can record it."
        )
    # a tick has the value 0 on a machine that does not tell its frequency
    told = pl.when(pl.col("kind").is_in(_FREQUENCIES) & (pl.col("value") > 0)).then("value")
    return told.forward_fill().over("cpu")


def _node(trace: Trace) -> pl.Expr:
    data = trace.header.machine
    if not data:
        raise MissingEventsError(
            f"{trace.name}: the trace does not describe its machine, so the node of a CPU is not known."
        )
    node_of = {cpu: int(n) for cpu, n in enumerate(Machine.from_dict(data).node_of_cpu)}
    return pl.col("cpu").replace_strict(node_of, default=None, return_dtype=pl.Int32)
