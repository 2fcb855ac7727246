"""Finds the parameters of the NAS programs from the printed numbers that a calibration may see.

W and S (see ``nas.py``) are fitted to the runs with the fix, N to the slowdown that the bug adds in Table 1 (16 threads, 8 CPUs).
For lu, NPB defines planes, rows and N for each problem class, so only W and the class have to be found. No predicted number
enters :func:`calibrate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

import numpy as np

from wastedcores.sweep import Run
from wastedcores.workload.spmd import SPIN_LIMIT_NS
from wastedcores_studies.nas import KINDS, MACHINE, PLACES, Parameters, Place, distance, run
from wastedcores_studies.published import Tables
from wastedcores_studies.replays import machine_named

#: the columns that a calibration may see: name of the conditions -> table and column
SEEN = {
    "table1_bug": ("lozi2016_table1", "bug_s"),
    "table1_fixed": ("lozi2016_table1", "fixed_s"),
    "table3_fixed": ("lozi2016_table3", "fixed_s"),
}
#: points along an edge of lu's cube by problem class (the two outer points are boundary), and iterations, each of two sweeps
#: (NPB 3.3: sys/setparams.c; LU/ssor.f: do k = 2, nz-1; blts.f: omp do schedule(static) over j = 2..ny-1)
LU_GRIDS = {"A": 64, "B": 102, "C": 162}
LU_ITERATIONS = 250
#: no program of the suite computes longer than this without synchronising
COARSEST_S = 0.1
#: a price of remote memory is fitted only if without it the largest error is greater than this
GOOD_FIT = 0.10

#: executes runs and returns their rows in the same order
Execute = Callable[[list[Run]], list[dict[str, Any]]]


def calibrate(
    tables: Tables, execute: Execute, *, seeds: Sequence[int] = (1, 2, 3, 4, 5), rounds: int = 4
) -> dict[str, dict[str, Any]]:
    """Fit the parameters of every program to the columns that a calibration sees.

    Each round fits the parameters, replays the programs, and measures how much longer an interval takes in the replay
    than its share of the work. The fit of the next round uses this measured difference.
    """
    seen = {
        app: {place: tables.number(table, app, column) for place, (table, column) in SEEN.items()}
        for app in KINDS
    }
    # by how much an interval takes longer than its share of the work; first, a guess of the least that two threads on a CPU lose
    first = {"none": 0.0, "pipeline": 0.015}
    shapes = [(app, planes) for app in KINDS for planes in _planes(app)]
    extra = {
        (app, planes): dict.fromkeys(SEEN, 0.0)
        | {"table1_bug": first.get(KINDS[app], SPIN_LIMIT_NS / 1e9)}
        for app, planes in shapes
    }
    found: dict[tuple[str, int], Parameters] = {}
    ours: dict[tuple[str, int], dict[str, float]] = {shape: {} for shape in shapes}
    for _ in range(rounds):
        for app, planes in shapes:
            found[app, planes] = _fit(app, planes, seen[app], extra[app, planes])
        todo = [(shape, place) for shape in shapes for place in SEEN]
        rows = iter(
            execute([run(found[shape], PLACES[place], s) for shape, place in todo for s in seeds])
        )
        for shape, place in todo:
            p = found[shape]
            interval = median(float(next(rows)["interval_s"]) for _ in seeds)
            ours[shape][place] = p.total_s(interval)
            extra[shape][place] = interval / p.per_mark - _plain(p, PLACES[place])

    def miss(shape: tuple[str, int]) -> float:
        return sum(math.log(ours[shape][place] / seen[shape[0]][place]) ** 2 for place in SEEN)

    best = {app: min(((app, planes) for planes in _planes(app)), key=miss) for app in KINDS}
    return {
        app: {
            "parameters": asdict(found[shape]),
            "residuals": {
                place: round(ours[shape][place] / value - 1, 4)
                for place, value in seen[app].items()
            },
        }
        for app, shape in best.items()
    }


def _planes(app: str) -> tuple[int, ...]:
    """Return the numbers of planes that a program may have: for a pipeline one per problem class, otherwise only 0."""
    return tuple(g - 2 for g in LU_GRIDS.values()) if KINDS[app] == "pipeline" else (0,)


def _plain(p: Parameters, place: Place) -> float:
    """Return the seconds of an interval whose work is spread evenly; a pipeline also has fill, drain and uneven rows."""
    each = p.grain_ns(place, machine_named(MACHINE)) / 1e9 * place.threads / place.cpus
    return each * _uneven(p.planes, place.cpus) if p.kind == "pipeline" else each


def _uneven(planes: int, cpus: int) -> float:
    """Return the time of a plane, divided by the time that it would take if its work were spread evenly.

    The CPUs with the most rows set the pace; the rows of the other CPUs are the fill and drain of the pipeline.
    """
    most = -(-planes // cpus)
    return (most + (planes - most) / planes) * cpus / planes


def _fit(app: str, planes: int, seen: dict[str, float], extra: dict[str, float]) -> Parameters:
    """Return the parameters that best fit the three times; use no price of remote memory if the fit is good enough without it."""
    simple, miss = _search(app, planes, seen, extra, remote=False)
    if miss <= GOOD_FIT:
        return simple
    richer, less = _search(app, planes, seen, extra, remote=True)
    return richer if less < miss / 2 else simple


def _search(
    app: str, planes: int, seen: dict[str, float], extra: dict[str, float], *, remote: bool
) -> tuple[Parameters, float]:
    """Return the least-squares fit of the logarithms of the times, and its largest error.

    A grid over work, serial part, intervals and the price of memory is refined step by step. Three numbers cannot determine both
    the intervals and the price. So if the price is fitted, the program gets the smallest number of intervals that any program
    may have. The intervals of a pipeline are known.
    """
    kind, machine = KINDS[app], machine_named(MACHINE)
    scale = max(seen.values())
    if planes:
        fewest = most = 2.0 * LU_ITERATIONS * planes
    else:
        fewest = 1.0 if kind == "none" else seen["table1_fixed"] / COARSEST_S
        most = fewest if kind == "none" or remote else 1e7
    low = np.array([np.log(min(seen.values())), 0.0, np.log(fewest), 0.0])
    high = np.array(
        [
            np.log(scale * 64),
            0.0 if planes else min(seen.values()),
            np.log(most),
            0.5 if remote else 0.0,
        ]
    )
    floor, ceiling = low.copy(), high.copy()
    best = np.zeros(4)
    worst = math.inf
    for _ in range(40):
        axes = [
            np.linspace(a, b, 9) if b > a else np.array([a]) for a, b in zip(low, high, strict=True)
        ]
        w, serial, n, r = np.meshgrid(*axes, indexing="ij")
        misses = []
        for place, value in seen.items():
            at = PLACES[place]
            each = np.exp(w) * (1 + r * distance(machine, at.reach)) / at.cpus
            each *= _uneven(planes, at.cpus) if planes else 1
            misses.append(
                np.log(np.maximum(serial + each + np.exp(n) * extra[place], 1e-9) / value)
            )
        error = np.sum(np.square(misses), axis=0)
        at_best = np.unravel_index(np.argmin(error), error.shape)
        best = np.array([w[at_best], serial[at_best], n[at_best], r[at_best]])
        worst = max(abs(float(m[at_best])) for m in misses)
        half = (high - low) * 0.35
        low, high = np.maximum(best - half, floor), np.minimum(best + half, ceiling)
    return (
        Parameters(
            app,
            kind,
            work_s=float(np.exp(best[0])),
            serial_s=float(best[1]),
            intervals=fewest if fewest == most else float(np.exp(best[2])),
            planes=planes,
            remote=float(best[3]),
        ),
        worst,
    )
