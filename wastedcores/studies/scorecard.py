"""The scorecard: compares every published number that was attempted with the replayed or measured one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from wastedcores import __version__
from wastedcores.errors import UsageError, WastedCoresError
from wastedcores.files import written_whole
from wastedcores.studies import claims, fork_wait, nas, sensitivity, sites, tool_costs, tpch
from wastedcores.studies.attempts import CLAIMS, Attempt, Comparison
from wastedcores.studies.calibration import commit, read_calibration
from wastedcores.studies.published import Tables, load
from wastedcores.sweep import sweep
from wastedcores.words.scorecard_rows import predictions

SCHEMA = "wastedcores.reproduce/1"
PARTS = ("table1", "table2", "table3", "claims", "walcher")
#: parts that are run only by name: papers of others than Lozi et al. and their reproduction
FURTHER_PARTS = ("carver", "sites")


def attempts(
    parts: Sequence[str], tables: Tables, calibrated: dict[str, Any], seeds: Sequence[int]
) -> list[Attempt]:
    """Return the rows of some parts before their replays have run."""
    parameters = nas.parameters_from(calibrated["nas"])
    rows: list[Attempt] = []
    for part in parts:
        if part in ("table1", "table3"):
            rows += nas.attempts(part, tables, parameters, seeds)
        elif part == "table2":
            rows += tpch.attempts(tables, calibrated["tpch"], seeds)
        elif part == "walcher":
            rows += tpch.desktop_attempts(tables, seeds)
        elif part == "carver":
            rows += fork_wait.attempts(tables, seeds)
        elif part == "sites":
            rows += sites.attempts(tables, seeds)
        elif part == "claims":
            rows += claims.attempts(tables, parameters, seeds)
        else:
            raise UsageError(
                f"part {part!r}: there are {', '.join((*PARTS, *FURTHER_PARTS))} and all."
            )
    return rows


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
    study = sensitivity.plan(calibrated) if depends else {}
    points = [point for points in study.values() for point in points]
    runs = {run.key: run for attempt in todo for run in attempt.runs()}
    runs |= {run.key: run for point in points for run in point.runs()}
    table = sweep(
        # whole runs take longest, so they come first: none is left to the end, when other processes have nothing to do
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
    if "claims" in parts:
        measured, missing = tool_costs.rows(tables)
        rows += measured
        left_out = not_tried(tables, missing)
    if "carver" in parts:
        rows += tool_costs.rows(tables, fork_wait.TABLE)[0]
    if "sites" in parts:
        rows += sites.measured(tables) + tool_costs.rows(tables, sites.TABLE)[0]
        left_out += not_tried(tables, reasons={sites.TABLE: sites.WHY_NOT})
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
    if study:
        _write(folder / "sensitivity.json", sensitivity.result(study, results))
    _write(folder / f"{stem(parts)}.json", out)
    return out


def stem(parts: Sequence[str]) -> str:
    """Return the name, without its ending, of the file with the rows of these parts; for all parts it is ``scorecard``."""
    return "scorecard" if set(parts) == set(PARTS) else "-".join(("scorecard", *parts))


def _write(path: Path, content: dict[str, Any]) -> None:
    with written_whole(path) as part:
        part.write_text(json.dumps(content, indent=1) + "\n")


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Count the rows by kind and outcome, and name those that missed.

    A prediction that is there twice, as seconds and as their change, counts once.
    """
    predicted = predictions(rows)
    away = [
        abs((r["ratio"] if r["effect"] is None else r["effect"]) - 1)
        for r in predicted
        if r["ratio"]
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


_SETTING = "a setting of their tool, which is this project's default"
_THEIR_MACHINE = "describes their machine"
_THEIR_TOOLS = "measures other tools than this project's"
_OWN_PART = "in a part of its own: wastedcores reproduce carver"
_OWN_SITES = "in a part of its own: wastedcores reproduce sites"
_PHASES = "the replay's phases are calibrated on it"
_ON_A_BUILD = "the same quantity of this project's tools is measured by the benchmarks, on another machine and build"
_SUMMARY = "sums up numbers that have rows of their own"
_SINCE = "the replay has no kernel as old as the first one with the bug"
_SINCE_OLDEST = (
    "Linux 3.19 is the oldest modelled kernel, and it has the bug, as the page of Table 4 shows; that older kernels do not "
    "have it cannot be tried"
)
_NUMBERS_OF_SETUP = "a parameter of the workload, which the replay has, too"
#: table -> claim -> why it is not attempted
WHY_NOT = {
    "lozi2016_claims": {
        **dict.fromkeys(("checker_S", "checker_M", "checker_profile"), _SETTING),
        **dict.fromkeys(("performance_range", "tpch_throughput", "tpch_gain"), _SUMMARY),
        **dict.fromkeys(("worst_query", "corner_case"), _SUMMARY),
        **dict.fromkeys(("impact_group_imbalance", "impact_group_construction"), _SUMMARY),
        **dict.fromkeys(("impact_overload_on_wakeup", "impact_missing_domains"), _SUMMARY),
        **dict.fromkeys(("lu_threads", "lu_r_processes"), _NUMBERS_OF_SETUP),
        **dict.fromkeys(("since_group_imbalance", "since_group_construction"), _SINCE),
        "since_overload_on_wakeup": _SINCE,
        "since_missing_domains": _SINCE_OLDEST,
        **dict.fromkeys(("machine_cpus", "machine_clock", "machine_l1"), _THEIR_MACHINE),
        **dict.fromkeys(("machine_l2", "machine_l3", "machine_memory"), _THEIR_MACHINE),
        "machine_interconnect": _THEIR_MACHINE,
        **dict.fromkeys(("kernels_ported", "profiler_lines"), "describes their tools"),
        "event_rate_total": _SUMMARY,
    },
    "carver2019_claims": {
        **dict.fromkeys(("machine", "memory", "kernel", "tick"), _THEIR_MACHINE),
        **dict.fromkeys(("jobs_full", "jobs_sched"), _NUMBERS_OF_SETUP),
        **dict.fromkeys(("frequency_min", "frequency_nominal", "frequency_turbo"), _THEIR_MACHINE),
        **dict.fromkeys(("frequency_all_cores", "frequency_class"), _THEIR_MACHINE),
        **dict.fromkeys(("burst", "compile_start", "compile_end"), _PHASES),
        **dict.fromkeys(("s2_turbo_start", "s2_turbo_end"), _OWN_PART),
        **dict.fromkeys(("kbuild_sched_gain", "kbuild_full_gain"), _OWN_PART),
        **dict.fromkeys(("s1_initial_phase", "s1_second_phase"), _OWN_PART),
        **dict.fromkeys(("s1_initial_cpus", "s1_energy"), _OWN_PART),
        **dict.fromkeys(("s2_low_frequency", "s2_initial_phase"), _OWN_PART),
        **dict.fromkeys(("s2_parallel_cpus", "s2_frequency"), _OWN_PART),
        **dict.fromkeys(tool_costs.ON_A_BUILD, _OWN_PART),
        **dict.fromkeys(("perf_wakeup_bytes", "schedlog_kbuild_mem"), _ON_A_BUILD),
        "schedlog_comm": _THEIR_TOOLS,
    },
    sites.TABLE: sites.WHY_NOT | dict.fromkeys(sites.COMPARED, _OWN_SITES),
    "slides_claims": {
        **dict.fromkeys(("tpch_gain", "hpc_gain"), _SUMMARY),
        "bug4_before": _NUMBERS_OF_SETUP,
        "pinned": "a statement without a number; the replay's change with pinned workers stands beside Table 2's rows of the "
        "wakeup fix",
        "minimum_volatile": "a question, which the row about migrations between scheduling groups answers",
    },
    "walcher2019_claims": dict.fromkeys(
        (
            "cpu", "clock", "caches", "l3", "memory", "disk", "distribution", "kernel_stock",
            "kernel_tested", "compiler", "libc", "database", "tpch", "qemu",
        ),
        _THEIR_MACHINE,
    ),
}  # fmt: skip


def not_tried(
    tables: Tables,
    missing: Sequence[str] = (),
    reasons: Mapping[str, Mapping[str, str]] = WHY_NOT,
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
        if row in why or (table == CLAIMS and row in missing)
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
