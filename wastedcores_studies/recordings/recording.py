"""Recordings of a real kernel in a guest, and replays of the same workloads; both can be examined for figures that show them.

A recording is a folder with ``trace.txt.xz`` and ``meta.json``, such as those of ``datasets/recordings``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from wastedcores.analysis.examined import Examined, examine
from wastedcores.errors import TraceFormatError, UsageError
from wastedcores.files import datasets
from wastedcores.kernels import KernelModel
from wastedcores.kernels.generations import NO_AUTOGROUP
from wastedcores.runqueues.runqueues import runqueues
from wastedcores.simulator import (
    RawReplay,
    log_column,
    log_kind,
    replay,
    simulate,
    summarize,
    with_steps,
)
from wastedcores.topology.domains import Domains, domain_events
from wastedcores.topology.machine import Machine
from wastedcores.trace.header import Window
from wastedcores.trace.io import open_trace
from wastedcores.trace.named import fetch
from wastedcores.trace.trace import Trace
from wastedcores.workload.builder import Workload
from wastedcores.workload.program import Program
from wastedcores.workload.scenarios import scenario
from wastedcores_studies.recordings.quantities import Observed, Quantity, quantities, unhelped


def recorded_and_replayed(
    name: str, seed: int = 1, folder: str | Path = ""
) -> tuple[Examined, Examined]:
    """Examine a recording and a replay of it: the same workload, machine, kernel and setting of autogroups.

    Parameters
    ----------
    name
        A recording in ``folder``, or a bundled data set (``wastedcores data`` lists them).
    seed
        Seed of the replay.
    folder
        A folder of recordings; by default ``datasets/recordings`` of a checkout.

    Returns
    -------
    recorded, replayed
        Both are bounded by the measured window and the CPUs that count.

    Raises
    ------
    DatasetError
        There is no recording and no data set of that name.
    UsageError
        The data set is no recording of a workload that can be replayed.
    """
    path = (Path(folder) if folder else datasets() / "recordings") / name
    if path.is_dir():
        recording = Recording.read(path)
        trace, kind, given = recording.trace, recording.kind, recording.parameters
        machine, kernel = recording.machine, recording.model or recording.kernel
        window = recording.window
    else:
        # the workloads of the data sets had the default parameters of the scenarios
        trace, window = open_trace(fetch(name)), None
        kind, machine, kernel = _of(trace, name)
        given = {"patched_boot": True} if kernel.overload_on_wakeup else {}
    w = scenario(f"recorded-{kind}").workload(machine, seed, given)
    r = replay(w, machine, kernel, seed)
    cpus = [c for n in w.counted_nodes or () for c in machine.cpus_of_node(n)] or None
    if window is not None:
        trace = _bounded(trace, window, cpus)
    replayed = _bounded(r.trace, (r.summary.start_ns, r.summary.end_ns), cpus)
    return examine(trace, "recorded"), examine(replayed, f"replayed, seed {seed}")


def _bounded(trace: Trace, window: tuple[int, int], cpus: list[int] | None) -> Trace:
    """Return the trace with its measured window, and the CPUs that count, in its header."""
    measured = Window(start_ns=window[0], end_ns=window[1])
    return trace.with_header(window=measured, counted_cpus=cpus)


def _of(trace: Trace, name: str) -> tuple[str, Machine, KernelModel]:
    header = trace.header
    kind = (header.recording or "")[:2]  # gi-..., lu1ms-..., db64-...
    if kind not in KINDS or header.kernel_model is None:
        raise UsageError(
            f"{name}: the data set does not say which workload it is a recording of. Take a recording of a guest, such as "
            "group-imbalance-buggy, or one of a folder of recordings."
        )
    return kind, Machine.preset(f"bd-paper-{header.cpus}"), KernelModel.named(header.kernel_model)


def windows(*runs: Examined) -> tuple[tuple[int, int], ...]:
    """Return the measured window of each trace in ns, as :func:`wastedcores.figures.side_by_side` expects them."""
    return tuple((r.result.start_ns, r.result.end_ns) for r in runs)


#: key of the guest's own result -> the measure of the replayed workload
RESULTS = {
    "make_s": "make_s",
    "cpus_worth": "cpus_of_work",
    "s_per_iter": "s_per_iter",
    "db_s": "db_s",
}
HOG = "R-"


@dataclass(frozen=True)
class Kind:
    """The names that the recorder uses in one kind of run."""

    start: str  #: text of the mark that begins the measured window; the next mark ends it
    #: prefixes of the names of the workload's threads in recordings and in replays
    threads: str
    replayed: str
    parameters: dict[str, tuple[str, type]]  #: recorder's name -> (the scenario's name, type)


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
#: parameters of the recorder that ``meta.json`` leaves out and that differ from the scenario's defaults
#: (datasets/recordings/README.md)
_DEFAULTS: dict[str, dict[str, Any]] = {
    "db": {"group": 8, "lo_us": 1000, "hi_us": 3000, "noise_period_ms": 10.0}
}
#: (variant, CPUs) -> quartiles in us of the time from one fork of a process to its next, in the ``ms`` recording of this kernel
#: on this machine. The default of the scenario comes from make's forks under 4.1.3
FORK_US: dict[tuple[Any, Any], tuple[int, int]] = {
    ("6.1", 64): (100, 120),
    ("6.12", 16): (112, 138),
    ("6.12", 64): (132, 152),
    ("7.2", 16): (112, 134),
    ("7.2", 64): (136, 160),
}


@dataclass(frozen=True)
class Replayed:
    """One replay of a recorded run: its quantities, and the number of events and the seconds of the engine."""

    quantities: dict[str, Quantity]
    events: int
    wall_s: float


@dataclass(frozen=True)
class Recording:
    """One recorded run."""

    folder: Path  #: the folder with ``trace.txt.xz`` and ``meta.json``
    meta: dict[str, Any]  #: content of ``meta.json``

    @classmethod
    def read(cls, folder: Path | str) -> Recording:
        """Read ``meta.json`` of a recording; the trace is read when it is needed."""
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
                f"{folder / 'meta.json'}: expected a run of the kind {', '.join(KINDS)}, got {kind!r}."
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
        """The kernel that it was recorded on."""
        return KernelModel.of_guest_variant(self.meta["variant"])

    @cached_property
    def model(self) -> KernelModel | None:
        """The kernel for replays, with the guest's setting of autogroups; None if no model of this kernel can be replayed."""
        if not self.kernel.is_replayed:
            return None
        # Debian 12 boots with sched_autogroup_enabled=0
        off = self.meta["results_measured_in_guest"].get("autogroup") == 0
        return KernelModel.named(f"{self.kernel.name}+{NO_AUTOGROUP}" if off else self.kernel.name)

    @cached_property
    def machine(self) -> Machine:
        """The preset of the machine that it was recorded on."""
        return Machine.preset(f"bd-paper-{self.meta['cpus']}")

    @property
    def parameters(self) -> dict[str, Any]:
        """The recorder's parameters under the names of the scenario."""
        given, known = self.meta["params"], KINDS[self.kind].parameters
        out = dict(_DEFAULTS.get(self.kind, {}))
        known = known | {"hp": ("hotplug", str)}
        out |= {name: to(given[key]) for key, (name, to) in known.items() if key in given}
        if "overload_on_wakeup" in self.meta.get("fixes", ()):
            out["patched_boot"] = True
        took = FORK_US.get((self.meta.get("variant"), self.meta.get("cpus")))
        if self.kind == "gi" and took:
            out |= {"fork_lo_us": took[0], "fork_hi_us": took[1]}
        return out | ({"pinned": False} if given.get("na") == "-1" else {})

    @property
    def pinned(self) -> bool:
        """Whether the threads are pinned to nodes 1 and 2; this matters only for kinds of run whose threads can be pinned."""
        return self.parameters.get("pinned", True)

    @property
    def result(self) -> Quantity:
        """The result that the guest measured itself."""
        measured = self.meta["results_measured_in_guest"]
        key = next(k for k in RESULTS if k in measured)
        return Quantity(float(measured[key]), RESULTS[key])

    @cached_property
    def trace(self) -> Trace:
        """The recorded events."""
        # each recording began before its work did, so a CPU without an event ran nothing
        return open_trace(self.folder / "trace.txt.xz").with_header(silent_is_idle=True)

    @cached_property
    def window(self) -> tuple[int, int]:
        """The measured window in ns, from the mark that starts the workload to the next mark."""
        marks = self.trace.only("mark").select("ts_ns", "text").collect()
        own = [(t, text) for t, text in marks.iter_rows() if "trace " not in text]
        start = KINDS[self.kind].start
        at = next((i for i, (_, text) in enumerate(own) if start in text), None)
        if at is None:
            raise TraceFormatError(
                f"{self.folder}: expected a mark with the text {start!r}, which begins the measured window; "
                "found none."
            )
        return own[at][0], own[at + 1][0] if at + 1 < len(own) else int(marks["ts_ns"][-1])

    def quantities(self) -> dict[str, Quantity]:
        """Return the quantities of the recording, by name."""
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
        return quantities(seen, self.kind, self.machine, self.pinned) | self._unhelped()

    def _unhelped(self) -> dict[str, Quantity]:
        changes = list(runqueues(self.trace, affinity=False).batches())
        ts, cpu, nr = (
            np.concatenate([getattr(b, c) for b in changes]) for c in ("ts_ns", "cpu", "nr")
        )
        return unhelped(ts, cpu, nr, self.machine.cpus, *self.window)

    def workload(self, seed: int) -> Workload:
        """Return the workload of the recording, drawn with this seed for a replay."""
        return scenario(f"recorded-{self.kind}").workload(self.machine, seed, self.parameters)

    @cached_property
    def _trees(self) -> list[Domains]:
        """Domains at boot and after each hotplug step; the same for every seed."""
        return domain_events(with_steps(self.machine, self.workload(1).program()), self.kernel)

    def replayed(self, seed: int) -> Replayed:
        """Replay the workload under the recorded kernel and return the same quantities."""
        if self.model is None:
            raise UsageError(
                f"{self.name} was recorded on {self.kernel.name}, which the replay does not model."
            )
        w = self.workload(seed)
        program = w.program()
        raw = simulate(program, self.machine, self.model, seed=seed, trees=self._trees, load=False)
        q = summarize(raw, program, self.machine, w.measure, w.counted_nodes)
        result = Quantity(float(q.result or 0), self.result.unit)
        seen = _observed(raw, program, self.machine, self.kind, (q.start_ns, q.end_ns), result)
        log = raw.of(log_kind.NR_RUNNING)
        ts, cpu, nr = log[:, [log_column.TS, log_column.CPU, log_column.VALUE]].T
        return Replayed(
            quantities(seen, self.kind, self.machine, self.pinned)
            | unhelped(ts, cpu, nr, self.machine.cpus, q.start_ns, q.end_ns),
            raw.events,
            raw.wall_s,
        )


def recordings_in(folder: Path | str | None = None) -> list[Recording]:
    """Return the recordings in a folder, by name, whose kernels the replay models.

    Without a folder, return the recordings of 4.1.3 in ``datasets/recordings``, by which the replay of 4.1.3 is judged.
    """
    own = folder is None
    folder = Path(folder or datasets() / "recordings")
    found = [Recording.read(path.parent) for path in sorted(folder.glob("*/meta.json"))]
    usable = [r for r in found if r.model is not None and not (own and r.model.is_modern)]
    if not usable:
        raise TraceFormatError(
            f"{folder}: expected subfolders with meta.json and trace.txt.xz, recorded on a kernel that the replay models; found "
            f"{len(found)} recordings, all of other kernels. A checkout has such recordings in datasets/recordings."
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
    result: Quantity,
) -> Observed:
    """Return a replay's log in the form of a recording."""
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
