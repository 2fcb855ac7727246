"""load_balance() and its steps (kernel/sched/fair.c, v4.1; sections 5.4 to 5.7 of the model document).

The group imbalance fix is tested where the authors' patch touches the code: choice of the busiest group, the decision
in :func:`find_busiest_group`, and :func:`calculate_imbalance`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wastedcores.reference import fair
from wastedcores.reference.load import (
    cpu_avg_load_per_task,
    get_cpu_usage,
    source_load,
    target_load,
    task_h_load,
    weighted_cpuload,
)
from wastedcores.reference.state import MIGRATION_COST_NS, NR_MIGRATE, Rq, Task

if TYPE_CHECKING:
    from wastedcores.reference.domains import Group, SchedDomain
    from wastedcores.reference.kernel import Kernel

IDLE, NOT_IDLE, NEWLY_IDLE = "idle", "busy", "newidle"
OTHER, IMBALANCED, OVERLOADED = 0, 1, 2
_ALL_ONES = (1 << 64) - 1
#: a level whose tasks are all pinned is tried ever more rarely up to this interval in ms
MAX_PINNED_INTERVAL = 512


@dataclass(repr=False)
class GroupStats:
    """struct sg_lb_stats, with the patch's min_load and max_load."""

    group: Group | None = None
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
    """struct lb_env: one attempt of ``dst_cpu`` to pull at one level."""

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
    tasks: list[Task] = field(default_factory=list)


# --- who balances -----------------------------------------------------------------------------------------------------


def should_we_balance(k: Kernel, env: Env) -> bool:
    """The designated CPU of the local group only; new-idle always (should_we_balance(), v4.1).

    The published group-construction patch answers yes for everybody (paper 3.2 does not say so).
    """
    if k.model.every_cpu_balances or env.idle == NEWLY_IDLE:
        return True
    group = env.sd.groups[0]
    mine = [c for c in group.cpus if c in env.cpus and c in group.mask]
    for c in mine:
        if k.idle_cpu(c):
            return c == env.dst_cpu
    return group.balance_cpu == env.dst_cpu


# --- statistics -------------------------------------------------------------------------------------------------------


def update_sg_lb_stats(
    k: Kernel, env: Env, group: Group, index: int, local: bool
) -> tuple[GroupStats, bool]:
    """Statistics of one group, and whether one of its CPUs has more than one task (update_sg_lb_stats(), v4.1)."""
    s = GroupStats(group, capacity=group.sgc.capacity, weight=len(group.cpus), min_load=_ALL_ONES)
    overload = False
    seen = [c for c in group.cpus if c in env.cpus]
    k.log_considered(env.dst_cpu, group.cpus, "update_sg_lb_stats", env.sd.level)
    for c in seen:
        rq = k.rqs[c]
        load = target_load(rq, index) if local else source_load(rq, index)
        s.group_load += load
        s.usage += get_cpu_usage(rq)
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
    """group_classify(), v4.1."""
    assert s.group is not None
    if s.no_capacity:
        return OVERLOADED
    return IMBALANCED if s.group.sgc.imbalance else OTHER


def group_has_capacity(env: Env, s: GroupStats) -> bool:
    """group_has_capacity(), v4.1."""
    return s.nr_running < s.weight or s.capacity * 100 > s.usage * env.sd.imbalance_pct


def pick_busiest(k: Kernel, s: GroupStats, busiest: GroupStats) -> bool:
    """Is ``s`` busier than the busiest so far? (update_sd_pick_busiest(), v4.1; no ASYM_PACKING on x86)."""
    if k.model.group_imbalance == "patch":
        # 5.7: as published every path ends in yes
        return True
    if s.type != busiest.type:
        return s.type > busiest.type
    if k.model.group_imbalance == "paper":
        return s.min_load > busiest.min_load
    return s.avg_load > busiest.avg_load


def update_sd_lb_stats(k: Kernel, env: Env) -> tuple[GroupStats, GroupStats | None, int]:
    """Local statistics, busiest group's, and the domain's average load (update_sd_lb_stats(), v4.1)."""
    sd = env.sd
    index = {NOT_IDLE: sd.busy_idx, NEWLY_IDLE: sd.newidle_idx, IDLE: sd.idle_idx}[env.idle]
    prefer_sibling = sd.child is not None and sd.child.has("PREFER_SIBLING")
    local = GroupStats()
    busiest = GroupStats()
    total_load = total_capacity = 0
    overload = False
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
        total_load += s.group_load
        total_capacity += s.capacity
    if sd.parent is None:
        k.overload = overload
    average = 1024 * total_load // total_capacity if total_capacity else 0
    return local, (busiest if busiest.group is not None else None), average


def find_busiest_group(k: Kernel, env: Env) -> GroupStats | None:
    """The group to pull from, or None: balanced (find_busiest_group(), v4.1). Sets ``env.imbalance``."""
    env.imbalance = 0
    local, busiest, average = update_sd_lb_stats(k, env)
    if busiest is None or busiest.nr_running == 0:
        return None
    force = busiest.type == IMBALANCED or (
        env.idle == NEWLY_IDLE and group_has_capacity(env, local) and busiest.no_capacity
    )
    if not force and _balanced(k, env, local, busiest, average):
        return None
    env.imbalance = k.policies.calculate_imbalance(k, env, local, busiest, average)
    return busiest


def _balanced(k: Kernel, env: Env, local: GroupStats, busiest: GroupStats, average: int) -> bool:
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
    """How much load to move (calculate_imbalance(), v4.1)."""
    if k.model.group_imbalance:
        # the authors' patch, point 4 of 5.7
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
    """Move one task if that uses the CPUs better (fix_small_imbalance(), v4.1)."""
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


def find_busiest_queue(k: Kernel, env: Env, group: Group) -> Rq | None:
    """The CPU to pull from (find_busiest_queue(), v4.1)."""
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
    """Whether the CPU lost much of its capacity to other classes (check_cpu_capacity(), v4.1)."""
    return rq.cpu_capacity * sd.imbalance_pct < rq.cpu_capacity_orig * 100


# --- moving tasks -----------------------------------------------------------------------------------------------------


def task_hot(k: Kernel, env: Env, p: Task) -> bool:
    """task_hot(), v4.1."""
    q = p.se.cfs_rq
    if k.rqs[env.dst_cpu].nr_running and (q.next is p.se or q.last is p.se):
        return True
    # load_balance() did not update the clock of the source before Linux 4.11, so a task that did not run since that CPU
    # last looked at its clock stays as hot as it was then, to the next tick if nothing else happens there
    return k.rqs[env.src_cpu].clock_ns - p.se.exec_start < MIGRATION_COST_NS


def can_migrate_task(k: Kernel, env: Env, p: Task) -> bool:
    """can_migrate_task(), v4.1."""
    if env.dst_cpu not in p.allowed:
        env.some_pinned = True
        if env.dst_grpmask is None or env.dst_pinned:
            return False
        for c in sorted(env.dst_grpmask):
            if c in env.cpus and c in p.allowed:
                env.dst_pinned = True
                env.new_dst_cpu = c
                break
        return False
    env.all_pinned = False
    if k.rqs[env.src_cpu].curr is p:
        return False
    return not task_hot(k, env, p) or env.sd.nr_balance_failed > env.sd.cache_nice_tries


def detach_task(k: Kernel, env: Env, p: Task) -> None:
    """detach_task(), v4.1."""
    src = k.rqs[env.src_cpu]
    fair.dequeue_task(k, src, p, sleep=False)
    k.set_task_cpu(p, env.dst_cpu)


def detach_tasks(k: Kernel, env: Env) -> list[Task]:
    """Take tasks off the source until the imbalance is gone (detach_tasks(), v4.1; CONFIG_PREEMPT off)."""
    tasks = k.rqs[env.src_cpu].cfs_tasks
    detached: list[Task] = []
    if env.imbalance <= 0:
        return detached
    while tasks:
        p = tasks[0]
        env.loop += 1
        if env.loop > env.loop_max:
            break
        if env.loop > env.loop_break:
            env.loop_break += NR_MIGRATE
            env.need_break = True
            break
        if can_migrate_task(k, env, p):
            load = task_h_load(k, p)
            if load // 2 <= env.imbalance:
                detach_task(k, env, p)
                detached.append(p)
                env.imbalance -= load
                if k.preempt and env.idle == NEWLY_IDLE:
                    break
                if env.imbalance <= 0:
                    break
                continue
        tasks.append(tasks.pop(0))
    return detached


def attach_task(k: Kernel, rq: Rq, p: Task) -> None:
    """attach_task(), v4.1."""
    fair.enqueue_task(k, rq, p)
    k.check_preempt_curr(rq, p)


def detach_one_task(k: Kernel, env: Env) -> Task | None:
    """detach_one_task(), v4.1."""
    for p in list(k.rqs[env.src_cpu].cfs_tasks):
        if can_migrate_task(k, env, p):
            detach_task(k, env, p)
            return p
    return None


# --- load_balance -----------------------------------------------------------------------------------------------------


def load_balance(k: Kernel, cpu: int, sd: SchedDomain, idle: str) -> tuple[int, bool]:
    """Try to pull tasks to ``cpu`` at one level (load_balance(), v4.1).

    Returns
    -------
    moved, continue_balancing
        Tasks moved, and whether the levels above may go on in this pass.
    """
    mask = None if idle == NEWLY_IDLE else frozenset(sd.groups[0].cpus)
    env = Env(sd, cpu, idle, set(k.active), mask)
    while True:
        if not k.policies.should_we_balance(k, env):
            k.count_balance(sd, idle, "not_designated")
            return _out_balanced(env), False
        busiest = k.policies.find_busiest_group(k, env)
        if busiest is None:
            k.count_balance(sd, idle, "balanced")
            return _out_balanced(env), True
        assert busiest.group is not None
        src = k.policies.find_busiest_queue(k, env, busiest.group)
        if src is None:
            k.count_balance(sd, idle, "no_queue")
            return _out_balanced(env), True
        moved, only_pinned = _pull(k, env, src)
        if not only_pinned:
            break
        env.cpus.discard(src.cpu)
        if not env.cpus:
            # out_all_pinned: the parent's imbalance flag stays as it is
            k.count_balance(sd, idle, "pinned")
            return _back_off(env), True
        env.loop, env.loop_break = 0, NR_MIGRATE
    return _finish(k, env, cpu, src, moved), True


def _pull(k: Kernel, env: Env, src: Rq) -> tuple[int, bool]:
    """The moving part; second value: all tasks of ``src`` were pinned, so redo without it."""
    env.src_cpu = src.cpu
    moved = 0
    if src.nr_running <= 1:
        return 0, False
    env.all_pinned = True
    env.loop_max = min(NR_MIGRATE, src.nr_running)
    while True:
        tasks = detach_tasks(k, env)
        # env->tasks is a stack: the last one taken is attached first
        for p in reversed(tasks):
            attach_task(k, k.rqs[env.dst_cpu], p)
        moved += len(tasks)
        if env.need_break:
            env.need_break = False
        elif env.dst_pinned and env.imbalance > 0:
            env.cpus.discard(env.dst_cpu)
            env.dst_cpu = env.new_dst_cpu
            env.dst_pinned = False
            env.loop, env.loop_break = 0, NR_MIGRATE
        else:
            break
    if env.sd.parent is not None and env.some_pinned and env.imbalance > 0:
        env.sd.parent.groups[0].sgc.imbalance = True
    return moved, env.all_pinned


def _out_balanced(env: Env) -> int:
    if env.sd.parent is not None:
        env.sd.parent.groups[0].sgc.imbalance = False
    return _back_off(env)


def _back_off(env: Env) -> int:
    """out_all_pinned: try less often."""
    env.sd.nr_balance_failed = 0
    return _longer_interval(env)


def _longer_interval(env: Env) -> int:
    """out_one_pinned."""
    sd = env.sd
    if (env.all_pinned and sd.balance_interval < MAX_PINNED_INTERVAL) or (
        sd.balance_interval < sd.max_interval
    ):
        sd.balance_interval *= 2
    return 0


def need_active_balance(k: Kernel, env: Env) -> bool:
    """need_active_balance(), v4.1; no ASYM_PACKING on x86."""
    src, dst = k.rqs[env.src_cpu], k.rqs[env.dst_cpu]
    if (
        env.idle != NOT_IDLE
        and src.cfs.h_nr_running == 1
        and check_cpu_capacity(src, env.sd)
        and src.cpu_capacity * env.sd.imbalance_pct < dst.cpu_capacity * 100
    ):
        return True
    return env.sd.nr_balance_failed > env.sd.cache_nice_tries + 2


def _finish(k: Kernel, env: Env, cpu: int, src: Rq, moved: int) -> int:
    """After the moving part: failure counter, active balance, interval."""
    sd = env.sd
    active = False
    if moved:
        sd.nr_balance_failed = 0
        k.log_balance(cpu, src.cpu, k.log_op, moved)
        k.count_balance(sd, env.idle, "moved")
    else:
        if env.idle != NEWLY_IDLE:
            sd.nr_balance_failed += 1
        if need_active_balance(k, env):
            if cpu not in k.allowed_of(src.curr):
                env.all_pinned = True
                k.count_balance(sd, env.idle, "pinned")
                return _longer_interval(env)
            if not src.active_balance:
                active = src.active_balance = True
                src.push_cpu = cpu
                k.start_stopper(src)
            sd.nr_balance_failed = sd.cache_nice_tries + 1
        k.count_balance(sd, env.idle, "active" if active else "failed")
    if not active:
        sd.balance_interval = sd.min_interval
    elif sd.balance_interval < sd.max_interval:
        sd.balance_interval *= 2
    return moved


def active_load_balance(k: Kernel, src: Rq) -> None:
    """What the stopper does (active_load_balance_cpu_stop(), v4.1); it counts in nr_running itself."""
    target = src.push_cpu
    moved = None
    if src.nr_running > 1:
        for sd in k.rqs[target].sd:
            if src.cpu in sd.span:
                moved = detach_one_task(k, Env(sd, target, IDLE, set(), None, src_cpu=src.cpu))
                break
    src.active_balance = False
    if moved is not None:
        attach_task(k, k.rqs[target], moved)
