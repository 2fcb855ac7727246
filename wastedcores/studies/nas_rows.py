"""Rows of Tables 1 and 3 and of lu beside R (paper 3.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from wastedcores.studies.entries import Entry, Value
from wastedcores.studies.nas import KINDS, PLACES, Parameters, run
from wastedcores.studies.published import Tables

#: how the fix of a table is replayed when it is read as the paper's text has it
_TEXT = {
    "table1_fixed": replace(PLACES["table1_fixed"], kernel="v4.1+group_construction"),
    "table3_fixed": replace(PLACES["table3_fixed"], kernel="v4.1+missing_domains:patch"),
}
_BESIDE = {
    "table1": "group construction as in the paper's text",
    "table3": "missing-domains patch alone",
}
_KIND_REASON = {
    "none": "No synchronisation: 8 CPUs do the work, however many threads share them.",
    "barrier": "A thread that waits at a barrier spins for a while before it sleeps: of m threads on a CPU m-1 do so "
    "at each barrier, so the loss grows with m.",
    "lock": "As a barrier program; holders of a lock that lose the CPU add little.",
    "pipeline": "Flags are polled without limit: a thread whose neighbour waits for the same CPU burns its slice, and "
    "a plane advances about once a round of the runqueue. Planes and iterations are those of NPB's class B.",
}
_MISFIT = {
    "ep": " Its three calibration times do not fit one program: 16 threads on 16 CPUs take 36 s, four times the CPUs "
    "still 18 s, though ep shares nothing.",
    "bt": " The fixed columns say that its intervals are long; Table 3 shows that some are not.",
}
_LU_R = (
    "The nodes of R look as loaded as the others while their CPUs idle, so lu's threads begin two and more to a CPU; "
    "flags that are polled make one such pair stop the whole line. For 5 s about 43 CPUs are busy, as in the recording "
    "lu60R4-buggy, and lu hardly moves; then kernel threads (here one a second on each CPU) let idle CPUs pull until "
    "57 are busy, and the pairs that are left keep lu slow to its end, so the whole run is replayed. The rarer kernel "
    "threads are, the slower lu stays (curve below); the paper does not say how quiet its machine was. Fixed is with all "
    "four patches, as the recording lu60R4-alllit. The literal group-imbalance patch alone compares the least load of "
    "groups of several nodes, which is 0 as long as one of their CPUs idles: lu stays on the node where it began."
)


def total(p: Parameters, role: str) -> Value:
    """Seconds of the whole run."""
    return lambda rows: p.total_s(float(rows[role]["interval_s"]))


def speedup(p: Parameters) -> Value:
    """Bug over fixed."""
    return lambda rows: (
        p.total_s(float(rows["bug"]["interval_s"])) / p.total_s(float(rows["fixed"]["interval_s"]))
    )


def entries(
    table: str, tables: Tables, parameters: Mapping[str, Parameters], seeds: Sequence[int]
) -> list[Entry]:
    """Rows of ``table1`` (all calibrated) or ``table3`` (fixed calibrated, the rest predicted)."""
    file = f"lozi2016_{table}"
    out = []
    for app in KINDS:
        p = parameters[app]
        runs = {
            side: [run(p, PLACES[f"{table}_{side}"], s) for s in seeds] for side in ("bug", "fixed")
        }
        text = [run(p, _TEXT[f"{table}_fixed"], s) for s in seeds[:5]]
        common: dict[str, Any] = {
            "source": "lozi2016",
            "place": f"Table {table[-1]}",
            "reason": _KIND_REASON[KINDS[app]] + _MISFIT.get(app, ""),
        }
        for side in ("bug", "fixed"):
            out.append(
                Entry(
                    id=f"{table}.{app}.{side}",
                    quantity=f"{app}, {'with' if side == 'bug' else 'without'} the bug",
                    unit="s",
                    published=tables.text(file, app, f"{side}_s"),
                    kind="predicted" if (table, side) == ("table3", "bug") else "calibrated",
                    roles={side: runs[side]},
                    value=total(p, side),
                    beside={_BESIDE[table]: ({"fixed": text}, total(p, "fixed"))}
                    if side == "fixed"
                    else {},
                    **common,
                )
            )
        out.append(
            Entry(
                id=f"{table}.{app}.speedup",
                quantity=f"{app}, speedup",
                unit="ratio",
                published=tables.text(file, app, "speedup"),
                kind="predicted" if table == "table3" else "calibrated",
                roles=runs,
                value=speedup(p),
                **common,
            )
        )
    return out


def lu_beside_r(
    tables: Tables, parameters: Mapping[str, Parameters], seeds: Sequence[int]
) -> list[Entry]:
    """Rows of lu with 60 threads beside four R: predicted from lu's parameters of Table 1."""
    p = parameters["lu"]
    # places are found slowly where R is in the way: the whole run counts
    bug = [run(p, PLACES["lu_r_bug"], s, whole=True) for s in seeds]
    fixed = [run(p, PLACES["lu_r_fixed"], s) for s in seeds]
    few = seeds[:5]
    kernels = {
        "literal group-imbalance patch alone": "v4.1+group_imbalance:patch",
        "fix as in the paper's text": "v4.1+group_imbalance",
    }
    return [
        Entry(
            id="claims.lu_r_speedup",
            source="lozi2016",
            place=tables.text("lozi2016_claims", "lu_r_speedup", "place"),
            quantity=tables.text("lozi2016_claims", "lu_r_speedup", "quantity"),
            unit="ratio",
            published=tables.text("lozi2016_claims", "lu_r_speedup", "value"),
            kind="predicted",
            roles={"bug": bug, "fixed": fixed},
            value=speedup(p),
            beside={
                label: (
                    {
                        "bug": bug[: len(few)],
                        "fixed": [
                            run(p, replace(PLACES["lu_r_fixed"], kernel=kernel), s, whole=True)
                            for s in few
                        ],
                    },
                    speedup(p),
                )
                for label, kernel in kernels.items()
            },
            reason=_LU_R,
        )
    ]
