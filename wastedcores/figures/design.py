"""Figures of how the core of a design treated the suggestions of its modules (docs/design-mode.md)."""

from __future__ import annotations

import plotly.graph_objects as go
import polars as pl

from wastedcores.analysis.compare import Comparison
from wastedcores.errors import MissingEventsError
from wastedcores.figures.theme import GRID, INK, palette, style
from wastedcores.trace.trace import Trace


def suggestions(
    found: Comparison, title: str = "", subtitle: str = "", *, palette_name: str = "safe"
) -> go.Figure:
    """Draw how many suggestions the core took and refused, per run, module and moment.

    Parameters
    ----------
    found
        From :func:`wastedcores.analysis.compare.compare`.
    title
        What stands above the figure; default: the share of refused suggestions.
    subtitle
        What stands below the title.
    palette_name
        ``safe`` or ``paper``, see :mod:`wastedcores.figures.theme`.

    Returns
    -------
    plotly.graph_objects.Figure
        Stacked bars.

    Raises
    ------
    MissingEventsError
        No run is a replay of a design with modules.
    """
    made = found.suggestions.filter(pl.col("silent") < pl.col("asked"))
    if not found.suggestions.height:
        raise MissingEventsError(
            "No run has modules whose suggestions could be counted. Compare replays of designs, such as "
            "core+cache_affinity."
        )
    colours = palette(palette_name)
    where = [
        made["run"].to_list(),
        [f"{m}: {w}" for m, w in zip(made["module"], made["moment"], strict=True)],
    ]
    fig = go.Figure()
    for answer, colour in (("taken", colours.idle), ("refused", colours.waiting)):
        fig.add_trace(
            go.Bar(
                x=where,
                y=made[answer].to_list(),
                name=answer,
                marker_color=colour,
                hovertemplate="%{x}: %{y} " + answer + "<extra></extra>",
            )
        )
    fig.update_layout(barmode="stack")
    fig.update_yaxes(title_text="suggestions", rangemode="tozero", gridcolor=GRID)
    refusals = sum(made["refused"].to_list())
    share = refusals / max(refusals + sum(made["taken"].to_list()), 1)
    return style(
        fig, title or f"The core refused {share:.1%} of the suggestions", subtitle, height=440
    )


def refused(trace: Trace, rows: int = 12, title: str = "") -> go.Figure:
    """Draw a table of the first suggestions that the core refused.

    Parameters
    ----------
    trace
        Replay of a design.
    rows
        Rows of the table at most.
    title
        What stands above the table; default: a count of the refused suggestions.

    Returns
    -------
    plotly.graph_objects.Figure
        The table: time, module with moment and reason, thread, its CPU, and the suggested CPU.
    """
    log = trace.only("balance").filter(pl.col("op").cast(pl.String) == "refused").collect()
    first = log.head(rows)
    columns = {
        "time, ms": [f"{t / 1e6:.3f}" for t in first["ts_ns"]],
        "module: moment, reason": first["text"].to_list(),
        "thread": ["-" if c is None else c for c in first["comm"].cast(pl.String)],
        "was on CPU": first["src_cpu"].to_list(),
        "suggested CPU": first["cpu"].to_list(),
    }
    fig = go.Figure(
        go.Table(
            columnwidth=[2, 6, 3, 2, 2],
            header={
                "values": [f"<b>{name}</b>" for name in columns],
                "align": "left",
                "fill_color": GRID,
                "font": {"color": INK},
            },
            cells={
                "values": list(columns.values()),
                "align": "left",
                "fill_color": "#ffffff",
                "font": {"color": INK},
                "height": 26,
            },
        )
    )
    title = title or (f"{log.height} suggestions refused; the first {first.height}")
    return style(fig, title, "", height=150 + 28 * first.height)
