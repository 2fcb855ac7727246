"""A widget that shows two recorded traces on one time axis, aligned by a mark, by their first activity, or by hand."""

from __future__ import annotations

from typing import Any

import ipywidgets as w

from wastedcores.analysis.alignment import ACTIVITY, START, Pair, align, common_marks
from wastedcores.analysis.examined import Examined, examine
from wastedcores.analysis.scene import TimeAxis
from wastedcores.errors import WastedCoresError
from wastedcores.figures.compare import aligned
from wastedcores.figures.theme import INK, PALETTES, palette
from wastedcores.trace.named import TraceLike
from wastedcores.widgets.live_figure import LiveFigure
from wastedcores.words.aligned import compared
from wastedcores.words.rich_text import sentence

_KEYS = "Drag to zoom, double click for everything. The keys w s a d, the arrows, 0 and Home are those of the explorer."


class PairFigure(LiveFigure):
    """A live figure of two traces on one time axis; it reacts itself when the reader zooms."""

    def __init__(self) -> None:
        super().__init__(self._heard)
        self.pair: Pair | None = None
        self.window: tuple[int, int] | None = None
        self.palette_name = "safe"

    def put(self, pair: Pair, palette_name: str = "safe") -> None:
        """Show two traces in the window that was shown before, or whole if there was none."""
        self.pair, self.palette_name = pair, palette_name
        self.look(*(self.window or ()))

    def look(self, start_ns: int | None = None, end_ns: int | None = None) -> None:
        """Show a window of the common axis."""
        if self.pair is None:
            return
        first, last = self.pair.window
        start = first if start_ns is None else min(max(start_ns, first), last - 1000)
        end = last if end_ns is None else max(min(end_ns, last), start + 1000)
        self.window = None if (start, end) == (first, last) else (start, end)
        title = " and ".join(r.label for r in self.pair.runs)
        fig = aligned(
            self.pair, (start, end), cols=600, palette_name=self.palette_name, title=title
        )
        colours = palette(self.palette_name)
        view = {
            "scale": TimeAxis.of(0, end - start).ns / 1e9,
            "window": [start / 1e9, end / 1e9],
            "bounds": [first / 1e9, last / 1e9],
            "colours": {"accent": colours.violation, "curve": colours.waiting, "ink": INK},
        }
        self.show(fig, view)

    def _heard(self, message: dict[str, Any]) -> None:
        if message["kind"] == "look":
            self.look(*(round(message[k] * 1e9) for k in ("lo", "hi")))
        elif message["kind"] == "whole":
            self.look()


class SideBySide(w.VBox):
    """Controls above a live figure of two traces; see :func:`side_by_side`."""

    def __init__(self, run: Examined, against: Examined) -> None:
        self.runs = (run, against)
        marks = [(f'mark "{text}"', text) for text in common_marks(run, against)]
        self.by = w.Dropdown(
            options=[*marks, *((how, how) for how in (ACTIVITY, START))], description="align by:"
        )
        self.shift = w.FloatText(
            0.0, step=1.0, description="move by ms:", layout=w.Layout(width="200px")
        )
        self.palette = w.Dropdown(options=list(PALETTES), description="colours:")
        self.whole_button = w.Button(tooltip="everything", icon="arrows-h")
        self.whole_button.layout.width = "38px"
        self.says, self.table = w.HTML(), w.HTML()
        self.figure = PairFigure()
        self.whole_button.on_click(lambda _: self.figure.look())
        for control in (self.by, self.shift, self.palette):
            control.observe(self._changed, names="value")
        bar = w.HBox([self.by, self.shift, self.whole_button, self.palette])
        bar.layout.flex_flow = "row wrap"
        super().__init__([bar, self.says, self.figure, self.table])
        self._changed()

    def _changed(self, _: Any = None) -> None:
        try:
            pair = align(*self.runs, self.by.value).shifted(round(self.shift.value * 1e6))
        except WastedCoresError as e:
            self.says.value = sentence(str(e)).html
            return
        self.figure.put(pair, self.palette.value)
        self.says.value = _KEYS
        self.table.value = self.table.value or compared(pair).html


def side_by_side(run: TraceLike | Examined, against: TraceLike | Examined) -> SideBySide:
    """Compare two recorded traces in a notebook, on one time axis and with one colour scale."""
    first, second = (r if isinstance(r, Examined) else examine(r) for r in (run, against))
    return SideBySide(first, second)
