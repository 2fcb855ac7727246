"""find_idlest_group(): the group for a new task, and for one that calls exec.

Source: kernel/sched/fair.c, v4.1 and v4.19; docs/scheduler-model.md, section 6.4.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import VALUE, apart
from wastedcores.simulator.engine.codes import log_op
from wastedcores.simulator.engine.fair.load_jit import source_load, target_load
from wastedcores.simulator.engine.world.cpusets_jit import item, test
from wastedcores.simulator.engine.world.log_jit import log_considered
from wastedcores.simulator.engine.world.rows_jit import cpu_cfs_rq, group_at
from wastedcores.simulator.engine.world.structs import (
    NO_GROUP,
    Kernel,
    SchedDomain,
    SchedGroup,
    TaskStruct,
)

#: larger than every load, also a hundred times as large
HUGE = 1 << 55


@inner
def group_allowed(k: Kernel, group: SchedGroup, mask: int) -> bool:
    """Return whether a group has a CPU of the mask."""
    first = group.cpus
    for i in range(first, first + group.group_weight):  # noqa: SIM110 (numba has no generators here)
        if test(k, mask, item(k, i)):
            return True
    return False


@apart(VALUE)
def find_idlest_group(k: Kernel, sd: SchedDomain, p: TaskStruct, this_cpu: int) -> SchedGroup:
    """find_idlest_group(): return NULL if the task should stay in the local group."""
    idlest = NO_GROUP
    min_load = HUGE
    this_load = 0
    index = sd.forkexec_idx
    for place in range(sd.nr_groups):
        group = group_at(sd, place)
        if not group_allowed(k, group, p.cpus_allowed):
            continue
        local = test(k, group.span, this_cpu)
        load = 0
        first = group.cpus
        for i in range(first, first + group.group_weight):
            cpu = item(k, i)
            load += source_load(k, cpu, index) if local else target_load(k, cpu, index)
        log_considered(k, this_cpu, group.span, log_op.FIND_IDLEST_GROUP, sd.level)
        load = load * 1024 // group.sgc.capacity
        if local:
            this_load = load
        elif load < min_load:
            min_load = load
            idlest = group
    if idlest == NO_GROUP:
        return NO_GROUP
    if 100 * this_load < (100 + (sd.imbalance_pct - 100) // 2) * min_load:
        return NO_GROUP
    return idlest


@inner
def cfs_rq_load_avg(k: Kernel, cpu: int) -> int:
    """cfs_rq_load_avg(): the load of the queued and of the sleeping entities."""
    q = cpu_cfs_rq(k, cpu)
    return q.runnable_load_avg + q.blocked_load_avg


@apart(VALUE)
def find_idlest_group_v4_10(k: Kernel, sd: SchedDomain, p: TaskStruct, this_cpu: int) -> SchedGroup:
    """find_idlest_group() of v4.10 to v5.4, without its test of spare capacity; NULL: stay in the local group."""
    idlest = NO_GROUP
    min_runnable = HUGE
    min_avg = HUGE
    this_runnable = HUGE
    this_avg = HUGE
    margin = sd.fork_margin
    scale = 100 + (sd.imbalance_pct - 100) // 2
    index = sd.forkexec_idx
    for place in range(sd.nr_groups):
        group = group_at(sd, place)
        if not group_allowed(k, group, p.cpus_allowed):
            continue
        local = test(k, group.span, this_cpu)
        runnable = 0
        avg = 0
        first = group.cpus
        for i in range(first, first + group.group_weight):
            cpu = item(k, i)
            runnable += source_load(k, cpu, index) if local else target_load(k, cpu, index)
            avg += cfs_rq_load_avg(k, cpu)
        log_considered(k, this_cpu, group.span, log_op.FIND_IDLEST_GROUP, sd.level)
        capacity = group.sgc.capacity
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
    if idlest == NO_GROUP:
        return NO_GROUP
    if sd.stays_on_node != 0 and min_runnable + margin >= this_runnable:
        return NO_GROUP
    if min_runnable > this_runnable + margin:
        return NO_GROUP
    if this_runnable < min_runnable + margin and 100 * this_avg < scale * min_avg:
        return NO_GROUP
    return idlest
