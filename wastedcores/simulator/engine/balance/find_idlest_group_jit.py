"""find_idlest_group(): the group for a new task, and for one that calls exec.

Source: kernel/sched/fair.c, v4.1 and v4.19; docs/scheduler-model.md, section 6.4.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import VALUE, apart
from wastedcores.simulator.engine.codes import log_op
from wastedcores.simulator.engine.fair.load_jit import source_load, target_load
from wastedcores.simulator.engine.world import (
    cfs_rq,
    domain,
    group_capacity,
    sched_group,
    sim,
    task,
)
from wastedcores.simulator.engine.world.cpusets_jit import item, test
from wastedcores.simulator.engine.world.log_jit import log_considered

#: larger than every load, also a hundred times as large
HUGE = 1 << 55


@inner
def group_allowed(m, group, mask):
    """Return whether a group has a CPU of the mask."""
    first = m[group, sched_group.CPUS]
    for i in range(first, first + m[group, sched_group.GROUP_WEIGHT]):  # noqa: SIM110 (numba has no generators here)
        if test(m, mask, item(m, i)):
            return True
    return False


@apart(VALUE)
def find_idlest_group(m, sd, p, this_cpu):
    """find_idlest_group(): return -1 if the task should stay in the local group."""
    idlest = -1
    min_load = HUGE
    this_load = 0
    index = m[sd, domain.FORKEXEC_IDX]
    ring = m[sd, domain.GROUPS]
    for group in range(ring, ring + m[sd, domain.NR_GROUPS]):
        if not group_allowed(m, group, m[p, task.CPUS_ALLOWED]):
            continue
        local = test(m, m[group, sched_group.SPAN], this_cpu)
        load = 0
        first = m[group, sched_group.CPUS]
        for i in range(first, first + m[group, sched_group.GROUP_WEIGHT]):
            cpu = item(m, i)
            load += source_load(m, cpu, index) if local else target_load(m, cpu, index)
        log_considered(
            m, this_cpu, m[group, sched_group.SPAN], log_op.FIND_IDLEST_GROUP, m[sd, domain.LEVEL]
        )
        load = load * 1024 // m[m[group, sched_group.SGC], group_capacity.CAPACITY]
        if local:
            this_load = load
        elif load < min_load:
            min_load = load
            idlest = group
    if idlest < 0:
        return -1
    if 100 * this_load < (100 + (m[sd, domain.IMBALANCE_PCT] - 100) // 2) * min_load:
        return -1
    return idlest


@inner
def cfs_rq_load_avg(m, cpu):
    """cfs_rq_load_avg(): the load of the queued and of the sleeping entities."""
    q = cpu + m[0, sim.CPUS]
    return m[q, cfs_rq.RUNNABLE_LOAD_AVG] + m[q, cfs_rq.BLOCKED_LOAD_AVG]


@apart(VALUE)
def find_idlest_group_v4_10(m, sd, p, this_cpu):
    """find_idlest_group() of v4.10 to v5.4, without its test of spare capacity; -1 if the task should stay in the local group."""
    idlest = -1
    min_runnable = HUGE
    min_avg = HUGE
    this_runnable = HUGE
    this_avg = HUGE
    margin = m[sd, domain.FORK_MARGIN]
    scale = 100 + (m[sd, domain.IMBALANCE_PCT] - 100) // 2
    index = m[sd, domain.FORKEXEC_IDX]
    ring = m[sd, domain.GROUPS]
    for group in range(ring, ring + m[sd, domain.NR_GROUPS]):
        if not group_allowed(m, group, m[p, task.CPUS_ALLOWED]):
            continue
        local = test(m, m[group, sched_group.SPAN], this_cpu)
        runnable = 0
        avg = 0
        first = m[group, sched_group.CPUS]
        for i in range(first, first + m[group, sched_group.GROUP_WEIGHT]):
            cpu = item(m, i)
            runnable += source_load(m, cpu, index) if local else target_load(m, cpu, index)
            avg += cfs_rq_load_avg(m, cpu)
        log_considered(
            m, this_cpu, m[group, sched_group.SPAN], log_op.FIND_IDLEST_GROUP, m[sd, domain.LEVEL]
        )
        capacity = m[m[group, sched_group.SGC], group_capacity.CAPACITY]
        runnable = runnable * 1024 // capacity
        avg = avg * 1024 // capacity
        if local:
            this_runnable = runnable
            this_avg = avg
        elif min_runnable > runnable + margin:
            min_runnable = runnable
            min_avg = avg
            idlest = group
        elif runnable < min_runnable + margin and 100 * min_avg > scale * avg:
            min_avg = avg
            idlest = group
    if idlest < 0:
        return -1
    if m[sd, domain.STAYS_ON_NODE] != 0 and min_runnable + margin >= this_runnable:
        return -1
    if min_runnable > this_runnable + margin:
        return -1
    if this_runnable < min_runnable + margin and 100 * this_avg < scale * min_avg:
        return -1
    return idlest
