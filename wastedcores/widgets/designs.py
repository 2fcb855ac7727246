"""A widget that runs the user's own modules under the work-conserving core (docs/design-mode.md) and shows what it refused."""

from __future__ import annotations

from typing import Any

import ipywidgets as w

from wastedcores.analysis.examined import Examined, examine
from wastedcores.analysis.scene import TimeAxis
from wastedcores.errors import UsageError, WastedCoresError
from wastedcores.figures.heatmaps import heatmap
from wastedcores.figures.theme import INK, palette
from wastedcores.kernels import MODULES
from wastedcores.simulator.plain.modules import Module
from wastedcores.simulator.replay import replay
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import PRESETS as MACHINES
from wastedcores.widgets.live_figure import LiveFigure
from wastedcores.widgets.replays import changed_parameters, parameter_fields
from wastedcores.words.findings import claim, verdict
from wastedcores.words.replays import refused
from wastedcores.words.rich_text import sentence
from wastedcores.workload.scenarios import SCENARIOS
from wastedcores.workload.scenarios import scenario as find_scenario

#: the user's modules run in plain Python, so the first choice is a small machine, and a replay stops after a second of simulated
#: time
SMALL, LIMIT_MS = "bd-paper-16", 1000


class DesignLab(w.VBox):
    """Controls, and below them a live figure of a replay with modules; see :func:`design_lab`."""

    def __init__(self, modules: tuple[Module, ...], name: str) -> None:
        wide = w.Layout(width="300px")
        self.modules = modules
        self.scenario = w.Dropdown(
            options=list(SCENARIOS), value=name, description="scenario:", layout=wide
        )
        self.machine = w.Dropdown(
            options=list(MACHINES), value=SMALL, description="machine:", layout=wide
        )
        self.limit = w.BoundedIntText(LIMIT_MS, 1, 10_000, description="stop at ms:")
        self.seed = w.IntText(1, description="seed:")
        self.shipped = w.SelectMultiple(options=list(MODULES), description="then ask:", rows=5)
        self.run_button = w.Button(description="run", icon="play", button_style="primary")
        self.says, self.table, self.verdict = w.HTML(), w.HTML(), w.HTML()
        self.figure = LiveFigure(self._heard)
        self.parameters = w.VBox()
        self.run_button.on_click(lambda _: self.run())
        self.scenario.observe(self._other_scenario, names="value")
        self._run: Examined | None = None
        left = w.VBox([self.scenario, self.machine, self.limit, self.seed])
        bar = w.HBox([left, w.VBox([self.shipped, self.run_button]), self.parameters])
        bar.layout.flex_flow = "row wrap"
        super().__init__([bar, self.says, self.figure, self.table, self.verdict])
        self._other_scenario()
        own = ", ".join(m.name for m in modules) or "no module of your own"
        self.says.value = sentence(f"The core asks {own}, and then the modules chosen above.").html

    def _other_scenario(self, _: Any = None) -> None:
        self.parameters.children = parameter_fields(find_scenario(self.scenario.value))

    def run(self) -> None:
        """Replay the scenario under the core with the modules, and show what happened and which suggestions were refused."""
        self.says.value = "running in plain Python …"
        self.run_button.disabled = True
        try:
            on = Machine.preset(self.machine.value)
            found = find_scenario(self.scenario.value)
            given = changed_parameters(found, self.parameters.children)
            work = found.workload(on, self.seed.value, given)
            asked = [*self.modules, *self.shipped.value]
            until_ns = self.limit.value * 1_000_000
            done = replay(work, on, None, self.seed.value, until_ns, modules=asked)
            self._run = examine(done.trace, done.kernel.name)
            self.look(*self._run.scene.window)
            self.says.value = sentence(claim(self._run)).html
            self.table.value = refused(done.trace).html
            self.verdict.value = verdict(self._run).html
        except WastedCoresError as e:
            self.says.value = sentence(str(e)).html
            self.table.value = self.verdict.value = ""
            self.figure.hide()
        finally:
            self.run_button.disabled = False

    def look(self, start_ns: int, end_ns: int) -> None:
        """Show a window of the replay."""
        if self._run is None:
            return
        first, last = self._run.scene.window
        start = min(max(start_ns, first), max(first, last - 1000))
        end = min(max(end_ns, start + 1000), last)
        fig = heatmap(self._run.scene, (start, end), cols=900, title=claim(self._run))
        colours = palette()
        view = {
            "scale": TimeAxis.of(first, end - start).ns / 1e9,
            "window": [(t - first) / 1e9 for t in (start, end)],
            "bounds": [0, (last - first) / 1e9],
            "colours": {"accent": colours.violation, "curve": colours.waiting, "ink": INK},
        }
        self.figure.show(fig, view)

    def _heard(self, message: dict[str, Any]) -> None:
        if self._run is None:
            return
        first, last = self._run.scene.window
        if message["kind"] == "look":
            self.look(*(first + round(message[k] * 1e9) for k in ("lo", "hi")))
        elif message["kind"] == "whole":
            self.look(first, last)


def design_lab(*modules: Module, scenario: str = "overload-on-wakeup") -> DesignLab:
    """Try modules of your own: write a class in a cell, run it under the core, and see what the core refused.

    Parameters
    ----------
    *modules
        Instances of :class:`wastedcores.simulator.plain.modules.Module`, in the order in which the core asks them
        (docs/design-mode.md).
    scenario
        The scenario that is chosen first.

    Returns
    -------
    DesignLab
        A box of ipywidgets; :func:`wastedcores.simulator.replay` makes the same replay without a notebook.

    Raises
    ------
    UsageError
        An argument is not an instance of ``Module``, or there is no such scenario.
    """
    find_scenario(scenario)  # refuses unknown names
    for module in modules:
        if not isinstance(module, Module):
            raise UsageError(
                f"design_lab: expected instances of Module, got {module!r}. Write design_lab(EvenCpus()), with parentheses."
            )
    return DesignLab(modules, scenario)
