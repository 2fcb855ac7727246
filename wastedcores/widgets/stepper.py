"""A widget that steps through a balancing pass, forward and back, from loads, weights and a topology that the user chooses.

The state consists of an :class:`wastedcores.lecture.Example` and the number of a decision. For a report,
:func:`balancing_stepper_static` makes a figure with the same steps.
"""

from __future__ import annotations

from dataclasses import astuple
from itertools import chain
from typing import TYPE_CHECKING, Any

import ipywidgets as w

from wastedcores.errors import WastedCoresError
from wastedcores.figures.balancing import balancing_step, balancing_steps
from wastedcores.lecture import EXAMPLES, TOPOLOGIES, CpuThreads, Example
from wastedcores.widgets.live_figure import LiveFigure
from wastedcores.words.rich_text import sentence

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from wastedcores.simulator.plain.stepping import Decision

#: the kernels of the lecture
KERNELS = ("v4.1", "v4.1+group_imbalance", "v4.1+missing_domains")
#: for each field of CpuThreads but the last one: the heading, and the smallest and the greatest value
_COLUMNS = (("threads", 0, 16), ("weight", 1, 100), ("% of a CPU", 1, 100), ("in session", 1, 64))


def balancing_stepper_static(example: Example, passes: int = 1) -> go.Figure:
    """Return a figure with a slider that has the same steps as the widget, for a page without a live kernel."""
    return balancing_steps(example.machine, example.decisions(passes))


class BalancingStepper(w.VBox):
    """Controls above one step of a pass; see :func:`balancing_stepper`."""

    def __init__(self, example: Example, passes: int = 1) -> None:
        wide, wrapped = w.Layout(width="420px", max_width="96%"), w.Layout(flex_flow="row wrap")
        self.example = w.Dropdown(
            options=[("your own", ""), *EXAMPLES.items()], description="example", layout=wide
        )
        self.topology = w.Dropdown(options=list(TOPOLOGIES), description="topology", layout=wide)
        self.kernel = w.Dropdown(options=KERNELS, description="kernel", layout=wide)
        self.passes = w.BoundedIntText(passes, 1, 9, description="passes", layout=wide)
        self.rows = [_row() for _ in range(4)]
        self.back = w.Button(description="back", icon="step-backward")
        self.forward = w.Button(description="forward", icon="step-forward")
        self.number = w.IntSlider(0, 0, 1, description="decision", layout=wide)
        self.says = w.HTML()
        self.figure = LiveFigure()
        self.decisions: list[Decision] = []
        self._filling = False
        self.back.on_click(lambda _: self.step(-1))
        self.forward.on_click(lambda _: self.step(1))
        self.number.observe(self._draw, names="value")
        self.example.observe(self._chosen, names="value")
        for control in (self.topology, self.kernel, self.passes, *chain(*self.rows)):
            control.observe(self._changed, names="value")
        left = w.VBox([self.example, self.topology, self.kernel, self.passes])
        bar = w.HBox([self.back, self.forward, self.number], layout=wrapped)
        top = w.HBox([left, self._table()], layout=wrapped)
        super().__init__([top, bar, self.says, self.figure])
        self.show(example)

    @property
    def state(self) -> Example:
        """The state that the controls show."""
        rows = (CpuThreads(*(control.value for control in row)) for row in self.rows)
        return Example(tuple(rows), self.topology.value, self.kernel.value)

    def show(self, example: Example) -> None:
        """Put an example into the controls and compute its pass."""
        self._filling = True
        self.topology.value, self.kernel.value = example.topology, example.kernel
        for row, threads in zip(self.rows, example.rows, strict=True):
            for control, value in zip(row, astuple(threads), strict=True):
                control.value = value
        self._filling = False
        self._changed()

    def step(self, by: int) -> None:
        """Go this many decisions forward (back if the number is negative), but not beyond the first or last decision."""
        self.number.value = min(max(self.number.value + by, 0), self.number.max)

    def _table(self) -> w.GridBox:
        names = ["", *(heading for heading, *_ in _COLUMNS), "pinned"]
        cells: list[w.Widget] = [w.Label(name) for name in names]
        for cpu, row in enumerate(self.rows):
            cells += [w.Label(f"CPU {cpu}"), *row]
        columns = "50px repeat(5, 84px)"
        return w.GridBox(cells, layout=w.Layout(grid_template_columns=columns, overflow="auto"))

    def _chosen(self, change: Any) -> None:
        if change["new"] and not self._filling:
            self.show(change["new"])

    def _changed(self, _: Any = None) -> None:
        """Compute the pass again, and show its first decision."""
        if self._filling:
            return
        known = self.state
        self._filling = True
        self.example.value = known if known in EXAMPLES.values() else ""
        self._filling = False
        try:
            self.decisions = known.decisions(self.passes.value)
        except WastedCoresError as e:
            self.says.value = sentence(str(e)).html
            self.figure.hide()
            self.decisions = []
            return
        self.number.value, self.number.max = 0, len(self.decisions) - 1
        self._draw()

    def _draw(self, _: Any = None) -> None:
        if not self.decisions:
            return
        i = self.number.value
        self.back.disabled, self.forward.disabled = i == 0, i == self.number.max
        self.figure.show(balancing_step(self.state.machine, self.decisions, i))
        self.says.value = ""


def _row() -> list[Any]:
    cell = w.Layout(width="76px")
    numbers = [w.BoundedIntText(low, low, high, layout=cell) for _, low, high in _COLUMNS]
    return [*numbers, w.Checkbox(indent=False, layout=cell)]


def balancing_stepper(example: Example | None = None, passes: int = 1) -> BalancingStepper:
    """Step through a balancing pass in a notebook, and change loads, weights and the topology.

    Parameters
    ----------
    example
        The first state. Default: the example of average loads from the authors' slides (:mod:`wastedcores.lecture`).
    passes
        The greatest number of passes over all CPUs.

    Returns
    -------
    BalancingStepper
        A box of ipywidgets; :func:`balancing_stepper_static` makes a figure with the same steps without a live kernel.
    """
    return BalancingStepper(example or EXAMPLES["averages of groups"], passes)
