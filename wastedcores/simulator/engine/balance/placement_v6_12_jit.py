"""Placement of Linux 6.12: the CPU of a waking, forked or exec'ing task (kernel/sched/fair.c, v6.12.107).

A wakeup stays in the LLC of the CPU on which the task ran last, or goes to that of the CPU that wakes it:
``idle_sibling_v6_12_jit.py`` searches it. Forks and execs descend from the widest domain: ``slow_path_v6_12_jit.py``.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import VALUE, apart
from wastedcores.simulator.engine.balance.idle_sibling_v6_12_jit import select_idle_sibling
from wastedcores.simulator.engine.balance.select_task_rq_v4_1_jit import record_wakee
from wastedcores.simulator.engine.balance.slow_path_v6_12_jit import find_dst_cpu
from wastedcores.simulator.engine.codes import sd_flag
from wastedcores.simulator.engine.fair.load_jit import idle_cpu, jiffies
from wastedcores.simulator.engine.fair.signals_v6_12_jit import cpu_load, task_h_load
from wastedcores.simulator.engine.world.cpusets_jit import test
from wastedcores.simulator.engine.world.rows_jit import cpu_cfs_rq, cpu_rq, domain_at
from wastedcores.simulator.engine.world.structs import (
    NO_DOMAIN,
    NO_TASK,
    Kernel,
    SchedDomain,
    TaskStruct,
)


@inner
def record_wakee_of_idle(k: Kernel, cpu: int, p: TaskStruct) -> None:
    """record_wakee() of a timer on an idle CPU, which counts for that CPU's idle task."""
    q = cpu_cfs_rq(k, cpu)
    if jiffies(k) > q.rq_modern.wakee_flip_decay_ts + k.hz:
        q.rq_modern.wakee_flips >>= 1
        q.rq_modern.wakee_flip_decay_ts = jiffies(k)
    if q.rq_modern.last_wakee != p:
        q.rq_modern.last_wakee = p
        q.rq_modern.wakee_flips += 1


@inner
def wake_wide(k: Kernel, p: TaskStruct, cpu: int) -> bool:
    """wake_wide(): return whether waker and wakee wake so many tasks that they should not share a cache."""
    waker = cpu_rq(k, cpu).curr
    own = p.wakee_flips
    if waker != NO_TASK:
        flips = waker.wakee_flips
    else:
        flips = cpu_cfs_rq(k, cpu).rq_modern.wakee_flips
    least = min(own, flips)
    factor = cpu_rq(k, cpu).sd_llc_size
    return least >= factor and max(own, flips) >= least * factor


@inner
def wake_affine_idle(k: Kernel, this_cpu: int, prev: int, sync: int) -> int:
    """wake_affine_idle(): return one of the two CPUs if it is idle or about to be, or else -1.

    Sleepers that are still queued do not count beside a waker that is about to sleep.
    """
    if idle_cpu(k, this_cpu) and cpu_rq(k, this_cpu).sd_llc_id == cpu_rq(k, prev).sd_llc_id:
        return prev if idle_cpu(k, prev) else this_cpu
    delayed = cpu_cfs_rq(k, this_cpu).h_nr_delayed
    if sync and cpu_rq(k, this_cpu).nr_running - delayed == 1:
        return this_cpu
    return prev if idle_cpu(k, prev) else -1


@apart(VALUE)
def wake_affine_weight(
    k: Kernel, sd: SchedDomain, p: TaskStruct, this_cpu: int, prev: int, sync: int
) -> int:
    """wake_affine_weight(): return the waker's CPU if the load there would be lower with ``p``, or else -1."""
    here = cpu_load(k, this_cpu)
    if sync:
        current = task_h_load(k, cpu_rq(k, this_cpu).curr)
        if current > here:
            return this_cpu
        here -= current
    load = task_h_load(k, p)
    here = (here + load) * 100 * cpu_rq(k, prev).cpu_capacity
    there = (cpu_load(k, prev) - load) * (100 + (sd.imbalance_pct - 100) // 2)
    there *= cpu_rq(k, this_cpu).cpu_capacity
    return this_cpu if here < there + (1 if sync else 0) else -1


@inner
def wake_affine(
    k: Kernel, sd: SchedDomain, p: TaskStruct, this_cpu: int, prev: int, sync: int
) -> int:
    """wake_affine(): choose between the CPU of the waker and the task's last one."""
    target = wake_affine_idle(k, this_cpu, prev, sync)
    if target < 0:
        target = wake_affine_weight(k, sd, p, this_cpu, prev, sync)
    return this_cpu if target == this_cpu else prev


@inner
def select_woken(k: Kernel, p: TaskStruct, prev: int, cpu: int, sync: int) -> int:
    """select_task_rq_fair() of a wakeup, which never takes the slow path because SD_BALANCE_WAKE is never set."""
    waker = cpu_rq(k, cpu).curr
    if waker != NO_TASK:
        record_wakee(k, waker, p)
    else:
        record_wakee_of_idle(k, cpu, p)
    target = prev
    if cpu != prev and not wake_wide(k, p, cpu) and test(k, p.cpus_allowed, cpu):
        for height in range(cpu_rq(k, cpu).nr_domains):
            sd = domain_at(k, cpu, height)
            affine = sd.flags & sd_flag.WAKE_AFFINE
            if affine and test(k, sd.span, prev):
                target = wake_affine(k, sd, p, cpu, prev, sync)
                break
    return select_idle_sibling(k, p, prev, target)


@apart(VALUE)
def select_task_rq_fair(k: Kernel, p: TaskStruct, flag: int, sync: int) -> int:
    """select_task_rq_fair(): ``flag`` is an SD_BALANCE_* flag; the code runs on the CPU of the event."""
    cpu = k.this_cpu
    prev = p.cpu
    if flag == sd_flag.BALANCE_WAKE:
        return select_woken(k, p, prev, cpu, sync)
    top = NO_DOMAIN
    for height in range(cpu_rq(k, cpu).nr_domains):
        sd = domain_at(k, cpu, height)
        if sd.flags & flag == 0:
            break
        top = sd
    return prev if top == NO_DOMAIN else find_dst_cpu(k, top, p, cpu, prev, flag)
