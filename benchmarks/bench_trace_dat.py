"""Reading trace.dat, against ``trace-cmd report`` on the same recording, interleaved. It needs root, tracefs and trace-cmd."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.limits import Limits

ROUNDS = 7
#: a trace buffer of its own: `trace-cmd record` needs the function tracer, which not every kernel has
INSTANCE = Path("/sys/kernel/tracing/instances/wastedcores_benchmark")
EVENTS = (
    *("sched/sched_" + e for e in ("switch", "wakeup", "wakeup_new", "migrate_task")),
    *("sched/sched_process_" + e for e in ("fork", "exec", "exit")),
    "power/cpu_idle",
)


def possible() -> bool:
    """Whether this machine can record: it needs root, tracefs, perf and trace-cmd."""
    programs = ("perf", "trace-cmd")
    return not os.geteuid() and INSTANCE.parent.is_dir() and all(map(shutil.which, programs))


def record(path: Path) -> None:
    """Record about a million events of this machine's scheduler with trace-cmd, as version 7, compressed by zstd."""
    INSTANCE.mkdir()
    try:
        (INSTANCE / "trace_clock").write_text("mono")
        (INSTANCE / "buffer_size_kb").write_text("400000")
        for event in EVENTS:
            (INSTANCE / "events" / event / "enable").write_text("1")
        command = ["perf", "bench", "sched", "messaging", "-g", "8", "-l", "4000"]
        subprocess.run(command, check=True, capture_output=True)
        (INSTANCE / "tracing_on").write_text("0")
        command = ["trace-cmd", "extract", "-B", INSTANCE.name, "-o", str(path)]
        subprocess.run(command, check=True, capture_output=True)
    finally:
        if INSTANCE.exists():
            INSTANCE.rmdir()


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def report(path: Path, text: Path, *options: str) -> None:
    with text.open("wb") as out:
        command = ["trace-cmd", "report", *options, "-i", str(path)]
        subprocess.run(command, stdout=out, stderr=subprocess.DEVNULL, check=True)


def run() -> list[dict]:
    """Return the rows for RESULTS.md."""
    from wastedcores.trace.io import import_trace, open_trace

    if not possible():
        return []
    with tempfile.TemporaryDirectory(prefix="wastedcores-bench-") as name:
        folder = Path(name)
        path, text = folder / "trace.dat", folder / "report.txt"
        record(path)
        events = open_trace(path).events.collect().height  # compiles
        import_trace(path, folder / "t.parquet")
        times: dict[str, list[float]] = {k: [] for k in ("report", "plain", "open", "kept")}
        for _ in range(ROUNDS):
            times["report"].append(seconds(lambda: report(path, text)))
            times["plain"].append(seconds(lambda: report(path, text, "-t", "-N")))
            times["open"].append(seconds(lambda: open_trace(path)))
            times["kept"].append(seconds(lambda: import_trace(path, folder / "t.parquet")))
        size = path.stat().st_size
        shares = Limits(path, folder / "t.parquet").shares(
            statistics.median(times["open"]), statistics.median(times["kept"])
        )
    median = {k: statistics.median(v) for k, v in times.items()}
    rows = []
    for key, name, goal in (
        ("open", "trace.dat read, every event a row in memory", 20.0),
        ("kept", "trace.dat read and kept as Parquet, with its SHA-256", None),
    ):
        ratio = median["report"] / median[key]
        rows.append(
            {
                "id": key,
                "name": name,
                "value": ratio,
                "unit": "x",
                "goal": f">= {goal:.0f} x" if goal else "-",
                "met": ratio >= goal if goal else None,
                "peer": f"trace-cmd report to a file, {median['report']:.2f} s (with -t -N {median['plain']:.2f} s)",
                "note": f"{median[key]:.3f} s; {events} events, {size / 1e6:.1f} MB; median of {ROUNDS}, interleaved",
            }
        )
    return rows + shares
