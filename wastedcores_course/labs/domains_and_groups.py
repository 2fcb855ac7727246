"""Lab 2: scheduling domains and groups for a given distance table, as Linux 6.12 builds them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from wastedcores_course.labs.numa import (
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
from wastedcores_course.task import Manual, Task

TITLE = "build scheduling domains and groups"
KERNEL = "v6.12"
#: firmware that does not know the machine reports this distance between any two nodes
FLAT = 20


@dataclass(frozen=True)
class Variation(Nodes):
    """The machine of one student, and the CPU whose domains are asked for."""

    hub: int  #: a node that is one hop from every other node

    @property
    def flat(self) -> Table:
        """The distance table that firmware reports if it does not know the machine."""
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
    """Tell whether each node but the hub has a node two hops away, and whether groups of the student's CPU overlap in part."""
    if (
        any(TWO_HOPS not in row for n, row in enumerate(v.distance) if n != v.hub)
        or v.node == v.hub
    ):
        return False
    overlap = overlapping(v)
    # if the student's CPU were the first CPU of its middle domain, beginning with the domain's first CPU would be no mistake
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


def made_up(v: Variation) -> Table:
    """Return a table with distances that no firmware reports, so that the package's own functions cannot give the answer."""
    rng = random.Random(repr(v))
    n, far = rng.randrange(4, 8), sorted(rng.sample(range(300, 1000), 3))
    table = [[LOCAL] * n for _ in range(n)]
    for a, b in combinations(range(n), 2):
        table[a][b] = table[b][a] = rng.choice(far)
    return tuple(map(tuple, table))


def _made_up_span(v: Variation) -> list[int]:
    """Return the CPUs of some nodes that are not next to each other."""
    rng = random.Random(repr(v))
    return [c for n in sorted(rng.sample(range(40), 6)) for c in cpus_of(n)]


def _asked_within(v: Variation) -> list[tuple[Table, int, int]]:
    return [
        (table, n, d)
        for table in (v.distance, made_up(v))
        for n in range(len(table))
        for d in sorted({d for row in table for d in row})
    ]


def _asked_domains(v: Variation) -> list[tuple[Table, int]]:
    return [
        (table, c) for table in (v.distance, made_up(v)) for c in range(len(table) * CPUS_PER_NODE)
    ]


def _asked_groups(v: Variation) -> list[tuple[int, list[int]]]:
    spans = [
        (c, v.within(c // CPUS_PER_NODE, ONE_HOP)) for c in range(len(v.distance) * CPUS_PER_NODE)
    ]
    other = _made_up_span(v)
    return spans + [(c, other) for c in other]


def _measure_within(v: Variation, within: Callable[..., Any]) -> list[Any]:
    return [sorted(within(*about)) for about in _asked_within(v)]


def _measure_domains(v: Variation, domains: Callable[..., Any]) -> list[Any]:
    return [[sorted(span) for span in domains(*about)] for about in _asked_domains(v)]


def _measure_groups(v: Variation, groups: Callable[..., Any]) -> list[Any]:
    return [
        [
            sorted(g)
            for g in groups(c, list(span), {x: list(cpus_of(x // CPUS_PER_NODE)) for x in span})
        ]
        for c, span in _asked_groups(v)
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
    asked = zip(_asked_within(v), want, got, strict=True)
    (table, node, limit), w, g = next(x for x in asked if x[1] != x[2])
    n = min(set(w) ^ set(g))
    verdict = "must contain" if n in w else "must not contain"
    where = "" if table == v.distance else f"in the table {table}, "
    return f"{where}the nodes within distance {limit} of node {node} {verdict} node {n}, which is at distance {table[node][n]}."


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
    asked = zip(_asked_domains(v), want, got, strict=True)
    (table, cpu), w, g = next(x for x in asked if x[1] != x[2])
    if table == v.distance:
        return _first_span(v, cpu, w, g)
    return f"with the table {table}, the domains of CPU {cpu} are {w}; yours are {g}."


def _explain_groups(v: Variation, want: Any, got: Any) -> str:
    asked = zip(_asked_groups(v), want, got, strict=True)
    (cpu, span), w, g = next(x for x in asked if x[1] != x[2])
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
    where = f" in a domain with the CPUs {span}" if span == _made_up_span(v) else ""
    return f"group {i + 1} of CPU {cpu}{where} must be node {node} (CPUs {w[i]}), because {why}; yours is {given}."


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
