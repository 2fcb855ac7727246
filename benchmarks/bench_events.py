"""Measures the first events figure of 10^7 events in Parquet, in a new process, and then zooms in the same trace."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

EVENTS = 10_000_000
CPUS = 64

#: the program of the new process: everything from the first import to the JSON that the browser gets
_FIRST = """
import time, json, sys
begin = time.perf_counter()
from wastedcores.trace.io import open_trace
from wastedcores.analysis.examined import examine
from wastedcores.figures.event_layers import styled
from wastedcores.figures.event_views import EventView
layers = [
    styled('kind == "switch" and pid != 0', "draw=spans:run_ns colour=by:comm label=running"),
    styled('kind == "wakeup" and src_cpu != cpu and comm in ("a", "b")', "draw=arrows colour=by:cause"),
    styled('kind == "switch" and idle_before_ns > 200 * us', "colour=red label=late"),
]
view = EventView(examine(open_trace(sys.argv[1])), layers)
text = view.figure().to_json()
first, used = time.perf_counter() - begin, time.process_time()
segments = sum(d.segments.start.size for d in view.drawn)
start, end = view.scene.window
zooms = {}
for part in (1, 10, 1000, 100_000):
    wide = (end - start) // part
    times, sizes = [], []
    for k in range(3):
        at = start + (end - start - wide) * k // 3
        begin, spent = time.perf_counter(), time.process_time()
        sizes.append(len(view.figure((at, at + wide)).to_json()))
        times.append((time.perf_counter() - begin, time.process_time() - spent))
    zooms[part] = *max(times), max(sizes)
print(json.dumps({"first": first, "cpu": used, "bytes": len(text), "segments": segments, "zooms": zooms}))
"""


def make_trace(path: Path) -> None:
    """Write random switches and wakeups on 64 CPUs with a fixed seed, one event per microsecond on average."""
    import numpy as np
    import polars as pl

    from wastedcores.trace.header import Header
    from wastedcores.trace.parquet import write_parquet
    from wastedcores.trace.schema import conform
    from wastedcores.trace.trace import Trace

    rng = np.random.default_rng(20260102)
    ts = np.cumsum(rng.integers(1, 2000, EVENTS))
    cpu = rng.integers(0, CPUS, EVENTS).astype(np.int32)
    wakeup = rng.random(EVENTS) < 0.3
    # a CPU alternates between tasks and idle; the task that a switch stops is the one of the CPU's last switch
    pid = np.where(rng.random(EVENTS) < 0.4, 0, rng.integers(1, 4000, EVENTS)).astype(np.int32)
    pid[wakeup] = np.maximum(pid[wakeup], 1)
    frame = pl.DataFrame({"ts_ns": ts, "cpu": cpu, "pid": pid, "wakeup": wakeup})
    names = pl.Series(["idle", "a", "b", "c", "make", "cc1", "sh", "as"])
    stopped = pl.col("pid").shift(1, fill_value=0).over("cpu", "wakeup")
    frame = frame.with_columns(
        kind=pl.when("wakeup").then(pl.lit("wakeup")).otherwise(pl.lit("switch")),
        comm=names.gather((frame["pid"] % 7 + (frame["pid"] > 0)).cast(pl.Int64)),
        prev_pid=pl.when(~pl.col("wakeup")).then(stopped),
        prev_state=pl.when(~pl.col("wakeup")).then(pl.lit("S")),
        src_cpu=pl.when("wakeup").then((pl.col("cpu") * 7 + 3) % CPUS),
    ).drop("wakeup")
    header = Header(
        source_format="benchmark", cpus=CPUS, start_ns=int(ts[0]), end_ns=int(ts[-1]), events=EVENTS
    )
    write_parquet(Trace(conform(frame, "benchmark").lazy(), header), path)


def run() -> list[dict]:
    """Return the rows for RESULTS.md."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ten-million.parquet"
        make_trace(path)
        done = subprocess.run(
            [sys.executable, "-c", _FIRST, str(path)], capture_output=True, text=True, check=True
        )
    got = json.loads(done.stdout.splitlines()[-1])
    rows = [
        {
            "id": "first_events",
            "name": "first events figure from 10^7 events in Parquet (new process, three queries)",
            "value": round(got["first"], 2),
            "unit": "s",
            "goal": "< 5",
            "met": got["first"] < 5,
            "note": f"imports included, {got['cpu']:.1f} s of CPU time; "
            f"{got['segments']:,} segments, {got['bytes'] / 1e3:.0f} kB of JSON",
        }
    ]
    for part, (seconds, used, size) in got["zooms"].items():
        rows.append(
            {
                "id": f"events_zoom_{part}",
                "name": f"events figure, zoom to 1/{int(part):,} of 10^7 events, 64 CPUs x 1000 pixels",
                "value": round(seconds * 1e3, 1),
                "unit": "ms",
                "goal": "< 200",
                "met": seconds < 0.2,
                "note": f"worst of 3 windows, to JSON, {1e3 * used:.0f} ms of CPU time, at most {size / 1e3:.0f} kB",
            }
        )
    return rows


if __name__ == "__main__":
    for row in run():
        print(row)
