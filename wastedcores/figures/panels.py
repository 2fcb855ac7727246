"""The panels that figures consist of. Each function adds to one subplot."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from wastedcores.analysis.scene import Scene, TimeAxis
from wastedcores.analysis.states import Bins
from wastedcores.figures.theme import (
    GRID,
    INK,
    MUTED,
    NARROW,
    Palette,
    add_hatch,
    literal,
    task_bar,
    task_scale,
)

#: more marks than this on one panel would be unreadable, so none is drawn
MAX_LINES = 8
#: more triangles than this on one band would cover each other
MAX_TRIANGLES = 200
#: up to this many rows each have a name
NAMED_ROWS = 16


def axis_names(fig: go.Figure, row: int, col: int) -> tuple[str, str]:
    """Return the references of a subplot's axes."""
    subplot = fig.get_subplot(row, col)
    return (
        subplot.xaxis.plotly_name.replace("axis", ""),
        subplot.yaxis.plotly_name.replace("axis", ""),
    )


def cpu_axis(
    fig: go.Figure, scene: Scene, row: int, col: int, labels: bool = True, *, numbers: bool = False
) -> None:
    """Name the rows (by CPU if there are few rows, otherwise by node), and draw lines between the nodes."""
    runs, rows = scene.node_starts(), scene.rows()
    if len(rows) <= NAMED_ROWS:
        node_of_row = {first: f"node {node} · " for node, first, _ in runs} if len(runs) > 1 else {}
        vals, text = rows, [node_of_row.get(i, "") + name for i, name in enumerate(rows)]
    elif runs and len(runs) < len(rows):
        vals = [rows[first + n // 2] for _, first, n in runs]
        text = [f"node {node}" for node, _, _ in runs]
    else:
        step = -(-len(rows) // 10)
        vals, text = rows[::step], rows[::step]
    if labels and any("·" in t for t in text):
        fig.update_layout(margin_l=112)
    fig.update_yaxes(
        **(
            {} if numbers else {"type": "category", "categoryorder": "array", "categoryarray": rows}
        ),
        range=[len(rows) - 0.5, -0.5],
        tickvals=[rows.index(v) for v in vals] if numbers else vals,
        ticktext=text,
        showticklabels=labels,
        ticks="",
        fixedrange=True,
        row=row,
        col=col,
    )
    xref, yref = axis_names(fig, row, col)
    for _, first, _ in runs[1:]:
        fig.add_shape(
            type="line",
            xref=f"{xref} domain",
            yref=yref,
            x0=0,
            x1=1,
            y0=first - 0.5,
            y1=first - 0.5,
            line={"color": INK, "width": 0.8},
        )


def add_tasks(
    fig: go.Figure,
    scene: Scene,
    bins: Bins,
    axis: TimeAxis,
    colours: Palette,
    *,
    row: int = 1,
    col: int = 1,
    reduce: str = "share",
    bar: dict | None = None,
) -> None:
    """Draw the threads on every runqueue over time (paper, Figure 2a)."""
    z = getattr(bins, reduce)
    z = np.minimum(z, 5).astype(np.int8)
    unknown = bool((z < 0).any())
    if unknown:
        add_hatch(fig, *axis_names(fig, row, col))
    says = {"share": "among others", "longest": "mostly", "last": "at the end", "peak": "at most"}
    fig.add_heatmap(
        x=axis.at(bins.edges),
        y=scene.rows(),
        z=z,
        customdata=np.minimum(bins.peak, 127).astype(np.int8),
        zmin=-1.5,
        zmax=5.5,
        colorscale=task_scale(colours),
        showscale=bar is not None,
        colorbar=bar or None,
        hovertemplate=f"%{{y}}, %{{x:{axis.digits}}} {axis.unit}<br>{says[reduce]} %{{z}}, peak %{{customdata}}"
        f" threads{'; -1 is unknown' if unknown else ''}<extra></extra>",
        name="threads per runqueue",
        row=row,
        col=col,
    )
    cpu_axis(fig, scene, row, col, labels=col == 1)


def add_band(
    fig: go.Figure,
    scene: Scene,
    bins: Bins,
    axis: TimeAxis,
    colours: Palette,
    *,
    row: int,
    col: int,
) -> None:
    """Draw the episodes in one row; the opacity of a pixel is the share of its time that they cover.

    A persistent episode that is narrower than a pixel would hardly be seen, so it is marked with a triangle.
    """
    from wastedcores.analysis.binning_jit import bin_cover

    width = np.diff(bins.edges).astype(float)
    pixel = float(bins.edges[-1] - bins.edges[0]) / width.size
    spans = np.empty((3, 0), np.int64)
    if scene.episodes is not None and scene.episodes.height:
        columns = (scene.episodes[c].to_numpy() for c in ("start_ns", "end_ns", "persistent"))
        spans = np.array([c.astype(np.int64) for c in columns])
    for long, colour, name in (
        (1, colours.violation, "persistent episodes"),
        (0, colours.short, "short episodes"),
    ):
        start, end, _ = spans[:, spans[2] == long]
        share = bin_cover(start, end, bins.edges) / width
        if not long and not share.any():
            continue
        fig.add_heatmap(
            x0=float(axis.at(bins.edges[0] + pixel / 2)),
            dx=pixel / axis.ns,
            y=["wasted"],
            z=[share.astype(np.float32)],
            zmin=0,
            zmax=1,
            colorscale=[(0, _faint(colour, 0)), (1, _faint(colour, 1))],
            showscale=False,
            hovertemplate=f"%{{x:{axis.digits}}} {axis.unit}: {name}, %{{z:.0%}} of the time<extra></extra>",
            name=name,
            row=row,
            col=col,
        )
    inside = (spans[0] < bins.edges[-1]) & (spans[1] > bins.edges[0])
    narrow = spans[:, (spans[2] > 0) & inside & (spans[1] - spans[0] < pixel)]
    if 0 < narrow.shape[1] <= MAX_TRIANGLES:
        fig.add_scatter(
            x=axis.at((narrow[0] + narrow[1]) / 2),
            y=["wasted"] * narrow.shape[1],
            mode="markers",
            marker={"symbol": "triangle-down", "size": 7, "color": colours.violation},
            name="persistent episodes, narrower than a pixel",
            showlegend=False,
            hovertemplate=f"%{{x:{axis.digits}}} {axis.unit}: persistent episode<extra></extra>",
            row=row,
            col=col,
        )
    fig.update_yaxes(
        type="category",
        fixedrange=True,
        ticks="",
        tickvals=["wasted"],
        ticktext=["wasting"],
        showticklabels=col == 1,
        row=row,
        col=col,
    )
    fig.update_xaxes(mirror=True, row=row, col=col)


def steps(
    axis: TimeAxis, edges: np.ndarray, values: np.ndarray, line: dict[str, Any]
) -> dict[str, Any]:
    """Return x, y and line of a plotly Scatter that draws one value per pixel, as a step as wide as the pixel.

    ``edges`` are the borders of the pixels in ns; NaN among the values leaves a gap.
    """
    values = values.astype(np.float32)
    if np.isnan(values).any():  # the steps of plotly would also leave out the pixel before a gap
        x, y = np.repeat(axis.at(edges), 2)[1:-1], np.repeat(values, 2)
        return {"x": x, "y": y, "line": line}
    return {"x": axis.at(edges), "y": np.r_[values, values[-1:]], "line": line | {"shape": "hv"}}


def add_strip(
    fig: go.Figure, bins: Bins, axis: TimeAxis, colours: Palette, *, row: int, col: int, top: float
) -> None:
    """Draw the numbers of idle CPUs and of waiting threads over time."""
    unknown = bins.known <= 0
    curves = (
        ("idle CPUs", bins.idle, colours.idle),
        ("waiting threads", bins.waiting, colours.waiting),
    )
    for name, values, colour in curves:
        fig.add_scatter(
            **steps(
                axis,
                bins.edges,
                np.where(unknown, np.nan, values),
                {"color": colour, "width": 1.6},
            ),
            mode="lines",
            fill="tozeroy",
            fillcolor=_faint(colour),
            name=name,
            legendgroup=name,
            showlegend=col == 1,
            hovertemplate=f"%{{x:{axis.digits}}} {axis.unit}: %{{y:.1f}} {name}<extra></extra>",
            row=row,
            col=col,
        )
    ticks = strip_ticks(top)
    fig.update_yaxes(
        range=[0, top], fixedrange=True, showticklabels=col == 1, tickvals=ticks, row=row, col=col
    )
    fig.update_yaxes(showgrid=True, gridcolor=GRID, row=row, col=col)


def strip_ticks(top: float) -> list[float]:
    """Return at most four round numbers from 0 on, with room below ``top`` for the name of the panel above."""
    limit = top / 1.15
    steps = [round(n * 10.0**k, 1) for k in range(-1, 9) for n in (1, 2, 5)]
    step = next(step for step in steps if limit / step < 4)
    return [round(step * i, 1) for i in range(int(limit / step) + 1)]


def add_marks(
    fig: go.Figure,
    scene: Scene,
    axis: TimeAxis,
    window: tuple[int, int],
    *,
    row: int,
    col: int,
    axis_ns: int | None = None,
) -> None:
    """Draw dotted lines at the marks that a person or a program wrote into the trace, with their texts at the top."""
    inside = [(t, text) for t, text in scene.marks if window[0] < t < window[1]]
    if not inside or len(inside) > MAX_LINES:
        return
    xref, yref = axis_names(fig, row, col)
    first, last = fig.get_subplot(row, col).xaxis.domain or (0, 1)
    wide = axis_ns or window[1] - window[0]
    places = _beside([(t - window[0]) / wide for t, _ in inside], [text for _, text in inside],
                     (last - first) * (NARROW - (fig.layout.margin.l or 72) - 98))  # fmt: skip
    for (t, text), anchor in zip(inside, places, strict=True):
        x = float(axis.at(t))
        fig.add_shape(
            type="line",
            xref=xref,
            yref=f"{yref} domain",
            x0=x,
            x1=x,
            y0=0,
            y1=1,
            line={"color": INK, "width": 1.2, "dash": "dot"},
        )
        if anchor is None:
            continue
        fig.add_annotation(
            x=x,
            y=1,
            xref=xref,
            yref=f"{yref} domain",
            yanchor="bottom",
            xanchor=anchor,
            text=literal(text.removeprefix("rec: ")),
            showarrow=False,
            font={"size": 10, "color": MUTED},
        )


def _beside(shares: list[float], texts: list[str], width: float) -> list[str | None]:
    """Return for each text an anchor that puts it beside its mark; None if it would cover another text or be cut off."""
    taken: list[tuple[float, float]] = []
    anchors: list[str | None] = []
    for share, text in zip(shares, texts, strict=True):
        x, long = share * width, 6.0 * len(text.removeprefix("rec: "))
        spans = {"left": (x, x + long), "right": (x - long, x)}
        # if another mark is close to the right, the text is first tried to the left of its mark
        if any(x < other * width < x + long for other in shares):
            spans = dict(reversed(spans.items()))
        fits = [
            anchor
            for anchor, (lo, hi) in spans.items()
            if lo >= 0 and hi <= width and all(hi <= a or lo >= b for a, b in taken)
        ]
        anchors.append(fits[0] if fits else None)
        taken += [spans[a] for a in fits[:1]]
    return anchors


def _faint(colour: str, opacity: float = 0.16) -> str:
    r, g, b = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({r},{g},{b},{opacity:g})"


def bar_beside(x: float, height: float, y: float) -> dict:
    """Return a colour bar as high as the heat map."""
    return {**task_bar(x), "len": height, "y": y, "yanchor": "middle", "lenmode": "fraction"}
