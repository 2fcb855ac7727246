"""How the online checker looks, and what it saw."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wastedcores.errors import UsageError
from wastedcores.limits import CHRONIC_SHARE, PERSIST_NS

if TYPE_CHECKING:
    from wastedcores.invariant import CheckResult


@dataclass(frozen=True)
class LiveOptions:
    """How the online checker looks.

    Attributes
    ----------
    period_ns, persist_ns
        The checker looks every ``period_ns`` (the paper's S), and reports a violation that lasts ``persist_ns`` (the paper's M).
    event_driven
        Notice a violation at its first event instead of at the next look. Only with the BPF backend.
    before_s
        Seconds before a violation that the flight recorder keeps. 0: record only the 20 ms after it, which costs least.
    most_recordings
        Keep at most this many recordings of violations, at most as many of chronic waste, and at most as many whose verdict is
        ``unknown``.
    deficit, useless
        The paper's two other checks; their counts appear under ``checker``. Only with the BPF backend.
    record_every_s
        Record at most one persistent violation in this time; 0: all of them.
    most_listed
        List only the last violations, at most this many, and at most as many recordings with chronic waste.
    tally
        Also sample which control groups run and wait, for :mod:`wastedcores.capture.metrics`. Only with the BPF backend.
    chronic_share
        Waste is chronic from this share on (:mod:`wastedcores.invariant.chronic`); None: chronic waste is not looked for. With
        the BPF backend, counts taken at every tick decide when to record, and then the recording is checked.

    Raises
    ------
    UsageError
        A duration is out of range.
    """

    period_ns: int = 1_000_000_000
    persist_ns: int = PERSIST_NS
    event_driven: bool = False
    before_s: float = 2.0
    most_recordings: int = 5
    deficit: bool = False
    useless: bool = False
    record_every_s: float = 0.0
    most_listed: int = 10_000
    tally: bool = False
    chronic_share: float | None = CHRONIC_SHARE

    def __post_init__(self) -> None:
        if self.persist_ns < 1_000_000 or self.period_ns < 1_000_000:
            raise UsageError("S (--period) and M (--persist) must be at least 1 ms.")
        if not 0 <= self.before_s <= 600:
            raise UsageError(f"seconds before a violation {self.before_s:g}: expected 0 to 600.")

    def times(self) -> list[str]:
        """Return S and M as options of a collector."""
        return ["-S", f"{self.period_ns / 1e9:.9f}s", "-M", f"{self.persist_ns / 1e9:.9f}s"]

    def arguments(self) -> list[str]:
        """Return the options of the collector ``unclaimed.py``."""
        flags = {
            "--event-driven": self.event_driven,
            "--deficit": self.deficit,
            "--useless": self.useless,
            "--chronic": self.chronic_share is not None,
            "--tally": self.tally,
        }
        return [
            *self.times(),
            *("--before", f"{self.before_s:g}", "--evidence", str(self.most_recordings)),
            *(flag for flag, wanted in flags.items() if wanted),
            *(["--every", f"{self.record_every_s:g}"] if self.record_every_s else []),
        ]


@dataclass
class LiveCheck:
    """What the checker saw on this machine.

    Attributes
    ----------
    options
        How the checker looked.
    backend
        ``bpf`` (checked in the kernel) or ``tracefs`` (recorded, then checked).
    checks, suspected, confirmed
        Number of looks at the invariant, of looks that found a violation, and of violations that lasted M.
    seconds
        For how long the checker looked.
    started_ns
        When the checker started, on the monotonic clock.
    violations
        One dict per confirmed violation: idle_cpu, busy_cpu, pid, began_ns, confirmed_ns, evidence (path or None).
    other
        Further counts of the BPF backend.
    worst
        The offline check of the worst violation's recording; None if nothing was recorded.
    chronic
        One dict per recording with chronic waste: start_ns, window_ns, share, evidence (path or None).
    notes
        Sentences about the recordings that a reader needs.
    """

    options: LiveOptions
    backend: str
    checks: int = 0
    suspected: int = 0
    confirmed: int = 0
    seconds: float = 0.0
    started_ns: int = 0
    violations: list[dict[str, Any]] = field(default_factory=list)
    other: dict[str, Any] = field(default_factory=dict)
    worst: CheckResult | None = None
    chronic: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """``violations`` or ``clean``; ``unknown`` if the checker never looked, or if the recording cannot be trusted."""
        if self.confirmed or self.chronic:
            return "violations"
        if self.backend == "tracefs" and self.worst is not None:
            return self.worst.verdict
        if not self.checks or (self.worst is not None and self.worst.verdict == "unknown"):
            return "unknown"
        return "clean"

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``check`` gives for the worst violation's recording, with ``checker`` added."""
        out = self.worst.to_json() if self.worst else self._nothing_recorded()
        out["verdict"] = self.verdict
        if self.confirmed:  # the recording may show only a part of the violation
            out["kind"] = "persistent"
        elif self.chronic and out["kind"] != "persistent":  # perhaps without a recording
            out["kind"] = "chronic"
        out["checker"] = {
            "s_ns": self.options.period_ns,
            "m_ns": self.options.persist_ns,
            "checks": self.checks,
            "suspected": self.suspected,
            "confirmed": self.confirmed,
            "backend": self.backend,
            "seconds": self.seconds,
            "violations": self.violations,
            "chronic": self.chronic,
            **self.other,
        }
        out["notes"] = [*out.get("notes", []), *self.notes]
        return out

    def _nothing_recorded(self) -> dict[str, Any]:
        from wastedcores.invariant import CHECK_SCHEMA

        return {
            "schema": CHECK_SCHEMA,
            "trace": {
                "format": "live",
                "cpus": os.cpu_count(),
                "events": 0,
                "start_ns": self.started_ns,
                "end_ns": self.started_ns + int(self.seconds * 1e9),
                "lost": 0,
                "silent_cpus": [],
            },
            "persist_ns": self.options.persist_ns,
            "verdict": self.verdict,
            "kind": "none",
            "chronic": None,
            "wall_ns": 0,
            "cpu_ns": 0,
            "thread_ns": 0,
            "episodes": [],
        }
