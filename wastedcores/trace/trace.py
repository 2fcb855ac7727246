"""A trace: a lazy table of events and its header."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from wastedcores.trace.header import Header

#: Rows that are in memory at a time while a trace is streamed.
BATCH_ROWS = 1 << 20


@dataclass(frozen=True)
class Trace:
    """Events (lazy, ordered by (``ts_ns``, file order)) and what is known about them.

    Attributes
    ----------
    events
        One row per event, columns of :data:`wastedcores.trace.schema.COLUMNS`.
    header
        See :class:`~wastedcores.trace.header.Header`.
    path
        The Parquet file the events come from, if any.
    """

    events: pl.LazyFrame
    header: Header
    path: Path | None = None

    @property
    def name(self) -> str:
        """How to call this trace in a message or a figure."""
        return self.path.name if self.path else self.header.source_format

    def kinds(self) -> dict[str, int]:
        """Number of events of each kind present."""
        if self.header.kinds is not None:
            return self.header.kinds
        table = self.events.group_by("kind").len().collect(engine="streaming")
        return {str(k): int(n) for k, n in sorted(table.iter_rows(), key=lambda row: str(row[0]))}

    def only(self, *kinds: str) -> pl.LazyFrame:
        """The events of these kinds."""
        return self.events.filter(pl.col("kind").is_in(list(kinds)))

    def batches(
        self, columns: Sequence[str], *kinds: str, rows: int = BATCH_ROWS
    ) -> Iterator[pl.DataFrame]:
        """Stream the given columns of the given kinds (none named: all), in order, ``rows`` at a time."""
        frame = self.only(*kinds) if kinds else self.events
        yield from frame.select(columns).collect_batches(chunk_size=rows, maintain_order=True)

    def with_header(self, **changes: object) -> Trace:
        """The same events under a header with some fields changed."""
        return replace(self, header=self.header.model_copy(update=changes))
