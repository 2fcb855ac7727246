"""A complete scorecard and sensitivity without a replay: every real row, with invented numbers."""

from __future__ import annotations

import json

from wastedcores_studies import scorecard, tool_costs
from wastedcores_studies.attempts import Comparison
from wastedcores_studies.calibration import read_calibration
from wastedcores_studies.published import load
from wastedcores_studies.registry import parts_of


def made_up(factor=1.1):
    """Return what ``reproduce all`` writes, with every number ``factor`` times the published one."""
    tables = load()
    attempts = scorecard.attempts(parts_of("all"), tables, read_calibration(), seeds=[1, 2])
    rows = [_row(a, factor) for a in attempts]
    measured, missing = tool_costs.rows(tables)
    rows += measured
    return {
        "schema": scorecard.SCHEMA,
        "seeds": 2,
        "rows": rows,
        "summary": scorecard.summary(rows),
        "not_tried": scorecard.not_tried(tables, missing),
    }


def _row(attempt, factor):
    row = attempt.described()
    published = row["published"]
    ours = published if isinstance(published, str) else published * factor
    row |= {"ours": ours} | Comparison(ours, published, attempt.unit).fields()
    if not isinstance(ours, str):
        row |= {"low": ours * 0.97, "high": ours * 1.03}
    row["beside"] = dict.fromkeys(attempt.others, ours)
    return row


def study():
    """Return a small sensitivity."""
    bar = {"parameter": "intervals", "low": 80.0, "base": 100.0, "high": 130.0}
    return {
        "schema": "wastedcores.sensitivity/1",
        "step": 1.25,
        "tornado": [
            {"id": "table3.cg.bug", "name": "table 3 cg", **bar},
            {"id": "claims.lu_r_speedup", "name": "lu beside R", **bar},
        ],
        "curves": [{"bug": "missing_domains", "cpus": c, "ratio": c / 8} for c in (8, 16, 64)],
        "tick": [{"id": "table3.cg.bug", "name": "cg", "tick_ms": 4, "s": 100.0}],
        "noise": [{"fix": "both", "period_ms": p, "change": -p / 100} for p in (250, 1000)],
        "quiet": [{"period_s": s, "speedup": 8.0 + s} for s in (1, 4)],
        "quiet_published": 13.0,
        "checker": [{"recording": "x-buggy", "m_ms": 100, "caught": 0.5, "checks": None}],
    }


def write(folder, factor=1.1):
    """Write both files as the command does."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scorecard.json").write_text(json.dumps(made_up(factor)))
    (folder / "sensitivity.json").write_text(json.dumps(study()))
    return folder
