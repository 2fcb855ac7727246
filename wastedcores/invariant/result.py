"""What a check of the invariant found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import polars as pl

from wastedcores.trace.header import Window
from wastedcores.trace.trace import Trace

CHECK_SCHEMA = "wastedcores.check/1"


@dataclass(frozen=True)
class CheckResult:
    """What the check found over [``start_ns``, ``end_ns``].

    Attributes
    ----------
    verdict
        ``violations`` (an episode lasted at least ``persist_ns``), ``clean``, or ``unknown`` (events were lost in the
        interval, or nothing is known of the runqueues).
    wall_ns
        Time with at least one idle and one overloaded CPU.
    cpu_ns, thread_ns
        Integral of min(idle, overloaded) CPUs, and of min(idle CPUs, waiting threads). With affinity: as many of them
        as could be paired.
    busy_ns, idle_ns, waiting_ns
        Integral of busy CPUs, of idle CPUs, of waiting threads.
    episodes
        Table start_ns, end_ns, persistent, wasted_ns, idle_cpus, overloaded_cpus (lists of CPU numbers), in order.
    details
        Of the most important episodes: table episode (row of ``episodes``), cpu, idle_ns, overloaded_ns.
    waiting
        Of the same episodes, where tasks are known: episode, pid, comm, cpu, wait_ns.
    causes
        Of the same episodes: episode, cause, overloaded_ns; how the overloaded CPUs had become so: ``wakeup``,
        ``wakeup_new`` (fork), ``migrate``, ... or ``before`` (not seen).
    """

    trace: Trace
    window: Window | None
    start_ns: int
    end_ns: int
    persist_ns: int
    verdict: str
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
    episodes_dropped: int
    affinity: str
    source: str
    cpus: int
    counted_cpus: list[int]
    silent_cpus: list[int]
    unknown_cpus: list[int]
    unknown_spans: list[tuple[int, int, int]]
    oddities: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def duration_ns(self) -> int:
        """Length of the interval looked at."""
        return self.end_ns - self.start_ns

    @property
    def longest_ns(self) -> int:
        """Length of the longest episode."""
        return int((self.episodes["end_ns"] - self.episodes["start_ns"]).max() or 0)  # type: ignore[arg-type]

    def mean(self, integral_ns: int) -> float:
        """An integral over the interval as a mean."""
        return integral_ns / self.duration_ns if self.duration_ns else 0.0

    def to_json(self) -> dict[str, Any]:
        """The object that ``wastedcores check --json`` prints."""
        header = self.trace.header
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
            "wall_ns": self.wall_ns,
            "cpu_ns": self.cpu_ns,
            "thread_ns": self.thread_ns,
            "busy_ns": self.busy_ns,
            "idle_while_overloaded_fraction": round(self.mean(self.wall_ns), 6),
            "mean_busy_cpus": round(self.mean(self.busy_ns), 4),
            "mean_wasted_cpus": round(self.mean(self.thread_ns), 4),
            "longest_episode_s": self.longest_ns / 1e9,
            "affinity": self.affinity,
            "counted_cpus": self.counted_cpus,
            "unknown_cpus": self.unknown_cpus,
            "unknown_spans": [
                {"start_ns": s, "end_ns": e, "cpu": None if c < 0 else c}
                for s, e, c in self.unknown_spans
            ],
            "oddities": self.oddities,
            "notes": self.notes,
            "episodes_dropped": self.episodes_dropped,
            "episodes": self.episodes.to_dicts(),
        }
