"""A widget that replays a scenario under two kernels and shows both heat maps and their difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ipywidgets as w

from wastedcores.analysis.alignment import START, align
from wastedcores.analysis.compare import compare
from wastedcores.analysis.examined import examine
from wastedcores.errors import WastedCoresError
from wastedcores.kernels import FIXES, KernelModel
from wastedcores.kernels import PRESETS as KERNELS
from wastedcores.kernels.rules import FEATURES, NEWIDLE
from wastedcores.simulator import replay_scenario
from wastedcores.topology.presets import PRESETS as MACHINES
from wastedcores.units import human_ns
from wastedcores.widgets.two_traces import PairFigure
from wastedcores.words.replays import runs_compared
from wastedcores.words.rich_text import sentence
from wastedcores.workload.scenarios import SCENARIOS, Scenario, as_text, scenario

#: the kernels that can be replayed, without fixes
BASES = tuple(k for k in KERNELS if "+" not in k and KernelModel.named(k).is_replayed)


def parameter_fields(found: Scenario) -> tuple[w.Text, ...]:
    """Return a field for each parameter of a scenario, with its value."""
    style = {"description_width": "120px"}
    return tuple(
        w.Text(as_text(value), description=name, style=style, layout=w.Layout(width="260px"))
        for name, value in found.parameters().items()
    )


def changed_parameters(found: Scenario, fields: Sequence[w.Text]) -> dict[str, str]:
    """Return the parameters that differ from the scenario's own."""
    usual = found.parameters()
    shown = {field.description: field.value.strip() for field in fields}
    return {k: v for k, v in shown.items() if v != as_text(usual[k])}


class ReplayLab(w.VBox):
    """Controls above a live figure of two replays; see :func:`replay_lab`."""

    def __init__(self, name: str, given: dict[str, Any]) -> None:
        scenario(name).values(given)  # refuses unknown names and values
        wide = w.Layout(width="300px")
        self.scenario = w.Dropdown(
            options=list(SCENARIOS), value=name, description="scenario:", layout=wide
        )
        self.machine = w.Dropdown(options=list(MACHINES), description="machine:", layout=wide)
        self.kernel = w.Dropdown(options=BASES, value="v4.1", description="kernel:", layout=wide)
        self.fixes = w.SelectMultiple(options=list(FIXES), description="fixes:", rows=4)
        self.seed = w.IntText(1, description="seed:", layout=w.Layout(width="160px"))
        self.parameters = w.VBox()
        self.run_button = w.Button(description="replay", icon="play", button_style="primary")
        self.says, self.table = w.HTML(), w.HTML()
        self.figure = PairFigure()
        self.scenario.observe(self._other_scenario, names="value")
        self.kernel.observe(self._other_kernel, names="value")
        self.run_button.on_click(lambda _: self.run())
        left = w.VBox([self.scenario, self.machine, self.kernel, self.seed])
        bar = w.HBox([left, w.VBox([self.fixes, self.run_button]), self.parameters])
        bar.layout.flex_flow = "row wrap"
        super().__init__([bar, self.says, self.figure, self.table])
        self._other_scenario()
        for control in self.parameters.children:
            if control.description in given:
                control.value = as_text(given[control.description])
        self.says.value = "Choose, and press replay: both kernels run the same work."

    def _other_scenario(self, _: Any = None) -> None:
        found = scenario(self.scenario.value)
        self.machine.value, self.kernel.value = found.machine, found.kernel
        self._other_kernel()
        if found.fix in self.fixes.options:
            self.fixes.value = (found.fix,)
        self.parameters.children = parameter_fields(found)

    def _other_kernel(self, _: Any = None) -> None:
        kernel = KernelModel.named(self.kernel.value)
        fixes = tuple(f for f in FIXES if not kernel.has(f))
        if kernel.is_modern:
            rules = kernel.rules
            off = (
                f"NO_{f}"
                for f, (rule, without) in FEATURES.items()
                if getattr(rules, rule) != without
            )
            fixes = (
                "overload_on_wakeup",
                *off,
                *(f"newidle:{n}" for n in NEWIDLE if n != rules.newidle),
            )
        self.fixes.options = fixes
        self.fixes.value = fixes[:1] if kernel.is_modern else fixes

    @property
    def kernels(self) -> tuple[str, str]:
        """The kernel, and the same kernel with the chosen fixes."""
        return self.kernel.value, "+".join([self.kernel.value, *self.fixes.value])

    def given(self) -> dict[str, str]:
        """Return the parameters that differ from the scenario's own."""
        return changed_parameters(scenario(self.scenario.value), self.parameters.children)

    def run(self) -> None:
        """Replay the scenario under both kernels, and show them."""
        if not self.fixes.value:
            self.says.value = "Choose at least one fix, so that there are two kernels to compare."
            return
        self.says.value = "replaying …"
        self.run_button.disabled = True
        name, machine, seed = self.scenario.value, self.machine.value, self.seed.value
        try:
            runs = {
                kernel: replay_scenario(name, kernel, machine, seed, self.given())
                for kernel in self.kernels
            }
            run, against = (examine(r.trace, k) for k, r in runs.items())
            self.figure.window = None
            self.figure.put(align(run, against, START))
            found = compare(runs)
            self.table.value = runs_compared(found).html
            said = (
                f"{name} on {machine}, seed {seed}. {_gain(*found.table['wasted_core_s'])} "
                "Drag to zoom, double click for everything."
            )
            # a notebook does not show warnings of code that a button started
            warning = KernelModel.named(self.kernel.value).replay_warning
            self.says.value = f"{said} {warning[0].upper()}{warning[1:]}." if warning else said
        except WastedCoresError as e:
            self.figure.hide()
            self.table.value = ""
            self.says.value = sentence(str(e)).html
        finally:
            self.run_button.disabled = False


def _gain(before_s: float, after_s: float) -> str:
    """Say how much less core time is wasted with the fixes; this comes first, as other numbers of a short run may get worse."""
    if not before_s and after_s:
        return f"Without the fixes nothing is wasted, and with them {human_ns(1e9 * after_s)} of core time."
    if not before_s:
        return "Without the fixes nothing is wasted, so they have nothing to gain."
    less = 1 - after_s / before_s
    return f"With the fixes {abs(less):.0%} {'less' if less >= 0 else 'more'} core time is wasted."


def replay_lab(scenario: str = "group-imbalance", **given: Any) -> ReplayLab:
    """Replay a scenario in a notebook under a kernel and under the same kernel with fixes, and compare them.

    Parameters
    ----------
    scenario
        The scenario that is chosen first.
    **given
        Values of its parameters.

    Returns
    -------
    ReplayLab
        A box of ipywidgets. ``wastedcores compare SCENARIO`` and :func:`wastedcores.figures.compare.aligned` show the
        same without a live kernel.

    Raises
    ------
    UsageError
        There is no such scenario, or it has no such parameter or value.
    """
    return ReplayLab(scenario, given)
