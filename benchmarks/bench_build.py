"""A real build and hackbench, bare, captured and under `perf sched record`, in one run: CPU time, bytes and lost events.

It needs root, gcc and make. Only the CPU time of the build itself counts, which includes the probes and excludes other work on
the machine. Variants take turns in shuffled order.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks._interval import bootstrap
from benchmarks.bench_capture import INNER, Recording
from wastedcores.trace.io import import_trace

TURNS = 7
JOBS = 8
FOLDERS, FILES = 4, 3
_FUNCTION = """
static int work_{n}(const char *text, int *counts, int size)
{{
    int sum = {n};
    for (size_t i = 0; i < strlen(text); i++) {{
        switch (text[i] % 7) {{
        case 0: counts[i % size] += sum * 3; break;
        case 1: counts[(i + {n}) % size] ^= text[i]; break;
        case 2: sum += counts[i % size] / ({n} + 1); break;
        default: sum = sum * 31 + text[i];
        }}
    }}
    return sum;
}}
"""


def write_sources(folder: Path) -> None:
    """Write a project of C files in subfolders, each with a Makefile of its own, as Kbuild has them."""
    subs = [f"part{i}" for i in range(FOLDERS)]
    rules = "".join(f"{s}:\n\t$(MAKE) -C {s}\n" for s in subs)
    (folder / "Makefile").write_text(
        f"all: {' '.join(subs)}\n.PHONY: all {' '.join(subs)}\n{rules}"
    )
    for sub in subs:
        (folder / sub).mkdir()
        objects = " ".join(f"f{i}.o" for i in range(FILES))
        (folder / sub / "Makefile").write_text(
            f"lib.a: {objects}\n\tar rcs $@ $^\n%.o: %.c\n\techo CC $<; gcc -O2 -c -o $@ $<\n"
        )
        for i in range(FILES):
            functions = "".join(_FUNCTION.format(n=n) for n in range(12))
            calls = " + ".join(f"work_{n}(t, c, s)" for n in range(12))
            body = f"int all_{sub}_{i}(const char *t, int *c, int s) {{ return {calls}; }}\n"
            includes = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
            (folder / sub / f"f{i}.c").write_text(includes + functions + body)


def cpu_s(work: list[str], *around: str) -> float:
    """Return the CPU seconds of a command and its children."""
    done = subprocess.run(
        [*around, sys.executable, "-c", INNER, *work], capture_output=True, text=True, check=True
    )
    found = re.search(r"CPU ([\d.]+)", done.stdout)
    assert found, done.stderr
    return float(found[1])


def measured(work: list[str], before: list[str], folder: Path) -> tuple[dict, dict]:
    """Return the CPU times of each variant, and the sizes, events and losses of both recordings."""
    order = ["bare", "capture", "perf"]
    times: dict[str, list[float]] = {k: [] for k in order}
    facts: dict[str, tuple[int, int, int]] = {}
    for n in range(TURNS):
        random.Random(n).shuffle(order)
        for kind in order:
            subprocess.run(before, check=True)
            raw = folder / ("o.wct" if kind == "capture" else "perf.data")
            if kind == "bare":
                times[kind].append(cpu_s(work))
                continue
            if kind == "perf":
                times[kind].append(cpu_s(work, "perf", "sched", "record", "-o", str(raw), "--"))
            else:
                with Recording("schedtrace.py", [], raw):
                    times[kind].append(cpu_s(work))
            if n == TURNS - 1:
                header = import_trace(raw, folder / "x.parquet").header
                facts[kind] = (raw.stat().st_size, int(header.events or 0), header.lost_total)
            raw.unlink()
    return times, facts


def rows_of(name: str, label: str, times: dict, facts: dict) -> list[dict]:
    t = {k: np.array(v) for k, v in times.items()}

    def slowdown(kind: str, i: np.ndarray) -> float:
        return float(np.median(t[kind][i] / t["bare"][i]) - 1)

    rows = []
    for kind, who in (("capture", "wastedcores capture"), ("perf", "perf sched record")):
        value, low, high = bootstrap(TURNS, lambda i, kind=kind: slowdown(kind, i))
        size, events, lost = facts[kind]
        rows.append({
            "id": f"{name}_{kind}_overhead",
            "name": f"{label} under {who}: CPU time added",
            "value": round(100 * value, 2),
            "unit": "%",
            "goal": "-",
            "note": f"95 % interval {100 * low:.1f} to {100 * high:.1f}; medians of {TURNS} turns in shuffled order, bare "
            f"{t['bare'].min():.2f}-{t['bare'].max():.2f} s of CPU time, {kind} {t[kind].min():.2f}-{t[kind].max():.2f} s; "
            f"{events:,} events, {size:,} bytes, {lost:,} lost",
        })  # fmt: skip
        rows.append({
            "id": f"{name}_{kind}_bytes",
            "name": f"{label} under {who}: bytes per event as recorded",
            "value": round(size / max(events, 1), 1),
            "unit": "B",
            "goal": "-",
            "note": f"{events:,} events, {lost:,} lost; the last turn",
        })  # fmt: skip
    ours, perf = facts["capture"][0], facts["perf"][0]
    rows.append({
        "id": f"{name}_bytes_ratio",
        "name": f"{label}: bytes recorded, wastedcores capture as a share of perf sched record",
        "value": round(ours / perf, 3),
        "unit": "",
        "goal": "-",
        "note": f"{ours:,} of {perf:,} bytes",
    })  # fmt: skip
    return rows


def run() -> list[dict]:
    """Return the rows for RESULTS.md."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder, project = Path(name), Path(name, "project")
        project.mkdir()
        write_sources(project)
        clean = ["find", str(project), "-name", "*.[oa]", "-delete"]
        build = ["make", "-C", str(project), f"-j{JOBS}"]
        label = f"make -j{JOBS} of {FOLDERS * FILES} C files in {FOLDERS} folders"
        rows += rows_of("build", label, *measured(build, clean, folder))
        hackbench = ["perf", "bench", "sched", "messaging", "-g", "4", "-l", "100"]
        rows += rows_of(
            "hackbench",
            f"hackbench ({' '.join(hackbench)})",
            *measured(hackbench, ["true"], folder),
        )
    return rows


if __name__ == "__main__":
    for row in run():
        print(row)
