"""Compares recorded runs with replays of them, in a paragraph and in a table.

Both functions take the table of :func:`wastedcores.recordings.agreement.compare_recordings` or ``read_agreement``.
"""

from __future__ import annotations

import polars as pl

from wastedcores.words.rich_text import RichText, count, sentence, table


def recorded_verdict(rows: pl.DataFrame) -> RichText:
    """Say how many quantities of how many runs agree, which do not, and what the table was made with."""
    off = rows.filter(~pl.col("agrees"))
    which = ", ".join(
        f"{run} ({quantity})" for run, quantity in off.select("run", "quantity").iter_rows()
    )
    when, version = rows.select("date", "version").row(0)
    words = [
        f"{rows.height - off.height} of {count(rows.height, 'quantity', 'quantities')} of "
        f"{count(rows['run'].n_unique(), 'recorded run')} agree with "
        f"{count(int(rows['seeds'].to_numpy().max()), 'replay')} each.",
        f"These do not agree: {which}." if which else "",
        f"The table was made on {when} with wastedcores {version}." if when else "",
    ]
    return sentence(" ".join(w for w in words if w))


def recorded_table(rows: pl.DataFrame) -> RichText:
    """Tabulate the comparison: run, quantity, recorded value, median and range of the replays, and whether they agree."""

    def text(column: str) -> pl.Expr:
        return pl.col(column).map_elements(lambda v: f"{v:.4g}", return_dtype=pl.String)

    return table(
        rows.select(
            "run",
            "quantity",
            text("recorded").alias("recorded"),
            text("median").alias("replayed, median"),
            pl.format("{} to {}", text("low"), text("high")).alias("5-95 %"),
            pl.when("agrees").then(pl.lit("yes")).otherwise(pl.lit("no")).alias("agrees"),
        )
    )
