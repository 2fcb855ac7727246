"""The layers of the trace explorer. Each layer draws one kind of data in a window of a trace, as a plain figure.

To add a layer, add a kind of figure with a button to :data:`wastedcores.figures.kinds.KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from wastedcores.analysis.examined import Examined
from wastedcores.errors import MissingEventsError, UsageError
from wastedcores.figures.event_layers import EventLayer
from wastedcores.figures.event_views import EventView
from wastedcores.figures.heatmaps import heatmap
from wastedcores.figures.kinds import KINDS, Look
from wastedcores.figures.timelines import clipped, runs, timeline
from wastedcores.figures.views import with_window
from wastedcores.units import human_ns
from wastedcores.words.rich_text import sentence

if TYPE_CHECKING:
    import plotly.graph_objects as go

#: the explorer draws this many pixels per row; without its margins, a figure is at most this wide
COLS = 900


@dataclass
class Subject:
    """A trace in the explorer, with the tables that are the same for all windows."""

    run: Examined  #: the examined trace
    #: names of tasks for completions, the commonest first; None: not read yet
    names: list[str] | None = None
    _stays: pl.DataFrame | None = None
    _events: EventView | None = None

    @property
    def stays(self) -> pl.DataFrame:
        """A table of who ran where in the whole trace, computed once; see :func:`wastedcores.figures.timelines.runs`."""
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


def _runqueues(subject: Subject, look: Look) -> go.Figure:
    run, (start, end) = subject.run, look.shown
    title = f"{human_ns(end - start)} of {run.label}"
    fig = heatmap(run.scene, (start, end), cols=COLS, palette_name=look.palette_name, reduce=look.reduce,
                  title=title)  # fmt: skip
    return with_window(fig, [run], (start, end))


def _tasks(subject: Subject, look: Look) -> go.Figure:
    start, end = look.shown
    title = f"Who ran where: {human_ns(end - start)} of {subject.run.label}"
    return timeline(subject.run.scene, clipped(subject.stays, start, end), (start, end),
                    palette_name=look.palette_name, title=title)  # fmt: skip


def _events(subject: Subject, look: Look) -> go.Figure:
    return subject.events.figure(look.window, cols=COLS)


#: the layers that the explorer draws differently from the command line, because they have a title of their own, or a table that
#: is the same for all windows
_DRAWN: dict[str, Callable[[Subject, Look], go.Figure]] = {
    "runqueues": _runqueues,
    "tasks": _tasks,
    "events": _events,
}


def layers_of(run: Examined) -> list[str]:
    """Return the layers that the explorer offers for a trace: the buttons of the kinds of figures, in the order of KINDS."""
    present = run.trace.kinds()
    return [
        kind.button
        for kind in KINDS.values()
        if kind.button and (not kind.events or not set(kind.events.split()).isdisjoint(present))
    ]


def drawn(subject: Subject, look: Look) -> go.Figure:
    """Draw a view of a trace."""
    show = look.show
    kinds = {kind.button: kind for kind in KINDS.values() if kind.button}
    if show not in kinds:
        raise UsageError(f"show={show!r}: expected one of {', '.join(kinds)}.")
    if show in _DRAWN:
        return _DRAWN[show](subject, look)
    return kinds[show].figure(subject.run, look)
