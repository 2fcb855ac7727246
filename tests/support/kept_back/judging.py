"""Recordings beside replays of them: which quantities agree, and the shares by kernel, kind of work and machine.

``PYTHONPATH=.:tests python -m support.kept_back.judging [-o FILE]`` prints the tables of docs/kept-back.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from support import ROOT
from wastedcores.simulator import replay
from wastedcores.workload.program import costs_of

from .measuring import measure, worker
from .reading import Run, meta_of, recorded, replayed, running_aside
from .work import US, first_cpus, machine_of, model_of, workload

FOLDER = ROOT / "datasets" / "recordings-kinds"
#: differences that do not count; of all other quantities it is 0
FLOORS = {
    "busy CPUs": 0.05,
    "CPUs wasted": 0.05,
    "idle beside waiting": 0.02,
    "episodes per s": 5,
    "longest episode, ms": 1,
    "moves per s": 5,
    "wakeups on the last CPU": 0.03,
    "latency 50 %, us": 10,
    "latency 95 %, us": 20,
    "latency 99 %, us": 50,
}


def recordings() -> list[Path]:
    """Return the folders of the recordings."""
    return sorted(path.parent for path in FOLDER.glob("*/meta.json"))


def judge(folder: Path, seeds: Iterable[int] = range(1, 21)) -> list[dict]:
    """Compare a recording with replays under its own kernel; one row per quantity."""
    return compared(folder.name, meta_of(folder), recorded(folder), seeds)


def allowed(quantity: str, value: float) -> float:
    """Return how far from this value of a quantity another one agrees."""
    return max(0.1 * abs(value), FLOORS.get(quantity, 0.05 if quantity[:4] == "CPUs" else 0.0))


def compared(recording: str, meta: dict, run: Run, seeds: Iterable[int]) -> list[dict]:
    """Compare a run that was recorded with replays of the work of ``meta``."""
    machine, model, first = machine_of(meta), model_of(meta), first_cpus(meta)
    online = list(machine.online_cpus)
    # half of it at the end of a wait, and half at the end of a post
    costs = replace(costs_of(machine), syscall_ns=int(meta["costs"]["op_us"] * US / 2))
    aside = running_aside(run, lambda comm: comm == "shell" or worker(comm))
    found = measure(run, online, first)
    replays = [
        measure(replayed(replay(workload(meta, seed, aside), machine, model, seed, costs=costs, load=False)), online, first)
        for seed in seeds
    ]  # fmt: skip
    rows = []
    for name, value in found.items():
        values = [r[name] for r in replays if name in r]
        if len(values) < len(replays):
            continue
        median = float(np.median(values))
        low, high = (float(x) for x in np.percentile(values, (5, 95)))
        tolerance = allowed(name, median)
        rows.append(
            {
                "run": recording,
                "kernel": meta["variant"],
                "work": meta["scenario"] + ("" if meta["scenario"] != "chain" else f" {meta['params'].get('how', 'pipe')}"),
                "machine": recording.split("-")[1],
                "quantity": name,
                "recorded": value,
                "median": median,
                "low": low,
                "high": high,
                "near": abs(value - median) <= tolerance,
                "inside": low <= value <= high,
                "replays near": float(np.mean(np.abs(np.subtract(values, median)) <= tolerance)),
            }
        )  # fmt: skip
    return rows


def table(rows: list[dict]) -> pl.DataFrame:
    """Return the rows with whether each agrees."""
    return pl.DataFrame(rows).with_columns((pl.col("near") | pl.col("inside")).alias("agrees"))


def shares(found: pl.DataFrame, by: str) -> str:
    """Return the shares of agreement as Markdown, by kernel and a column."""
    lines = [f"| {by} | 6.1.192 | 6.12.107 |", "|---|---|---|"]
    for name in sorted(found[by].unique()):
        cells = []
        for kernel in ("6.1", "6.12"):
            own = found.filter(pl.col(by) == name, kernel=kernel)
            cells.append(f"{own['agrees'].sum()} of {own.height}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def summary(found: pl.DataFrame) -> str:
    """Return one row per kernel as Markdown: how many agree, and in which sense."""
    lines = [
        "| kernel | quantities | agree | within 10 % or the floor | inside 5-95 % | a replay is within 10 % |",
        "|---|---|---|---|---|---|",
    ]
    for kernel, name in (("6.1", "6.1.192"), ("6.12", "6.12.107")):
        own = found.filter(kernel=kernel)
        counts = [own[c].sum() for c in ("agrees", "near", "inside", "replays near")]
        cells = " | ".join(f"{n:.0f} ({n / own.height:.0%})" for n in counts)
        lines.append(f"| {name} | {own.height} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    rows = []
    for folder in recordings():
        if args.only in folder.name:
            own = judge(folder)
            rows += own
            good = sum(r["near"] or r["inside"] for r in own)
            print(f"{folder.name}: {good} of {len(own)}", file=sys.stderr, flush=True)
    found = table(rows)
    if args.output:
        found.write_csv(args.output, float_precision=6)
    print(summary(found))
    for by in ("work", "machine", "quantity"):
        print(f"\n{shares(found, by)}")


if __name__ == "__main__":
    main()
