"""Answers of lab 2, build scheduling domains and groups."""

from __future__ import annotations

from wastedcores_course.labs.domains_and_groups import Variation, overlapping
from wastedcores_course.labs.numa import CPUS_PER_NODE, LOCAL, ONE_HOP, TWO_HOPS, Table, cpus_of
from wastedcores_course.task import Answer, Mistake

Spans = list[list[int]]
Below = dict[int, list[int]]


def _neighbours(v: Variation) -> list[int]:
    return [n for n, d in enumerate(v.distance[v.node]) if d == ONE_HOP]


def _within(distance: Table, node: int, limit: int) -> list[int]:
    return [n for n, d in enumerate(distance[node]) if d <= limit]


def _domains(distance: Table, cpu: int) -> Spans:
    """Build one domain per distance, and leave out a domain that equals the next smaller domain."""
    spans: Spans = []
    for limit in sorted({d for row in distance for d in row}):
        span = [c for n in _within(distance, cpu // CPUS_PER_NODE, limit) for c in cpus_of(n)]
        if span not in spans:
            spans.append(span)
    return spans


def _with_equal_ones(distance: Table, cpu: int) -> Spans:
    node = cpu // CPUS_PER_NODE
    limits = sorted({d for row in distance for d in row})
    return [[c for n in _within(distance, node, limit) for c in cpus_of(n)] for limit in limits]


def _rings(distance: Table, cpu: int) -> Spans:
    row = distance[cpu // CPUS_PER_NODE]
    return [[c for n, d in enumerate(row) if d == x for c in cpus_of(n)] for x in sorted(set(row))]


def _across_nodes_only(distance: Table, cpu: int) -> Spans:
    return _domains(distance, cpu)[1:]


def _groups(cpu: int, span: list[int], below: Below) -> Spans:
    """Begin with the CPU itself and wrap around (build_overlap_sched_groups(), v4.13)."""
    here = span.index(cpu)
    return _in_order(cpu, span[here:] + span[:here], below)


def _in_order(cpu: int, span: list[int], below: Below) -> Spans:
    groups: Spans = []
    for c in span:
        if below[c] not in groups:
            groups.append(below[c])
    return groups


def _one_cpu_each(cpu: int, span: list[int], below: Below) -> Spans:
    here = span.index(cpu)
    return [[c] for c in span[here:] + span[:here]]


def _others(cpu: int, span: list[int], below: Below) -> Spans:
    return _groups(cpu, span, below)[1:]


ANSWERS = {
    "1": Answer(_neighbours, (
        Mistake(lambda v: [n for n, d in enumerate(v.distance[v.node]) if d <= ONE_HOP], "A node is no hop away from itself."),
        Mistake(lambda v: [n for n, d in enumerate(v.distance[v.node]) if d == TWO_HOPS],
            "A greater number means farther away."),
    )),
    "2": Answer(lambda v: [ONE_HOP, TWO_HOPS], (
        Mistake(lambda v: [LOCAL, ONE_HOP, TWO_HOPS], "The distance of a node to itself makes no level across nodes."),
        Mistake(lambda v: [TWO_HOPS],
            "The widest level alone would make all nodes equal. There is one level for each distance."),
    )),
    "3": Answer(lambda v: _within, (
        Mistake(lambda v: lambda distance, node, limit: [n for n, d in enumerate(distance[node]) if d < limit],
            "A node at exactly the limit belongs to the level: compare with <=."),
        Mistake(lambda v: lambda distance, node, limit: [n for n, d in enumerate(distance[node]) if d == limit],
            "A level contains everything that is nearer, too, and not only the nodes at its own distance."),
        Mistake(lambda v: lambda distance, node, limit: [n for n, d in enumerate(distance[node]) if d <= limit and n != node],
            "A domain of a CPU always contains the CPU itself, so the node belongs to its own list."),
    )),
    "4": Answer(lambda v: _domains(v.distance, v.cpu), (
        Mistake(lambda v: [_within(v.distance, v.node, d) for d in (LOCAL, ONE_HOP, TWO_HOPS)],
            "These are nodes. A domain is a set of CPUs."),
        Mistake(lambda v: _rings(v.distance, v.cpu), "Each domain contains the one below it, so it grows with every level."),
        Mistake(lambda v: _across_nodes_only(v.distance, v.cpu),
            "The smallest domain is the node itself, where the two CPUs share a cache."),
    )),
    "5": Answer(lambda v: _domains, (
        Mistake(lambda v: _with_equal_ones,
            "For one node two domains are equal. The kernel removes such a degenerate domain; balancing it twice is in vain."),
        Mistake(lambda v: _rings, "Each domain contains the one below it."),
        Mistake(lambda v: _across_nodes_only, "The smallest domain is the node itself."),
    )),
    "6": Answer(lambda v: _groups, (
        Mistake(lambda v: _in_order,
            "Your groups begin with the first CPU of the domain. Begin with the CPU itself; lab 3 shows why."),
        Mistake(lambda v: _one_cpu_each, "A group is a whole domain of the level below, and not a single CPU."),
        Mistake(lambda v: _others, "The CPU's own group is missing. The balancer compares the others with it."),
    )),
    "7": Answer(overlapping, (
        Mistake(lambda v: [n for n in range(len(v.distance)) if n not in overlapping(v)],
            "These nodes are in one group only."),
    )),
    "8": Answer(lambda v: [CPUS_PER_NODE, CPUS_PER_NODE * len(v.distance)], (
        Mistake(lambda v: [len(s) for s in _domains(v.distance, v.cpu)], "These are the sizes with the true table."),
        Mistake(lambda v: [1, len(v.distance)], "Count CPUs, and not nodes."),
    )),
}  # fmt: skip
