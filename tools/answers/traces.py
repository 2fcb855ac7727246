"""The answers of the verbs that read, explain, convert and list traces."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, RootModel

from wastedcores.analysis import price
from wastedcores.analysis.pairs import RELATIONS
from wastedcores.kernels import FIXES
from wastedcores.trace import schedstat
from wastedcores.trace.header import Header
from wastedcores.trace.named import Entry
from wastedcores.words.cause import JUDGEMENTS, NAMES

from .parts import Range, Strict, Trust, Verdict, fields_of

Bug = Literal[*FIXES]  # type: ignore[valid-type]
Relation = Literal[*RELATIONS]  # type: ignore[valid-type]


class InfoOfTrace(Strict):
    schema_: Literal["wastedcores.info/1"] = Field(alias="schema")
    name: str
    header: Header
    kinds: dict[str, int]


class CountersFound(fields_of(schedstat.Counters, "cpus", "since_boot", "notes")):  # type: ignore[misc]
    cpus: str = Field(description="a list as the kernel writes it, such as 0-3,8")
    domains: int


class InfoOfCounters(Strict):
    schema_: Literal["wastedcores.info/1"] = Field(alias="schema")
    name: str
    counters: CountersFound


class Info(RootModel):
    """What ``wastedcores info TRACE --json`` prints of a trace, or of a file with the scheduler's counters."""

    root: InfoOfTrace | InfoOfCounters


class Recording(Strict):
    """What ``wastedcores capture``, ``guest record`` and ``import`` print with ``--json``."""

    schema_: Literal["wastedcores.recording/1"] = Field(alias="schema")
    path: str
    header: Header


class Export(Strict):
    """What ``wastedcores export --json`` prints."""

    schema_: Literal["wastedcores.export/1"] = Field(alias="schema")
    path: str
    bytes: int
    verdict: Verdict


class DataSet(fields_of(Entry, "file")):  # type: ignore[misc]
    name: str
    bytes: int | None
    events: int | None
    kernel_release: str | None
    workload: str | None
    path: str | None


class DataSets(Strict):
    schema_: Literal["wastedcores.data/1"] = Field(alias="schema")
    datasets: list[DataSet]


class Fetched(Strict):
    schema_: Literal["wastedcores.data/1"] = Field(alias="schema")
    name: str
    path: str


class Data(RootModel):
    """What ``wastedcores data --json`` prints of all data sets, and ``data NAME --json`` of one that it fetched."""

    root: DataSets | Fetched


class CountedDomain(fields_of(schedstat.Domain)):  # type: ignore[misc]
    pass


class CountedCpu(fields_of(schedstat.Cpu, "domains")):  # type: ignore[misc]
    domains: list[CountedDomain]


class Counted(fields_of(schedstat.Counters, "cpus")):  # type: ignore[misc]
    mean: CountedCpu
    cpus: dict[str, CountedCpu]


class Schedstat(Strict):
    """What ``wastedcores schedstat --json`` prints."""

    schema_: Literal["wastedcores.schedstat/1"] = Field(alias="schema")
    runs: list[Counted]


class RelationShare(Strict):
    relation: Relation
    level: str
    share: float


class CauseShare(Strict):
    cause: str
    share: float


class Pair(Strict):
    idle_cpu: int
    overloaded_cpu: int
    met_ns: int
    relation: Relation
    level: str


class Proposal(Strict):
    fix: Bug | Literal["all_fixes"]  # type: ignore[valid-type]
    gain: float
    gain_low: float
    gain_high: float


class Prediction(Strict):
    trust: Trust | None
    reasons: list[str]
    upper_bound: Range | None  # type: ignore[valid-type]


class Price(fields_of(price.Price, "judgement")):  # type: ignore[misc]
    judgement: Literal[*JUDGEMENTS]  # type: ignore[valid-type]


class Explain(Strict):
    """What ``wastedcores explain --json`` prints; without ``--seeds`` nothing is proposed or predicted."""

    schema_: Literal["wastedcores.explain/1"] = Field(alias="schema")
    looks_like: Literal[*NAMES]  # type: ignore[valid-type]
    kernel: str
    machine: str
    fix: str | None
    cured_share: float | None
    evidence: list[str]
    relations: list[RelationShare]
    causes: list[CauseShare]
    pairs: list[Pair]
    price: Price | None
    proposals: list[Proposal] | None
    prediction: Prediction | None


class OnPath(Strict):
    pid: int
    comm: str
    running_ns: int
    avoidable_ns: int
    other_waiting_ns: int
    sleeping_ns: int
    cpus: list[int]


class Segment(Strict):
    start_ns: int
    end_ns: int
    what: Literal["running", "waiting", "sleeping"]
    pid: int
    comm: str
    cpu: int
    why: str | None
    avoidable_ns: int


class Path(Strict):
    """What ``wastedcores path --json`` prints."""

    schema_: Literal["wastedcores.path/1"] = Field(alias="schema")
    start_ns: int
    end_ns: int
    end: str
    running_ns: int
    avoidable_ns: int
    other_waiting_ns: int
    sleeping_ns: int
    threads: list[OnPath]
    segments: list[Segment]


class Compared(Strict):
    name: str
    unit: str
    first: float | None
    second: float | None
    change: Literal["same", "better", "worse"] | None


class CompareTraces(Strict):
    """What ``wastedcores compare TRACE TRACE --json`` prints."""

    schema_: Literal["wastedcores.compare_traces/1"] = Field(alias="schema")
    traces: tuple[str, str]
    aligned_by: str
    zeros_ns: tuple[int, int]
    differences: list[str]
    not_known_same: list[str]
    verdicts: tuple[Verdict, Verdict]
    rows: list[Compared]


class Work(Strict):
    tasks: int
    sleeps: int
    recognised: float = Field(description="the share of the sleeps whose cause is recognised")
    guessed: float
    unknown: float
    classes: dict[str, int]


class Recovered(Work):
    """What ``wastedcores recover --json`` prints."""

    schema_: Literal["wastedcores.recovered/1"] = Field(alias="schema")
    notes: list[str]
    workload: str
