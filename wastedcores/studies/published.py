"""The published numbers, and which of them a calibration must never see.

The files are ``datasets/published/*.csv``, copied from the papers (its README names them). A *cell* is one printed
number; :data:`PREDICTED` lists the cells that this package predicts, so :func:`blanked` can hand a calibration tables
in which they do not exist.
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
}

#: table -> columns that are predicted, with the rows that are not (their values may calibrate)
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
        "q18_s": (),
        "q18_change_pct": (),
        "full_s": (),
        "full_change_pct": (),
    },
    "carver2019_claims": {"value": ()},
    "sites_claims": {"value": ()},
}


@dataclass(frozen=True)
class Tables:
    """Rows of every published table, keyed by what names the row.

    Attributes
    ----------
    cells
        ``(table, row, column) -> text``; a row of the table of Walcher is named ``"4 none"``.
    """

    cells: dict[tuple[str, str, str], str]

    def rows(self, table: str) -> list[str]:
        """Names of a table's rows, in the order printed."""
        return list(dict.fromkeys(row for t, row, _ in self.cells if t == table))

    def text(self, table: str, row: str, column: str) -> str:
        """What is printed there.

        Raises
        ------
        DatasetError
            No such cell, or one that was blanked.
        """
        value = self.cells.get((table, row, column))
        if value is None:
            raise DatasetError(
                f"{table}.csv has no cell {column!r} in row {row!r}; rows are {', '.join(self.rows(table))}."
            )
        if value == "":
            raise DatasetError(f"{table}.csv, row {row!r}, column {column!r}: the cell is blank.")
        return value

    def number(self, table: str, row: str, column: str) -> float:
        """The number printed there.

        Raises
        ------
        DatasetError
            No such cell, a blanked one, or no number.
        """
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
    """Read all published tables.

    Parameters
    ----------
    folder
        Where the CSV files lie; default the package's own.

    Raises
    ------
    DatasetError
        A file or a column is missing, or two rows have one name.
    """
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


def blanked(tables: Tables, predicted: dict[str, dict[str, tuple[str, ...]]] = PREDICTED) -> Tables:
    """Tables in which every predicted cell is empty: what a calibration gets to see."""
    return Tables(
        {
            (table, row, column): ""
            if column in predicted.get(table, {}) and row not in predicted[table][column]
            else value
            for (table, row, column), value in tables.cells.items()
        }
    )
