"""How many threads every node has over time, beside the number of its CPUs."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from wastedcores.analysis.examined import Examined
from wastedcores.analysis.scene import TimeAxis
from wastedcores.errors import MissingEventsError
from wastedcores.figures.theme import GRID, INK, palette, style
from wastedcores.words.rich_text import count

#: pixels of a node's panel
_HEIGHT = 70


def threads_per_node(
    run: Examined,
    window: tuple[int, int] | None = None,
    *,
    cols: int = 700,
    palette_name: str = "safe",
    title: str = "",
) -> go.Figure:
    """Draw how many threads run or wait on every node, beside the number of its CPUs.

    A balanced machine has the same number everywhere. Where one node has more threads than CPUs and another has fewer, CPUs are
    wasted, as in the paper's picture of Overload-on-Wakeup, in which two nodes of 8 CPUs have 9 and 7 threads.
    """
    scene = run.scene
    starts = scene.node_starts()
    if not starts:
        raise MissingEventsError(
            f"{run.label}: the trace does not tell which CPU is on which node. Name the machine (--machine)."
        )
    start, end = window or scene.window
    bins = scene.states.bin(start, end, cols=cols, cpus=scene.cpus)
    axis = TimeAxis.of(scene.window[0], end - start)
    colours = palette(palette_name)
    fig = make_subplots(
        rows=len(starts), shared_xaxes=True, vertical_spacing=0.25 / len(starts) / 2
    )
    x = np.repeat(axis.at(bins.edges), 2)[1:-1]
    highest = 0.0
    for row, (node, first, size) in enumerate(starts, 1):
        threads = bins.mean[first : first + size].sum(axis=0)  # NaN where a CPU is not known
        known = threads[~np.isnan(threads)]
        highest = max(highest, size, float(known.max()) if known.size else 0.0)
        y = np.repeat(threads.astype(np.float32), 2)
        fig.add_scatter(
            x=x, y=y, name="threads, running or waiting", line={"color": INK, "width": 1.5}, legendgroup="threads",
            showlegend=row == 1, row=row, col=1,
            hovertemplate=f"node {node}: %{{y:.2f}} threads on {size} CPUs<extra></extra>",
        )  # fmt: skip
        for name, colour, edge in (
            # fmax and fmin leave no area where the number of threads is not known
            ("more threads than CPUs", colours.waiting, np.fmax(y, size)),
            ("fewer threads than CPUs", colours.idle, np.fmin(y, size)),
        ):
            _between(fig, x, size, edge, name, colour, row)
        fig.update_yaxes(title={"text": f"node {node}", "font": {"size": 11}}, row=row, col=1)
    fig.update_yaxes(range=[0, highest * 1.08], nticks=4, gridcolor=GRID)
    fig.update_xaxes(range=[float(axis.at(start)), float(axis.at(end))])
    fig.update_xaxes(**axis.labels, row=len(starts), col=1)
    sizes = sorted({size for _, _, size in starts})
    return style(
        fig,
        title or f"Threads per node: {run.label}",
        f"{count(len(starts), 'node')} of {' or '.join(map(str, sizes))} CPUs; mean number of threads per pixel",
        height=180 + _HEIGHT * len(starts),
    )


def _between(
    fig: go.Figure, x: np.ndarray, size: int, edge: np.ndarray, name: str, colour: str, row: int
) -> None:
    """Fill the area between the number of CPUs and the number of threads, on one side of it."""
    flat = np.full(x.size, float(size), np.float32)
    line = {"width": 0}
    fig.add_scatter(
        x=x, y=flat, line=line, mode="lines", hoverinfo="skip", showlegend=False, row=row, col=1
    )
    fig.add_scatter(
        x=x, y=edge.astype(np.float32), line=line, mode="lines", fill="tonexty", fillcolor=colour, name=name,
        legendgroup=name, showlegend=row == 1, hoverinfo="skip", row=row, col=1,
    )  # fmt: skip
