"""The scheduling domains as rows of the engine's table, and the CPU sets and lists of CPUs to which the domains refer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from wastedcores.simulator.engine.world.cpuset import bits_of
from wastedcores.simulator.engine.world.structs import (
    Kernel,
    SchedDomain,
    SchedGroup,
    SchedGroupCapacity,
)

if TYPE_CHECKING:
    from wastedcores.topology.domains import DomainArrays

#: columns that are filled from the attributes of DomainArrays that have the same names
_COLUMNS = (
    "min_interval", "max_interval", "busy_factor", "imbalance_pct", "cache_nice_tries",
    "busy_idx", "idle_idx", "newidle_idx", "wake_idx", "forkexec_idx",
)  # fmt: skip


class CpuSets:
    """The CPU sets of a world (the engine's table). Equal sets are stored once."""

    def __init__(self) -> None:
        self._numbers: dict[frozenset[int], int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, cpus: Iterable[int]) -> int:
        """Return the number of a set: its row minus ``k.cpuset0``."""
        return self._numbers.setdefault(frozenset(int(c) for c in cpus), len(self._numbers))

    def write(self, m: np.ndarray) -> None:
        """Write all sets into the world ``m``."""
        for cpus, number in self._numbers.items():
            m[m[0, Kernel.cpuset0] + number] = bits_of(cpus)


class Tree:
    """The domains of all CPUs at boot or after one hotplug step. Their CPUs are added to ``cpusets`` and to ``lists``."""

    def __init__(self, arrays: DomainArrays, cpusets: CpuSets, lists: list[int]) -> None:
        self.arrays = a = arrays
        self.sets = [a.set_cpus[a.set_ptr[i] : a.set_ptr[i + 1]] for i in range(len(a.set_ptr) - 1)]
        places = []
        for cpus in self.sets:
            places.append((len(lists), len(cpus), cpusets.number(cpus)))
            lists.extend(cpus.tolist())
        #: for each set: its place in the lists, its length, its number
        self.places = np.array(places, dtype=np.int64).reshape(-1, 3)
        _, self._first_of_capacity = np.unique(a.group_sgc, return_index=True)
        self.domains = len(a.domain_cpu)
        self.groups = len(a.ring_group)
        self.capacities = len(self._first_of_capacity)

    def write(self, m: np.ndarray, sd0: int, group0: int, capacity0: int) -> list[int]:
        """Write the domains, groups and capacities into the world."""
        a = self.arrays
        capacities = m[capacity0 : capacity0 + self.capacities]
        capacities[:, SchedGroupCapacity.capacity] = 1024 * a.group_weight[self._first_of_capacity]
        ring = a.ring_group
        start, length, number = self.places[a.group_span[ring]].T
        balance_start, balance_length, _ = self.places[a.group_mask[ring]].T
        groups = m[group0 : group0 + self.groups]
        groups[:, SchedGroup.cpus] = start
        groups[:, SchedGroup.group_weight] = length
        groups[:, SchedGroup.span] = m[0, Kernel.cpuset0] + number
        groups[:, SchedGroup.sgc] = capacity0 + a.group_sgc[ring]
        groups[:, SchedGroup.balance_cpu] = a.group_balance_cpu[ring]
        groups[:, SchedGroup.balance_cpus] = balance_start
        groups[:, SchedGroup.nr_balance_cpus] = balance_length
        rows = np.arange(self.domains)
        domains = m[sd0 : sd0 + self.domains]
        for name in _COLUMNS:
            domains[:, getattr(SchedDomain, name)] = getattr(a, name)
        domains[:, SchedDomain.flags] = a.domain_flags
        domains[:, SchedDomain.span_weight] = a.domain_weight
        domains[:, SchedDomain.index] = domains[:, SchedDomain.level] = a.domain_index
        domains[:, SchedDomain.span] = m[0, Kernel.cpuset0] + self.places[a.domain_span, 2]
        domains[:, SchedDomain.span_cpus] = self.places[a.domain_span, 0]
        domains[:, SchedDomain.groups] = group0 + a.ring_ptr[a.domain_ring]
        domains[:, SchedDomain.nr_groups] = np.diff(a.ring_ptr)[a.domain_ring]
        # the domains of a CPU follow each other, the innermost first
        innermost = np.isin(rows, a.cpu_ptr[:-1])
        outermost = np.isin(rows + 1, a.cpu_ptr[1:])
        domains[:, SchedDomain.child] = np.where(innermost, -1, sd0 + rows - 1)
        domains[:, SchedDomain.parent] = np.where(outermost, -1, sd0 + rows + 1)
        return self._per_cpu(sd0)

    def _per_cpu(self, sd0: int) -> list[int]:
        a = self.arrays
        out: list[int] = []
        for cpu in range(len(a.cpu_ptr) - 1):
            first, last = int(a.cpu_ptr[cpu]), int(a.cpu_ptr[cpu + 1])
            llc = int(a.sd_llc[cpu])
            llc_id = int(self.sets[a.domain_span[llc]][0]) if llc >= 0 else cpu
            out += [sd0 + first, last - first, llc_id]
        return out
