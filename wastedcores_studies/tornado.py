"""The sensitivity of each predicted number to each parameter: one parameter at a time is divided or multiplied by 1.25."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from wastedcores.sweep import Run
from wastedcores.workload import database
from wastedcores.workload.spmd import SPIN_LIMIT_NS, SPREAD
from wastedcores_studies import claims, tpch
from wastedcores_studies.attempts import Reading, Results, quotient
from wastedcores_studies.nas import PLACES, Parameters, run, speedup, total

#: each parameter is once divided and once multiplied by this
STEP = 1.25
#: Some results are effects of only a few percent, or vary much from seed to seed. Their bars in the chart use this many seeds.
SMALL_EFFECT_SEEDS = 5
_PARAMETERS = ("work_s", "serial_s", "intervals", "planes", "remote")
_OPTIONS: dict[str, float] = {"spin_ns": SPIN_LIMIT_NS, "spread": SPREAD}
_DATABASE = {
    "stage_ns": database.STAGE_NS,
    "noise_ns": database.NOISE_NS,
    "noise_period_ns": database.NOISE_PERIOD_NS,
}


@dataclass(frozen=True)
class Point:
    """One row of the sensitivity study before its replays have run."""

    labels: Mapping[str, Any]  #: columns that are known beforehand
    #: column -> how its number is computed from medians over the seeds
    readings: Mapping[str, Reading]

    def runs(self) -> list[Run]:
        """Return all replays that the row needs."""
        return [run for reading in self.readings.values() for run in reading.runs()]

    def row(self, results: Results) -> dict[str, Any] | None:
        """Return labels and numbers, or None if all replays of one number failed."""
        values = {name: reading.of_medians(results) for name, reading in self.readings.items()}
        return None if None in values.values() else {**self.labels, **values}


def bars(parameters: Mapping[str, Parameters], seeds: Sequence[int]) -> list[Point]:
    """Return the bars of all numbers that are predicted from parameters: Tables 2 and 3, lu and make beside R."""
    few = range(1, SMALL_EFFECT_SEEDS + 1)
    return [
        *_table3(parameters, seeds),
        *_table2(few),
        *_lu_beside_r(parameters["lu"], few),
        *_make_beside_r(seeds),
    ]


def _bar(id_: str, name: str, parameter: str, reading: Callable[[float], Reading]) -> Point:
    """Return the bar of one number; ``reading`` takes the parameter's factor and returns how to compute the number."""
    ends = {"low": 1 / STEP, "base": 1, "high": STEP}
    labels = {"id": id_, "name": name, "parameter": parameter}
    return Point(labels, {end: reading(factor) for end, factor in ends.items()})


def _knobs(p: Parameters) -> list[str]:
    """Return the parameters that a program's time may depend on."""
    own = [k for k in _PARAMETERS if getattr(p, k) and not (k == "intervals" and p.kind == "none")]
    # a pipeline has no limit of polling, and a program without intervals never waits
    options = {"none": [], "pipeline": ["spread"]}.get(p.kind, list(_OPTIONS))
    return own + options


def _varied(p: Parameters, knob: str, factor: float) -> tuple[Parameters, dict[str, Any]]:
    """Return the program with one parameter multiplied by a factor, and the options of its replay."""
    if factor == 1:
        return p, {}
    if knob in _OPTIONS:
        base = _OPTIONS[knob]
        return p, {knob: type(base)(base * factor)}
    return p.changed(knob, factor), {}


def _table3(parameters: Mapping[str, Parameters], seeds: Sequence[int]) -> Iterator[Point]:
    def seconds(p: Parameters, knob: str, factor: float) -> Reading:
        changed, options = _varied(p, knob, factor)
        runs = [run(changed, PLACES["table3_bug"], s, **options) for s in seeds]
        return Reading({"bug": runs}, total(changed, "bug"))

    for app, p in parameters.items():
        for knob in _knobs(p):
            yield _bar(f"table3.{app}.bug", f"table 3 {app}", knob, partial(seconds, p, knob))


def _lu_beside_r(p: Parameters, seeds: Sequence[int]) -> Iterator[Point]:
    def gained(knob: str, factor: float) -> Reading:
        changed, options = _varied(p, knob, factor)
        bug = [run(changed, PLACES["lu_r_bug"], s, whole=True, **options) for s in seeds]
        fixed = [run(changed, PLACES["lu_r_fixed"], s, **options) for s in seeds]
        return Reading({"bug": bug, "fixed": fixed}, speedup(changed))

    for knob in _knobs(p):
        yield _bar("claims.lu_r_speedup", "lu beside R", knob, partial(gained, knob))


def _table2(seeds: Sequence[int]) -> Iterator[Point]:
    """Yield bars of the time with the fix divided by the time without it; the printed percentages are this ratio minus 1."""

    def share(workload: str, fix: str, knob: str, factor: float) -> Reading:
        options: dict[str, Any] = {} if factor == 1 else {knob: round(_DATABASE[knob] * factor)}
        bug, fixed = (
            [tpch.query(k, tpch.MACHINE, database.POOLS, workload, s, **options) for s in seeds]
            for k in (tpch.FIXES["none"], tpch.FIXES[fix])
        )
        return Reading({"bug": bug, "fixed": fixed}, quotient("fixed", "bug", "stage_s"))

    for workload in tpch.WORKLOADS:
        for fix in list(tpch.FIXES)[1:]:
            for knob in _DATABASE:
                yield _bar(
                    f"table2.{workload}.{fix}.change",
                    f"table 2 {workload} {fix.replace('_', ' ')}",
                    knob,
                    partial(share, workload, fix, knob),
                )


def _make_beside_r(seeds: Sequence[int]) -> Iterator[Point]:
    def share(factor: float) -> Reading:
        options = {} if factor == 1 else {"length": factor}
        bug, fixed = (
            [claims.build(kernel, s, **options) for s in seeds]
            for kernel in claims.KERNELS.values()
        )
        return Reading({"bug": bug, "fixed": fixed}, quotient("fixed", "bug", "make_s"))

    yield _bar("claims.make_r_gain", "make beside R", "length of a compiler", share)
