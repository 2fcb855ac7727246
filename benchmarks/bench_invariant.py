"""The check of the invariant: events per second on one core, and time and memory for 10^8 events from Parquet."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from wastedcores.invariant import sweep_jit

CPUS = 64


def changes(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return random +-1 walks of 64 runqueues between 0 and 4; times increase strictly by about 1 us."""
    random = np.random.default_rng(seed)
    ts_ns = np.cumsum(random.integers(1, 2000, n)).astype(np.int64)
    cpu = random.integers(0, CPUS, n).astype(np.int32)
    order = np.argsort(cpu, kind="stable")
    sign = np.where(random.random(n) < 0.5, 1, -1)
    walk = np.cumsum(sign[order])
    nr = np.empty(n, np.int32)
    nr[order] = np.abs((walk % 8) - 4)
    return ts_ns, cpu, nr


def sweep_rate(n: int) -> float:
    """Return the events per second of the compiled sweep alone, best of 5."""
    ts_ns, cpu, nr = changes(n, 1)
    best = 0.0
    for _ in range(6):  # the first compiles
        state = sweep_jit.new_state(CPUS, np.ones(CPUS, np.uint8), 0, int(ts_ns[-1]))
        out = sweep_jit.new_episodes(CPUS, 1 << 16)
        start = time.perf_counter()
        at = 0
        while at < n:
            at = sweep_jit.sweep(state, out, ts_ns, cpu, nr, at)
        best = max(best, n / (time.perf_counter() - start))
    return best


def naive_rate(n: int) -> float:
    """Return the events per second of the plainest vectorised peer, best of 5: numpy over a (changes, CPUs) table of states."""
    ts_ns, cpu, nr = changes(n, 1)
    return max(_naive(ts_ns, cpu, nr) for _ in range(5))


def _naive(ts_ns: np.ndarray, cpu: np.ndarray, nr: np.ndarray) -> float:
    n = ts_ns.size
    start = time.perf_counter()
    state = np.full((n, CPUS), -1, np.int8)
    for c in range(CPUS):
        at = np.flatnonzero(cpu == c)
        index = np.searchsorted(at, np.arange(n), side="right") - 1
        known = index >= 0
        state[known, c] = nr[at[index[known]]]
    idle = (state == 0).sum(1)
    waiting = np.maximum(state - 1, 0).sum(1)
    int((np.minimum(idle, waiting)[:-1] * np.diff(ts_ns)).sum())
    return n / (time.perf_counter() - start)


_CHILD = """
import json, resource, sys, time
from wastedcores.trace.io import open_trace
from wastedcores.invariant import check
start = time.perf_counter()
result = check(open_trace(sys.argv[1]))
print(json.dumps({"s": time.perf_counter() - start, "kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
                  "wall_ns": result.wall_ns, "episodes": result.episodes.height + result.episodes_dropped}))
"""


def big_check(total: int, folder: Path) -> tuple[dict, float]:
    """Check ``total`` nr_running events from Parquet in a new process; return its numbers and the file's bytes per event."""
    from wastedcores.trace import Header
    from wastedcores.trace.parquet import stream_parquet
    from wastedcores.trace.schema import conform

    step = 2_000_000
    end = 0

    def frames():
        nonlocal end
        for i in range(0, total, step):
            ts_ns, cpu, nr = changes(min(step, total - i), i)
            frame = pl.DataFrame({"ts_ns": ts_ns + end, "cpu": cpu, "nr_running": nr})
            end = int(frame["ts_ns"][-1])
            yield conform(frame.with_columns(kind=pl.lit("nr_running")), "benchmark")

    path = folder / "big.parquet"
    stream_parquet(
        frames(),
        lambda: Header(source_format="benchmark", cpus=CPUS, start_ns=0, end_ns=end, events=total),
        path,
    )
    out = subprocess.run(
        [sys.executable, "-c", _CHILD, str(path)], capture_output=True, text=True, check=True
    )
    return json.loads(out.stdout), path.stat().st_size / total


def run() -> list[dict]:
    """Return the rows for RESULTS.md."""
    rate = sweep_rate(10_000_000)
    peer = naive_rate(200_000)
    with tempfile.TemporaryDirectory() as name:
        big, size = big_check(100_000_000, Path(name))
    return [
        {
            "id": "sweep_rate",
            "name": "invariant sweep, 64 CPUs, one core",
            "value": rate / 1e6,
            "unit": "M events/s",
            "goal": ">= 100",
            "met": rate >= 100e6,
            "peer": f"numpy table of states: {peer / 1e6:.2f} M events/s ({rate / peer:.0f}x)",
            "note": "each the best of 5",
        },
        {
            "id": "check_time",
            "name": "check of 10^8 nr_running events from Parquet, fresh process",
            "value": big["s"],
            "unit": "s",
            "goal": "-",
            "note": f"{1e2 / big['s']:.1f} M events/s; {big['episodes']:,} episodes; both passes",
        },
        {
            "id": "check_memory",
            "name": "peak memory of that process",
            "value": big["kb"] / 2**20,
            "unit": "GiB",
            "goal": "< 4",
            "met": big["kb"] < 4 * 2**20,
        },
        {
            "id": "bytes_per_event",
            "name": "Parquet, random times and CPUs (the worst case)",
            "value": size,
            "unit": "bytes/event",
            "goal": "<= 4",
            "met": size <= 4,
        },
    ]
