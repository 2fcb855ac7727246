"""Compare kernels by their recordings of the same workloads.

It writes datasets/recorded_kernels.csv and the table of docs/ten-years-later.md.

python tools/compare_kernels.py
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl

from wastedcores.files import datasets
from wastedcores.invariant import check
from wastedcores.words import kernels_markdown
from wastedcores_studies.recordings.agreement import MODERN_FILE, read_agreement
from wastedcores_studies.recordings.kernels import FILE, SCHEMA, WORKLOADS, all_recordings, cpus_of
from wastedcores_studies.recordings.recording import RESULTS, Recording

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "ten-years-later.md"
#: the part of the page that this program writes
MADE = re.compile(r"(<!-- made by tools/compare_kernels.py -->\n).*?(<!-- end -->)", re.S)
#: kernels in order of time -> the variants of recordings, the one with most fixes first
KERNELS = {
    "4.1.3": ("buggy",),
    "4.1.3, fixed": ("all", "alllit", "sgclit", "msd", "oow"),
    "6.1": ("6.1",),
    "6.12": ("6.12",),
    "7.2": ("7.2",),
}


def compare_kernels(recordings: Iterable[Recording] | None = None) -> pl.DataFrame:
    """Check what every kernel did with every workload that was recorded on a kernel of today and an older one."""
    rows = [
        _row(*found) for found in _chosen(all_recordings() if recordings is None else recordings)
    ]
    table = pl.DataFrame(
        rows, schema={k: v for k, v in SCHEMA.items() if k in rows[0]}, orient="row"
    )
    # of CPUs' worth of work, more is better
    work = (
        pl.when(pl.col("unit") == "cpus_of_work")
        .then(1 / pl.col("result"))
        .otherwise(pl.col("result"))
    )
    replays = pl.concat([read_agreement(), read_agreement(datasets() / MODERN_FILE)])
    replays = replays.filter(pl.col("unit").is_in(list(RESULTS.values())))
    return (
        table.with_columns((work / work.min().over("workload", "cpus")).alias("slowdown"))
        .join(
            replays.select("run", pl.col("median").alias("replayed"), "low", "high"),
            on="run",
            how="left",
        )
        .select(*SCHEMA)
    )


def _chosen(recordings: Iterable[Recording]) -> Iterator[tuple[str, str, Recording]]:
    """Yield workload, kernel and recording: of each kernel one, where a kernel of today and an older one were recorded."""
    by_run = {r.name: r for r in recordings}
    for size in (64, 16):
        for workload, words in WORKLOADS.items():
            stem = f"{workload}{size}" if workload == "db" else workload
            names = {
                kernel: f"{stem}-{variant}-{size}cpu"
                for kernel, variants in KERNELS.items()
                for variant in reversed(variants)
                if f"{stem}-{variant}-{size}cpu" in by_run
            }
            if {"4.1.3", "6.1"} & set(names) and {"6.12", "7.2"} & set(names):
                for kernel, name in names.items():
                    yield words, kernel, by_run[name]


def _row(workload: str, kernel: str, recording: Recording) -> dict[str, object]:
    found = check(
        recording.trace,
        cpus=cpus_of(recording),
        between=recording.window,
        ignore_affinity=True,
    ).to_json()
    value, unit = recording.result
    return {
        "workload": workload,
        "cpus": recording.machine.cpus,
        "kernel": kernel,
        "run": recording.name,
        "unit": unit,
        "result": value,
        "wasted_cpus": found["mean_wasted_cpus"],
        "idle_beside_share": found["idle_while_overloaded_fraction"],
        "longest_ms": 1000 * found["longest_episode_s"],
    }


def main() -> None:
    """Write the table and the page."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    assert MADE.search(PAGE.read_text()), PAGE
    table = compare_kernels()
    table.write_csv(ROOT / "datasets" / FILE, float_precision=6)
    made = MADE.sub(lambda m: f"{m[1]}{kernels_markdown(table)}{m[2]}", PAGE.read_text())
    PAGE.write_text(made)


if __name__ == "__main__":
    main()
