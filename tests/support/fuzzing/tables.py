"""Changes the table of a Parquet file without a seal, as a program would that reads it and writes it anew."""

from __future__ import annotations

import io
import json
import random

import polars as pl
import pyarrow.parquet as pq

from support.fuzzing.mutators import MAGIC
from wastedcores.trace.parquet import HEADER_KEY

_NUMBERS = ("cpu", "src_cpu", "pid", "prev_pid", "by_pid", "nr_running", "prio", "value", "ts_ns")
_TEXTS = ("comm", "prev_comm", "prev_state", "kind", "text", "op")


def mutate_table(data: bytes, rng: random.Random) -> tuple[bytes, int]:
    """Return a file with one to five changes of its rows, columns or header, and how many they are.

    Three times of four, the header counts the changed rows, so that the file does not contradict itself there.

    Parameters
    ----------
    data
        A valid file.
    rng
        Source of all choices.
    """
    metadata = pq.read_metadata(io.BytesIO(data)).metadata[HEADER_KEY.encode()]
    header = json.loads(metadata)
    table = pl.read_parquet(io.BytesIO(data))
    n = 1 + min(int(rng.expovariate(0.7)), 4)
    for _ in range(n):
        table = rng.choice((_rows, _rows, _cells, _cells, _cells, _column))(table, rng)
    if rng.random() < 0.75 and {"kind", "ts_ns"} <= set(table.columns):
        kinds = table["kind"].cast(pl.String).value_counts().drop_nulls().iter_rows()
        start, end = table["ts_ns"].min(), table["ts_ns"].max()
        header |= {"events": table.height, "kinds": dict(kinds), "start_ns": start, "end_ns": end}
    if rng.random() < 0.1:
        key = rng.choice(sorted(header))
        header[key] = rng.choice((None, -1, 0, 10**9, "x", [], {}, [{}]))
    out = io.BytesIO()
    arrow = table.to_arrow(compat_level=pl.CompatLevel.oldest())
    entries = {HEADER_KEY: json.dumps(header, default=str)}
    pq.write_table(arrow.replace_schema_metadata(entries), out, compression="zstd")
    return out.getvalue(), n


def _rows(table: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    """Leave out, repeat, exchange or shuffle rows; times move along, or stay."""
    rows = list(range(table.height))
    i, n = rng.randrange(len(rows) + 1), rng.choice((1, 1, 1, 2, 5, 20))
    match rng.randrange(5):
        case 0:
            del rows[i : i + n]
        case 1:
            rows[i:i] = rows[i : i + n]
        case 2:
            rows[i : i + 2] = rows[i : i + 2][::-1]
        case 3:
            rows = [r for r in rows if rng.random() > 0.1]
        case 4:
            rng.shuffle(rows)
    changed = table[rows] if rows else table.clear()
    if "ts_ns" in changed.columns and rng.random() < 0.8:
        changed = changed.with_columns(changed["ts_ns"].sort())
    return changed


def _cells(table: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    """Change a few cells of a column: to a value of another row, to an extreme one, or to null."""
    names = [c for c in (*_NUMBERS, *_TEXTS) if c in table.columns]
    if not names or not table.height:
        return table
    name = rng.choice(names)
    values = table[name].to_list()
    for _ in range(rng.choice((1, 1, 1, 3, 20))):
        i = rng.randrange(len(values))
        old = values[i] if isinstance(values[i], int) else 0
        numbers = (rng.choice(MAGIC), old + 1, old - 1, 7)
        other = rng.choice(numbers) if name in _NUMBERS else "R"
        values[i] = rng.choice((rng.choice(values), rng.choice(values), other, None))
    try:
        return table.with_columns(pl.Series(name, values, dtype=table[name].dtype, strict=False))
    except (OverflowError, TypeError, pl.exceptions.PolarsError):
        return table  # a number that the column cannot hold


def _column(table: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    """Leave out a column, change its type, or add one."""
    name = rng.choice(table.columns)
    match rng.randrange(3):
        case 0:
            return table.drop(name) if table.width > 1 else table
        case 1:
            kind = rng.choice((pl.String, pl.Binary, pl.Int64, pl.Float32))
            try:
                return table.with_columns(pl.col(name).cast(kind, strict=False))
            except pl.exceptions.PolarsError:  # not from this type
                return table
        case _:
            return table.with_columns(extra=pl.lit(rng.choice((1, "x", None))))
