"""Recorded beside replayed: the criterion, and the table of all runs.

A recorded figure agrees if it is within 10 % of the median of the replays (or within :data:`FLOOR` busy CPUs or threads),
or inside their 5-95 % range.

Interface::

    table = compared(recordings, seeds=range(1, 21))    a row per run and figure
    committed()                                         the table of the repository, datasets/recorded_vs_replayed.csv
    as_markdown(table)                                  for docs/recorded-vs-replayed.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from wastedcores.errors import DatasetError
from wastedcores.files import find
from wastedcores.studies.recorded.recordings import Recording

#: share of the replays' median within which a recorded value agrees, and percentiles of the replays between which it does
CLOSE = 0.1
RANGE = (5, 95)
#: busy CPUs, or threads, a node below which the guest's own kernel threads decide
FLOOR = 0.05
FILE = "recorded_vs_replayed.csv"

SCHEMA: dict[str, type[pl.DataType]] = {
    "run": pl.String,
    "figure": pl.String,
    "unit": pl.String,
    "recorded": pl.Float64,
    "median": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "agrees": pl.Boolean,
    "kernel": pl.String,
    "seeds": pl.Int64,
    "date": pl.String,
    "version": pl.String,
}


def agrees(recorded: float, replays: Sequence[float], floor: float = FLOOR) -> bool:
    """Whether a recorded figure agrees with those of replays.

    Parameters
    ----------
    recorded, replays
        The recorded value, and one value a seed.
    floor
        A difference from the median that never counts; 0 for times.
    """
    median = float(np.median(replays))
    low, high = np.percentile(replays, RANGE)
    return bool(abs(recorded - median) <= max(CLOSE * median, floor) or low <= recorded <= high)


def compared(
    recordings: Iterable[Recording],
    seeds: Sequence[int] = range(1, 21),
    *,
    date: str = "",
    version: str = "",
    said: Callable[[str], None] = lambda _: None,
) -> pl.DataFrame:
    """Replay every recording under its own kernel and lay the figures side by side.

    Parameters
    ----------
    recordings
        What was recorded.
    seeds
        One replay each.
    date, version
        Written into every row: when and with what it was made.
    said
        Told a line a run.

    Returns
    -------
    table
        Columns of :data:`SCHEMA`; ``low`` and ``high`` are the 5th and 95th percentile.
    """
    rows = []
    for recording in recordings:
        found = recording.figures()
        replays = [recording.replayed(seed) for seed in seeds]
        for name, (value, unit) in found.items():
            values = [r.figures[name].value for r in replays]
            low, high = (float(x) for x in np.percentile(values, RANGE))
            floor = FLOOR if unit in ("busy CPUs", "threads") else 0.0
            rows.append(
                (
                    recording.name, name, unit, value, float(np.median(values)), low, high,
                    agrees(value, values, floor), recording.kernel.name, len(seeds), date, version,
                )
            )  # fmt: skip
        events, wall = sum(r.events for r in replays), sum(r.wall_s for r in replays)
        own = rows[-len(found) :]
        said(
            f"{recording.name}: {sum(r[7] for r in own)} of {len(own)} figures agree; {events} events in {wall:.1f} s"
        )
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def committed(path: Path | str | None = None) -> pl.DataFrame:
    """The repository's own table, or one that ``tools/compare_with_recordings.py`` wrote elsewhere.

    Raises
    ------
    DatasetError
        Not such a table.
    """
    file = find("datasets", FILE) if path is None else Path(path)
    try:
        return pl.read_csv(file, schema=SCHEMA)
    except (OSError, pl.exceptions.PolarsError) as e:
        raise DatasetError(
            f"{file}: expected the table that tools/compare_with_recordings.py writes, with columns {', '.join(SCHEMA)} "
            f"({str(e).splitlines()[0]})."
        ) from e


def as_markdown(table: pl.DataFrame) -> str:
    """Rows of the table as Markdown, without what is the same in all."""
    lines = [
        "| run | figure | recorded | replayed: median [5 %, 95 %] | agrees |",
        "|---|---|---|---|---|",
    ]
    for r in table.iter_rows(named=True):
        scale = "{:.4f}" if abs(r["median"]) < 1 else "{:.2f}"
        replays = " ".join(
            form.format(scale.format(r[c]))
            for c, form in (("median", "{}"), ("low", "[{},"), ("high", "{}]"))
        )
        recorded = ("{:.4f}" if abs(r["recorded"]) < 1 else "{:.2f}").format(r["recorded"])
        lines.append(
            f"| {r['run']} | {r['figure']} | {recorded} | {replays} | {'yes' if r['agrees'] else '**no**'} |"
        )
    return "\n".join(lines) + "\n"
