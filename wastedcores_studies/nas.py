"""NAS parallel benchmarks with and without two of the bugs: Tables 1 and 3 of Lozi et al. 2016, sections 3.1 and 3.4.

**Model.** A program has work W that its threads share, a serial part S outside the parallel regions, N intervals
between synchronisations of one kind (``workload/spmd.py``), and, only if the tables require it, a price R of memory
on other nodes. On nodes with mean distance d (SLIT minus 10), the work is W (1 + R d). The time of a run is::

    T = S + N * (time of one interval, from a replay)

The replay covers a few seconds of the run in its steady state: N is 10^3 to 10^5, and all intervals are alike. Only lu
beside R takes so long to reach a steady state that it has to be replayed whole.

**Calibrated** from three printed numbers per program: both columns of Table 1 and the *fixed* column of Table 3
(``nas_fit.py``). **Predicted**: the *bug* column of Table 3 (64 threads share 8 CPUs) and lu beside four R processes
(``claims.py``).

The fixed column of Table 3 is replayed with all four patches. With the missing-domains patch alone, the overload-on-wakeup bug
keeps two threads on one CPU until the end of most replays. The published 5.4 s of cg show that this did not happen there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wastedcores.sweep import Run
from wastedcores.topology.machine import Machine
from wastedcores.workload.background import SECOND
from wastedcores.workload.spmd import SPIN_LIMIT_NS, SPREAD
from wastedcores_studies.attempts import Attempt, Reading, Value
from wastedcores_studies.published import Tables
from wastedcores_studies.replays import machine_named

#: how NPB's OpenMP programs wait: ep has no synchronisation, lu polls flags between neighbours, ua has locks
KINDS = {
    "bt": "barrier", "cg": "barrier", "ep": "none", "ft": "barrier", "is": "barrier", "lu": "pipeline",
    "mg": "barrier", "sp": "barrier", "ua": "lock",
}  # fmt: skip
MACHINE = "bulldozer8x8"
TASK = "wastedcores_studies.replays:spmd"


@dataclass(frozen=True)
class Place:
    """The conditions of one column of a table: kernel, number of threads, and the nodes that the threads can reach."""

    #: kernel model, and threads of the program
    kernel: str
    threads: int
    bound: tuple[int, ...] | None  #: nodes that the program is bound to; None if it is not bound
    reach: tuple[int, ...]  #: nodes where its threads end up, and over which memory is spread
    reonline: int | None = None  #: CPU that was taken offline and online again before the run
    hogs: int = 0  #: single-threaded R processes that run at the same time

    @property
    def cpus(self) -> int:
        """The number of CPUs that the program can use in this place."""
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
#: table -> label and kernel of an alternative reading of its fixed column
_OTHERS = {
    "table1": ("group construction as in the paper's text", "v4.1+group_construction"),
    "table3": ("missing-domains patch alone", "v4.1+missing_domains:patch"),
}
_REASONS = {
    "none": "There is no synchronisation: 8 CPUs do the work, however many threads share them.",
    "barrier": "A thread that waits at a barrier spins for a while before it sleeps: of m threads on a CPU m-1 do so "
    "at each barrier, so the loss grows with m.",
    "lock": "As for a barrier program; holders of a lock that lose the CPU add little.",
    "pipeline": "Flags are polled without limit: a thread whose neighbour waits for the same CPU uses up its slice, and "
    "a plane advances about once per round of the runqueue. Planes and iterations are those of NPB's class B.",
}
_MISFITS = {
    "ep": " Its three calibration times do not fit one program: 16 threads on 16 CPUs take 36 s, and on four times as many "
    "CPUs it still takes 18 s, although ep shares nothing.",
    "bt": " According to the fixed columns its intervals are long; Table 3 shows that some are not.",
}


@dataclass(frozen=True)
class Parameters:
    """The model of one program."""

    #: name, and how its threads synchronise
    app: str
    kind: str
    work_s: float  #: total CPU seconds of all threads if all memory were on the local node
    serial_s: float = 0.0  #: seconds outside the parallel regions
    intervals: float = 1.0  #: barriers in the whole run, or planes in all sweeps of a pipeline
    #: for a pipeline, the planes of a sweep and the rows of a plane: the grid is a cube
    planes: int = 0
    remote: float = 0.0  #: the work grows by this share per unit of SLIT distance

    def grain_ns(self, place: Place, machine: Machine) -> int:
        """Return the work of one thread in one interval in ns."""
        work = self.work_s * (1 + self.remote * distance(machine, place.reach))
        return max(round(1e9 * work / place.threads / self.intervals), 1)

    @property
    def per_mark(self) -> float:
        """Number of intervals between two marks: one or, for a pipeline, the planes of a sweep forth and back."""
        return 2.0 * self.planes if self.kind == "pipeline" else 1.0

    def total_s(self, interval_s: float) -> float:
        """Return the seconds of the whole run from the seconds between two marks."""
        return self.serial_s + self.intervals / self.per_mark * interval_s

    def changed(self, name: str, factor: float) -> Parameters:
        """Return the same program with one parameter multiplied by a factor."""
        value = getattr(self, name) * factor
        return replace(self, **{name: max(round(value), 1) if name == "planes" else value})


def distance(machine: Machine, nodes: Sequence[int]) -> float:
    """Return the mean SLIT distance minus 10 over all ordered pairs of nodes, each node with itself included."""
    table = np.asarray(machine.distance, dtype=float)
    return float(np.mean(table[np.ix_(list(nodes), list(nodes))])) - 10.0


def parameters_from(calibration: Mapping[str, Mapping[str, Any]]) -> dict[str, Parameters]:
    """Return the parameters by program from the ``nas`` part of a calibration file."""
    return {app: Parameters(**entry["parameters"]) for app, entry in calibration.items()}


def run(
    p: Parameters,
    place: Place,
    seed: int,
    *,
    machine: str = MACHINE,
    start_node: int = 1,
    spin_ns: int = SPIN_LIMIT_NS,
    spread: float = SPREAD,
    kworker_ns: int = SECOND,
    whole: bool = False,
    **options: Any,
) -> Run:
    """Return one replay of a program."""
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
        start_node=start_node,
        reonline=place.reonline,
        hogs=place.hogs,
        spin_ns=spin_ns,
        spread=spread,
        kworker_ns=kworker_ns,
        intervals=round(p.intervals / p.per_mark) if whole else None,
        **options,
    )


def total(p: Parameters, role: str) -> Value:
    """Compute the seconds of a whole run."""
    return lambda rows: p.total_s(float(rows[role]["interval_s"]))


def speedup(p: Parameters) -> Value:
    """Compute the seconds of the run with the bug divided by the seconds of the run with the fix."""
    return lambda rows: total(p, "bug")(rows) / total(p, "fixed")(rows)


def attempts(
    table: str, tables: Tables, parameters: Mapping[str, Parameters], seeds: Sequence[int]
) -> list[Attempt]:
    """Return the rows of Table 1 (all calibrated) or Table 3 (the fixed column is calibrated, the rest predicted)."""
    return [row for app in KINDS for row in _rows_of(table, tables, parameters[app], seeds)]


def _rows_of(table: str, tables: Tables, p: Parameters, seeds: Sequence[int]) -> list[Attempt]:
    """The rows of one program: seconds with and without the bug, and the speedup."""
    app = p.app
    label, kernel = _OTHERS[table]
    fixed_place = PLACES[f"{table}_fixed"]
    bug = [run(p, PLACES[f"{table}_bug"], s) for s in seeds]
    fixed = [run(p, fixed_place, s) for s in seeds]
    other = [run(p, replace(fixed_place, kernel=kernel), s) for s in seeds[:5]]
    untested = "predicted" if table == "table3" else "calibrated"

    def attempt(side: str, column: str, reading: Reading, **described: Any) -> Attempt:
        return Attempt(
            id=f"{table}.{app}.{side}",
            group=table,
            source="lozi2016",
            place=f"Table {table[-1]}",
            published=tables.text(f"lozi2016_{table}", app, column),
            reading=reading,
            reason=_REASONS[p.kind] + _MISFITS.get(app, ""),
            **described,
        )

    return [
        attempt(
            "bug",
            "bug_s",
            Reading({"bug": bug}, total(p, "bug")),
            unit="s",
            kind=untested,
            restates=f"{table}.{app}.speedup",
            short=f"{app}, with bug",
            quantity=f"{app}, with the bug",
        ),
        attempt(
            "fixed",
            "fixed_s",
            Reading({"fixed": fixed}, total(p, "fixed")),
            unit="s",
            kind="calibrated",
            short=f"{app}, fixed",
            quantity=f"{app}, without the bug",
            others={label: Reading({"fixed": other}, total(p, "fixed"))},
        ),
        attempt(
            "speedup",
            "speedup",
            Reading({"bug": bug, "fixed": fixed}, speedup(p)),
            unit="ratio",
            kind=untested,
            short=app,
            quantity=f"{app}, speedup",
        ),
    ]
