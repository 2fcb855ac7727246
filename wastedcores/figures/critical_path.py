"""The critical path over time: where its threads ran, waited and slept."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import polars as pl

from wastedcores.analysis.critical_path import CriticalPath
from wastedcores.figures.theme import GRID, MUTED, OTHER_CLASS, literal, palette, style
from wastedcores.units import human_ns

#: the kinds of time on the path, in the order in which they are drawn and listed
_KINDS = (
    ("running", "running"),
    ("avoidable", "waiting beside an idle CPU that it may use"),
    ("waiting", "other waiting for a CPU"),
    ("sleeping", "sleeping"),
)

#: at most this many segments are drawn; the shortest ones are left out
_MOST = 4000


def path_timeline(path: CriticalPath, title: str = "", *, palette_name: str = "safe") -> go.Figure:
    """Draw each segment of a critical path as a line on the row of its CPU, and in a panel above how the time adds up."""
    colours = palette(palette_name)
    shade = {
        "running": MUTED,
        "avoidable": colours.violation,
        "waiting": OTHER_CLASS,
        "sleeping": colours.idle,
    }
    longest = path.segments.with_columns(length=pl.col("end_ns") - pl.col("start_ns")).top_k(
        _MOST, by="length"
    )
    segments = longest.sort("start_ns")
    cpus = sorted(set(segments["cpu"].to_list()) - {-1})
    row = {cpu: i + 1 for i, cpu in enumerate(cpus)}
    fig = go.Figure()
    for kind, name in _KINDS:
        part = _of_kind(segments, kind)
        start, end = ((part[c].to_numpy() - path.start_ns) / 1e6 for c in ("start_ns", "end_ns"))
        y = np.array([-1 if kind == "sleeping" else row.get(c, 0) for c in part["cpu"]], float)
        gap = np.full(len(y), np.nan)
        words = [
            f"{literal(comm)} {pid} {name}, {human_ns(length)}" + (f": {why}" if why else "")
            for comm, pid, why, length in part.select(
                "comm", "pid", "why", pl.col("end_ns") - pl.col("start_ns")
            ).iter_rows()
        ]
        fig.add_scatter(
            x=np.column_stack([start, end, gap]).ravel(),
            y=np.column_stack([y, y, gap]).ravel(),
            mode="lines",
            line={"color": shade[kind], "width": 5, "simplify": False},
            name=f"{name}: {human_ns(_total(path, kind))}",
            text=np.repeat(words, 3),
            hovertemplate="%{x:.3f} ms, %{text}<extra></extra>",
        )
    totals = path.totals
    title = title or (
        f"Of {human_ns(path.length_ns)}, {human_ns(totals['avoidable'])} on the critical path were spent waiting beside an "
        "idle CPU"
    )
    left_out = path.segments.height - segments.height
    shortest = path.length_ns - int(segments["length"].sum())
    subtitle = f"path to {literal(path.end)}" + (
        f" · the {left_out:,} shortest segments, {human_ns(shortest)} in all, are not drawn"
        if left_out
        else ""
    )
    style(fig, title, subtitle, 220 + 9 * min(len(cpus), 64))
    step = max(1, len(cpus) // 24)
    ticks = [-1, *(row[c] for c in cpus[::step])]
    names = ["asleep", *(f"CPU {c}" for c in cpus[::step])]
    fig.update_yaxes(tickvals=ticks, ticktext=names, range=[-1.8, len(cpus) + 0.8], automargin=True)
    fig.update_xaxes(
        title="time since the path began (ms)",
        title_standoff=4,
        automargin=True,
        range=[0, path.length_ns / 1e6],
        showgrid=True,
        gridcolor=GRID,
    )
    fig.update_layout(showlegend=True)
    return fig


def _of_kind(segments: pl.DataFrame, kind: str) -> pl.DataFrame:
    """Return the segments of a kind. A partly avoidable wait is drawn as two parts: the avoidable time, then the rest."""
    if kind not in ("avoidable", "waiting"):
        return segments.filter(pl.col("what") == kind)
    change = pl.col("start_ns") + pl.col("avoidable_ns")
    edge = {"end_ns": change} if kind == "avoidable" else {"start_ns": change}
    parts = segments.filter(pl.col("what") == "waiting").with_columns(**edge)
    return parts.filter(pl.col("end_ns") > pl.col("start_ns"))


def _total(path: CriticalPath, kind: str) -> int:
    return path.totals["other_waiting" if kind == "waiting" else kind]
