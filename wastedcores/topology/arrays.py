"""Domains as arrays, for compiled code. CPU sets are lists of numbers here.

Equal sets of CPUs, groups and rings are stored once. ``domain_*`` has one row per CPU and domain, with the innermost domain
first. So compiled code walks up the domains of a CPU with ``for row in range(cpu_ptr[cpu], cpu_ptr[cpu + 1])``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wastedcores.topology.cpumask import cpus_in
from wastedcores.topology.parameters import Parameters

if TYPE_CHECKING:
    from wastedcores.topology.domains import Domain, Domains
    from wastedcores.topology.groups import Group

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


class DomainArrays(NamedTuple):
    """The arrays. ``D`` is the number of domain rows, ``G`` of groups, ``S`` of CPU sets, and ``R`` of rings."""

    cpu_ptr: I64  # (cpus + 1,) first domain row of each CPU
    domain_cpu: I32  # (D,)
    domain_index: I32  # (D,) entry of the level table, 0 = SMT
    domain_flags: I32  # (D,) SD_* of topology/levels.py
    domain_span: I32  # (D,) CPU set
    domain_weight: I32  # (D,) number of CPUs of the span
    domain_ring: (
        I32  # (D,) ring r: ring_group[ring_ptr[r]:ring_ptr[r + 1]], beginning with sd->groups
    )
    imbalance_pct: I32  # (D,) and so on, as sd_init() sets them; intervals in ms
    cache_nice_tries: I32
    busy_idx: I32
    idle_idx: I32
    newidle_idx: I32
    wake_idx: I32
    forkexec_idx: I32
    min_interval: I32
    max_interval: I32
    busy_factor: I32
    smt_gain: I32
    distance: I32  # (D,) greatest distance of a NUMA level, else 0
    ring_ptr: I64  # (R + 1,)
    ring_group: I32  # groups in ring order
    group_span: I32  # (G,) CPU set
    group_mask: I32  # (G,) CPU set: the balance mask, cut to the CPUs of the group
    group_weight: I32  # (G,) number of CPUs
    group_balance_cpu: I32  # (G,) CPU, -1 for none
    group_sgc: I32  # (G,) number of the sched_group_capacity; groups with the same number share it
    set_ptr: I64  # (S + 1,)
    set_cpus: I32  # CPUs of the sets, ascending
    sd_llc: I32  # (cpus,) row of the highest domain that shares the last-level cache, -1 for none
    sd_busy: I32  # (cpus,) row of the parent of sd_llc, -1 for none
    sd_numa: I32  # (cpus,) row of the lowest NUMA domain, -1 for none


class _Pool:
    """A table that gives numbers to things in the order of their first use."""

    def __init__(self) -> None:
        self.number: dict[Any, int] = {}
        self.items: list[Any] = []

    def __call__(self, key: Any, item: Any = None) -> int:
        found = self.number.get(key)
        if found is None:
            found = self.number[key] = len(self.items)
            self.items.append(key if item is None else item)
        return found


def _ptr(lengths: list[int]) -> I64:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


def _i32(values: list[int]) -> I32:
    return np.array(values, dtype=np.int32)


def to_arrays(domains: Domains) -> DomainArrays:
    """Convert domains to arrays. Domain rows are in the order of CPUs; the innermost domain of each CPU is first."""
    sets, groups, rings, sgcs = _Pool(), _Pool(), _Pool(), _Pool()
    rows: list[Domain] = []
    counts: list[int] = []
    llc: list[int] = []
    busy: list[int] = []
    numa: list[int] = []
    for cpu, mine in enumerate(domains.by_cpu):
        start = len(rows)
        counts.append(len(mine))
        rows += mine
        for out, d in (
            (llc, domains.sd_llc(cpu)),
            (busy, domains.sd_busy(cpu)),
            (numa, domains.sd_numa(cpu)),
        ):
            out.append(start + mine.index(d) if d is not None else -1)
    ring_of = [rings(id(d.groups), d.groups) for d in rows]
    members = [g for ring in rings.items for g in ring]
    ring_group = [groups(id(g), g) for g in members]
    unique: list[Group] = groups.items
    spans = [sets(d.span) for d in rows]
    group_span = [sets(g.span) for g in unique]
    group_mask = [sets(g.mask & g.span) for g in unique]
    cpus = [cpus_in(bits) for bits in sets.items]
    numbers = {
        name: _i32([getattr(d.parameters, name) for d in rows]) for name in Parameters._fields
    }
    return DomainArrays(
        cpu_ptr=_ptr(counts),
        domain_cpu=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
        domain_index=_i32([d.index for d in rows]),
        domain_flags=_i32([d.flags for d in rows]),
        domain_span=_i32(spans),
        domain_weight=_i32([d.weight for d in rows]),
        domain_ring=_i32(ring_of),
        ring_ptr=_ptr([len(r) for r in rings.items]),
        ring_group=_i32(ring_group),
        group_span=_i32(group_span),
        group_mask=_i32(group_mask),
        group_weight=_i32([g.weight for g in unique]),
        group_balance_cpu=_i32([g.balance_cpu for g in unique]),
        group_sgc=_i32([sgcs(g.sgc) for g in unique]),
        set_ptr=_ptr([len(c) for c in cpus]),
        set_cpus=np.concatenate([np.array(c, dtype=np.int32) for c in cpus] or [_i32([])]),
        sd_llc=_i32(llc),
        sd_busy=_i32(busy),
        sd_numa=_i32(numa),
        **numbers,
    )
