"""A kernel build beside two R processes, and what else the paper's text says in numbers (paper 3.1, 3.2, 3.4).

Nothing is calibrated here: the compilers are those of the recordings (20-60 ms each), and percentages do not depend on
how many there are. Every row is predicted.
"""

from __future__ import annotations

from collections.abc import Sequence

from wastedcores.studies.entries import Entry, gain, plain
from wastedcores.studies.published import Tables
from wastedcores.sweep import Run

MACHINE = "bulldozer8x8"
JOBS = 4000
TABLE = "lozi2016_claims"
#: the two sides of the published percentage
SIDES = {"bug": "v4.1", "fixed": "v4.1+group_imbalance:patch"}
_RUNS = "wastedcores.studies.runs"

_WHY_GAIN = (
    "With the literal group-imbalance patch alone the two nodes of R fill up only in part: its search ends with the "
    "last group of the ring, not with the one that has most to give, and NUMA levels balance through one designated "
    "CPU. "
    "The recordings of the patched 4.1.3 kernel show the same (-6 %); all four patches together give -18 % there."
)


def build(kernel: str, seed: int, **how: float) -> Run:
    """One replay of the build beside two R, for a sweep; ``how`` as ``runs.make_r`` takes it."""
    return Run.of(f"{_RUNS}:make_r", kernel=kernel, machine=MACHINE, seed=seed, jobs=JOBS, **how)


def entries(tables: Tables, seeds: Sequence[int]) -> list[Entry]:
    """Rows of section 3.1 and of figures 2 and 5."""
    bug, fixed, text, every = (
        [build(kernel, s) for s in seeds]
        for kernel in (*SIDES.values(), "v4.1+group_imbalance", "v4.1+all_fixes:patch")
    )

    def claim(row: str, **what: object) -> Entry:
        return Entry(
            id=f"claims.{row}",
            source="lozi2016",
            place=tables.text(TABLE, row, "place"),
            quantity=tables.text(TABLE, row, "quantity"),
            unit=tables.text(TABLE, row, "unit"),
            published=tables.text(TABLE, row, "value"),
            kind="predicted",
            **what,  # type: ignore[arg-type]
        )

    return [
        claim(
            "make_r_gain",
            roles={"bug": bug, "fixed": fixed},
            value=gain("make_s"),
            beside={
                "fix as in the paper's text": ({"bug": bug, "fixed": text}, gain("make_s")),
                "all four patches": ({"bug": bug, "fixed": every}, gain("make_s")),
            },
            reason=_WHY_GAIN,
        ),
        claim(
            "make_r_r_gain",
            roles={"bug": bug, "fixed": fixed},
            # R works all the time: its completion time goes with one over its share of a CPU
            value=lambda r: 100 * (r["bug"]["r_share"] / r["fixed"]["r_share"] - 1),
            reason="R keeps a CPU to itself with and without the fix.",
        ),
        claim(
            "fig2_idle_nodes",
            roles={"bug": bug},
            value=plain("bug", "idle_nodes"),
            reason="Nodes that leave at least one CPU unused over the first three quarters of the build.",
        ),
        claim(
            "groups_buggy",
            roles={
                "bug": [Run.of(f"{_RUNS}:machine_groups", kernel="v4.1", machine=MACHINE, seed=0)]
            },
            value=plain("bug", "groups"),
            reason="Built by the model of the kernel's construction, no replay.",
        ),
        claim(
            "fig5_balance_period",
            roles={
                "bug": [
                    Run.of(f"{_RUNS}:looks_of_core0", kernel="v4.1", machine=MACHINE, seed=s)
                    for s in seeds[:5]
                ]
            },
            value=plain("bug", "period_ms"),
            reason="CPU 0 looks for work at its pair's and its node's balance intervals; the figure shows every tick.",
        ),
    ]
