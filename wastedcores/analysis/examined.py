"""A trace together with its check, its states and its waits: the object that notebooks, figures and texts share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from wastedcores.analysis.scene import Scene, by_node
from wastedcores.analysis.states import States
from wastedcores.cpulist import format_cpulist
from wastedcores.errors import UsageError
from wastedcores.invariant.checking import PERSIST_NS, check_runqueues, require_sensible
from wastedcores.invariant.result import CheckResult
from wastedcores.limits import CHRONIC_SHARE
from wastedcores.runqueues.runqueues import Runqueues, comms, runqueues
from wastedcores.runqueues.waits import run_times, waits
from wastedcores.topology.machine import Machine
from wastedcores.trace.header import Window
from wastedcores.trace.named import TraceLike
from wastedcores.trace.named import open as opened
from wastedcores.trace.trace import Trace
from wastedcores.trace.window import Moment, asked

if TYPE_CHECKING:
    from wastedcores.analysis.explain import Explanation


@dataclass(frozen=True)
class Examined:
    """One trace and the question asked of it; everything else is computed once, on first use. Made by :func:`examine`."""

    trace: Trace
    label: str = ""  #: Its name in figures.
    persist_ns: int = PERSIST_NS  #: Episodes of at least this length are persistent.
    window: Window | None = None  #: The part of the trace that counts; None: all.
    cpus: list[int] | None = None  #: Numbers of the CPUs that count; None: all.
    #: The parameters of :func:`wastedcores.check` with these names.
    ignore_affinity: bool = False
    silent: str | None = None
    chronic_share: float | None = CHRONIC_SHARE

    @cached_property
    def runqueues(self) -> Runqueues:
        """The changes of the runqueues, kept in memory, so that check, scene and waits read the trace only once."""
        return runqueues(
            self.trace, silent=self.silent, affinity=not self.ignore_affinity, keep=True
        )

    @cached_property
    def result(self) -> CheckResult:
        """The invariant, checked."""
        return check_runqueues(
            self.runqueues,
            self.window,
            self.cpus,
            persist_ns=self.persist_ns,
            chronic_share=self.chronic_share,
            ignore_affinity=self.ignore_affinity,
        )

    @cached_property
    def explanation(self) -> Explanation:
        """Why CPUs stayed idle, see :func:`wastedcores.explain`; raises an error with the reason if the cause is unknown."""
        from wastedcores.analysis.explain import explain

        return explain(self.result, rq=self.runqueues)

    @cached_property
    def machine(self) -> Machine | None:
        """The machine, if the trace describes it."""
        data = self.trace.header.machine
        return Machine.from_dict(data) if data else None

    @cached_property
    def nodes(self) -> tuple[int, ...] | None:
        """The NUMA node of every CPU, if known."""
        return tuple(int(n) for n in self.machine.node_of_cpu) if self.machine else None

    @cached_property
    def scene(self) -> Scene:
        """The data of the heat maps: all CPUs that count, over all of the trace."""
        rq, episodes = self.runqueues, self.result.episodes
        states = States.collect(
            (b.runqueues() for b in rq.batches()), rq.cpus, rq.start_ns, rq.end_ns
        )
        # CPUs that the trace never mentions would be empty rows (an nr_running trace may have only 4 of 64 CPUs)
        wanted = self.cpus or range(rq.cpus)
        drawn = [c for c in wanted if states.offsets[c + 1] > states.offsets[c]] or list(wanted)
        return Scene(
            states,
            by_node(drawn, self.nodes),
            self.nodes,
            episodes,
            tuple(self.marks),
            self.label,
            self.facts,
            self.loss,
            self.persist_ns,
            self._loads(),
        )

    def _loads(self) -> States | None:
        if "load" not in self.trace.kinds():
            return None
        rq = self.runqueues
        batches = self.trace.batches(["ts_ns", "cpu", "value"], "load")
        columns = (tuple(b[c].to_numpy() for c in ("ts_ns", "cpu", "value")) for b in batches)
        return States.collect(columns, rq.cpus, rq.start_ns, rq.end_ns)  # type: ignore[arg-type]

    @cached_property
    def marks(self) -> list[tuple[int, str]]:
        """The time in ns and the text of every mark."""
        return list(self.trace.only("mark").select("ts_ns", "text").collect().iter_rows())

    @property
    def facts(self) -> str:
        """The kernel, the machine and the counted CPUs in a few words."""
        header = self.trace.header
        cpus = header.cpus or self.result.cpus
        parts = [_kernel(header.kernel_release)]
        machine = f"{cpus} CPU{'s' if cpus != 1 else ''}"
        if self.machine:
            machine += f" on {self.machine.nodes} node{'s' if self.machine.nodes != 1 else ''}"
        parts.append(machine)
        if self.cpus:
            parts.append(f"counted: CPUs {format_cpulist(self.cpus)}")
        return " · ".join(parts)

    @property
    def loss(self) -> str:
        """A sentence about lost events; empty if none were lost."""
        lost = {cpu: n for cpu, n in self.trace.header.lost.items() if n}
        if not lost:
            return ""
        where = ", ".join("unnamed CPU" if cpu < 0 else f"CPU {cpu}" for cpu in sorted(lost)[:6])
        more = "" if len(lost) <= 6 else f" and {len(lost) - 6} more"
        some = any(n < 0 for n in lost.values())
        count = "an unknown number of" if some else f"{sum(lost.values()):,}"
        return f"LOSSY TRACE: {count} events lost ({where}{more}); the figure may be wrong around them."

    @cached_property
    def waits(self) -> pl.DataFrame:
        """Every wait for a CPU inside the window, see :func:`wastedcores.runqueues.waits.waits`."""
        r = self.result
        return waits(self.runqueues, r.start_ns, r.end_ns, r.counted_cpus)

    @cached_property
    def avoidable(self) -> pl.DataFrame:
        """The threads that waited while a CPU that they may use was idle, with their names and how long they ran.

        The columns of ``result.avoidable``, with comm, tgid (the process, null where the trace does not tell) and ran_ns.
        """
        r, table = self.result, self.result.avoidable
        if not table.height:
            return table.with_columns(comm=pl.lit(""), tgid=pl.lit(0), ran_ns=pl.lit(0))
        ran = run_times(self.runqueues, r.start_ns, r.end_ns)
        tgids = {
            t.pid: t.tgid
            for t in (*(self.trace.header.tasks or ()), *(self.trace.header.later_tasks or ()))
        }
        return table.join(
            comms(self.trace), on="pid", how="left", maintain_order="left"
        ).with_columns(
            comm=pl.col("comm").fill_null("?"),
            tgid=pl.Series([tgids.get(p) for p in table["pid"]], dtype=pl.Int64),
            ran_ns=pl.Series(ran[self.runqueues.tasks.rows(table["pid"].to_numpy())]),
        )

    @property
    def wait_lengths(self) -> np.ndarray:
        """The lengths of :attr:`waits` in ns."""
        return (self.waits["end_ns"] - self.waits["start_ns"]).to_numpy()

    @property
    def waited_ns(self) -> int:
        """The sum of the times for which threads waited for a CPU; only the part of each wait inside the window counts."""
        end = self.waits["end_ns"].clip(upper_bound=self.result.end_ns)
        start = self.waits["start_ns"].clip(lower_bound=self.result.start_ns)
        return int((end - start).sum())

    @property
    def between_marks(self) -> bool:
        """Whether the window lies between two marks (not times that were typed), so that its length is the time of some work."""
        names = (self.window.names if self.window else None) or ()
        typed = [n for n in names if n.strip().replace(".", "", 1).isdecimal()]
        marks = [text for _, text in self.marks] if typed else []
        return bool(names) and all(any(m.startswith(n) for m in marks) for n in typed)

    @property
    def worst(self) -> dict[str, Any] | None:
        """The row of the episode that wasted most core time (a persistent one if there are any); None without episodes."""
        table = self.result.episodes.with_row_index("episode")
        persistent = table.filter(pl.col("persistent"))
        table = persistent if persistent.height else table
        return table.sort("wasted_ns", descending=True).row(0, named=True) if table.height else None

    def worst_window(self, most_ms: float = 200.0) -> tuple[int, int]:
        """Return the window (start_ns, end_ns) to look at closely: the worst episode, or its worst part if it is long."""
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

    def longest_wait_window(self, most_ms: float = 200.0) -> tuple[int, int]:
        """Return the window (start_ns, end_ns) around the end of the longest wait; a quarter of the window follows that end."""
        if not self.waits.height:
            raise UsageError(
                f"{self.label}: no wait for a CPU is known, so there is no longest one."
            )
        row = self.waits.row(int(np.argmax(self.wait_lengths)), named=True)
        long = min(max(2 * (row["end_ns"] - row["start_ns"]), 1000), max(int(most_ms * 1e6), 1000))
        start, end = self.scene.window
        begin = min(max(start, row["end_ns"] - long * 3 // 4), end - 1)
        return begin, min(begin + long, end)


def _kernel(name: str | None) -> str:
    """Name the kernel of a trace; a design such as core+power is not named as a version of Linux."""
    if not name:
        return "kernel not recorded"
    return f"Linux {name}" if re.match(r"v?\d", name) else f"scheduler {name}"


def examine(
    trace: TraceLike,
    label: str = "",
    *,
    persist_ns: int = PERSIST_NS,
    chronic_share: float | None = CHRONIC_SHARE,
    between: Sequence[Moment] | None = None,
    cpus: str | Sequence[int] | None = None,
    whole: bool = False,
    ignore_affinity: bool = False,
    silent: str | None = None,
) -> Examined:
    """Ask a question of a trace; the parts of the answer are computed when they are first used.

    Parameters
    ----------
    trace
        The trace.
    label
        Its name in figures; default: the file's name.
    persist_ns, chronic_share, between, cpus, whole, ignore_affinity, silent
        As for :func:`wastedcores.check`.

    Returns
    -------
    Examined
        The trace with its check, its states and its waits.

    Raises
    ------
    UsageError
        A window, a list of CPUs or a length makes no sense.
    """
    require_sensible(persist_ns, silent, chronic_share)
    trace = opened(trace)
    window, counted = asked(trace, between, cpus, whole=whole)
    return Examined(
        trace,
        label or trace.name.removesuffix(".parquet"),
        persist_ns,
        window,
        counted,
        ignore_affinity,
        silent,
        chronic_share,
    )
