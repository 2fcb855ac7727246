"""Threads per runqueue over time, as in the paper's Figure 2, with the wasted cores below."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from wastedcores.analysis.scene import Scene, TimeAxis
from wastedcores.errors import MissingEventsError, UsageError
from wastedcores.figures import panels
from wastedcores.figures.theme import fit_legend, hatch, legend_entry, palette, style

#: the ways to show a pixel in which a runqueue had several lengths
REDUCTIONS = ("share", "longest", "last", "peak")


def heatmap(
    scene: Scene,
    window: tuple[int, int] | None = None,
    *,
    cols: int = 1000,
    palette_name: str = "safe",
    reduce: str = "share",
    title: str = "",
    height: int | None = None,
) -> go.Figure:
    """Draw the heat map, the episodes and the machine-wide curves of one trace on one time axis."""
    return _figure(
        [scene],
        [window],
        cols=cols,
        palette_name=palette_name,
        reduce=reduce,
        title=title,
        height=height,
    )


def side_by_side(
    left: Scene,
    right: Scene,
    windows: tuple[tuple[int, int] | None, tuple[int, int] | None] = (None, None),
    *,
    cols: int = 600,
    palette_name: str = "safe",
    reduce: str = "share",
    title: str = "",
    height: int | None = None,
) -> go.Figure:
    """Draw two traces next to each other; each begins at 0 on its own time axis, and both axes zoom together."""
    return _figure(
        [left, right],
        list(windows),
        cols=cols,
        palette_name=palette_name,
        reduce=reduce,
        title=title,
        height=height,
    )


def _figure(
    scenes: list[Scene],
    windows: list[tuple[int, int] | None],
    *,
    cols: int,
    palette_name: str,
    reduce: str,
    title: str,
    height: int | None,
) -> go.Figure:
    if reduce not in REDUCTIONS:
        raise UsageError(f"reduce={reduce!r}: expected one of {', '.join(REDUCTIONS)}.")
    colours = palette(palette_name)
    spans = [w or s.window for s, w in zip(scenes, windows, strict=True)]
    bins = [s.states.bin(*w, cols=cols, cpus=s.cpus) for s, w in zip(scenes, spans, strict=True)]
    width = max(end - start for start, end in spans)
    rows = max(len(s.cpus) for s in scenes)
    tall = height or heat_height(rows)
    n = len(scenes)
    fig = make_subplots(
        rows=3,
        cols=n,
        shared_xaxes="columns",
        row_heights=[0.72, 0.04, 0.24],
        vertical_spacing=0.02,
        horizontal_spacing=0.045,
        column_titles=[f"<b>{s.label}</b>" for s in scenes] if n > 1 else None,
    )
    # the titles of the columns must not overlap the names of the marks
    fig.update_annotations(yshift=13)
    top = max(1.0, *(float(np.nanmax(np.r_[b.idle, b.waiting])) * 1.25 for b in bins))
    for col, (scene, b, span) in enumerate(zip(scenes, bins, spans, strict=True), 1):
        # time 0 is the start of the trace, so a figure of a window shows the same times as a figure of the whole trace
        axis = TimeAxis.of(scene.window[0] if n == 1 else span[0], width)
        bar = panels.bar_beside(1.005, 0.72, 0.64) if col == n else None
        panels.add_tasks(fig, scene, b, axis, colours, row=1, col=col, reduce=reduce, bar=bar)
        panels.add_band(fig, scene, b, axis, colours, row=2, col=col)
        panels.add_strip(fig, b, axis, colours, row=3, col=col, top=top)
        wide = width if n > 1 else None
        panels.add_marks(fig, scene, axis, span, row=1, col=col, axis_ns=wide)
        lo, hi = (
            float(axis.at(span[0])),
            float(axis.at(span[0] + (width if n > 1 else span[1] - span[0]))),
        )
        fig.update_xaxes(range=[lo, hi], matches="x" if n > 1 else None, row=1, col=col)
        fig.update_xaxes(range=[lo, hi], matches="x" if n > 1 else None, row=2, col=col)
        fig.update_xaxes(
            range=[lo, hi],
            matches="x" if n > 1 else None,
            **axis.labels,
            title_standoff=6,
            row=3,
            col=col,
        )
    notes = [s.loss for s in scenes if s.loss]
    facts = dict.fromkeys(s.facts for s in scenes if s.facts)
    names = "" if n > 1 else scenes[0].label
    subtitle = " · ".join(p for p in (names, *facts) if p)
    style(fig, title, "<br>".join([subtitle, *(f"<b>{t}</b>" for t in notes)]), tall)
    fig.update_xaxes(showticklabels=False, ticks="", row=1)
    fig.update_xaxes(showticklabels=False, ticks="", row=2)
    fig.update_layout(hovermode="closest", margin_r=96)
    fig.update_layout(margin_t=fig.layout.margin.t + (34 if n > 1 else 8))
    _legend(fig, scenes, bins, colours)
    return fit_legend(fig)


def heat_height(rows: int) -> int:
    """Return the height of the figure in pixels: up to 16 rows have a name each, more rows are named by node."""
    return int(np.clip(250 + (19 if rows <= panels.NAMED_ROWS else 6) * rows, 380, 640))


def _legend(fig: go.Figure, scenes: list[Scene], bins: list, colours) -> None:
    """Add legend entries for the episodes, and for the hatching if there is any."""
    entries = [(colours.violation, f"wasting for {scenes[0].persist_ns / 1e6:g} ms or longer")]
    entries.append((colours.short, "wasting for less"))
    for colour, name in entries:
        legend_entry(fig, name, {"color": colour}, row=3, col=1)
    if any((b.longest < 0).any() for b in bins):
        grey = {"color": "#c9cdd1", "line": {"width": 1, "color": "#9aa0a6"}}
        legend_entry(fig, "state unknown (hatched)", grey, row=3, col=1)


#: the loads at the ticks of the colour scale; a thread of nice 0 that is alone in its session has a load of 1024
LOAD_TICKS = (0, 1, 16, 128, 1024)


def load_heatmap(
    scene: Scene,
    window: tuple[int, int] | None = None,
    *,
    cols: int = 1000,
    title: str = "",
    height: int | None = None,
) -> go.Figure:
    """Draw the mean load of every runqueue over time (paper, Figure 2b)."""
    if scene.loads is None:
        raise MissingEventsError(
            f"{scene.label}: no 'load' events, so the load cannot be drawn. sched_profiler traces and captures "
            "with the schedtrace collector have them; ftrace and perf text do not."
        )
    start, end = window or scene.window
    bins = scene.loads.bin(start, end, cols=cols, cpus=scene.cpus)
    axis = TimeAxis.of(scene.window[0], end - start)
    fig = make_subplots(rows=1, cols=1)
    if np.isnan(bins.mean).any():
        fig.add_layout_image(
            source=hatch(),
            layer="below",
            sizing="stretch",
            xref="x domain",
            yref="y domain",
            x=0,
            y=1,
            sizex=1,
            sizey=1,
        )
    fig.add_heatmap(
        x=axis.at(bins.edges),
        y=scene.rows(),
        z=np.log2(1 + bins.mean).astype(np.float32),
        customdata=np.nan_to_num(bins.mean).round().astype(np.int32),
        zmin=0,
        zmax=float(np.log2(1 + max(np.nanmax(bins.mean, initial=0), LOAD_TICKS[-1]))),
        hoverongaps=False,
        colorscale="Cividis_r",
        colorbar={
            "tickvals": [float(np.log2(1 + v)) for v in LOAD_TICKS],
            "ticktext": [str(v) for v in LOAD_TICKS],
            "title": {"text": "load of the<br>runqueue", "font": {"size": 11}},
            "thickness": 14,
        },
        hovertemplate=f"%{{y}}, %{{x:{axis.digits}}} {axis.unit}<br>mean load %{{customdata}}<extra></extra>",
        name="load",
        row=1,
        col=1,
    )
    panels.cpu_axis(fig, scene, 1, 1)
    panels.add_marks(fig, scene, axis, (start, end), row=1, col=1)
    fig.update_xaxes(range=[float(axis.at(start)), float(axis.at(end))], **axis.labels)
    subtitle = " · ".join(p for p in (scene.label, scene.facts) if p)
    rows = len(scene.cpus)
    tall = height or int(np.clip(180 + (19 if rows <= panels.NAMED_ROWS else 5) * rows, 300, 560))
    return style(fig, title, "<br>".join(p for p in (subtitle, scene.loss) if p), tall)
