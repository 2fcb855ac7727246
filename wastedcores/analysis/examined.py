"""A trace together with its check and what the figures need: the object that notebooks and widgets hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from wastedcores.analysis.scene import Scene, by_node
from wastedcores.analysis.states import States
from wastedcores.errors import UsageError
from wastedcores.invariant import PERSIST_NS, CheckResult, check
from wastedcores.runqueues.runqueues import runqueues
from wastedcores.topology.cpulist import parse_cpulist
from wastedcores.topology.machine import Machine
from wastedcores.trace.trace import Trace


@dataclass(frozen=True)
class Examined:
    """One trace and the question asked of it; everything else is computed on first use. Made by :func:`examine`.

    Attributes
    ----------
    trace
        The trace.
    label
        Its name in figures.
    persist_ns
        Episodes of at least this length are persistent.
    between
        Marks or times that bound the window; None: the window that the recording names, else all of the trace.
    cpus
        CPUs that count, in the kernel's list format; empty: the CPUs that the recording names, else all.
    ignore_affinity, silent
        As for :func:`wastedcores.check`.
    """

    trace: Trace
    label: str = ""
    persist_ns: int = PERSIST_NS
    between: tuple[str, str] | None = None
    cpus: str = ""
    ignore_affinity: bool = False
    silent: str = "idle"

    @cached_property
    def result(self) -> CheckResult:
        """The invariant, checked."""
        return check(
            self.trace,
            persist_ns=self.persist_ns,
            cpus=sorted(parse_cpulist(self.cpus)) if self.cpus else None,
            between=self.between,
            ignore_affinity=self.ignore_affinity,
            silent=self.silent,
        )

    @cached_property
    def machine(self) -> Machine | None:
        """The machine, if the trace says."""
        data = self.trace.header.machine
        return Machine.from_dict(data) if data else None

    @cached_property
    def nodes(self) -> tuple[int, ...] | None:
        """NUMA node of every CPU, if known."""
        return tuple(int(n) for n in self.machine.node_of_cpu) if self.machine else None

    @cached_property
    def scene(self) -> Scene:
        """What the figures draw: all CPUs that count."""
        rq = runqueues(self.trace, silent=self.silent, affinity=False)
        states = States.collect(
            (b.runqueues() for b in rq.batches()), rq.cpus, rq.start_ns, rq.end_ns
        )
        loads = None
        if "load" in self.trace.kinds():
            batches = self.trace.batches(["ts_ns", "cpu", "value"], "load")
            loads = States.collect(
                (
                    (b["ts_ns"].to_numpy(), b["cpu"].to_numpy(), b["value"].to_numpy())
                    for b in batches
                ),
                rq.cpus,
                rq.start_ns,
                rq.end_ns,
            )
        # CPUs the trace never speaks of (an nr_running trace of four CPUs of 64) would be empty rows
        wanted = sorted(parse_cpulist(self.cpus)) if self.cpus else range(rq.cpus)
        if self.cpus and wanted[-1] >= rq.cpus:
            raise UsageError(f"--cpus: the trace has CPUs 0-{rq.cpus - 1}, not {wanted[-1]}.")
        drawn = [c for c in wanted if states.offsets[c + 1] > states.offsets[c]] or list(wanted)
        return Scene(
            states,
            by_node(drawn, self.nodes),
            self.nodes,
            self.result.episodes,
            tuple(self.marks),
            self.label,
            self.facts,
            self.loss,
            self.persist_ns,
            loads,
        )

    @cached_property
    def marks(self) -> list[tuple[int, str]]:
        """(ns, text) of every mark."""
        return list(self.trace.only("mark").select("ts_ns", "text").collect().iter_rows())

    @property
    def facts(self) -> str:
        """Kernel and machine in a few words."""
        header = self.trace.header
        cpus = header.cpus or self.result.cpus
        parts = [
            f"Linux {header.kernel_release}" if header.kernel_release else "kernel not recorded"
        ]
        machine = f"{cpus} CPUs"
        if self.machine:
            machine += f" on {self.machine.nodes} node{'s' if self.machine.nodes != 1 else ''}"
        parts.append(machine)
        if self.cpus:
            parts.append(f"counted: CPUs {self.cpus}")
        return " · ".join(parts)

    @property
    def loss(self) -> str:
        """A sentence about lost events; empty if there were none."""
        lost = {cpu: n for cpu, n in self.trace.header.lost.items() if n}
        if not lost:
            return ""
        where = ", ".join("unnamed CPU" if cpu < 0 else f"CPU {cpu}" for cpu in sorted(lost)[:6])
        more = "" if len(lost) <= 6 else f" and {len(lost) - 6} more"
        some = any(n < 0 for n in lost.values())
        count = "an unknown number of" if some else f"{sum(lost.values()):,}"
        return f"LOSSY TRACE: {count} events lost ({where}{more}); what is drawn around them may be wrong."

    @cached_property
    def waits(self) -> pl.DataFrame:
        """Every wait for a CPU inside the window: pid, cpu, start_ns, end_ns; empty where tasks are not known."""
        rq = runqueues(self.trace, silent=self.silent, affinity=False)
        empty = pl.DataFrame(
            schema={"pid": pl.Int32, "cpu": pl.Int32, "start_ns": pl.Int64, "end_ns": pl.Int64}
        )
        if rq.source != "tasks":
            return empty
        parts = [b.waits for b in rq.batches(waits=True) if b.waits is not None and b.waits.height]
        table = pl.concat(parts) if parts else empty
        inside = (pl.col("end_ns") > self.result.start_ns) & (
            pl.col("start_ns") < self.result.end_ns
        )
        return table.filter(inside, pl.col("cpu").is_in(self.result.counted_cpus))

    @property
    def wait_lengths(self) -> np.ndarray:
        """Lengths of :attr:`waits`, ns."""
        return (self.waits["end_ns"] - self.waits["start_ns"]).to_numpy()

    @property
    def worst(self) -> dict | None:
        """The episode that wasted most core time, as a row (a persistent one if there is any); None if none."""
        table = self.result.episodes.with_row_index("episode")
        persistent = table.filter(pl.col("persistent"))
        table = persistent if persistent.height else table
        return table.sort("wasted_ns", descending=True).row(0, named=True) if table.height else None

    def worst_window(self, most_ms: float = 200.0) -> tuple[int, int]:
        """Where to look closely: the worst episode with a margin, or of a long one its worst ``most_ms``.

        Raises
        ------
        UsageError
            There is no episode.
        """
        worst = self.worst
        if worst is None:
            raise UsageError(f"{self.label}: no episode, so there is no worst one to zoom into.")
        start, end = worst["start_ns"], worst["end_ns"]
        most = max(int(most_ms * 1e6), 1000)
        if end - start <= most:
            margin = max((end - start) // 8, 1000)
            return max(start - margin, self.scene.window[0]), min(
                end + margin, self.scene.window[1]
            )
        bins = self.scene.states.bin(start, end, cols=1000, cpus=self.scene.cpus)
        wasted = np.r_[0.0, np.cumsum(np.minimum(bins.idle, bins.waiting))]
        wide = max(1, round(most / ((end - start) / (wasted.size - 1))))
        at = int(np.argmax(wasted[wide:] - wasted[:-wide])) if wide < wasted.size else 0
        begin = min(int(bins.edges[at]), end - most)
        return begin, begin + most


def examine(
    trace: Trace,
    label: str = "",
    *,
    persist_ns: int = PERSIST_NS,
    between: Sequence[str] = (),
    cpus: str = "",
    ignore_affinity: bool = False,
    silent: str = "idle",
) -> Examined:
    """Ask a question of a trace; what the answer needs is computed when it is first used.

    Parameters
    ----------
    trace
        The trace.
    label
        Its name in figures; default: the file's name.
    persist_ns
        Episodes of at least this length are persistent (the paper's M), in ns.
    between
        Two marks or times in seconds that bound the window; empty: the window that the recording names, else all.
    cpus
        CPUs that count, in the kernel's list format; empty: the CPUs that the recording names, else all.
    ignore_affinity, silent
        As for :func:`wastedcores.check`.

    Returns
    -------
    Examined
        The trace with its check, its states and its waits.

    Raises
    ------
    UsageError
        ``between`` has neither no entry nor two.
    """
    if len(between) not in (0, 2):
        raise UsageError(
            f"between={list(between)!r}: expected two marks or times in seconds, start and end, or an empty list."
        )
    window, counted = trace.header.measured
    between = between or window or ()
    return Examined(
        trace,
        label or trace.name.removesuffix(".parquet"),
        persist_ns,
        (str(between[0]), str(between[1])) if between else None,
        cpus or counted or "",
        ignore_affinity,
        silent,
    )
