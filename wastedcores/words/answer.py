"""The answer in one or two sentences: what was wasted, what it cost, why, and what the fix is."""

from __future__ import annotations

import polars as pl

from wastedcores.analysis.comparable import differences
from wastedcores.analysis.examined import Examined
from wastedcores.cpulist import format_cpulist
from wastedcores.errors import TopologyError, UnknownKernelError
from wastedcores.units import human_ns
from wastedcores.words.cause import NAMES
from wastedcores.words.episode_tables import main_nodes, nodes_of
from wastedcores.words.findings import claim
from wastedcores.words.rich_text import enumerated


def headline(run: Examined, against: Examined | None = None) -> str:
    """Say in a few sentences what was wasted, where, why, and what would help."""
    said = [claim(run).rstrip(".") + "."]
    if run.result.verdict == "violations":
        said += [*_where(run), _cause(run)]
    if against is not None:
        said.append(_compared(run, against))
    return " ".join(said)


def _where(run: Examined) -> list[str]:
    """Name the nodes of the idle CPUs and of the queues in the worst episode; nothing on one node."""
    row = run.worst
    if row is None or run.nodes is None or len({run.nodes[c] for c in run.result.counted_cpus}) < 2:
        return []
    by_node = nodes_of(run, run.result.details.filter(pl.col("episode") == row["episode"]))
    idle, queued = (
        sorted(n for n, _ in main_nodes(by_node, column)) for column in ("idle_ns", "overloaded_ns")
    )
    if not idle or not queued:
        return []
    return [
        f"The idle CPUs were mainly on {_nodes(idle)} and the queues mainly on {_nodes(queued)}."
    ]


def _nodes(numbers: list[int]) -> str:
    return f"node{'s' if len(numbers) > 1 else ''} {format_cpulist(numbers)}"


def _cause(run: Examined) -> str:
    """Name the bug that this looks like, with the paper's fix, or say why the cause is not known."""
    try:
        found = run.explanation
    except (TopologyError, UnknownKernelError):
        return "The cause is not known, because the trace does not name a machine and kernel that are modelled."
    if found.looks_like == "undecided":
        return "It looks like none of the known bugs."
    if found.looks_like == "unknown":
        return "The cause is not known, because there is no model of this kernel's balancer."
    name = NAMES[found.looks_like]
    if not found.fix:
        return f"It looks like {name}."
    return f"It looks like {name.partition(' (')[0]}. The paper's fix is to {found.fix}."


def _compared(run: Examined, against: Examined) -> str:
    """Compare the lengths of two named windows and the waste, or say why that would mean nothing."""
    a, b = run.result, against.result
    if other := differences(run, against):
        return f"{run.label} and {against.label} cannot be compared: {enumerated(other)}."
    waste = f"{against.label} wasted {human_ns(b.thread_ns)} of core time instead of {human_ns(a.thread_ns)}"
    if run.window is None or against.window is None or run.window.names is None:
        return f"{waste}."
    change = (b.duration_ns - a.duration_ns) / max(1, a.duration_ns)
    return f"{waste}, and took {human_ns(b.duration_ns)} instead of {human_ns(a.duration_ns)} ({change:+.0%})."
