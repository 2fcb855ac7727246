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
from wastedcores.simulator.engine.world import domain, eevdf, rq, rq_v6_12, sim, task
from wastedcores.simulator.engine.world.cpusets_jit import test


@inner
def record_wakee_of_idle(m, cpu, p):
    """record_wakee() of a timer on an idle CPU, which counts for that CPU's idle task."""
    q = m[0, sim.CPUS] + cpu
    if jiffies(m) > m[q, rq_v6_12.WAKEE_FLIP_DECAY_TS] + m[0, sim.HZ]:
        m[q, rq_v6_12.WAKEE_FLIPS] >>= 1
        m[q, rq_v6_12.WAKEE_FLIP_DECAY_TS] = jiffies(m)
    if m[q, rq_v6_12.LAST_WAKEE] != p:
        m[q, rq_v6_12.LAST_WAKEE] = p
        m[q, rq_v6_12.WAKEE_FLIPS] += 1


@inner
def wake_wide(m, p, cpu):
    """wake_wide(): return whether waker and wakee wake so many tasks that they should not share a cache."""
    waker = m[cpu, rq.CURR]
    own = m[p, task.WAKEE_FLIPS]
    if waker >= 0:
        flips = m[waker, task.WAKEE_FLIPS]
    else:
        flips = m[m[0, sim.CPUS] + cpu, rq_v6_12.WAKEE_FLIPS]
    least = min(own, flips)
    factor = m[cpu, rq.SD_LLC_SIZE]
    return least >= factor and max(own, flips) >= least * factor


@inner
def wake_affine_idle(m, this_cpu, prev, sync):
    """wake_affine_idle(): return one of the two CPUs if it is idle or about to be, or else -1.

    Sleepers that are still queued do not count beside a waker that is about to sleep.
    """
    if idle_cpu(m, this_cpu) and m[this_cpu, rq.SD_LLC_ID] == m[prev, rq.SD_LLC_ID]:
        return prev if idle_cpu(m, prev) else this_cpu
    delayed = m[m[0, sim.CPUS] + this_cpu, eevdf.H_NR_DELAYED]
    if sync and m[this_cpu, rq.NR_RUNNING] - delayed == 1:
        return this_cpu
    return prev if idle_cpu(m, prev) else -1


@apart(VALUE)
def wake_affine_weight(m, sd, p, this_cpu, prev, sync):
    """wake_affine_weight(): return the waker's CPU if the load there would be lower with ``p``, or else -1."""
    here = cpu_load(m, this_cpu)
    if sync:
        current = task_h_load(m, m[this_cpu, rq.CURR])
        if current > here:
            return this_cpu
        here -= current
    load = task_h_load(m, p)
    here = (here + load) * 100 * m[prev, rq.CPU_CAPACITY]
    there = (cpu_load(m, prev) - load) * (100 + (m[sd, domain.IMBALANCE_PCT] - 100) // 2)
    there *= m[this_cpu, rq.CPU_CAPACITY]
    return this_cpu if here < there + (1 if sync else 0) else -1


@inner
def wake_affine(m, sd, p, this_cpu, prev, sync):
    """wake_affine(): choose between the CPU of the waker and the task's last one."""
    target = wake_affine_idle(m, this_cpu, prev, sync)
    if target < 0:
        target = wake_affine_weight(m, sd, p, this_cpu, prev, sync)
    return this_cpu if target == this_cpu else prev


@inner
def select_woken(m, p, prev, cpu, sync):
    """select_task_rq_fair() of a wakeup, which never takes the slow path because SD_BALANCE_WAKE is never set."""
    waker = m[cpu, rq.CURR]
    if waker >= 0:
        record_wakee(m, waker, p)
    else:
        record_wakee_of_idle(m, cpu, p)
    target = prev
    if cpu != prev and not wake_wide(m, p, cpu) and test(m, m[p, task.CPUS_ALLOWED], cpu):
        first = m[cpu, rq.SD]
        for sd in range(first, first + m[cpu, rq.NR_DOMAINS]):
            affine = m[sd, domain.FLAGS] & sd_flag.WAKE_AFFINE
            if affine and test(m, m[sd, domain.SPAN], prev):
                target = wake_affine(m, sd, p, cpu, prev, sync)
                break
    return select_idle_sibling(m, p, prev, target)


@apart(VALUE)
def select_task_rq_fair(m, p, flag, sync):
    """select_task_rq_fair(): ``flag`` is an SD_BALANCE_* flag; the code runs on the CPU of the event."""
    cpu = m[0, sim.CPU]
    prev = m[p, task.CPU]
    if flag == sd_flag.BALANCE_WAKE:
        return select_woken(m, p, prev, cpu, sync)
    top = -1
    first = m[cpu, rq.SD]
    for sd in range(first, first + m[cpu, rq.NR_DOMAINS]):
        if m[sd, domain.FLAGS] & flag == 0:
            break
        top = sd
    return prev if top < 0 else find_dst_cpu(m, top, p, cpu, prev, flag)
