"""The mutable part of sched_domains: the state of balancing per CPU and level, and per sched_group_capacity."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from wastedcores.topology import levels as lv
from wastedcores.topology.domains import Domains

_FLAGS = {
    "BALANCE_NEWIDLE": lv.SD_BALANCE_NEWIDLE,
    "BALANCE_EXEC": lv.SD_BALANCE_EXEC,
    "BALANCE_FORK": lv.SD_BALANCE_FORK,
    # SD_BALANCE_WAKE is never set on x86
    "BALANCE_WAKE": 0,
    "WAKE_AFFINE": lv.SD_WAKE_AFFINE,
    "SHARE_CPUCAPACITY": lv.SD_SHARE_CPUCAPACITY,
    "SHARE_PKG_RESOURCES": lv.SD_SHARE_PKG_RESOURCES,
    "PREFER_SIBLING": lv.SD_PREFER_SIBLING,
    "OVERLAP": lv.SD_OVERLAP,
    "NUMA": lv.SD_NUMA,
}


@dataclass(eq=False, repr=False)
class GroupCapacity:
    """A sched_group_capacity, which all groups with the same key (level and CPU) share."""

    capacity: int
    imbalance: bool = False
    next_update: int = 0
    nr_busy_cpus: int = 0


@dataclass(eq=False, repr=False)
class SchedGroup:
    """A sched_group in one CPU's ring."""

    cpus: list[int]
    mask: frozenset[int]
    balance_cpu: int
    sgc: GroupCapacity


@dataclass(eq=False, repr=False)
class SchedDomain:
    """A sched_domain of one CPU; intervals are in ms, times of the last balance in jiffies."""

    cpu: int
    level: int
    flags: int
    span: frozenset[int]
    groups: list[SchedGroup]
    imbalance_pct: int
    cache_nice_tries: int
    busy_idx: int
    idle_idx: int
    newidle_idx: int
    wake_idx: int
    forkexec_idx: int
    min_interval: int
    max_interval: int
    smt_gain: int
    child: SchedDomain | None = field(default=None, repr=False)
    parent: SchedDomain | None = field(default=None, repr=False)
    last_balance: int = 0
    balance_interval: int = 0
    nr_balance_failed: int = 0
    max_newidle_lb_cost: int = 0
    next_decay_max_lb_cost: int = 0
    nohz_idle: bool = False

    def has(self, flag: str) -> bool:
        """Test a flag by its kernel name without ``SD_``."""
        return bool(self.flags & _FLAGS[flag])


def runtime_domains(domains: Domains, last_balance: int) -> list[list[SchedDomain]]:
    """Make the domains of every CPU with fresh balancing state.

    Parameters
    ----------
    domains
        The domains that the kernel would build.
    last_balance
        The jiffy at which every level counts as balanced.

    Returns
    -------
    list of list of SchedDomain
        For each CPU its domains, innermost first.
    """
    shared: dict[tuple[int, int], GroupCapacity] = {}
    out: list[list[SchedDomain]] = []
    for cpu in range(domains.machine.cpus):
        own = []
        for d in domains.of(cpu):
            groups = []
            for g in d.groups:
                sgc = shared.setdefault(g.sgc, GroupCapacity(1024 * g.weight))
                groups.append(SchedGroup(g.cpus, frozenset(g.mask_cpus), g.balance_cpu, sgc))
            p = d.parameters
            own.append(
                SchedDomain(
                    cpu, d.index, d.flags, frozenset(d.cpus), groups, p.imbalance_pct, p.cache_nice_tries,
                    p.busy_idx, p.idle_idx, p.newidle_idx, p.wake_idx, p.forkexec_idx, p.min_interval,
                    p.max_interval, p.smt_gain, last_balance=last_balance, balance_interval=p.min_interval,
                )
            )  # fmt: skip
        for below, above in pairwise(own):
            below.parent, above.child = above, below
        out.append(own)
    return out
