"""Compare the recordings of real kernels with replays: datasets/recorded_vs_replayed.csv.

    python tools/compare_with_recordings.py [FOLDER | --modern] [--seeds 20] [--only RUN ...] [-o FILE]

wastedcores_studies/recordings/quantities.py says what is compared, agreement.py when it agrees. Without ``-o`` the repository's
table is written, and the part of docs/recorded-vs-replayed.md that is made from it. With ``--modern`` it is the table of the
kernels since 6.1, datasets/recorded_vs_replayed_modern.csv.
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
from pathlib import Path

import polars as pl

import wastedcores
from wastedcores_studies.recordings.agreement import (
    CLOSE,
    FILE,
    FLOORS,
    MODERN_FILE,
    compare_recordings,
)
from wastedcores_studies.recordings.quantities import IDLE_BESIDE, WASTED
from wastedcores_studies.recordings.recording import Recording, recordings_in

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "recorded-vs-replayed.md"
#: the part of the page that this program writes
MADE = re.compile(r"(<!-- made by tools/compare_with_recordings.py -->\n).*?(<!-- end -->)", re.S)


def far_from_median(table: pl.DataFrame) -> pl.DataFrame:
    """Return the rows whose recorded value is not close to the median: inside the range of the replays, or beyond it."""
    floor = pl.col("unit").replace_strict(FLOORS, default=0.0, return_dtype=pl.Float64)
    away = (pl.col("recorded") - pl.col("median")).abs()
    return table.filter(away > pl.max_horizontal(CLOSE * pl.col("median"), floor))


def report(table: pl.DataFrame) -> str:
    """Return Markdown that says how many rows agree, and shows those that are far from the median of the replays."""
    far = far_from_median(table)
    first = table.row(0, named=True)
    inside = table.filter(pl.col("recorded").is_between("low", "high")).height
    shares = []
    for name in (WASTED, IDLE_BESIDE):
        rows = table.filter(quantity=name)
        near = rows.height - far_from_median(rows).height
        small = rows.filter(pl.col("recorded") < FLOORS[name]).height
        shares.append(
            f"{name} in {rows['agrees'].sum()} of {rows.height} (within 10 % or the floor in {near}, recorded below the floor "
            f"in {small})"
        )
    lines = [
        f"**{table['agrees'].sum()} of {table.height} quantities agree** ({table['run'].n_unique()} runs, {first['seeds']} "
        f"seeds, wastedcores {first['version']}, {first['date']}). {table.height - far.height} are within 10 % of the median, or "
        f"nearer than the floor, and {inside} are inside the 5-95 % range; one more replay would be near "
        f"in {table['near'].sum():.0f}. Among them are {' and '.join(shares)}. Those that are not near the "
        "median are:",
        "",
        "| run | quantity | recorded | replayed: median [5 %, 95 %] | agrees |",
        "|---|---|---|---|---|",
    ]
    for r in far.iter_rows(named=True):
        scale = "{:.4f}" if abs(r["median"]) < 1 else "{:.2f}"
        recorded, median, low, high = (
            scale.format(r[c]) for c in ("recorded", "median", "low", "high")
        )
        agrees = "yes" if r["agrees"] else "**no**"
        lines.append(
            f"| {r['run']} | {r['quantity']} | {recorded} | {median} [{low}, {high}] | {agrees} |"
        )
    return "\n".join(lines) + "\n"


def _modern() -> list[Recording]:
    """Return the repository's recordings of kernels since 6.1 that the replay models."""
    folders = (ROOT / "datasets" / name for name in ("recordings-modern", "recordings"))
    return [r for f in folders for r in recordings_in(f) if r.model and r.model.is_modern]


def main() -> int:
    """Write the table."""
    assert MADE.search(PAGE.read_text()), PAGE
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--modern", action="store_true")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", nargs="*", metavar="RUN")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    args = parser.parse_args()
    found = _modern() if args.modern else recordings_in(args.folder)
    unknown = set(args.only or ()) - {r.name for r in found}
    if unknown:
        parser.error(f"there is no recording {', '.join(sorted(unknown))} to replay")
    if args.only and args.output is None:
        parser.error("--only makes a part of the table; say with -o where to write it")
    table = compare_recordings(
        [r for r in found if not args.only or r.name in args.only],
        range(1, args.seeds + 1),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        version=wastedcores.__version__,
        note=lambda line: print(line, file=sys.stderr, flush=True),
    )
    output = args.output or ROOT / "datasets" / (MODERN_FILE if args.modern else FILE)
    table.write_csv(output, float_precision=6)
    print(report(table))
    if args.output is None and not args.modern:
        made = MADE.sub(lambda m: f"{m[1]}{report(table)}{m[2]}", PAGE.read_text())
        PAGE.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
