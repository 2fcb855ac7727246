"""The data that a figure needs about a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from wastedcores.analysis.states import States
from wastedcores.limits import PERSIST_NS


@dataclass(frozen=True)
class Scene:
    """The states, episodes and marks of a trace, with the words that go on the figure."""

    states: States  #: runqueue lengths over time
    cpus: tuple[int, ...]  #: the CPUs to draw, grouped by node
    #: NUMA node of every CPU number, or None if the topology is unknown
    nodes: tuple[int, ...] | None = None
    #: columns start_ns, end_ns, persistent (as ``CheckResult.episodes``), or None
    episodes: pl.DataFrame | None = None
    marks: tuple[tuple[int, str], ...] = ()  #: time in ns and text of every mark
    label: str = "trace"  #: the name of the trace
    facts: str = ""  #: kernel and machine: the subtitle
    loss: str = ""  #: a sentence about lost events; empty if none were lost
    persist_ns: int = PERSIST_NS  #: episodes of at least this length are persistent
    #: the load of every runqueue over time; None if the trace does not have it
    loads: States | None = field(default=None)

    @property
    def window(self) -> tuple[int, int]:
        """The first and last ns that can be drawn."""
        return self.states.start_ns, self.states.end_ns

    def rows(self) -> list[str]:
        """Return the names of the rows, from top to bottom."""
        return [f"CPU {c}" for c in self.cpus]

    def node_starts(self) -> list[tuple[int, int, int]]:
        """Return (node, first row, number of rows) of each group of rows on one node; empty if the nodes are unknown."""
        if self.nodes is None:
            return []
        runs: list[tuple[int, int, int]] = []
        for row, cpu in enumerate(self.cpus):
            node = self.nodes[cpu] if cpu < len(self.nodes) else -1
            if runs and runs[-1][0] == node:
                runs[-1] = (node, runs[-1][1], runs[-1][2] + 1)
            else:
                runs.append((node, row, 1))
        return runs


def by_node(cpus: Sequence[int], nodes: Sequence[int] | None) -> tuple[int, ...]:
    """Sort CPUs into the order of rows: node by node, and by number within a node."""
    if nodes is None:
        return tuple(sorted(cpus))
    return tuple(sorted(cpus, key=lambda c: (nodes[c] if c < len(nodes) else -1, c)))


@dataclass(frozen=True)
class TimeAxis:
    """The unit and the zero of a time axis, chosen for the width of the window."""

    zero_ns: int
    unit: str
    ns: float

    @classmethod
    def of(cls, zero_ns: int, width_ns: int) -> TimeAxis:
        """Choose seconds from two seconds on, microseconds below two milliseconds, and else milliseconds."""
        for unit, ns in (("s", 1e9), ("ms", 1e6)):
            if width_ns >= 2 * ns:
                return cls(zero_ns, unit, ns)
        return cls(zero_ns, "us", 1e3)

    def at(self, ts_ns: np.ndarray | int | float) -> np.ndarray:
        """Return the position of a time on the axis."""
        return (np.asarray(ts_ns, dtype=float) - self.zero_ns) / self.ns

    @property
    def labels(self) -> dict[str, Any]:
        """Plotly's settings of the axis: its title, and numbers without suffixes such as in 20.975k."""
        return {"title": f"time ({self.unit})", "exponentformat": "none", "separatethousands": True}

    @property
    def digits(self) -> str:
        """The d3 format of a time: six decimals for seconds, and three for smaller units."""
        return ",.6~f" if self.unit == "s" else ",.3~f"
