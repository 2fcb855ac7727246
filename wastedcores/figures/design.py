"""Figures of how the core of a design treated the suggestions of its modules (docs/design-mode.md)."""

from __future__ import annotations

import plotly.graph_objects as go
import polars as pl

from wastedcores.analysis.compare import Comparison
from wastedcores.errors import MissingEventsError
from wastedcores.figures.theme import GRID, fit_legend, folded_name, palette, style


def suggestions(
    found: Comparison, title: str = "", subtitle: str = "", *, palette_name: str = "safe"
) -> go.Figure:
    """Draw how many suggestions the core took and refused, per run, module and moment."""
    made = found.suggestions.filter(pl.col("silent") < pl.col("asked"))
    if not found.suggestions.height:
        raise MissingEventsError(
            "No run has modules whose suggestions could be counted. Compare replays of designs, such as "
            "core+cache_affinity."
        )
    colours = palette(palette_name)
    where = [
        f"{folded_name(run)}<br>{module}: {moment}"
        if made["run"].n_unique() > 1
        else f"{module}: {moment}"
        for run, module, moment in made.select("run", "module", "moment").iter_rows()
    ]
    fig = go.Figure()
    for answer, colour in (("taken", colours.idle), ("refused", colours.waiting)):
        fig.add_bar(
            x=made[answer].to_list(),
            y=where,
            orientation="h",
            name=answer,
            marker_color=colour,
            hovertemplate="%{y}: %{x} " + answer + "<extra></extra>",
        )
    fig.update_layout(barmode="stack")
    fig.update_xaxes(
        title_text="suggestions",
        title_standoff=20,
        rangemode="tozero",
        gridcolor=GRID,
        showgrid=True,
    )
    fig.update_yaxes(type="category", autorange="reversed", ticks="", automargin=True)
    lines = sum(2 + name.count("<br>") for name in where)
    refusals = sum(made["refused"].to_list())
    share = refusals / max(refusals + sum(made["taken"].to_list()), 1)
    title = title or f"The core refused {share:.1%} of the suggestions"
    return fit_legend(style(fig, title, subtitle, height=150 + 16 * max(lines, 6)))
