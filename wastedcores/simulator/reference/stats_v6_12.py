"""Balancing statistics of Linux 6.12: the group and the queue to pull from, and what to move.

Source: kernel/sched/fair.c, v6.12.107. The kind of a group decides before its load: idle CPUs and numbers of tasks are compared
where the local group has room, and average loads only where both groups have more tasks than they can run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wastedcores.kernels.rules import Rules
from wastedcores.simulator.reference import signals_v6_12 as signals
from wastedcores.simulator.reference.decisions import Asked, group_values_v6_12
from wastedcores.simulator.reference.group_stats_v6_12 import (
    ASYM_PACKING,
    FULLY_BUSY,
    HAS_SPARE,
    IMBALANCED,
    MISFIT,
    OVERLOADED,
    SMT_BALANCE,
    GroupStats,
    adjust_numa_imbalance,
    counted,
)
from wastedcores.simulator.reference.idle_sibling_v6_12 import sd_llc_shared
from wastedcores.simulator.reference.state import Rq
from wastedcores.simulator.reference.stats import NEWLY_IDLE, NOT_IDLE

if TYPE_CHECKING:
    from wastedcores.simulator.reference.domains import SchedDomain, SchedGroup
    from wastedcores.simulator.reference.kernel import Kernel

#: enum migration_type; misfit tasks do not occur on machines whose CPUs are alike
BY_LOAD, BY_UTIL, BY_TASK = "load", "util", "task"
_ALL_ONES = (1 << 64) - 1


@dataclass(repr=False)
class Env:
    """One attempt of ``dst_cpu`` to pull tasks at one level (struct lb_env)."""

    sd: SchedDomain
    dst_cpu: int
    idle: str
    cpus: set[int]
    dst_grpmask: frozenset[int]
    src_cpu: int = -1
    new_dst_cpu: int = -1
    imbalance: int = 0
    migration: str = BY_LOAD
    all_pinned: bool = False
    some_pinned: bool = False
    dst_pinned: bool = False
    active_lb: bool = False
    loop: int = 0
    loop_max: int = 0
    asked: Asked = field(default_factory=Asked)

    @property
    def is_idle(self) -> bool:
        """True for CPU_IDLE and CPU_NEWLY_IDLE, on which ``env->idle`` is not 0."""
        return self.idle != NOT_IDLE


def _no_group() -> GroupStats:
    return GroupStats(idle_cpus=(1 << 32) - 1)


@dataclass(repr=False)
class DomainStats:
    """The statistics of a domain (struct sd_lb_stats); a group whose ``group`` is None was not found."""

    local: GroupStats = field(default_factory=GroupStats)
    busiest: GroupStats = field(default_factory=_no_group)
    total_load: int = 0
    total_capacity: int = 0
    sum_util: int = 0
    prefer_sibling: bool = False

    def average(self) -> int:
        """Return the average load of the domain."""
        return self.total_load * signals.CAPACITY // self.total_capacity


def update_sg_lb_stats(
    k: Kernel, env: Env, group: SchedGroup, local: bool
) -> tuple[GroupStats, bool]:
    """Compute the statistics of a group, and whether one of its CPUs has several tasks (update_sg_lb_stats(), v6.12.107)."""
    s = GroupStats(group, capacity=group.sgc.capacity, weight=len(group.cpus))
    overloaded = False
    k.log_considered(env.dst_cpu, group.cpus, "update_sg_lb_stats", env.sd.level)
    for c in group.cpus:
        if c not in env.cpus:
            continue
        rq = k.rqs[c]
        s.load += signals.cpu_load(rq)
        s.util += signals.cpu_util(k, c)
        s.runnable += signals.cpu_runnable(rq)
        s.sum_h_nr += counted(rq)
        s.sum_nr += rq.nr_running
        overloaded |= rq.nr_running > 1
        s.idle_cpus += k.idle_cpu(c)
    if k.model.rules.siblings_counted and not local and env.is_idle:
        s.smt_balance = group.has("SHARE_CPUCAPACITY") and s.sum_h_nr > 1
    s.classify(env.sd.imbalance_pct)
    if s.type == OVERLOADED:
        s.avg_load = s.load * signals.CAPACITY // s.capacity
    return s, overloaded


def pick_busiest(rules: Rules, busiest: GroupStats, s: GroupStats) -> bool:
    """Tell whether a group is busier than the busiest one so far (update_sd_pick_busiest(), v6.12.107)."""
    if not s.sum_h_nr:
        return False
    if s.type != busiest.type:
        return s.type > busiest.type
    if s.type == OVERLOADED:
        return s.avg_load > busiest.avg_load
    if s.type in (IMBALANCED, ASYM_PACKING, MISFIT):
        return False
    any_idle = s.idle_cpus != 0 or busiest.idle_cpus != 0
    if s.type == FULLY_BUSY or (s.type == SMT_BALANCE and not any_idle):
        # average loads are 0 on both sides; threads that share a core need more help
        if not rules.last_fully_busy:
            return False
        return not (busiest.group is not None and busiest.group.has("SHARE_CPUCAPACITY"))
    if rules.siblings_counted and s.type == HAS_SPARE and smt_vs_nonsmt(busiest, s):
        assert s.group is not None
        return not (s.group.has("SHARE_CPUCAPACITY") and s.sum_h_nr <= 1)
    if s.idle_cpus != busiest.idle_cpus:
        return s.idle_cpus < busiest.idle_cpus
    return s.sum_nr > busiest.sum_nr


def smt_vs_nonsmt(a: GroupStats, b: GroupStats) -> bool:
    """Tell whether one of two groups consists of the threads of a core, and the other does not (smt_vs_nonsmt_groups())."""
    if a.group is None or b.group is None:
        return False
    return a.group.has("SHARE_CPUCAPACITY") != b.group.has("SHARE_CPUCAPACITY")


def update_sd_lb_stats(k: Kernel, env: Env) -> DomainStats:
    """Compute the statistics of a domain's groups (update_sd_lb_stats(), v6.12.107)."""
    sd, out = env.sd, DomainStats()
    asked = env.asked
    asked.begin_try(False)
    overloaded = False
    for group in sd.groups:
        local = env.dst_cpu in group.cpus
        if local and (env.idle != NEWLY_IDLE or k.jiffies >= group.sgc.next_update):
            k.update_group_capacity(sd, env.dst_cpu)
        s, more = update_sg_lb_stats(k, env, group, local)
        overloaded |= more
        if local:
            out.local = s
        elif pick_busiest(k.model.rules, out.busiest, s):
            out.busiest = s
        asked.groups.append(group_values_v6_12(s, local))
        out.total_load += s.load
        out.total_capacity += s.capacity
        out.sum_util += s.util
    if k.model.rules.prefer_sibling_of_child:
        out.prefer_sibling = sd.child is not None and sd.child.has("PREFER_SIBLING")
    elif out.busiest.group is not None:
        out.prefer_sibling = out.busiest.group.has("PREFER_SIBLING")
    asked.prefer_sibling = out.prefer_sibling
    if out.busiest.group is not None:
        asked.busiest = next(i for i, g in enumerate(sd.groups) if g is out.busiest.group)
    asked.average = out.average()
    if sd.parent is None:
        k.overload = overloaded
    update_idle_cpu_scan(k, env, out.sum_util)
    return out


def update_idle_cpu_scan(k: Kernel, env: Env, sum_util: int) -> None:
    """Let wakeups examine fewer CPUs the more the LLC is used (update_idle_cpu_scan(), v6.12.107)."""
    llc, shared = k.llc_size[env.dst_cpu], sd_llc_shared(k, env.dst_cpu)
    if env.idle == NEWLY_IDLE or len(env.sd.span) != llc or shared is None:
        return
    used = (sum_util // llc * env.sd.imbalance_pct) ** 2 // (10_000 * signals.CAPACITY)
    shared.nr_idle_scan = (signals.CAPACITY - min(used, signals.CAPACITY)) * llc // signals.CAPACITY


def find_src_group(k: Kernel, env: Env) -> SchedGroup | None:
    """Return the group to pull from, or None if the domain is balanced (sched_balance_find_src_group(), v6.12.107)."""
    stats = update_sd_lb_stats(k, env)
    env.imbalance = 0
    reason = "no task" if stats.busiest.group is None else k.policies.balanced(k, env, stats)
    if reason:
        env.asked.reason = reason
        return None
    k.policies.calculate_imbalance(k, env, stats)
    env.asked.migration = env.migration
    if not env.imbalance:
        env.asked.reason = "no imbalance"
        return None
    return stats.busiest.group


def balanced(k: Kernel, env: Env, stats: DomainStats) -> str:
    """Return why nothing should be pulled, or an empty string (the middle of sched_balance_find_src_group(), v6.12.107)."""
    local, busiest, pct = stats.local, stats.busiest, env.sd.imbalance_pct
    if busiest.type == IMBALANCED:
        return ""
    if local.type > busiest.type:
        return "local type"
    if local.type == OVERLOADED:
        if local.avg_load >= busiest.avg_load:
            return "local load"
        if local.avg_load >= stats.average():
            return "above average"
        if 100 * busiest.avg_load <= pct * local.avg_load:
            return "margin"
    if stats.prefer_sibling and local.type == HAS_SPARE and sibling_imbalance(k, env, stats) > 1:
        return ""
    if busiest.type == OVERLOADED:
        return ""
    if not env.is_idle:
        return "busy"
    if busiest.type == SMT_BALANCE and smt_vs_nonsmt(local, busiest):
        return ""
    if busiest.weight > 1 and local.idle_cpus <= busiest.idle_cpus + 1:
        return "idle CPUs"
    return "single task" if busiest.sum_h_nr == 1 else ""


def sibling_imbalance(k: Kernel, env: Env, stats: DomainStats) -> int:
    """Return how many tasks more the busiest group has, per core (sibling_imbalance(), v6.12.107).

    In v6.1 cores do not count, and busy CPUs pull, too (calculate_imbalance() and find_busiest_group(), v6.1.192).
    """
    local, busiest = stats.local, stats.busiest
    if not k.model.rules.siblings_counted:
        return max(0, busiest.sum_nr - local.sum_nr)
    if not env.is_idle or not busiest.sum_nr:
        return 0
    assert local.group is not None
    assert busiest.group is not None
    here, there = local.group.cores, busiest.group.cores
    if here == there:
        return max(0, busiest.sum_nr - local.sum_nr)
    imbalance = max(0, here * busiest.sum_nr - there * local.sum_nr)
    imbalance = (2 * imbalance + here + there) // (here + there)
    if imbalance <= 1 and local.sum_nr == 0 and busiest.sum_nr > 1:
        return 2
    return imbalance


def calculate_imbalance(k: Kernel, env: Env, stats: DomainStats) -> None:
    """Set what to move, and how much of it (calculate_imbalance(), v6.12.107)."""
    local, busiest = stats.local, stats.busiest
    if busiest.type in (SMT_BALANCE, IMBALANCED):
        env.migration, env.imbalance = BY_TASK, 1
        return
    if local.type == HAS_SPARE:
        _spare_imbalance(k, env, stats)
        return
    env.imbalance = 0
    if local.type < OVERLOADED:
        local.avg_load = local.load * signals.CAPACITY // local.capacity
        if local.avg_load >= busiest.avg_load or local.avg_load >= stats.average():
            return
    average = stats.average()
    # unsigned long: a busiest group below the average makes the first term large
    above = (busiest.avg_load - average & _ALL_ONES) * busiest.capacity & _ALL_ONES
    below = (average - local.avg_load & _ALL_ONES) * local.capacity & _ALL_ONES
    env.migration, env.imbalance = BY_LOAD, min(above, below) // signals.CAPACITY


def _spare_imbalance(k: Kernel, env: Env, stats: DomainStats) -> None:
    """Set what a local group with room takes (calculate_imbalance(), v6.12.107)."""
    local, busiest = stats.local, stats.busiest
    if busiest.type > FULLY_BUSY and not env.sd.has("SHARE_PKG_RESOURCES"):
        env.migration = BY_UTIL
        env.imbalance = max(local.capacity, local.util) - local.util
        if env.is_idle and env.imbalance == 0:
            env.migration, env.imbalance = BY_TASK, 1
        return
    env.migration = BY_TASK
    if busiest.weight == 1 or stats.prefer_sibling:
        env.imbalance = sibling_imbalance(k, env, stats)
    else:
        # unsigned int: a negative difference becomes large
        env.imbalance = (local.idle_cpus - busiest.idle_cpus) & 0xFFFF_FFFF
    if env.sd.has("NUMA"):
        env.imbalance = adjust_numa_imbalance(env.imbalance, local.sum_nr + 1, env.sd.imb_numa_nr)
    env.imbalance >>= 1


def find_src_rq(k: Kernel, env: Env, group: SchedGroup) -> Rq | None:
    """Return the run queue to pull from (sched_balance_find_src_rq(), v6.12.107)."""
    busiest, most = None, 0
    k.log_considered(env.dst_cpu, group.cpus, "find_busiest_queue", env.sd.level)
    for c in group.cpus:
        rq = k.rqs[c]
        nr = counted(rq)
        if c not in env.cpus or not nr:
            continue
        if env.migration == BY_LOAD:
            value = signals.cpu_load(rq)  # all capacities are equal
            if nr == 1 and value > env.imbalance:
                continue
        elif env.migration == BY_UTIL:
            value = signals.cpu_util(k, c, boost=k.model.rules.waiting_is_use)
            if nr == 1:
                continue
        else:
            value = nr
        if value > most:
            busiest, most = rq, value
    return busiest
