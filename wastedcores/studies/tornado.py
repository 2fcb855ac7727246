"""Which parameter each predicted number depends on: one at a time a quarter smaller and larger, all others as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from wastedcores.studies import make_r, tpch
from wastedcores.studies.nas import PLACES, Parameters, changed, run
from wastedcores.sweep import Run
from wastedcores.workload import database
from wastedcores.workload.spmd import SPIN_LIMIT_NS, SPREAD

#: every parameter is made this much smaller and larger
STEP = 1.25
#: seeds of the bars whose base is an effect of a few percent, or differs much by seed
SMALL_EFFECT_SEEDS = 5
_PROGRAM = ("work_s", "serial_s", "intervals", "planes", "remote", "spin_ns", "spread")
_DATABASE = {
    "stage_ns": database.STAGE_NS,
    "noise_ns": database.NOISE_NS,
    "noise_period_ns": database.NOISE_PERIOD_NS,
}


@dataclass(frozen=True)
class Setting:
    """One end of a bar, or its middle.

    Attributes
    ----------
    roles
        Replays by role.
    column
        What is read off each; the median over a role's replays counts.
    number
        The predicted number out of these medians.
    """

    roles: Mapping[str, Sequence[Run]]
    column: str
    number: Callable[[Mapping[str, float]], float]

    def value(self, median: Callable[[Sequence[Run], str], float | None]) -> float | None:
        """The number; None if a replay failed."""
        got = {role: median(runs, self.column) for role, runs in self.roles.items()}
        known = {role: v for role, v in got.items() if v is not None}
        return self.number(known) if len(known) == len(got) else None


@dataclass(frozen=True)
class Bar:
    """One parameter of one number: with it smaller, as it is, and larger."""

    id: str
    parameter: str
    low: Setting
    base: Setting
    high: Setting

    def runs(self) -> list[Run]:
        """Every replay that it needs."""
        sets = (s.roles.values() for s in (self.low, self.base, self.high))
        return [r for roles in sets for runs in roles for r in runs]

    def row(self, median: Callable[[Sequence[Run], str], float | None]) -> dict[str, Any] | None:
        """``id``, ``parameter``, ``low``, ``base``, ``high``."""
        values = [s.value(median) for s in (self.low, self.base, self.high)]
        if None in values:
            return None
        low, base, high = values
        return {
            "id": self.id,
            "parameter": self.parameter,
            "low": low,
            "base": base,
            "high": high,
        }


def bars(parameters: Mapping[str, Parameters], seeds: Sequence[int]) -> list[Bar]:
    """Bars of every number that is predicted from parameters: Tables 2 and 3, lu and make beside R."""
    return [
        *_table3(parameters, seeds),
        *_table2(range(1, SMALL_EFFECT_SEEDS + 1)),
        *_lu_r(parameters["lu"], range(1, SMALL_EFFECT_SEEDS + 1)),
        *_make(seeds),
    ]


def _varied(p: Parameters) -> Iterator[tuple[str, Callable[[float], tuple[Parameters, dict]]]]:
    """A program's knobs: name, and what makes the program and the replay's options for a factor."""
    for knob in _PROGRAM:
        if knob in ("spin_ns", "spread"):
            # a pipeline polls without limit, and one piece of work has nobody to wait for
            if p.kind != "none" and not (knob == "spin_ns" and p.kind == "pipeline"):
                yield knob, partial(_option, p, knob)
        elif getattr(p, knob) and not (knob == "intervals" and p.kind == "none"):
            yield knob, partial(_parameter, p, knob)


def _option(p: Parameters, knob: str, factor: float) -> tuple[Parameters, dict]:
    base: float = SPIN_LIMIT_NS if knob == "spin_ns" else SPREAD
    return p, {knob: type(base)(base * factor)}


def _parameter(p: Parameters, knob: str, factor: float) -> tuple[Parameters, dict]:
    return (changed(p, knob, factor) if factor != 1 else p), {}


def _table3(parameters: Mapping[str, Parameters], seeds: Sequence[int]) -> Iterator[Bar]:
    place = PLACES["table3_bug"]

    def setting(p: Parameters, options: dict) -> Setting:
        runs = [run(p, place, s, **options) for s in seeds]
        return Setting({"bug": runs}, "interval_s", lambda m: p.total_s(m["bug"]))

    for app, p in parameters.items():
        for knob, vary in _varied(p):
            low, high = (setting(*vary(f)) for f in (1 / STEP, STEP))
            yield Bar(f"table3.{app}.bug", knob, low, setting(p, {}), high)


def _lu_r(p: Parameters, seeds: Sequence[int]) -> Iterator[Bar]:
    def setting(p: Parameters, options: dict) -> Setting:
        roles = {
            side: [run(p, PLACES[f"lu_r_{side}"], s, whole=side == "bug", **options) for s in seeds]
            for side in ("bug", "fixed")
        }
        return Setting(roles, "interval_s", lambda m: p.total_s(m["bug"]) / p.total_s(m["fixed"]))

    for knob, vary in _varied(p):
        low, high = (setting(*vary(f)) for f in (1 / STEP, STEP))
        yield Bar("claims.lu_r_speedup", knob, low, setting(p, {}), high)


def _fixed_by_bug(m: Mapping[str, float]) -> float:
    return m["fixed"] / m["bug"]


def _table2(seeds: Sequence[int]) -> Iterator[Bar]:
    """Time with the fix over time without, which is what the printed percentages are."""

    def setting(workload: str, fix: str, options: Mapping[str, int]) -> Setting:
        roles = {
            side: [
                tpch.query(
                    tpch.FIXES[k], tpch.MACHINE, database.POOLS, workload, s, False, **options
                )
                for s in seeds
            ]
            for side, k in (("bug", "none"), ("fixed", fix))
        }
        return Setting(roles, "stage_s", _fixed_by_bug)

    for workload in tpch.WORKLOADS:
        for fix in list(tpch.FIXES)[1:]:
            for knob, base in _DATABASE.items():
                low, high = (
                    setting(workload, fix, {knob: round(base * f)}) for f in (1 / STEP, STEP)
                )
                yield Bar(
                    f"table2.{workload}.{fix}.change", knob, low, setting(workload, fix, {}), high
                )


def _make(seeds: Sequence[int]) -> Iterator[Bar]:
    def setting(factor: float) -> Setting:
        options = {} if factor == 1 else {"length": factor}
        roles = {
            side: [make_r.build(kernel, s, **options) for s in seeds]
            for side, kernel in make_r.SIDES.items()
        }
        return Setting(roles, "make_s", _fixed_by_bug)

    low, base, high = (setting(f) for f in (1 / STEP, 1, STEP))
    yield Bar("claims.make_r_gain", "length of a compiler", low, base, high)
