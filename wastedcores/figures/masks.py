"""Which CPUs a decision looked at (paper, Figure 5): a layer over the heat map."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import polars as pl

from wastedcores.analysis.scene import Scene, TimeAxis
from wastedcores.analysis.states import pixel_edges
from wastedcores.errors import MissingEventsError, UsageError
from wastedcores.figures.heatmaps import heatmap
from wastedcores.figures.theme import CLEAR, palette
from wastedcores.trace.trace import Trace


def considered_events(trace: Trace, cpu: int | None = None, op: str | None = None) -> pl.DataFrame:
    """The trace's considered events: ts_ns, cpu, op, cpu_mask; optionally of one CPU and one kernel function.

    Raises
    ------
    MissingEventsError
        None of that CPU and function; names what there is.
    """
    table = (
        trace.only("considered")
        .select("ts_ns", "cpu", pl.col("op").cast(pl.String), "cpu_mask")
        .collect()
    )
    if table.is_empty():
        raise MissingEventsError(
            f"{trace.name}: no 'considered' events, so the CPUs looked at cannot be drawn. sched_profiler traces, the "
            "`considered` collector and replay have them."
        )
    part = table
    if cpu is not None:
        part = part.filter(pl.col("cpu") == cpu)
    if op is not None:
        part = part.filter(pl.col("op") == op)
    if part.is_empty():
        cpus = sorted(table["cpu"].unique().to_list())
        raise MissingEventsError(
            f"{trace.name}: no considered event of CPU {cpu}, function {op}; there are some of CPUs "
            f"{cpus[0]}-{cpus[-1]} and of {', '.join(sorted(table['op'].drop_nulls().unique().to_list()))}."
        )
    return part


def unpack_masks(masks: pl.Series, n_cpus: int) -> np.ndarray:
    """CPU masks (little-endian bit strings) as bool (events, n_cpus)."""
    width = (n_cpus + 7) // 8
    raw = b"".join((m or b"")[:width].ljust(width, b"\0") for m in masks)
    bits = np.unpackbits(
        np.frombuffer(raw, np.uint8).reshape(len(masks), width), axis=1, bitorder="little"
    )
    return bits[:, :n_cpus].astype(bool)


def considered(
    scene: Scene,
    events: pl.DataFrame,
    window: tuple[int, int] | None = None,
    *,
    cols: int = 1000,
    palette_name: str = "safe",
    title: str = "",
) -> go.Figure:
    """The heat map with the CPUs looked at drawn over it.

    Parameters
    ----------
    events
        From :func:`considered_events`.

    Raises
    ------
    UsageError
        Empty window.
    """
    if events.is_empty():
        raise UsageError("no considered events to draw.")
    window = window or scene.window
    colours = palette(palette_name)
    fig = heatmap(scene, window, cols=cols, palette_name=palette_name, title=title)
    edges = pixel_edges(*window, cols)
    inside = events.filter(pl.col("ts_ns").is_between(window[0], window[1], closed="left"))
    pixel = np.searchsorted(edges, inside["ts_ns"].to_numpy(), side="right") - 1
    seen = unpack_masks(inside["cpu_mask"], scene.states.n_cpus)[:, list(scene.cpus)]
    z = np.zeros((len(scene.cpus), edges.size - 1), np.int8)
    event, row = np.nonzero(seen)
    z[row, pixel[event]] = 1
    axis = TimeAxis.of(scene.window[0], window[1] - window[0])
    fig.add_trace(
        go.Heatmap(
            x=axis.at(edges),
            y=scene.rows(),
            z=z,
            zmin=0,
            zmax=1,
            colorscale=[
                (0, CLEAR),
                (0.5, CLEAR),
                (0.5, colours.considered),
                (1, colours.considered),
            ],
            showscale=False,
            hoverinfo="skip",
            name="considered",
        ),
        row=1,
        col=1,
    )
    fig.add_trace(
        go.Scatter(
            x=[None],
            y=[None],
            mode="markers",
            name="CPU looked at",
            hoverinfo="skip",
            marker={"symbol": "square", "size": 10, "color": colours.considered},
        ),
        row=3,
        col=1,
    )
    return fig
