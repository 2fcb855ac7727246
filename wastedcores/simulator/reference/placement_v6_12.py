"""Placement of Linux 6.12: the CPU of a waking, forked or exec'ing task (kernel/sched/fair.c, v6.12.107).

A wakeup stays in the LLC of the CPU on which the task ran last, or goes to that of the CPU that wakes it:
``idle_sibling_v6_12.py`` searches it. Forks and execs descend from the widest domain: ``slow_path_v6_12.py``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wastedcores.simulator.reference.idle_sibling_v6_12 import select_idle_sibling
from wastedcores.simulator.reference.placement import record_wakee
from wastedcores.simulator.reference.signals_v6_12 import cpu_load, task_h_load
from wastedcores.simulator.reference.slow_path_v6_12 import find_dst_cpu
from wastedcores.simulator.reference.state import Task

if TYPE_CHECKING:
    from wastedcores.simulator.reference.domains import SchedDomain
    from wastedcores.simulator.reference.kernel import Kernel

#: the kernel's threads of which each CPU has its own; the workloads name theirs as the kernel does
_PER_CPU_KTHREAD = re.compile(r"(kworker|ksoftirqd|migration|cpuhp|irq_work|idle_inject)/\d+")


def select_task_rq_fair(k: Kernel, p: Task, prev_cpu: int, flag: str, cpu: int, sync: bool) -> int:
    """Choose a CPU for ``p``; ``flag`` is ``wake``, ``fork`` or ``exec``, and ``cpu`` executes the code.

    select_task_rq_fair(), v6.12.107. No wakeup takes the slow path, because SD_BALANCE_WAKE is never set.
    """
    want_affine = False
    if flag == "wake":
        record_wakee(k, k.current(cpu), p)
        want_affine = not wake_wide(k, p, cpu) and cpu in p.allowed
    new_cpu = prev_cpu
    top = None
    for sd in k.rqs[cpu].sd:
        if want_affine and sd.has("WAKE_AFFINE") and prev_cpu in sd.span:
            if cpu != prev_cpu:
                new_cpu = wake_affine(k, sd, p, cpu, prev_cpu, sync)
            break
        if sd.has("BALANCE_" + flag.upper()):
            top = sd
        elif not want_affine:
            break
    if top is not None:
        return find_dst_cpu(k, top, p, cpu, prev_cpu, flag)
    if flag != "wake":
        return new_cpu
    return select_idle_sibling(k, p, prev_cpu, new_cpu, is_per_cpu_kthread(k.current(cpu)))


def is_per_cpu_kthread(p: Task) -> bool:
    """Tell whether a task is one of the kernel's threads that are bound to a CPU (is_per_cpu_kthread(), v6.12.107)."""
    return _PER_CPU_KTHREAD.match(p.comm) is not None and len(p.allowed) == 1


def wake_wide(k: Kernel, p: Task, cpu: int) -> bool:
    """Tell whether waker and wakee wake so many tasks that they should not share a cache (wake_wide(), v6.12.107)."""
    flips = sorted((k.current(cpu).wakee_flips, p.wakee_flips))
    factor = k.llc_size[cpu]
    return flips[0] >= factor and flips[1] >= flips[0] * factor


def wake_affine(k: Kernel, sd: SchedDomain, p: Task, this_cpu: int, prev: int, sync: bool) -> int:
    """Choose between the CPU of the waker and the task's last one (wake_affine(), v6.12.107)."""
    target = wake_affine_idle(k, this_cpu, prev, sync)
    if target < 0:
        target = wake_affine_weight(k, sd, p, this_cpu, prev, sync)
    return this_cpu if target == this_cpu else prev


def wake_affine_idle(k: Kernel, this_cpu: int, prev: int, sync: bool) -> int:
    """Return one of the two CPUs if it is idle or about to be, or else -1 (wake_affine_idle(), v6.12.107).

    Sleepers that are still queued do not count beside a waker that is about to sleep.
    """
    if k.idle_cpu(this_cpu) and k.llc_id[this_cpu] == k.llc_id[prev]:
        return prev if k.idle_cpu(prev) else this_cpu
    rq = k.rqs[this_cpu]
    if sync and rq.nr_running - rq.cfs.h_nr_delayed == 1:
        return this_cpu
    return prev if k.idle_cpu(prev) else -1


def wake_affine_weight(
    k: Kernel, sd: SchedDomain, p: Task, this_cpu: int, prev: int, sync: bool
) -> int:
    """Return the waker's CPU if the load there would be lower with ``p``, or else -1 (wake_affine_weight(), v6.12.107)."""
    here = cpu_load(k.rqs[this_cpu])
    if sync:
        current = task_h_load(k, k.current(this_cpu))
        if current > here:
            return this_cpu
        here -= current
    load = task_h_load(k, p)
    here = (here + load) * 100 * k.rqs[prev].cpu_capacity
    there = (cpu_load(k.rqs[prev]) - load) * (100 + (sd.imbalance_pct - 100) // 2)
    there *= k.rqs[this_cpu].cpu_capacity
    return this_cpu if here < there + sync else -1
