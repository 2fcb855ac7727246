"""The answers of the verbs that replay: replay, compare, whatif, sweep, scenarios, reproduce and guest compare."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from wastedcores.analysis.compare import CALLS
from wastedcores.guest.compare import QUANTITIES
from wastedcores_studies.attempts import Attempt

from .parts import Moves, Range, Strict, Suggestions, Trust, Verdict, absent, fields_of, row_of
from .traces import Work
from .verdicts import Checked

Quantity = Literal[*QUANTITIES]  # type: ignore[valid-type]


class Scenario(Strict):
    name: str
    doc: str
    machine: str
    fix: str
    kernel: str
    parameters: dict[str, Any]


class Scenarios(Strict):
    """What ``wastedcores scenarios --json`` prints."""

    schema_: Literal["wastedcores.scenarios/1"] = Field(alias="schema")
    scenarios: list[Scenario]


class Sweep(Strict):
    """What ``wastedcores sweep --json`` prints."""

    schema_: Literal["wastedcores.sweep/1"] = Field(alias="schema")
    table: str
    runs: int
    failed: int


class Result(Strict):
    name: str
    value: float | None


class Task(Strict):
    completed_ns: int | None
    units: int


class Replay(Strict):
    """What ``wastedcores replay --json`` prints."""

    schema_: Literal["wastedcores.replay/1"] = Field(alias="schema")
    scenario: str
    kernel: str
    warnings: list[str]
    machine: str
    seed: int
    makespan_ns: int
    result: Result | None
    busy_cpus: float
    busy_per_node: list[float]
    idle_while_overloaded: float
    tasks: dict[str, Task] = Field(description="by name and number, such as make/17")
    suggestions: list[Suggestions]  # type: ignore[valid-type]
    events: int
    wall_s: float
    invariant: Checked


class Run(Strict):
    """A run; of the migrations there is a number for each reason that the trace tells, such as ``migrations_balance``."""

    model_config = ConfigDict(
        json_schema_extra={"patternProperties": {"^migrations_[a-z_]+$": {"type": "integer"}}}
    )
    run: str
    makespan_s: float
    result: float | None
    result_name: str | None
    verdict: Verdict
    persistent_episodes: int
    wasted_s: float
    wasted_core_s: float
    busy_cpus: float
    waits: int
    wait_p50_ms: float | None
    wait_p90_ms: float | None
    wait_p99_ms: float | None
    wait_max_ms: float | None
    refused_suggestions: int | None
    migrations: int
    moves_per_s: float | None
    moves_across_caches_per_s: float | None
    moves_across_nodes_per_s: float | None
    balance: list[row_of("Calls", {n: t for n, t in CALLS.items() if n != "run"})]  # type: ignore[misc]
    suggestions: list[Suggestions]  # type: ignore[valid-type]


class Compare(Strict):
    """What ``wastedcores compare SCENARIO --json`` prints."""

    schema_: Literal["wastedcores.compare/1"] = Field(alias="schema")
    runs: list[Run]
    scenario: str
    machine: str
    seed: int
    warnings: list[str]


class Side(Strict):
    recorded: float
    replayed: float
    difference: float
    noise: float
    within_noise: bool
    quantity: Quantity  # type: ignore[valid-type]


class GuestCompare(Strict):
    """What ``wastedcores guest compare --json`` prints."""

    schema_: Literal["wastedcores.guest_compare/1"] = Field(alias="schema")
    scenario: str
    machine: str
    kernel: str
    model: str
    seeds: list[int]
    rows: list[Side]
    recorded: list[dict[Quantity, float]]  # type: ignore[valid-type]
    replayed: list[dict[Quantity, float]]  # type: ignore[valid-type]
    notes: list[str]


class Gain(Strict):
    kernel: str
    predicted: Range  # type: ignore[valid-type]
    booted: float
    noise: float
    confirmed: bool


class Confirmation(Strict):
    schema_: Literal["wastedcores.confirmation/1"] = Field(alias="schema")
    gains: list[Gain]
    kernels: list[GuestCompare]
    notes: list[str]


class RecordedRun(Strict):
    kernel: str
    machine: str
    window_ns: int
    busy_cpus: float
    wasted_cpus: float


class Predicted(Strict):
    kernel: str
    window_ns: Range | None  # type: ignore[valid-type]
    busy_cpus: Range  # type: ignore[valid-type]


class Itself(Predicted):
    wasted_cpus: Range  # type: ignore[valid-type]
    error: float
    waste_error: float


class Variant(Predicted):
    gain: float
    gain_low: float
    gain_high: float
    thread_ns: int
    moves: Moves | None


class WhatIf(Strict):
    """What ``wastedcores whatif --json`` prints; with ``--confirm`` it has ``confirmed``, too."""

    schema_: Literal["wastedcores.whatif/1"] = Field(alias="schema")
    recorded: RecordedRun
    recovered: Work
    itself: Itself
    trust: Trust
    reasons: list[str]
    seeds: int
    variants: list[Variant]
    confirmed: Confirmation = absent()


class Row(fields_of(Attempt, "published", "reading", "others")):  # type: ignore[misc]
    published: float | str
    ours: float | str | None
    low: float | None
    high: float | None
    ratio: float | None
    effect: float | None
    verdict: str
    reproduced: bool | None
    seeds: int
    beside: dict[str, float | str | None]


class Summary(Strict):
    rows: int
    calibrated: int
    predicted: int
    restated: int
    measured: int
    computed: int
    assumed: int
    failed: int
    direction_wrong: list[str]
    no_effect: list[str]
    predicted_reproduced: int
    predicted_median_error: float | None
    missed: list[str]


class NotTried(Strict):
    source: str
    quantity: str
    published: str
    why_not: str


class Reproduce(Strict):
    """What ``wastedcores reproduce --json`` prints of all parts but ``proofs``."""

    schema_: Literal["wastedcores.reproduce/1"] = Field(alias="schema")
    version: str
    commit: str
    parts: list[str]
    seeds: int
    replays: int
    calibration: dict[str, Any]
    rows: list[Row]
    summary: Summary
    not_tried: list[NotTried]


class States(Strict):
    states: int
    smallest: str


class Checks(Strict):
    check: str
    scheduler: str
    machine: str
    cpus: int
    threads: int
    runs: int
    states: int
    seconds: float
    outcomes: dict[str, States]
    claims: dict[str, int] = Field(description="claim -> the number of states that contradict it")


class Proofs(Strict):
    """What ``wastedcores reproduce proofs --json`` prints."""

    schema_: Literal["wastedcores.proofs/1"] = Field(alias="schema")
    rows: list[Checks]
