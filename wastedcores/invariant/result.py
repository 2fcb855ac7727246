"""The result of a check of the invariant."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import polars as pl

from wastedcores.cpulist import format_cpulist
from wastedcores.invariant.chronic import Chronic
from wastedcores.invariant.trust import Bound
from wastedcores.shown import Shown
from wastedcores.trace.header import Window
from wastedcores.trace.trace import Trace
from wastedcores.units import human_ns, number

#: a machine is called overloaded if at most this share of its CPUs is idle while threads wait
_HARDLY = 0.05
_CPU_LISTS = ("idle_cpus", "overloaded_cpus")

CHECK_SCHEMA = "wastedcores.check/3"


@dataclass(frozen=True, repr=False)
class CheckResult(Shown):
    """The result of a check over [``start_ns``, ``end_ns``].

    Attributes
    ----------
    trace
        The trace.
    window
        The window that was asked for or that the recording names; None: all of the trace.
    start_ns, end_ns
        The interval that was looked at.
    persist_ns
        Episodes of at least this length are persistent.
    verdict
        ``violations`` (of the kind persistent or chronic, and certain), ``clean`` (there can be none), or ``unknown``
        (events were lost, the trace contradicts itself or is cut short, or nobody knows whether the waiting threads might
        have moved).
    kind
        The worst kind of violation that is certain: ``persistent`` (an episode lasted at least ``persist_ns``),
        ``chronic`` (short episodes add up, see :mod:`wastedcores.invariant.chronic`), ``occasional`` (neither) or
        ``none``.
    chronic
        The worst ten consecutive slices of length ``persist_ns``; None if the window has fewer, or they were not asked
        for.
    wall_ns
        Time with at least one idle and one overloaded CPU.
    cpu_ns, thread_ns
        Integral over time of min(idle, overloaded) CPUs, and of min(idle CPUs, waiting threads), in ns. Unless affinity is
        ignored, a pair counts only if the idle CPU may run the waiting thread.
    busy_ns, idle_ns, waiting_ns
        Integral over time of busy CPUs, of idle CPUs, and of waiting threads, in ns.
    episodes
        Table start_ns, end_ns, persistent, certain, wasted_ns, idle_cpus, overloaded_cpus (lists of CPU numbers), in
        order. A persistent episode that is not ``certain`` rests on doubts or on threads that might be pinned.
    details
        Table about the longest episodes: episode (row of ``episodes``), cpu, idle_ns, overloaded_ns.
    waiting
        Table about the same episodes, if the trace names tasks: episode, pid, comm, cpu, wait_ns.
    causes
        Table about the same episodes: episode, cause, overloaded_ns. The cause is the event by which a CPU had become
        overloaded: ``wakeup``, ``wakeup_new`` (fork), ``migrate``, ... or ``before`` (not seen).
    avoidable
        Table of the threads that waited for a CPU while another CPU that they may use was idle. The threads that lost most time
        come first. Columns: pid, waits (number of waits that were partly avoidable), waited_ns (all waits of the thread in the
        window), avoidable_ns, longest_ns. Empty if the trace names no tasks. Several threads may wait beside one idle CPU, so the
        sum can be larger than ``thread_ns``.
    episodes_dropped
        Number of short episodes that ``episodes`` does not list; the integrals count them.
    affinity
        The source of affinity: ``events``, ``snapshot``, ``names of kernel threads``, ``none in the trace``, or ``ignored``.
    source
        The source of the runqueues: ``nr_running`` events, or ``tasks`` (rebuilt from task events).
    cpus
        CPU numbers are below this.
    counted_cpus, silent_cpus, unknown_cpus
        CPUs that count; online CPUs without one event; counted CPUs whose runqueue was never known.
    unknown_spans
        (start_ns, end_ns, cpu) in which events of ``cpu`` (-1: some CPU) were lost.
    doubts
        Spans of counted CPUs in which the state may be wrong, merged by CPU and reason: reason, cpu (-1: all),
        start_ns, end_ns.
    affinity_unknown
        Number of threads that ran and of which the trace does not tell where they may run.
    rests_on_affinity
        Whether the verdict is unknown because nobody knows where some of these threads may run.
    bound
        The least and the most waste of CPU time that the trace allows, and the longest that an episode can be:
        ``waste_at_least_ns``, ``waste_at_most_ns``, ``longest_at_most_ns``. If the result is not ``bounded``, there may be more
        waste.
    evidence
        Avoidable waiting in ns, by the evidence that the thread could have run on the idle CPU: ``told_ns`` (an event or a
        snapshot), ``inherited_ns`` (from a parent whose affinity was told), ``seen_ns`` (it ran there before and after),
        and ``assumed_ns`` (nothing says so). ``seen_ns`` is only looked for where the verdict depends on it.
    silent
        The assumed state of the silent CPUs: ``idle`` or ``unknown``.
    oddities
        Number of events that contradict the state before them, by kind.
    notes
        Sentences that a reader of the verdict should know.
    """

    trace: Trace
    window: Window | None
    start_ns: int
    end_ns: int
    persist_ns: int
    verdict: str
    kind: str
    chronic: Chronic | None
    wall_ns: int
    cpu_ns: int
    thread_ns: int
    busy_ns: int
    idle_ns: int
    waiting_ns: int
    episodes: pl.DataFrame
    details: pl.DataFrame
    waiting: pl.DataFrame
    causes: pl.DataFrame
    avoidable: pl.DataFrame
    episodes_dropped: int
    affinity: str
    source: str
    cpus: int
    counted_cpus: list[int]
    silent_cpus: list[int]
    unknown_cpus: list[int]
    unknown_spans: list[tuple[int, int, int]]
    doubts: pl.DataFrame
    affinity_unknown: int
    rests_on_affinity: bool
    bound: Bound
    endless: bool
    evidence: dict[str, int]
    silent: str = "unknown"
    oddities: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def duration_ns(self) -> int:
        """The length of the interval that was looked at."""
        return self.end_ns - self.start_ns

    @property
    def longest_ns(self) -> int:
        """The length of the longest episode; 0 if there is none."""
        return int((self.episodes["end_ns"] - self.episodes["start_ns"]).max() or 0)  # type: ignore[arg-type]

    def _facts(self) -> dict[str, str]:
        kind = f" ({self.kind})" if self.kind != "none" else ""
        return {
            "trace": self.trace.name,
            "verdict": self.verdict + kind,
            "CPUs wasted": f"{number(self.mean(self.thread_ns))} of {len(self.counted_cpus)} on average",
            "longest episode": human_ns(self.longest_ns),
            "looked at": human_ns(self.duration_ns),
            **({"note": self.notes[-1]} if self.notes else {}),
        }

    @property
    def names_tasks(self) -> bool:
        """Whether the trace tells which tasks ran and waited; if not, it has nothing but the lengths of runqueues."""
        return "switch" in self.trace.kinds()

    @property
    def assumed(self) -> str | None:
        """What the verdict takes for granted because the trace has no tasks; None: nothing."""
        return None if self.names_tasks else "threads may move"

    @property
    def bounded(self) -> bool:
        """Whether the trace limits the waste: its gaps are known, and :mod:`wastedcores.invariant.bounds` can fill them."""
        if self.verdict == "unknown" and self.trace.header.lost_total:
            return False  # the places of the losses may be unknown
        if not (self.doubts.height or self.unknown_cpus):
            return True
        return self.names_tasks and not self.endless

    @property
    def waste_known(self) -> bool:
        """Whether the trace tells how much CPU time was wasted, which it can also do if the verdict is unknown."""
        least, most = (human_ns(ns) for ns in self.bound[:2])
        return self.verdict != "unknown" or (self.bounded and least == most)

    def mean(self, integral_ns: int) -> float:
        """Return an integral over the interval divided by its length."""
        return integral_ns / self.duration_ns if self.duration_ns else 0.0

    @property
    def overloaded(self) -> bool:
        """Whether there was more work than CPUs: threads waited nearly all the time, and hardly any CPU was idle meanwhile."""
        cpus = len(self.counted_cpus)
        return self.mean(self.waiting_ns) >= 1 and self.mean(self.idle_ns) < _HARDLY * cpus

    def to_json(self, limit: int | None = 10) -> dict[str, Any]:
        """Return the object that ``wastedcores check --json`` prints.

        Parameters
        ----------
        limit
            The largest number of entries in lists that can be long: episodes, doubts, spans with lost events, and threads that
            waited avoidably, the longest first; None: all.

        Returns
        -------
        dict
            CPUs of episodes are text in the kernel's list format; times are in ns unless the name says otherwise.
        """
        header = self.trace.header
        episodes = _longest(self.episodes, limit)
        lists = [pl.col(c).map_elements(format_cpulist, pl.String) for c in _CPU_LISTS]
        doubts = _longest(self.doubts, limit)
        spans = sorted(self.unknown_spans, key=lambda s: s[0] - s[1])[:limit]
        return {
            "schema": CHECK_SCHEMA,
            "trace": {
                "format": header.source_format,
                "cpus": self.cpus,
                "events": header.events,
                "start_ns": self.start_ns,
                "end_ns": self.end_ns,
                "lost": header.lost_total,
                "silent_cpus": self.silent_cpus,
            },
            "persist_ns": self.persist_ns,
            "verdict": self.verdict,
            "kind": self.kind,
            "chronic": self.chronic._asdict() if self.chronic else None,
            "wall_ns": self.wall_ns,
            "cpu_ns": self.cpu_ns,
            "thread_ns": self.thread_ns,
            "busy_ns": self.busy_ns,
            "idle_while_overloaded_fraction": round(self.mean(self.wall_ns), 6),
            "mean_busy_cpus": round(self.mean(self.busy_ns), 4),
            "mean_wasted_cpus": round(self.mean(self.thread_ns), 4),
            "longest_episode_s": self.longest_ns / 1e9,
            "avoidable_waiting": {
                "threads": self.avoidable.height,
                "waits": int(self.avoidable["waits"].sum()),
                "avoidable_ns": int(self.avoidable["avoidable_ns"].sum()),
                "longest_ns": int(self.avoidable["longest_ns"].max() or 0),  # type: ignore[arg-type]
                "worst": self.avoidable.head(
                    self.avoidable.height if limit is None else limit
                ).to_dicts(),
            },
            "affinity": self.affinity,
            "counted_cpus": self.counted_cpus,
            "unknown_cpus": self.unknown_cpus,
            "unknown_spans": [
                {"start_ns": s, "end_ns": e, "cpu": None if c < 0 else c}
                for s, e, c in sorted(spans)
            ],
            "affinity_unknown": self.affinity_unknown,
            "assumed": self.assumed,
            "evidence": self.evidence,
            "bound": self.bound._asdict(),
            "bounded": self.bounded,
            "doubts": doubts.to_dicts(),
            "doubts_total": self.doubts.height,
            "oddities": self.oddities,
            "notes": self.notes,
            "episodes_dropped": self.episodes_dropped,
            "episodes_total": self.episodes.height + self.episodes_dropped,
            "episodes": episodes.with_columns(lists).to_dicts() if episodes.height else [],
        }


def _longest(spans: pl.DataFrame, limit: int | None) -> pl.DataFrame:
    """The longest of some spans, in order of time."""
    if limit is None or spans.height <= limit:
        return spans
    return spans.top_k(limit, by=pl.col("end_ns") - pl.col("start_ns")).sort("start_ns", "end_ns")
