"""Transitions between user and kernel mode: their cost beside a capture of the scheduler alone and beside `perf trace record`.

It needs root. The work is `perf bench sched pipe` on one CPU: four system calls and two switches per round trip, so nothing but
transitions. CPU time of its two processes counts, which includes the probes; variants take turns in shuffled order.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import numpy as np

from benchmarks._interval import bootstrap
from benchmarks.bench_capture import LOOPS, Recording, pipe
from wastedcores.capture.record import DEFAULT_EVENTS
from wastedcores.trace.io import import_trace
from wastedcores.trace.schema import TRANSITIONS

TURNS = 15
#: name of a variant -> what readers call it
VARIANTS = {
    "scheduler": "capture of the scheduler's events",
    "transitions": "capture --transitions",
    "perf trace": "perf trace record",
}


def once(kind: str, folder: Path) -> tuple[float, int]:
    """Return the CPU seconds of the work under a variant, and the bytes that the variant recorded."""
    if kind == "bare":
        return pipe(), 0
    if kind == "perf trace":
        file = folder / "p.data"
        return pipe("perf", "trace", "record", "-o", str(file), "-a", "--"), file.stat().st_size
    events = DEFAULT_EVENTS if kind == "scheduler" else (*DEFAULT_EVENTS, "transitions")
    file = folder / f"{kind}.wct"
    with Recording("schedtrace.py", ["--buffer", "64", "--events", ",".join(events)], file):
        seconds = pipe()
    return seconds, file.stat().st_size


def run() -> list[dict]:
    """Return the rows for RESULTS.md."""
    order = ["bare", *VARIANTS]
    seconds: dict[str, list[float]] = {k: [] for k in order}
    sizes: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="wastedcores-bench-") as name:
        folder = Path(name)
        for n in range(TURNS):
            random.Random(n).shuffle(order)
            for kind in order:
                took, sizes[kind] = once(kind, folder)
                seconds[kind].append(took)
        trace = import_trace(folder / "transitions.wct", folder / "t.parquet")
        recorded = trace.only(*TRANSITIONS).select("kind").collect().height
    t = {k: np.array(v) for k, v in seconds.items()}
    rows = []
    for kind, said in VARIANTS.items():
        value, low, high = bootstrap(
            TURNS, lambda i, kind=kind: float(np.median(t[kind][i] / t["bare"][i]))
        )
        note = (
            f"95 % interval {low:.2f} to {high:.2f}; medians of {TURNS} turns in shuffled order, {LOOPS} round trips, bare "
            f"{t['bare'].min():.2f}-{t['bare'].max():.2f} s of CPU time; {sizes[kind] / LOOPS:.0f} bytes per round trip"
        )
        if kind == "transitions":
            note += f"; {recorded / LOOPS:.1f} transitions per round trip, {trace.header.lost_total} events lost"
        rows.append(
            {
                "id": f"cost_{kind.replace(' ', '_')}",
                "name": f"{said}: CPU time of `perf bench sched pipe`",
                "value": round(value, 2),
                "unit": "x the time without",
                "goal": "-",
                "note": note,
            }
        )
    return rows
