"""The loads that the balancer compares (kernel/sched/fair.c and proc.c, v4.1; docs/scheduler-model.md, sections 2.4 and 2.5)."""

from __future__ import annotations

import numpy as np

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.fair import pelt_v4_4_jit as v4_4
from wastedcores.simulator.engine.fair.pelt_jit import update_blocked_load, update_entity_load_avg
from wastedcores.simulator.engine.world import cfs_rq, entity, rq, sim, task_group

#: degrade_zero_ticks and degrade_factor of kernel/sched/proc.c
ZERO_TICKS = np.array([0, 8, 32, 64, 128], dtype=np.int64)
FACTORS = np.array(
    [
        [0, 0, 0, 0, 0, 0, 0, 0],
        [64, 32, 8, 0, 0, 0, 0, 0],
        [96, 72, 40, 12, 1, 0, 0, 0],
        [112, 98, 75, 43, 15, 1, 0, 0],
        [120, 112, 98, 76, 45, 16, 2, 0],
    ],
    dtype=np.int64,
)


@inner
def jiffies(m):
    """Return the present jiffy."""
    return m[0, sim.JIFFIES]


@inner
def idle_cpu(m, cpu):
    """idle_cpu(): the idle task runs, nothing is queued and nothing is on the wake list."""
    return m[cpu, rq.CURR] < 0 and m[cpu, rq.NR_RUNNING] == 0 and m[cpu, rq.WAKE_LIST] < 0


@inner
def decay_missed(load, missed, i):
    """decay_load_missed(): decay cpu_load[i] by the ticks that were missed."""
    if missed == 0:
        return load
    if missed >= ZERO_TICKS[i]:
        return load * 0
    if i == 1:
        return load >> missed
    j = 0
    while missed != 0:
        if missed & 1:
            load = (load * int(FACTORS[i, j])) >> 7
        missed >>= 1
        j += 1
    return load


@inner
def update_cpu_load(m, cpu, load, pending):
    """__update_cpu_load(): update cpu_load[0..4], the running averages, over ``pending`` ticks."""
    m[cpu, rq.CPU_LOAD0] = load
    for i in range(1, 5):
        old = decay_missed(m[cpu, rq.CPU_LOAD0 + i], pending - 1, i)
        scale = 1 << i
        new = load
        if new > old:
            new += scale - 1
        m[cpu, rq.CPU_LOAD0 + i] = (old * (scale - 1) + new) >> i


@inner
def catch_up_idle(m, cpu):
    """update_cpu_load_nohz(): ticks that did not happen count as idle."""
    now = jiffies(m)
    pending = now - m[cpu, rq.LAST_LOAD_UPDATE_TICK]
    if pending > 0:
        m[cpu, rq.LAST_LOAD_UPDATE_TICK] = now
        update_cpu_load(m, cpu, 0, pending)


@inner
def weighted_cpuload(m, cpu):
    """weighted_cpuload(): the load of the queued entities."""
    return m[cpu + m[0, sim.CPUS], cfs_rq.RUNNABLE_LOAD_AVG]


@inner
def source_load(m, cpu, index):
    """source_load(): the low estimate of a load; index t reads cpu_load[t-1]."""
    total = weighted_cpuload(m, cpu)
    if index > 0 and m[cpu, rq.CPU_LOAD0 + index - 1] < total:
        return m[cpu, rq.CPU_LOAD0 + index - 1]
    return total


@inner
def target_load(m, cpu, index):
    """target_load(): the high estimate of a load."""
    total = weighted_cpuload(m, cpu)
    if index > 0 and m[cpu, rq.CPU_LOAD0 + index - 1] > total:
        return m[cpu, rq.CPU_LOAD0 + index - 1]
    return total


@inner
def avg_load_per_task(m, cpu):
    """cpu_avg_load_per_task(): the load of a CPU divided by its tasks."""
    q = cpu + m[0, sim.CPUS]
    if m[q, cfs_rq.H_NR_RUNNING] > 0:
        return m[q, cfs_rq.RUNNABLE_LOAD_AVG] // m[q, cfs_rq.H_NR_RUNNING]
    return m[q, cfs_rq.RUNNABLE_LOAD_AVG] * 0


@inner
def get_cpu_usage(m, cpu):
    """get_cpu_usage(): the utilization of a CPU, scaled to its capacity."""
    if m[0, sim.LOAD_V4_4] != 0:
        return v4_4.cpu_util(m, cpu)
    usage = m[cpu + m[0, sim.CPUS], cfs_rq.UTILIZATION_LOAD_AVG]
    if usage >= 1024:
        return m[cpu, rq.CPU_CAPACITY_ORIG]
    return (usage * m[cpu, rq.CPU_CAPACITY_ORIG]) >> 10


@apart(VALUE)
def task_h_load(m, p):
    """task_h_load(), update_cfs_rq_h_load(): the load that a task adds to its CPU, seen from the root."""
    if m[0, sim.LOAD_V4_4] != 0:
        return v4_4.task_h_load(m, p)
    now = jiffies(m)
    q = m[p, entity.CFS_RQ]
    if m[q, cfs_rq.LAST_H_LOAD_UPDATE] != now:
        se = m[q, cfs_rq.ENTITY]
        if se >= 0:
            root = m[se, entity.CFS_RQ]
            if m[root, cfs_rq.LAST_H_LOAD_UPDATE] != now:
                m[root, cfs_rq.H_LOAD] = m[root, cfs_rq.RUNNABLE_LOAD_AVG]
                m[root, cfs_rq.LAST_H_LOAD_UPDATE] = now
            m[q, cfs_rq.H_LOAD] = (
                m[root, cfs_rq.H_LOAD]
                * m[se, entity.LOAD_AVG_CONTRIB]
                // (m[root, cfs_rq.RUNNABLE_LOAD_AVG] + 1)
            )
        else:
            m[q, cfs_rq.H_LOAD] = m[q, cfs_rq.RUNNABLE_LOAD_AVG]
        m[q, cfs_rq.LAST_H_LOAD_UPDATE] = now
    return (
        m[p, entity.LOAD_AVG_CONTRIB] * m[q, cfs_rq.H_LOAD] // (m[q, cfs_rq.RUNNABLE_LOAD_AVG] + 1)
    )


@apart(VALUE)
def effective_load(m, tg, cpu, wl, wg):
    """effective_load(): the change of load that moving weight causes, for group ``tg``, which is one level below the root."""
    if tg == 0:
        return wl
    if m[0, sim.LOAD_V4_4] != 0:
        return v4_4.effective_load(m, tg, cpu, wl, wg)
    q = m[0, sim.CPUS] * (1 + tg) + cpu
    row = m[q, cfs_rq.TASK_GROUP]
    total = (
        wg + m[row, task_group.LOAD_AVG] - m[q, cfs_rq.TG_LOAD_CONTRIB] + m[q, cfs_rq.LOAD_WEIGHT]
    )
    weight = m[q, cfs_rq.LOAD_WEIGHT] + wl
    if total > 0 and weight < total:
        product = weight * m[row, task_group.SHARES]
        wl = product // total if product >= 0 else -(-product // total)
    else:
        wl = m[row, task_group.SHARES]
    wl = max(wl, 2)
    return wl - m[m[q, cfs_rq.ENTITY], entity.WEIGHT]


@apart(NOTHING)
def update_blocked_averages(m, cpu):
    """update_blocked_averages(): decay the blocked load of a CPU, of the groups first and then of the root queue."""
    n = m[0, sim.CPUS]
    m[cpu, rq.CLOCK] = m[0, sim.NOW]
    for tg in range(1, m[0, sim.TASK_GROUPS]):
        q = n * (1 + tg) + cpu
        if m[q, cfs_rq.ON_LIST] != 0:
            if m[0, sim.LOAD_V4_4] != 0:
                v4_4.update_blocked_queue(m, q)
                continue
            se = m[0, sim.ENTITY0] + tg * n + cpu
            update_blocked_load(m, q, True)
            update_entity_load_avg(m, se, True)
            if m[se, entity.RUNNABLE_AVG_SUM] == 0 and m[q, cfs_rq.NR_RUNNING] == 0:
                m[q, cfs_rq.ON_LIST] = 0
    if m[n + cpu, cfs_rq.ON_LIST] != 0:
        if m[0, sim.LOAD_V4_4] != 0:
            v4_4.update_blocked_queue(m, n + cpu)
        else:
            update_blocked_load(m, n + cpu, True)
