"""Two recorded traces above each other on one time axis, with one colour scale, and the difference below them."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from wastedcores.analysis.alignment import Pair
from wastedcores.analysis.scene import TimeAxis
from wastedcores.analysis.states import Bins
from wastedcores.figures import panels
from wastedcores.figures.heatmaps import heat_height
from wastedcores.figures.theme import GRID, fit_legend, palette, style


def wasted(bins: Bins) -> np.ndarray:
    """Return how many cores were wasted in each pixel: idle CPUs, or waiting threads if these are fewer; NaN if unknown."""
    return np.where(bins.known > 0, np.minimum(bins.idle, bins.waiting), np.nan)


def aligned(
    pair: Pair,
    window: tuple[int, int] | None = None,
    *,
    cols: int = 700,
    palette_name: str = "safe",
    reduce: str = "share",
    title: str = "",
    height: int | None = None,
) -> go.Figure:
    """Draw two traces above each other, and how many more cores the first wasted than the second.

    ``window`` is on the common axis; ``cols`` columns per trace, at most 2000, are sent to the browser.
    """
    window = window or pair.window
    colours = palette(palette_name)
    axis = TimeAxis.of(0, window[1] - window[0])
    bins = pair.bins(window, cols)
    rows = [len(r.scene.cpus) for r in pair.runs]
    tall = height or min(sum(heat_height(n) for n in rows), 860)
    fig = make_subplots(
        rows=3,
        cols=1,
        shared_xaxes="columns",
        row_heights=[0.4, 0.4, 0.2],
        vertical_spacing=0.055,
        subplot_titles=[r.label for r in pair.runs] + ["cores wasted: the first minus the second"],
    )
    fig.update_annotations(x=0, xanchor="left", font_size=12)
    for row, (run, b) in enumerate(zip(pair.runs, bins, strict=True), 1):
        bar = panels.bar_beside(1.005, 0.4, 0.78) if row == 1 else None
        panels.add_tasks(fig, run.scene, b, axis, colours, row=row, reduce=reduce, bar=bar)
    difference = wasted(bins[0]) - wasted(bins[1])
    signs = (
        ("the first wastes more", np.maximum, colours.waiting),
        ("the second wastes more", np.minimum, colours.idle),
    )
    for name, part, colour in signs:
        fig.add_scatter(
            **panels.steps(
                axis, bins[0].edges, part(difference, 0), {"color": colour, "width": 1.2}
            ),
            mode="lines",
            fill="tozeroy",
            name=name,
            hovertemplate=f"%{{x:{axis.digits}}} {axis.unit}: %{{y:.1f}} cores<extra></extra>",
            row=3,
            col=1,
        )
    fig.update_yaxes(fixedrange=True, nticks=5, showgrid=True, gridcolor=GRID, row=3, col=1)
    style(fig, title, f"0 is the {pair.how}. Hatched: outside the trace, or not known.", tall)
    ends = [float(axis.at(t)) for t in window]
    fig.update_xaxes(range=ends, showticklabels=False, ticks="")
    fig.update_xaxes(showticklabels=True, ticks="outside", **axis.labels, row=3, col=1)
    fig.update_layout(margin_t=fig.layout.margin.t + 16, margin_r=96, hovermode="closest")
    return fit_legend(fig.update_layout(showlegend=True))
