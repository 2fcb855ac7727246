"""How recorded runs compare with replays of them, as a sentence and as a table.

Both take the table of :func:`wastedcores.studies.recorded.agreement.compared` or ``committed``.
"""

from __future__ import annotations

import polars as pl

from wastedcores.words.rich_text import RichText, sentence, table


def recorded_verdict(rows: pl.DataFrame) -> RichText:
    """One paragraph: how many figures of how many runs agree, which do not, and what the table was made with."""
    off = rows.filter(~pl.col("agrees"))
    which = ", ".join(f"{r} ({f})" for r, f in off.select("run", "figure").iter_rows()) or "none"
    when, version = rows.select("date", "version").row(0)
    made = f" Made on {when} with wastedcores {version}." if when else ""
    seeds = int(rows["seeds"].to_numpy().max())
    text = (
        f"{rows.height - off.height} of {rows.height} figures of {rows['run'].n_unique()} recorded runs agree with "
        f"{seeds} replays each. Do not agree: {which}."
    )
    return sentence(text + made)


def recorded_table(rows: pl.DataFrame) -> RichText:
    """Rows as numbers: run, figure, recorded, replayed, whether they agree."""

    def text(column: str) -> pl.Expr:
        return pl.col(column).map_elements(lambda v: f"{v:.4g}", return_dtype=pl.String)

    return table(
        rows.select(
            "run",
            "figure",
            text("recorded").alias("recorded"),
            text("median").alias("replayed, median"),
            pl.format("{} to {}", text("low"), text("high")).alias("5-95 %"),
            pl.when("agrees").then(pl.lit("yes")).otherwise(pl.lit("no")).alias("agrees"),
        )
    )
