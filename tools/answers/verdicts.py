"""The answers of the verbs that judge recordings: check, watch, score, gate and fleet."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, RootModel

from wastedcores.analysis.gate import Outcome
from wastedcores.invariant import avoidable, who
from wastedcores.invariant.chronic import Chronic
from wastedcores.invariant.trust import Bound

from .parts import Moves, Strict, Verdict, absent, fields_of, row_of

Kind = Literal["persistent", "chronic", "occasional", "none"]


class Looked(Strict):
    format: str
    cpus: int
    events: int | None
    start_ns: int
    end_ns: int
    lost: int | None
    silent_cpus: list[int]


class Doubt(Strict):
    reason: str
    cpu: int | None
    start_ns: int
    end_ns: int


class Span(Strict):
    start_ns: int
    end_ns: int
    cpu: int | None


class Episode(Strict):
    start_ns: int
    end_ns: int
    persistent: bool
    certain: bool
    wasted_ns: int
    idle_cpus: str = Field(description="a list as the kernel writes it, such as 0-3,8")
    overloaded_cpus: str


class Waiting(Strict):
    threads: int
    waits: int
    avoidable_ns: int
    longest_ns: int
    worst: list[row_of("Thread", avoidable.SCHEMA)]  # type: ignore[misc]


class Checked(Strict):
    """What is found in one trace."""

    schema_: Literal["wastedcores.check/3"] = Field(alias="schema")
    trace: Looked
    persist_ns: int
    verdict: Verdict
    kind: Kind
    chronic: fields_of(Chronic) | None  # type: ignore[valid-type]
    wall_ns: int
    cpu_ns: int
    thread_ns: int
    busy_ns: int
    idle_while_overloaded_fraction: float
    mean_busy_cpus: float
    mean_wasted_cpus: float
    longest_episode_s: float
    avoidable_waiting: Waiting
    affinity: str
    counted_cpus: list[int]
    unknown_cpus: list[int]
    unknown_spans: list[Span]
    affinity_unknown: int
    assumed: str | None
    evidence: dict[Literal["told_ns", "seen_ns", "inherited_ns", "assumed_ns"], int]
    bound: fields_of(Bound)  # type: ignore[valid-type]
    bounded: bool
    doubts: list[Doubt]
    doubts_total: int
    oddities: dict[str, int]
    notes: list[str]
    episodes_dropped: int
    episodes_total: int
    episodes: list[Episode]


class Check(Checked):
    """What ``wastedcores check --json`` prints; with ``--cgroups`` it has ``cgroups``, too."""

    moves: Moves
    cgroups: list[row_of("Group", who.SCHEMA, ("throttled_ns", "stolen_ns"))] = absent()  # type: ignore[misc]


class Alarm(Strict):
    """A violation; the tracefs backend tells neither its number nor the waiting thread, nor the rest that may be missing."""

    number: int = absent()
    idle_cpu: int
    busy_cpu: int
    pid: int = absent()
    busy_nr: int = absent("threads on the busy CPU")
    cleared_ns: int = absent()
    late_ns: int = absent()
    began_ns: int
    confirmed_ns: int
    lasted_ms: int
    evidence: str | None


class Recorded(fields_of(Chronic)):  # type: ignore[misc]
    evidence: str


class Counts(Strict):
    """Counts of the BPF backend."""

    cleared: int = absent()
    recovered: int = absent()
    by_move: int = absent()
    by_fork: int = absent()
    by_exit: int = absent()
    moves: int = absent()
    useless: int = absent()
    deficits: int = absent()
    truncated: int = absent()


class Checker(Counts):
    s_ns: int = Field(description="the paper's S, of --period")
    m_ns: int = Field(description="the paper's M, of --persist")
    checks: int
    suspected: int
    confirmed: int
    backend: Literal["bpf", "tracefs"]
    seconds: float
    violations: list[Alarm]
    chronic: list[Recorded]


class Violation(Checked):
    """The answer of check for the recording of the worst violation, and what the checker did."""

    checker: Checker
    report: str | None


class Nothing(Strict):
    """The answer if nothing was recorded."""

    schema_: Literal["wastedcores.check/3"] = Field(alias="schema")
    trace: Looked
    persist_ns: int
    verdict: Verdict
    kind: Kind
    chronic: None
    wall_ns: Literal[0]
    cpu_ns: Literal[0]
    thread_ns: Literal[0]
    episodes: list[Episode] = Field(max_length=0)
    notes: list[str]
    checker: Checker
    report: str | None


class Watch(RootModel):
    """What ``wastedcores watch --json`` prints when it ends."""

    root: Violation | Nothing


class Scored(Strict):
    verdict: Verdict
    confidence: Literal["exact", "bounded", "unknown"]
    window_s: float
    busy_core_s: float
    lost_core_s: float
    at_least_core_s: float
    at_most_core_s: float | None
    lost_share: float | None
    longest_episode_s: float


class ScoredTrace(Scored):
    trace: str
    kind: Kind
    cpus: int
    notes: list[str]


class Spread(Strict):
    median: float
    low: float
    high: float


class Score(Scored):
    """What ``wastedcores score`` prints."""

    schema_: Literal["wastedcores.score/1"] = Field(alias="schema")
    spread: Spread
    traces: list[ScoredTrace]


class Judged(fields_of(Outcome, "rule")):  # type: ignore[misc]
    quantity: str
    state: Literal["pass", "fail", "unknown"]


class Gate(Strict):
    """What ``wastedcores compare A B --gate RULES --json`` prints."""

    schema_: Literal["wastedcores.gate/1"] = Field(alias="schema")
    rules: list[Judged]


class Fleet(Strict):
    """What ``wastedcores fleet --json`` prints: numbers of traces, or of machines' hours."""

    schema_: Literal["wastedcores.fleet/1"] = Field(alias="schema")
    table: str
    traces: int
    violations: int
    clean: int
    unknown: int
    failed: int
