"""The CPU of a new task or of one that executes a new program, by groups (kernel/sched/fair.c, v6.12.107)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.simulator.reference import signals_v6_12 as signals
from wastedcores.simulator.reference.group_stats_v6_12 import (
    FULLY_BUSY,
    HAS_SPARE,
    OVERLOADED,
    GroupStats,
    adjust_numa_imbalance,
    counted,
)
from wastedcores.simulator.reference.state import Task

if TYPE_CHECKING:
    from wastedcores.simulator.reference.domains import SchedDomain, SchedGroup
    from wastedcores.simulator.reference.kernel import Kernel


def find_dst_cpu(
    k: Kernel, sd: SchedDomain | None, p: Task, cpu: int, prev_cpu: int, flag: str
) -> int:
    """Descend from the widest domain with the flag to the idlest CPU (sched_balance_find_dst_cpu(), v6.12.107)."""
    assert sd is not None
    new_cpu = cpu
    if p.allowed.isdisjoint(sd.span):
        return prev_cpu
    if flag != "fork":
        signals.sync_entity_load_avg(p)
    needed = "BALANCE_" + flag.upper()
    while sd is not None:
        group = find_dst_group(k, sd, p, cpu) if sd.has(needed) else None
        if group is None:
            sd = sd.child
            continue
        new_cpu = find_dst_group_cpu(k, group, p, cpu, sd.level)
        if new_cpu == cpu:
            sd = sd.child
            continue
        cpu, weight, sd = new_cpu, len(sd.span), None
        for lower in k.rqs[cpu].sd:
            if len(lower.span) >= weight:
                break
            if lower.has(needed):
                sd = lower
    return new_cpu


def update_sg_wakeup_stats(k: Kernel, sd: SchedDomain, group: SchedGroup, p: Task) -> GroupStats:
    """Sum up the allowed CPUs of a group as if ``p`` were on none of them (update_sg_wakeup_stats(), v6.12.107).

    In 6.1.192 and from 6.12.101 on, CPUs on which the task may not run do not count.
    """
    s = GroupStats(group, capacity=group.sgc.capacity, weight=len(group.cpus))
    for c in group.cpus:
        if k.model.rules.placement_masked and c not in p.allowed:
            continue
        rq = k.rqs[c]
        s.load += signals.cpu_load_without(k, rq, p)
        s.util += signals.cpu_util_without(k, c, p)
        s.runnable += signals.cpu_runnable_without(rq, p)
        here = int(p.cpu == c and p.on_rq and p.se.avg.last_update != 0)  # task_running_on_cpu()
        s.sum_h_nr += counted(rq) - here
        s.sum_nr += rq.nr_running - here
        if rq.nr_running == here and idle_cpu_without(k, c, p):
            s.idle_cpus += 1
    s.classify(sd.imbalance_pct)
    if s.type in (FULLY_BUSY, OVERLOADED):
        s.avg_load = s.load * signals.CAPACITY // s.capacity
    return s


def idle_cpu_without(k: Kernel, cpu: int, p: Task) -> bool:
    """Tell whether a CPU would run its idle task if ``p`` were not there (idle_cpu_without(), v6.12.107)."""
    rq = k.rqs[cpu]
    return (rq.curr is rq.idle_task or rq.curr is p) and not rq.wake_list


def is_idler(idlest: GroupStats, s: GroupStats) -> bool:
    """Tell whether a group is a better place for a task than the best so far (update_pick_idlest(), v6.12.107)."""
    if s.type != idlest.type:
        return s.type < idlest.type
    if s.type in (OVERLOADED, FULLY_BUSY):
        return s.avg_load < idlest.avg_load
    if s.type != HAS_SPARE:
        return False
    if s.idle_cpus != idlest.idle_cpus:
        return s.idle_cpus > idlest.idle_cpus
    return s.util < idlest.util


def find_dst_group(k: Kernel, sd: SchedDomain, p: Task, this_cpu: int) -> SchedGroup | None:
    """Find the group that should get ``p``; None if it is the one of ``this_cpu`` (sched_balance_find_dst_group(), v6.12.107)."""
    local = None
    idlest = GroupStats(type=OVERLOADED, avg_load=(1 << 32) - 1)
    for group in sd.groups:
        if p.allowed.isdisjoint(group.cpus):
            continue
        k.log_considered(this_cpu, group.cpus, "find_idlest_group", sd.level, p.pid)
        s = update_sg_wakeup_stats(k, sd, group, p)
        if this_cpu in group.cpus:
            local = s
        elif is_idler(idlest, s):
            idlest = s
    if idlest.group is None or (local is not None and stays_local(sd, p, local, idlest)):
        return None
    return idlest.group


def stays_local(sd: SchedDomain, p: Task, local: GroupStats, idlest: GroupStats) -> bool:
    """Tell whether ``p`` should stay in the local group (the end of sched_balance_find_dst_group(), v6.12.107)."""
    if local.type != idlest.type:
        return local.type < idlest.type
    if local.type in (OVERLOADED, FULLY_BUSY):
        imbalance = signals.CAPACITY * (sd.imbalance_pct - 100) // 100
        if sd.has("NUMA") and idlest.avg_load + imbalance >= local.avg_load:
            return True
        return (
            idlest.avg_load >= local.avg_load + imbalance
            or 100 * local.avg_load <= sd.imbalance_pct * idlest.avg_load
        )
    if local.type != HAS_SPARE:
        return True
    if sd.has("NUMA"):
        assert local.group is not None
        # nr_cpus_allowed is less than NR_CPUS (8192) on every machine that is smaller
        allowance = min(len(p.allowed.intersection(local.group.cpus)), sd.imb_numa_nr)
        imbalance = abs(local.idle_cpus - idlest.idle_cpus)
        if not adjust_numa_imbalance(imbalance, local.sum_nr + 1, allowance):
            return True
    return local.idle_cpus >= idlest.idle_cpus


def find_dst_group_cpu(k: Kernel, group: SchedGroup, p: Task, this_cpu: int, level: int) -> int:
    """Find the allowed CPU that became idle last, or else the least loaded one (sched_balance_find_dst_group_cpu(), v6.12.107).

    Idle states are not modelled, so idle CPUs differ by ``idle_stamp`` only. A CPU whose stamp is 0 is not found.
    """
    if len(group.cpus) == 1:
        return group.cpus[0]
    k.log_considered(this_cpu, group.cpus, "find_idlest_cpu", level, p.pid)
    newest, idle = 0, -1
    min_load, least_loaded = 1 << 64, this_cpu
    for c in group.cpus:
        if c not in p.allowed:
            continue
        rq = k.rqs[c]
        if k.idle_cpu(c):
            if rq.idle_stamp > newest:
                newest, idle = rq.idle_stamp, c
        elif idle < 0 and signals.cpu_load(rq) < min_load:
            min_load, least_loaded = signals.cpu_load(rq), c
    return idle if idle >= 0 else least_loaded
