"""What the fair classes of v6.1 and v6.12 do alike to a task: its beginning, its weight, another group (kernel/sched/core.c)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.fair.entity_jit import set_task_rq
from wastedcores.simulator.engine.fair.pelt_v6_12_jit import (
    attach_task,
    detach_task,
    scale_load_down,
)
from wastedcores.simulator.engine.world.cpusets_jit import item
from wastedcores.simulator.engine.world.rows_jit import cpu_rq
from wastedcores.simulator.engine.world.structs import (
    NO_ENTITY,
    NO_QUEUE,
    CfsRq,
    Kernel,
    SchedEntity,
    TaskStruct,
)

#: MIN_SHARES, which is compared with weights that are shifted up
MIN_SHARES = 2


@inner
def add_weight(k: Kernel, q: CfsRq, se: SchedEntity, sign: int) -> None:
    """Add the weight of an entity to its queue, or take it off."""
    q.load_weight += sign * se.weight
    if se.parent == NO_ENTITY:
        cpu_rq(k, q.cpu).load_weight += sign * scale_load_down(se.weight)


@inner
def update_runnable(k: Kernel, se: SchedEntity) -> None:
    """se_update_runnable(): count the runnable tasks below a group's entity."""
    g = se.my_q
    if g != NO_QUEUE:
        se.runnable_weight = g.h_nr_running - g.h_nr_delayed


@inner
def calc_group_shares(k: Kernel, g: CfsRq) -> int:
    """calc_group_shares(): return the weight of a group's entity, its CPU's part of the group."""
    tg = g.task_group
    load = max(scale_load_down(g.load_weight), g.avg.load_avg)
    total = tg.load_avg - g.tg_load_contrib + load
    most = tg.shares << 10
    shares = most * load
    if total != 0:
        shares //= total
    return min(max(shares, MIN_SHARES), most)


@inner
def rq_of(k: Kernel, p: TaskStruct) -> int:
    """Return the CPU on whose queue a task is."""
    return p.se.cfs_rq.cpu


@inner
def weight_of(k: Kernel, nice: int) -> int:
    """set_load_weight(): return the weight of a task with a nice value, in full resolution."""
    return item(k, k.weight_lists + nice + 20) << 10


@inner
def inverse_of(k: Kernel, nice: int) -> int:
    """sched_prio_to_wmult: return 2**32 over the weight of a task with a nice value."""
    return item(k, k.weight_lists + 40 + nice + 20)


@inner
def begin_task(k: Kernel, p: TaskStruct) -> None:
    """sched_fork(), init_entity_runnable_average(): give a new task its weight and its first load."""
    p.se.weight = weight_of(k, p.nice)
    p.se.avg.load_avg = scale_load_down(p.se.weight)
    p.recent_used_cpu = p.cpu


@inner
def change_group(k: Kernel, p: TaskStruct, cpu: int, group: int) -> None:
    """task_change_group_fair(): move a task that is not queued, and its load, to another group on the same CPU."""
    detach_task(k, p.se)
    p.se.avg.last_update = 0
    p.group = group
    set_task_rq(k, p, cpu)
    attach_task(k, p.se)
