"""The weight of a task (kernel/sched/core.c, v4.1)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.world.cpusets_jit import item
from wastedcores.simulator.engine.world.structs import Kernel, TaskStruct

#: the policies of the fair class that behave differently (include/uapi/linux/sched.h)
SCHED_BATCH, SCHED_IDLE = 3, 5
#: WEIGHT_IDLEPRIO and WMULT_IDLEPRIO (kernel/sched/sched.h)
IDLE_WEIGHT = 3
IDLE_WMULT = 1431655765


@inner
def set_load_weight(k: Kernel, p: TaskStruct) -> None:
    """set_load_weight(): set the weight that the fair class gives a task."""
    if p.policy == SCHED_IDLE:
        p.se.weight = IDLE_WEIGHT
        p.se.inv_weight = IDLE_WMULT
        return
    nice = p.nice
    p.se.weight = item(k, k.weight_lists + nice + 20)
    p.se.inv_weight = item(k, k.weight_lists + 40 + nice + 20)
