"""Table 4 of the paper beside this project's numbers, as a table of a notebook and in Markdown.

Both functions take the table of :func:`wastedcores.studies.table4.table_4`.
"""

from __future__ import annotations

import polars as pl

from wastedcores.words.rich_text import RichText, table

_HEADS = (
    "bug", "kernels, in the paper", "kernels, in the model", "impacted applications", "largest impact", "of", "replayed",
)  # fmt: skip


def bugs_table(rows: pl.DataFrame) -> RichText:
    """Tabulate the bugs: kernels, impacted applications, and the largest impact as published and as replayed."""
    return table(pl.DataFrame([dict(zip(_HEADS, cells, strict=True)) for cells in _cells(rows)]))


def bugs_markdown(rows: pl.DataFrame) -> str:
    """Return the same table in Markdown."""
    lines = [f"| {' | '.join(_HEADS)} |", "|---" * len(_HEADS) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(cells)} |" for cells in _cells(rows))]) + "\n"


def _cells(rows: pl.DataFrame) -> list[tuple[str, ...]]:
    return [
        (
            r["bug"].replace("_", " "), r["kernels_published"], r["kernels_modelled"], r["applications"],
            _impact(r["published"], r["unit"]), r["measured_with"], _replayed(r),
        )
        for r in rows.iter_rows(named=True)
    ]  # fmt: skip


def _replayed(r: dict[str, object]) -> str:
    if r["ours"] is None:
        return "not replayed"
    ours, low, high = (_impact(float(str(r[k])), str(r["unit"])) for k in ("ours", "low", "high"))
    return f"{ours} [{low}, {high}], {r['kind']}"


def _impact(value: float, unit: str) -> str:
    return f"{value:.0f} %" if unit == "percent" else f"{value:.3g}x"
