"""Compares the costs that the paper states for its tools with those that the benchmarks measured for this project's.

The measured numbers are in ``benchmarks/results.json``, which ``python -m benchmarks`` writes and which names the machine of the
measurement. A wheel contains this file, too. Rows of benchmarks are found by their ids.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from wastedcores.errors import WastedCoresError
from wastedcores.files import find
from wastedcores_studies.attempts import CLAIMS, Attempt, Reading
from wastedcores_studies.published import Tables

#: claim -> the benchmark and the id of its row that measures the same, and a short name
MEASURED_BY = {
    "event_bytes": ("capture", "bytes_in_flight", "bytes of an event"),
    "checker_overhead": ("capture", "checker_cpu_added", "checker"),
    "profile_overhead": ("capture", "checker_and_recorder_cpu_added", "profiling"),
}
#: the same for the claims of the fork/wait paper, which are about a build
ON_A_BUILD = {
    "schedlog_event_bytes": ("build", "build_capture_bytes", "SchedLog: bytes of an event"),
    "schedlog_overhead": ("build", "build_capture_overhead", "SchedLog: overhead"),
    "perf_overhead": ("build", "build_perf_overhead", "perf: overhead"),
    "schedlog_wakeup_bytes": ("capture", "bytes_in_flight", "SchedLog: bytes of a wakeup"),
    "schedlog_rate": ("capture", "sustained_rate", "SchedLog: rate"),
}
#: the same for the claims of Sites' article, whose tool records more kinds of events than this project's tool
OF_KUTRACE = {
    "kutrace_entry": ("capture", "bytes_in_flight", "KUtrace: bytes of an entry"),
    "kutrace_cost": ("capture", "bpf_run_time", "KUtrace: time of an entry"),
    "kutrace_overhead": ("transitions", "overhead_at_rate", "KUtrace: overhead"),
    "kutrace_ftrace": ("transitions", "ftrace_share", "KUtrace: advantage over ftrace"),
}
#: claim for which more is better -> None or, if the claim is a word, this word and the smallest number for which it stands
MORE_IS_BETTER = {"schedlog_rate": ("millions", 1_000_000.0), "kutrace_ftrace": None}
_PREFIX = {"lozi2016_claims": "claims", "carver2019_claims": "carver", "sites_claims": "sites"}
_CLAIMS = {
    "lozi2016_claims": MEASURED_BY,
    "carver2019_claims": ON_A_BUILD,
    "sites_claims": OF_KUTRACE,
}
#: why a claim has no row
WHY_NOT = "the benchmark that measures it got no number"


def rows(tables: Tables, table: str = CLAIMS) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the scorecard's rows of claims that a benchmark measured, and the claims for which it got no number."""
    path = find("benchmarks", "results.json")
    results = json.loads(path.read_text())
    made, missing = [], []
    for name, (benchmark, id_, short) in _CLAIMS[table].items():
        suite = results.get(benchmark, {})
        row = next((r for r in suite.get("rows", ()) if r.get("id") == id_), None)
        if row is None:
            raise WastedCoresError(
                f"{path}: expected a row with the id {id_!r} in the benchmark {benchmark!r}, found none; "
                f"run python -m benchmarks {benchmark}."
            )
        ours = _number(row["value"])
        if not math.isfinite(ours):
            missing.append(name)
            continue
        reason = f"measured on {suite.get('machine', '?')}, {suite.get('date', '?')}; another machine. {row.get('note') or ''}"
        place, quantity, unit, published = tables.statement(table, name)
        # less is better, so a measured number is compared with the upper end of a published range
        published = published.rpartition("-")[2]
        word = MORE_IS_BETTER.get(name)
        if word and published == word[0]:
            published = f"{word[1]:g}"
            unit, quantity = "1/s", f"{quantity} (printed as {word[0]}, taken as {word[1]:,.0f})"
        source = table.removesuffix("_claims")
        described = Attempt(
            f"{_PREFIX[table]}.{name}", "tools", short, source, place, quantity, unit, published, "measured",
            Reading({}, lambda _: None), reason=reason.strip(),
        ).described()  # fmt: skip
        low, high = _interval(row)
        verdict = _verdict(row, ours, described["published"], name in MORE_IS_BETTER)
        made.append(
            described
            | {
                "ours": ours,
                "low": low,
                "high": high,
                "ratio": ours / described["published"] if ours > 0 else None,
                "verdict": verdict,
                "reproduced": _BETTER.get(verdict),
            }
        )
    return made, missing


def _number(value: Any) -> float:
    """Return the value of a benchmark's row as a number; NaN if the benchmark wrote that it got no number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _interval(row: dict[str, Any]) -> tuple[float | None, float | None]:
    """Return the 95 % interval of a measurement, which the benchmark's note has."""
    found = re.search(r"95 % interval (-?[\d.]+) to (-?[\d.]+)", row.get("note") or "")
    return (float(found[1]), float(found[2])) if found else (None, None)


#: verdict -> whether this project's number is at least as good
_BETTER = {"not more": True, "more": False, "not less": True, "less": False}


def _verdict(row: dict[str, Any], ours: float, published: float, more_is_better: bool) -> str:
    """Say which of two costs (or rates) is better; the machines differ, so there is no more to say.

    There is no verdict if the published number lies within the interval of the measurement. There is none either if the benchmark
    has a goal and could not judge whether it was met, because the machine was not quiet.
    """
    low, high = _interval(row)
    within = low is not None and high is not None and low <= published <= high
    if within or ("met" in row and row["met"] is None):
        return "not judgeable"
    if more_is_better:
        return "not less" if ours >= published else "less"
    return "not more" if ours <= published else "more"
