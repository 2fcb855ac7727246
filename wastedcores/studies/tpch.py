"""TPC-H on a commercial database (paper Table 2), and its reproduction on a desktop (Walcher and Semeniuc 2019).

**Calibrated**: how many stages the query and the full run have, from the row without fixes. **Predicted**: every other
row, and with the same workers, stages and kernel threads the desktop's, and the rates of the profiler's events (paper
4.2). Query 18, the one "most sensitive", is modelled with all workers in one query: everybody waits for everybody. In
the full run the container processes answer different queries, each waits for its own workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from wastedcores.studies.attempts import Attempt, Reading, change
from wastedcores.studies.published import Tables
from wastedcores.sweep import Run
from wastedcores.workload.database import POOLS

MACHINE = "bulldozer8x8"
STAGES = 600
WORKLOADS = {"q18": True, "full": False}
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
#: change of the time of a stage by a fix, in percent
CHANGE = change("stage_s")
_PAPER_TEXT = {
    "group_imbalance": "v4.1+group_imbalance",
    "both": "v4.1+group_imbalance+overload_on_wakeup",
}
#: the desktop ran 4.1.52; one worker a core, pools in the same proportion
DESKTOPS = {4: (2, 1, 1), 2: (1, 1)}
#: what the desktop's rows rest on
_DESKTOP = (
    "One cache: the wake-up path looks at every CPU there is, so the bug has nowhere to bite. PostgreSQL 9.4 runs a "
    "query in one process; the model's workers are an upper bound of how much its threads wait for each other."
)
_REASONS = {
    "q18": "Stages of 2 ms are those of the recorded db64, kernel threads once a second and CPU those of the recorded "
    "idle guests; the paper names neither. The more of them, the more the wakeup fix gains: 14 to 16 % where they "
    "come four to eight times as often (curve below). Four times as often the group-imbalance fix alone gains 10 %, but "
    "eight times as often it slows the query down.",
    "full": "Which of the 22 queries use how many workers is unknown; the model lets each container wait for its own "
    "workers only, so a straggler keeps fewer waiting.",
}
#: what the group-imbalance fix does here
_GI = (
    " Loads are averages of the last tens of ms, so the node of a kernel thread looks heavy and gives away a worker, "
    "which the wake-up path then keeps away from its idle CPU. The fix compares least loaded CPUs instead: those are "
    "idle on both sides, and fewer workers are moved for nothing. The same test (and, as published, taking the last "
    "group of the ring) makes it slow to mend a real imbalance: where kernel threads come eight times as often, the "
    "fix alone makes the query slower, as the sensitivity shows."
)
#: and with autogroups, which the paper had off
_GI_GROUPS = (
    " Where each container is an autogroup, the literal patch alone leaves most nodes idle: the least load of a group of "
    "nodes is 0 as long as one of its CPUs idles, so no group looks busier than another."
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
    """Return one replay of some stages of a workload, for a sweep.

    Parameters
    ----------
    kernel, machine, seed
        Names of the kernel model and of the machine, and the seed.
    pools
        Workers of each container process.
    workload
        Key of :data:`WORKLOADS`.
    autogroups
        Whether each container process is in an autogroup of its own.
    **how
        Further arguments of :func:`wastedcores.workload.database.resident_pools`.
    """
    return Run.of(
        "wastedcores.studies.replays:tpch",
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
    """Return the number of stages of the query and of the full run, from the row without fixes.

    Parameters
    ----------
    tables
        The published tables; cells that are predicted may be blank.
    execute
        Executes runs and returns their rows in order.
    seeds
        The median over these replays counts.
    """
    stages = {}
    for workload in WORKLOADS:
        seconds = tables.number("lozi2016_table2", "none", f"{workload}_s")
        rows = execute([query("v4.1", MACHINE, POOLS, workload, s) for s in seeds])
        stages[workload] = seconds / median(float(r["stage_s"]) for r in rows)
    return stages


def attempts(tables: Tables, stages: dict[str, float], seeds: Sequence[int]) -> list[Attempt]:
    """Return the rows of Table 2: seconds, and changes by each fix.

    Parameters
    ----------
    tables
        The published tables.
    stages
        Calibrated number of stages by workload.
    seeds
        One replay of each kind per seed.
    """
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

    def changed(kernel: str, seeds: Sequence[int], autogroups: bool = False) -> Reading:
        bug, fixed = (
            [query(k, MACHINE, POOLS, workload, s, autogroups) for s in seeds]
            for k in (FIXES["none"], kernel)
        )
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
    rows = [attempt("s", "s", seconds, unit="s", quantity=f"TPC-H {workload}, fixes: {fix}")]
    if fix != "none":
        others = {"each container an autogroup": changed(FIXES[fix], seeds[:5], autogroups=True)}
        if fix in _PAPER_TEXT:
            others["fix as in the paper's text"] = changed(_PAPER_TEXT[fix], seeds)
        quantity = f"TPC-H {workload}, change with {fix}"
        reading = changed(FIXES[fix], seeds)
        rows.append(
            attempt(
                "change", "change_pct", reading, unit="percent", quantity=quantity, others=others
            )
        )
    return rows


def desktop_attempts(tables: Tables, seeds: Sequence[int]) -> list[Attempt]:
    """Return the rows of the reproduction by Walcher and Semeniuc: changes on 4 and on 2 cores.

    Parameters
    ----------
    tables, seeds
        As for :func:`attempts`.
    """
    rows = []
    for cores, pools in DESKTOPS.items():
        for workload in WORKLOADS:
            bug, fixed = (
                [query(kernel, f"desktop:{cores}", pools, workload, s) for s in seeds]
                for kernel in ("v4.1.52", "v4.1.52+overload_on_wakeup:patch")
            )
            rows.append(
                Attempt(
                    id=f"walcher.{cores}.{workload}.change",
                    group="desktop",
                    short=f"{cores} cores, {SHORT[workload]}",
                    source="walcher2019",
                    place="2.4",
                    quantity=f"TPC-H {workload} on {cores} cores, change with overload_on_wakeup",
                    unit="percent",
                    published=tables.text(
                        "walcher2019_tpch", f"{cores} overload_on_wakeup", f"{workload}_change_pct"
                    ),
                    kind="predicted",
                    reading=Reading({"bug": bug, "fixed": fixed}, CHANGE),
                    reason=_DESKTOP,
                )
            )
    return rows
