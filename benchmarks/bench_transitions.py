"""Transitions between user and kernel mode: their cost beside a capture of the scheduler alone and beside `perf trace record`.

It needs root. The work is `perf bench sched pipe` on one CPU: four system calls and two switches per round trip, so nothing but
transitions. CPU time of its two processes counts, which includes the probes; variants take turns in shuffled order. KUtrace's
author states the overhead at 200,000 transitions per second and core, so a program with that rate is measured, too.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks._interval import bootstrap
from benchmarks.bench_capture import LOOPS, QUIET, Recording, pipe
from wastedcores.capture.record import DEFAULT_EVENTS
from wastedcores.trace.io import import_trace
from wastedcores.trace.schema import TRANSITIONS

TURNS = 15
#: name of a variant -> what readers call it
VARIANTS = {
    "scheduler": "capture of the scheduler's events",
    "transitions": "capture --transitions",
    "ftrace": "ftrace of the same events, into its own ring",
    "perf trace": "perf trace record",
}
#: transitions per second and core at which KUtrace's author states the overhead
RATE = 200_000
TRACING = Path("/sys/kernel/tracing")
#: what --transitions records, as ftrace names it
EVENTS = (
    *("raw_syscalls/sys_enter", "raw_syscalls/sys_exit", "irq", "irq_vectors", "exceptions"),
    *(f"sched/sched_{e}" for e in ("switch", "wakeup", "wakeup_new", "waking", "migrate_task")),
    *(f"sched/sched_process_{e}" for e in ("fork", "exec", "exit")),
)
#: a program with a system call, which is two transitions, every so many turns of an empty loop
STEADY = """
import os, resource, sys
calls, turns = map(int, sys.argv[1:])
for _ in range(calls):
    os.getppid()
    for _ in range(turns):
        pass
r = resource.getrusage(resource.RUSAGE_SELF)
print("CPU", r.ru_utime + r.ru_stime)
"""
CALLS, STEADY_TURNS = 100_000, 40


@contextmanager
def ftrace() -> Iterator[None]:
    """Record into a ring of its own, which overwrites the oldest events."""
    own = TRACING / "instances" / "wastedcores-bench"
    own.mkdir()
    try:
        (own / "buffer_size_kb").write_text("65536")
        for event in EVENTS:
            switch = own / "events" / event / "enable"
            if switch.exists():
                switch.write_text("1")
        yield
    finally:
        (own / "tracing_on").write_text("0")
        (own / "events" / "enable").write_text("0")
        own.rmdir()


def once(kind: str, folder: Path, work: Callable[..., float] = pipe) -> tuple[float, int]:
    """Return the CPU seconds of some work under a variant, and the bytes that the variant recorded."""
    if kind == "bare":
        return work(), 0
    if kind == "ftrace":
        with ftrace():
            return work(), 0
    if kind == "perf trace":
        file = folder / "p.data"
        return work("perf", "trace", "record", "-o", str(file), "-a", "--"), file.stat().st_size
    events = DEFAULT_EVENTS if kind == "scheduler" else (*DEFAULT_EVENTS, "transitions")
    file = folder / f"{kind}.wct"
    with Recording("schedtrace.py", ["--buffer", "64", "--events", ",".join(events)], file):
        seconds = work()
    return seconds, file.stat().st_size


def steady(turns: int) -> float:
    """Return the CPU seconds of the program with a steady rate of system calls, on one CPU."""
    command = ["taskset", "-c", "1", *QUIET, sys.executable, "-c", STEADY, str(CALLS), str(turns)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(re.search(r"CPU ([\d.]+)", done.stdout).group(1))


def at_a_rate(folder: Path) -> dict:
    """Measure what recording costs at the rate for which KUtrace's author states a cost."""
    wanted_s = 2 * CALLS / RATE
    # the median, as of the times that count; with the least the rate would be too low
    low, high = (float(np.median([steady(turns) for _ in range(7)])) for turns in (0, 200))
    turns = max(round(200 * (wanted_s - low) / (high - low)), 0)
    times: dict[str, list[float]] = {"bare": [], "transitions": []}
    order = list(times)
    for n in range(STEADY_TURNS):
        random.Random(n).shuffle(order)
        for kind in order:
            times[kind].append(once(kind, folder, lambda: steady(turns))[0])
    bare, ours = (np.array(times[k]) for k in ("bare", "transitions"))
    value, low, high = bootstrap(
        STEADY_TURNS, lambda i: 100 * float(np.median(ours[i] / bare[i]) - 1)
    )
    rate = 2 * CALLS / float(np.median(bare))
    return {
        "id": "overhead_at_rate",
        "name": f"capture --transitions at {rate:,.0f} transitions per second on a core: CPU time added",
        "value": round(value, 2),
        "unit": "%",
        "goal": "-",
        "note": f"95 % interval {low:.2f} to {high:.2f}; medians of {STEADY_TURNS} turns in shuffled order; "
        f"the rate is of bare CPU time, and {RATE:,} were wanted",
    }


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
        rate_row = at_a_rate(folder)
    t = {k: np.array(v) for k, v in seconds.items()}
    rows = []
    for kind, said in VARIANTS.items():
        value, low, high = bootstrap(
            TURNS, lambda i, kind=kind: float(np.median(t[kind][i] / t["bare"][i]))
        )
        note = (
            f"95 % interval {low:.2f} to {high:.2f}; medians of {TURNS} turns in shuffled order, {LOOPS} round trips, bare "
            f"{t['bare'].min():.2f}-{t['bare'].max():.2f} s of CPU time"
        )
        if kind != "ftrace":  # its ring is not written anywhere
            note += f"; {sizes[kind] / LOOPS:.0f} bytes per round trip"
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
    extra, low, high = bootstrap(
        TURNS,
        lambda i: float(
            np.median(t["ftrace"][i] / t["bare"][i] - 1)
            / np.median(t["transitions"][i] / t["bare"][i] - 1)
        ),
    )
    share = {
        "id": "ftrace_share",
        "name": "CPU time that ftrace adds, as a multiple of what capture --transitions adds",
        "value": round(extra, 2),
        "unit": "",
        "goal": "-",
        "note": f"95 % interval {low:.2f} to {high:.2f}; the same turns",
    }
    return [*rows, share, rate_row]
