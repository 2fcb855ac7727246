"""The whole check, against the same check of an older commit: both in one run, in turns, each with a file of its own.

The peer is commit d40907d, the last one before the evidence that a thread may use a CPU was graded.
"""

from __future__ import annotations

import json
import lzma
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

ROOT = Path(__file__).resolve().parent.parent
BEFORE = "d40907d"
EXAMPLES = ("group-imbalance-buggy", "group-imbalance-fixed", "overload-on-wakeup-buggy")
EVENTS, CPUS, RUNS = 10_000_000, 64, 5

_WORKER = """
import json, sys, time
from pathlib import Path
import polars as pl
from wastedcores.invariant import check
from wastedcores.trace import Header, parquet
from wastedcores.trace.io import open_trace
from wastedcores.trace.schema import conform

def write(source, target):
    table = pl.scan_ipc(source)
    frames = table.collect_batches(chunk_size=1 << 20, maintain_order=True)
    facts = {"source_format": "benchmark", "cpus": 64, "cpus_online": list(range(64)), "every_switch": True}
    parquet.stream_parquet((conform(f, "benchmark") for f in frames), lambda: Header(**facts), Path(target))

def tile(source, times, target):
    piece = pl.read_ipc(source)
    length = piece["ts_ns"][-1] + 1
    frames = (conform(piece.with_columns(pl.col("ts_ns") + i * length), "benchmark") for i in range(int(times)))
    facts = {"source_format": "benchmark", "cpus": 64, "cpus_online": list(range(64))}
    parquet.stream_parquet(frames, lambda: Header(**facts), Path(target))

for line in sys.stdin:
    what, *paths = json.loads(line)
    wall, cpu = time.perf_counter(), time.process_time()
    if what == "check":
        for _ in range(int(paths[1])):
            check(open_trace(paths[0]))
    elif what == "tile":
        tile(*paths)
    else:
        write(*paths)
    print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]), flush=True)
"""


class Build:
    """A process that runs one tree of sources, and its folder for traces in that tree's own format."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _WORKER],
            cwd=tree,
            env={"PYTHONPATH": str(tree), "PATH": "/usr/bin:/bin", "HOME": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, *command: str) -> tuple[float, float]:
        """Return the wall time and the CPU time of a command in s."""
        assert self.process.stdin
        assert self.process.stdout
        print(json.dumps(command), file=self.process.stdin, flush=True)
        wall, cpu = json.loads(self.process.stdout.readline())
        return wall, cpu


class Case(NamedTuple):
    """A trace that is checked: how a build gets it (None: as it is, below the build's tree), and from which file."""

    id: str
    name: str
    how: str | None
    source: Path


def synthetic(counts: bool) -> pl.DataFrame:
    """Return events of two threads per CPU that run in turns, sleep and wake each other, at random times.

    Parameters
    ----------
    counts
        Each event is followed by the kernel's nr_running.

    Returns
    -------
    polars.DataFrame
        Columns of the trace schema.
    """
    random = np.random.default_rng(1)
    n = EVENTS // (2 if counts else 1)
    cpu = random.integers(0, CPUS, n).astype(np.int32)
    order = np.argsort(cpu, kind="stable")
    first = np.searchsorted(cpu[order], np.arange(CPUS))
    step = np.empty(n, np.int64)
    step[order] = (np.arange(n) - first[cpu[order]]) % 8
    one, other = 1000 + 2 * cpu, 1001 + 2 * cpu
    # wake the other, sleep, wake the one, be preempted, sleep, both sleep, the one wakes, and runs
    woken = np.select([step == 0], [other], one)
    pid = np.select([np.isin(step, (1, 4)), step == 5], [other, 0], one)
    previous = np.select([np.isin(step, (1, 4)), step == 7], [one, 0], other)
    waker = np.select([step == 0, step == 2], [one, other], 0)
    wakes = np.isin(step, (0, 2, 6))
    table = pl.DataFrame(
        {
            "ts_ns": np.cumsum(random.integers(1, 2000, n)),
            "kind": np.where(wakes, "wakeup", "switch"),
            "cpu": cpu,
            "pid": np.where(wakes, woken, pid),
            "prev_pid": pl.Series(previous).zip_with(
                pl.Series(~wakes), pl.Series([None], dtype=pl.Int64)
            ),
            "prev_state": pl.Series(np.where(np.isin(step, (3, 7)), "R", "S")).zip_with(
                pl.Series(~wakes), pl.Series([None], dtype=pl.String)
            ),
            "src_cpu": pl.Series(cpu).zip_with(pl.Series(wakes), pl.Series([None], dtype=pl.Int32)),
            "by_pid": pl.Series(waker).zip_with(
                pl.Series(wakes), pl.Series([None], dtype=pl.Int64)
            ),
        }
    )
    if not counts:
        return table
    nr = np.array([2, 1, 2, 2, 1, 0, 1, 1], np.int32)[step]
    numbers = table.select("ts_ns", "cpu", kind=pl.lit("nr_running"), nr_running=pl.Series(nr))
    return pl.concat([table, numbers], how="diagonal").sort("ts_ns", maintain_order=True)


def cases(folder: Path) -> list[Case]:
    """Return what is checked; files that are made lie in ``folder``."""
    found = [
        Case(name, f"example {name}", None, Path("datasets", "small", f"{name}.parquet"))
        for name in EXAMPLES
    ]
    for id, name, counts in (
        ("tasks", "task events", False),
        ("counts", "half task events, half nr_running", True),
    ):
        path = folder / f"{id}.arrow"
        synthetic(counts).write_ipc(path)
        found.append(Case(id, f"10^7 synthetic events, {name}", "write", path))
    text = folder / "text.txt"
    recording = ROOT / "datasets" / "recordings" / "gi-buggy-64cpu" / "trace.txt.xz"
    text.write_bytes(lzma.decompress(recording.read_bytes()))
    found.append(Case("text", "ftrace text of gi-buggy-64cpu", None, text))
    return found


def compare(case: Case, old: Build, new: Build) -> dict:
    """Return the row of one case: medians of ratios of neighbouring runs."""
    paths = {}
    for build in (old, new):
        paths[build] = str(case.source)
        if case.how:
            paths[build] = str(build.folder / f"{case.id}.parquet")
            build.do(case.how, str(case.source), paths[build])
        build.do("check", paths[build], "1")  # compiles and warms up
    times_each = str(max(1, round(0.5 / new.do("check", paths[new], "1")[1])))
    times: dict[Build, list[tuple[float, float]]] = {old: [], new: []}
    for turn in range(RUNS):
        for build in (old, new) if turn % 2 else (new, old):
            times[build].append(build.do("check", paths[build], times_each))
    ratios = np.array(times[new]) / np.array(times[old])
    wall, cpu = (float(r) for r in np.median(ratios, axis=0))
    seconds = [statistics.median(c for _, c in times[b]) / int(times_each) for b in (new, old)]
    return {
        "id": f"check_{case.id}",
        "name": f"CPU time of a check, {case.name}",
        "value": cpu,
        "unit": f"x of {BEFORE}",
        "goal": "<= 1.05",
        "met": cpu <= 1.05,
        "peer": f"{BEFORE}: {seconds[1]:.3f} s",
        "note": f"{seconds[0]:.3f} s; wall time {wall:.3f} x; medians of {RUNS} pairs in turns",
    }


def long_checks(folder: Path, old: Build, new: Build) -> list[dict]:
    """Return the rows of long traces of runqueue sizes: the wall time of checks in turns, from opening to the verdict."""
    from benchmarks.bench_invariant import changes

    ts_ns, cpu, nr = changes(2_000_000, 1)
    piece = folder / "piece.arrow"
    kind = pl.lit("nr_running")
    pl.DataFrame({"ts_ns": ts_ns, "cpu": cpu, "nr_running": nr}).with_columns(kind=kind).write_ipc(
        piece
    )
    rows = []
    for exponent, runs in ((7, RUNS), (8, 3)):
        for build in (old, new):
            target = str(build.folder / "long.parquet")
            build.do("tile", str(piece), str(10**exponent // 2_000_000), target)
            build.do("check", target, "1")  # compiles and fills the kernel's cache of files
        times: dict[Build, list[float]] = {old: [], new: []}
        for turn in range(runs):
            for build in (old, new) if turn % 2 else (new, old):
                times[build].append(build.do("check", str(build.folder / "long.parquet"), "1")[0])
        ratio = statistics.median(n / o for n, o in zip(times[new], times[old], strict=True))
        rows.append(
            {
                "id": f"check_long_{exponent}",
                "name": f"wall time of a check, 10^{exponent} nr_running events from Parquet",
                "value": ratio,
                "unit": f"x of {BEFORE}",
                "goal": "<= 1.05",
                "met": ratio <= 1.05,
                "peer": f"{BEFORE}: {statistics.median(times[old]):.2f} s",
                "note": f"{statistics.median(times[new]):.2f} s; median of {runs} pairs in turns, warm",
            }
        )
    return rows


def run() -> list[dict]:
    """Return the rows for RESULTS.md."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = folder / "before"
        before.mkdir()
        archive = subprocess.run(
            ["git", "-C", str(ROOT), "archive", BEFORE], capture_output=True, check=True
        )
        subprocess.run(["tar", "x", "-C", str(before)], input=archive.stdout, check=True)
        old, new = Build(before, folder / "old"), Build(ROOT, folder / "new")
        try:
            return [*long_checks(folder, old, new), *(compare(c, old, new) for c in cases(folder))]
        finally:
            for build in (old, new):
                build.process.kill()
                build.process.wait()
