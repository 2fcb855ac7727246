"""The trace explorer: a figure in a notebook. Whenever the window changes, the pixels are computed again from the trace.

The state is a :class:`wastedcores.figures.kinds.Look`. For a report, :func:`explorer_static` makes the same picture from it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import ipywidgets as w
import numpy as np

from wastedcores.analysis.examined import Examined, examine
from wastedcores.analysis.scene import Scene, TimeAxis
from wastedcores.analysis.selection import span
from wastedcores.errors import UsageError, WastedCoresError
from wastedcores.figures.heatmaps import REDUCTIONS
from wastedcores.figures.kinds import Look
from wastedcores.figures.theme import INK, PALETTES, palette
from wastedcores.trace.named import TraceLike
from wastedcores.units import human_ns
from wastedcores.widgets.event_queries import EventQueries
from wastedcores.widgets.finding import TaskFinder, cell_of
from wastedcores.widgets.layers import Subject, drawn, layers_of
from wastedcores.widgets.live_figure import LiveFigure
from wastedcores.words.rich_text import sentence
from wastedcores.words.selection import who_waited

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import polars as pl

#: the list offers at most this many episodes
EPISODES = 50
#: columns of pixels in the map of the whole trace
MAP_COLS = 600
#: moves of the window count as one move for "back" if less time than this passes between them
PAUSE_S = 0.6
_KEYS = (
    "Drag to zoom, double click for the whole trace. Click on the figure, then w s a d or the arrows zoom and move, "
    ". and , go to the next and previous episode, Backspace goes back. Click on a CPU's row, or drag with shift, to see "
    "who waited there and why."
)


def explorer_static(
    run: Examined,
    window: tuple[int, int] | None = None,
    *,
    show: str = "runqueues",
    palette_name: str = "safe",
    reduce: str = "share",
) -> go.Figure:
    """Return what the explorer shows for a state, as a plain figure."""
    look = Look(window or run.scene.window, show, palette_name, reduce)
    return drawn(Subject(run), look)


class Explorer(w.VBox):
    """Controls above a live figure; see :func:`explorer`."""

    def __init__(self, run: Examined, *, palette_name: str = "safe") -> None:
        self.run = run
        self.subject = Subject(run)
        self.window = run.scene.window
        self.before: list[tuple[int, int]] = []
        self._looked = -PAUSE_S
        self._held = False
        self.jumps = self._episodes()
        self.figure = LiveFigure(self._heard)
        self.says = w.HTML()
        self.show = w.ToggleButtons(options=layers_of(run), style={"button_width": "90px"})
        self.reduce = w.Dropdown(options=list(REDUCTIONS), value="share", description="pixel:")
        self.palette = w.Dropdown(
            options=list(PALETTES), value=palette_name, description="colours:"
        )
        names = ["an episode …", *(name for name, *_ in self.jumps)]
        self.episode = w.Dropdown(
            options=[(name, i) for i, name in enumerate(names)], description="go to:"
        )
        buttons = {
            "previous": ("previous episode", "step-backward"),
            "next": ("next episode", "step-forward"),
            "back": ("back", "arrow-left"),
            "whole": ("whole trace", "arrows-h"),
        }
        for name, (tooltip, icon) in buttons.items():
            button = w.Button(
                description=name, tooltip=tooltip, icon=icon, layout=w.Layout(width="auto")
            )
            button.on_click(lambda _, do=name: self._do(do))
            setattr(self, f"{name}_button", button)
        self.finder = TaskFinder(self)
        self.details = w.HTML()
        # in a VBox, "auto" is the whole width less the margin; at 100%, the margin would go beyond the edge of the cell
        shown = "none" if run.trace.path is None else None
        self.cell = w.Text(description="this view:", layout=w.Layout(width="auto", display=shown))
        for control in (self.show, self.reduce, self.palette):
            control.observe(lambda _: self.draw(), names="value")
        self.episode.observe(self._go, names="value")
        self.queries = EventQueries(self.subject, self.draw)
        self.show.observe(lambda _: self._offer_queries(), names="value")
        self._offer_queries()
        parts = [self._bar(), self.finder, self.says, self.queries, self.figure]
        super().__init__([*parts, self.details, self.cell])
        self._map()
        self.draw()

    def _bar(self) -> w.HBox:
        steps = [self.previous_button, self.next_button, self.back_button, self.whole_button]
        parts = [self.show, self.episode, *steps, self.reduce, self.palette]
        return w.HBox(parts, layout=w.Layout(flex_flow="row wrap"))

    def _offer_queries(self) -> None:
        """Show the controls of the events while events are shown."""
        self.queries.layout.display = "" if self.show.value == "events" else "none"

    def _episodes(self) -> list[tuple[str, int, int]]:
        """Return the name, start and end of the episodes that wasted most, the worst first."""
        table = self.run.result.episodes.sort("wasted_ns", descending=True).head(EPISODES)
        zero = self.run.scene.window[0]
        entries = []
        for row in table.iter_rows(named=True):
            start, end = row["start_ns"], row["end_ns"]
            name = f"{human_ns(end - start)} at {(start - zero) / 1e6:.3f} ms"
            entries.append((name + (" (persistent)" if row["persistent"] else ""), start, end))
        return entries

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Change several things, and draw once at the end."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
            self._show(*self.window)

    @property
    def look(self) -> Look:
        """The view that is shown."""
        return Look(self.window, self.show.value, self.palette.value, self.reduce.value)

    @property
    def scene(self) -> Scene:
        """The rows that are drawn; while events are shown, only CPUs that an event names have a row."""
        return self.subject.events.scene if self.show.value == "events" else self.run.scene

    def go_to(self, start_ns: int, end_ns: int) -> None:
        """Show a window, clipped to the trace and at least a microsecond long."""
        self.before.append(self.window)
        self._show(start_ns, end_ns)

    def go_near(self, start_ns: int, end_ns: int) -> None:
        """Show a window with a margin on both sides."""
        margin = max((end_ns - start_ns) // 10, 1000)
        self.go_to(start_ns - margin, end_ns + margin)

    def step(self, by: int) -> None:
        """Go to the next episode after the middle of the window or, if ``by`` is negative, to the last episode before it."""
        if not self.go_beside(self.run.result.episodes, by):
            self.says.value = f"There is no {'later' if by > 0 else 'earlier'} episode."

    def go_beside(self, spans: pl.DataFrame, by: int) -> bool:
        """Go to the next span after the middle of the window (before it if ``by`` is negative); return whether there is one."""
        # for each span, the middle of the window that go_near() would show; that window is clipped to the trace
        first, last = self.run.scene.window
        start, end = (spans[c].to_numpy() for c in ("start_ns", "end_ns"))
        margin = np.maximum((end - start) // 10, 1000)
        low, high = np.maximum(start - margin, first), np.minimum(end + margin, last)
        middles = low + (high - low) // 2
        now = self.window[0] + (self.window[1] - self.window[0]) // 2
        # a window is at least 1 us long and has whole ns, so its middle may differ a little from the middle of the span
        others = np.flatnonzero(middles > now + 1000 if by > 0 else middles < now - 1000)
        if others.size:
            # spans of different CPUs may overlap, so the middles need not have the same order as the starts
            nearest = middles[others].argmin() if by > 0 else middles[others].argmax()
            row = spans.row(int(others[nearest]), named=True)
            self.go_near(row["start_ns"], row["end_ns"])
        return bool(others.size)

    def back(self) -> None:
        """Show the window that was shown before; do nothing if there is none."""
        if self.before:
            self._show(*self.before.pop())

    def whole(self) -> None:
        """Show the whole trace."""
        self.go_to(*self.run.scene.window)

    def _do(self, name: str) -> None:
        steps = {"next": 1, "previous": -1}
        if name in steps:
            self.step(steps[name])
        else:
            {"back": self.back, "whole": self.whole}[name]()

    def _go(self, change: Any) -> None:
        if change["new"]:
            _, start, end = self.jumps[change["new"] - 1]
            self.go_near(start, end)
            # reset the menu, so that the same episode can be chosen again
            self.episode.value = 0

    def _show(self, start_ns: int, end_ns: int) -> None:
        first, last = self.run.scene.window
        start = min(max(int(start_ns), first), max(first, last - 1000))
        self.window = (start, min(max(int(end_ns), start + 1000), last))
        self.draw()

    def draw(self) -> None:
        """Compute the pixels of the window again and show them."""
        if self._held:
            return
        try:
            fig = drawn(self.subject, self.look)
            self.finder.mark(fig)
        except WastedCoresError as e:
            # send the earlier figure again, so that the browser knows that its request was answered
            self.says.value = sentence(str(e)).html
            if self.figure.drawn is not None:
                self.figure.show(self.figure.drawn, self.figure.contents.figure["view"])
            return
        (first, last), (start, end) = self.run.scene.window, self.window
        colours = palette(self.palette.value)
        view = {
            "scale": TimeAxis.of(first, end - start).ns / 1e9,
            "window": [(t - first) / 1e9 for t in self.window],
            "bounds": [0, (last - first) / 1e9],
            "colours": {"accent": colours.violation, "curve": colours.waiting, "ink": INK},
        }
        self.figure.show(fig, view)
        self.says.value = f"{human_ns(end - start)} of {human_ns(last - first)}. {_KEYS}"
        self.cell.value = cell_of(self.run, self.look, self.finder.text.value)

    def _map(self) -> None:
        """Send the map of the whole trace: the wasted cores, and where persistent episodes are."""
        from wastedcores.analysis.binning_jit import bin_cover

        scene = self.run.scene
        bins = scene.states.bin(cols=MAP_COLS, cpus=scene.cpus, wasted=True)
        wasted = np.asarray(bins.wasted, np.float32)
        table = self.run.result.episodes.filter(self.run.result.episodes["persistent"])
        start, end = (table[c].to_numpy().astype(np.int64) for c in ("start_ns", "end_ns"))
        inside = (bin_cover(start, end, bins.edges) > 0).astype(np.uint8)
        self.figure.contents.overview = {
            "wasted": memoryview(wasted.tobytes()),
            "persistent": memoryview(inside.tobytes()),
        }

    def _heard(self, message: dict[str, Any]) -> None:
        """React to a message of the browser: a move to another window, or a key."""
        kind = message["kind"]
        if kind == "look":
            zero = self.run.scene.window[0]
            # while a key is held down, all moves together count as one move for "back"
            if time.monotonic() - self._looked > PAUSE_S:
                self.before.append(self.window)
            self._looked = time.monotonic()
            self._show(*(zero + round(message[k] * 1e9) for k in ("lo", "hi")))
        elif kind in ("click", "select"):
            self._inspect(message)
        elif kind in ("next", "previous", "back", "whole"):
            self._do(kind)

    def _inspect(self, message: dict[str, Any]) -> None:
        """Say who waited: during a stay of a task that was clicked on, or on some CPUs during a selected time."""
        first, last = self.run.scene.window
        try:
            cpus, rows = self.scene.cpus, self.scene.rows()
            if self.show.value == "events":  # the axis of events has numbers
                rows = [str(row) for row in range(len(cpus))]
            if message["kind"] == "select":
                start, end = (first + round(message[k] * 1e9) for k in ("lo", "hi"))
                low, high = (min(max(int(r), 0), len(cpus) - 1) for r in message["rows"])
                head, chosen = "", cpus[low : high + 1]
            elif message["row"] in rows:
                cpu = cpus[rows.index(message["row"])]
                start, end, head = self.subject.stay(cpu, first + round(message["at"] * 1e9))
                chosen = (cpu,)
            else:
                return
            start, end = max(start, first), min(max(end, start + 1), last)
            found = span(self.run, start, end, chosen, self.subject.stays)
            self.details.value = head + who_waited(found, first).html
        except WastedCoresError as e:
            self.details.value = sentence(str(e)).html


def explorer(
    trace: TraceLike | Examined,
    *,
    at: tuple[float, float] | None = None,
    show: str = "runqueues",
    task: str = "",
    reduce: str = "share",
    palette_name: str = "safe",
) -> Explorer:
    """Explore a trace in a notebook: zoom, go from episode to episode, find tasks, and ask who waited and why.

    If the trace is a file, a line of code below the figure opens the same view again in another notebook.

    Parameters
    ----------
    trace
        An examined trace, a trace, a trace file, or the name of a data set.
    at
        First and last second that are shown, counted from the start of the trace; default: all.
    show
        The name of a layer, such as ``runqueues``, ``tasks``, ``load`` or ``considered``.
    task
        Tasks to mark: a pid, a part of a name, or ``name:pid``.
    reduce
        What a pixel of the runqueues shows, see :func:`wastedcores.figures.heatmaps.heatmap`.
    palette_name
        ``safe`` or ``paper``.

    Returns
    -------
    Explorer
        A box of ipywidgets; :func:`explorer_static` makes the same figure without a live kernel.

    Raises
    ------
    UsageError
        The trace has no such layer, or ``reduce`` or ``palette_name`` is unknown.
    """
    run = trace if isinstance(trace, Examined) else examine(trace)
    palette(palette_name)  # refuses unknown names
    if reduce not in REDUCTIONS:
        raise UsageError(f"reduce={reduce!r}: expected one of {', '.join(REDUCTIONS)}.")
    box = Explorer(run, palette_name=palette_name)
    if show not in box.show.options:
        raise UsageError(
            f"show={show!r}: {run.label} has the layers {', '.join(box.show.options)}."
        )
    with box.hold():
        box.show.value, box.reduce.value, box.finder.text.value = show, reduce, task
        if at is not None:
            first, last = (run.scene.window[0] + round(t * 1e9) for t in at)
            box.window = (first, last)
    return box
