"""The sensitivity study: how predictions depend on parameters, bugs on the size of the machine, and the checker on S and M."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from wastedcores.invariant import check
from wastedcores.sweep import Run
from wastedcores.trace.io import open_trace
from wastedcores.trace.named import fetch
from wastedcores.units import MS, S
from wastedcores.workload.database import POOLS
from wastedcores_studies import nas, tornado, tpch
from wastedcores_studies.attempts import Reading, Results, change, quotient
from wastedcores_studies.nas import KINDS, PLACES, Parameters, Place, run
from wastedcores_studies.published import load
from wastedcores_studies.tornado import Point

SIZES = (2, 4, 8, 16, 32, 64)
#: the program that the curves over machine size use
CURVE_APP = "cg"
TICKS_MS = (1, 4, 10)
#: periods of the kernel threads on each CPU of the database
NOISE_PERIODS_MS = (62, 125, 250, 500, 1000, 2000, 4000)
NOISE_SEEDS = 10
#: periods of the kernel threads on each CPU of lu beside R
QUIET_PERIODS_S = (0.25, 1, 4, 16, 64)
#: recordings with which the checker's S and M are tried
RECORDINGS = (
    "group-imbalance-buggy",
    "group-construction-buggy",
    "overload-on-wakeup-buggy",
    "missing-domains-buggy",
    "lu-pinned-buggy",
)
M_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

#: part of the study -> its rows
Plan = Mapping[str, Sequence[Point]]


def plan(calibrated: Mapping[str, Any], seeds: Sequence[int] = (1, 2, 3, 4, 5)) -> Plan:
    """Return the rows of the study before their replays have run."""
    parameters = nas.parameters_from(calibrated["nas"])
    return {
        "tornado": tornado.bars(parameters, seeds),
        "curves": _size_curves(parameters[CURVE_APP], seeds),
        "tick": _ticks(parameters, seeds),
        "noise": _noise(range(1, NOISE_SEEDS + 1)),
        "quiet": _quiet(parameters["lu"], range(1, tornado.SMALL_EFFECT_SEEDS + 1)),
    }


def result(planned: Plan, results: Results) -> dict[str, Any]:
    """Return the content of ``sensitivity.json``."""
    return {
        "schema": "wastedcores.sensitivity/1",
        "step": tornado.STEP,
        **{
            part: [row for point in points if (row := point.row(results)) is not None]
            for part, points in planned.items()
        },
        "quiet_published": load().number("lozi2016_claims", "lu_r_speedup", "value"),
        "checker": checker(),
    }


def _size_curves(p: Parameters, seeds: Sequence[int]) -> list[Point]:
    """Each bug on parts of the paper's machine with 2 to 64 CPUs: time with the bug divided by time with the fix."""
    points = []

    def add(bug: str, cpus: int, column: str, sides: Sequence[list[Run]]) -> None:
        roles = dict(zip(("bug", "fixed"), sides, strict=True))
        ratio = Reading(roles, quotient("bug", "fixed", column))
        points.append(Point({"bug": bug, "cpus": cpus}, {"ratio": ratio}))

    for cpus in SIZES:
        machine = f"bulldozer:{cpus}"
        build = {"machine": machine, "jobs": cpus * 30}
        add("group_imbalance", cpus, "make_s", [
            [Run.of("wastedcores_studies.replays:make_r", kernel=k, seed=s, **build) for s in seeds]
            for k in ("v4.1", "v4.1+all_fixes:patch")
        ])  # fmt: skip
        pools = [max(round(n * cpus / 64), 1) for n in POOLS] if cpus > 2 else [1, 1]
        pools[0] += cpus - sum(pools)
        add("overload_on_wakeup", cpus, "stage_s", [
            [tpch.query(kernel, machine, pools, "q18", s) for s in seeds]
            for kernel in ("v4.1", "v4.1+overload_on_wakeup:patch")
        ])  # fmt: skip
        nodes = tuple(range(max(cpus // 8, 1)))
        # the work is proportional to the number of CPUs, so that an interval keeps its length
        scaled = replace(p, work_s=p.work_s * cpus / 64)
        for bug, bound, off, fix in (
            ("missing_domains", None, cpus - 1, "v4.1+all_fixes:patch"),
            ("group_construction", (1, 2), None, "v4.1+group_construction:patch"),
        ):
            if bound and len(nodes) < 3:
                continue  # needs two nodes that are two hops apart
            threads = 16 if bound else cpus
            where: dict[str, Any] = {"machine": machine, "start_node": min(1, len(nodes) - 1)}
            places = (Place(k, threads, bound, bound or nodes, reonline=off) for k in ("v4.1", fix))
            sides = [[run(scaled, place, s, **where) for s in seeds] for place in places]
            add(bug, cpus, "interval_s", sides)
    return points


def _ticks(parameters: Mapping[str, Parameters], seeds: Sequence[int]) -> list[Point]:
    """The bug column of Table 3 under HZ = 1000, 250 and 100."""
    points = []
    for app, p in parameters.items():
        for ms in TICKS_MS if KINDS[app] != "none" else ():
            runs = [run(p, PLACES["table3_bug"], s, tick_ns=ms * MS) for s in seeds]
            labels = {"id": f"table3.{app}.bug", "name": app, "tick_ms": ms}
            points.append(Point(labels, {"s": Reading({"bug": runs}, nas.total(p, "bug"))}))
    return points


def _noise(seeds: Sequence[int]) -> list[Point]:
    """Query 18 with kernel threads that run more or less often."""

    def runs(fix: str, ms: int) -> list[Run]:
        how: dict[str, Any] = {"noise_period_ns": ms * MS}
        return [tpch.query(tpch.FIXES[fix], tpch.MACHINE, POOLS, "q18", s, **how) for s in seeds]

    return [
        Point(
            {"fix": fix, "period_ms": ms},
            {
                "change": Reading(
                    {"bug": runs("none", ms), "fixed": runs(fix, ms)}, change("stage_s")
                )
            },
        )
        for fix in list(tpch.FIXES)[1:]
        for ms in NOISE_PERIODS_MS
    ]


def _quiet(p: Parameters, seeds: Sequence[int]) -> list[Point]:
    """Lu beside R if kernel threads run more or less often; the run with the fix is that of the scorecard."""
    fixed = [run(p, PLACES["lu_r_fixed"], s) for s in seeds]
    points = []
    for period_s in QUIET_PERIODS_S:
        period_ns = round(period_s * S)
        bug = [run(p, PLACES["lu_r_bug"], s, whole=True, kworker_ns=period_ns) for s in seeds]
        gained = Reading({"bug": bug, "fixed": fixed}, nas.speedup(p))
        points.append(Point({"period_s": period_s}, {"speedup": gained}))
    return points


def checker(recordings: Sequence[str] = RECORDINGS) -> list[dict[str, Any]]:
    """Return what a checker with other values of M would see of the recordings, and how many checks it would need.

    A check at a random moment reports an episode if the episode lasts for at least M after this moment.
    """
    rows: list[dict[str, Any]] = []
    for name in recordings:
        found = check(open_trace(fetch(name)), persist_ns=MS, whole=True)
        episodes = found.episodes.with_columns(length_ns=pl.col("end_ns") - pl.col("start_ns"))
        total = float(episodes["wasted_ns"].sum() or 0)
        for m_ms in M_MS:
            m_ns = m_ms * MS
            long = episodes.filter(pl.col("length_ns") >= m_ns)
            chance = float((long["length_ns"] - m_ns).sum() or 0) / max(found.duration_ns, 1)
            rows.append(
                {
                    "recording": name,
                    "m_ms": m_ms,
                    "caught": float(long["wasted_ns"].sum() or 0) / total if total else 0.0,
                    "checks": 1 / chance if chance > 0 else None,
                }
            )
    return rows
