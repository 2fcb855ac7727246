"""Facts about all of a trace, found before its runqueues are streamed: its extent, and lost events."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from wastedcores.errors import TraceContentError
from wastedcores.limits import MAX_CPUS, PID_MAX_LIMIT
from wastedcores.trace.schema import TRANSITIONS
from wastedcores.trace.trace import Trace


def extent(trace: Trace) -> tuple[int, int, int, int]:
    """Return the first and last time in ns, the highest CPU and the highest pid.

    A header that was written with the trace as Parquet has them; otherwise the events are scanned.
    """
    header = trace.header
    if header.kinds is not None and header.start_ns is not None:
        first, last = header.start_ns, header.end_ns or header.start_ns
        top_cpu, top_pid = header.highest_cpu or 0, header.highest_pid or 0
        low = 0  # the stream of events checks every CPU and pid again
    else:
        pids = [pl.col(p) for p in ("pid", "prev_pid", "by_pid")]
        first, last, top_cpu, low_cpu, top_pid, low_pid = (
            v or 0
            for v in trace.without(*TRANSITIONS)
            .select(
                first=pl.col("ts_ns").min(),
                last=pl.col("ts_ns").max(),
                top_cpu=pl.max_horizontal(pl.col("cpu").max(), pl.col("src_cpu").max()),
                low_cpu=pl.min_horizontal(pl.col("cpu").min(), pl.col("src_cpu").min()),
                top_pid=pl.max_horizontal(*(p.max() for p in pids)),
                low_pid=pl.min_horizontal(*(p.min() for p in pids)),
            )
            .collect(engine="streaming")
            .row(0)
        )
        low = min(low_cpu, low_pid)
    if top_cpu >= MAX_CPUS:
        raise TraceContentError(
            f"{trace.name}: CPU {top_cpu} is more than any Linux has; the file is damaged."
        )
    if top_pid > PID_MAX_LIMIT or low < -1:
        bad = top_pid if top_pid > PID_MAX_LIMIT else low
        raise TraceContentError(
            f"{trace.name}: pid {bad} cannot be (they go to {PID_MAX_LIMIT}); the file is damaged."
        )
    return first, last, max(top_cpu, 0), max(top_pid, 0)


def lost_spans(trace: Trace, kinds: Collection[str]) -> list[tuple[int, int, int]]:
    """Find the spans in which events are missing."""
    spans: list[tuple[int, int, int]] = []
    if "lost" in kinds:
        remote = pl.col("kind").is_in(["wakeup", "wakeup_new", "migrate"])
        happened_on = (
            pl.when(remote & pl.col("src_cpu").is_not_null())
            .then(pl.col("src_cpu"))
            .otherwise(pl.col("cpu"))
        )
        lost = trace.only("lost").select("ts_ns", "cpu")
        seen = trace.without("lost", *TRANSITIONS)
        seen = seen.select("ts_ns", start_ns="ts_ns", cpu=happened_on)
        named = lost.filter(pl.col("cpu").is_not_null()).join_asof(
            seen, on="ts_ns", by="cpu", check_sortedness=False
        )
        unnamed = lost.filter(pl.col("cpu").is_null()).join_asof(
            seen.drop("cpu"), on="ts_ns", check_sortedness=False
        )
        for part in pl.collect_all([named, unnamed]):
            found = part.select(pl.col("start_ns").fill_null(pl.col("ts_ns")), "ts_ns", "cpu")
            spans += found.with_columns(pl.col("cpu").fill_null(-1)).rows()
    if trace.header.overwritten:
        # a ring buffer drops its oldest events CPU by CPU: complete is only what follows the latest first event
        firsts = (
            trace.without(*TRANSITIONS)
            .filter(pl.col("cpu").is_not_null())
            .group_by("cpu")
            .agg(pl.col("ts_ns").min())
            .collect()
        )
        if firsts.height:
            spans.append((int(firsts["ts_ns"].min()), int(firsts["ts_ns"].max()), -1))  # type: ignore[arg-type]
    return sorted(spans)
