"""TPC-H on a commercial database (Table 2 of Lozi et al. 2016), and on a desktop (Walcher and Semeniuc 2019).

**Calibrated**: the number of stages of the query and of the full run, from the row without fixes. **Predicted**: all other
rows and, with the same workers, stages and kernel threads, those of the desktop and the rates of the profiler's events
(section 4.2, ``claims.py``). In the model of query 18, which is "most sensitive", all workers answer one query, so each
worker waits for all others. In the full run, the container processes answer different queries, and each waits for its own
workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from wastedcores.sweep import Run
from wastedcores.workload.database import POOLS
from wastedcores_studies.attempts import Attempt, Reading, change
from wastedcores_studies.published import Tables

MACHINE = "bulldozer8x8"
#: stages of a replay
STAGES = 600
#: workload -> whether all workers wait for each other at the end of a stage
WORKLOADS = {"q18": True, "full": False}
#: combination of fixes, as Table 2 names it -> kernel model
FIXES = {
    "none": "v4.1",
    "group_imbalance": "v4.1+group_imbalance:patch",
    "overload_on_wakeup": "v4.1+overload_on_wakeup:patch",
    "both": "v4.1+group_imbalance:patch+overload_on_wakeup:patch",
}
#: short names of workloads and fixes
SHORT = {
    "q18": "query 18",
    "full": "full run",
    "none": "no fix",
    "group_imbalance": "group imbalance",
    "overload_on_wakeup": "overload on wakeup",
    "both": "both fixes",
}
#: computes by how many percent a fix changes the time of a stage
CHANGE = change("stage_s")
#: the same kernels, with the group-imbalance fix as the paper's text describes it
_PAPER_TEXT = {
    "group_imbalance": "v4.1+group_imbalance",
    "both": "v4.1+group_imbalance+overload_on_wakeup",
}
#: cores of the desktop, which ran 4.1.52 -> workers per pool: one worker per core, in about the proportion of POOLS
DESKTOPS = {4: (2, 1, 1), 2: (1, 1)}
_DESKTOP = (
    "All cores share one cache, so the wake-up path looks at every CPU and the bug has no effect. PostgreSQL 9.4 runs a "
    "query in one process; the model's workers are an upper bound of how much its threads wait for each other."
)
_DESKTOP_SECONDS = (
    "The time on 4 cores without the fix gives the number of stages. The other times follow from it. Half of the cores take the "
    "same time, because PostgreSQL 9.4 runs a query in one process; the model has one worker per core, each with the same work."
)
_REASONS = {
    "q18": "The stages of 2 ms are those of the recording db64, and one kernel thread per second and CPU is what the "
    "recorded idle guests have; the paper names neither. The more kernel threads run, the more the wakeup fix gains: 14 to "
    "16 % if they run four to eight times as often (curve below). If they run four times as often, the group-imbalance fix "
    "alone gains 10 %, but if they run eight times as often, it slows the query down.",
    "full": "It is unknown which of the 22 queries use how many workers. In the model each container waits for its own "
    "workers only, so a straggler keeps fewer of them waiting.",
}
_GI = (
    " Loads are averages over tens of ms, so a node where a kernel thread ran looks heavily loaded and gives away a worker, "
    "which the wake-up path then keeps away from its idle CPU. The fix compares the least loaded CPUs instead. These are "
    "idle on both sides, so fewer workers are moved without need. The same test (and, in the published patch, taking the "
    "last group of the ring) makes the balancer slow to correct a real imbalance: if kernel threads run eight times as often, "
    "the fix alone makes the query slower, as the sensitivity shows."
)
#: the paper's experiment had autogroups off
_GI_GROUPS = (
    " If each container is an autogroup, the literal patch alone leaves most nodes idle: the least load of a group of "
    "nodes is 0 as long as one of its CPUs is idle, so no group looks busier than another."
)


def query(
    kernel: str,
    machine: str,
    pools: Sequence[int],
    workload: str,
    seed: int,
    autogroups: bool = False,
    **how: int,
) -> Run:
    """Return one replay of some stages of a workload."""
    return Run.of(
        "wastedcores_studies.replays:tpch",
        kernel=kernel,
        machine=machine,
        seed=seed,
        pools=list(pools),
        together=WORKLOADS[workload],
        stages=STAGES,
        autogroups=autogroups,
        **how,
    )


def calibrate(tables: Tables, execute: Any, *, seeds: Sequence[int]) -> dict[str, float]:
    """Return the number of stages of the query and of the full run, from the row without fixes."""
    stages = {}
    for workload in WORKLOADS:
        seconds = tables.number("lozi2016_table2", "none", f"{workload}_s")
        rows = execute([query("v4.1", MACHINE, POOLS, workload, s) for s in seeds])
        stages[workload] = seconds / median(float(r["stage_s"]) for r in rows)
    return stages


def attempts(tables: Tables, stages: dict[str, float], seeds: Sequence[int]) -> list[Attempt]:
    """Return the rows of Table 2: seconds, and changes by each fix."""
    return [
        row
        for workload in WORKLOADS
        for fix in FIXES
        for row in _rows_of(workload, fix, tables, stages[workload], seeds)
    ]


def _rows_of(
    workload: str, fix: str, tables: Tables, stages: float, seeds: Sequence[int]
) -> list[Attempt]:
    """The rows of one workload under one combination of fixes."""

    def changed(
        kernel: str, seeds: Sequence[int], autogroups: bool = False, pin: bool = False
    ) -> Reading:
        bug = [query(FIXES["none"], MACHINE, POOLS, workload, s, autogroups) for s in seeds]
        how = {"pin": True} if pin else {}
        fixed = [query(kernel, MACHINE, POOLS, workload, s, autogroups, **how) for s in seeds]
        return Reading({"bug": bug, "fixed": fixed}, CHANGE)

    def attempt(id_: str, column: str, reading: Reading, **described: Any) -> Attempt:
        return Attempt(
            id=f"table2.{workload}.{fix}.{id_}",
            group="table2",
            short=f"{SHORT[workload]}, {SHORT[fix]}",
            source="lozi2016",
            place="Table 2",
            published=tables.text("lozi2016_table2", fix, f"{workload}_{column}"),
            kind="calibrated" if fix == "none" else "predicted",
            reading=reading,
            reason=_REASONS[workload] + (_GI + _GI_GROUPS if fix == "group_imbalance" else ""),
            **described,
        )

    fixed = [query(FIXES[fix], MACHINE, POOLS, workload, s) for s in seeds]
    seconds = Reading({"fixed": fixed}, lambda rows: stages * rows["fixed"]["stage_s"])
    restates = "" if fix == "none" else f"table2.{workload}.{fix}.change"
    quantity = f"TPC-H {workload}, fixes: {fix}"
    rows = [attempt("s", "s", seconds, unit="s", quantity=quantity, restates=restates)]
    if fix != "none":
        others = {"each container an autogroup": changed(FIXES[fix], seeds[:5], autogroups=True)}
        if fix in _PAPER_TEXT:
            others["fix as in the paper's text"] = changed(_PAPER_TEXT[fix], seeds)
        if fix == "overload_on_wakeup":
            label = "no fix, but each worker pinned to a CPU (much faster, say the slides)"
            others[label] = changed(FIXES["none"], seeds, pin=True)
        quantity = f"TPC-H {workload}, change with {fix}"
        reading = changed(FIXES[fix], seeds)
        rows.append(
            attempt(
                "change", "change_pct", reading, unit="percent", quantity=quantity, others=others
            )
        )
    return rows


def desktop_attempts(tables: Tables, seeds: Sequence[int]) -> list[Attempt]:
    """Return the rows of the reproduction by Walcher and Semeniuc: seconds and changes on 4 and on 2 cores.

    The rows of 4 cores without the fix give the numbers of stages, so these two rows are calibrated. All others are predicted.
    """
    return [
        row
        for cores in DESKTOPS
        for workload in WORKLOADS
        for row in _desktop_rows(cores, workload, tables, seeds)
    ]


def _desktop_rows(cores: int, workload: str, tables: Tables, seeds: Sequence[int]) -> list[Attempt]:
    """Return the rows of one workload on this many cores."""

    def runs(cores: int, fix: str) -> list[Run]:
        kernel = {"none": "v4.1.52"}.get(fix, f"v4.1.52+{fix}:patch")
        return [query(kernel, f"desktop:{cores}", DESKTOPS[cores], workload, s) for s in seeds]

    def attempt(id_: str, fix: str, column: str, reading: Reading, **described: Any) -> Attempt:
        return Attempt(
            id=f"walcher.{cores}.{workload}.{id_}",
            group="desktop",
            short=f"{cores} cores, {SHORT[workload]}{', ' + SHORT[fix] if id_ != 'change' else ''}",
            source="walcher2019",
            place="2.4",
            published=tables.text("walcher2019_tpch", f"{cores} {fix}", f"{workload}_{column}"),
            reading=reading,
            **({"kind": "predicted", "reason": _DESKTOP} | described),
        )

    most, wakeup = max(DESKTOPS), "overload_on_wakeup"
    known = tables.number("walcher2019_tpch", f"{most} none", f"{workload}_s")
    rows = []
    for fix in ("none", wakeup):
        rows.append(
            attempt(
                f"{fix}.s", fix, "s",
                Reading(
                    {"known": runs(most, "none"), "this": runs(cores, fix)},
                    lambda r: known * r["this"]["stage_s"] / r["known"]["stage_s"],
                ),
                unit="s",
                quantity=f"TPC-H {workload} on {cores} cores, fixes: {fix}",
                kind="calibrated" if (cores, fix) == (most, "none") else "predicted",
                reason=_DESKTOP_SECONDS,
                restates=f"walcher.{cores}.{workload}.change" if fix != "none" else "",
            )
        )  # fmt: skip
    change_ = Reading({"bug": runs(cores, "none"), "fixed": runs(cores, wakeup)}, CHANGE)
    quantity = f"TPC-H {workload} on {cores} cores, change with {wakeup}"
    return [
        *rows,
        attempt("change", wakeup, "change_pct", change_, unit="percent", quantity=quantity),
    ]
