"""A fleet: 1000 traces of 10^6 events on a Dask cluster of separate processes, one of which is killed, and in one process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import polars as pl

TRACES, EVENTS, WORKERS = 1000, 1_000_000, 2
#: traces that the single process checks, and different traces; the others are links to these
ALONE, DIFFERENT = 100, 8

_ALONE = """
import json, sys, time
from wastedcores.sweep.traces import check_once, find_traces, runs_of
runs = runs_of(find_traces(sys.argv[1]))
check_once(**dict(runs[0].arguments))  # loads compiled code
start = time.perf_counter()
for run in runs[: int(sys.argv[2])]:
    check_once(**dict(run.arguments))
print(json.dumps(time.perf_counter() - start))
"""


def make(folder: Path) -> None:
    """Write the traces: a few different ones, and links to them under other names."""
    from benchmarks.bench_check import synthetic
    from wastedcores.trace import Header
    from wastedcores.trace.parquet import stream_parquet
    from wastedcores.trace.schema import conform

    whole = synthetic(counts=False)
    for i in range(DIFFERENT):
        part = conform(whole.slice(i * EVENTS, EVENTS), "benchmark")
        header = Header(
            source_format="benchmark",
            cpus=64,
            cpus_online=list(range(64)),
            every_switch=True,
            host=f"host{i}",
        )
        stream_parquet([part], lambda header=header: header, folder / f"{i:04}.parquet")
    for i in range(DIFFERENT, TRACES):
        os.link(folder / f"{i % DIFFERENT:04}.parquet", folder / f"{i:04}.parquet")


def start(what: str, *args: str, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-W", "ignore", "-m", f"distributed.cli.dask_{what}", *args]
    with log.open("w") as out:
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
        return subprocess.Popen(command, stdout=out, stderr=out, env=environment)


def wait_for(log: Path, pattern: str) -> str:
    """Return what a process says in its log."""
    end = time.monotonic() + 60
    while not (found := re.search(pattern, log.read_text())):
        if time.monotonic() > end:
            raise TimeoutError(log.read_text()[-500:])
        time.sleep(0.1)
    return found.group()


def on_cluster(traces: Path, folder: Path) -> tuple[pl.DataFrame, float, float]:
    """Check all traces on a cluster; return the table, the seconds, and after how many of them a worker was killed."""
    from wastedcores.sweep import sweep
    from wastedcores.sweep.traces import find_traces, runs_of

    logs = [folder / f"{i}.log" for i in range(WORKERS + 2)]
    processes = [
        start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", log=logs[0])
    ]
    try:
        address = wait_for(logs[0], r"tcp://127\.0\.0\.1:\d+")
        # one more worker than are to be left
        for log in logs[1:]:
            options = (
                "--nthreads",
                "1",
                "--no-nanny",
                "--no-dashboard",
                "--local-directory",
                str(folder),
            )
            processes.append(start("worker", address, *options, log=log))
        for log in logs[1:]:
            wait_for(log, "Registered to")
        out = folder / "table.parquet"
        kept = out.with_name("table.parquet.runs")
        began = time.perf_counter()
        killed = [0.0]

        def kill() -> None:
            while not kept.is_dir() or sum(1 for _ in kept.iterdir()) < TRACES // 4:
                time.sleep(0.2)
            processes[1].kill()
            killed[0] = time.perf_counter() - began

        # a daemon, because it waits for ever if the sweep fails
        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        table = sweep(runs_of(find_traces(str(traces))), out, scheduler=address, progress=False)
        took = time.perf_counter() - began
        killer.join()
        return table, took, killed[0]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run() -> list[dict]:
    """Return the rows for RESULTS.md."""
    with tempfile.TemporaryDirectory(prefix="wastedcores-bench-") as name:
        folder = Path(name)
        traces = folder / "traces"
        traces.mkdir()
        make(traces)
        command = [sys.executable, "-c", _ALONE, str(traces), str(ALONE)]
        alone = subprocess.run(command, capture_output=True, text=True, check=True)
        rate_alone = ALONE / json.loads(alone.stdout)
        table, took, killed = on_cluster(traces, folder)
    names = table["trace"].n_unique()
    complete = names == table.height == TRACES and table["error"].null_count() == TRACES
    # links to the same file must have the same result
    same = table.with_columns(
        file=pl.col("trace").str.extract(r"(\d+)\.parquet").cast(pl.Int64) % DIFFERENT
    )
    complete &= (
        same.group_by("file").agg(pl.col("wasted_cpu_s").n_unique())["wasted_cpu_s"].to_list()
        == [1] * DIFFERENT
    )
    rate = TRACES / took
    return [
        {
            "id": "fleet_complete",
            "name": f"{TRACES} traces of {EVENTS:,} events, one of {WORKERS + 1} workers killed: traces in the table",
            "value": names,
            "unit": "traces",
            "goal": f"= {TRACES}, each once",
            "met": bool(complete),
            "note": f"killed after {killed:.0f} s of {took:.0f} s; {DIFFERENT} different files, the others are links to them",
        },
        {
            "id": "fleet_rate",
            "name": "rate of that cluster",
            "value": rate,
            "unit": "traces/s",
            "goal": "-",
            "peer": f"one process: {rate_alone:.2f} traces/s ({rate / rate_alone:.2f}x)",
            "note": f"{rate * EVENTS / 1e6:.1f} M events/s on {os.cpu_count()} CPUs",
        },
    ]
