"""The same workloads under the kernels of ten years: recorded or, if there is no recording, replayed."""

from __future__ import annotations

import polars as pl

from wastedcores.files import read_table

FILE = "decade.csv"
SCHEMA: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(("workload", "kernel", "replayed", "unit"), pl.String),
    **dict.fromkeys(("result", "wasted_cpus", "wait_p99_ms"), pl.Float64),
}


def read_decade() -> pl.DataFrame:
    """Read the repository's own table, datasets/decade.csv, which ``tools/decade_table.py`` writes."""
    table = read_table(FILE, SCHEMA, "tools/decade_table.py")
    return table.with_columns(pl.col("replayed").fill_null(""))
