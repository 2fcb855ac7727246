"""The weight of a task (kernel/sched/core.c, v4.1)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.world import entity, sim, task
from wastedcores.simulator.engine.world.cpusets_jit import item

#: the policies of the fair class that behave differently (include/uapi/linux/sched.h)
SCHED_BATCH, SCHED_IDLE = 3, 5
#: WEIGHT_IDLEPRIO and WMULT_IDLEPRIO (kernel/sched/sched.h)
IDLE_WEIGHT = 3
IDLE_WMULT = 1431655765


@inner
def set_load_weight(m, p):
    """set_load_weight(): set the weight that the fair class gives a task."""
    if m[p, task.POLICY] == SCHED_IDLE:
        m[p, entity.WEIGHT] = IDLE_WEIGHT
        m[p, entity.INV_WEIGHT] = IDLE_WMULT
        return
    nice = m[p, task.NICE]
    m[p, entity.WEIGHT] = item(m, m[0, sim.WEIGHT_LISTS] + nice + 20)
    m[p, entity.INV_WEIGHT] = item(m, m[0, sim.WEIGHT_LISTS] + 40 + nice + 20)
