"""Lab 3: groups as the first CPU sees them hide an idle node; students build such groups, and then repair them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

from wastedcores.kernels import KernelModel
from wastedcores.simulator import simulate
from wastedcores.simulator.plain.stepping import Thread, balancing_pass
from wastedcores.topology.cpumask import cpumask_of, cpus_in
from wastedcores.topology.groups import GroupBuilder, Ring
from wastedcores.workload import Script, Workload
from wastedcores_course.labs.numa import (
    CPUS_PER_NODE,
    ONE_HOP,
    TWO_HOPS,
    Nodes,
    Table,
    by_hops,
    cpus_of,
    draw_nodes,
    groups_of,
    is_two_hops,
    machine_of,
    nodes_of,
)
from wastedcores_course.measuring import same
from wastedcores_course.noted import Said, cpu_sets, noting
from wastedcores_course.task import Manual, Task, right_ratio

TITLE = "break and repair the construction of groups"
BUGGY, REPAIRED = "v4.1", "v4.13"
#: the threads per CPU of the node on which all threads begin, and the number of balancing passes
PER_CPU, PASSES = 4, 4

#: a function of a CPU, the CPUs of its domain, and the CPUs in the next smaller domain of each of these; it returns the groups
Construct = Callable[[int, list[int], dict[int, list[int]]], list[list[int]]]


@dataclass(frozen=True)
class Variation(Nodes):
    """The machine of one student, and the CPU whose groups are asked for."""

    @property
    def pair(self) -> tuple[int, int]:
        """The first pair of nodes that cannot help each other with the bug, but can with the repaired construction."""
        found = _pair(self.distance)
        assert found is not None
        return found

    @property
    def span(self) -> list[int]:
        """The CPUs of the widest domain: all."""
        return list(range(self.machine.cpus))

    @property
    def below(self) -> dict[int, list[int]]:
        """CPU -> the CPUs of its next smaller domain, whose nodes are at most one hop away."""
        return {c: self.within(n, ONE_HOP) for n in range(len(self.distance)) for c in cpus_of(n)}


def draw(rng: random.Random) -> Variation:
    """Draw a variation."""
    nodes = draw_nodes(rng, 6, 8)
    return Variation(nodes.distance, nodes.cpu)


def is_fair(v: Variation) -> bool:
    """Tell whether the bug shows, and whether each common mistake gives another answer than the right one."""
    if not is_two_hops(v.distance):
        return False
    old, new = (groups_of(v.machine, k) for k in (BUGGY, REPAIRED))
    if sorted(old[v.cpu]) == sorted(new[v.cpu]) or sum(map(len, old[0])) == len(v.span):
        return False
    # the common mistake of going on with the lowest CPU that no group has yet, and not with the next one, must change the answer
    patch = groups_of(v.machine, "v4.1+group_construction")
    if all(sorted(patch[c]) == sorted(new[c]) for c in v.span):
        return False
    far = sum(row.count(TWO_HOPS) for row in v.distance) // 2
    return _pair(v.distance) is not None and len(helpless_pairs(v.distance, old)) < far


def facts(v: Variation) -> dict[str, str]:
    """Return what a student sees of a variation."""
    return {
        "machine": f"{len(v.distance)} nodes of two CPUs; node N has CPUs 2N and 2N + 1",
        "distances": f"{ONE_HOP} is one hop, {TWO_HOPS} is two",
        "your CPU": f"{v.cpu}, on node {v.node}",
    }


@lru_cache(maxsize=256)
def _pair(distance: Table) -> tuple[int, int] | None:
    machine = machine_of(distance)
    for pair in helpless_pairs(distance, groups_of(machine, BUGGY)):
        if min(_balanced(machine, pair, REPAIRED)) > 0:
            return pair
    return None


# --- what students work with ------------------------------------------------------------------------------------------


def table(v: Variation) -> str:
    """Return the distance table as text."""
    return by_hops(v.distance)


def helpless_pairs(distance: Table, groups: dict[int, list[list[int]]]) -> list[tuple[int, int]]:
    """Return the pairs of nodes, two hops apart, between which no CPU can pull threads in either direction."""

    def can(a: int, b: int) -> bool:
        return any(y in g and x not in g for x in cpus_of(a) for y in cpus_of(b) for g in groups[x])

    pairs = combinations(range(len(distance)), 2)
    return [
        (a, b) for a, b in pairs if distance[a][b] == TWO_HOPS and not can(a, b) and not can(b, a)
    ]


def threads_after(
    v: Variation, kernel: str = BUGGY, construct: Construct | None = None
) -> list[int]:
    """Balance threads that are pinned to the nodes of ``v.pair`` and all begin on the first; return how many each node has."""
    if construct is None:
        return _balanced(v.machine, v.pair, kernel)
    pair = v.pair  # before the student's construction replaces the package's own
    with _constructed_by(construct):
        return _balanced(v.machine, pair, REPAIRED)


def makespan_ms(v: Variation, kernel: str) -> float:
    """Run eight threads of 50 ms that are pinned to the nodes of ``v.pair`` and begin on the first of them."""
    a, b = v.pair
    w = Workload("pinned to two nodes")
    for i in range(8):
        script = Script().compute(50_000_000)
        w.task(f"worker-{i}", script, cpu=cpus_of(a)[i % 2], allowed=(*cpus_of(a), *cpus_of(b)))
    return simulate(w.program(), v.machine, KernelModel.named(kernel)).end_ns / 1e6


def _balanced(machine: Any, pair: tuple[int, int], kernel: str) -> list[int]:
    a, b = (cpus_of(n) for n in pair)
    threads = [Thread(c, allowed=(*a, *b)) for c in a for _ in range(PER_CPU)]
    queues = balancing_pass(machine, kernel, threads, passes=PASSES)[-1].queues
    return [sum(len(queues[c]) for c in cpus) for cpus in (a, b)]


@contextmanager
def _constructed_by(construct: Construct) -> Iterator[None]:
    """Let a student's function build overlapping groups instead of build_overlap_sched_groups(), v4.13."""

    def ring(self: GroupBuilder, level: int, cpu: int) -> Ring:
        span, chain = self.spans[level][cpu], self.chain[level][cpu]
        cpus = cpus_in(span)
        below = {c: self._child(level, c) for c in cpus}
        groups = []
        for group in construct(cpu, cpus, {c: cpus_in(bits) for c, bits in below.items()}):
            bits = cpumask_of(group)
            # a group gets its capacity from the CPU whose next smaller domain equals the group
            owner = next((c for c in cpus if below[c] == bits), cpu)
            groups.append(self._descended(level, owner, span, chain))
        return tuple(groups)

    original = GroupBuilder._wrapping
    try:
        GroupBuilder._wrapping = ring  # type: ignore[method-assign]
        yield
    finally:
        GroupBuilder._wrapping = original  # type: ignore[method-assign]


# --- what checks measure, and how a wrong answer is explained ---------------------------------------------------------


#: a CPU, the CPUs of its domain, and the CPUs in the next smaller domain of each of these
Asked = tuple[int, list[int], dict[int, list[int]]]


def asked(v: Variation) -> list[Asked]:
    """Return the questions for a function: one for each CPU of the machine, and some about a domain that no machine has.

    In the domain that no machine has, node A may see node B although B does not see A. No table of distances describes this, so
    the functions of the package for machines cannot give the answer.
    """
    found = [(c, v.span, v.below) for c in v.span]
    rng = random.Random(repr(v))
    n = rng.randrange(5, 9)
    seen = [sorted({i, *rng.sample(range(n), rng.randrange(1, 4))}) for i in range(n)]
    span = [c for i in range(n) for c in cpus_of(i)]
    below = {c: [x for i in seen[c // CPUS_PER_NODE] for x in cpus_of(i)] for c in span}
    return found + [(c, span, below) for c in span]


def _measure_construct(v: Variation, construct: Construct) -> list[list[list[int]]]:
    return [
        [sorted(g) for g in construct(c, list(span), {k: list(x) for k, x in below.items()})]
        for c, span, below in asked(v)
    ]


def _measure_effect(v: Variation, construct: Construct) -> list[list[list[int]]]:
    """Return the groups that the function constructs for the experiment."""
    said: list[list[list[int]]] = []
    threads_after(v, construct=noting(construct, said))
    return said


def _follow_effect(v: Variation, answers: Any) -> list[int]:
    """Repeat the experiment with these groups."""
    said = Said(answers, "your function")

    def construct(cpu: int, span: list[int], below: dict[int, list[int]]) -> list[list[int]]:
        return cpu_sets(said.next(), span, "your function")

    found = threads_after(v, construct=construct)
    said.ended()
    return found


def _in_nodes(cpus: Sequence[int]) -> str:
    return "nodes " + ", ".join(map(str, nodes_of(list(cpus))))


def _right_by_hand(v: Variation, want: Any, got: Any) -> bool:
    return same(want, [sorted(group) for group in got])


def _explain_by_hand(v: Variation, want: Any, got: Any) -> str:
    for i, group in enumerate(want):
        starts = min(set(range(len(v.distance))) - {n for g in want[:i] for n in g})
        if i >= len(got):
            return f"there must be another group: node {starts} is in none of yours."
        if sorted(got[i]) != group:
            wrong = sorted(set(group) ^ set(got[i]))
            n = wrong[0]
            belongs = "belongs" if n in group else "does not belong"
            away = ("that node itself", "one hop from it", "two hops from it")[v.hops(starts, n)]
            return (
                f"group {i + 1} begins with node {starts}, the first node that no group before it contains. Node {n} {belongs} "
                f"to the group, because it is {away}."
            )
    return f"after {len(want)} groups every node is covered, so there is no group {len(want) + 1}."


def _explain_construct(from_first: bool) -> Callable[[Any, Any, Any], str]:
    def explain(v: Variation, want: Any, got: Any) -> str:
        n, w, g = next((n, w, g) for n, (w, g) in enumerate(zip(want, got, strict=True)) if w != g)
        cpu, span, below = asked(v)[n]
        if n >= len(v.span):
            return (
                f"in a domain that no machine has, with the CPUs {span} and below = {below}, the groups of CPU {cpu} must "
                f"be {w}; yours are {g}."
            )
        i = next((i for i, x in enumerate(w) if i >= len(g) or g[i] != x), len(w))
        if i == len(w):
            return f"CPU {cpu} needs {len(w)} groups, which cover its whole domain, but you return {len(g)}."
        given = _in_nodes(g[i]) if i < len(g) else "missing"
        covered = {c for x in w[:i] for c in x}
        left = [c for c in v.span if c not in covered]
        if i == 0 and not from_first:
            why = f"it is CPU {cpu}'s own: the nodes at most one hop from node {cpu // 2}"
        else:
            after = [c for c in left if c > cpu]
            start = left[0] if from_first or not after else after[0]
            which = "the first CPU" if from_first else f"the next CPU after {cpu}, wrapping around,"
            why = f"CPU {start} is {which} that no group before it contains, and the group is its next smaller domain"
        return (
            f"CPU {cpu}'s group {i + 1} must be {_in_nodes(w[i])}, because {why}; yours is {given}."
        )

    return explain


def _right_pairs(v: Variation, want: Any, got: Any) -> bool:
    return sorted(sorted(p) for p in got) == sorted(want)


def _explain_pairs(v: Variation, want: Any, got: Any) -> str:
    given = [sorted(p) for p in got]
    for a, b in given:
        if [a, b] not in want and v.hops(a, b) != 2:
            return (
                f"nodes {a} and {b} are one hop apart, so the next smaller domain contains both, and they help each other "
                "there."
            )
        if [a, b] not in want:
            return (
                f"some group contains one of nodes {a} and {b} without the other, so a CPU outside of that group can pull "
                "from it."
            )
    a, b = next(p for p in want if p not in given)
    return f"nodes {a} and {b} are missing: they are two hops apart, and every group that contains one contains the other."


def _explain_threads(v: Variation, want: Any, got: Any) -> str:
    a, b = v.pair
    return (
        f"not {got[0]} threads on node {a} and {got[1]} on node {b}. All threads begin on node {a}. Look for a group that "
        f"contains node {a} without node {b}: only from such a group can a CPU of node {b} pull."
    )


def _explain_effect(v: Variation, want: Any, got: Any) -> str:
    a, b = v.pair
    return (
        f"with your groups, nodes {a} and {b} have {got[0]} and {got[1]} threads after {PASSES} passes; with the repaired ones "
        f"they have {want[0]} and {want[1]}."
    )


def _explain_ratio(v: Variation, want: Any, got: Any) -> str:
    return f"the ratio is not {got:g}. Divide the makespan under {BUGGY} by that under {REPAIRED}, and round to two digits."


_IS_THE_ANSWER = ("wastedcores.topology.groups:GroupBuilder.ring",)

TASKS = (
    Task("1", "groups by hand", 2, 10, explain=_explain_by_hand, right=_right_by_hand),
    Task(
        "2", "the construction of Linux 4.1", 3, 15, _measure_construct, _explain_construct(True), hidden=True,
        writes=_IS_THE_ANSWER,
    ),
    Task("3", "nodes that cannot help each other", 3, 10, explain=_explain_pairs, right=_right_pairs),
    Task("4", "a prediction", 1, 5, explain=_explain_threads),
    Task(
        "5", "the repaired construction", 4, 20, _measure_construct, _explain_construct(False), hidden=True,
        writes=_IS_THE_ANSWER,
    ),
    Task("6", "the proof", 2, 5, _measure_effect, _explain_effect, None, _follow_effect, hidden=True),
    Task("7", "what the bug costs", 2, 5, explain=_explain_ratio, right=right_ratio),
    Manual("8", "reflection: whose view?", 3, 10),
)  # fmt: skip
