"""What the models of several verbs have in common."""

from __future__ import annotations

from typing import Any, Literal, get_type_hints

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, create_model

from wastedcores.prediction.result import Range as _Range
from wastedcores.simulator.design import SUGGESTIONS

Verdict = Literal["violations", "clean", "unknown"]
#: how far to trust a prediction
Trust = Literal["high", "medium", "low"]
#: the columns of a table as the types of JSON
_TYPES = {pl.String: str, pl.Boolean: bool, pl.Float64: float}


class Strict(BaseModel):
    """An object without other keys than these."""

    model_config = ConfigDict(extra="forbid")


def absent(description: str | None = None) -> Any:
    """Return a key that may be missing."""
    return Field(default_factory=lambda: None, description=description)


def fields_of(kind: Any, *without: str) -> Any:
    """Return the object that has the fields of a dataclass or a named tuple."""
    hints = {n: (t, ...) for n, t in get_type_hints(kind).items() if n not in without}
    return create_model(kind.__name__, __base__=Strict, **hints)


def row_of(name: str, schema: pl.Schema, unknown: tuple[str, ...] = ()) -> Any:
    """Return the object that is a row of a table; these columns may be null."""
    hints = {n: _TYPES.get(t.base_type(), int) for n, t in schema.items()}
    fields = {n: (t | None if n in unknown else t, ...) for n, t in hints.items()}
    return create_model(name, __base__=Strict, **fields)


Range = fields_of(_Range)
#: the fate of the suggestions of a design's modules
Suggestions = row_of("Suggestions", SUGGESTIONS)


class Moves(Strict):
    per_s: float | None
    across_caches_per_s: float | None
    across_nodes_per_s: float | None
