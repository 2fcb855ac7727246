"""Weights that are shifted up by ten bits (scale_load()), as both fair classes of modern kernels have them.

CFS of 6.1 and EEVDF of 6.12 share the conversion into virtual time, the parts of groups and the sums of weights.
Source: kernel/sched/fair.c and sched.h, v6.12.107; v6.1.192 is equal here.
"""

from __future__ import annotations

from wastedcores.simulator.reference.arithmetic import calc_delta
from wastedcores.simulator.reference.pelt_v6_12 import scale_load_down
from wastedcores.simulator.reference.state import CfsRq, Entity

NICE_0_LOAD = 1 << 20
#: MIN_SHARES, which is compared with weights that are shifted up
MIN_SHARES = 2


def calc_delta_fair(delta: int, se: Entity) -> int:
    """Convert real time into the virtual time of ``se`` (calc_delta_fair(), v6.12.107; __calc_delta(), v7.2.13)."""
    if se.weight == NICE_0_LOAD:
        return delta
    if se.cfs_rq is not None and se.cfs_rq.rq.rules.exact_averages:
        return delta * NICE_0_LOAD // se.weight
    return calc_delta(delta, 1024, se.inv)


def calc_group_shares(g: CfsRq) -> int:
    """Return the weight of a group's entity: its CPU's part of the group (calc_group_shares(), v6.12.107)."""
    load = max(scale_load_down(g.weight), g.avg.load_avg)
    total = g.tg.load_avg - g.tg_load_contrib + load
    # a group's shares are in units of a task of nice 0 = 1024 here, and of its weight in the kernel
    most = g.tg.shares << 10
    shares = most * load
    if total:
        shares //= total
    return min(max(shares, MIN_SHARES), most)


def add_weight(cfs_rq: CfsRq, se: Entity, sign: int) -> None:
    """Add the weight of an entity to its queue, or take it off."""
    cfs_rq.weight += sign * se.weight
    if se.parent is None:
        cfs_rq.rq.load_weight += sign * scale_load_down(se.weight)


def update_runnable(se: Entity) -> None:
    """Count the runnable tasks below a group's entity (se_update_runnable(), v6.12.107)."""
    if se.my_q is not None:
        se.runnable_weight = se.my_q.h_nr_running - se.my_q.h_nr_delayed
