"""A widget that steps through one call of the balancer, line by line of the paper's Algorithm 1.

The state consists of a table of calls, the number of a call in this table, and the number of a step of this call. For a report,
:func:`decision_stepper_static` makes a figure with the same steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets as w

from wastedcores.figures.decisions import decision_step, decision_steps
from wastedcores.widgets.live_figure import LiveFigure
from wastedcores.words.decisions import call_steps
from wastedcores.words.rich_text import count

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import polars as pl

ALL = "all"


def decision_stepper_static(calls: pl.DataFrame, number: int = 0) -> go.Figure:
    """Return a figure with a slider that steps through one call, for a page without a live kernel."""
    return decision_steps(calls.row(number, named=True))


class DecisionStepper(w.VBox):
    """Controls that choose a call, above one of its steps; see :func:`decision_stepper`."""

    def __init__(self, calls: pl.DataFrame) -> None:
        wide = w.Layout(width="300px")
        self.calls = self._chosen = calls
        self.filters = {
            name: w.Dropdown(options=[ALL, *_values(calls, name)], description=name, layout=wide)
            for name in ("level", "result", "cpu")
        }
        self.call = w.IntSlider(0, 0, 1, description="call", layout=wide)
        self.back = w.Button(description="back", icon="step-backward")
        self.forward = w.Button(description="forward", icon="step-forward")
        self.number = w.IntSlider(0, 0, 1, description="step", layout=wide)
        self.says = w.HTML()
        self.figure = LiveFigure()
        self.back.on_click(lambda _: self.step(-1))
        self.forward.on_click(lambda _: self.step(1))
        for control in self.filters.values():
            control.observe(self._filter, names="value")
        self.call.observe(self._choose, names="value")
        self.number.observe(self._draw, names="value")
        first = w.HBox(list(self.filters.values()), layout=w.Layout(flex_flow="row wrap"))
        second = w.HBox(
            [self.call, self.back, self.forward, self.number],
            layout=w.Layout(flex_flow="row wrap"),
        )
        super().__init__([first, second, self.says, self.figure])
        self._filter()

    def step(self, by: int) -> None:
        """Go this many steps forward (back if the number is negative), but not beyond the first or last step."""
        self.number.value = min(max(self.number.value + by, 0), self.number.max)

    @property
    def chosen(self) -> dict[str, Any] | None:
        """The call that is shown; None if no call matches the controls."""
        return self._chosen.row(self.call.value, named=True) if self._chosen.height else None

    def _filter(self, _: Any = None) -> None:
        """Choose the calls that match the controls, and begin with the first of these calls."""
        table = self.calls
        for name, control in self.filters.items():
            if control.value != ALL:
                table = table.filter(table[name] == control.value)
        self._chosen = table
        self.call.value, self.call.max = 0, max(table.height - 1, 0)
        self._choose()

    def _choose(self, _: Any = None) -> None:
        """Begin at the first step of the chosen call."""
        call = self.chosen
        if call is None:
            self.says.value = "No call is left. Choose another level, result or CPU."
            self.figure.hide()
            return
        many, at_ms = count(self._chosen.height, "call"), call["ts_ns"] / 1e6
        self.says.value = f"{many}, this one at {at_ms:,.3f} ms of the trace's clock"
        self.number.value, self.number.max = 0, len(call_steps(call)) - 1
        self._draw()

    def _draw(self, _: Any = None) -> None:
        call = self.chosen
        if call is None:
            return
        i = min(self.number.value, len(call_steps(call)) - 1)
        self.back.disabled, self.forward.disabled = i == 0, i == self.number.max
        self.figure.show(decision_step(call, i))


def _values(calls: pl.DataFrame, name: str) -> list[Any]:
    return calls[name].drop_nulls().unique().sort().to_list()


def decision_stepper(calls: pl.DataFrame) -> DecisionStepper:
    """Step through calls of the balancer (:func:`wastedcores.analysis.decisions.decisions`) in a notebook.

    :func:`decision_stepper_static` makes a figure with the same steps without a live kernel.
    """
    return DecisionStepper(calls)
