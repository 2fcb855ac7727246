"""What the papers measured about their tools, beside what was measured about ours.

Ours come from ``benchmarks/results.json``, which ``python -m benchmarks`` writes on the machine it names; a claim that
it has no number for is not shown as reproduced, but listed as not tried.
"""

from __future__ import annotations

import json
import math
from typing import Any

from wastedcores.errors import WastedCoresError
from wastedcores.files import find
from wastedcores.studies.published import Tables

#: claim -> beginning of the name of the benchmark's row that measures the same
MEASURED_BY = {
    "event_bytes": "bytes per event in flight",
    "checker_overhead": "checker, s = 1 s, 10000 threads: cpu time added",
    "profile_overhead": "checker and recorder, s = 1 s, 10000 threads: cpu time added",
}


def rows(tables: Tables) -> tuple[list[dict[str, Any]], list[str]]:
    """Scorecard rows for claims that a benchmark measured, and the ids of those that none did."""
    try:
        results = json.loads(find("benchmarks", "results.json").read_text())
    except (WastedCoresError, ValueError):
        results = {}
    measured = {
        str(row["name"]).lower(): (row, suite)
        for suite in results.values()
        for row in suite.get("rows", ())
    }
    made, missing = [], []
    for claim, name in MEASURED_BY.items():
        hit = next((v for n, v in measured.items() if n.startswith(name)), None)
        if hit is None:
            missing.append(f"claims.{claim}")
            continue
        row, suite = hit
        ours = _number(row["value"])
        if not math.isfinite(ours):  # the benchmark ran and got no number
            missing.append(f"claims.{claim}")
            continue
        published = tables.number("lozi2016_claims", claim, "value")
        unit = tables.text("lozi2016_claims", claim, "unit")
        word = _verdict(row, ours, published)
        made.append(
            {
                "id": f"claims.{claim}",
                "source": "lozi2016",
                "place": tables.text("lozi2016_claims", claim, "place"),
                "quantity": tables.text("lozi2016_claims", claim, "quantity"),
                "unit": unit,
                "published": published,
                "ours": ours,
                "low": None,
                "high": None,
                "ratio": ours / published if ours > 0 else None,
                "effect": None,
                "kind": "measured",
                "verdict": word,
                "reproduced": {"not more": True, "more": False}.get(word),
                "seeds": 0,
                "reason": f"measured on {suite.get('machine', '?')}, {suite.get('date', '?')}; another machine. "
                f"{row.get('note') or ''}".strip(),
                "beside": {},
            }
        )
    return made, missing


def _number(value: Any) -> float:
    """What a benchmark wrote; NaN where it wrote that it got nothing."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _verdict(row: dict[str, Any], ours: float, published: float) -> str:
    """Of all of these less is better; the machines differ, so there is no more to say.

    A benchmark that has a goal and leaves open whether it was met could not judge: its machine was not quiet.
    """
    if "met" in row and row["met"] is None:
        return "not judgeable"
    return "not more" if ours <= published else "more"
