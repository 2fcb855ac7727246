"""The CPUs that balancing or wakeup decisions looked at (paper, Figure 5), drawn over the heat map."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import polars as pl

from wastedcores.analysis.scene import Scene, TimeAxis
from wastedcores.analysis.states import pixel_edges
from wastedcores.errors import MissingEventsError, UsageError
from wastedcores.figures.heatmaps import heatmap
from wastedcores.figures.theme import CLEAR, fit_legend, legend_entry, palette
from wastedcores.trace.trace import Trace


def considered_events(trace: Trace, cpu: int | None = None, op: str | None = None) -> pl.DataFrame:
    """Return the ``considered`` events of a trace."""
    table = (
        trace.only("considered")
        .select("ts_ns", "cpu", pl.col("op").cast(pl.String), "cpu_mask")
        .collect()
    )
    if table.is_empty():
        raise MissingEventsError(
            f"{trace.name}: no 'considered' events, so the CPUs that were looked at cannot be drawn. sched_profiler "
            "traces, captures with the `considered` collector and replays that were asked for them (`considered=True`) have "
            "them."
        )
    part = table
    if cpu is not None:
        part = part.filter(pl.col("cpu") == cpu)
    if op is not None:
        part = part.filter(pl.col("op") == op)
    if part.is_empty():
        cpus = sorted(table["cpu"].unique().to_list())
        raise MissingEventsError(
            f"{trace.name}: there is no considered event of {f'CPU {cpu}' if cpu is not None else 'any CPU'} and "
            f"{f'the function {op}' if op else 'any function'}. There are events of CPUs "
            f"{cpus[0]}-{cpus[-1]} and of the functions {', '.join(sorted(table['op'].drop_nulls().unique().to_list()))}."
        )
    return part


def unpack_masks(masks: pl.Series, n_cpus: int) -> np.ndarray:
    """Unpack CPU masks."""
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
    """Draw the heat map, and over it the CPUs that each decision looked at."""
    if events.is_empty():
        raise UsageError("There are no considered events to draw.")
    window = window or scene.window
    colours = palette(palette_name)
    fig = heatmap(scene, window, cols=cols, palette_name=palette_name, title=title)
    edges = pixel_edges(*window, cols)
    inside = events.filter(pl.col("ts_ns").is_between(*window))
    # the last pixel includes its end, because a decision may be the last event of the trace
    place = np.searchsorted(edges, inside["ts_ns"].to_numpy(), side="right") - 1
    pixel = np.minimum(place, edges.size - 2)
    seen = unpack_masks(inside["cpu_mask"], scene.states.n_cpus)[:, list(scene.cpus)]
    z = np.zeros((len(scene.cpus), edges.size - 1), np.int8)
    event, row = np.nonzero(seen)
    z[row, pixel[event]] = 1
    axis = TimeAxis.of(scene.window[0], window[1] - window[0])
    fig.add_heatmap(
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
        row=1,
        col=1,
    )
    legend_entry(fig, "CPU looked at", {"color": colours.considered}, row=3, col=1)
    return fit_legend(fig)
