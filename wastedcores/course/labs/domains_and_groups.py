"""Lab 2: scheduling domains and groups for a given distance table, as Linux 6.12 builds them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wastedcores.course.labs.numa import (
    CPUS_PER_NODE,
    LOCAL,
    ONE_HOP,
    TWO_HOPS,
    Nodes,
    Table,
    by_hops,
    cpus_of,
    draw_nodes,
    groups_of,
    nodes_of,
)
from wastedcores.course.task import Manual, Task

TITLE = "build scheduling domains and groups"
KERNEL = "v6.12"
#: what firmware reports between all nodes if it does not know better
FLAT = 20


@dataclass(frozen=True)
class Variation(Nodes):
    """The machine of one student, and the CPU whose domains are asked for.

    Attributes
    ----------
    hub
        A node that is one hop from every other node.
    """

    hub: int

    @property
    def flat(self) -> Table:
        """The table that firmware without knowledge of the machine reports."""
        nodes = range(len(self.distance))
        return tuple(tuple(LOCAL if a == b else FLAT for b in nodes) for a in nodes)


def draw(rng: random.Random) -> Variation:
    """Draw a variation."""
    nodes = draw_nodes(rng, 5, 8)
    hub = rng.randrange(len(nodes.distance))
    table = tuple(
        tuple(ONE_HOP if a != b and hub in (a, b) else d for b, d in enumerate(row))
        for a, row in enumerate(nodes.distance)
    )
    return Variation(table, nodes.cpu, hub)


def is_fair(v: Variation) -> bool:
    """Tell whether only the hub lacks nodes two hops away, and whether groups of the student's CPU overlap in part."""
    if (
        any(TWO_HOPS not in row for n, row in enumerate(v.distance) if n != v.hub)
        or v.node == v.hub
    ):
        return False
    overlap = overlapping(v)
    # the student's CPU must not be on the first node of its middle domain, or the wrong first CPU would be the right one
    return 0 < len(overlap) < len(v.distance) and v.within(v.node, ONE_HOP)[0] != v.cpu


def facts(v: Variation) -> dict[str, str]:
    """Return what a student sees of a variation."""
    return {
        "machine": f"{len(v.distance)} nodes of two CPUs; node N has CPUs 2N and 2N + 1",
        "distances": f"{LOCAL} is the node itself, {ONE_HOP} is one hop, {TWO_HOPS} is two",
        "your CPU": f"{v.cpu}, on node {v.node}",
    }


# --- what students work with ------------------------------------------------------------------------------------------


def table(v: Variation) -> str:
    """Return the distance table as text."""
    return by_hops(v.distance)


def overlapping(v: Variation) -> list[int]:
    """Return the nodes that are in several groups of the widest domain of the student's CPU."""
    groups = [nodes_of(g) for g in groups_of(v.machine, KERNEL)[v.cpu]]
    return [n for n in range(len(v.distance)) if sum(n in g for g in groups) > 1]


# --- what checks measure ----------------------------------------------------------------------------------------------


def _limits(v: Variation) -> list[tuple[int, int]]:
    return [(n, d) for n in range(len(v.distance)) for d in (LOCAL, ONE_HOP, TWO_HOPS)]


def _measure_within(v: Variation, within: Callable[..., Any]) -> list[Any]:
    return [sorted(within(v.distance, n, d)) for n, d in _limits(v)]


def _measure_domains(v: Variation, domains: Callable[..., Any]) -> list[Any]:
    cpus = range(len(v.distance) * CPUS_PER_NODE)
    return [[sorted(span) for span in domains(v.distance, c)] for c in cpus]


def _measure_groups(v: Variation, groups: Callable[..., Any]) -> list[Any]:
    below = {c: list(cpus_of(n)) for n in range(len(v.distance)) for c in cpus_of(n)}
    spans = {c: v.within(c // CPUS_PER_NODE, ONE_HOP) for c in below}
    return [
        [sorted(g) for g in groups(c, list(span), {x: below[x] for x in span})]
        for c, span in spans.items()
    ]


# --- how a wrong answer is explained ----------------------------------------------------------------------------------


def _hops(v: Variation, a: int, b: int) -> str:
    return ("the same node as", "one hop from", "two hops from")[v.hops(a, b)]


def _explain_neighbours(v: Variation, want: Any, got: Any) -> str:
    n = min(set(want) ^ set(got))
    verdict = "belongs" if n in want else "does not belong"
    away = f"{_hops(v, n, v.node)} node {v.node} (distance {v.distance[v.node][n]})"
    return f"node {n} {verdict} to the list, because it is {away}."


def _right_set(v: Variation, want: Any, got: Any) -> bool:
    return sorted(got) == want


def _explain_levels(v: Variation, want: Any, got: Any) -> str:
    return f"there is one level for each distance between different nodes in the table, and not for {got}."


def _explain_within(v: Variation, want: Any, got: Any) -> str:
    (node, limit), w, g = next(x for x in zip(_limits(v), want, got, strict=True) if x[1] != x[2])
    n = min(set(w) ^ set(g))
    verdict = "must contain" if n in w else "must not contain"
    return f"the nodes within distance {limit} of node {node} {verdict} node {n}, which is at distance {v.distance[node][n]}."


def _first_span(v: Variation, cpu: int, want: Any, got: Any) -> str:
    for i, span in enumerate(want):
        if i >= len(got):
            return f"CPU {cpu} has {len(want)} domains, but you have {len(got)}."
        if sorted(got[i]) != span:
            missing = sorted(set(span) - set(got[i]))
            c = missing[0] if missing else min(set(got[i]) - set(span))
            verdict = "must contain" if missing else "must not contain"
            where = (
                f"node {c // CPUS_PER_NODE} is {_hops(v, c // CPUS_PER_NODE, cpu // CPUS_PER_NODE)}"
            )
            return f"domain {i + 1} of CPU {cpu} {verdict} CPU {c}, because {where} node {cpu // CPUS_PER_NODE}."
    return f"CPU {cpu} has {len(want)} domains, but you have {len(got)}. A domain that equals the one below it is not built."


def _explain_spans(v: Variation, want: Any, got: Any) -> str:
    return _first_span(v, v.cpu, want, got)


def _right_spans(v: Variation, want: Any, got: Any) -> bool:
    return [sorted(s) for s in got] == want


def _explain_domains(v: Variation, want: Any, got: Any) -> str:
    cpu = next(c for c, (w, g) in enumerate(zip(want, got, strict=True)) if w != g)
    return _first_span(v, cpu, want[cpu], got[cpu])


def _explain_groups(v: Variation, want: Any, got: Any) -> str:
    cpu = next(c for c, (w, g) in enumerate(zip(want, got, strict=True)) if w != g)
    w, g = want[cpu], got[cpu]
    i = next((i for i, x in enumerate(w) if i >= len(g) or g[i] != x), len(w))
    if i == len(w):
        return f"CPU {cpu} needs {len(w)} groups, one for each node of its domain, but you return {len(g)}."
    node = w[i][0] // CPUS_PER_NODE
    why = (
        "it is the CPU's own"
        if i == 0
        else "it is the next one after the groups before it, wrapping around"
    )
    given = f"CPUs {g[i]}" if i < len(g) else "missing"
    return f"group {i + 1} of CPU {cpu} must be node {node} (CPUs {w[i]}), because {why}; yours is {given}."


def _explain_overlap(v: Variation, want: Any, got: Any) -> str:
    n = min(set(want) ^ set(got))
    groups = [nodes_of(g) for g in groups_of(v.machine, KERNEL)[v.cpu]]
    return f"node {n} is in {sum(n in g for g in groups)} of the {len(groups)} groups of CPU {v.cpu}'s widest domain."


def _explain_flat(v: Variation, want: Any, got: Any) -> str:
    return f"not {got}: with the same distance between all nodes there is one level across nodes, and it contains all of them."


TASKS = (
    Task("1", "nodes one hop away", 1, 5, explain=_explain_neighbours, right=_right_set),
    Task("2", "levels across nodes", 1, 5, explain=_explain_levels, right=_right_set),
    Task("3", "nodes within a distance", 3, 10, _measure_within, _explain_within, hidden=True),
    Task("4", "domains of your CPU", 2, 10, explain=_explain_spans, right=_right_spans),
    Task(
        "5", "domains of any CPU", 3, 15, _measure_domains, _explain_domains, hidden=True,
        writes=("wastedcores.topology.domains:_replay",),
    ),
    Task(
        "6", "groups of a domain", 3, 15, _measure_groups, _explain_groups, hidden=True,
        writes=("wastedcores.topology.groups:GroupBuilder.ring",),
    ),
    Task("7", "overlapping groups", 2, 5, explain=_explain_overlap, right=_right_set),
    Task("8", "a table without distances", 2, 5, explain=_explain_flat),
    Manual("9", "reflection: what does a level cost?", 3, 10),
)  # fmt: skip
