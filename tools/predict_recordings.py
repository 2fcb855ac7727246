"""Predict the work of one recording under the kernel of another, and write the comparison into docs/what-if.md.

    python tools/predict_recordings.py [--seeds 20] [-n]

The prediction uses the trace of one recording and its ``tasks.json``, and nothing else that is known of the workload.
With ``-n`` the table is only printed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from wastedcores.files import datasets
from wastedcores.prediction import Range, WhatIf, whatif
from wastedcores.recovery import recover
from wastedcores.topology.machine import Machine
from wastedcores.trace.header import TaskFacts, Window
from wastedcores.trace.trace import Trace
from wastedcores_studies.recordings.recording import Recording

PAGE = Path(__file__).resolve().parents[1] / "docs" / "what-if.md"
#: the part of the page that this program writes
MADE = re.compile(r"(<!-- made by tools/predict_recordings.py -->\n).*?(<!-- end -->)", re.S)
#: recordings of the same workload on the same machine; the first one's work is predicted for the kernels of the others
PAIRS = {
    "db64-buggy-64cpu": ("db64-oow-64cpu", "db64-all-64cpu"),
    "db16-buggy-16cpu": (),
    "gi-buggy-64cpu": ("gi-gi-64cpu", "gi-all-64cpu"),
    "gi-buggy-16cpu": ("gi-all-16cpu",),
    "gc-buggy-64cpu": ("gc-sgc-64cpu", "gc-sgclit-64cpu"),
    "gc-buggy-16cpu": ("gc-sgclit-16cpu",),
    "ms-buggy-64cpu": ("ms-msd-64cpu",),
    "ms-buggy-16cpu": ("ms-all-16cpu",),
}

#: the same of today's kernels, in datasets/recordings-modern: each recording is predicted from the other one
MODERN = {
    a: (b,)
    for old, new in (
        (f"{work}-6.12-{cpus}", f"{work}-7.2-{cpus}")
        for work, cpus in (
            ("db64", "64cpu"), ("gi", "16cpu"), ("gi", "64cpu"), ("gc", "16cpu"), ("gc", "64cpu"), ("ms", "16cpu"),
            ("ms", "64cpu"),
        )
    )
    for a, b in ((old, new), (new, old))
}  # fmt: skip

#: the CPU that was taken offline and brought back before the recordings ``ms``, by the number of CPUs
HOTPLUG = {64: 20, 16: 5}

SCHEMA: dict[str, type[pl.DataType]] = {
    "recording": pl.String,
    "kernel": pl.String,
    "other": pl.String,
    "unit": pl.String,
    "recorded": pl.Float64,
    "median": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "error": pl.Float64,
    "trust": pl.String,
}


def predict(recording: Recording, to: list[str], seeds: int) -> WhatIf:
    """Predict the recorded work under other kernels."""
    return whatif(
        bounded(recording),
        machine=recorded_on(recording),
        kernel=recording.kernel,
        to=to,
        tasks=tasks_of(recording),
        seeds=seeds,
    )


def bounded(recording: Recording) -> Trace:
    """Return the trace of a recording with its measured window in the header."""
    start, end = recording.window
    return recording.trace.with_header(window=Window(start_ns=start, end_ns=end))


def recorded_on(recording: Recording) -> Machine:
    """Return the machine of a recording, with the hotplug steps that were taken before it began."""
    machine = recording.machine
    if recording.kind != "ms":
        return machine
    cpu = HOTPLUG[machine.cpus]
    return machine.after([("offline", cpu), ("online", cpu)])


def tasks_of(recording: Recording) -> list[TaskFacts]:
    """Return what the task file of a recording tells of its tasks."""
    told = json.loads((recording.folder / "tasks.json").read_bytes())["tasks"]
    return [TaskFacts.model_validate(fact) for fact in told]


def compare_predictions(
    pairs: dict[str, tuple[str, ...]] = PAIRS,
    seeds: int = 20,
    note: Callable[[str], None] = lambda _: None,
) -> pl.DataFrame:
    """Predict each pair of :data:`PAIRS` or :data:`MODERN` and compare with what was recorded."""
    folder = datasets() / ("recordings-modern" if pairs is MODERN else "recordings")
    rows: list[tuple[Any, ...]] = []
    for name, others in pairs.items():
        recording = Recording.read(folder / name)
        found = [Recording.read(folder / other) for other in others]
        answer = predict(recording, [r.kernel.name for r in found] or ["core"], seeds)
        timed = answer.itself.window_ns is not None
        value = answer.window_ns / 1e9 if timed else answer.busy_cpus
        rows.append(_row(name, recording, "", value, answer.itself, timed, answer.trust))
        variants = {v.kernel: v for v in answer.variants}
        for other in found:
            start, end = other.window
            truth = (end - start) / 1e9 if timed else recover(bounded(other)).busy_cpus()
            variant = variants[other.kernel.name]
            rows.append(_row(name, other, other.name, truth, variant, timed, answer.trust))
        note(f"{name}: {', '.join(f'{100 * r[8]:.1f} %' for r in rows[-1 - len(found) :])}")
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _row(
    name: str, of: Recording, other: str, recorded: float, variant: Any, timed: bool, trust: str
) -> tuple[Any, ...]:
    found: Range = variant.window_ns if timed else variant.busy_cpus
    scale = 1e-9 if timed else 1.0
    median, low, high = (scale * v for v in (found.median, found.low, found.high))
    error = abs(median / recorded - 1)
    unit = "s" if timed else "busy CPUs"
    return (name, of.kernel.name, other, unit, recorded, median, low, high, error, trust)


def predictions_report(table: pl.DataFrame) -> str:
    """Return the table as Markdown, with a sentence in front of it."""
    own = table.filter(pl.col("other") == "")
    pairs = table.filter(pl.col("other") != "")
    lines = [
        f"{(own['error'] <= 0.05).sum()} of {own.height} recordings are within 5 % when they are replayed under their own "
        f"kernel, and {(pairs['error'] <= 0.1).sum()} of {pairs.height} predictions are within 10 % of the recording of the "
        "other kernel.",
        "",
        "| trace of | replayed under | recorded | replayed: median [5 %, 95 %] | error | trust |",
        "|---|---|---|---|---|---|",
    ]
    for r in table.iter_rows(named=True):
        under = f"{r['kernel']} ({r['other'] or 'itself'})"
        numbers = f"{r['median']:.3f} [{r['low']:.3f}, {r['high']:.3f}]"
        lines.append(
            f"| {r['recording']} | {under} | {r['recorded']:.3f} {r['unit']} | {numbers} | "
            f"{100 * (r['median'] / r['recorded'] - 1):+.1f} % | {r['trust']} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the table."""
    assert MADE.search(PAGE.read_text()), PAGE
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("-n", "--dry-run", action="store_true")
    args = parser.parse_args()
    text, modern = (
        predictions_report(
            compare_predictions(
                pairs, args.seeds, lambda line: print(line, file=sys.stderr, flush=True)
            )
        )
        for pairs in (PAIRS, MODERN)
    )
    text += f"\nBetween Linux 6.12.107 and 7.2.13: {modern}"
    print(text)
    if not args.dry_run:
        PAGE.write_text(MADE.sub(lambda m: f"{m[1]}{text}{m[2]}", PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
