"""Weights that are shifted up by ten bits (scale_load()), as both fair classes of modern kernels have them.

Source: kernel/sched/fair.c and sched.h, v6.12.107; v6.1.192 is equal here.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.fair.pelt_v6_12_jit import scale_load_down
from wastedcores.simulator.engine.world import cfs_rq, eevdf, entity, rq, task_group

#: MIN_SHARES, which is compared with weights that are shifted up
MIN_SHARES = 2


@inner
def add_weight(m, q, se, sign):
    """Add the weight of an entity to its queue, or take it off."""
    m[q, cfs_rq.LOAD_WEIGHT] += sign * m[se, entity.WEIGHT]
    if m[se, entity.PARENT] < 0:
        m[m[q, cfs_rq.CPU], rq.LOAD_WEIGHT] += sign * scale_load_down(m[se, entity.WEIGHT])


@inner
def update_runnable(m, se):
    """se_update_runnable(): count the runnable tasks below a group's entity."""
    g = m[se, entity.MY_Q]
    if g >= 0:
        m[se, eevdf.RUNNABLE_WEIGHT] = m[g, cfs_rq.H_NR_RUNNING] - m[g, eevdf.H_NR_DELAYED]


@inner
def calc_group_shares(m, g):
    """calc_group_shares(): return the weight of a group's entity, its CPU's part of the group."""
    tg = m[g, cfs_rq.TASK_GROUP]
    load = max(scale_load_down(m[g, cfs_rq.LOAD_WEIGHT]), m[g, eevdf.LOAD_AVG])
    total = m[tg, task_group.LOAD_AVG] - m[g, cfs_rq.TG_LOAD_CONTRIB] + load
    most = m[tg, task_group.SHARES] << 10
    shares = most * load
    if total != 0:
        shares //= total
    return min(max(shares, MIN_SHARES), most)
