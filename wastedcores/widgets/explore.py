"""The trace explorer: a heat map in a notebook, which is binned again from the trace whenever it is zoomed.

The state is a window and what to show. Every picture is made from it by :func:`explorer_static`, as in a report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets as w

from wastedcores.analysis.examined import Examined
from wastedcores.analysis.scene import TimeAxis
from wastedcores.errors import WastedCoresError
from wastedcores.figures import views
from wastedcores.figures.heatmaps import REDUCTIONS, heatmap
from wastedcores.figures.theme import PALETTES
from wastedcores.reports.html import live_figure
from wastedcores.units import human_ns
from wastedcores.words.rich_text import sentence

if TYPE_CHECKING:
    import plotly.graph_objects as go

#: the list offers at most this many episodes
EPISODES = 50


def explorer_static(
    run: Examined,
    window: tuple[int, int] | None = None,
    *,
    show: str = "runqueues",
    palette_name: str = "safe",
    reduce: str = "longest",
) -> go.Figure:
    """Return what the explorer shows for a state, as a plain figure.

    Parameters
    ----------
    run
        The examined trace.
    window
        First and last ns; default: the whole trace.
    show
        ``runqueues``, ``tasks`` or ``load``.
    palette_name
        ``safe`` or ``paper``.
    reduce
        What a pixel of the runqueues shows, see :func:`wastedcores.figures.heatmaps.heatmap`.

    Returns
    -------
    plotly.graph_objects.Figure
        The figure.

    Raises
    ------
    MissingEventsError
        The trace has no events of that kind.
    """
    if show == "tasks":
        return views.who_ran(run, window or run.scene.window, palette_name=palette_name)
    if show == "load":
        return views.load(run, window)
    start, end = window or run.scene.window
    title = f"{human_ns(end - start)} of {run.label}"
    return heatmap(run.scene, window, palette_name=palette_name, reduce=reduce, title=title)


class Explorer(w.VBox):
    """Controls above a live figure; see :func:`explorer`."""

    def __init__(self, run: Examined, *, palette_name: str = "safe", width: int = 940) -> None:
        self.run = run
        self.width = width
        self.window = run.scene.window
        layers = ["runqueues", "tasks"] + (["load"] if run.scene.loads else [])
        self.show = w.ToggleButtons(
            options=layers, value="runqueues", style={"button_width": "90px"}
        )
        self.reduce = w.Dropdown(options=list(REDUCTIONS), value="longest", description="pixel:")
        self.palette = w.Dropdown(
            options=list(PALETTES), value=palette_name, description="colours:"
        )
        self.episode = w.Dropdown(options=self._episodes(), value=None, description="go to:")
        self.whole = w.Button(description="whole trace", icon="arrows-h")
        self.back = w.Button(description="back", icon="arrow-left")
        self.before: list[tuple[int, int]] = []
        self.says = w.HTML()
        self.place = w.VBox(layout=w.Layout(width="100%"))
        self._drawing = False
        for control in (self.show, self.reduce, self.palette):
            control.observe(lambda _: self.draw(), names="value")
        self.episode.observe(self._go, names="value")
        self.whole.on_click(lambda _: self.look(*self.run.scene.window))
        self.back.on_click(lambda _: self._return())
        bar = w.HBox([self.show, self.episode, self.back, self.whole, self.reduce, self.palette])
        bar.layout.flex_flow = "row wrap"
        super().__init__([bar, self.says, self.place])
        self.draw()

    def _episodes(self) -> list[tuple[str, tuple[int, int] | None]]:
        table = self.run.result.episodes.sort("wasted_ns", descending=True).head(EPISODES)
        zero = self.run.scene.window[0]
        entries: list[tuple[str, tuple[int, int] | None]] = [("an episode …", None)]
        for row in table.iter_rows(named=True):
            start, end = row["start_ns"], row["end_ns"]
            name = f"{human_ns(end - start)} at {(start - zero) / 1e6:.3f} ms"
            entries.append((name + (" (persistent)" if row["persistent"] else ""), (start, end)))
        return entries

    def _go(self, change: Any) -> None:
        if change["new"] is not None:
            start, end = change["new"]
            margin = max((end - start) // 10, 1000)
            self.look(start - margin, end + margin)
            # the menu offers all episodes again, also the one that was chosen just now
            self.episode.value = None

    def look(self, start_ns: int, end_ns: int) -> None:
        """Show a window, clipped to the trace and at least a microsecond long.

        Parameters
        ----------
        start_ns, end_ns
            The window.
        """
        self.before.append(self.window)
        self._show(start_ns, end_ns)

    def _return(self) -> None:
        """Show the window that was shown before; do nothing if there is none."""
        if self.before:
            self._show(*self.before.pop())

    def _show(self, start_ns: int, end_ns: int) -> None:
        first, last = self.run.scene.window
        start = min(max(int(start_ns), first), max(first, last - 1000))
        self.window = (start, min(max(int(end_ns), start + 1000), last))
        self.draw()

    def draw(self) -> None:
        """Bin the window again and show it."""
        self.says.value = "computing …"
        try:
            figure = explorer_static(
                self.run,
                self.window,
                show=self.show.value,
                palette_name=self.palette.value,
                reduce=self.reduce.value,
            )
        except WastedCoresError as e:
            self.says.value = sentence(str(e)).html
            self.place.children = ()
            return
        self.place.children = (live_figure(figure, self._zoomed, self.width),)
        start, end = self.window
        self.says.value = (
            f"{human_ns(end - start)} of {human_ns(self.run.scene.window[1] - self.run.scene.window[0])}. Drag over "
            "the heat map to zoom: it is binned again from the trace."
        )

    def _zoomed(self, lo: float, hi: float) -> None:
        """Show the part to which the figure was zoomed, in units of its axis."""
        start, end = self.window
        axis = TimeAxis.of(self.run.scene.window[0], end - start)
        self.look(round(axis.zero_ns + lo * axis.ns), round(axis.zero_ns + hi * axis.ns))


def explorer(run: Examined, *, palette_name: str = "safe", width: int = 940) -> Explorer:
    """Explore a trace in a notebook: zoom by dragging, go to an episode, switch between runqueues and tasks.

    Parameters
    ----------
    run
        The examined trace.
    palette_name
        ``safe`` or ``paper``.
    width
        Width of the figure in pixels.

    Returns
    -------
    Explorer
        A box of ipywidgets; :func:`explorer_static` makes the same figure without a live kernel.
    """
    return Explorer(run, palette_name=palette_name, width=width)
