"""Compares recordings with replays of the same workloads: the criterion of agreement, and the table of all runs.

A recorded quantity agrees if it is within 10 % of the median of the replays (or within :data:`FLOORS`, below which a
difference does not count), or inside their 5-95 % range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from wastedcores.files import read_table
from wastedcores_studies.recordings.quantities import IDLE_BESIDE, WASTED
from wastedcores_studies.recordings.recording import Recording

#: a recorded value agrees within this share of the replays' median, and between these percentiles of the replays
CLOSE = 0.1
RANGE = (5, 95)
#: unit -> the largest difference that does not count, because the guest's own kernel threads can cause it: in busy or wasted
#: CPUs, in threads per node, and in the share of time in which a CPU is idle beside a waiting thread
FLOORS = {"busy CPUs": 0.05, "threads": 0.05, WASTED: 0.05, IDLE_BESIDE: 0.02}
FILE = "recorded_vs_replayed.csv"
#: name of the table of the recordings of today's kernels (datasets/recordings-modern)
MODERN_FILE = "recorded_vs_replayed_modern.csv"

SCHEMA: dict[str, type[pl.DataType]] = {
    "run": pl.String, "quantity": pl.String, "unit": pl.String, "recorded": pl.Float64, "median": pl.Float64,
    "low": pl.Float64, "high": pl.Float64, "agrees": pl.Boolean, "near": pl.Float64, "kernel": pl.String,
    "seeds": pl.Int64, "date": pl.String, "version": pl.String,
}  # fmt: skip


def agrees(recorded: float, replays: Sequence[float], floor: float = 0.0) -> bool:
    """Return whether a recorded quantity agrees with the same quantity of replays."""
    median = float(np.median(replays))
    low, high = np.percentile(replays, RANGE)
    return bool(abs(recorded - median) <= max(CLOSE * median, floor) or low <= recorded <= high)


def compare_recordings(
    recordings: Iterable[Recording],
    seeds: Sequence[int] = range(1, 21),
    *,
    date: str = "",
    version: str = "",
    note: Callable[[str], None] = lambda _: None,
) -> pl.DataFrame:
    """Replay every recording under its own kernel and compare the quantities.

    Parameters
    ----------
    recordings
        The recordings.
    seeds
        One replay per seed.
    date, version
        Written into every row: when and with which version the table was made.
    note
        Called with one line per run.

    Returns
    -------
    polars.DataFrame
        Columns of :data:`SCHEMA`; ``low`` and ``high`` are the 5th and 95th percentile, and ``near`` is the share of the
        replays that are close to their own median.
    """
    rows = []
    for recording in recordings:
        found = recording.quantities()
        replays = [recording.replayed(seed) for seed in seeds]
        for name, (value, unit) in found.items():
            values = [r.quantities[name].value for r in replays]
            low, high = (float(x) for x in np.percentile(values, RANGE))
            median, floor = float(np.median(values)), FLOORS.get(unit, 0.0)
            near = np.abs(np.subtract(values, median)) <= max(CLOSE * median, floor)
            rows.append(
                (
                    recording.name, name, unit, value, median, low, high, agrees(value, values, floor), float(near.mean()),
                    (recording.model or recording.kernel).name, len(seeds), date, version,
                )
            )  # fmt: skip
        events, wall = sum(r.events for r in replays), sum(r.wall_s for r in replays)
        own = rows[-len(found) :]
        note(
            f"{recording.name}: {sum(r[7] for r in own)} of {len(own)} quantities agree; {events} events in {wall:.1f} s"
        )
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def read_agreement(path: Path | str | None = None) -> pl.DataFrame:
    """Read the repository's own table, or one that ``tools/compare_with_recordings.py`` wrote elsewhere."""
    return read_table(FILE, SCHEMA, "tools/compare_with_recordings.py", path)
