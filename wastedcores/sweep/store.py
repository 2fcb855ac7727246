"""Finished runs, kept one file each until the table is written in one go."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from wastedcores.errors import UsageError
from wastedcores.sweep.run import Run, Value


class Store:
    """Finished runs, one file each; the table when all are there."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.folder = out.with_name(out.name + ".runs")

    def _earlier(self) -> list[dict[str, Value]]:
        """Rows of the table as it is, without failed ones."""
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
        """Rows of the table that are of other runs, but of the same code."""
        keys, codes = {r.key for r in runs}, {r.code for r in runs}
        return [
            row for row in self._earlier() if row["run"] not in keys and row.get("code") in codes
        ]

    def finished(self, keys: set[str]) -> dict[str, dict[str, Value]]:
        """Rows of those of the keys that need not be run again."""
        done = {str(row["run"]): row for row in self._earlier() if row["run"] in keys}
        for path in self.folder.glob("*.json"):
            if path.stem in keys:
                try:
                    row = json.loads(path.read_text())
                except ValueError:  # cut off by a full disk: do it again
                    continue
                if row.get("error") is None:
                    done[path.stem] = row
        return done

    def keep(self, key: str, row: dict[str, Value]) -> None:
        """Keep a finished run until the table is written."""
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f"{key}.part"
        part.write_text(json.dumps(row))
        part.replace(self.folder / f"{key}.json")

    def publish(self, table: pl.DataFrame, others: list[dict[str, Value]]) -> None:
        """Write the table, with other rows behind it, and take the kept runs away."""
        self.out.parent.mkdir(parents=True, exist_ok=True)
        part = self.out.with_name(self.out.name + ".part")
        (_frame([*table.to_dicts(), *others]) if others else table).write_parquet(part)
        part.replace(self.out)
        for path in self.folder.glob("*"):
            if path.suffix in (".json", ".part"):
                path.unlink()
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()


#: columns that are not the task's
_OURS = ("run", "code", "error")


def table_of(results: list[tuple[Run, dict[str, Value]]]) -> pl.DataFrame:
    """One row a run; columns in the order of first appearance, ``error`` last."""
    rows = []
    for run, row in results:
        given = {k: v for k, v in run.arguments if not isinstance(v, list | tuple | dict)}
        rest = {k: v for k, v in row.items() if k not in given and k not in _OURS}
        rows.append({"run": run.key, "code": run.code, **given, **rest, "error": row.get("error")})
    return _frame(rows)


def _frame(rows: list[dict[str, Value]]) -> pl.DataFrame:
    names = dict.fromkeys(k for row in rows for k in row if k != "error")
    return pl.DataFrame(
        [{n: row.get(n) for n in (*names, "error")} for row in rows],
        infer_schema_length=None,
        strict=False,
    ).with_columns(pl.col("error").cast(pl.String))
