"""The columns that a query may name: those of every trace, and those that are computed when a query names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from wastedcores.queries.spans import SPANS
from wastedcores.trace.schema import COLUMNS, KINDS

#: what can be done with a column: compare numbers, compare texts, ask which CPUs are in a mask, or use it as a condition
NUMBER, TEXT, MASK, CONDITION = "number", "text", "mask of CPUs", "condition"


@dataclass(frozen=True)
class Column:
    """A column that a query may name."""

    name: str  #: its name
    type: str  #: ``number``, ``text``, ``mask of CPUs`` or ``condition``
    doc: str = ""  #: a sentence about it
    choices: tuple[str, ...] = ()  #: all values that it can have; empty: any


#: computed by :mod:`wastedcores.queries.decorate`, besides one column per span
_ADDED = (
    Column("idle_before_ns", NUMBER, "For a switch from idle: how long the CPU had been idle."),
    Column("node", NUMBER, "The NUMA node of `cpu`."),
    Column("frequency_khz", NUMBER, "The frequency that the trace last told about `cpu`, in kHz."),
    Column("cause", TEXT, "Why a task changes CPUs: wakeup, fork, or the `op` of a migration."),
)


def added_columns() -> dict[str, Column]:
    """Return the columns that are computed for a query that names them, by name."""
    spans = (Column(s.column, NUMBER, s.doc) for s in SPANS.values())
    return {c.name: c for c in (*_ADDED, *spans)}


def _type(dtype: pl.DataType) -> str | None:
    if dtype.is_numeric():
        return NUMBER
    if isinstance(dtype, pl.String | pl.Categorical | pl.Enum):
        return TEXT
    if isinstance(dtype, pl.Binary):
        return MASK
    return CONDITION if isinstance(dtype, pl.Boolean) else None


def columns_of(schema: Mapping[str, pl.DataType] | None = None) -> dict[str, Column]:
    """Return all columns that a query may name."""
    added = added_columns()
    found: dict[str, Column] = {}
    given: Iterable[tuple[str, pl.DataType]] = (
        ((c.name, c.dtype) for c in COLUMNS.values()) if schema is None else schema.items()
    )
    for name, dtype in given:
        type_ = _type(dtype)
        if type_ is not None:
            doc = COLUMNS[name].doc if name in COLUMNS else "Added by a decoration."
            found[name] = Column(name, type_, doc, KINDS if name == "kind" else ())
    return found | {name: column for name, column in added.items() if name not in found}
