"""Events as strokes, spans and arrows on the rows of CPUs: a raster of mean colours for many events, exact shapes for few."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from wastedcores.analysis.examined import Examined
from wastedcores.analysis.scene import Scene, TimeAxis, by_node
from wastedcores.analysis.segments import raster
from wastedcores.analysis.states import States
from wastedcores.errors import MissingEventsError
from wastedcores.figures import panels
from wastedcores.figures.event_layers import EventLayer, default_layers, with_own_colours
from wastedcores.figures.event_segments import SCALE, Drawn, add_shapes, segments_of
from wastedcores.figures.theme import CLASS_COLOURS, CLEAR, fit_legend, legend_entry, literal, style
from wastedcores.queries.decorate import Decoration, EventTable
from wastedcores.queries.spans import Span
from wastedcores.units import human_ns
from wastedcores.words.rich_text import count

#: up to this many segments are drawn one by one, each with a hover text
MOST_SHAPES = 1000
#: more arrows than this would hide who ran, so they are drawn only after a zoom
MOST_ARROWS = 100_000
#: columns of the invisible heat map that tells how many segments there are
_HOVER_COLS = 200


class EventView:
    """The prepared layers of a trace, which can draw any window quickly; see :func:`events`."""

    def __init__(
        self,
        run: Examined,
        layers: Sequence[EventLayer] = (),
        functions: Sequence[Decoration] = (),
        spans: Sequence[Span] = (),
        *,
        table: EventTable | None = None,
    ) -> None:
        """Choose the events of all layers and give them colours."""
        self.run = run
        self.table = table or EventTable(run.trace, functions, spans)
        self.scene = _scene(run)
        given = with_own_colours(list(layers) or default_layers(run.trace), CLASS_COLOURS)
        self.drawn = segments_of(self.table, given, self.scene.cpus)

    def figure(
        self,
        window: tuple[int, int] | None = None,
        *,
        cols: int = 1000,
        most_shapes: int = MOST_SHAPES,
        title: str = "",
        height: int | None = None,
    ) -> go.Figure:
        """Draw a window; if it ends with the trace, it includes the last event."""
        first, last = window or self.scene.window
        axis = TimeAxis.of(self.scene.window[0], last - first)
        window = first, last + (last == self.scene.window[1] - 1)
        many = sum(d.segments.count(*window) for d in self.drawn)
        fig = make_subplots(rows=1, cols=1)
        panels.cpu_axis(fig, self.scene, 1, 1, numbers=True)
        if many <= most_shapes:
            inside = [d.segments.inside(*window) for d in self.drawn]
            add_shapes(fig, self, inside, window, axis)
            how = "each one is drawn; hover over it for all that is known about it"
            how = how if many else "no layer chooses anything here"
        else:
            hidden = self._too_many(window)
            self._add_raster(
                fig, [d for d in self.drawn if not any(d is h for h in hidden)], window, axis, cols
            )
            how = "the colour of a pixel is the mean of its segments; zoom in for single ones"
            for d in hidden:
                how += f", and for the {d.segments.count(*window):,} {d.layer.label or 'arrows'}, which would cover the rest"
        self._add_legend(fig)
        panels.add_marks(fig, self.scene, axis, window, row=1, col=1)
        fig.update_xaxes(range=[float(axis.at(t)) for t in window], **axis.labels)
        title = title or f"{human_ns(window[1] - window[0])} of {self.run.label}: {count(many, 'segment')}"  # fmt: skip
        notes = (" · ".join(p for p in (self.scene.label, self.scene.facts) if p), how, self.scene.loss)  # fmt: skip
        tall = height or int(np.clip(190 + 19 * len(self.scene.cpus), 300, 640))
        style(fig, title, "<br>".join(n for n in notes if n), tall)
        if any(d.colours.low is not None for d in self.drawn):
            fig.update_layout(margin_r=110)
        return fit_legend(fig.update_layout(showlegend=True, hovermode="closest"))

    def _too_many(self, window: tuple[int, int]) -> list[Drawn]:
        """Return the layers whose arrows are so many that they would hide the other layers; empty if there is no other layer."""
        arrows = [d for d in self.drawn if d.layer.draw == "arrows"]
        many = [d for d in arrows if d.segments.count(*window) > MOST_ARROWS]
        return many if len(many) < len(self.drawn) else []

    def _add_raster(
        self,
        fig: go.Figure,
        painted: Sequence[Drawn],
        window: tuple[int, int],
        axis: TimeAxis,
        cols: int,
    ) -> None:
        rows = len(self.scene.cpus)
        pixels = raster([d.segments for d in painted], window, cols, rows)
        first, last = (float(axis.at(t)) for t in window)
        fig.add_layout_image(
            source=_png(pixels.image),
            layer="below",
            sizing="stretch",
            xref="x",
            yref="y",
            x=first,
            y=-0.5,
            sizex=last - first,
            sizey=rows,
        )
        starts = np.unique(np.linspace(0, pixels.counts.shape[1], _HOVER_COLS + 1).astype(int)[:-1])
        counts = np.add.reduceat(pixels.counts, starts, axis=1)
        edges = np.r_[starts, pixels.counts.shape[1]] / pixels.counts.shape[1]
        fig.add_heatmap(
            x=first + edges * (last - first),
            y=np.arange(rows),
            z=counts,
            # the numbers of the CPUs and not their names, because plotly checks and copies texts one by one
            customdata=np.array(self.scene.cpus)[:, None].repeat(starts.size, axis=1),
            colorscale=[(0, CLEAR), (1, CLEAR)],
            showscale=False,
            hovertemplate=f"CPU %{{customdata}}, %{{x:{axis.digits}}} {axis.unit}<br>%{{z}} segments<extra></extra>",
            name="segments",
        )

    def _add_legend(self, fig: go.Figure) -> None:
        entries: dict[str, str] = {}
        for drawn in self.drawn:
            entries |= {name: colour for name, colour in drawn.colours.legend if name}
            if drawn.colours.low is not None:
                _add_bar(fig, drawn)
        for name, colour in entries.items():
            short = name if len(name) <= 60 else f"{name[:57]}..."
            legend_entry(fig, literal(short), {"color": colour})


def whole(run: Examined) -> tuple[int, int]:
    """Return the window of all events, whose beginning is the zero of every figure of the trace.

    If the oldest events of a trace were overwritten, its runqueues begin later than its events, and the window of the runqueues
    is returned. Most other traces do not need their runqueues for this.
    """
    header = run.trace.header
    late = header.overwritten and not {"switch", "nr_running"}.isdisjoint(run.trace.kinds())
    if header.start_ns is None or header.end_ns is None or not header.cpus or late:
        first, last = run.scene.window
    else:
        first, last = header.start_ns, header.end_ns
    # a window does not contain its end, but the last event is part of the trace
    return first, last + 1


def _scene(run: Examined) -> Scene:
    """Return the rows, marks and words of a trace, but not its runqueues, because computing these takes long."""
    header = run.trace.header
    seen = run.trace.events.select("cpu").unique().collect()["cpu"].drop_nulls().to_list()
    counted = set(run.cpus or range(max(seen, default=-1) + 1))
    drawn = [c for c in sorted(seen) if c in counted]
    if not drawn:
        raise MissingEventsError(f"{run.label}: no event names a CPU, so there is no row to draw.")
    facts = run.facts if header.cpus else ""
    empty = States.collect([], 1, *whole(run))
    return Scene(empty, by_node(drawn, run.nodes), run.nodes, None, tuple(run.marks), run.label, facts, run.loss)  # fmt: skip


def _add_bar(fig: go.Figure, drawn: Drawn) -> None:
    """Add the colour bar of a continuous scale, in the unit that people use."""
    colours = drawn.colours
    name, unit = colours.column, 1.0
    for ending, said, size in (("_ns", "ms", 1e6), ("_khz", "GHz", 1e6)):
        if name.endswith(ending):
            name, unit = f"{name.removesuffix(ending)} ({said})", size
    low, high = ((end or 0.0) / unit for end in (colours.low, colours.high))
    fig.add_scatter(
        x=[None],
        y=[None],
        mode="markers",
        showlegend=False,
        hoverinfo="skip",
        marker={
            "color": [low, high],
            "cmin": low,
            "cmax": high,
            "colorscale": SCALE,
            "showscale": True,
            "colorbar": {"title": {"text": name, "font": {"size": 11}}, "thickness": 14},
        },
    )


def _png(image: np.ndarray) -> str:
    """Return pixels (height, width, 4) as a PNG in a data URI."""

    def chunk(name: bytes, data: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(name + data))
        return struct.pack(">I", len(data)) + name + data + checksum

    height, width, _ = image.shape
    # filter 2 stores differences from the line above; within the row of a CPU, most differences are 0
    pixels = image.reshape(height, -1)
    lines = np.full((height, 1 + 4 * width), 2, np.uint8)
    lines[0, 1:], lines[1:, 1:] = pixels[0], pixels[1:] - pixels[:-1]
    head = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    body = zlib.compress(lines.tobytes(), 3)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(png).decode()


def events(
    run: Examined,
    layers: Sequence[EventLayer] = (),
    window: tuple[int, int] | None = None,
    *,
    functions: Sequence[Decoration] = (),
    spans: Sequence[Span] = (),
    cols: int = 1000,
    most_shapes: int = MOST_SHAPES,
    title: str = "",
) -> go.Figure:
    """Draw the events that queries choose, each layer in its style.

    Parameters
    ----------
    run
        The examined trace.
    layers
        The layers, the lowest first; default: who ran, and arrows for tasks that change CPUs.
    window
        First and last ns; default: the whole trace.
    functions
        The user's decorations: functions that take a table of events and return it with more columns.
    spans
        Pairs of events; layers may use the time from the first to the second event of a pair.
    cols
        Columns of the raster.
    most_shapes
        Up to this many segments are drawn one by one; more become a raster of mean colours.
    title
        The title of the figure.

    Returns
    -------
    plotly.graph_objects.Figure
        One row per CPU: strokes, spans and arrows.

    Raises
    ------
    QueryError
        A query cannot be understood.
    UsageError
        A style cannot be drawn, or the window is empty.
    MissingEventsError
        The trace lacks the events from which a column is computed.
    """
    view = EventView(run, layers, functions, spans)
    return view.figure(window, cols=cols, most_shapes=most_shapes, title=title)
