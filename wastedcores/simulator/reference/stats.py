"""Balancing statistics: the group and the queue to pull from, and how much load to move.

Source: kernel/sched/fair.c, v4.1; docs/scheduler-model.md, sections 5.4, 5.5 and 5.7.

The group imbalance fix is applied where the authors' patch changes the code: in the choice of the busiest group, in the
decision of :func:`find_busiest_group`, and in :func:`calculate_imbalance`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wastedcores.simulator.reference.decisions import Asked, group_values
from wastedcores.simulator.reference.load import (
    cpu_avg_load_per_task,
    source_load,
    target_load,
    weighted_cpuload,
)
from wastedcores.simulator.reference.state import Rq
from wastedcores.simulator.vocabulary import IDLE_TYPES

if TYPE_CHECKING:
    from wastedcores.simulator.reference.domains import SchedDomain, SchedGroup
    from wastedcores.simulator.reference.kernel import Kernel

IDLE, NOT_IDLE, NEWLY_IDLE = IDLE_TYPES
OTHER, IMBALANCED, OVERLOADED = 0, 1, 2
_ALL_ONES = (1 << 64) - 1


@dataclass(repr=False)
class GroupStats:
    """The statistics of one group (struct sg_lb_stats), with min_load and max_load of the authors' patch."""

    group: SchedGroup | None = None
    avg_load: int = 0
    group_load: int = 0
    sum_weighted: int = 0
    load_per_task: int = 0
    capacity: int = 0
    usage: int = 0
    nr_running: int = 0
    idle_cpus: int = 0
    weight: int = 0
    type: int = OTHER
    no_capacity: bool = False
    min_load: int = 0
    max_load: int = 0


@dataclass(repr=False)
class Env:
    """One attempt of ``dst_cpu`` to pull tasks at one level (struct lb_env)."""

    sd: SchedDomain
    dst_cpu: int
    idle: str
    cpus: set[int]
    dst_grpmask: frozenset[int] | None
    src_cpu: int = -1
    new_dst_cpu: int = -1
    imbalance: int = 0
    all_pinned: bool = False
    some_pinned: bool = False
    dst_pinned: bool = False
    need_break: bool = False
    loop: int = 0
    loop_max: int = 0
    loop_break: int = 32
    asked: Asked = field(default_factory=Asked)


def update_sg_lb_stats(
    k: Kernel, env: Env, group: SchedGroup, index: int, local: bool
) -> tuple[GroupStats, bool]:
    """Compute the statistics of a group, and whether one of its CPUs has several tasks (update_sg_lb_stats(), v4.1)."""
    s = GroupStats(group, capacity=group.sgc.capacity, weight=len(group.cpus), min_load=_ALL_ONES)
    overload = False
    seen = [c for c in group.cpus if c in env.cpus]
    k.log_considered(env.dst_cpu, group.cpus, "update_sg_lb_stats", env.sd.level)
    for c in seen:
        rq = k.rqs[c]
        load = target_load(rq, index) if local else source_load(rq, index)
        s.group_load += load
        s.usage += k.loads.cpu_usage(rq)
        s.nr_running += rq.cfs.h_nr_running
        overload |= rq.nr_running > 1
        s.sum_weighted += weighted_cpuload(rq)
        s.idle_cpus += k.idle_cpu(c)
        s.min_load = min(s.min_load, load)
        s.max_load = max(s.max_load, load)
    s.avg_load = s.group_load * 1024 // s.capacity
    if s.nr_running:
        s.load_per_task = s.sum_weighted // s.nr_running
    s.no_capacity = s.nr_running > s.weight and s.capacity * 100 < s.usage * env.sd.imbalance_pct
    s.type = group_classify(s)
    return s, overload


def group_classify(s: GroupStats) -> int:
    """Return whether a group is overloaded, imbalanced or neither (group_classify(), v4.1)."""
    assert s.group is not None
    if s.no_capacity:
        return OVERLOADED
    return IMBALANCED if s.group.sgc.imbalance else OTHER


def group_has_capacity(env: Env, s: GroupStats) -> bool:
    """Tell whether a group has room for another task (group_has_capacity(), v4.1)."""
    return s.nr_running < s.weight or s.capacity * 100 > s.usage * env.sd.imbalance_pct


def pick_busiest(k: Kernel, s: GroupStats, busiest: GroupStats) -> bool:
    """Tell whether ``s`` is busier than the busiest group so far (update_sd_pick_busiest(), v4.1; x86 has no ASYM_PACKING)."""
    if k.model.group_imbalance == "patch":
        # docs/scheduler-model.md, section 5.7: in the published patch every path answers yes
        return True
    if s.type != busiest.type:
        return s.type > busiest.type
    if k.model.group_imbalance == "paper":
        return s.min_load > busiest.min_load
    return s.avg_load > busiest.avg_load


def update_sd_lb_stats(k: Kernel, env: Env) -> tuple[GroupStats, GroupStats | None, int]:
    """Return the statistics of the local and the busiest group, and the domain's average load (update_sd_lb_stats(), v4.1)."""
    sd = env.sd
    index = {NOT_IDLE: sd.busy_idx, NEWLY_IDLE: sd.newidle_idx, IDLE: sd.idle_idx}[env.idle]
    prefer_sibling = sd.child is not None and sd.child.has("PREFER_SIBLING")
    local = GroupStats()
    busiest = GroupStats()
    total_load = total_capacity = 0
    overload = False
    env.asked.begin_try(prefer_sibling)
    for group in sd.groups:
        is_local = env.dst_cpu in group.cpus
        if is_local and (env.idle != NEWLY_IDLE or k.jiffies >= group.sgc.next_update):
            k.update_group_capacity(sd, env.dst_cpu)
        s, more = update_sg_lb_stats(k, env, group, index, is_local)
        overload |= more
        if is_local:
            local = s
        else:
            if (
                prefer_sibling
                and local.group is not None
                and group_has_capacity(env, local)
                and s.nr_running > 1
            ):
                s.no_capacity, s.type = True, OVERLOADED
            if pick_busiest(k, s, busiest):
                busiest = s
        env.asked.groups.append(group_values(s, is_local))
        total_load += s.group_load
        total_capacity += s.capacity
    if sd.parent is None:
        k.overload = overload
    average = 1024 * total_load // total_capacity if total_capacity else 0
    env.asked.average = average
    if busiest.group is not None:
        env.asked.busiest = next(i for i, g in enumerate(sd.groups) if g is busiest.group)
    return local, (busiest if busiest.group is not None else None), average


def find_busiest_group(k: Kernel, env: Env) -> GroupStats | None:
    """Return the group to pull from, or None if the domain is balanced; set ``env.imbalance`` (find_busiest_group(), v4.1)."""
    env.imbalance = 0
    local, busiest, average = update_sd_lb_stats(k, env)
    if busiest is None or busiest.nr_running == 0:
        return None
    force = busiest.type == IMBALANCED or (
        env.idle == NEWLY_IDLE and group_has_capacity(env, local) and busiest.no_capacity
    )
    if not force and k.policies.balanced(k, env, local, busiest, average):
        return None
    env.imbalance = k.policies.calculate_imbalance(k, env, local, busiest, average)
    return busiest


def balanced(k: Kernel, env: Env, local: GroupStats, busiest: GroupStats, average: int) -> bool:
    """Tell whether the loads count as balanced: the comparisons of find_busiest_group()."""
    if k.model.group_imbalance:
        # paper 3.1: compare the least loaded CPU of each group
        return local.min_load >= busiest.min_load
    if local.avg_load >= busiest.avg_load or local.avg_load >= average:
        return True
    if env.idle == IDLE:
        return busiest.type != OVERLOADED and local.idle_cpus <= busiest.idle_cpus + 1
    return 100 * busiest.avg_load <= env.sd.imbalance_pct * local.avg_load


def calculate_imbalance(
    k: Kernel, env: Env, local: GroupStats, busiest: GroupStats, average: int
) -> int:
    """Return the load to move (calculate_imbalance(), v4.1)."""
    if k.model.group_imbalance:
        # the authors' patch: docs/scheduler-model.md, section 5.7, point 4
        if local.min_load >= busiest.max_load:
            return 0
        return (busiest.max_load - local.min_load) // 2
    if busiest.type == IMBALANCED:
        busiest.load_per_task = min(busiest.load_per_task, average)
    if busiest.avg_load <= average or local.avg_load >= average:
        return fix_small_imbalance(k, env, local, busiest, 0)
    load_above_capacity = _ALL_ONES
    if busiest.type == OVERLOADED and local.type == OVERLOADED:
        load_above_capacity = busiest.nr_running * 1024
        if load_above_capacity > busiest.capacity:
            load_above_capacity -= busiest.capacity
        else:
            load_above_capacity = _ALL_ONES
    max_pull = min(busiest.avg_load - average, load_above_capacity)
    imbalance = (
        min(max_pull * busiest.capacity, (average - local.avg_load) * local.capacity) // 1024
    )
    if imbalance < busiest.load_per_task:
        return fix_small_imbalance(k, env, local, busiest, imbalance)
    return imbalance


def fix_small_imbalance(
    k: Kernel, env: Env, local: GroupStats, busiest: GroupStats, imbalance: int
) -> int:
    """Return the load of one task if moving it uses the CPUs better, else ``imbalance`` (fix_small_imbalance(), v4.1)."""
    imbn = 2
    if not local.nr_running:
        local.load_per_task = cpu_avg_load_per_task(k.rqs[env.dst_cpu])
    elif busiest.load_per_task > local.load_per_task:
        imbn = 1
    lpt = busiest.load_per_task
    scaled = lpt * 1024 // busiest.capacity
    if busiest.avg_load + scaled >= local.avg_load + scaled * imbn:
        return lpt
    now = busiest.capacity * min(lpt, busiest.avg_load)
    now += local.capacity * min(local.load_per_task, local.avg_load)
    now //= 1024
    move = 0
    if busiest.avg_load > scaled:
        move = busiest.capacity * min(lpt, busiest.avg_load - scaled)
    if busiest.avg_load * busiest.capacity < lpt * 1024:
        added = busiest.avg_load * busiest.capacity // local.capacity
    else:
        added = lpt * 1024 // local.capacity
    move += local.capacity * min(local.load_per_task, local.avg_load + added)
    move //= 1024
    return lpt if move > now else imbalance


def find_busiest_queue(k: Kernel, env: Env, group: SchedGroup) -> Rq | None:
    """Return the run queue to pull from (find_busiest_queue(), v4.1)."""
    busiest, busiest_load, busiest_capacity = None, 0, 1
    seen = [c for c in group.cpus if c in env.cpus]
    k.log_considered(env.dst_cpu, group.cpus, "find_busiest_queue", env.sd.level)
    for c in seen:
        rq = k.rqs[c]
        load = weighted_cpuload(rq)
        if rq.nr_running == 1 and load > env.imbalance and not check_cpu_capacity(rq, env.sd):
            continue
        if load * busiest_capacity > busiest_load * rq.cpu_capacity:
            busiest, busiest_load, busiest_capacity = rq, load, rq.cpu_capacity
    return busiest


def check_cpu_capacity(rq: Rq, sd: SchedDomain) -> bool:
    """Tell whether a CPU lost much of its capacity to other scheduling classes (check_cpu_capacity(), v4.1)."""
    return rq.cpu_capacity * sd.imbalance_pct < rq.cpu_capacity_orig * 100
