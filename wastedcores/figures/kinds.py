"""The table of the figures of one trace, from which ``wastedcores figure`` and the layers of the explorer are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from wastedcores.analysis.examined import Examined


@dataclass(frozen=True)
class Look:
    """The settings of a figure of a trace."""

    window: tuple[int, int] | None = None  #: first and last ns; None: what the figure chooses
    show: str = "runqueues"  #: the button that is pressed in the explorer
    palette_name: str = "safe"  #: ``safe`` or ``paper``
    #: what a pixel of the runqueues shows, see :func:`wastedcores.figures.heatmaps.heatmap`
    reduce: str = "share"
    cols: int | None = None  #: pixels per row
    against: Examined | None = None  #: a second trace to draw beside the first
    #: of the searches for CPUs, draw only those on behalf of this CPU, and only those by this kernel function
    cpu: int | None = None
    op: str | None = None
    #: the layers of events, and the spans whose lengths these layers use
    layers: tuple[Any, ...] = ()
    spans: tuple[Any, ...] = ()

    @property
    def shown(self) -> tuple[int, int]:
        """The window, which must not be None; the explorer always sets one."""
        assert self.window is not None
        return self.window


class Kind(NamedTuple):
    """A kind of figure."""

    doc: str  #: what it shows, for the help
    #: module below ``wastedcores.figures`` and function that takes an examined trace and makes the figure
    draw: tuple[str, str]
    #: the attributes of a :class:`Look` that the function takes, separated by spaces
    takes: str = "palette_name"
    button: str = ""  #: its name in the explorer; empty: the explorer does not have this kind
    #: kinds of events, separated by spaces; the explorer offers this figure if the trace has one of them; empty: always
    events: str = ""

    def figure(self, run: Examined, look: Look) -> go.Figure:
        """Import the function and draw a trace."""
        module, name = self.draw
        draw: Callable[..., go.Figure] = getattr(
            import_module(f"wastedcores.figures.{module}"), name
        )
        wanted = {n: getattr(look, n) for n in self.takes.split()}
        return draw(run, **{n: v for n, v in wanted.items() if v is not None})


#: the kinds by name, in the order of the help and of the explorer's buttons
KINDS: dict[str, Kind] = {
    "heatmap": Kind(
        "threads per runqueue, with episodes, idle CPUs and waiting threads",
        ("views", "overview"), "window palette_name reduce cols against", "runqueues",
    ),
    "tasks": Kind(
        "which task ran on which CPU", ("views", "who_ran_in"), "window palette_name", "tasks", "switch",
    ),
    "waits": Kind("how long threads waited", ("views", "waits"), "palette_name against"),
    "avoidable": Kind(
        "the threads that waited longest while a CPU that they may use was idle", ("views", "avoidable"),
    ),
    "load": Kind("load per runqueue", ("views", "load"), "window", "load", "load"),
    "considered": Kind(
        "CPUs that load balancing and wakeups looked at",
        ("views", "looked_at"), "window palette_name cpu op", "considered", "considered",
    ),
    "worst": Kind("the worst episode", ("views", "zoom")),
    "frequency": Kind(
        "how fast every CPU was, and how many were slow while they were busy",
        ("frequencies", "frequency"), "window palette_name cols", "frequency", "tick frequency",
    ),
    "events": Kind(
        "events that --query chooses, as strokes, spans and arrows; without a query who ran and how tasks moved",
        ("event_views", "events"), "window cols layers spans", "events",
    ),
    "transitions": Kind(
        "idle, user and kernel time of every CPU, wakeups, and why threads waited (capture --transitions)",
        ("kernel_user", "transitions"), "window palette_name",
    ),
    "nodes": Kind(
        "how many threads run or wait on every node, beside the number of its CPUs",
        ("timelines", "threads_per_node"), "window palette_name",
    ),
}  # fmt: skip


def described() -> str:
    """Return lines for the help, one for each kind and what it shows."""
    width = max(map(len, KINDS))
    return "\n".join(f"  {name:<{width}} {kind.doc}" for name, kind in KINDS.items())


def that_take(option: str) -> list[str]:
    """Return the names of the kinds that use an attribute of a :class:`Look`."""
    return [name for name, kind in KINDS.items() if option in kind.takes.split()]
