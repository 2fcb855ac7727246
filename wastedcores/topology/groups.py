"""The sched_groups of a domain, with one function per generation of the kernel's code.

The functions work on *raw* spans: ``spans[level][cpu]`` is the CPU set of the domain that the kernel built for the CPU at
that entry of the level table. It is 0 if the kernel stopped below that level because the CPU's domains covered everything.
Degenerate domains are still included: the kernel removes them after it has built the groups, so groups keep their spans.

Equal groups (same CPUs, same ``sched_group_capacity``) are one object here, even if they are in different lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from wastedcores.topology.cpumask import cpumask_first, cpumask_of, cpus_in
from wastedcores.topology.levels import Level


@dataclass(eq=False)
class Group:
    """A ``sched_group``."""

    span: int  #: CPU set
    sgc: tuple[int, int]  #: key of its ``sched_group_capacity``: entry of the level table, CPU
    #: balance mask: the CPUs that may balance for the group. In 4.x, at levels without overlap, these are all possible CPUs.
    mask: int
    weight: int = field(init=False)  #: number of CPUs

    def __post_init__(self) -> None:
        self.weight = self.span.bit_count()

    @property
    def balance_cpu(self) -> int:
        """First CPU that is in the group and in the mask, or -1 (kernel/sched/core.c: group_balance_cpu(), v4.1)."""
        return cpumask_first(self.span & self.mask)

    @property
    def cpus(self) -> list[int]:
        """CPUs of the group, ascending."""
        return cpus_in(self.span)

    @property
    def mask_cpus(self) -> list[int]:
        """CPUs of the balance mask, ascending."""
        return cpus_in(self.mask)


Ring = tuple[Group, ...]


class GroupBuilder:
    """Builder of the group rings of every raw domain in one rebuild."""

    def __init__(
        self, levels: Sequence[Level], spans: Sequence[Sequence[int]], possible: int, which: str
    ) -> None:
        self.levels, self.spans, self.possible, self.which = levels, spans, possible, which
        self.modern = which in ("v4.13", "v5.13")
        self.built = [cpumask_of([cpu for cpu, span in enumerate(row) if span]) for row in spans]
        #: a number for the sequence of a CPU's spans from the bottom level upwards; CPUs with the same number get the same groups
        self.chain = _chains(spans, self._bottom())
        #: balance mask of each sched_group_capacity, set by the first group that uses it
        self.mask_of_sgc: dict[tuple[int, int], int] = {}
        self._groups: dict[tuple[int, int, int], Group] = {}
        self._lists: dict[tuple[int, int], tuple[Ring, dict[int, int]]] = {}
        self._first: dict[tuple[int, int], npt.NDArray[np.int32]] = {}
        self._rings: dict[tuple[int, ...], Ring] = {}
        self._own: dict[int, tuple[Group, int]] = {}
        self._arrive: dict[tuple[int, int], Group] = {}
        self._children: dict[int, dict[int, int]] = {}

    def _bottom(self) -> int:
        """Return the lowest level on which overlapping groups depend: the level below these groups, or level 0."""
        bottom = next((k for k, level in enumerate(self.levels) if level.overlap), 1) - 1
        above = self.spans[bottom + 1] if bottom + 1 < len(self.spans) else ()
        # find_descended_sibling() skips levels with equal spans, so it can descend to cores and caches
        falls = self.which == "v5.13" and any(
            a == b for a, b in zip(above, self.spans[bottom], strict=False) if a
        )
        return 0 if falls else max(bottom, 0)

    def ring(self, level: int, cpu: int) -> Ring:
        """Return the groups of a CPU's domain at a level.

        Call this for CPUs in ascending order and for each CPU from the lowest level upwards, as the kernel does: balance
        masks depend on the CPU that comes first.
        """
        if not self.levels[level].overlap:
            return self._plain(level, cpu)
        if self.modern:
            return self._wrapping(level, cpu)
        return self._from_first_cpu(level, cpu)

    def _group(self, span: int, sgc: tuple[int, int]) -> Group:
        """Return the one group object with this span and capacity."""
        key = (span, *sgc)
        found = self._groups.get(key)
        if found is None:
            found = self._groups[key] = Group(span, sgc, self.mask_of_sgc[sgc])
        return found

    def _child(self, level: int, cpu: int) -> int:
        """Return the span one level down; at level 0 this is the CPU alone."""
        return self.spans[level - 1][cpu] if level else 1 << cpu

    def _has_child_span(self, level: int, span: int) -> int:
        """Return the CPUs of ``span`` that have a domain at ``level`` whose child is exactly ``span``."""
        if level == 0:
            return 0
        if level not in self._children:
            by_span: dict[int, list[int]] = {}
            for cpu, child in enumerate(self.spans[level - 1]):
                if self.spans[level][cpu]:
                    by_span.setdefault(child, []).append(cpu)
            self._children[level] = {child: cpumask_of(cpus) for child, cpus in by_span.items()}
        return self._children[level].get(span, 0) & span

    def _plain(self, level: int, cpu: int) -> Ring:
        """Build groups without overlap: one ascending ring for the whole span. The ring of a CPU begins with its group.

        kernel/sched/core.c: build_sched_groups(), get_group(), v4.1; topology.c, v6.1: the balance mask is the group.
        """
        span = self.spans[level][cpu]
        key = (level, cpumask_first(span))
        if key not in self._lists:
            members: dict[int, list[int]] = {}
            for j in cpus_in(span):
                members.setdefault(cpumask_first(self._child(level, j)), []).append(j)
            groups: list[Group] = []
            place: dict[int, int] = {}
            for first, cpus in members.items():
                bits = cpumask_of(cpus)
                self.mask_of_sgc.setdefault((level, first), bits if self.modern else self.possible)
                place.update(dict.fromkeys(cpus, len(groups)))
                groups.append(self._group(bits, (level, first)))
            self._lists[key] = (tuple(groups), place)
        ring, place = self._lists[key]
        return self._rotated(key, ring, place[cpu])

    def _rotated(self, key: tuple[int, ...], groups: Ring, start: int) -> Ring:
        """Return the ring beginning with group ``start``."""
        if start == 0:
            return groups
        found = self._rings.get((*key, start))
        if found is None:
            found = self._rings[*key, start] = groups[start:] + groups[:start]
        return found

    def _from_first_cpu(self, level: int, cpu: int) -> Ring:
        """Build overlapping groups as v4.1 to v4.12 do (the bug of paper 3.2), or as the authors' patch does.

        kernel/sched/core.c: build_overlap_sched_groups(), v4.1, begins with the first CPU of the *span*. The patch
        (scheduling_group_construction) takes the CPU's own group first, then the other groups in ascending order.
        """
        span = self.spans[level][cpu]
        own = self._child(level, cpu) if self.which == "authors" else 0
        key = (level, self.chain[level][cpu])
        if key not in self._lists:
            groups: list[Group] = []
            # siblings without this level are skipped: their domains end below this level because they cover everything
            left = span & self.built[level] & ~own
            while left:
                i = cpumask_first(left)
                group = self._child(level, i)
                groups.append(self._shared(level, i, group, span))
                left &= ~group
            self._lists[key] = (tuple(groups), {g.balance_cpu: k for k, g in enumerate(groups)})
        ring, balancer = self._lists[key]
        if own:
            # the key is this CPU, so the group has its own capacity object: docs/scheduler-model.md, section 3.4, side effect
            ring = (self._shared(level, cpu, own, span), *ring)
            start = 1 + balancer[cpu] if cpu in balancer else 0
            return ring[start:] + ring[:start]
        # the kernel says: "Make sure the first group of this domain contains the canonical balance cpu". The last such group wins
        start = balancer.get(cpu, -1)
        if start < 0:
            start = self._first_with(key, ring, cpu)
        return self._rotated(key, ring, start)

    def _first_with(self, key: tuple[int, int], ring: Ring, cpu: int) -> int:
        """Return the place of the first group that contains the CPU."""
        if key not in self._first:
            first = np.zeros(len(self.spans[0]), dtype=np.int32)
            for k in reversed(range(len(ring))):
                first[ring[k].cpus] = k
            self._first[key] = first
        return int(self._first[key][cpu])

    def _shared(self, level: int, i: int, group: int, span: int) -> Group:
        """Return a group whose key is CPU ``i`` (kernel/sched/core.c: build_group_mask(), v4.1 and v4.1.52)."""
        sgc = (level, i)
        if sgc not in self.mask_of_sgc:
            if self.which == "v4.1.52":
                self.mask_of_sgc[sgc] = self._has_child_span(level, group)
            else:
                self.mask_of_sgc[sgc] = span & self.built[level]
        return self._group(group, sgc)

    def _wrapping(self, level: int, cpu: int) -> Ring:
        """Build overlapping groups as v4.13 and later do: from this CPU, wrapping around, with exact balance masks.

        kernel/sched/topology.c: build_overlap_sched_groups(), build_balance_mask(), init_overlap_sched_group();
        find_descended_sibling() from v5.13.
        """
        span, chain = self.spans[level][cpu], self.chain[level][cpu]
        if chain not in self._own:
            own = self._descended(level, cpu, span, chain)
            self._own[chain] = (own, span & self.built[level] & ~own.span)
        own, left = self._own[chain]
        # the result is the same for every CPU with the same spans and the same next uncovered CPU
        start = _next_wrapping(left, cpu)
        found = self._rings.get((chain, start))
        if found is None:
            groups, i = [own], start
            while i >= 0:
                group = self._descended(level, i, span, chain)
                groups.append(group)
                left &= ~group.span
                i = _next_wrapping(left, i)
            found = self._rings[chain, start] = tuple(groups)
        return found

    def _descended(self, level: int, i: int, span: int, chain: int) -> Group:
        """Return the group of sibling ``i`` for a domain with this span. Groups that were found are stored under ``chain``."""
        key = (chain, self.chain[level][i])
        found = self._arrive.get(key)
        if found is None:
            found = self._arrive[key] = self._find_descended(level, i, span)
        return found

    def _find_descended(self, level: int, i: int, span: int) -> Group:
        """Return the group of sibling ``i`` for a domain with this span (init_overlap_sched_group(), v4.13)."""
        spans = self.spans
        at = level
        if self.which == "v5.13" and at and spans[at - 1][i] & ~span:
            while at and spans[at - 1][i] & ~span:
                at -= 1
            while at and spans[at - 1][i] == spans[at][i]:
                at -= 1
        group = spans[at - 1][i] if at else spans[0][i]
        # the mask is empty only if the kernel prints a warning; in this case it becomes CPU i alone
        mask = self._has_child_span(at, group) or 1 << i
        sgc = (at, cpumask_first(mask))
        self.mask_of_sgc.setdefault(sgc, mask)
        return self._group(group, sgc)


def _chains(spans: Sequence[Sequence[int]], bottom: int) -> list[list[int]]:
    """Number the distinct sequences of spans from ``bottom`` up to each level; 0 if no domain is built there."""
    number: dict[tuple[int, int], int] = {}
    out = []
    below = [0] * len(spans[0])
    for level, row in enumerate(spans):
        if level < bottom:
            out.append(below)
            continue
        below = [
            number.setdefault((under, span), len(number) + 1) if span else 0
            for under, span in zip(below, row, strict=True)
        ]
        out.append(below)
    return out


def _next_wrapping(bits: int, cpu: int) -> int:
    """Return the next CPU of a set after ``cpu``, wrapping around; -1 if the set is empty."""
    if not bits:
        return -1
    above = bits >> (cpu + 1)
    return cpumask_first(above) + cpu + 1 if above else cpumask_first(bits)
