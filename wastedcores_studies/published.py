"""The published numbers, and which of them a calibration must never see.

The files ``datasets/published/*.csv`` are copied from the papers that their README names. A *cell* is one printed
number. :data:`PREDICTED` lists the cells that this package predicts, so that :func:`blanked` can give a calibration
tables without them.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

from wastedcores.errors import DatasetError
from wastedcores.files import find

#: file stem -> (columns that name a row, columns with numbers)
TABLES = {
    "lozi2016_table1": (("app",), ("bug_s", "fixed_s", "speedup")),
    "lozi2016_table2": (("fixes",), ("q18_s", "q18_change_pct", "full_s", "full_change_pct")),
    "lozi2016_table3": (("app",), ("bug_s", "fixed_s", "speedup")),
    "lozi2016_claims": (("id",), ("value",)),
    "walcher2019_tpch": (
        ("cores", "fixes"),
        ("q18_s", "q18_change_pct", "full_s", "full_change_pct"),
    ),
    "carver2019_claims": (("id",), ("value",)),
    "sites_claims": (("id",), ("value",)),
    "slides_claims": (("id",), ("value",)),
    "walcher2019_claims": (("id",), ("value",)),
    "newidle_claims": (("id",), ("value",)),
}

#: table -> predicted column -> rows that are not predicted, so that a calibration may use them
PREDICTED: dict[str, dict[str, tuple[str, ...]]] = {
    "lozi2016_table3": {"bug_s": (), "speedup": ()},
    "lozi2016_table2": {
        "q18_s": ("none",),
        "q18_change_pct": ("none",),
        "full_s": ("none",),
        "full_change_pct": ("none",),
    },
    "lozi2016_claims": {"value": ()},
    "walcher2019_tpch": {
        "q18_s": ("4 none",),
        "q18_change_pct": ("4 none",),
        "full_s": ("4 none",),
        "full_change_pct": ("4 none",),
    },
    "carver2019_claims": {"value": ()},
    "sites_claims": {"value": ()},
    "slides_claims": {"value": ()},
    "walcher2019_claims": {"value": ()},
    "newidle_claims": {"value": ()},
}


@dataclass(frozen=True)
class Tables:
    """The cells of all published tables."""

    #: (table, row, column) -> text. If two columns name a row, as in Walcher's table, both are in its name: ``"4 none"``.
    cells: dict[tuple[str, str, str], str]

    def rows(self, table: str) -> list[str]:
        """Return the names of a table's rows in the order in which they are printed."""
        return list(dict.fromkeys(row for t, row, _ in self.cells if t == table))

    def text(self, table: str, row: str, column: str) -> str:
        """Return the text of a cell."""
        value = self.cells.get((table, row, column))
        if value is None:
            raise DatasetError(
                f"{table}.csv has no cell {column!r} in row {row!r}; rows are {', '.join(self.rows(table))}."
            )
        if value == "":
            raise DatasetError(f"{table}.csv, row {row!r}, column {column!r}: the cell is blank.")
        return value

    def statement(self, table: str, row: str) -> tuple[str, ...]:
        """Return place, quantity, unit and value of a number in the text of a paper."""
        return tuple(self.text(table, row, c) for c in ("place", "quantity", "unit", "value"))

    def number(self, table: str, row: str, column: str) -> float:
        """Return the number in a cell."""
        text = self.text(table, row, column)
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise DatasetError(
                f"{table}.csv, row {row!r}, column {column!r}: expected a number, got {text!r}."
            )
        return value


def load(folder: Path | None = None) -> Tables:
    """Read all published tables."""
    folder = folder or find("datasets", "published")
    cells: dict[tuple[str, str, str], str] = {}
    for table, (keys, _) in TABLES.items():
        path = folder / f"{table}.csv"
        if not path.is_file():
            raise DatasetError(
                f"{path}: there is no such file; expected the published table {table}."
            )
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [k for k in (*keys, *TABLES[table][1]) if k not in (reader.fieldnames or ())]
            if missing:
                raise DatasetError(
                    f"{path.name}: column {missing[0]!r} is missing; the header is {reader.fieldnames}."
                )
            for line in reader:
                row = " ".join(line[k] for k in keys)
                for column, value in line.items():
                    if (table, row, column) in cells:
                        raise DatasetError(f"{path.name}: two rows are named {row!r}.")
                    cells[table, row, column] = value or ""
    return Tables(cells)


def blanked(tables: Tables) -> Tables:
    """Return tables in which every predicted cell is empty, for a calibration."""

    def predicted(table: str, row: str, column: str) -> bool:
        columns = PREDICTED.get(table, {})
        return column in columns and row not in columns[column]

    return Tables({cell: "" if predicted(*cell) else text for cell, text in tables.cells.items()})
