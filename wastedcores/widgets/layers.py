"""The layers of the trace explorer: each draws one kind of data in a window of a trace, as a plain figure.

A new layer is a function that makes a figure, and its row in :data:`LAYERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from wastedcores.analysis.examined import Examined
from wastedcores.errors import MissingEventsError, UsageError
from wastedcores.figures import views
from wastedcores.figures.event_layers import EventLayer
from wastedcores.figures.event_views import EventView
from wastedcores.figures.frequencies import frequency
from wastedcores.figures.heatmaps import heatmap
from wastedcores.figures.timelines import clipped, runs, timeline
from wastedcores.units import human_ns
from wastedcores.words.rich_text import sentence

if TYPE_CHECKING:
    import plotly.graph_objects as go

#: pixels per row that the explorer draws; a figure is at most this wide without its margins
COLS = 900


@dataclass
class Subject:
    """A trace that is explored, with the tables that all windows share.

    Attributes
    ----------
    run
        The examined trace.
    names
        Names of tasks for completions, the commonest first; None: not read yet.
    """

    run: Examined
    names: list[str] | None = None
    _stays: pl.DataFrame | None = None
    _events: EventView | None = None

    @property
    def stays(self) -> pl.DataFrame:
        """Who ran where in the whole trace, see :func:`wastedcores.figures.timelines.runs`; computed once."""
        if self._stays is None:
            self._stays = runs(self.run.trace, *self.run.scene.window)
        return self._stays

    @property
    def events(self) -> EventView:
        """The layers of events; at first those of :func:`wastedcores.figures.event_layers.default_layers`."""
        if self._events is None:
            self._events = EventView(self.run)
        return self._events

    def choose(self, layers: Sequence[EventLayer]) -> None:
        """Draw these layers of events. An empty list stands for the default layers."""
        table = self._events.table if self._events else None
        self._events = EventView(self.run, layers, table=table)

    def stay(self, cpu: int, at_ns: int) -> tuple[int, int, str]:
        """Return the stay of a task on a CPU."""
        zero = self.run.scene.window[0]
        found = self.stays.filter(
            pl.col("cpu") == cpu, pl.col("start_ns") <= at_ns, pl.col("end_ns") > at_ns
        )
        moment = f"{(at_ns - zero) / 1e6:,.3f} ms"
        if found.is_empty():
            raise MissingEventsError(f"It is not known what ran on CPU {cpu} at {moment}.")
        row = found.row(0, named=True)
        start, end = row["start_ns"], row["end_ns"]
        who = f"{row['comm'] or '?'}:{row['pid']} ran" if row["pid"] else "no task ran"
        said = (
            f"On CPU {cpu} {who} from {(start - zero) / 1e6:,.3f} to {(end - zero) / 1e6:,.3f} ms "
            f"({human_ns(end - start)})."
        )
        return start, end, sentence(said).html


@dataclass(frozen=True)
class Look:
    """One view of a trace.

    Attributes
    ----------
    window
        First and last ns.
    show
        The name of a layer.
    palette_name
        ``safe`` or ``paper``.
    reduce
        What a pixel of the runqueues shows, see :func:`wastedcores.figures.heatmaps.heatmap`.
    """

    window: tuple[int, int]
    show: str = "runqueues"
    palette_name: str = "safe"
    reduce: str = "share"


@dataclass(frozen=True)
class Layer:
    """One kind of data that the explorer can show.

    Attributes
    ----------
    draw
        Makes the figure of a view. Its first horizontal axis is the time since the start of the trace, in the unit of
        :class:`wastedcores.analysis.scene.TimeAxis`.
    kind
        Kinds of events of which the layer needs one, separated by spaces; empty: it is always offered.
    """

    draw: Callable[[Subject, Look], go.Figure]
    kind: str = ""

    def exists(self, run: Examined) -> bool:
        """Return whether the trace has what the layer shows."""
        return not self.kind or not set(self.kind.split()).isdisjoint(run.trace.kinds())


def _runqueues(subject: Subject, look: Look) -> go.Figure:
    run, (start, end) = subject.run, look.window
    title = f"{human_ns(end - start)} of {run.label}"
    return heatmap(run.scene, look.window, cols=COLS, palette_name=look.palette_name, reduce=look.reduce,
                   title=title)  # fmt: skip


def _tasks(subject: Subject, look: Look) -> go.Figure:
    start, end = look.window
    title = f"Who ran where: {human_ns(end - start)} of {subject.run.label}"
    return timeline(subject.run.scene, clipped(subject.stays, start, end), look.window,
                    palette_name=look.palette_name, title=title)  # fmt: skip


def _load(subject: Subject, look: Look) -> go.Figure:
    return views.load(subject.run, look.window)


def _considered(subject: Subject, look: Look) -> go.Figure:
    return views.looked_at(subject.run, window=look.window, palette_name=look.palette_name)


def _events(subject: Subject, look: Look) -> go.Figure:
    return subject.events.figure(look.window, cols=COLS)


def _frequency(subject: Subject, look: Look) -> go.Figure:
    return frequency(subject.run, look.window, cols=COLS, palette_name=look.palette_name)


#: name -> layer, in the order of the buttons
LAYERS: dict[str, Layer] = {
    "runqueues": Layer(_runqueues),
    "tasks": Layer(_tasks, "switch"),
    "load": Layer(_load, "load"),
    "considered": Layer(_considered, "considered"),
    "frequency": Layer(_frequency, "tick frequency"),
    "events": Layer(_events),
}


def drawn(subject: Subject, look: Look) -> go.Figure:
    """Draw a view of a trace."""
    if look.show not in LAYERS:
        raise UsageError(f"show={look.show!r}: expected one of {', '.join(LAYERS)}.")
    return LAYERS[look.show].draw(subject, look)
