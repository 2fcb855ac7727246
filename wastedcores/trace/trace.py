"""A trace: a lazy table of events and its header."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import polars as pl

from wastedcores.shown import Shown
from wastedcores.trace.header import Header
from wastedcores.units import human_ns

#: number of rows in memory at a time while a trace is streamed
BATCH_ROWS = 1 << 20


@dataclass(frozen=True, repr=False)
class Trace(Shown):
    """Lazy events, ordered by (``ts_ns``, file order), and the facts about them.

    Attributes
    ----------
    events
        One row per event, columns of :data:`wastedcores.trace.schema.COLUMNS`.
    header
        See :class:`~wastedcores.trace.header.Header`.
    path
        The file from which the events come, if any.
    """

    events: pl.LazyFrame
    header: Header
    path: Path | None = None

    @property
    def name(self) -> str:
        """The name of this trace in messages and figures."""
        if self.path is None:
            return self.header.source_format
        return self.path.name or str(self.path.resolve())

    def _facts(self) -> dict[str, str]:
        h = self.header
        span = (h.end_ns - h.start_ns) if h.end_ns is not None and h.start_ns is not None else None
        return {
            "name": self.name,
            "events": "not counted" if h.events is None else f"{h.events:,}",
            "covers": "not recorded" if span is None else human_ns(span),
            "CPUs": str(h.cpus),
            "kernel": f"Linux {h.kernel_release}" if h.kernel_release else "not recorded",
            "machine": str((h.machine or {}).get("name", "not recorded")),
            "lost events": f"{h.lost_total:,}" if h.lost_total else "none",
        }

    def kinds(self) -> dict[str, int]:
        """Return the number of events of each kind present, sorted by kind."""
        if self.header.kinds is not None:
            return self.header.kinds
        return dict(self.ranges.select("kind", "events").iter_rows())

    @cached_property
    def ranges(self) -> pl.DataFrame:
        """The number of events of each kind, their times, and the lowest and highest CPUs and pids in them; sorted by kind."""
        pids = [pl.col(p) for p in ("pid", "prev_pid", "by_pid")]
        return (
            self.events.group_by("kind")
            .agg(
                events=pl.len(),
                first_ns=pl.col("ts_ns").min(),
                last_ns=pl.col("ts_ns").max(),
                low_cpu=pl.min_horizontal(pl.col("cpu").min(), pl.col("src_cpu").min()),
                top_cpu=pl.max_horizontal(pl.col("cpu").max(), pl.col("src_cpu").max()),
                low_pid=pl.min_horizontal(*(p.min() for p in pids)),
                top_pid=pl.max_horizontal(*(p.max() for p in pids)),
            )
            .collect(engine="streaming")
            .with_columns(pl.col("kind").cast(pl.String))
            .sort("kind")
        )

    @cached_property
    def names(self) -> pl.DataFrame:
        """All names that each thread has in the events, as columns ``pid`` and ``comm``; both can be null."""
        pairs = [("pid", "comm"), ("prev_pid", "prev_comm")]
        # names become text after the grouping, so that only the few distinct ones are converted
        seen = [
            self.events.group_by(pid=p, comm=c).agg().with_columns(pl.col("comm").cast(pl.String))
            for p, c in pairs
        ]
        return pl.concat(seen).unique().collect(engine="streaming")

    def only(self, *kinds: str) -> pl.LazyFrame:
        """Return the events of these kinds."""
        if self.header.kinds is not None and self.header.kinds.keys() <= set(kinds):
            return self.events  # all events are of these kinds, so no filter is needed
        return self.events.filter(pl.col("kind").is_in(list(kinds)))

    def without(self, *kinds: str) -> pl.LazyFrame:
        """Return the events of all other kinds."""
        return self.events.filter(~pl.col("kind").is_in(list(kinds)))

    def batches(
        self, columns: Sequence[str], *kinds: str, rows: int = BATCH_ROWS
    ) -> Iterator[pl.DataFrame]:
        """Stream some columns of the events in order.

        Parameters
        ----------
        columns
            Names of the columns.
        *kinds
            Only events of these kinds are streamed; if no kind is given, all events are.
        rows
            Number of rows per table.

        Yields
        ------
        polars.DataFrame
            The next events.
        """
        frame = self.only(*kinds) if kinds else self.events
        yield from frame.select(columns).collect_batches(chunk_size=rows, maintain_order=True)

    def with_header(self, **changes: object) -> Trace:
        """Return the same events under a header with some fields changed."""
        new = replace(self, header=self.header.model_copy(update=changes))
        # results about the events stay valid, because the events are the same
        new.__dict__.update({k: v for k, v in self.__dict__.items() if k in ("ranges", "names")})
        return new
