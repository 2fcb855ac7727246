"""The loads of CPUs and tasks that placement and balancing of Linux 6.12 compare (kernel/sched/fair.c, v6.12.107).

Every CPU has the capacity 1024: no real-time load, frequency or asymmetry reduces it.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import task_state
from wastedcores.simulator.engine.fair.load_jit import jiffies
from wastedcores.simulator.engine.fair.pelt_v6_12_jit import update_blocked_se
from wastedcores.simulator.engine.world.idle_jit import runs_idle
from wastedcores.simulator.engine.world import cfs_rq, eevdf, entity, rq, sim, task

#: SCHED_CAPACITY_SCALE
CAPACITY = 1024


@inner
def cpu_load(m, cpu):
    """cpu_load(): the load of a CPU, with that of tasks that sleep."""
    return m[m[0, sim.CPUS] + cpu, eevdf.LOAD_AVG]


@inner
def cpu_runnable(m, cpu):
    """cpu_runnable(): how many tasks a CPU had to run on average, times 1024."""
    return m[m[0, sim.CPUS] + cpu, eevdf.RUNNABLE_AVG]


@inner
def task_util_est(m, p):
    """task_util_est(): the use that a task is expected to make of a CPU."""
    return max(m[p, eevdf.UTIL_AVG], m[p, eevdf.UTIL_EST])


@apart(VALUE)
def cpu_util(m, cpu, p, dst_cpu, boost):
    """cpu_util(): the use of a CPU as it is (``p`` is -1), or as it would be if ``p`` ran on ``dst_cpu``.

    With ``boost``, tasks that wait for the CPU count as use.
    """
    q = m[0, sim.CPUS] + cpu
    util = m[q, eevdf.UTIL_AVG]
    runnable = m[q, eevdf.RUNNABLE_AVG]
    estimate = m[q, eevdf.UTIL_EST]
    if p >= 0:
        if m[p, task.CPU] == cpu and dst_cpu != cpu:
            util -= min(util, m[p, eevdf.UTIL_AVG])
            runnable -= min(runnable, m[p, eevdf.RUNNABLE_AVG])
        elif m[p, task.CPU] != cpu and dst_cpu == cpu:
            util += m[p, eevdf.UTIL_AVG]
            runnable += m[p, eevdf.RUNNABLE_AVG]
        if dst_cpu == cpu:
            estimate += m[p, eevdf.UTIL_EST]
        elif m[p, entity.ON_RQ] != 0 or m[p, task.ON_RT] != 0 or m[m[0, sim.CPU], rq.CURR] == p:
            estimate -= min(estimate, m[p, eevdf.UTIL_EST])
    if boost:
        util = max(util, runnable)
    return min(max(util, estimate), CAPACITY)


@inner
def root_h_load(m, q):
    """update_cfs_rq_h_load(): the load of a root queue, from this jiffy."""
    if m[q, cfs_rq.LAST_H_LOAD_UPDATE] != jiffies(m):
        m[q, cfs_rq.H_LOAD] = m[q, eevdf.LOAD_AVG]
        m[q, cfs_rq.LAST_H_LOAD_UPDATE] = jiffies(m)
    return m[q, cfs_rq.H_LOAD]


@apart(VALUE)
def task_h_load(m, p):
    """task_h_load(), update_cfs_rq_h_load(): the part of its CPU's load that is due to ``p``, from this jiffy."""
    q = m[p, entity.CFS_RQ]
    se = m[q, cfs_rq.ENTITY]
    if se < 0:
        h_load = root_h_load(m, q)
    else:
        if m[q, cfs_rq.LAST_H_LOAD_UPDATE] != jiffies(m):
            above = m[se, entity.CFS_RQ]  # autogroups are one level deep
            weighted = root_h_load(m, above) * m[se, eevdf.LOAD_AVG]
            m[q, cfs_rq.H_LOAD] = weighted // (m[above, eevdf.LOAD_AVG] + 1)
            m[q, cfs_rq.LAST_H_LOAD_UPDATE] = jiffies(m)
        h_load = m[q, cfs_rq.H_LOAD]
    return m[p, eevdf.LOAD_AVG] * h_load // (m[q, eevdf.LOAD_AVG] + 1)


@inner
def contributes(m, cpu, p):
    """Return whether the averages of a CPU contain those of ``p``, which a new task's do not."""
    return m[p, task.CPU] == cpu and m[p, eevdf.LAST_UPDATE] != 0


@inner
def cpu_util_without(m, cpu, p):
    """cpu_util_without(): the use of a CPU without the contribution of ``p``."""
    return cpu_util(m, cpu, p if contributes(m, cpu, p) else -1, -1, 0)


@inner
def cpu_load_without(m, cpu, p):
    """cpu_load_without(): the load of a CPU without the contribution of ``p``."""
    load = cpu_load(m, cpu)
    if contributes(m, cpu, p):
        load -= min(load, task_h_load(m, p))
    return load


@inner
def cpu_runnable_without(m, cpu, p):
    """cpu_runnable_without(): the runnable average of a CPU without the contribution of ``p``."""
    runnable = cpu_runnable(m, cpu)
    if contributes(m, cpu, p):
        runnable -= min(runnable, m[p, eevdf.RUNNABLE_AVG])
    return runnable


@inner
def sync_entity_load_avg(m, p):
    """sync_entity_load_avg(): let the averages of a task decay up to the last update of its queue."""
    update_blocked_se(m, m[m[p, entity.CFS_RQ], eevdf.LAST_UPDATE], p)


@apart(NOTHING)
def remove_entity_load_avg(m, p):
    """remove_entity_load_avg(): let the old queue of a task that wakes elsewhere subtract its averages later."""
    sync_entity_load_avg(m, p)
    q = m[p, entity.CFS_RQ]
    m[q, eevdf.REMOVED_NR] += 1
    m[q, eevdf.REMOVED_UTIL] += m[p, eevdf.UTIL_AVG]
    m[q, cfs_rq.REMOVED_LOAD] += m[p, eevdf.LOAD_AVG]
    m[q, eevdf.REMOVED_RUNNABLE] += m[p, eevdf.RUNNABLE_AVG]


@apart(NOTHING)
def migrate_task(m, p):
    """migrate_task_rq_fair(): take a task off the averages of the CPU that it leaves (v6.12.107; its end in v6.1).

    A queued task was detached when it was dequeued. A task that sleeps leaves its averages for the old queue to subtract. If its
    old CPU is idle, the averages also decay until now, which the queue of that CPU has not seen yet (migrate_se_pelt_lag()).
    """
    waking = m[p, task.STATE] == task_state.WAKING and m[p, eevdf.SCHED_DELAYED] == 0
    if waking and m[p, eevdf.LAST_UPDATE] != 0:
        remove_entity_load_avg(m, p)
        if runs_idle(m, m[m[p, entity.CFS_RQ], cfs_rq.CPU]):
            update_blocked_se(m, m[0, sim.NOW], p)
    m[p, eevdf.LAST_UPDATE] = 0
    m[p, entity.EXEC_START] = 0
