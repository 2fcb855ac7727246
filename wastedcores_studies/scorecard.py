"""The scorecard: compares every published number that was attempted with the replayed or measured one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from wastedcores import __version__
from wastedcores.errors import WastedCoresError
from wastedcores.files import written_whole
from wastedcores.sweep import sweep
from wastedcores.words.scorecard import predictions
from wastedcores_studies import sensitivity, tool_costs
from wastedcores_studies.attempts import Attempt, Comparison
from wastedcores_studies.calibration import commit, read_calibration
from wastedcores_studies.published import Tables, load
from wastedcores_studies.registry import WHY_NOT, Reasons, parts_of, study_of

SCHEMA = "wastedcores.reproduce/1"


def attempts(
    parts: Sequence[str], tables: Tables, calibrated: dict[str, Any], seeds: Sequence[int]
) -> list[Attempt]:
    """Return the rows of these parts as they are before their replays have run."""
    return [row for part in parts for row in study_of(part).attempts(tables, calibrated, seeds)]


def reproduce(
    parts: Sequence[str],
    folder: Path,
    *,
    seeds: Sequence[int] = tuple(range(1, 21)),
    depends: bool = False,
    calibration: Path | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Run all replays that the rows of these parts need, and fill the rows in."""
    folder.mkdir(parents=True, exist_ok=True)
    tables, calibrated = load(), read_calibration(calibration)
    todo = attempts(parts, tables, calibrated, seeds)
    plan = sensitivity.plan(calibrated) if depends else {}
    points = [point for points in plan.values() for point in points]
    runs = {run.key: run for attempt in todo for run in attempt.runs()}
    runs |= {run.key: run for point in points for run in point.runs()}
    results = {}
    if runs:  # none if all rows are measured
        table = sweep(
            # whole runs take longest, so they come first; a long run that came last would leave the other processes idle
            sorted(runs.values(), key=lambda r: not dict(r.arguments).get("intervals")),
            folder / "runs.parquet",
            workers=workers,
            scheduler=scheduler,
            progress=progress,
            keep=True,
        )
        results = {row["run"]: row for row in table.to_dicts()}
    rows = [attempt.row(results) for attempt in todo]
    left_out: list[dict[str, str]] = []
    for study in map(study_of, parts):
        measured, missing = study.measured(tables) if study.measured else ([], ())
        rows += measured
        left_out += not_tried(tables, missing, study.why_not)
    out = {
        "schema": SCHEMA,
        "version": __version__,
        "commit": commit(),
        "parts": list(parts),
        "seeds": len(seeds),
        "replays": len(runs),
        "calibration": {k: v for k, v in calibrated.items() if k not in ("nas", "tpch")},
        "rows": rows,
        "summary": summary(rows),
        "not_tried": left_out,
    }
    if plan:
        _write(folder / "sensitivity.json", sensitivity.result(plan, results))
    _write(folder / f"{stem(parts)}.json", out)
    return out


def stem(parts: Sequence[str]) -> str:
    """Return the name of the file with the rows of these parts, without its ending; for all parts it is ``scorecard``."""
    return "scorecard" if set(parts) == set(parts_of("all")) else "-".join(("scorecard", *parts))


def _write(path: Path, content: dict[str, Any]) -> None:
    with written_whole(path) as part:
        part.write_text(json.dumps(content, indent=1) + "\n")


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Count the rows by kind and outcome, and name the rows whose numbers were not reproduced.

    A prediction that has two rows, one with seconds and one with their change, counts once.
    """
    predicted = predictions(rows)
    away = [
        abs((r["ratio"] if r["effect"] is None else r["effect"]) - 1)
        for r in predicted
        if r["ratio"] is not None and not isinstance(r["published"], str)
    ]
    known = [r for r in rows if r["ours"] is not None]
    return {
        "rows": len(rows),
        "calibrated": sum(r["kind"] == "calibrated" for r in rows),
        "predicted": len(predicted),
        "restated": sum(r["kind"] == "predicted" for r in rows) - len(predicted),
        "measured": sum(r["kind"] == "measured" for r in rows),
        "computed": sum(r["kind"] == "computed" for r in rows),
        "assumed": sum(r["kind"] == "assumed" for r in rows),
        "failed": sum(r["verdict"] == "failed" for r in rows),
        "direction_wrong": [
            r["id"]
            for r in known
            if r["kind"] != "measured"
            and not r["restates"]
            and not Comparison(r["ours"], r["published"], r["unit"]).direction_right
        ],
        "no_effect": [r["id"] for r in rows if r["verdict"] == "no effect"],
        "predicted_reproduced": sum(r["reproduced"] is True for r in predicted),
        "predicted_median_error": median(away) if away else None,
        "missed": [r["id"] for r in predicted if r["reproduced"] is False],
    }


def not_tried(
    tables: Tables,
    missing: Sequence[str] = (),
    reasons: Reasons = WHY_NOT,
) -> list[dict[str, str]]:
    """Return the published claims that are not attempted."""
    return [
        {
            "source": table.removesuffix("_claims"),
            "quantity": tables.text(table, row, "quantity"),
            "published": _with_unit(
                tables.text(table, row, "value"), tables.text(table, row, "unit")
            ),
            "why_not": why.get(row, tool_costs.WHY_NOT),
        }
        for table, why in reasons.items()
        for row in tables.rows(table)
        if row in why or row in missing
    ]


def _with_unit(value: str, unit: str) -> str:
    return value if unit == "text" else f"{value} {unit}"


def read(folder: str | Path, name: str = "scorecard") -> dict[str, Any]:
    """Read ``scorecard.json`` or ``sensitivity.json`` of a folder."""
    path = Path(folder) / f"{name}.json"
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text())
    except ValueError:
        content = None
    if not isinstance(content, dict) or not str(content.get("schema", "")).startswith(
        "wastedcores."
    ):
        raise WastedCoresError(
            f"{path}: expected the {name} that wastedcores reproduce writes. Make it again, or name another folder."
        )
    return content
