"""Placement: the CPU of a waking, forked or exec'ing task (kernel/sched/fair.c, v4.1; docs/scheduler-model.md, section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.simulator.reference.load import (
    cfs_rq_load_avg,
    source_load,
    target_load,
    weighted_cpuload,
)
from wastedcores.simulator.reference.state import Task

if TYPE_CHECKING:
    from wastedcores.simulator.reference.domains import SchedDomain, SchedGroup
    from wastedcores.simulator.reference.kernel import Kernel


def select_task_rq_fair(k: Kernel, p: Task, prev_cpu: int, flag: str, cpu: int, sync: bool) -> int:
    """Choose a CPU for ``p``; ``flag`` is ``wake``, ``fork`` or ``exec``, and ``cpu`` executes the code.

    select_task_rq_fair(), v4.1.
    """
    if k.model.fork_wait and flag != "exec":
        home = fork_wait_cpu(k, p, cpu if flag == "fork" else prev_cpu)
        if home >= 0:
            return home
    if k.model.overload_on_wakeup:
        # the authors' patch, before everything else and for fork and exec too (paper 3.3)
        idle = k.policies.longest_idle_cpu(k, p, prev_cpu)
        if idle >= 0:
            return idle
    affine = top = None
    for sd in k.rqs[cpu].sd:
        if flag == "wake" and cpu in p.allowed and sd.has("WAKE_AFFINE") and prev_cpu in sd.span:
            affine = sd
            break
        if sd.has("BALANCE_" + flag.upper()):
            top = sd
    if affine is not None and cpu != prev_cpu and wake_affine(k, affine, p, prev_cpu, cpu, sync):
        prev_cpu = cpu
    if flag == "wake":
        return k.policies.select_idle_sibling(k, p, prev_cpu)
    return _slow_path(k, p, cpu, top, "BALANCE_" + flag.upper())


def fork_wait_cpu(k: Kernel, p: Task, home: int) -> int:
    """Return the CPU of the parent or the last CPU of a woken task, or -1 where strategy 1 leaves the choice to CFS.

    Strategy 1 of the fork/wait paper (section 4.2) takes it if at most one task is on that CPU: at a fork that is the parent.
    Strategy 2 always takes it and leaves it to load balancing to disperse the tasks. The paper says nothing of exec.
    """
    if home not in p.allowed or home not in k.active:
        return -1
    return home if k.model.fork_wait == 2 or k.rqs[home].nr_running <= 1 else -1


def longest_idle_cpu(k: Kernel, p: Task, prev_cpu: int) -> int:
    """Return the previous CPU if it is idle, or else the CPU that has been idle for longest, or else -1.

    This is the authors' patch (jplozi/wastedcores, overload_on_wakeup). It tests nr_running only, not the wake list.
    """
    if k.rqs[prev_cpu].nr_running == 0:
        return prev_cpu
    best, oldest = -1, 1 << 60
    for rq in k.rqs:
        if rq.online and rq.cpu in p.allowed and rq.nr_running == 0 and rq.idle_stamp < oldest:
            best, oldest = rq.cpu, rq.idle_stamp
    return best


def record_wakee(k: Kernel, waker: Task, p: Task) -> None:
    """Count how often the waker changes the task that it wakes, halved every second (record_wakee(), v4.1 and v6.12.107).

    A timer on an idle CPU counts for that CPU's idle task.
    """
    if k.jiffies > waker.wakee_flip_decay + k.hz:
        waker.wakee_flips >>= 1
        waker.wakee_flip_decay = k.jiffies
    if waker.last_wakee != p.pid:
        waker.last_wakee = p.pid
        waker.wakee_flips += 1


def wake_affine(k: Kernel, sd: SchedDomain, p: Task, prev: int, cpu: int, sync: bool) -> bool:
    """Tell whether the woken task should move to the CPU of its waker (wake_affine(), v4.1)."""
    if k.loads.wake_wide(k, p, cpu):
        return False
    this_load = target_load(k.rqs[cpu], sd.wake_idx)
    load = source_load(k.rqs[prev], sd.wake_idx)
    if sync:
        current = k.current(cpu)
        weight = k.loads.task_weight(current)
        this_load += k.loads.effective_load(current.tg, cpu, -weight, -weight)
        load += k.loads.effective_load(current.tg, prev, 0, -weight)
    weight = k.loads.task_weight(p)
    here = 100 * k.rqs[prev].cpu_capacity
    there = (100 + (sd.imbalance_pct - 100) // 2) * k.rqs[cpu].cpu_capacity
    if this_load > 0:
        here *= this_load + k.loads.effective_load(p.tg, cpu, weight, weight)
        there *= load + k.loads.effective_load(p.tg, prev, 0, weight)
    return here <= there


def select_idle_sibling(k: Kernel, p: Task, target: int) -> int:
    """Find an idle CPU in the last-level cache of ``target``, in a wholly idle group; otherwise return ``target``.

    select_idle_sibling(), v4.1.
    """
    if k.idle_cpu(target):
        return target
    if p.cpu != target and k.llc_id[p.cpu] == k.llc_id[target] and k.idle_cpu(p.cpu):
        return p.cpu
    llc = k.rqs[target].sd[: k.llc_depth[target]]
    if llc:
        k.log_considered(p.cpu, sorted(llc[-1].span), "select_idle_sibling", llc[-1].level, p.pid)
    for sd in reversed(llc):
        for group in sd.groups:
            if p.allowed.isdisjoint(group.cpus):
                continue
            if all(c != target and k.idle_cpu(c) for c in group.cpus):
                return min(c for c in group.cpus if c in p.allowed)
    return target


def _slow_path(k: Kernel, p: Task, cpu: int, sd: SchedDomain | None, flag: str) -> int:
    """Descend from the widest domain with the flag to the idlest CPU (the end of select_task_rq_fair(), v4.1)."""
    new_cpu = cpu
    while sd is not None:
        if not sd.has(flag):
            sd = sd.child
            continue
        if k.model.forks_avoid_blocked_load:
            group = find_idlest_group_v4_10(k, sd, p, cpu)
        else:
            group = find_idlest_group(k, sd, p, cpu)
        if group is None:
            sd = sd.child
            continue
        new_cpu = find_idlest_cpu(k, group, p, cpu, sd.level)
        if new_cpu in (-1, cpu):
            sd = sd.child
            continue
        cpu, weight, sd = new_cpu, len(sd.span), None
        for tmp in k.rqs[cpu].sd:
            if len(tmp.span) >= weight:
                break
            if tmp.has(flag):
                sd = tmp
    return new_cpu


def find_idlest_group(k: Kernel, sd: SchedDomain, p: Task, this_cpu: int) -> SchedGroup | None:
    """Find the least loaded group, or None if the local group is about as good (find_idlest_group(), v4.1).

    forkexec_idx is 0 on x86.
    """
    idlest, min_load, this_load = None, 1 << 63, 0
    for group in sd.groups:
        if p.allowed.isdisjoint(group.cpus):
            continue
        k.log_considered(this_cpu, group.cpus, "find_idlest_group", sd.level, p.pid)
        local = this_cpu in group.cpus
        read = source_load if local else target_load
        load = sum(read(k.rqs[c], sd.forkexec_idx) for c in group.cpus)
        load = load * 1024 // group.sgc.capacity
        if local:
            this_load = load
        elif load < min_load:
            min_load, idlest = load, group
    if idlest is None or 100 * this_load < (100 + (sd.imbalance_pct - 100) // 2) * min_load:
        return None
    return idlest


def find_idlest_group_v4_10(
    k: Kernel, sd: SchedDomain, p: Task, this_cpu: int
) -> SchedGroup | None:
    """Find the idlest group as v4.10 to v5.4 do, or None (find_idlest_group(), v4.19).

    Groups whose queued loads differ by at most ``imbalance`` are compared by all their load, that of sleeping tasks included
    (6b94780e45c1, v4.10). At NUMA levels the task stays if its own group's load is within it, too (2c83362734da, v4.17). The test
    of spare capacity, which is for exec only, is left out.
    """
    imbalance = 1024 * (sd.imbalance_pct - 100) // 100
    scale = 100 + (sd.imbalance_pct - 100) // 2
    idlest, min_runnable, min_avg = None, 1 << 55, 1 << 55
    this_runnable, this_avg = 1 << 55, 1 << 55
    for group in sd.groups:
        if p.allowed.isdisjoint(group.cpus):
            continue
        k.log_considered(this_cpu, group.cpus, "find_idlest_group", sd.level, p.pid)
        local = this_cpu in group.cpus
        read = source_load if local else target_load
        runnable = sum(read(k.rqs[c], sd.forkexec_idx) for c in group.cpus)
        runnable = runnable * 1024 // group.sgc.capacity
        avg = sum(cfs_rq_load_avg(k.rqs[c]) for c in group.cpus) * 1024 // group.sgc.capacity
        if local:
            this_runnable, this_avg = runnable, avg
        elif min_runnable > runnable + imbalance:
            idlest, min_runnable, min_avg = group, runnable, avg
        elif runnable < min_runnable + imbalance and 100 * min_avg > scale * avg:
            idlest, min_avg = group, avg
    close = this_runnable < min_runnable + imbalance and 100 * this_avg < scale * min_avg
    stays = k.model.forks_stay_on_node and sd.has("NUMA")
    if stays and min_runnable + imbalance >= this_runnable:
        return None
    return None if close or min_runnable > this_runnable + imbalance else idlest


def find_idlest_cpu(k: Kernel, group: SchedGroup, p: Task, this_cpu: int, level: int) -> int:
    """Find the allowed CPU of a group that became idle last, or else the least loaded one (find_idlest_cpu(), v4.1).

    Idle states are not modelled, so idle CPUs differ by ``idle_stamp`` only. A CPU whose stamp is 0 is not found.
    """
    k.log_considered(this_cpu, group.cpus, "find_idlest_cpu", level, p.pid)
    newest, idle = 0, -1
    min_load, least_loaded = 1 << 63, this_cpu
    for c in sorted(p.allowed.intersection(group.cpus)):
        rq = k.rqs[c]
        if k.idle_cpu(c):
            if rq.idle_stamp > newest:
                newest, idle = rq.idle_stamp, c
        elif idle < 0:
            load = weighted_cpuload(rq)
            if load < min_load or (load == min_load and c == this_cpu):
                min_load, least_loaded = load, c
    return idle if idle >= 0 else least_loaded
