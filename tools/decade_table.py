"""Write the tables of ten years: datasets/decade.csv and its part of docs/ten-years-later.md.

    python tools/decade_table.py [--seeds 3]

The repository's recordings are checked, and what was not recorded is replayed.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from wastedcores.analysis.examined import examine
from wastedcores.kernels import KernelModel
from wastedcores.kernels.generations import NO_AUTOGROUP
from wastedcores.simulator import replay_scenario
from wastedcores.trace.header import Window
from wastedcores_studies.recordings.decade import FILE
from wastedcores_studies.recordings.kernels import WORKLOADS, all_recordings, cpus_of
from wastedcores_studies.recordings.recording import Recording

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "ten-years-later.md"
MADE = re.compile(r"(<!-- made by tools/decade_table.py -->\n).*?(<!-- end -->)", re.S)
#: kernels in order of time: the variant of their recordings, empty if there is none, and the replay where none is
KERNELS = {
    "4.1": ("buggy", "v4.1"),
    "4.4": ("", "v4.4"),
    "6.1": ("6.1", "v6.1.192"),
    "6.12": ("6.12", "v6.12.107"),
    "6.18": ("", "v6.18.15"),
    "7.2": ("7.2", "v7.2.13"),
}
#: the recording whose parameters a workload has where the kernel has no recording
PATTERN = "7.2"
_CPUS = 64


@dataclass(frozen=True)
class Cell:
    """What one kernel did with one workload; ``replayed`` is the name of the replay's kernel, or empty."""

    workload: str
    kernel: str
    replayed: str
    unit: str
    result: float
    wasted_cpus: float
    wait_p99_ms: float | None


def decade(seeds: int = 3) -> pl.DataFrame:
    """Return a row per workload on 64 CPUs and kernel."""
    by_run = {r.name: r for r in all_recordings()}
    cells = []
    for stem, words in WORKLOADS.items():
        prefix = f"{stem}{_CPUS}" if stem == "db" else stem
        pattern = by_run[f"{prefix}-{PATTERN}-{_CPUS}cpu"]
        for kernel, (variant, model) in KERNELS.items():
            recording = by_run.get(f"{prefix}-{variant}-{_CPUS}cpu")
            cells.append(
                _recorded(words, kernel, recording)
                if recording
                else _replayed(words, kernel, model, pattern, range(1, seeds + 1))
            )
    return pl.DataFrame([vars(c) for c in cells])


def _waste(
    trace: Any, window: tuple[int, int], cpus: list[int] | None
) -> tuple[float, float | None]:
    """Return how many CPUs are wasted on average, and the 99th percentile of the waits in ms."""
    found = examine(
        trace.with_header(window=Window(start_ns=window[0], end_ns=window[1]), counted_cpus=cpus),
        "decade",
        ignore_affinity=True,
    )
    waits = found.wait_lengths
    wait = float(np.percentile(waits, 99)) / 1e6 if waits.size else None
    return found.result.to_json(limit=0)["mean_wasted_cpus"], wait


def _recorded(words: str, kernel: str, recording: Recording) -> Cell:
    wasted, wait = _waste(recording.trace, recording.window, cpus_of(recording))
    value, unit = recording.result
    return Cell(words, kernel, "", unit, value, wasted, wait)


def _replayed(
    words: str, kernel: str, model: str, pattern: Recording, seeds: Iterable[int]
) -> Cell:
    """Replay a workload; a cell is the median of the seeds."""
    off = pattern.meta["results_measured_in_guest"].get("autogroup") == 0
    name = KernelModel.named(f"{model}+{NO_AUTOGROUP}" if off else model).name
    given = pattern.parameters
    if not KernelModel.named(model).is_modern:  # forks of 4.1.3 are the scenario's default
        given = {k: v for k, v in given.items() if not k.startswith("fork_")}
    cells = []
    for seed in seeds:
        run = replay_scenario(f"recorded-{pattern.kind}", name, pattern.machine, seed, given)
        window = run.summary.start_ns, run.summary.end_ns
        # without an end there is no time, and 0 would be the best of all
        if run.summary.result is None:
            raise SystemExit(f"{words} under {name} did not finish with seed {seed}.")
        wasted, wait = _waste(run.trace, window, cpus_of(pattern))
        result = float(run.summary.result)
        cells.append(Cell(words, kernel, name, pattern.result.unit, result, wasted, wait))
    median: dict[str, Any] = {}
    for column in ("result", "wasted_cpus", "wait_p99_ms"):
        known = [v for cell in cells if (v := getattr(cell, column)) is not None]
        median[column] = float(np.median(known)) if known else None
    return replace(cells[0], **median)


def decade_markdown(table: pl.DataFrame) -> str:
    """Return three tables in Markdown: the result, the CPUs wasted and the waits, each with a column per kernel.

    A number that comes from replays is in italics.
    """
    units = {
        "s_per_iter": "ms per round",
        "cpus_of_work": "CPUs of work",
        "make_s": "s",
        "db_s": "s",
    }
    parts = []
    for title, column in (
        ("result", "result"),
        ("CPUs wasted of 64", "wasted_cpus"),
        ("99 % of the waits for a CPU are shorter than, ms", "wait_p99_ms"),
    ):
        lines = [f"| {title} | {' | '.join(KERNELS)} |", "|---|" + "---|" * len(KERNELS)]
        for rows in table.partition_by("workload", maintain_order=True):
            unit = units[rows["unit"][0]]
            words = rows["workload"][0] + (f", {unit}" if column == "result" else "")
            scale = 1000 if column == "result" and unit == "ms per round" else 1
            cells = [
                _cell(r[column], scale, bool(r["replayed"])) for r in rows.iter_rows(named=True)
            ]
            lines.append(f"| {words} | {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _cell(value: float | None, scale: int, replayed: bool) -> str:
    if value is None:
        return ""
    text = f"{scale * value:.2f}"
    return f"*{text}*" if replayed else text


def main() -> int:
    """Write the table and the page."""
    assert MADE.search(PAGE.read_text()), PAGE
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    table = decade(parser.parse_args().seeds)
    table.write_csv(ROOT / "datasets" / FILE, float_precision=6)
    made = decade_markdown(table)
    print(made)
    PAGE.write_text(MADE.sub(lambda m: f"{m[1]}{made}{m[2]}", PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
