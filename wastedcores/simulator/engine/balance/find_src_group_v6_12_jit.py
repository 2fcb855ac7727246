"""Linux 6.12: whether a domain is balanced, how much is to move, and the queue to pull from.

The code is kernel/sched/fair.c, v6.12.107. The kind of a group decides before its load: idle CPUs and numbers of tasks are
compared where the local group has room, and average loads only where both groups have more tasks than they can run.
"""

from __future__ import annotations

import numpy as np

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.group_stats_v6_12_jit import (
    adjust_numa_imbalance,
    counted,
)
from wastedcores.simulator.engine.balance.sd_stats_v6_12_jit import (
    smt_vs_nonsmt,
    update_sd_lb_stats,
)
from wastedcores.simulator.engine.codes import balanced as why
from wastedcores.simulator.engine.codes import (
    group_type,
    idle_type,
    log_op,
    migration_type,
    sd_flag,
    stats_row,
)
from wastedcores.simulator.engine.fair.signals_v6_12_jit import CAPACITY, cpu_load, cpu_util
from wastedcores.simulator.engine.world import cpuset
from wastedcores.simulator.engine.world.cpusets_jit import item, test
from wastedcores.simulator.engine.world.log_jit import log_considered
from wastedcores.simulator.engine.world.rules_jit import rule
from wastedcores.simulator.engine.world.structs import (
    NO_GROUP,
    NO_TASK,
    Kernel,
    LbEnv,
    Modern,
    SchedGroup,
    SdLbStats,
    SgLbStats,
)

MAX32 = (1 << 32) - 1


@inner
def sibling_imbalance(k: Kernel, env: LbEnv, st: int) -> int:
    """sibling_imbalance(): return how many tasks more the busiest group has, per core.

    In v6.1 cores do not count, and busy CPUs pull, too (calculate_imbalance() and find_busiest_group(), v6.1.192).
    """
    local = SgLbStats(k, st + stats_row.LOCAL)
    busiest = SgLbStats(k, st + stats_row.BUSIEST)
    if not rule(k, Modern.siblings_counted):
        return max(0, busiest.sum_nr - local.sum_nr)
    if env.idle == idle_type.NOT_IDLE or busiest.sum_nr == 0:
        return 0
    here = local.group.cores
    there = busiest.group.cores
    if here == there:
        return max(0, busiest.sum_nr - local.sum_nr)
    imbalance = max(0, here * busiest.sum_nr - there * local.sum_nr)
    imbalance = (2 * imbalance + here + there) // (here + there)
    if imbalance <= 1 and local.sum_nr == 0 and busiest.sum_nr > 1:
        return 2
    return imbalance


@apart(VALUE)
def balanced(k: Kernel, env: LbEnv, st: int, out: SdLbStats) -> int:
    """The middle of sched_balance_find_src_group(): return why nothing should be pulled (codes/balanced.py), or 0."""
    local = SgLbStats(k, st + stats_row.LOCAL)
    busiest = SgLbStats(k, st + stats_row.BUSIEST)
    kind = busiest.type
    here = local.type
    if kind == group_type.IMBALANCED:
        return why.NOT_BALANCED
    if here > kind:
        return why.LOCAL_TYPE
    if here == group_type.OVERLOADED:
        load = local.avg_load
        if load >= busiest.avg_load:
            return why.LOCAL_LOAD
        if load >= out.avg_load:
            return why.ABOVE_AVERAGE
        if 100 * busiest.avg_load <= env.sd.imbalance_pct * load:
            return why.MARGIN
    if (
        out.prefer_sibling != 0
        and here == group_type.HAS_SPARE
        and sibling_imbalance(k, env, st) > 1
    ):
        return why.NOT_BALANCED
    if kind == group_type.OVERLOADED:
        return why.NOT_BALANCED
    if env.idle == idle_type.NOT_IDLE:
        return why.BUSY
    if kind == group_type.SMT_BALANCE and smt_vs_nonsmt(k, local, busiest):
        return why.NOT_BALANCED
    if busiest.weight > 1 and local.idle_cpus <= busiest.idle_cpus + 1:
        return why.IDLE_CPUS
    return why.SINGLE_TASK if busiest.sum_h_nr == 1 else why.NOT_BALANCED


@inner
def spare_imbalance(k: Kernel, env: LbEnv, st: int, out: SdLbStats) -> None:
    """The part of calculate_imbalance() for a local group with room."""
    local = SgLbStats(k, st + stats_row.LOCAL)
    busiest = SgLbStats(k, st + stats_row.BUSIEST)
    sd = env.sd
    if busiest.type > group_type.FULLY_BUSY and sd.flags & sd_flag.SHARE_PKG_RESOURCES == 0:
        env.migration = migration_type.BY_UTIL
        env.imbalance = max(0, local.capacity - local.util)
        if env.idle != idle_type.NOT_IDLE and env.imbalance == 0:
            env.migration = migration_type.BY_TASK
            env.imbalance = 1
        return
    env.migration = migration_type.BY_TASK
    if busiest.weight == 1 or out.prefer_sibling != 0:
        imbalance = sibling_imbalance(k, env, st)
    else:
        # unsigned int: a negative difference becomes large
        imbalance = (local.idle_cpus - busiest.idle_cpus) & MAX32
    if sd.flags & sd_flag.NUMA:
        imbalance = adjust_numa_imbalance(imbalance, local.sum_nr + 1, sd.imb_numa_nr)
    env.imbalance = imbalance >> 1


@inner
def load_share(excess, capacity):
    """Return a difference of loads times a capacity as an unsigned long, of which each may wrap around."""
    return np.uint64(np.int64(excess)) * np.uint64(capacity)


@apart(NOTHING)
def calculate_imbalance(k: Kernel, env: LbEnv, st: int, out: SdLbStats) -> None:
    """calculate_imbalance(): set what to move, and how much of it."""
    local = SgLbStats(k, st + stats_row.LOCAL)
    busiest = SgLbStats(k, st + stats_row.BUSIEST)
    kind = busiest.type
    if kind in (group_type.SMT_BALANCE, group_type.IMBALANCED):
        env.migration = migration_type.BY_TASK
        env.imbalance = 1
        return
    if local.type == group_type.HAS_SPARE:
        spare_imbalance(k, env, st, out)
        return
    env.imbalance = 0
    average = out.avg_load
    if local.type < group_type.OVERLOADED:
        load = local.load * CAPACITY // local.capacity
        local.avg_load = load
        if load >= busiest.avg_load or load >= average:
            return
    # a busiest group below the average makes the first term large
    above = load_share(busiest.avg_load - average, busiest.capacity)
    below = load_share(average - local.avg_load, local.capacity)
    env.migration = migration_type.BY_LOAD
    env.imbalance = int(np.int64(min(above, below) // np.uint64(CAPACITY)))


@apart(VALUE)
def find_src_group(k: Kernel, env: LbEnv, st: int, out: SdLbStats) -> SchedGroup:
    """sched_balance_find_src_group(): return the group to pull from, or NULL if the domain is balanced."""
    update_sd_lb_stats(k, env, st, out)
    env.imbalance = 0
    env.moves = 0
    env.reason = why.NO_TASK
    if out.busiest == NO_GROUP:
        return NO_GROUP
    env.reason = balanced(k, env, st, out)
    if env.reason != why.NOT_BALANCED:
        return NO_GROUP
    calculate_imbalance(k, env, st, out)
    env.moves = env.migration + 1
    if env.imbalance == 0:
        env.reason = why.NO_IMBALANCE
        return NO_GROUP
    return out.busiest


@apart(VALUE)
def find_src_rq(k: Kernel, env: LbEnv, group: SchedGroup) -> int:
    """sched_balance_find_src_rq(): return the CPU to pull from, or -1 if there is none."""
    busiest = -1
    most = 0
    log_considered(k, env.dst_cpu, group.span, log_op.FIND_BUSIEST_QUEUE, env.sd.level)
    first = group.cpus
    for i in range(first, first + group.group_weight):
        cpu = item(k, i)
        nr = counted(k, cpu)
        if not test(k, cpuset.LB, cpu) or nr == 0:
            continue
        value = nr
        if env.migration == migration_type.BY_LOAD:
            value = cpu_load(k, cpu)  # all capacities are equal
            if nr == 1 and value > env.imbalance:
                continue
        elif env.migration == migration_type.BY_UTIL:
            value = cpu_util(k, cpu, NO_TASK, -1, 1 if rule(k, Modern.waiting_is_use) else 0)
            if nr == 1:
                continue
        if value > most:
            busiest = cpu
            most = value
    return busiest
