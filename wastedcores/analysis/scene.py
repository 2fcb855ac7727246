"""What a figure needs to know about a trace, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from wastedcores.analysis.states import States


@dataclass(frozen=True)
class Scene:
    """A trace, seen: states, episodes and marks, with the words that go on the figure.

    Attributes
    ----------
    states
        Runqueue lengths.
    cpus
        CPUs to draw, grouped by node.
    nodes
        NUMA node of every CPU number, or None if the topology is unknown.
    episodes
        Columns start_ns, end_ns, persistent (as ``CheckResult.episodes``), or None.
    marks
        (ns, text) written into the trace.
    label
        What to call it: name of the trace.
    facts
        Kernel, machine: the subtitle.
    loss
        Sentence about lost events; empty if none.
    persist_ns
        Limit above which an episode is persistent.
    """

    states: States
    cpus: tuple[int, ...]
    nodes: tuple[int, ...] | None = None
    episodes: pl.DataFrame | None = None
    marks: tuple[tuple[int, str], ...] = ()
    label: str = "trace"
    facts: str = ""
    loss: str = ""
    persist_ns: int = 100_000_000
    loads: States | None = field(default=None)

    @property
    def window(self) -> tuple[int, int]:
        """First and last ns drawn."""
        return self.states.start_ns, self.states.end_ns

    def rows(self) -> list[str]:
        """Names of the rows, top to bottom."""
        return [f"CPU {c}" for c in self.cpus]

    def node_starts(self) -> list[tuple[int, int, int]]:
        """(node, first row, rows) of each run of rows on one node; empty if unknown."""
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
    """CPUs in the order of rows: node by node, within a node by number."""
    if nodes is None:
        return tuple(sorted(cpus))
    return tuple(sorted(cpus, key=lambda c: (nodes[c] if c < len(nodes) else -1, c)))


@dataclass(frozen=True)
class TimeAxis:
    """Unit and zero of a time axis, chosen for the width of the window."""

    zero_ns: int
    unit: str
    ns: float

    @classmethod
    def of(cls, zero_ns: int, width_ns: int) -> TimeAxis:
        """Seconds from two seconds on, microseconds below two milliseconds, else milliseconds."""
        for unit, ns in (("s", 1e9), ("ms", 1e6)):
            if width_ns >= 2 * ns:
                return cls(zero_ns, unit, ns)
        return cls(zero_ns, "us", 1e3)

    def at(self, ts_ns: np.ndarray | int | float) -> np.ndarray:
        """Position on the axis."""
        return (np.asarray(ts_ns, dtype=float) - self.zero_ns) / self.ns

    @property
    def labels(self) -> dict[str, Any]:
        """Title of the axis, and numbers in that unit, however late in the trace: not 20.975k."""
        return {"title": f"time ({self.unit})", "exponentformat": "none", "separatethousands": True}

    @property
    def digits(self) -> str:
        """How a time is written (d3-format): to the microsecond, to the nanosecond where that is the unit."""
        return ",.6~f" if self.unit == "s" else ",.3~f"
