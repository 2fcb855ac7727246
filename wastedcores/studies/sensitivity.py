"""What the predictions depend on, from which size on the bugs matter, and what a checker sees with other S and M."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import polars as pl

from wastedcores.invariant import check
from wastedcores.studies import nas, tornado, tpch
from wastedcores.studies.nas import KINDS, PLACES, Parameters, Place, run
from wastedcores.studies.published import load
from wastedcores.sweep import Run
from wastedcores.trace.datasets import fetch
from wastedcores.trace.io import open_trace
from wastedcores.workload.database import POOLS

SIZES = (2, 4, 8, 16, 32, 64)
#: programs that stand for their kind in the curves
CURVE_APP = "cg"
TICKS_MS = (1, 4, 10)
#: how often a kernel thread disturbs each of the database's CPUs
NOISE_PERIODS_MS = (62, 125, 250, 500, 1000, 2000, 4000)
NOISE_SEEDS = 10
#: and each CPU of lu beside R
QUIET_PERIODS_S = (0.25, 1, 4, 16, 64)
#: recordings for the checker's S and M
RECORDINGS = (
    "group-imbalance-buggy",
    "group-construction-buggy",
    "overload-on-wakeup-buggy",
    "missing-domains-buggy",
    "lu-pinned-buggy",
)
M_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class Study:
    """What all of it needs and what comes out.

    Parameters
    ----------
    calibrated
        A calibration file's content.
    seeds
        Of the bars and curves; small effects have more, see the constants.
    """

    def __init__(self, calibrated: dict[str, Any], seeds: Sequence[int] = (1, 2, 3, 4, 5)) -> None:
        self._parameters = parameters = nas.parameters_from(calibrated["nas"])
        self._bars = tornado.bars(parameters, seeds)
        few = range(1, tornado.SMALL_EFFECT_SEEDS + 1)
        self._plans: dict[str, dict[Any, list[list[Run]]]] = {
            "curves": _curve_runs(parameters, seeds),
            "tick": _tick_runs(parameters, seeds),
            "noise": _noise_runs(range(1, NOISE_SEEDS + 1)),
            "quiet": _quiet_runs(parameters["lu"], few),
        }

    def runs(self) -> list[Run]:
        """Every replay, those of several figures more than once."""
        planned = [
            r for plan in self._plans.values() for sets in plan.values() for rs in sets for r in rs
        ]
        return planned + [r for bar in self._bars for r in bar.runs()]

    def result(self, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """The figures' numbers.

        Parameters
        ----------
        rows
            Run key -> row of the sweep.

        Returns
        -------
        dict
            ``tornado`` (id, parameter, low, base, high), ``curves`` (bug, cpus, ratio bug/fixed), ``tick`` (id,
            tick_ms, seconds), ``noise`` (fix, period_ms, change in percent of query 18), ``quiet`` (period_s, speedup
            of lu beside R; ``quiet_published``), ``checker`` (recording, m_ms, caught share, checks until seen).
        """

        def value(runs: Sequence[Run], column: str) -> float | None:
            got = [rows[r.key][column] for r in runs if rows[r.key]["error"] is None]
            return float(median(got)) if got else None

        plans, lu = self._plans, self._parameters["lu"]
        return {
            "schema": "wastedcores.sensitivity/1",
            "step": tornado.STEP,
            "tornado": [row for bar in self._bars if (row := bar.row(value)) is not None],
            "curves": _curve_rows(plans["curves"], value),
            "tick": [
                {"id": f"table3.{app}.bug", "tick_ms": ms, "s": self._parameters[app].total_s(v)}
                for (app, ms), (runs_,) in plans["tick"].items()
                if (v := value(runs_, "interval_s")) is not None
            ],
            "noise": [
                {"fix": fix, "period_ms": ms, "change": 100 * (b / a - 1)}
                for (fix, ms), (bug, fixed) in plans["noise"].items()
                if (a := value(bug, "stage_s")) and (b := value(fixed, "stage_s"))
            ],
            "quiet": [
                {"period_s": s, "speedup": lu.total_s(a) / lu.total_s(b)}
                for s, (bug, fixed) in plans["quiet"].items()
                if (a := value(bug, "interval_s")) and (b := value(fixed, "interval_s"))
            ],
            "quiet_published": load().number("lozi2016_claims", "lu_r_speedup", "value"),
            "checker": checker(),
        }


def _curve_runs(
    parameters: dict[str, Parameters], seeds: Sequence[int]
) -> dict[Any, list[list[Run]]]:
    """Each bug on machines of 2 to 64 CPUs cut from the paper's: the bug's runs, the fix's runs."""
    p = parameters[CURVE_APP]
    plan: dict[Any, list[list[Run]]] = {}
    for cpus in SIZES:
        machine = f"bulldozer:{cpus}"
        make = [
            [
                Run.of(
                    "wastedcores.studies.runs:make_r",
                    kernel=kernel,
                    machine=machine,
                    seed=s,
                    jobs=cpus * 30,
                )
                for s in seeds
            ]
            for kernel in ("v4.1", "v4.1+all_fixes:patch")
        ]
        plan["group_imbalance", cpus] = make
        pools = [max(round(n * cpus / 64), 1) for n in POOLS] if cpus > 2 else [1, 1]
        pools[0] += cpus - sum(pools)
        plan["overload_on_wakeup", cpus] = [
            [tpch.query(kernel, machine, pools, "q18", s) for s in seeds]
            for kernel in ("v4.1", "v4.1+overload_on_wakeup:patch")
        ]
        nodes = tuple(range(max(cpus // 8, 1)))
        start = min(1, len(nodes) - 1)
        for bug, bound, off, fix in (
            ("missing_domains", None, cpus - 1, "v4.1+all_fixes:patch"),
            ("group_construction", (1, 2), None, "v4.1+group_construction:patch"),
        ):
            if bound and len(nodes) < 3:
                continue  # needs two nodes that are two hops apart
            threads = 16 if bound else cpus
            sides = []
            for kernel in ("v4.1", fix):
                place = Place(kernel, threads, bound, bound or nodes, reonline=off)
                runs = [run(_small(p, cpus), place, s, machine=machine) for s in seeds]
                sides.append([_starting(r, start) for r in runs])
            plan[bug, cpus] = sides
    return plan


def _small(p: Parameters, cpus: int) -> Parameters:
    """The same intervals on another machine: work grows with the CPUs, so that an interval stays as long."""
    return replace(p, work_s=p.work_s * cpus / 64)


def _starting(r: Run, node: int) -> Run:
    return Run.of(r.task, **{**dict(r.arguments), "start_node": node})


def _curve_rows(plan: dict[Any, list[list[Run]]], value: Any) -> list[dict]:
    rows = []
    for (bug, cpus), (with_bug, fixed) in plan.items():
        task = with_bug[0].task.rpartition(":")[2]
        column = {"make_r": "make_s", "tpch": "stage_s", "spmd": "interval_s"}[task]
        a, b = value(with_bug, column), value(fixed, column)
        if a is not None and b:
            rows.append({"bug": bug, "cpus": cpus, "ratio": a / b})
    return rows


def _tick_runs(
    parameters: dict[str, Parameters], seeds: Sequence[int]
) -> dict[Any, list[list[Run]]]:
    """Table 3's bug column under HZ = 1000, 250 and 100."""
    place = PLACES["table3_bug"]
    return {
        (app, ms): [
            [
                Run.of(r.task, **dict(r.arguments), tick_ns=ms * 1_000_000)
                for r in (run(parameters[app], place, s) for s in seeds)
            ]
        ]
        for app in KINDS
        if KINDS[app] != "none"
        for ms in TICKS_MS
    }


def _noise_runs(seeds: Sequence[int]) -> dict[Any, list[list[Run]]]:
    """Query 18 with kernel threads that come more often or less."""
    return {
        (fix, ms): [
            [
                tpch.query(
                    tpch.FIXES[k],
                    tpch.MACHINE,
                    POOLS,
                    "q18",
                    s,
                    noise_period_ns=ms * 1_000_000,
                )
                for s in seeds
            ]
            for k in ("none", fix)
        ]
        for fix in list(tpch.FIXES)[1:]
        for ms in NOISE_PERIODS_MS
    }


def _quiet_runs(p: Parameters, seeds: Sequence[int]) -> dict[Any, list[list[Run]]]:
    """Lu beside R where kernel threads come more often or less; the fixed run is the scorecard's."""
    return {
        period_s: [
            [
                run(p, PLACES["lu_r_bug"], s, whole=True, kworker_ns=round(period_s * 1e9))
                for s in seeds
            ],
            [run(p, PLACES["lu_r_fixed"], s) for s in seeds],
        ]
        for period_s in QUIET_PERIODS_S
    }


def checker(recordings: Sequence[str] = RECORDINGS) -> list[dict[str, Any]]:
    """What a checker with another M would see of the recordings, and how many checks it would need.

    A check at a random moment flags an episode if it lasts at least M longer. ``caught``: share of the wasted time in
    episodes of at least M; ``checks``: checks (each S apart) until the first flag, on average; null: never.
    """
    rows: list[dict[str, Any]] = []
    for name in recordings:
        found = check(open_trace(fetch(name)), persist_ns=1_000_000)
        episodes = found.episodes.with_columns(
            (pl.col("end_ns") - pl.col("start_ns")).alias("length_ns")
        )
        total = float(episodes["wasted_ns"].sum() or 0)
        for m_ms in M_MS:
            m_ns = m_ms * 1_000_000
            long = episodes.filter(pl.col("length_ns") >= m_ns)
            chance = float((long["length_ns"] - m_ns).sum() or 0) / found.wall_ns
            rows.append(
                {
                    "recording": name,
                    "m_ms": m_ms,
                    "caught": float(long["wasted_ns"].sum() or 0) / total if total else 0.0,
                    "checks": 1 / chance if chance > 0 else None,
                }
            )
    return rows
