"""Traces that can be given away: their names are replaced by pseudonyms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import polars as pl

from wastedcores.files import written_whole
from wastedcores.trace.header import Header
from wastedcores.trace.parquet import read_parquet, write_parquet
from wastedcores.trace.pseudonyms import Pseudonyms
from wastedcores.trace.trace import Trace

COMMS = ("comm", "prev_comm", "by_comm")
#: kinds of events whose text a person or a program chose
NAMED = ("mark", "exec")
#: facts of ``Header.provenance`` that name nobody
KEPT_NOTES = ("skipped", "clock jump", "state columns", "wakeups", "frequency")


def renamed(trace: Trace, names: Pseudonyms) -> Trace:
    """Return a trace whose names are pseudonyms; what people and programs wrote into it counts as a name."""
    header = _header(trace.header, names)
    written = pl.col("kind").is_in(list(NAMED))
    comms = set().union(*(_texts(trace.events, pl.col(c)) for c in COMMS))
    texts = _texts(trace.events, pl.col("text").filter(written))
    events = trace.events.with_columns(
        _replaced(c, {t: names.task(t) for t in comms}).cast(pl.Categorical) for c in COMMS
    ).with_columns(
        pl.when(written)
        .then(_replaced("text", {t: names.name(t, "text") for t in texts}))
        .otherwise(pl.col("text"))
    )
    return Trace(events, header)


def _texts(events: pl.LazyFrame, texts: pl.Expr) -> Iterable[str]:
    found = events.select(texts.cast(pl.String).drop_nulls().unique())
    return found.collect(engine="streaming").to_series().to_list()


def _header(header: Header, names: Pseudonyms) -> Header:
    notes = {k: v for k, v in header.provenance.items() if k in KEPT_NOTES}
    window = header.window
    return names.facts(header).model_copy(
        update={
            "provenance": notes | {"source": "a file whose names were replaced by pseudonyms"},
            # the names of its ends are texts of marks
            "window": window and window.model_copy(update={"names": None}),
            "truncated_last_line": header.truncated_last_line
            and "The recording ends within an event.",
        }
    )


def written_again(make: Callable[[Path], Trace], output: Path, names: Pseudonyms | None) -> Trace:
    """Let ``make`` write a trace to a temporary place; what it returns becomes ``output``, with pseudonyms if there are any."""
    with written_whole(output) as part:
        trace = make(part)
        write_parquet(trace if names is None else renamed(trace, names), part)
    return read_parquet(output)


def _replaced(column: str, pseudonyms: dict[str, str]) -> pl.Expr:
    return pl.col(column).cast(pl.String).replace(pseudonyms)
