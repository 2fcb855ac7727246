"""The mutable part of sched_domains: the state of balancing per CPU and level, and per sched_group_capacity."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from wastedcores.topology import levels as lv
from wastedcores.topology.domains import Domains
from wastedcores.topology.group_flags import group_flags

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
    "CLUSTER": lv.SD_CLUSTER,
}


@dataclass(eq=False, repr=False)
class GroupCapacity:
    """A sched_group_capacity, which all groups with the same key (level and CPU) share."""

    capacity: int
    imbalance: bool = False
    next_update: int = 0
    nr_busy_cpus: int = 0


@dataclass(eq=False, repr=False)
class DomainShared:
    """What the CPUs of a domain that shares the last-level cache have in common (struct sched_domain_shared, v6.12)."""

    nr_busy_cpus: int
    has_idle_cores: bool = False
    #: how many CPUs a wakeup may examine; 0 until the first balancing of the LLC
    nr_idle_scan: int = 0


@dataclass(eq=False, repr=False)
class SchedGroup:
    """A sched_group in one CPU's ring; ``flags`` are those of the domain below, ``cores`` counts cores (v6.12)."""

    cpus: list[int]
    mask: frozenset[int]
    balance_cpu: int
    sgc: GroupCapacity
    flags: int = 0
    cores: int = 0

    def has(self, flag: str) -> bool:
        """Test a flag by its kernel name without ``SD_``."""
        return bool(self.flags & _FLAGS[flag])


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
    imb_numa_nr: int = 0
    # v6.12: newidle balancing, its calls and successes, and the jiffy at which the highest cost changed
    newidle_call: int = 512
    newidle_success: int = 256
    newidle_ratio: int = 512
    last_decay_max_lb_cost: int = 0
    #: when the ratio was computed last
    newidle_stamp_ns: int = 0
    shared: DomainShared | None = None

    def has(self, flag: str) -> bool:
        """Test a flag by its kernel name without ``SD_``."""
        return bool(self.flags & _FLAGS[flag])


def runtime_domains(domains: Domains, last_balance: int) -> list[list[SchedDomain]]:
    """Make the domains of every CPU with fresh balancing state."""
    capacities: dict[tuple[int, int], GroupCapacity] = {}
    shared: dict[tuple[int, int], DomainShared] = {}
    core = domains.machine.core_of_cpu
    modern = domains.kernel.at_least(5, 5)
    out: list[list[SchedDomain]] = []
    for cpu in range(domains.machine.cpus):
        own = []
        for d in domains.of(cpu):
            groups = []
            flags = group_flags(domains, cpu, d) if modern else [0] * len(d.groups)
            for g, bits in zip(d.groups, flags, strict=True):
                sgc = capacities.setdefault(g.sgc, GroupCapacity(1024 * g.weight))
                cores = len({int(core[c]) for c in g.cpus}) if modern else 0
                groups.append(
                    SchedGroup(g.cpus, frozenset(g.mask_cpus), g.balance_cpu, sgc, bits, cores)
                )
            p = d.parameters
            sd = SchedDomain(
                cpu, d.index, d.flags, frozenset(d.cpus), groups, p.imbalance_pct, p.cache_nice_tries,
                p.busy_idx, p.idle_idx, p.newidle_idx, p.wake_idx, p.forkexec_idx, p.min_interval,
                p.max_interval, p.smt_gain, last_balance=last_balance, balance_interval=p.min_interval,
                imb_numa_nr=d.imb_numa_nr, last_decay_max_lb_cost=last_balance,
            )  # fmt: skip
            if modern and sd.has("SHARE_PKG_RESOURCES"):
                sd.shared = shared.setdefault((d.index, min(sd.span)), DomainShared(d.weight))
            own.append(sd)
        for below, above in pairwise(own):
            below.parent, above.child = above, below
        out.append(own)
    return out
