"""TPC-H on a commercial database (paper Table 2), and its reproduction on a desktop (Walcher and Semeniuc 2019).

**Calibrated**: how many stages the query and the full run have, from the row without fixes. **Predicted**: every other
row, and with the same workers, stages and noise the desktop's. Query 18, the one "most sensitive", is modelled with all
workers in one query: everybody waits for everybody. In the full run the container processes answer different queries,
each waits for its own workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from wastedcores.studies.entries import Entry, Value
from wastedcores.studies.published import Tables
from wastedcores.sweep import Run

MACHINE = "bulldozer8x8"
#: "a handful of container processes each provide several dozens of worker threads", 64 in all (paper 3.3, footnote 4)
POOLS = (28, 20, 16)
STAGES = 300
WORKLOADS = {"q18": True, "full": False}
FIXES = {
    "none": "v4.1",
    "group_imbalance": "v4.1+group_imbalance:patch",
    "overload_on_wakeup": "v4.1+overload_on_wakeup:patch",
    "both": "v4.1+group_imbalance:patch+overload_on_wakeup:patch",
}
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
    "q18": "Stages of 2 ms and noise of 0.1-0.5 ms every 40 ms a CPU are those of the recorded db64, not of the "
    "paper's database.",
    "full": "Which of the 22 queries use how many workers is unknown; the model lets each container wait for its own "
    "workers only.",
}


#: why the group-imbalance fix alone does not help here
_GI = (
    " Here some CPU of nearly every node is idle at any moment (39 of 64 are busy), so the minimum loads that the fix "
    "compares are 0 on both sides and it finds all balanced, where the averages would still have moved a thread; the "
    "published gain needs nodes without an idle CPU, that is longer stages or more threads than the paper tells of."
)


def query(
    kernel: str,
    machine: str,
    pools: Sequence[int],
    workload: str,
    seed: int,
    autogroups: bool = False,
) -> Run:
    """One replay of some stages of a workload, for a sweep."""
    return Run.of(
        "wastedcores.studies.runs:tpch",
        kernel=kernel,
        machine=machine,
        seed=seed,
        pools=list(pools),
        together=WORKLOADS[workload],
        stages=STAGES,
        autogroups=autogroups,
    )


def calibrate(tables: Tables, execute: Any, *, seeds: Sequence[int]) -> dict[str, float]:
    """Stages of the query and of the full run, from the row without fixes."""
    stages = {}
    for workload in WORKLOADS:
        seconds = tables.number("lozi2016_table2", "none", f"{workload}_s")
        rows = execute([query("v4.1", MACHINE, POOLS, workload, s) for s in seeds])
        stages[workload] = seconds / median(float(r["stage_s"]) for r in rows)
    return stages


def entries(tables: Tables, stages: dict[str, float], seeds: Sequence[int]) -> list[Entry]:
    """Rows of Table 2: seconds and changes."""
    out = []
    for workload in WORKLOADS:
        runs = {
            fix: [query(kernel, MACHINE, POOLS, workload, s) for s in seeds]
            for fix, kernel in FIXES.items()
        }
        for fix, patched in FIXES.items():
            seconds = _scaled(stages[workload])
            common: dict[str, Any] = {
                "source": "lozi2016",
                "place": "Table 2",
                "kind": "calibrated" if fix == "none" else "predicted",
                "reason": _REASONS[workload] + (_GI if fix == "group_imbalance" else ""),
            }
            out.append(
                Entry(
                    id=f"table2.{workload}.{fix}.s",
                    quantity=f"TPC-H {workload}, fixes: {fix}",
                    unit="s",
                    published=tables.text("lozi2016_table2", fix, f"{workload}_s"),
                    roles={"fixed": runs[fix]},
                    value=seconds,
                    **common,
                )
            )
            if fix == "none":
                continue
            grouped = {
                side: [query(k, MACHINE, POOLS, workload, s, True) for s in seeds[:5]]
                for side, k in (("bug", FIXES["none"]), ("fixed", patched))
            }
            beside: dict[str, Any] = {"each container an autogroup": (grouped, _change)}
            if fix in _PAPER_TEXT:
                other = [query(_PAPER_TEXT[fix], MACHINE, POOLS, workload, s) for s in seeds]
                beside["fix as in the paper's text"] = (
                    {"bug": runs["none"], "fixed": other},
                    _change,
                )
            out.append(
                Entry(
                    id=f"table2.{workload}.{fix}.change",
                    quantity=f"TPC-H {workload}, change with {fix}",
                    unit="percent",
                    published=tables.text("lozi2016_table2", fix, f"{workload}_change_pct"),
                    roles={"bug": runs["none"], "fixed": runs[fix]},
                    value=_change,
                    beside=beside,
                    **common,
                )
            )
    return out


def desktop_entries(tables: Tables, seeds: Sequence[int]) -> list[Entry]:
    """Rows of the reproduction report: changes on 4 and on 2 cores."""
    out = []
    for cores, pools in DESKTOPS.items():
        for workload in WORKLOADS:
            bug, fixed = (
                [query(kernel, f"desktop:{cores}", pools, workload, s) for s in seeds]
                for kernel in ("v4.1.52", "v4.1.52+overload_on_wakeup:patch")
            )
            out.append(
                Entry(
                    id=f"walcher.{cores}.{workload}.change",
                    source="walcher2019",
                    place="2.4",
                    quantity=f"TPC-H {workload} on {cores} cores, change with overload_on_wakeup",
                    unit="percent",
                    published=tables.text(
                        "walcher2019_tpch", f"{cores} overload_on_wakeup", f"{workload}_change_pct"
                    ),
                    kind="predicted",
                    roles={"bug": bug, "fixed": fixed},
                    value=_change,
                    reason=_DESKTOP,
                )
            )
    return out


def _scaled(stages: float) -> Value:
    return lambda rows: stages * rows["fixed"]["stage_s"]


def _change(rows: Any) -> float:
    return 100 * (rows["fixed"]["stage_s"] / rows["bug"]["stage_s"] - 1)
