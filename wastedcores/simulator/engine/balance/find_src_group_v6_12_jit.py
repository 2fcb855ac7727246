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
from wastedcores.simulator.engine.codes import idle_type, log_op, sd_flag
from wastedcores.simulator.engine.fair.signals_v6_12_jit import (
    CAPACITY,
    cpu_load,
    cpu_util,
)
from wastedcores.simulator.engine.world import (
    cpuset,
    domain,
    domain_v6_12,
    lb_env,
    sched_group,
    sds,
    sgs_v6_12,
    v6_12,
)
from wastedcores.simulator.engine.world.cpusets_jit import item, test
from wastedcores.simulator.engine.world.log_jit import log_considered
from wastedcores.simulator.engine.world.rules_jit import rule

MAX32 = (1 << 32) - 1


@inner
def sibling_imbalance(m, env, st):
    """sibling_imbalance(): return how many tasks more the busiest group has, per core.

    In v6.1 cores do not count, and busy CPUs pull, too (calculate_imbalance() and find_busiest_group(), v6.1.192).
    """
    local = st + sgs_v6_12.LOCAL
    busiest = st + sgs_v6_12.BUSIEST
    if not rule(m, v6_12.SIBLINGS_COUNTED):
        return max(0, m[busiest, sgs_v6_12.SUM_NR] - m[local, sgs_v6_12.SUM_NR])
    if m[env, lb_env.IDLE] == idle_type.NOT_IDLE or m[busiest, sgs_v6_12.SUM_NR] == 0:
        return 0
    here = m[m[local, sgs_v6_12.GROUP], sched_group.CORES]
    there = m[m[busiest, sgs_v6_12.GROUP], sched_group.CORES]
    if here == there:
        return max(0, m[busiest, sgs_v6_12.SUM_NR] - m[local, sgs_v6_12.SUM_NR])
    imbalance = max(0, here * m[busiest, sgs_v6_12.SUM_NR] - there * m[local, sgs_v6_12.SUM_NR])
    imbalance = (2 * imbalance + here + there) // (here + there)
    if imbalance <= 1 and m[local, sgs_v6_12.SUM_NR] == 0 and m[busiest, sgs_v6_12.SUM_NR] > 1:
        return 2
    return imbalance


@apart(VALUE)
def balanced(m, env, st, out):
    """The middle of sched_balance_find_src_group(): return why nothing should be pulled (codes/balanced.py), or 0."""
    local = st + sgs_v6_12.LOCAL
    busiest = st + sgs_v6_12.BUSIEST
    kind = m[busiest, sgs_v6_12.TYPE]
    here = m[local, sgs_v6_12.TYPE]
    if kind == sgs_v6_12.IMBALANCED:
        return why.NOT_BALANCED
    if here > kind:
        return why.LOCAL_TYPE
    if here == sgs_v6_12.OVERLOADED:
        load = m[local, sgs_v6_12.AVG_LOAD]
        if load >= m[busiest, sgs_v6_12.AVG_LOAD]:
            return why.LOCAL_LOAD
        if load >= m[out, sds.AVG_LOAD]:
            return why.ABOVE_AVERAGE
        if (
            100 * m[busiest, sgs_v6_12.AVG_LOAD]
            <= m[m[env, lb_env.SD], domain.IMBALANCE_PCT] * load
        ):
            return why.MARGIN
    if (
        m[out, sds.PREFER_SIBLING] != 0
        and here == sgs_v6_12.HAS_SPARE
        and sibling_imbalance(m, env, st) > 1
    ):
        return why.NOT_BALANCED
    if kind == sgs_v6_12.OVERLOADED:
        return why.NOT_BALANCED
    if m[env, lb_env.IDLE] == idle_type.NOT_IDLE:
        return why.BUSY
    if kind == sgs_v6_12.SMT_BALANCE_TYPE and smt_vs_nonsmt(m, local, busiest):
        return why.NOT_BALANCED
    if (
        m[busiest, sgs_v6_12.WEIGHT] > 1
        and m[local, sgs_v6_12.IDLE_CPUS] <= m[busiest, sgs_v6_12.IDLE_CPUS] + 1
    ):
        return why.IDLE_CPUS
    return why.SINGLE_TASK if m[busiest, sgs_v6_12.SUM_H_NR] == 1 else why.NOT_BALANCED


@inner
def spare_imbalance(m, env, st, out):
    """The part of calculate_imbalance() for a local group with room."""
    local = st + sgs_v6_12.LOCAL
    busiest = st + sgs_v6_12.BUSIEST
    sd = m[env, lb_env.SD]
    if (
        m[busiest, sgs_v6_12.TYPE] > sgs_v6_12.FULLY_BUSY
        and m[sd, domain.FLAGS] & sd_flag.SHARE_PKG_RESOURCES == 0
    ):
        m[env, lb_env.MIGRATION] = lb_env.BY_UTIL
        m[env, lb_env.IMBALANCE] = max(0, m[local, sgs_v6_12.CAPACITY] - m[local, sgs_v6_12.UTIL])
        if m[env, lb_env.IDLE] != idle_type.NOT_IDLE and m[env, lb_env.IMBALANCE] == 0:
            m[env, lb_env.MIGRATION] = lb_env.BY_TASK
            m[env, lb_env.IMBALANCE] = 1
        return
    m[env, lb_env.MIGRATION] = lb_env.BY_TASK
    if m[busiest, sgs_v6_12.WEIGHT] == 1 or m[out, sds.PREFER_SIBLING] != 0:
        imbalance = sibling_imbalance(m, env, st)
    else:
        # unsigned int: a negative difference becomes large
        imbalance = (m[local, sgs_v6_12.IDLE_CPUS] - m[busiest, sgs_v6_12.IDLE_CPUS]) & MAX32
    if m[sd, domain.FLAGS] & sd_flag.NUMA:
        imbalance = adjust_numa_imbalance(
            imbalance, m[local, sgs_v6_12.SUM_NR] + 1, m[sd, domain_v6_12.IMB_NUMA_NR]
        )
    m[env, lb_env.IMBALANCE] = imbalance >> 1


@inner
def load_share(excess, capacity):
    """Return a difference of loads times a capacity as an unsigned long, of which each may wrap around."""
    return np.uint64(np.int64(excess)) * np.uint64(capacity)


@apart(NOTHING)
def calculate_imbalance(m, env, st, out):
    """calculate_imbalance(): set what to move, and how much of it."""
    local = st + sgs_v6_12.LOCAL
    busiest = st + sgs_v6_12.BUSIEST
    kind = m[busiest, sgs_v6_12.TYPE]
    if kind in (sgs_v6_12.SMT_BALANCE_TYPE, sgs_v6_12.IMBALANCED):
        m[env, lb_env.MIGRATION] = lb_env.BY_TASK
        m[env, lb_env.IMBALANCE] = 1
        return
    if m[local, sgs_v6_12.TYPE] == sgs_v6_12.HAS_SPARE:
        spare_imbalance(m, env, st, out)
        return
    m[env, lb_env.IMBALANCE] = 0
    average = m[out, sds.AVG_LOAD]
    if m[local, sgs_v6_12.TYPE] < sgs_v6_12.OVERLOADED:
        load = m[local, sgs_v6_12.LOAD] * CAPACITY // m[local, sgs_v6_12.CAPACITY]
        m[local, sgs_v6_12.AVG_LOAD] = load
        if load >= m[busiest, sgs_v6_12.AVG_LOAD] or load >= average:
            return
    # a busiest group below the average makes the first term large
    above = load_share(m[busiest, sgs_v6_12.AVG_LOAD] - average, m[busiest, sgs_v6_12.CAPACITY])
    below = load_share(average - m[local, sgs_v6_12.AVG_LOAD], m[local, sgs_v6_12.CAPACITY])
    m[env, lb_env.MIGRATION] = lb_env.BY_LOAD
    m[env, lb_env.IMBALANCE] = int(np.int64(min(above, below) // np.uint64(CAPACITY)))


@apart(VALUE)
def find_src_group(m, env, st, out):
    """sched_balance_find_src_group(): return the group to pull from, or -1 if the domain is balanced."""
    update_sd_lb_stats(m, env, st, out)
    m[env, lb_env.IMBALANCE] = 0
    m[env, lb_env.MOVES] = 0
    m[env, lb_env.REASON] = why.NO_TASK
    if m[out, sds.BUSIEST] < 0:
        return -1
    m[env, lb_env.REASON] = balanced(m, env, st, out)
    if m[env, lb_env.REASON] != why.NOT_BALANCED:
        return -1
    calculate_imbalance(m, env, st, out)
    m[env, lb_env.MOVES] = m[env, lb_env.MIGRATION] + 1
    if m[env, lb_env.IMBALANCE] == 0:
        m[env, lb_env.REASON] = why.NO_IMBALANCE
        return -1
    return m[out, sds.BUSIEST]


@apart(VALUE)
def find_src_rq(m, env, group):
    """sched_balance_find_src_rq(): return the CPU to pull from, or -1 if there is none."""
    busiest = -1
    most = 0
    log_considered(
        m,
        m[env, lb_env.DST_CPU],
        m[group, sched_group.SPAN],
        log_op.FIND_BUSIEST_QUEUE,
        m[m[env, lb_env.SD], domain.LEVEL],
    )
    first = m[group, sched_group.CPUS]
    for i in range(first, first + m[group, sched_group.GROUP_WEIGHT]):
        cpu = item(m, i)
        nr = counted(m, cpu)
        if not test(m, cpuset.LB, cpu) or nr == 0:
            continue
        value = nr
        if m[env, lb_env.MIGRATION] == lb_env.BY_LOAD:
            value = cpu_load(m, cpu)  # all capacities are equal
            if nr == 1 and value > m[env, lb_env.IMBALANCE]:
                continue
        elif m[env, lb_env.MIGRATION] == lb_env.BY_UTIL:
            value = cpu_util(m, cpu, -1, -1, 1 if rule(m, v6_12.WAITING_IS_USE) else 0)
            if nr == 1:
                continue
        if value > most:
            busiest = cpu
            most = value
    return busiest
