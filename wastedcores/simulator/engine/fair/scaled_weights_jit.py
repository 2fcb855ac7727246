"""Weights that are shifted up by ten bits (scale_load()), as both fair classes of modern kernels have them.

Source: kernel/sched/fair.c and sched.h, v6.12.107; v6.1.192 is equal here.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.fair.pelt_v6_12_jit import scale_load_down
from wastedcores.simulator.engine.world.rows_jit import cpu_rq
from wastedcores.simulator.engine.world.structs import (
    NO_ENTITY,
    NO_QUEUE,
    CfsRq,
    Kernel,
    SchedEntity,
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
