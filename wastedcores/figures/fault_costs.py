"""The figures of page faults: each of them over time (Sites, Anomalies in Linux Processor Use, Figure 6), and their cost."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots

from wastedcores.figures.theme import CLASS_COLOURS, GRID, INK, fit_legend, style
from wastedcores.probes.page_faults import grouped_cost_us

_SINGLE, _AT_ONCE = "touch", {4: "4 pages at once", 16: "16 pages at once"}


def page_faults(touches: pl.DataFrame) -> go.Figure:
    """Draw the first touch of every page of an allocation as a dash, and below the time that they took together.

    Parameters
    ----------
    touches
        From :func:`wastedcores.probes.page_faults.faults_over_time`.

    Returns
    -------
    plotly.graph_objects.Figure
        The figure.
    """
    length = (touches["end_ns"] - touches["start_ns"]).to_numpy() / 1e3
    start, end = touches["start_ns"].to_numpy() / 1e3, touches["end_ns"].to_numpy() / 1e3
    gap = np.full(len(start), np.nan)
    names = ["the allocation" if p < 0 else f"page {p}" for p in touches["page"]]
    texts = [f"{name}: {us:.1f} us" for name, us in zip(names, length, strict=True)]
    fig = make_subplots(
        rows=2, cols=1, shared_xaxes=True, row_heights=[0.25, 0.75], vertical_spacing=0.06
    )
    for first, last, name, colour in (
        (0, 1, "allocation", CLASS_COLOURS[1]),
        (1, len(start), "first touch of a page", CLASS_COLOURS[0]),
    ):
        x = np.stack([start, end, gap], axis=1)[first:last].ravel()
        fig.add_scatter(
            x=x, y=np.zeros(len(x)), mode="lines", name=name, line={"color": colour, "width": 26},
            text=np.repeat(texts[first:last], 3), hoverinfo="text", row=1, col=1,
        )  # fmt: skip
    fig.add_scatter(
        x=end, y=np.cumsum(length), mode="lines", line={"color": INK, "width": 2}, name="sum", showlegend=False,
        line_shape="hv", row=2, col=1,
    )  # fmt: skip
    fig.update_yaxes(visible=False, range=[-1, 1], row=1, col=1)
    fig.update_yaxes(title_text="sum (us)", gridcolor=GRID, rangemode="tozero", row=2, col=1)
    fig.update_xaxes(showgrid=True, gridcolor=GRID)
    fig.update_xaxes(title_text="time (us)", row=2, col=1)
    style(
        fig,
        f"The allocation took {length[0]:.0f} us, and touching its {len(length) - 1} pages {length[1:].sum():.0f} us",
        "a dash per first touch of a page, and the sum of their times; gaps are this program's own",
        height=420,
    )
    return fit_legend(fig)


def page_costs(table: pl.DataFrame) -> go.Figure:
    """Draw what a page costs in several ways of touching new memory, and what faults of several pages were predicted to cost."""
    fig = go.Figure()
    fig.add_bar(
        x=table["page_us"], y=table["way"], orientation="h", name="measured", marker_color=CLASS_COLOURS[0],
        hovertemplate="%{y}: %{x:.2f} us per page<extra></extra>",
    )  # fmt: skip
    found = set(table["way"])
    expected = {way: grouped_cost_us(table, n) for n, way in _AT_ONCE.items() if way in found}
    fig.add_scatter(
        x=list(expected.values()), y=list(expected), mode="markers", name="predicted",
        marker={"symbol": "diamond-open", "size": 13, "color": INK, "line": {"width": 2}},
        hovertemplate="%{y}: predicted %{x:.2f} us per page<extra></extra>",
    )  # fmt: skip
    single = table.filter(pl.col("way") == _SINGLE)["page_us"][0]
    best = table.sort("page_us").row(0, named=True)
    fig.update_yaxes(autorange="reversed")
    fig.update_xaxes(title_text="us per page", showgrid=True, gridcolor=GRID, rangemode="tozero")
    style(
        fig,
        f"{single:.2f} us per page with one fault each; {best['way']}: {best['page_us']:.2f} us",
        "allocation and first touch, medians; predictions use one page per fault and all pages at once only",
        height=380,
    )
    fig.update_layout(margin_l=130)
    return fit_legend(fig)
