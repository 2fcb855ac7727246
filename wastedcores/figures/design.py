"""What the core of a design made of its modules' suggestions (docs/design-mode.md)."""

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
    """Bars per run, module and moment: suggestions that the core took, and those that it refused.

    Raises
    ------
    MissingEventsError
        No run is a replay of a design with modules.
    """
    made = found.suggestions.filter(pl.col("silent") < pl.col("asked"))
    if not found.suggestions.height:
        raise MissingEventsError(
            "no run has modules whose suggestions could be counted; compare replays of designs, such as "
            "core+cache_affinity"
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
    """A table of the first suggestions that the core refused.

    Parameters
    ----------
    trace
        Replay of a design.
    rows
        How many to show.
    title
        Instead of one that counts them.
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
    said = title or f"{log.height} suggestions refused; the first {first.height}"
    return style(fig, said, "", height=150 + 28 * first.height)
