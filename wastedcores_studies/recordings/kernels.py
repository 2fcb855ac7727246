"""One workload under several kernels: how long it took, how many CPUs each kernel wasted, and what replays of it show."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from wastedcores.analysis.alignment import Pair
from wastedcores.analysis.examined import Examined, examine
from wastedcores.errors import DatasetError
from wastedcores.files import datasets, read_table
from wastedcores.trace.header import Window
from wastedcores_studies.recordings.recording import Recording

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
SCHEMA: dict[str, type[pl.DataType]] = {
    "workload": pl.String, "cpus": pl.Int64, "kernel": pl.String, "run": pl.String, "unit": pl.String,
    "result": pl.Float64, "slowdown": pl.Float64, "wasted_cpus": pl.Float64, "idle_beside_share": pl.Float64,
    "longest_ms": pl.Float64, "replayed": pl.Float64, "low": pl.Float64, "high": pl.Float64,
}  # fmt: skip


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


def read_kernels(path: Path | str | None = None) -> pl.DataFrame:
    """Read the repository's own table, or one that ``tools/compare_kernels.py`` wrote elsewhere."""
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
    # recordings with different seeds are different random draws of the same work
    given = {k: v for k, v in recording.meta["params"].items() if k not in ("scn", "mips", "seed")}
    work = " ".join((recording.kind, *(f"{k}={v}" for k, v in sorted(given.items()))))
    trace = recording.trace.with_header(
        window=Window(start_ns=start, end_ns=end, names=(work, "end")),
        counted_cpus=cpus_of(recording),
        machine=recording.machine.to_dict(),
    )
    return examine(trace, recording.name, ignore_affinity=True)


def cpus_of(recording: Recording) -> list[int] | None:
    """Return the CPUs of the workload if it is bound to two nodes; None: all CPUs."""
    bound = recording.kind in ("gc", "lu") and recording.pinned
    return [c for n in (1, 2) for c in recording.machine.cpus_of_node(n)] if bound else None
