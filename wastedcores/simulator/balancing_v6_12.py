"""The part of a replay's world that only the balancer of v6.12 has: rows of the last-level caches, columns of domains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from wastedcores.kernels import KernelModel
from wastedcores.kernels.rules import NEWIDLE, REWEIGHTS
from wastedcores.simulator.engine import classes
from wastedcores.simulator.engine.world import table
from wastedcores.simulator.engine.world.structs import (
    Kernel,
    Modern,
    RqModern,
    SchedDomain,
    SchedDomainShared,
    SchedGroup,
)
from wastedcores.topology.domains import Domain, Domains
from wastedcores.topology.group_flags import group_flags
from wastedcores.topology.levels import SD_SHARE_PKG_RESOURCES

#: sd_init(): how newidle balancing of a new domain begins, as half of the attempts had succeeded
_NEWIDLE = {
    SchedDomain.newidle_call: 512,
    SchedDomain.newidle_success: 256,
    SchedDomain.newidle_ratio: 512,
}

#: rules whose columns have their names
_RULES = (
    "tg_load_avg_limited", "whole_cores_balance", "siblings_counted", "prefer_sibling_of_child", "last_fully_busy",
    "placement_masked", "waiting_is_use", "clusters_scanned", "sleepers_counted", "sleepers_pulled", "ineligible_wait",
    "slice_end_stored", "exact_averages", "sleepers_lag_kept", "wakeup_picks", "util_est_at_dequeue", "idle_time_at_exit",
    "slice_timer", "lazy_preemption",
)  # fmt: skip


def rows_of(trees: Sequence[Domains], kernel: KernelModel) -> int:
    """Count the rows of what the CPUs of a last-level cache share (``struct sched_domain_shared``)."""
    return sum(len(_shared(tree)) for tree in trees) if kernel.is_modern else 0


def install(m: np.ndarray, first: int, trees: Sequence[Domains], kernel: KernelModel) -> None:
    """Write what the balancer of v6.12 needs into the table; do nothing for other kernels."""
    if not kernel.is_modern:
        return
    g = m[m[0, Kernel.scratch] + table.MODERN_ROW]
    classes.modern(g, kernel.rules.eevdf)
    g[Modern.newidle] = list(NEWIDLE).index(kernel.rules.newidle)
    g[Modern.reweight] = REWEIGHTS.index(kernel.rules.reweight)
    g[Modern.delay_dequeue] = kernel.rules.delayed_dequeue
    g[Modern.sis_util] = kernel.rules.scan_limited
    g[Modern.idle_ticks_before_stop] = kernel.rules.idle_ticks_before_stop
    for rule in _RULES:
        g[getattr(Modern, rule)] = getattr(kernel.rules, rule)
    row = int(m[0, Kernel.domain0])
    for tree in trees:
        shared = _shared(tree)
        for i, weight in enumerate(shared.values(), first):
            m[i, SchedDomainShared.nr_busy_cpus] = weight
        number = dict(zip(shared, range(first, first + len(shared)), strict=True))
        first += len(shared)
        for cpu, d in _domains(tree):
            _write_domain(m, row, tree, cpu, d)
            m[row, SchedDomain.shared] = number.get(_key(d), -1)
            row += 1
    _write_siblings(m, trees[0].machine.core_of_cpu)


def _domains(tree: Domains) -> Iterator[tuple[int, Domain]]:
    """Yield each CPU with its domains, innermost first, which is the order of the rows."""
    for cpu, mine in enumerate(tree.by_cpu):
        for d in mine:
            yield cpu, d


def _key(d: Domain) -> tuple[int, int]:
    """Return the level and the first CPU of a domain, which identify what its CPUs share."""
    return d.index, min(d.cpus)


def _shared(tree: Domains) -> dict[tuple[int, int], int]:
    """Return the number of CPUs of each domain below which everything shares a last-level cache."""
    return {_key(d): d.weight for _, d in _domains(tree) if d.flags & SD_SHARE_PKG_RESOURCES}


def _write_domain(m: np.ndarray, row: int, tree: Domains, cpu: int, d: Domain) -> None:
    """Write the columns of a domain and of its groups that only v6.12 has."""
    m[row, list(_NEWIDLE)] = list(_NEWIDLE.values())
    m[row, SchedDomain.imb_numa_nr] = d.imb_numa_nr
    core = tree.machine.core_of_cpu
    for place, (group, flags) in enumerate(zip(d.groups, group_flags(tree, cpu, d), strict=True)):
        at = int(m[row, SchedDomain.groups]) + place
        m[at, SchedGroup.flags] = flags
        m[at, SchedGroup.cores] = len({int(core[c]) for c in group.cpus})


def _write_siblings(m: np.ndarray, core_of_cpu: Iterable[int]) -> None:
    """Link the CPUs of each core in a ring."""
    cores: dict[int, list[int]] = {}
    for cpu, core in enumerate(core_of_cpu):
        cores.setdefault(int(core), []).append(cpu)
    for cpus in cores.values():
        for cpu, following in zip(cpus, cpus[1:] + cpus[:1], strict=True):
            m[m[0, Kernel.nr_cpus] + cpu, RqModern.sibling] = following
