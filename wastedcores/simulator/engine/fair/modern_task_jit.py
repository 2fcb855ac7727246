"""What the fair classes of v6.1 and v6.12 do alike to a task: its beginning, its weight, another group (kernel/sched/core.c)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.fair.entity_jit import set_task_rq
from wastedcores.simulator.engine.fair.pelt_v6_12_jit import (
    attach_task,
    detach_task,
    scale_load_down,
)
from wastedcores.simulator.engine.world import cfs_rq, eevdf, entity, sim, task
from wastedcores.simulator.engine.world.cpusets_jit import item


@inner
def rq_of(m, p):
    """Return the CPU on whose queue a task is."""
    return m[m[p, entity.CFS_RQ], cfs_rq.CPU]


@inner
def weight_of(m, nice):
    """set_load_weight(): return the weight of a task with a nice value, in full resolution."""
    return item(m, m[0, sim.WEIGHT_LISTS] + nice + 20) << 10


@inner
def inverse_of(m, nice):
    """sched_prio_to_wmult: return 2**32 over the weight of a task with a nice value."""
    return item(m, m[0, sim.WEIGHT_LISTS] + 40 + nice + 20)


@inner
def begin_task(m, p):
    """sched_fork(), init_entity_runnable_average(): give a new task its weight and its first load."""
    m[p, entity.WEIGHT] = weight_of(m, m[p, task.NICE])
    m[p, eevdf.LOAD_AVG] = scale_load_down(m[p, entity.WEIGHT])
    m[p, eevdf.RECENT_USED_CPU] = m[p, task.CPU]


@inner
def change_group(m, p, cpu, group):
    """task_change_group_fair(): move a task that is not queued, and its load, to another group on the same CPU."""
    detach_task(m, p)
    m[p, eevdf.LAST_UPDATE] = 0
    m[p, task.GROUP] = group
    set_task_rq(m, p, cpu)
    attach_task(m, p)
