"""Explain all recordings, compare with recordings of the same work on other kernels, and write the table into docs/what-if.md.

    python tools/explain_recordings.py [--seeds 5] [-n] [NAME ...]

The explanation uses the trace of one recording and its ``tasks.json``, and nothing else that is known of the workload.
With ``-n`` or names the table is only printed.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
from predict_recordings import bounded, recorded_on, tasks_of

from wastedcores.analysis.explain import Explanation, explain
from wastedcores.capture.snapshot import read_snapshot, with_snapshot
from wastedcores.files import datasets
from wastedcores.invariant import CheckResult, check
from wastedcores.kernels import FIXES
from wastedcores.prediction import Advice, advise, weigh
from wastedcores.prediction.advice import SEEDS
from wastedcores_studies.recordings.recording import Recording

PAGE = Path(__file__).resolve().parents[1] / "docs" / "what-if.md"
#: the part of the page that this program writes
MADE = re.compile(r"(<!-- made by tools/explain_recordings.py -->\n).*?(<!-- end -->)", re.S)
#: the fix that a variant of the recordings has, beside ``buggy``, which has none
FIX_OF = {
    "gi": "group_imbalance",
    "sgc": "group_construction",
    "sgclit": "group_construction",
    "oow": "overload_on_wakeup",
    "msd": "missing_domains",
    "all": "all_fixes",
    "alllit": "all_fixes",
}
#: a fix that gained more than this when it was recorded has to be proposed
WORTH = 0.05

_GAIN = pl.Struct({"name": pl.String, "gain": pl.Float64, "low": pl.Float64, "high": pl.Float64})
SCHEMA: dict[str, Any] = {
    "recording": pl.String,
    "kernel": pl.String,
    "verdict": pl.String,
    "kind": pl.String,
    "looks_like": pl.String,
    "proposals": pl.List(_GAIN),
    "trust": pl.String,
    "bound": pl.Float64,
    "in_time": pl.Boolean,
    "has": pl.List(pl.String),
    "recorded": pl.List(_GAIN),
}


def explained(recording: Recording, seeds: int = SEEDS) -> tuple[CheckResult, Explanation, Advice]:
    """Explain a recording as ``wastedcores explain --snapshot tasks.json`` does."""
    trace, machine, tasks = bounded(recording), recorded_on(recording), tasks_of(recording)
    file = recording.folder / "tasks.json"
    trace = with_snapshot(trace, read_snapshot(file), str(file))
    result = check(trace)
    advice = advise(trace, machine=machine, kernel=recording.kernel, tasks=tasks, seeds=seeds)
    found = explain(result, machine, recording.kernel, tasks)
    return result, weigh(found, advice), advice


def compare_explanations(
    names: Iterable[str] | None = None,
    folder: Path | str | None = None,
    seeds: int = SEEDS,
    note: Callable[[str], None] = lambda _: None,
) -> pl.DataFrame:
    """Explain recordings, and compare with what the fixes gained when they were recorded."""
    folder = Path(folder or datasets() / "recordings")
    every = {p.parent.name: Recording.read(p.parent) for p in sorted(folder.glob("*/meta.json"))}
    chosen = list(names or every)
    if unknown := set(chosen) - every.keys():
        raise SystemExit(f"{folder}: there is no recording {', '.join(sorted(unknown))}.")
    rows = []
    for name in chosen:
        recording = every[name]
        result, found, advice = explained(recording, seeds)
        rows.append(
            {
                "recording": name,
                "kernel": recording.kernel.name,
                "verdict": result.verdict,
                "kind": result.kind,
                "looks_like": found.looks_like,
                "proposals": [_gain(p.fix, *vars(p.gain).values()) for p in advice.proposals],
                "trust": advice.found and advice.found.trust,
                "bound": advice.bound and advice.bound.median,
                "in_time": advice.in_time,
                "has": [f for f in FIXES if recording.kernel.has(f)],
                "recorded": _recorded_gains(recording, every),
            }
        )
        note(name)
    return pl.DataFrame(rows, schema=SCHEMA)


def _recorded_gains(recording: Recording, every: Mapping[str, Recording]) -> list[dict[str, Any]]:
    """Return what the same work gained on the other kernels on which it was recorded; nothing unless no fix was in."""
    work, variant, cpus = recording.name.split("-")
    if variant != "buggy":
        return []
    gains = []
    for other in every.values():
        if other.name.split("-")[::2] == [work, cpus] and other is not recording:
            before, after = recording.result, other.result
            more = before.unit == "cpus_of_work"
            gain = after.value / before.value - 1 if more else 1 - after.value / before.value
            name = FIX_OF.get(other.meta["variant"], other.kernel.name)
            gains.append(_gain(f"{name} ({other.name})", gain, gain, gain))
    return gains


def _gain(name: str, gain: float, low: float, high: float) -> dict[str, Any]:
    return {"name": name, "gain": gain, "low": low, "high": high}


def contradictions(table: pl.DataFrame) -> list[str]:
    """Return what a table says that should not be."""
    wrong = []
    for row in table.iter_rows(named=True):
        name, proposed = row["recording"], {p["name"]: p["gain"] for p in row["proposals"]}
        wrong += [
            f"{name}: {f} is already in."
            for f in row["has"]
            if f in proposed or f == row["looks_like"]
        ]
        for told in row["recorded"]:
            fix = told["name"].partition(" ")[0]
            if told["gain"] <= WORTH or fix not in (*FIXES, "all_fixes"):
                continue
            if proposed.get(fix, 0) <= 0:
                wrong.append(f"{name}: {fix} is not proposed, and it gained {told['gain']:.0%}.")
            if fix in FIXES and row["looks_like"] != fix:
                wrong.append(f"{name}: the cause is {fix}, not {row['looks_like']}.")
    return wrong


def explanations_report(table: pl.DataFrame) -> str:
    """Return the table as Markdown, with a paragraph in front of it."""
    worth = [
        (row["recording"], told["name"])
        for row in table.iter_rows(named=True)
        for told in row["recorded"]
        if told["gain"] > WORTH and told["name"].partition(" ")[0] in (*FIXES, "all_fixes")
    ]
    wrong = contradictions(table)
    helped = table.filter(pl.col("proposals").list.len() > 0).height
    right = (
        "Each of these fixes is proposed, the bug is named where its fix was recorded alone, and no fix is proposed that the "
        "recorded kernel has."
    )
    lines = [
        f"{helped} of {table.height} recordings get proposals. For {len({w[0] for w in worth})} recordings of the released "
        f"4.1.3, {len(worth)} recordings of the same work with fixes gained more than {WORTH:.0%}. {' '.join(wrong) or right}",
        "",
        "| recording | verdict | looks like | proposed: gain [5 %, 95 %] | at most | trust | recorded gain |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in table.iter_rows(named=True):
        proposed = "<br>".join(
            f"{p['name']} {p['gain']:.1%} [{p['low']:.1%}, {p['high']:.1%}]"
            for p in row["proposals"]
        )
        recorded = "<br>".join(f"{r['name']} {r['gain']:.1%}" for r in row["recorded"])
        bound = "-" if row["bound"] is None else f"{max(row['bound'], 0):.1%}"
        unit = "" if row["in_time"] or row["bound"] is None else " of busy CPUs"
        lines.append(
            f"| {row['recording']} | {row['verdict']}, {row['kind']} | {row['looks_like'].replace('_', ' ')} | "
            f"{proposed or 'none'} | {bound}{unit} | {row['trust'] or 'bound only'} | {recorded} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the table."""
    assert MADE.search(PAGE.read_text()), PAGE
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("-n", "--dry-run", action="store_true")
    args = parser.parse_args()
    table = compare_explanations(
        args.names or None,
        seeds=args.seeds,
        note=lambda line: print(line, file=sys.stderr, flush=True),
    )
    text = explanations_report(table)
    print(text)
    if not args.dry_run and not args.names:
        PAGE.write_text(MADE.sub(lambda m: f"{m[1]}{text}{m[2]}", PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
