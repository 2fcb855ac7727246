"""The CPU time of a check that goes into verifying the seal of the file, measured within the same runs."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

import polars as pl

from benchmarks.bench_invariant import changes
from wastedcores.invariant import check
from wastedcores.trace import Header, parquet
from wastedcores.trace.io import import_trace, open_trace
from wastedcores.trace.schema import conform

EVENTS, RUNS = 10_000_000, 9


def _sizes(folder: Path) -> Path:
    """Write events of runqueue sizes only, whose check is the fastest."""
    ts_ns, cpu, nr = changes(EVENTS, 1)
    frame = pl.DataFrame({"ts_ns": ts_ns, "cpu": cpu, "nr_running": nr, "kind": "nr_running"})
    return parquet.stream_parquet(
        [conform(frame, "benchmark")],
        lambda: Header(source_format="benchmark", cpus=64),
        folder / "sizes.parquet",
    )


def _tasks(folder: Path) -> Path:
    """Import the largest bundled recording of task events."""
    from wastedcores.trace.named import fetch

    return import_trace(fetch("overload-on-wakeup-buggy"), folder / "tasks.parquet").path


def _times(path: Path) -> tuple[float, float]:
    """Return the median CPU seconds of verifying the seal, and of the rest of the checks in which it was verified."""
    seal: list[float] = []
    rest: list[float] = []
    verify = parquet.check_seal

    def timed(path: Path) -> bool:
        start = time.thread_time()
        try:
            return verify(path)
        finally:
            seal.append(time.thread_time() - start)

    with patch.object(parquet, "check_seal", timed):
        for _ in range(RUNS + 1):  # the first warms up
            start = time.process_time()
            check(open_trace(path))
            rest.append(time.process_time() - start - seal[-1])
    return statistics.median(seal[1:]), statistics.median(rest[1:])


def run() -> list[dict]:
    """Return the rows for RESULTS.md."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for what, make in (("runqueue sizes", _sizes), ("task events", _tasks)):
            path = make(Path(name))
            seal, rest = _times(path)
            share = 100 * seal / rest
            rows.append(
                {
                    "id": f"seal_{path.stem}",
                    "name": f"CPU time that verifying the seal adds to a check, {what}",
                    "value": share,
                    "unit": "%",
                    "goal": "<= 5",
                    "met": share <= 5,
                    "peer": f"the check without it: {rest:.3f} s",
                    "note": f"{1e3 * seal:.1f} ms for {path.stat().st_size / 1e6:.1f} MB, medians of {RUNS}",
                }
            )
    return rows
