"""The scorecard: every number of the papers that was tried, published beside ours."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from wastedcores import __version__
from wastedcores.errors import UsageError, WastedCoresError
from wastedcores.studies import make_r, nas, nas_rows, tools, tpch
from wastedcores.studies.calibration import calibration, commit
from wastedcores.studies.entries import GOOD, Entry, direction_right
from wastedcores.studies.published import Tables, load
from wastedcores.studies.sensitivity import Study
from wastedcores.sweep import sweep

SCHEMA = "wastedcores.reproduce/1"
PARTS = ("table1", "table2", "table3", "claims", "walcher")


def entries(
    parts: Sequence[str], tables: Tables, calibrated: dict[str, Any], seeds: Sequence[int]
) -> list[Entry]:
    """Rows to run, of these parts."""
    parameters = nas.parameters_from(calibrated["nas"])
    made: list[Entry] = []
    for part in parts:
        if part in ("table1", "table3"):
            made += nas_rows.entries(part, tables, parameters, seeds)
        elif part == "table2":
            made += tpch.entries(tables, calibrated["tpch"], seeds)
        elif part == "walcher":
            made += tpch.desktop_entries(tables, seeds)
        elif part == "claims":
            made += make_r.entries(tables, seeds)
            made += nas_rows.lu_beside_r(tables, parameters, seeds)
            made += tpch.rate_entries(tables, seeds)
        else:
            raise UsageError(f"part {part!r}: there are {', '.join(PARTS)} and all.")
    return made


def reproduce(
    parts: Sequence[str],
    folder: Path,
    *,
    seeds: Sequence[int] = tuple(range(1, 21)),
    depends: bool = False,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Run everything that the rows of these parts need and fill them in.

    Parameters
    ----------
    parts
        Of :data:`PARTS`.
    folder
        Gets ``runs.parquet`` (one line a replay) and ``scorecard.json`` (see :func:`stem`); replays that are in it, by
        this very code, are not run again.
    seeds
        Median and 5-95 % range are over these.
    depends
        Whether to find out what the predictions depend on, too, and write ``sensitivity.json``.
    workers, scheduler, progress
        As for :func:`wastedcores.sweep.sweep`.

    Returns
    -------
    dict
        Schema ``wastedcores.reproduce/1``: ``rows``, ``summary``, ``not_tried``, where the parameters come from.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tables, calibrated = load(), calibration()
    todo = entries(parts, tables, calibrated, seeds)
    study = Study(calibrated) if depends else None
    runs = {run.key: run for entry in todo for run in entry.runs()}
    runs |= {run.key: run for run in (study.runs() if study else ())}
    table = sweep(
        # whole runs take longest: none of them is left to the end, when other processes have nothing to do
        sorted(runs.values(), key=lambda r: not dict(r.arguments).get("intervals")),
        folder / "runs.parquet",
        workers=workers,
        scheduler=scheduler,
        progress=progress,
        keep=True,
    )
    results = {row["run"]: row for row in table.to_dicts()}
    rows = [entry.row(results) for entry in todo]
    missing: list[str] = []
    if "claims" in parts:
        measured, missing = tools.rows(tables)
        rows += measured
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
        "not_tried": not_tried(rows, parts, tables, missing),
    }
    if study:
        _write(folder / "sensitivity.json", study.result(results))
    _write(folder / f"{stem(parts)}.json", out)
    return out


def stem(parts: Sequence[str]) -> str:
    """Name of the file with the rows of these parts, without its ending: all of them are ``scorecard``."""
    return "scorecard" if set(parts) == set(PARTS) else "-".join(("scorecard", *parts))


def _write(path: Path, content: dict[str, Any]) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.replace(path)


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How many rows came out how, and what the worst are."""
    predicted = [r for r in rows if r["kind"] == "predicted" and r["ratio"]]
    away = [max(r["ratio"], 1 / r["ratio"]) for r in predicted]
    known = [r for r in rows if r["ours"] is not None]
    return {
        "rows": len(rows),
        "calibrated": sum(r["kind"] == "calibrated" for r in rows),
        "predicted": sum(r["kind"] == "predicted" for r in rows),
        "measured": sum(r["kind"] == "measured" for r in rows),
        "failed": sum(r["verdict"] == "failed" for r in rows),
        "direction_wrong": [
            r["id"]
            for r in known
            if r["kind"] != "measured" and not direction_right(r["ours"], r["published"], r["unit"])
        ],
        "no_effect": [r["id"] for r in rows if r["verdict"] == "no effect"],
        "predicted_reproduced": sum(
            r["kind"] == "predicted" and r["reproduced"] is True for r in rows
        ),
        "predicted_within_1.5": sum(a <= GOOD for a in away) / len(away) if away else None,
        "predicted_median_error": median(abs(r["ratio"] - 1) for r in predicted) if away else None,
        "missed": [r["id"] for r, a in zip(predicted, away, strict=True) if a > GOOD],
    }


#: (table, beginnings of its rows) -> why they are not tried; the first that fits counts
_WHY_NOT = {
    (
        "lozi2016_claims",
        ("checker_", "profil"),
    ): "a setting of their tool, which ours has as its default",
    ("lozi2016_claims", ("",)): "a statement in words, without a number to compare",
    ("carver2019_claims", ("machine", "tick")): "describes their machine",
    ("carver2019_claims", ("schedlog_", "perf_")): "measures other tools than ours",
    ("carver2019_claims", ("",)): "needs frequency scaling, which the replay does not have",
    ("sites_claims", ("machine",)): "describes their machine",
    (
        "sites_claims",
        ("groups_", "quantum", "completion_", "uninterrupted"),
    ): "how Linux 4.19 shares two cores among few threads; the replay's balancer is that of 4.1",
    ("sites_claims", ("kutrace_",)): "measures other tools than ours",
    ("sites_claims", ("",)): "hardware below the scheduler: sleep states, clock rates, page faults",
}


def not_tried(
    rows: Sequence[dict[str, Any]], parts: Sequence[str], tables: Tables, missing: Sequence[str]
) -> list[dict[str, str]]:
    """Published claims without a row, each with the reason."""
    if "claims" not in parts:
        return []
    have = {r["id"].removeprefix("claims.") for r in rows}
    out = []
    for table in dict.fromkeys(table for table, _ in _WHY_NOT):
        for row in tables.rows(table):
            if row in have:
                continue
            wanting = f"claims.{row}" in missing
            reason = next(
                why for (t, rows_), why in _WHY_NOT.items() if t == table and row.startswith(rows_)
            )
            out.append(
                {
                    "source": table.removesuffix("_claims"),
                    "quantity": tables.text(table, row, "quantity"),
                    "published": f"{tables.text(table, row, 'value')} {tables.text(table, row, 'unit')}",
                    "why": "no benchmark of ours has measured it yet" if wanting else reason,
                }
            )
    return out


def read(folder: str | Path, name: str = "scorecard") -> dict[str, Any]:
    """Read ``scorecard.json`` or ``sensitivity.json`` of a folder; empty if there is none.

    Raises
    ------
    WastedCoresError
        It is not what ``wastedcores reproduce`` writes.
    """
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
            f"{path}: expected the {name} that wastedcores reproduce writes; make it anew or name another folder."
        )
    return content
