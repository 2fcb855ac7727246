"""NAS parallel benchmarks with and without two of the bugs (paper 3.1, 3.2, 3.4; Tables 1 and 3).

**Model.** A program has work W that its threads share, a serial part S outside the parallel regions, N intervals
between synchronisations of one kind (``workload/spmd.py``), and, only where the tables ask for it, a price R of memory
on other nodes: on nodes with mean distance d (SLIT, 10 taken off) the work is W (1 + R d). The time of a run is::

    T = S + N * (time of one interval, from a replay)

of a few seconds of the run in its steady state: N is 10^3 to 10^5, and every interval is like the others. Only lu
beside R finds its places so slowly that it has to be replayed whole.

**Calibrated** from three printed numbers a program: Table 1's two columns and Table 3's *fixed* column. W and S come
from the fixed runs, N from what the bug adds in Table 1, where 16 threads share 8 CPUs. Of lu, planes, rows and N are
NPB's own for a problem class, so only W and the class are left to find. **Predicted**: Table 3's *bug* column (64
threads share 8 CPUs) and lu beside four R. No number of these enters :func:`calibrate`.

Table 3's fixed column is replayed with all four patches: with the missing-domains patch alone the replay leaves two
threads on one CPU for good in most runs (the overload-on-wakeup bug keeps them there), which cg's 5.4 s rule out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

import numpy as np

from wastedcores.studies.published import Tables
from wastedcores.studies.runs import machine_named
from wastedcores.sweep import Run
from wastedcores.topology.machine import Machine
from wastedcores.workload.background import SECOND
from wastedcores.workload.spmd import SPIN_LIMIT_NS, SPREAD

#: how NPB's OpenMP programs wait: ep has no synchronisation, lu polls flags between neighbours, ua has locks
KINDS = {
    "bt": "barrier",
    "cg": "barrier",
    "ep": "none",
    "ft": "barrier",
    "is": "barrier",
    "lu": "pipeline",
    "mg": "barrier",
    "sp": "barrier",
    "ua": "lock",
}
#: lu's cube by problem class: points of an edge, the outer two of which are boundary; iterations of two sweeps each
#: (NPB 3.3: sys/setparams.c; LU/ssor.f: do k = 2, nz-1; blts.f: omp do schedule(static) over j = 2..ny-1)
LU_GRIDS = {"A": 64, "B": 102, "C": 162}
LU_ITERATIONS = 250
MACHINE = "bulldozer8x8"
TASK = "wastedcores.studies.runs:spmd"
#: at least this many intervals: no program of the suite computes longer than this without meeting
COARSEST_S = 0.1
#: the price of remote memory is fitted only where the tables cannot be met to this without it
GOOD_FIT = 0.10


@dataclass(frozen=True)
class Place:
    """A column of a table: kernel, threads, and the nodes that the threads can reach.

    Attributes
    ----------
    kernel, threads, hogs
        What runs under what.
    bound
        Nodes the program is bound to; None: none.
    reach
        Nodes where its threads end up; their memory is spread over these.
    reonline
        CPU that was off and on again before.
    """

    kernel: str
    threads: int
    bound: tuple[int, ...] | None
    reach: tuple[int, ...]
    reonline: int | None = None
    hogs: int = 0

    @property
    def cpus(self) -> int:
        """CPUs that its work can use."""
        return min(8 * len(self.reach), self.threads)


ALL = tuple(range(8))
PLACES = {
    "table1_bug": Place("v4.1", 16, (1, 2), (1,)),
    "table1_fixed": Place("v4.1+group_construction:patch", 16, (1, 2), (1, 2)),
    "table3_bug": Place("v4.1", 64, None, (1,), reonline=20),
    "table3_fixed": Place("v4.1+all_fixes:patch", 64, None, ALL, reonline=20),
    "lu_r_bug": Place("v4.1", 60, None, ALL, hogs=4),
    "lu_r_fixed": Place("v4.1+all_fixes:patch", 60, None, ALL, hogs=4),
}
#: what a calibration looks at, with the table and column
SEEN = {
    "table1_bug": ("lozi2016_table1", "bug_s"),
    "table1_fixed": ("lozi2016_table1", "fixed_s"),
    "table3_fixed": ("lozi2016_table3", "fixed_s"),
}


@dataclass(frozen=True)
class Parameters:
    """What one program is like.

    Attributes
    ----------
    app, kind
        Name and way of synchronising.
    work_s
        CPU seconds of all threads together, memory on the own node.
    serial_s
        Seconds outside the parallel regions.
    intervals
        Barriers (pipeline: planes of all sweeps) of the whole run.
    planes
        Pipeline: planes of a sweep, and rows of a plane: it is a cube.
    remote
        Part by which work grows per unit of SLIT distance.
    """

    app: str
    kind: str
    work_s: float
    serial_s: float = 0.0
    intervals: float = 1.0
    planes: int = 0
    remote: float = 0.0

    def grain_ns(self, place: Place, machine: Machine) -> int:
        """Work of one thread in one interval."""
        work = self.work_s * (1 + self.remote * distance(machine, place.reach))
        return max(round(1e9 * work / place.threads / self.intervals), 1)

    @property
    def per_mark(self) -> float:
        """Intervals between two marks: one, or a sweep there and back."""
        return 2.0 * self.planes if self.kind == "pipeline" else 1.0

    def total_s(self, interval_s: float) -> float:
        """Time of the whole run from that between two marks."""
        return self.serial_s + self.intervals / self.per_mark * interval_s


def distance(machine: Machine, nodes: Sequence[int]) -> float:
    """Mean distance between two of these nodes, each pair once in both directions and itself, 10 taken off."""
    table = np.asarray(machine.distance, dtype=float)
    return float(np.mean(table[np.ix_(list(nodes), list(nodes))])) - 10.0


def run(
    p: Parameters,
    place: Place,
    seed: int,
    *,
    machine: str = MACHINE,
    spin_ns: int = SPIN_LIMIT_NS,
    spread: float = SPREAD,
    kworker_ns: int = SECOND,
    whole: bool = False,
) -> Run:
    """One replay of a program at a place, for a sweep: of its steady state, or of the ``whole`` run."""
    return Run.of(
        TASK,
        kernel=place.kernel,
        machine=machine,
        seed=seed,
        threads=place.threads,
        kind=p.kind,
        grain_ns=p.grain_ns(place, machine_named(machine)),
        planes=p.planes,
        rows=p.planes,
        nodes=list(place.bound) if place.bound is not None else None,
        start_node=1,
        reonline=place.reonline,
        hogs=place.hogs,
        spin_ns=spin_ns,
        spread=spread,
        kworker_ns=kworker_ns,
        intervals=round(p.intervals / p.per_mark) if whole else None,
    )


#: runs -> their rows, in order
Execute = Callable[[list[Run]], list[dict[str, Any]]]


def calibrate(
    tables: Tables, execute: Execute, *, seeds: Sequence[int] = (1, 2, 3, 4, 5), rounds: int = 4
) -> dict[str, dict[str, Any]]:
    """Find every program's parameters from the calibration columns.

    Parameters
    ----------
    tables
        The published tables; cells that are predicted may be blank.
    execute
        Does replays.
    seeds
        Of the replays; the median counts.
    rounds
        Fit, replay with the fit, and correct the fit by what the replay adds to the plain sum, so many times.

    Returns
    -------
    dict
        app -> ``{"parameters": {...}, "residuals": {place: ours / published - 1}}``.
    """
    seen = {
        app: {place: tables.number(table, app, column) for place, (table, column) in SEEN.items()}
        for app in KINDS
    }
    # what an interval takes above its share of the work: at first, what two on a CPU must lose
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
    """Planes that a program may have: those of a problem class; 0: it has none."""
    return tuple(g - 2 for g in LU_GRIDS.values()) if KINDS[app] == "pipeline" else (0,)


def _plain(p: Parameters, place: Place) -> float:
    """Work of one interval spread over the CPUs; a pipeline's fill, drain and uneven rows counted."""
    each = p.grain_ns(place, machine_named(MACHINE)) / 1e9 * place.threads / place.cpus
    return each * _uneven(p.planes, place.cpus) if p.kind == "pipeline" else each


def _uneven(planes: int, cpus: int) -> float:
    """Time of a plane by that of evenly spread work: the CPUs with most rows lead, the others' come as fill and drain."""
    most = -(-planes // cpus)
    return (most + (planes - most) / planes) * cpus / planes


def _fit(app: str, planes: int, seen: dict[str, float], extra: dict[str, float]) -> Parameters:
    """Parameters that meet the three times best, without a price of remote memory if that is good enough."""
    simple, miss = _search(app, planes, seen, extra, remote=False)
    if miss <= GOOD_FIT:
        return simple
    richer, less = _search(app, planes, seen, extra, remote=True)
    return richer if less < miss / 2 else simple


def _search(
    app: str, planes: int, seen: dict[str, float], extra: dict[str, float], *, remote: bool
) -> tuple[Parameters, float]:
    """Least squares of the logarithms by a grid that closes in; the worst miss beside it.

    The grid spans work, serial part, intervals and the price of memory. Three numbers cannot tell intervals and price
    apart: where the price is fitted, the program has as few intervals as any. A pipeline's intervals are known.
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


def parameters_from(calibration: dict[str, dict[str, Any]]) -> dict[str, Parameters]:
    """Parameters out of a calibration file's content."""
    return {app: Parameters(**entry["parameters"]) for app, entry in calibration.items()}


def changed(p: Parameters, name: str, factor: float) -> Parameters:
    """The same program with one parameter multiplied."""
    value = getattr(p, name) * factor
    return replace(p, **{name: max(round(value), 1) if name == "planes" else value})
