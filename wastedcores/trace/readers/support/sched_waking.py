"""What sched_waking events become: a kind of their own beside sched_wakeup, or wakeups if sched_wakeup was not recorded.

``perf sched record`` prefers sched_waking (tools/perf/builtin-sched.c, 6.1 to 6.12). This event comes when a task is woken,
before the task is put on a runqueue, and names the CPU on which the task was before. If the task is placed on another CPU, a
sched_migrate_task event follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl

from wastedcores.limits import MAX_CPUS
from wastedcores.trace.readers.support.reading import FactsBuilder
from wastedcores.trace.readers.support.sched_waking_jit import PLACED_WITHIN_NS, place_wakings
from wastedcores.trace.schema import KIND_DTYPE

NOTE = "sched_waking taken for sched_wakeup, which was not recorded; placed by sched_migrate_task"


class WakingEvents:
    """Decides, for all tables of one file, whether sched_waking events become wakeups."""

    def __init__(self, found: FactsBuilder) -> None:
        self._found = found
        #: True: sched_waking events become wakeups, since the recording has no sched_wakeup. None: neither event was seen yet.
        self.wanted: bool | None = None

    def settled(self, tables: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Turn sched_waking events into wakeups if the recording has no sched_wakeup; the first table with either event decides.

        The last moment of each table is held until the next table comes, which may have the migrations for its wakings.
        """
        held = pl.DataFrame()
        for new in tables:
            if "waking" not in new.columns:
                yield new.drop("ctx_cpu", strict=False)
                continue
            if self.wanted is None:
                real = new.select((pl.col("kind") == "wakeup") & ~pl.col("waking")).to_series()
                self.wanted = False if real.any() else (True if new["waking"].any() else None)
            table = pl.concat([held, new], how="diagonal_relaxed") if held.height else new
            safe, ts = table.height, table["ts_ns"]
            if self.wanted and safe:
                early = (ts <= int(ts.max()) - PLACED_WITHIN_NS).reverse()  # type: ignore[arg-type]
                safe -= int(early.arg_max() or 0) if early.any() else safe
            held = table.tail(table.height - safe)
            yield self._settle(table).head(safe)
        if held.height:
            yield self._settle(held)

    def _settle(self, events: pl.DataFrame) -> pl.DataFrame:
        n = int(events["waking"].sum())
        if n and self.wanted:
            self._found.wakings = True
            self._found.notes["wakeups"] = NOTE
            cpu = events["cpu"].fill_null(-1).to_numpy().copy()
            place_wakings(
                events["ts_ns"].to_numpy(),
                _int32(events["ctx_cpu"]),
                _int32(events["pid"]),
                events["waking"].fill_null(False).to_numpy(),
                (events["kind"] == "migrate").to_numpy(),
                cpu,
                MAX_CPUS,
            )
            placed = pl.when(pl.col("cpu").is_not_null()).then(pl.Series(cpu))
            events = events.with_columns(cpu=placed)
        elif n:
            kind = (
                pl.when("waking").then(pl.lit("waking")).otherwise(pl.col("kind").cast(pl.String))
            )
            events = events.with_columns(kind=kind.cast(KIND_DTYPE))
        return events.drop("waking", "ctx_cpu")


def _int32(column: pl.Series):  # type: ignore[no-untyped-def]
    return column.fill_null(-1).cast(pl.Int32).to_numpy()
