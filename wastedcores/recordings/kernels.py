"""One workload under several kernels: how long it took, how many CPUs each kernel wasted, and what replays say of it.

Interface::

    table = compare_kernels()        one row per workload, size of machine and kernel, from the recordings
    read_kernels()                   the repository's own: datasets/recorded_kernels.csv
    pair = two_kernels("gi-6.1-64cpu", "gi-6.12-64cpu")    two of the recordings on one time axis
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl

from wastedcores.analysis.alignment import Pair
from wastedcores.analysis.examined import Examined, examine
from wastedcores.errors import DatasetError
from wastedcores.files import datasets, read_table
from wastedcores.invariant import check
from wastedcores.recordings.agreement import MODERN_FILE, read_agreement
from wastedcores.recordings.recording import RESULTS, Recording
from wastedcores.trace.header import Window

FILE = "recorded_kernels.csv"
#: folders of ``datasets`` with recordings
FOLDERS = ("recordings", "recordings-modern")
#: first part of a recording's name -> its workload
WORKLOADS = {
    "gi": "make beside two hogs",
    "gc": "pinned threads",
    "ms": "threads after hotplug",
    "lu1ms": "spinning barrier each 1 ms",
    "lu10ms": "spinning barrier each 10 ms",
    "db": "database workers",
}
#: kernels in order of time -> the variants of recordings, the one with most fixes first
KERNELS = {
    "4.1.3": ("buggy",),
    "4.1.3, fixed": ("all", "alllit", "sgclit", "msd", "oow"),
    "6.1": ("6.1",),
    "6.12": ("6.12",),
    "7.2": ("7.2",),
}

SCHEMA: dict[str, type[pl.DataType]] = {
    "workload": pl.String,
    "cpus": pl.Int64,
    "kernel": pl.String,
    "run": pl.String,
    "unit": pl.String,
    "result": pl.Float64,
    "slowdown": pl.Float64,
    "wasted_cpus": pl.Float64,
    "idle_beside_share": pl.Float64,
    "longest_ms": pl.Float64,
    "replayed": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}


def all_recordings() -> list[Recording]:
    """Return every recording of a checkout."""
    found = [
        Recording.read(meta.parent)
        for folder in FOLDERS
        for meta in sorted((datasets() / folder).glob("*/meta.json"))
    ]
    if not found:
        raise DatasetError(
            f"{datasets()}: expected the folders {' and '.join(FOLDERS)} with recordings; found none. They are in the "
            "repository and not in the installed package; read_kernels() has what was computed from them."
        )
    return found


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


def read_kernels(path: Path | str | None = None) -> pl.DataFrame:
    """Read the repository's own table, or one that ``tools/compare_kernels.py`` wrote elsewhere.

    Raises
    ------
    DatasetError
        The file is no such table.
    """
    return read_table(FILE, SCHEMA, "tools/compare_kernels.py", path)


def two_kernels(first: str, second: str) -> Pair | None:
    """Examine two recordings on one time axis that begins with the workload.

    Parameters
    ----------
    first, second
        Names of recordings.

    Returns
    -------
    Pair or None
        None if the package was installed without the recordings.

    Raises
    ------
    DatasetError
        There is no recording of a name.
    """
    try:
        found = {r.name: r for r in all_recordings()}
    except DatasetError:
        return None
    for name in (first, second):
        if name not in found:
            raise DatasetError(f"there is no recording {name!r}; there are {', '.join(found)}.")
    runs = _examined(found[first]), _examined(found[second])
    zeros = found[first].window[0], found[second].window[0]
    return Pair(runs, zeros, "start of the workload")


def _examined(recording: Recording) -> Examined:
    start, end = recording.window
    trace = recording.trace.with_header(
        window=Window(start_ns=start, end_ns=end), counted_cpus=_cpus(recording)
    )
    return examine(trace, recording.name, ignore_affinity=True)


def _cpus(recording: Recording) -> list[int] | None:
    """Return the CPUs of the workload where it is bound to two nodes; None for all."""
    bound = recording.kind in ("gc", "lu") and recording.pinned
    return [c for n in (1, 2) for c in recording.machine.cpus_of_node(n)] if bound else None


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
        cpus=_cpus(recording),
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
