"""A playground of scheduling domains: choose a machine, kernels, pinned nodes and hotplug, and see which CPUs can help.

The state is a :class:`Choice`. :func:`domain_playground_static` makes every picture from it, in the widget and in a report.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import ipywidgets as w

from wastedcores.cpulist import format_cpulist
from wastedcores.errors import TopologyError, WastedCoresError
from wastedcores.figures.domain_groups import groups_compared, pull_matrix
from wastedcores.figures.domains import domain_areas
from wastedcores.kernels import PRESETS as KERNELS
from wastedcores.kernels import KernelModel
from wastedcores.topology.domains import build_domains
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import PRESETS as MACHINES
from wastedcores.topology.source import find_machine
from wastedcores.widgets.live_figure import LiveFigure
from wastedcores.words.balancing import help_sentence
from wastedcores.words.rich_text import sentence

#: stands for "no CPU" in the menus, where ipywidgets reads None as "nothing selected"
NONE = -1


@dataclass(frozen=True)
class Choice:
    """The state of the playground.

    Attributes
    ----------
    machine
        Preset, file or ``live``.
    kernel, against
        Names of kernel models; ``against`` is compared with ``kernel``.
    pin_nodes
        Nodes on which the tasks may run; empty: all.
    cpu
        The CPU whose domains are drawn; None: the first CPU of the last pinned node.
    hotplug_cpu
        A CPU that is taken offline and brought back before the domains are drawn; None: no CPU.
    """

    machine: str = "bulldozer8x8"
    kernel: str = "v4.1"
    against: str = "v4.1+group_construction"
    pin_nodes: tuple[int, ...] = (1, 2)
    cpu: int | None = None
    hotplug_cpu: int | None = None

    def state(self) -> Machine:
        """Return the machine after the hotplug."""
        machine = find_machine(self.machine).machine
        if self.hotplug_cpu is None:
            return machine
        return machine.offline(self.hotplug_cpu).online(self.hotplug_cpu)


def domain_playground_static(choice: Choice) -> tuple[Any, ...]:
    """Return what the playground shows for a choice."""
    machine = choice.state()
    domains = build_domains(machine, KernelModel.named(choice.kernel))
    pin = [c for n in choice.pin_nodes for c in machine.cpus_of_node(n)] or None
    cpu = choice.cpu
    if cpu is None:
        cpu = machine.cpus_of_node(choice.pin_nodes[-1])[0] if pin else machine.online_cpus[0]
    source = choice.pin_nodes[0] if len(choice.pin_nodes) > 1 else None
    return (
        help_sentence(domains, pin),
        domain_areas(domains, cpu),
        groups_compared(machine, cpu, (choice.kernel, choice.against), source),
        pull_matrix(domains, pin),
    )


class DomainsPlayground(w.VBox):
    """Controls above the figures; see :func:`domain_playground`."""

    def __init__(self, choice: Choice) -> None:
        wide = w.Layout(width="330px")
        extra = [] if choice.machine in MACHINES else [choice.machine]
        self.machine = w.Dropdown(
            options=[*extra, *MACHINES], value=choice.machine, description="machine", layout=wide
        )
        self.kernel = _kernel_menu(choice.kernel, "kernel", wide)
        self.against = _kernel_menu(choice.against, "compare", wide)
        self.pin = w.SelectMultiple(description="pinned to", rows=4)
        self.cpu = w.Dropdown(description="CPU")
        self.hotplug = w.Dropdown(description="off and on")
        self.says = w.HTML()
        self.figures = [LiveFigure() for _ in range(3)]
        self._fill(choice)
        self.machine.observe(self._other_machine, names="value")
        self._watched = (self.kernel, self.against, self.pin, self.cpu, self.hotplug)
        for control in self._watched:
            control.observe(self._draw, names="value")
        left, right = (
            w.VBox([self.machine, self.kernel, self.against]),
            w.VBox([self.cpu, self.hotplug]),
        )
        bar = w.HBox([left, self.pin, right], layout=w.Layout(flex_flow="row wrap"))
        super().__init__([bar, self.says, *self.figures])
        self._draw()

    @property
    def choice(self) -> Choice:
        """The state that the controls show."""
        return Choice(
            self.machine.value,
            self.kernel.value,
            self.against.value,
            tuple(self.pin.value),
            *(None if menu.value == NONE else menu.value for menu in (self.cpu, self.hotplug)),
        )

    def _fill(self, choice: Choice) -> None:
        machine = find_machine(choice.machine).machine
        self.pin.options = [
            (f"node {n}", n) for n in range(machine.nodes) if machine.cpus_of_node(n)
        ]
        nodes = [n for _, n in self.pin.options]
        self.pin.value = tuple(n for n in choice.pin_nodes if n in nodes)
        for menu, none, value in (
            (self.cpu, "first of last pinned node", choice.cpu),
            (self.hotplug, "no CPU", choice.hotplug_cpu),
        ):
            menu.options = [(none, NONE), *((f"CPU {c}", c) for c in machine.online_cpus)]
            if value not in (None, *machine.online_cpus):
                raise TopologyError(
                    f"machine {machine.name!r}: CPU {value} is not online; online are {format_cpulist(machine.online_cpus)}."
                )
            menu.value = NONE if value is None else value

    def _other_machine(self, _: Any) -> None:
        with self.hold_trait_notifications():
            self._fill(Choice(self.machine.value, self.kernel.value, self.against.value, ()))
        self._draw()

    def _draw(self, _: Any = None) -> None:
        self.says.value = "computing …"
        try:
            said, *figures = domain_playground_static(self.choice)
        except WastedCoresError as e:
            said, figures = sentence(str(e)), []
        for place, figure in zip_longest(self.figures, figures):
            place.show(figure) if figure is not None else place.hide()
        self.says.value = said.html


def _kernel_menu(value: str, name: str, layout: w.Layout) -> w.Dropdown:
    extra = [] if value in KERNELS else [value]
    return w.Dropdown(options=[*extra, *KERNELS], value=value, description=name, layout=layout)


def domain_playground(choice: Choice | None = None) -> DomainsPlayground:
    """Show the playground in a notebook, with controls for machine, kernels, pinned nodes and hotplug.

    Without a first state, it begins with the paper's machine and with tasks that are pinned to nodes 1 and 2.
    :func:`domain_playground_static` makes the same pictures without a live kernel.
    """
    return DomainsPlayground(choice or Choice())
