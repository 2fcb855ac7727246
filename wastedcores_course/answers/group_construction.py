"""Answers of lab 3, break and repair the construction of groups."""

from __future__ import annotations

from wastedcores_course.labs.group_construction import (
    BUGGY,
    PER_CPU,
    REPAIRED,
    Variation,
    helpless_pairs,
    makespan_ms,
    threads_after,
)
from wastedcores_course.labs.numa import TWO_HOPS, nodes_of
from wastedcores_course.task import Answer, Mistake

Groups = list[list[int]]
Below = dict[int, list[int]]


def _as_4_1(cpu: int, span: list[int], below: Below) -> Groups:
    """Begin with the first CPU of the domain (build_overlap_sched_groups(), v4.1)."""
    groups: Groups = []
    covered: set[int] = set()
    for c in span:
        if c not in covered:
            groups.append(below[c])
            covered.update(below[c])
    return groups


def _repaired(cpu: int, span: list[int], below: Below) -> Groups:
    """Begin with the CPU itself and wrap around (build_overlap_sched_groups(), v4.13)."""
    first = span.index(cpu)
    return _as_4_1(cpu, span[first:] + span[:first], below)


def _without_overlap(cpu: int, span: list[int], below: Below) -> Groups:
    groups: Groups = []
    left = set(span)
    for c in span:
        if c in left:
            groups.append(sorted(left & set(below[c])))
            left -= set(below[c])
    return groups


def _each_cpu(cpu: int, span: list[int], below: Below) -> Groups:
    groups: Groups = []
    for c in span:
        if below[c] not in groups:
            groups.append(below[c])
    return groups


def _own_then_lowest(cpu: int, span: list[int], below: Below) -> Groups:
    rest = [c for c in span if c not in below[cpu]]
    return [below[cpu], *_as_4_1(cpu, rest, below)]


def _without_own(cpu: int, span: list[int], below: Below) -> Groups:
    return _repaired(cpu, span, below)[1:]


def _by_hand(v: Variation) -> Groups:
    return [nodes_of(g) for g in _as_4_1(0, v.span, v.below)]


def _pairs(v: Variation) -> list[tuple[int, int]]:
    return helpless_pairs(v.distance, {c: _as_4_1(c, v.span, v.below) for c in v.span})


def _two_hops(v: Variation) -> list[tuple[int, int]]:
    return [
        (a, b) for b in range(len(v.distance)) for a in range(b) if v.distance[a][b] == TWO_HOPS
    ]


def _ratio(v: Variation) -> float:
    return round(makespan_ms(v, BUGGY) / makespan_ms(v, REPAIRED), 2)


ANSWERS = {
    "1": Answer(_by_hand, (
        Mistake(lambda v: [nodes_of(g) for g in _without_overlap(0, v.span, v.below)],
            "Groups may overlap: a later group keeps the nodes that are already in an earlier one."),
        Mistake(lambda v: [nodes_of(g) for g in _each_cpu(0, v.span, v.below)],
            "Only a node that no group contains yet begins another group."),
    )),
    "2": Answer(lambda v: _as_4_1, (
        Mistake(lambda v: _repaired,
            "This is already the repair. Linux 4.1 begins with the first CPU of the domain, whoever asks."),
        Mistake(lambda v: _without_overlap, "A group is a whole domain, so groups may overlap."),
        Mistake(lambda v: _each_cpu, "A CPU that a group already contains does not begin another."),
    )),
    "3": Answer(_pairs, (
        Mistake(_two_hops, "Two hops are not enough: look for a group with one of the nodes and without the other."),
    )),
    "4": Answer(threads_after, (
        Mistake(lambda v: [PER_CPU, PER_CPU],
            "You assume that the balancer sees the difference between the two nodes. Compare the loads of the groups."),
    )),
    "5": Answer(lambda v: _repaired, (
        Mistake(lambda v: _as_4_1,
            "Your groups are those seen from the domain's first CPU, which is the bug. Begin with the CPU itself."),
        Mistake(lambda v: _own_then_lowest,
            "This is the authors' patch. After the CPU's own group, go on with the next CPU and wrap around at the end."),
        Mistake(lambda v: _without_own,
            "You lose the local group. It has to be the first: the balancer compares the others with it."),
    )),
    "6": Answer(lambda v: _repaired, (
        Mistake(lambda v: _as_4_1, "Nothing moved. Give the function of task 5, and not that of task 2."),
    )),
    "7": Answer(_ratio, (
        Mistake(lambda v: round(makespan_ms(v, REPAIRED) / makespan_ms(v, BUGGY), 2), "You divided the other way round."),
    )),
}  # fmt: skip
