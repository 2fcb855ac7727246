"""The times that threads waited for a CPU: their distribution, and the threads that lost most."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots

from wastedcores.figures.theme import GRID, OTHER_CLASS, fit_legend, literal, palette, style

#: bins per factor of ten in the length of a wait
PER_DECADE = 8
#: units of the total time that threads waited, each with its ns
_UNITS = (("thread-seconds", 1e9), ("thread-ms", 1e6), ("thread-us", 1e3))


def waiting_times(
    waits: dict[str, np.ndarray],
    title: str = "",
    subtitle: str = "",
    *,
    persist_ns: int | None = None,
    palette_name: str = "safe",
    height: int = 380,
) -> go.Figure:
    """Draw the distribution of waiting times; the first bin also has the waits below 1 us."""
    colours = palette(palette_name)
    shades = (colours.waiting, "#5c6670", "#00795c", "#7b5ea7")
    top = max((float(w.max()) for w in waits.values() if w.size), default=1e3)
    edges = 10.0 ** np.arange(
        3,
        max(4.0, np.ceil(np.log10(top) * PER_DECADE) / PER_DECADE + 2 / PER_DECADE),
        1 / PER_DECADE,
    )
    fig = make_subplots(
        rows=1,
        cols=2,
        horizontal_spacing=0.09,
        subplot_titles=["time waited, by length of the wait", "waits at least that long"],
    )
    totals = {
        name: np.histogram(np.clip(w.astype(float), edges[0], None), edges, weights=w)[0]
        for name, w in waits.items()
    }
    highest = max((float(total.max()) for total in totals.values()), default=0.0)
    unit, scale = next((u, s) for u, s in _UNITS if highest >= s / 100 or u == "thread-us")
    lowest = 1.0
    for (name, w), colour in zip(waits.items(), shades, strict=False):
        total = totals[name]
        ordered = np.sort(w)
        share = 1 - np.searchsorted(ordered, edges, side="left") / max(1, w.size)
        keep = share > 0
        lowest = min(lowest, float(share[keep].min(initial=1)))
        fig.add_scatter(
            x=edges[:-1] / 1e6,
            y=total / scale,
            mode="lines",
            line={"color": colour, "shape": "hv", "width": 2},
            fill="tozeroy",
            name=name,
            legendgroup=name,
            hovertemplate=f"waits from %{{x:.3g}} ms: %{{y:.3g}} {unit}<extra>" + name + "</extra>",
            row=1,
            col=1,
        )
        fig.add_scatter(
            x=edges[keep] / 1e6,
            y=share[keep],
            mode="lines",
            line={"color": colour, "width": 2},
            name=name,
            legendgroup=name,
            showlegend=False,
            hovertemplate="%{y:.2%} of waits last %{x:.3g} ms or longer<extra>" + name + "</extra>",
            row=1,
            col=2,
        )
    for col in (1, 2):
        fig.update_xaxes(type="log", dtick=1, title="length of the wait (ms)", row=1, col=col)
        if persist_ns:
            line = {"color": colours.violation, "dash": "dot"}
            fig.add_vline(x=persist_ns / 1e6, line=line, row=1, col=col)
    if persist_ns:
        name = f"{persist_ns / 1e6:g} ms: an episode of this length is persistent"
        fig.add_scatter(x=[None], y=[None], mode="lines", line=line, name=name)
    fig.update_yaxes(title=unit, rangemode="tozero", row=1, col=1)
    fig.update_yaxes(
        type="log",
        dtick=1,
        tickformat=".3~%",
        title="share of waits",
        range=[min(np.log10(lowest) - 0.2, -1), 0.1],
        row=1,
        col=2,
    )
    style(fig, title, subtitle, height)
    fig.update_yaxes(showgrid=True, gridcolor=GRID)
    fig.update_layout(margin_t=fig.layout.margin.t + 16, showlegend=True)
    return fit_legend(fig)


def lost_time(
    threads: pl.DataFrame,
    title: str = "",
    subtitle: str = "",
    *,
    most: int = 16,
    palette_name: str = "safe",
) -> go.Figure:
    """Draw how long threads waited beside an idle CPU, for the threads that waited longest."""
    colours = palette(palette_name)
    part = threads.head(most).reverse()
    names = [literal(f"{comm} {pid}") for comm, pid in part.select("comm", "pid").iter_rows()]
    avoidable, waited = (part[c].to_numpy() / 1e6 for c in ("avoidable_ns", "waited_ns"))
    fig = go.Figure()
    for what, length, colour in (
        ("beside an idle CPU that it may use", avoidable, colours.violation),
        ("no CPU that it may use is known to have been idle", waited - avoidable, OTHER_CLASS),
    ):
        fig.add_bar(
            x=length,
            y=names,
            orientation="h",
            name=what,
            marker_color=colour,
            customdata=part["ran_ns"].to_numpy() / 1e6,
            hovertemplate="%{y} waited %{x:.3g} ms: "
            + what
            + "; it ran %{customdata:.3g} ms<extra></extra>",
        )
    style(fig, title, subtitle, 160 + 22 * len(names))
    fig.update_layout(barmode="stack", showlegend=True)
    fig.update_xaxes(
        title="time waited for a CPU (ms)", rangemode="tozero", gridcolor=GRID, showgrid=True
    )
    fig.update_yaxes(type="category", automargin=True)
    return fit_legend(fig)
