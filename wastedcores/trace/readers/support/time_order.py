"""Sorts the events of a file by time; events of the same time keep the order of the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl

from wastedcores.errors import TraceContentError

#: How far time may step back. sched_profiler takes its slot before its timestamp, so its time steps back by
#: microseconds. perf's time steps back by the distance between its buffers. Clocks that differ by more than this are
#: different clocks.
SLACK_NS = 1_000_000_000


def in_order(frames: Iterable[pl.DataFrame], path: Path) -> Iterator[pl.DataFrame]:
    """Yield the events sorted by time, as soon as no later table can have an earlier event."""
    held: list[pl.DataFrame] = []
    newest: int | None = None
    coming = iter(frame for frame in frames if frame.height)
    frame = next(coming, None)
    while frame is not None:
        newest = _check(frame, newest, path)
        held.append(frame)
        frame = next(coming, None)
        if frame is None:
            break
        if held[0]["ts_ns"][0] >= newest - SLACK_NS and sum(f.height for f in held) < 1 << 22:
            continue
        table = _sorted(held)
        safe = int(table["ts_ns"].search_sorted(newest - SLACK_NS, side="left"))
        if safe:
            yield table.head(safe)
        held = [table.tail(table.height - safe)] if safe < table.height else []
    if held:
        yield _sorted(held)


def _sorted(frames: list[pl.DataFrame]) -> pl.DataFrame:
    table = pl.concat(frames, how="diagonal_relaxed") if len(frames) > 1 else frames[0]
    if table["ts_ns"].is_sorted():
        return table
    return table.sort("ts_ns", maintain_order=True)


def _check(frame: pl.DataFrame, newest: int | None, path: Path) -> int:
    ts = frame["ts_ns"]
    if newest is None:
        newest = int(ts[0])
    if ts[0] >= newest and ts.is_sorted():
        return int(ts[-1])
    top = ts.cum_max()
    if newest > top[0]:
        top = pl.select(pl.max_horizontal(pl.lit(top), pl.lit(newest))).to_series()
    back = top - ts
    if back.max() > SLACK_NS:  # type: ignore[operator]
        row = int((back > SLACK_NS).arg_max() or 0)
        where = f"{path}, line {frame['line'][row]}" if "line" in frame.columns else str(path)
        raise TraceContentError(
            f"{where}: time goes back by {back[row] / 1e9:.6f} s, from {top[row] / 1e9:.9f} s to "
            f"{ts[row] / 1e9:.9f} s. Steps back of up to {SLACK_NS / 1e9:.0f} s are sorted. The file probably holds two "
            "recordings, or the clock was changed: split it there, or record with a monotonic clock."
        )
    return int(top[-1])
