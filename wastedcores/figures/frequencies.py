"""The frequency of every CPU over time, and how many CPUs were slow while they were busy."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from wastedcores.analysis.examined import Examined
from wastedcores.analysis.scene import TimeAxis
from wastedcores.analysis.slow import slow_while_busy
from wastedcores.analysis.states import pixel_edges
from wastedcores.figures import panels
from wastedcores.figures.theme import GRID, add_hatch, palette, style
from wastedcores.words.rich_text import count


def frequency(
    run: Examined,
    window: tuple[int, int] | None = None,
    *,
    cols: int = 1000,
    palette_name: str = "safe",
    title: str = "",
) -> go.Figure:
    """Draw how fast every CPU was, and below how many CPUs were busy and slow."""
    from wastedcores.analysis.binning_jit import bin_cover

    slow, scene = slow_while_busy(run), run.scene
    start, end = window or scene.window
    bins = slow.frequency.bin(start, end, cols=cols, cpus=scene.cpus)
    axis = TimeAxis.of(scene.window[0], end - start)
    fig = make_subplots(
        rows=2, cols=1, shared_xaxes=True, row_heights=[0.78, 0.22], vertical_spacing=0.03
    )
    mean = (bins.mean / 1e6).astype(np.float32)
    if np.isnan(mean).any():
        add_hatch(fig, "x", "y")
    fig.add_heatmap(
            x=axis.at(bins.edges),
            y=scene.rows(),
            z=mean,
            hoverongaps=False,
            colorscale="Cividis",
            colorbar={"title": {"text": "GHz", "font": {"size": 11}}, "thickness": 14, "len": 0.78,
                      "y": 0.61, "yanchor": "middle"},
            hovertemplate=f"%{{y}}, %{{x:{axis.digits}}} {axis.unit}<br>%{{z:.2f}} GHz<extra></extra>",
            name="frequency", row=1, col=1)  # fmt: skip
    panels.cpu_axis(fig, scene, 1, 1)
    panels.add_marks(fig, scene, axis, (start, end), row=1, col=1)
    edges = pixel_edges(start, end, cols)
    cover = np.zeros(edges.size - 1)
    for part in slow.spans.partition_by("cpu"):
        first, last = (part[c].to_numpy().astype(np.int64) for c in ("start_ns", "end_ns"))
        cover += bin_cover(first, last, edges) / np.diff(edges)
    # slow times were looked for only inside the run's window
    cover[(edges[1:] <= run.result.start_ns) | (edges[:-1] >= run.result.end_ns)] = np.nan
    colour = palette(palette_name).violation
    fig.add_scatter(
        **panels.steps(axis, edges, cover, {"color": colour, "width": 1.2}),
        mode="lines",
        fill="tozeroy",
        name="slow while busy",
        showlegend=False,
        hovertemplate=f"%{{x:{axis.digits}}} {axis.unit}: %{{y:.1f}} CPUs busy and slow<extra></extra>",
        row=2,
        col=1,
    )
    fig.update_yaxes(
        title_text="slow CPUs", rangemode="tozero", nticks=4, gridcolor=GRID, showgrid=True, fixedrange=True, row=2, col=1
    )  # fmt: skip
    fig.update_xaxes(range=[float(axis.at(start)), float(axis.at(end))])
    fig.update_xaxes(**axis.labels, row=2, col=1)
    times = count(slow.spans.height, "time")
    head = (
        title
        or f"{run.label}: CPUs were slow while busy for {slow.share:.0%} of their busy time, {times} of 4 ms or more"
    )
    words = (" · ".join(p for p in (scene.label, scene.facts) if p), slow.sentence, scene.loss)
    tall = int(np.clip(260 + 19 * len(scene.cpus), 380, 680))
    style(fig, head, "<br>".join(t for t in words if t), tall)
    return fig.update_layout(margin_r=96)
