"""A whole scorecard and sensitivity without a replay: every real row, with numbers made up beside the published ones."""

from __future__ import annotations

import json

from wastedcores.studies import entries, scorecard, tools
from wastedcores.studies.calibration import calibration
from wastedcores.studies.published import load


def made_up(factor=1.1):
    """What ``reproduce all`` writes, every number ``factor`` times the published one."""
    tables = load()
    rows = [
        _row(e, factor)
        for e in scorecard.entries(scorecard.PARTS, tables, calibration(), seeds=[1, 2])
    ]
    measured, missing = tools.rows(tables)
    rows += measured
    return {
        "schema": scorecard.SCHEMA,
        "seeds": 2,
        "rows": rows,
        "summary": scorecard.summary(rows),
        "not_tried": scorecard.not_tried(rows, scorecard.PARTS, tables, missing),
    }


def _row(entry, factor):
    published = entries._number(entry.published)
    ours = published if isinstance(published, str) else published * factor
    row = {
        k: getattr(entry, k)
        for k in ("id", "source", "place", "quantity", "unit", "kind", "reason")
    }
    row |= {"published": published, "ours": ours, "low": None, "high": None}
    if not isinstance(ours, str):
        row |= {"low": ours * 0.97, "high": ours * 1.03}
    row["beside"] = dict.fromkeys(entry.beside, ours)
    row["ratio"] = entries.ratio(ours, published, entry.unit)
    row["effect"] = entries.effect(ours, published, entry.unit)
    row["verdict"] = entries.verdict(ours, published, entry.unit)
    row["reproduced"] = entries.reproduced(row)
    return row


def study():
    """A small sensitivity."""
    bar = {"parameter": "intervals", "low": 80.0, "base": 100.0, "high": 130.0}
    return {
        "schema": "wastedcores.sensitivity/1",
        "step": 1.25,
        "tornado": [{"id": "table3.cg.bug", **bar}, {"id": "claims.lu_r_speedup", **bar}],
        "curves": [{"bug": "missing_domains", "cpus": c, "ratio": c / 8} for c in (8, 16, 64)],
        "tick": [{"id": "table3.cg.bug", "tick_ms": 4, "s": 100.0}],
        "noise": [{"fix": "both", "period_ms": p, "change": -p / 100} for p in (250, 1000)],
        "quiet": [{"period_s": s, "speedup": 8.0 + s} for s in (1, 4)],
        "quiet_published": 13.0,
        "checker": [{"recording": "x-buggy", "m_ms": 100, "caught": 0.5, "checks": None}],
    }


def write(folder, factor=1.1):
    """Both files, as the command leaves them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scorecard.json").write_text(json.dumps(made_up(factor)))
    (folder / "sensitivity.json").write_text(json.dumps(study()))
    return folder
