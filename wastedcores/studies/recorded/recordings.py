"""A guest recording and a replay of the same workload, in the same figures.

A recording is a folder with ``trace.txt.xz`` and ``meta.json``, as the project's recorder writes them. Both sides are
brought to one form (:class:`Observed`: who was where, when), and :func:`figures` reads everything from that, so that a
figure can differ between the two only because what happened differs.

Interface::

    recording = Recording.read(folder)
    recording.figures()                  {"make_s": Figure(3.21, "s"), "busy CPUs": ..., "threads, hog nodes": ...}
    recording.replayed(seed=1)           Replayed: the same figures, events, seconds in the engine
    recordings_in(folder)                all that the replay can stand for
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from wastedcores.errors import TraceFormatError, UsageError
from wastedcores.kernels import KernelModel
from wastedcores.simulator import RawReplay, log_column, log_kind, simulate, summarize, with_steps
from wastedcores.topology.domains import Domains, domain_events
from wastedcores.topology.machine import Machine
from wastedcores.trace.io import open_trace
from wastedcores.trace.trace import Trace
from wastedcores.workload.builder import Workload
from wastedcores.workload.program import Program
from wastedcores.workload.scenarios import scenario

#: what the guest measured -> the measure of the replayed workload
RESULTS = {
    "make_s": "make_s",
    "cpus_worth": "cpus_of_work",
    "s_per_iter": "s_per_iter",
    "db_s": "db_s",
}
#: "who ends on which node" looks at this part of the measured window: long enough that a thread which happens to move at
#: the very end does not decide, short enough to be the end
LAST = 0.25
HOG = "R-"
#: share of the window a hog has to run on a CPU for its node to be one of the hogs'
HOG_SHARE = 0.3


@dataclass(frozen=True)
class Kind:
    """What the recorder calls things in one kind of run.

    Attributes
    ----------
    start
        Text of the mark that begins the measured window; the next mark ends it.
    threads, replayed
        Name prefixes of the workload's threads in recordings, and in replays.
    parameters
        Recorder's name -> (the scenario's name, type).
    """

    start: str
    threads: str
    replayed: str
    parameters: dict[str, tuple[str, type]]


KINDS = {
    "gi": Kind("make start", "cc1", "cc1", {"jobs": ("jobs", int), "J": ("J", int), "hogs": ("hogs", int)}),
    "gc": Kind("threads start", "ep-", "ep", {"n": ("n", int), "limit": ("limit_s", float)}),
    "ms": Kind(
        "start n",
        "bt-",
        "busy",
        {"n": ("n", int), "limit": ("limit_s", float)},
    ),
    "lu": Kind(
        "lu start",
        "lu-", "lu",
        {
            "n": ("n", int),
            "us": ("work_us", int),
            "k": ("iterations", int),
            "limit": ("limit_s", float),
            "hogs": ("hogs", int),
        },
    ),
    "db": Kind(
        "db start",
        "db-", "db",
        {
            "k": ("iterations", int),
            "grp": ("group", int),
            "lo": ("lo_us", int),
            "hi": ("hi_us", int),
            "nper": ("noise_period_ms", float),
        },
    ),
}  # fmt: skip
#: what the recorder takes where meta.json names nothing (datasets/recordings/README.md), if it is not the scenario's own
_DEFAULTS: dict[str, dict[str, Any]] = {
    "db": {"group": 8, "lo_us": 1000, "hi_us": 3000, "noise_period_ms": 10.0}
}


class Figure(NamedTuple):
    """One number and what it counts: ``s``, ``CPUs of work``, ``busy CPUs`` or ``threads``."""

    value: float
    unit: str


@dataclass(frozen=True)
class Observed:
    """Who was where, when: what a recording and a replay have in common.

    Attributes
    ----------
    ts_ns, cpu, pid
        int64 (events,): switches (to ``pid``), wake-ups, moves and exits, in order.
    switch, gone
        bool (events,): the event is a switch; the thread is no more.
    start_ns, end_ns
        Measured window.
    threads, hogs
        Process ids of the workload's threads, and of the hogs beside it.
    result
        What the run measured of itself.
    """

    ts_ns: np.ndarray
    cpu: np.ndarray
    pid: np.ndarray
    switch: np.ndarray
    gone: np.ndarray
    start_ns: int
    end_ns: int
    threads: Sequence[int]
    hogs: Sequence[int]
    result: Figure = field(default=Figure(0.0, ""))

    def ran(self, cpus: int, pids: Sequence[int] | None = None) -> np.ndarray:
        """Share of the window each CPU ran one of ``pids``; None: anything but idle."""
        order = np.flatnonzero(self.switch)
        order = order[np.argsort(self.cpu[order], kind="stable")]
        pid = self.pid[order]
        mine = pid != 0 if pids is None else np.isin(pid, pids)
        length = _lengths(self.ts_ns[order], self.cpu[order], self.start_ns, self.end_ns)
        out = np.bincount(self.cpu[order], np.where(mine, length, 0), cpus)
        return out / max(self.end_ns - self.start_ns, 1)

    def threads_per_node(self, node_of_cpu: np.ndarray) -> np.ndarray:
        """Mean number of the workload's threads on each node in the last part of the window, asleep or not."""
        first = round(self.end_ns - LAST * (self.end_ns - self.start_ns))
        order = np.flatnonzero(np.isin(self.pid, self.threads))
        order = order[np.argsort(self.pid[order], kind="stable")]
        length = _lengths(self.ts_ns[order], self.pid[order], first, self.end_ns)
        length[_since(self.gone[order], self.pid[order])] = 0
        nodes = node_of_cpu[self.cpu[order]]
        return np.bincount(nodes, length, int(node_of_cpu.max()) + 1) / max(self.end_ns - first, 1)


def _lengths(ts: np.ndarray, whose: np.ndarray, start: int, end: int) -> np.ndarray:
    """How much of [start, end) lies between each event and the next of the same; grouped by ``whose``, in order of time."""
    ts = np.clip(ts, start, end)
    until = np.r_[ts[1:], end] if len(ts) else ts
    last = np.r_[whose[1:] != whose[:-1], True] if len(ts) else np.zeros(0, bool)
    return np.where(last, end, until) - ts


def _since(mark: np.ndarray, whose: np.ndarray) -> np.ndarray:
    """Whether a mark was met at this event or an earlier one of the same (a task that exits is still switched to)."""
    number = np.arange(len(mark))
    group = np.r_[True, whose[1:] != whose[:-1]] if len(mark) else mark
    first = np.maximum.accumulate(np.where(group, number, 0))
    return np.maximum.accumulate(np.where(mark, number, -1)) >= first


def figures(seen: Observed, kind: str, machine: Machine, pinned: bool = True) -> dict[str, Figure]:
    """Everything that is compared, by name.

    Parameters
    ----------
    seen
        What happened.
    kind
        ``gi``, ``gc``, ``ms``, ``lu`` or ``db``.
    machine
        Where.
    pinned
        Whether threads of ``gc`` and ``lu`` are pinned to nodes 1 and 2.

    Returns
    -------
    figures
        The run's own result; busy CPUs, in all and a node of each type; the workload's threads a node of each type, and
        on the fullest and the emptiest node (which needs no names of nodes). Types: where a hog is and where not; the two
        nodes the threads are pinned to; the node they start on and the others.
    """
    nodes = np.asarray(machine.node_of_cpu)
    busy = seen.ran(machine.cpus)
    per_node = np.bincount(nodes, busy, machine.nodes)
    threads = seen.threads_per_node(nodes)
    hog_cpus = np.flatnonzero(seen.ran(machine.cpus, seen.hogs) > HOG_SHARE)
    types = _types(kind, set(nodes[hog_cpus].tolist()), machine, pinned)
    out = {seen.result.unit: seen.result, "busy CPUs": Figure(float(busy.sum()), "busy CPUs")}
    out |= {
        f"busy CPUs, {t}": Figure(float(per_node[m].mean()), "busy CPUs") for t, m in types.items()
    }
    out |= {f"threads, {t}": Figure(float(threads[m].mean()), "threads") for t, m in types.items()}
    if "node 1" not in types:
        out["threads, fullest node"] = Figure(float(threads.max()), "threads")
        out["threads, emptiest node"] = Figure(float(threads.min()), "threads")
    return out


def _types(kind: str, hog_nodes: set[int], machine: Machine, pinned: bool) -> dict[str, np.ndarray]:
    """Name of each type of node -> which nodes, bool (nodes,)."""
    number = np.arange(machine.nodes)
    if hog_nodes:
        special, names = hog_nodes, ("hog nodes", "other nodes")
    elif kind in ("gc", "lu") and pinned:
        return {"node 1": number == 1, "node 2": number == 2}
    elif kind == "ms":
        special, names = {2}, ("start node", "other nodes")
    else:
        return {"all nodes": number >= 0}
    inside = np.isin(number, list(special))
    return {names[0]: inside, names[1]: ~inside}


@dataclass(frozen=True)
class Replayed:
    """One replay of a recorded run: its figures, the engine's events, seconds in the engine."""

    figures: dict[str, Figure]
    events: int
    wall_s: float


@dataclass(frozen=True)
class Recording:
    """One recorded run.

    Attributes
    ----------
    folder
        Where ``trace.txt.xz`` and ``meta.json`` lie.
    meta
        The latter.
    """

    folder: Path
    meta: dict[str, Any]

    @classmethod
    def read(cls, folder: Path | str) -> Recording:
        """Read ``meta.json``; the trace is read when it is needed.

        Raises
        ------
        TraceFormatError
            No recording there, or one of a kind that is not known.
        """
        folder = Path(folder)
        try:
            meta = json.loads((folder / "meta.json").read_text())
            kind = meta["scenario"]
        except (OSError, ValueError, KeyError) as e:
            raise TraceFormatError(
                f"{folder}: expected a recording, a folder with meta.json and trace.txt.xz ({e})."
            ) from e
        if kind not in KINDS:
            raise TraceFormatError(
                f"{folder / 'meta.json'}: a run of kind {kind!r}; known are {', '.join(KINDS)}."
            )
        return cls(folder, meta)

    @property
    def name(self) -> str:
        """``SCENARIO-VARIANT-CPUS``."""
        return self.folder.name

    @property
    def kind(self) -> str:
        """``gi``, ``gc``, ``ms``, ``lu`` or ``db``."""
        return self.meta["scenario"]

    @cached_property
    def kernel(self) -> KernelModel:
        """The kernel it was recorded on."""
        return KernelModel.of_guest_variant(self.meta["variant"])

    @cached_property
    def machine(self) -> Machine:
        """The machine, as the preset that replays it."""
        return Machine.preset(f"bd-paper-{self.meta['cpus']}")

    @property
    def parameters(self) -> dict[str, Any]:
        """The recorder's parameters as those of the scenario."""
        given, known = self.meta["params"], KINDS[self.kind].parameters
        out = dict(_DEFAULTS.get(self.kind, {}))
        known = known | {"hp": ("hotplug", str)}
        out |= {name: to(given[key]) for key, (name, to) in known.items() if key in given}
        return out | ({"pinned": False} if given.get("na") == "-1" else {})

    @property
    def pinned(self) -> bool:
        """Whether the threads may run on nodes 1 and 2 only, where the kind of run has that."""
        return self.parameters.get("pinned", True)

    @property
    def result(self) -> Figure:
        """What the guest measured of itself."""
        measured = self.meta["results_measured_in_guest"]
        key = next(k for k in RESULTS if k in measured)
        return Figure(float(measured[key]), RESULTS[key])

    @cached_property
    def trace(self) -> Trace:
        """The recorded events."""
        return open_trace(self.folder / "trace.txt.xz")

    @cached_property
    def window(self) -> tuple[int, int]:
        """The measured window: from the mark that starts the workload to the next."""
        marks = self.trace.only("mark").select("ts_ns", "text").collect()
        own = [(t, text) for t, text in marks.iter_rows() if "trace " not in text]
        start = KINDS[self.kind].start
        at = next((i for i, (_, text) in enumerate(own) if start in text), None)
        if at is None:
            raise TraceFormatError(f"{self.folder}: no mark {start!r} begins the measured window.")
        return own[at][0], own[at + 1][0] if at + 1 < len(own) else int(marks["ts_ns"][-1])

    def figures(self) -> dict[str, Figure]:
        """Figures of the recording."""
        kinds = ("switch", "wakeup", "wakeup_new", "migrate", "exit")
        events = self.trace.only(*kinds).select("ts_ns", "kind", "cpu", "pid", "comm").collect()
        named = events.select("pid", pl.col("comm").cast(pl.String)).unique().drop_nulls()
        start, end = self.window
        seen = Observed(
            events["ts_ns"].to_numpy(),
            events["cpu"].to_numpy(),
            events["pid"].to_numpy(),
            (events["kind"] == "switch").to_numpy(),
            (events["kind"] == "exit").to_numpy(),
            start,
            end,
            _called(named, KINDS[self.kind].threads),
            _called(named, HOG),
            self.result,
        )
        return figures(seen, self.kind, self.machine, self.pinned)

    def workload(self, seed: int) -> Workload:
        """The recorded workload, for a replay."""
        return scenario(f"recorded-{self.kind}").workload(self.machine, seed, self.parameters)

    @cached_property
    def _trees(self) -> list[Domains]:
        """Domains at boot and after each hotplug step; the same for every seed."""
        return domain_events(with_steps(self.machine, self.workload(1).program()), self.kernel)

    def replayed(self, seed: int) -> Replayed:
        """Figures of a replay.

        Raises
        ------
        UsageError
            The recording is of a kernel that the replay does not model.
        """
        if self.kernel.generation != "v4.1":
            raise UsageError(
                f"{self.name}: recorded on {self.kernel.name}, which the replay does not model."
            )
        w = self.workload(seed)
        program = w.program()
        raw = simulate(program, self.machine, self.kernel, seed=seed, trees=self._trees, load=False)
        q = summarize(raw, program, self.machine, w.measure, w.counted_nodes)
        result = Figure(float(q.result or 0), self.result.unit)
        seen = _observed(raw, program, self.machine, self.kind, (q.start_ns, q.end_ns), result)
        return Replayed(figures(seen, self.kind, self.machine, self.pinned), raw.events, raw.wall_s)


def recordings_in(folder: Path | str) -> list[Recording]:
    """Recordings in the folders of a folder, by name, of kernels that the replay models.

    Raises
    ------
    TraceFormatError
        There is none, or one that cannot be read.
    """
    found = [Recording.read(path.parent) for path in sorted(Path(folder).glob("*/meta.json"))]
    usable = [r for r in found if r.kernel.generation == "v4.1"]
    if not usable:
        raise TraceFormatError(
            f"{folder}: expected folders with meta.json and trace.txt.xz of a 4.1 kernel, found "
            f"{len(found)} recordings of other kernels."
        )
    return usable


def _called(named: pl.DataFrame, prefix: str) -> list[int]:
    return named.filter(pl.col("comm").str.starts_with(prefix))["pid"].unique().to_list()


_PLACED = (
    log_kind.SWITCH, log_kind.WAKEUP, log_kind.WAKEUP_NEW, log_kind.MIGRATE, log_kind.EXIT,
)  # fmt: skip


def _observed(
    raw: RawReplay,
    program: Program,
    machine: Machine,
    kind: str,
    window: tuple[int, int],
    result: Figure,
) -> Observed:
    """A replay's log in the form of a recording."""
    log = raw.of(*_PLACED)
    named = list(zip(raw.pids.tolist(), raw.comms(program), strict=True))

    def called(prefix: str) -> list[int]:
        return [pid for pid, comm in named if comm.startswith(prefix)]

    return Observed(
        log[:, log_column.TS],
        log[:, log_column.CPU],
        log[:, log_column.PID],
        log[:, log_column.KIND] == log_kind.SWITCH,
        log[:, log_column.KIND] == log_kind.EXIT,
        *window,
        called(KINDS[kind].replayed),
        called(HOG),
        result,
    )
