"""Keeps finished runs, one file each, until the table of all runs is written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from wastedcores.errors import UsageError
from wastedcores.files import written_whole
from wastedcores.sweep.run import Run, Value

#: columns that are not results of the task
_RESERVED = ("run", "code", "error")


class Store:
    """The finished runs of one sweep: in a folder with a file per run, and in a table when all runs have ended."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.folder = out.with_name(out.name + ".runs")

    def _earlier(self) -> list[dict[str, Value]]:
        """Return the rows of the existing table except those of failed runs."""
        if not self.out.exists():
            return []
        try:
            table = pl.read_parquet(self.out)
        except (pl.exceptions.PolarsError, OSError) as e:
            raise UsageError(
                f"{self.out}: expected the table of an earlier sweep, got a file that does not read as Parquet "
                f"({str(e).splitlines()[0]}). Name another file or remove it."
            ) from None
        if not {"run", "error"} <= set(table.columns):
            raise UsageError(
                f"{self.out}: expected the table of an earlier sweep (columns run, error), got columns "
                f"{', '.join(table.columns[:6])}. Name another file."
            )
        return table.filter(pl.col("error").is_null()).to_dicts()

    def others(self, runs: Sequence[Run]) -> list[dict[str, Value]]:
        """Return the rows of the existing table that the same code made for other runs."""
        keys, codes = {r.key for r in runs}, {r.code for r in runs}
        return [
            row for row in self._earlier() if row["run"] not in keys and row.get("code") in codes
        ]

    def finished(self, keys: set[str]) -> dict[str, dict[str, Value]]:
        """Return, by key, the rows of those runs in ``keys`` that need not be executed again."""
        done = {str(row["run"]): row for row in self._earlier() if row["run"] in keys}
        for path in self.folder.glob("*.json"):
            if path.stem in keys:
                try:
                    row = json.loads(path.read_text())
                except ValueError:  # a power failure may leave an empty file
                    continue
                if row.get("error") is None:
                    done[path.stem] = row
        return done

    def keep(self, key: str, row: dict[str, Value]) -> None:
        """Keep a finished run until the table is written."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with written_whole(self.folder / f"{key}.json") as part:
            part.write_text(json.dumps(row))

    def publish(self, table: pl.DataFrame, others: list[dict[str, Value]]) -> None:
        """Write the table and remove the kept runs."""
        self.out.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(self.out) as part:
            (_frame([*table.to_dicts(), *others]) if others else table).write_parquet(part)
        for path in self.folder.glob("*.json"):
            path.unlink()
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()


def table_of(results: list[tuple[Run, dict[str, Value]]]) -> pl.DataFrame:
    """Return one row per run; the columns are in the order of their first appearance, ``error`` last."""
    rows = []
    for run, row in results:
        given = {k: v for k, v in run.arguments if not isinstance(v, list | tuple | dict)}
        rest = {k: v for k, v in row.items() if k not in given and k not in _RESERVED}
        rows.append({"run": run.key, "code": run.code, **given, **rest, "error": row.get("error")})
    return _frame(rows)


def _frame(rows: list[dict[str, Value]]) -> pl.DataFrame:
    names = dict.fromkeys(k for row in rows for k in row if k != "error")
    return pl.DataFrame(
        [{n: _written(row.get(n)) for n in (*names, "error")} for row in rows],
        infer_schema_length=None,
        strict=False,
    ).with_columns(pl.col("error").cast(pl.String))


def _written(value: Value) -> Value:
    """Return a value as it is written to a table; bytes of a name that are not valid text are escaped."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value
