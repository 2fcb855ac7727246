"""Tasks that a person looks for, and their stays drawn over a figure with one row per CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
import polars as pl

from wastedcores.analysis.scene import Scene, TimeAxis
from wastedcores.analysis.states import pixel_edges
from wastedcores.figures.theme import INK
from wastedcores.figures.timelines import clipped

#: a bright line with a dark edge stands out from every colour of both palettes
FOUND = "#ffe14d"
#: more lines than this on one figure would hide it
MOST_LINES = 3000


def matching(stays: pl.DataFrame, text: str) -> pl.DataFrame:
    """Return the stays of the tasks that a person means by a text: a part of a name, or ``name:pid``."""
    text = text.strip().lower()
    lower = pl.col("comm").str.to_lowercase()
    # a text with a colon may also be a name, such as kworker/0:1
    wanted = lower.str.contains(text, literal=True)
    name, _, pid = text.rpartition(":")
    if pid.isdigit() and len(pid) < 10:
        wanted |= (pl.col("pid") == int(pid)) & lower.str.contains(name, literal=True)
    return stays.filter(wanted.fill_null(False), pl.col("pid") != 0).sort("start_ns", "cpu")


def mark_found(
    fig: go.Figure,
    scene: Scene,
    stays: pl.DataFrame,
    window: tuple[int, int],
    cols: int = 900,
    *,
    numbers: bool = False,
) -> int:
    """Draw lines over a figure where some tasks ran; return how many lines, from the last rows on, were left out.

    ``numbers`` says that the rows of the figure have numbers instead of names.
    """
    from wastedcores.analysis.binning_jit import bin_owner

    part = clipped(stays, *window).filter(pl.col("cpu").is_in(list(scene.cpus)))
    part = part.sort("cpu", "start_ns")
    if part.is_empty():
        return 0
    row_of = {cpu: row for row, cpu in enumerate(scene.cpus)}
    rows = part["cpu"].replace_strict(row_of, return_dtype=pl.Int64)
    edges = pixel_edges(*window, cols)
    columns = (part["start_ns"], part["end_ns"], part["pid"], rows)
    there = bin_owner(np.array([c.cast(pl.Int64).to_numpy() for c in columns]), edges, len(row_of))
    # the first and the last pixel of each stretch in which a found task ran
    padded = np.pad(there >= 0, ((0, 0), (1, 1))).astype(np.int8)
    row, first = np.nonzero(np.diff(padded) == 1)
    _, last = np.nonzero(np.diff(padded) == -1)
    at = TimeAxis.of(scene.window[0], window[1] - window[0]).at(edges)
    names: list[Any] = list(range(len(scene.cpus))) if numbers else scene.rows()
    x, y = [], []
    for r, a, b in zip(row[:MOST_LINES], first, last, strict=False):
        x += [round(float(at[a]), 6), round(float(at[b]), 6), None]
        y += [names[r], names[r], None]
    for colour, width in ((INK, 5), (FOUND, 3)):
        fig.add_trace(
            go.Scatter(
                x=x,
                y=y,
                mode="lines",
                line={"color": colour, "width": width},
                xaxis="x",
                yaxis="y",
                hoverinfo="skip",
                showlegend=False,
                name="found tasks",
            )
        )
    return max(row.size - MOST_LINES, 0)
