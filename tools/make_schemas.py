"""Write the JSON Schemas of what the verbs print with --json: ``python tools/make_schemas.py``.

What a class of the package describes already comes from that class; only the objects that verbs put together are described here.
``tests/integrations/test_schemas.py`` compares the files with what the verbs really print.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, get_type_hints

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, create_model

from wastedcores.analysis.gate import Outcome
from wastedcores.capture.service import WatchConfig
from wastedcores.capture.snapshot import Snapshot
from wastedcores.invariant import avoidable, who
from wastedcores.invariant.chronic import Chronic
from wastedcores.invariant.trust import Bound
from wastedcores.trace.header import Header

FOLDER = Path(__file__).resolve().parents[1] / "integrations" / "schemas"
Verdict = Literal["violations", "clean", "unknown"]
#: the columns of a table as the types of JSON
_TYPES = {pl.String: str, pl.Boolean: bool, pl.Float64: float}


class Strict(BaseModel):
    """An object without other keys than these."""

    model_config = ConfigDict(extra="forbid")


def fields_of(kind: Any, without: str = "") -> Any:
    """Return the object that has the fields of a dataclass or a named tuple."""
    hints = {n: (t, ...) for n, t in get_type_hints(kind).items() if n != without}
    return create_model(kind.__name__, __base__=Strict, **hints)


def row_of(name: str, schema: pl.Schema, unknown: tuple[str, ...] = ()) -> Any:
    """Return the object that is a row of a table; these columns may be null."""
    hints = {n: _TYPES.get(t.base_type(), int) for n, t in schema.items()}
    fields = {n: (t | None if n in unknown else t, ...) for n, t in hints.items()}
    return create_model(name, __base__=Strict, **fields)


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


class Moves(Strict):
    per_s: float | None
    across_caches_per_s: float | None
    across_nodes_per_s: float | None


class Check(Strict):
    """What ``wastedcores check --json`` prints; with ``--cgroups`` it has ``cgroups``, too."""

    schema_: Literal["wastedcores.check/3"] = Field(alias="schema")
    trace: Looked
    persist_ns: int
    verdict: Verdict
    kind: Literal["persistent", "chronic", "none"]
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
    doubts: list[Doubt]
    doubts_total: int
    oddities: dict[str, int]
    notes: list[str]
    episodes_dropped: int
    episodes_total: int
    episodes: list[Episode]
    moves: Moves
    cgroups: list[row_of("Group", who.SCHEMA, ("throttled_ns", "stolen_ns"))] = []  # type: ignore[misc]


class Judged(fields_of(Outcome, without="rule")):  # type: ignore[misc]
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


class Info(Strict):
    """What ``wastedcores info TRACE --json`` prints."""

    schema_: Literal["wastedcores.info/1"] = Field(alias="schema")
    name: str
    header: Header
    kinds: dict[str, int]


#: name of the file -> the model
MODELS: dict[str, type[BaseModel]] = {
    "check": Check,
    "fleet": Fleet,
    "gate": Gate,
    "info": Info,
    "snapshot": Snapshot,
    "watch-config": WatchConfig,
}


def schemas() -> dict[str, str]:
    """Return the text of every file by its name."""
    return {
        f"{name}.json": json.dumps(model.model_json_schema(), indent=1) + "\n"
        for name, model in MODELS.items()
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in schemas().items():
        (FOLDER / name).write_text(text)
