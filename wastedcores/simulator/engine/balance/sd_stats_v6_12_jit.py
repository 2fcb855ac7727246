"""Statistics of scheduling groups under Linux 6.12, and the choice of the busiest group.

The code is kernel/sched/fair.c, v6.12.107. The statistics of the local group, of the busiest group so far and of the group that
is being looked at are three rows from ``st`` on (world/sgs_v6_12.py), and the totals are the row ``out`` (world/sds.py).
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.decisions_v6_12_jit import note_group, note_groups
from wastedcores.simulator.engine.balance.group_stats_jit import update_group_capacity
from wastedcores.simulator.engine.balance.group_stats_v6_12_jit import classify, clear, counted
from wastedcores.simulator.engine.codes import idle_type, log_op, sd_flag
from wastedcores.simulator.engine.fair.load_jit import jiffies
from wastedcores.simulator.engine.fair.signals_v6_12_jit import (
    CAPACITY,
    cpu_load,
    cpu_runnable,
    cpu_util,
)
from wastedcores.simulator.engine.world.idle_jit import runs_idle
from wastedcores.simulator.engine.world import (
    cpuset,
    domain,
    domain_shared,
    domain_v6_12,
    group_capacity,
    lb_env,
    rq,
    sched_group,
    sds,
    sgs_v6_12,
    sim,
    v6_12,
)
from wastedcores.simulator.engine.world.cpusets_jit import item, test
from wastedcores.simulator.engine.world.log_jit import log_considered
from wastedcores.simulator.engine.world.rules_jit import rule

#: the number of idle CPUs of a busiest group that was not found yet
NO_GROUP_IDLE = (1 << 32) - 1


@inner
def idle_cpu(m, cpu):
    """idle_cpu(): the idle task runs, nothing is queued and nothing is on the wake list. The stopper is not the idle task."""
    return runs_idle(m, cpu) and m[cpu, rq.NR_RUNNING] == 0 and m[cpu, rq.WAKE_LIST] < 0


@apart(VALUE)
def update_sg_lb_stats(m, env, group, local, s):
    """update_sg_lb_stats() into row ``s``; return whether one of the CPUs has several tasks."""
    sd = m[env, lb_env.SD]
    log_considered(
        m,
        m[env, lb_env.DST_CPU],
        m[group, sched_group.SPAN],
        log_op.UPDATE_SG_LB_STATS,
        m[sd, domain.LEVEL],
    )
    overloaded = False
    clear(m, s)
    first = m[group, sched_group.CPUS]
    for i in range(first, first + m[group, sched_group.GROUP_WEIGHT]):
        cpu = item(m, i)
        if not test(m, cpuset.LB, cpu):
            continue
        m[s, sgs_v6_12.LOAD] += cpu_load(m, cpu)
        m[s, sgs_v6_12.UTIL] += cpu_util(m, cpu, -1, -1, 0)
        m[s, sgs_v6_12.RUNNABLE] += cpu_runnable(m, cpu)
        m[s, sgs_v6_12.SUM_H_NR] += counted(m, cpu)
        m[s, sgs_v6_12.SUM_NR] += m[cpu, rq.NR_RUNNING]
        if m[cpu, rq.NR_RUNNING] > 1:
            overloaded = True
        if idle_cpu(m, cpu):
            m[s, sgs_v6_12.IDLE_CPUS] += 1
    m[s, sgs_v6_12.GROUP] = group
    m[s, sgs_v6_12.CAPACITY] = m[m[group, sched_group.SGC], group_capacity.CAPACITY]
    m[s, sgs_v6_12.WEIGHT] = m[group, sched_group.GROUP_WEIGHT]
    m[s, sgs_v6_12.SMT_BALANCE] = (
        rule(m, v6_12.SIBLINGS_COUNTED)
        and local == 0
        and m[env, lb_env.IDLE] != idle_type.NOT_IDLE
        and m[group, sched_group.FLAGS] & sd_flag.SHARE_CPUCAPACITY != 0
        and m[s, sgs_v6_12.SUM_H_NR] > 1
    )
    m[s, sgs_v6_12.TYPE] = classify(m, s, m[sd, domain.IMBALANCE_PCT])
    if m[s, sgs_v6_12.TYPE] == sgs_v6_12.OVERLOADED:
        m[s, sgs_v6_12.AVG_LOAD] = m[s, sgs_v6_12.LOAD] * CAPACITY // m[s, sgs_v6_12.CAPACITY]
    return overloaded


@inner
def is_smt(m, s):
    """Return whether the group of a row consists of the threads of one core."""
    return m[m[s, sgs_v6_12.GROUP], sched_group.FLAGS] & sd_flag.SHARE_CPUCAPACITY != 0


@inner
def smt_vs_nonsmt(m, a, b):
    """smt_vs_nonsmt_groups(): return whether one of two groups consists of the threads of a core, and the other does not."""
    if m[a, sgs_v6_12.GROUP] < 0 or m[b, sgs_v6_12.GROUP] < 0:
        return False
    return is_smt(m, a) != is_smt(m, b)


@inner
def pick_busiest(m, s, busiest):
    """update_sd_pick_busiest(): return whether a group is busier than the busiest one so far."""
    kind = m[s, sgs_v6_12.TYPE]
    if m[s, sgs_v6_12.SUM_H_NR] == 0:
        return False
    if kind != m[busiest, sgs_v6_12.TYPE]:
        return kind > m[busiest, sgs_v6_12.TYPE]
    if kind == sgs_v6_12.OVERLOADED:
        return m[s, sgs_v6_12.AVG_LOAD] > m[busiest, sgs_v6_12.AVG_LOAD]
    if kind == sgs_v6_12.IMBALANCED:
        return False
    any_idle = m[s, sgs_v6_12.IDLE_CPUS] != 0 or m[busiest, sgs_v6_12.IDLE_CPUS] != 0
    if kind == sgs_v6_12.FULLY_BUSY or (kind == sgs_v6_12.SMT_BALANCE_TYPE and not any_idle):
        # average loads are 0 on both sides; threads that share a core need more help
        if not rule(m, v6_12.LAST_FULLY_BUSY):
            return False
        return m[busiest, sgs_v6_12.GROUP] < 0 or not is_smt(m, busiest)
    if (
        kind == sgs_v6_12.HAS_SPARE
        and rule(m, v6_12.SIBLINGS_COUNTED)
        and smt_vs_nonsmt(m, busiest, s)
    ):
        return not (is_smt(m, s) and m[s, sgs_v6_12.SUM_H_NR] <= 1)
    if m[s, sgs_v6_12.IDLE_CPUS] != m[busiest, sgs_v6_12.IDLE_CPUS]:
        return m[s, sgs_v6_12.IDLE_CPUS] < m[busiest, sgs_v6_12.IDLE_CPUS]
    return m[s, sgs_v6_12.SUM_NR] > m[busiest, sgs_v6_12.SUM_NR]


@inner
def update_idle_cpu_scan(m, env, sum_util):
    """update_idle_cpu_scan(): let wakeups examine fewer CPUs the more the LLC is used."""
    cpu = m[env, lb_env.DST_CPU]
    sd = m[env, lb_env.SD]
    llc = m[cpu, rq.SD_LLC_SIZE]
    if (
        m[env, lb_env.IDLE] == idle_type.NEWLY_IDLE
        or m[sd, domain.SPAN_WEIGHT] != llc
        or m[cpu, rq.SD_LLC] < 0
    ):
        return
    used = (sum_util // llc * m[sd, domain.IMBALANCE_PCT]) ** 2 // (10_000 * CAPACITY)
    shared = m[m[cpu, rq.SD_LLC], domain_v6_12.SHARED]
    m[shared, domain_shared.NR_IDLE_SCAN] = (CAPACITY - min(used, CAPACITY)) * llc // CAPACITY


@apart(NOTHING)
def update_sd_lb_stats(m, env, st, out):
    """update_sd_lb_stats(): leave the statistics of a domain's groups in ``st`` and the totals in ``out``."""
    sd = m[env, lb_env.SD]
    dst = m[env, lb_env.DST_CPU]
    idle = m[env, lb_env.IDLE]
    local = st + sgs_v6_12.LOCAL
    busiest = st + sgs_v6_12.BUSIEST
    spare = st + sgs_v6_12.SPARE
    clear(m, local)
    clear(m, busiest)
    m[busiest, sgs_v6_12.IDLE_CPUS] = NO_GROUP_IDLE
    m[out, sds.TOTAL_LOAD] = 0
    m[out, sds.TOTAL_CAPACITY] = 0
    m[out, sds.PREFER_SIBLING] = 0
    overloaded = False
    sum_util = 0
    ring = m[sd, domain.GROUPS]
    for i in range(m[sd, domain.NR_GROUPS]):
        group = ring + i
        is_local = 1 if test(m, m[group, sched_group.SPAN], dst) else 0
        sgc = m[group, sched_group.SGC]
        if is_local and (
            idle != idle_type.NEWLY_IDLE or jiffies(m) >= m[sgc, group_capacity.NEXT_UPDATE]
        ):
            update_group_capacity(m, sd, dst)
        s = local if is_local else spare
        if update_sg_lb_stats(m, env, group, is_local, s):
            overloaded = True
        if not is_local and pick_busiest(m, spare, busiest):
            for column in range(sgs_v6_12.FIRST, sgs_v6_12.END):
                m[busiest, column] = m[spare, column]
        if m[0, sim.DECISIONS] != 0:
            note_group(m, group, i, is_local, s)
        m[out, sds.TOTAL_LOAD] += m[s, sgs_v6_12.LOAD]
        m[out, sds.TOTAL_CAPACITY] += m[s, sgs_v6_12.CAPACITY]
        sum_util += m[s, sgs_v6_12.UTIL]
    group = m[busiest, sgs_v6_12.GROUP]
    m[out, sds.BUSIEST] = group
    if rule(m, v6_12.PREFER_SIBLING_OF_CHILD):
        child = m[sd, domain.CHILD]
        if child >= 0 and m[child, domain.FLAGS] & sd_flag.PREFER_SIBLING:
            m[out, sds.PREFER_SIBLING] = 1
    elif group >= 0 and m[group, sched_group.FLAGS] & sd_flag.PREFER_SIBLING:
        m[out, sds.PREFER_SIBLING] = 1
    m[out, sds.AVG_LOAD] = m[out, sds.TOTAL_LOAD] * CAPACITY // m[out, sds.TOTAL_CAPACITY]
    if m[0, sim.DECISIONS] != 0:
        note_groups(m, sd, out)
    if m[sd, domain.PARENT] < 0:
        m[0, sim.OVERLOAD] = 1 if overloaded else 0
    update_idle_cpu_scan(m, env, sum_util)
