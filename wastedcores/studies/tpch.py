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

from wastedcores.studies.entries import Entry, Value, plain
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
#: claim -> kind of event whose rate it is (paper 4.2, "the commercial database")
_RATES = {
    "event_rate_nr": "nr_running",
    "event_rate_load": "load",
    "event_rate_considered": "considered",
}
#: size of an event of the authors' profiler (paper 4.2)
EVENT_BYTES = 20


def query(
    kernel: str,
    machine: str,
    pools: Sequence[int],
    workload: str,
    seed: int,
    autogroups: bool = False,
    **how: int,
) -> Run:
    """One replay of some stages of a workload, for a sweep; ``how`` as ``resident_pools`` takes it."""
    return Run.of(
        "wastedcores.studies.runs:tpch",
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
                "reason": _REASONS[workload]
                + (_GI + _GI_GROUPS if fix == "group_imbalance" else ""),
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


def rate_entries(tables: Tables, seeds: Sequence[int]) -> list[Entry]:
    """Rows of paper 4.2: how many events a second the profiler saw of the database."""
    runs = [
        Run.of(
            "wastedcores.studies.runs:profiler_events",
            kernel="v4.1",
            machine=MACHINE,
            seed=s,
            pools=list(POOLS),
            together=WORKLOADS["full"],
            stages=STAGES // 2,
        )
        for s in seeds[:5]
    ]

    def entry(claim: str, value: Value) -> Entry:
        return Entry(
            id=f"claims.{claim}",
            source="lozi2016",
            place=tables.text("lozi2016_claims", claim, "place"),
            quantity=tables.text("lozi2016_claims", claim, "quantity"),
            unit=tables.text("lozi2016_claims", claim, "unit"),
            published=tables.text("lozi2016_claims", claim, "value"),
            kind="predicted",
            roles={"bug": runs},
            value=value,
            reason="The model's full run. Two events for each time a worker or a kernel thread sleeps, one for each "
            "group that a balancing CPU looks at; a real database also sleeps for input and output.",
        )

    return [
        *(entry(claim, plain("bug", kind)) for claim, kind in _RATES.items()),
        entry(
            "profiler_rate",
            lambda rows: EVENT_BYTES * sum(rows["bug"][kind] for kind in _RATES.values()) / 1e6,
        ),
    ]


def _scaled(stages: float) -> Value:
    return lambda rows: stages * rows["fixed"]["stage_s"]


def _change(rows: Any) -> float:
    return 100 * (rows["fixed"]["stage_s"] / rows["bug"]["stage_s"] - 1)
