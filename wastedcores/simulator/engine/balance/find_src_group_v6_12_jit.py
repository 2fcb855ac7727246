"""Linux 6.12: the statistics of groups, whether a domain is balanced, how much is to move, and the queue to pull from.

The code is kernel/sched/fair.c, v6.12.107. The types of groups are compared first. Idle CPUs and numbers of tasks are compared
if the local group has room, and average loads only if both groups have more tasks than they can run. The statistics of the local
group, of the busiest group so far and of the group that is being examined are in three rows, of which ``st`` is the first
(SgLbStats). The totals are in the row ``out`` (SdLbStats).
"""

import numpy as np

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.decisions_jit import note_group_v6_12, note_groups
from wastedcores.simulator.engine.balance.group_stats_jit import update_group_capacity
from wastedcores.simulator.engine.codes import balanced as why
from wastedcores.simulator.engine.codes import (
    group_type,
    idle_type,
    log_op,
    migration_type,
    sd_flag,
    stats_row,
)
from wastedcores.simulator.engine.fair.modern_task_jit import (
    CAPACITY,
    cpu_load,
    cpu_runnable,
    cpu_util,
)
from wastedcores.simulator.engine.world import cpuset
from wastedcores.simulator.engine.world.cpusets_jit import item, test
from wastedcores.simulator.engine.world.log_jit import log_considered
from wastedcores.simulator.engine.world.rows_jit import (
    cpu_cfs_rq,
    cpu_rq,
    group_at,
    modern,
    runs_idle,
)
from wastedcores.simulator.engine.world.structs import (
    NO_GROUP,
    NO_TASK,
    Kernel,
    LbEnv,
    SchedGroup,
    SdLbStats,
    SgLbStats,
)

NUMA_IMBALANCE_MIN = 2


@inner
def clear(k: Kernel, s: SgLbStats) -> None:
    """Set all statistics of a row to 0. The row then has no group."""
    for column in range(SgLbStats.group, SgLbStats.smt_balance + 1):
        s[column] = 0
    s.group = NO_GROUP


@inner
def counted(k: Kernel, cpu: int) -> int:
    """Count the fair tasks of a CPU, with sleepers that are still queued (h_nr_queued) or without (h_nr_runnable, v6.18.15)."""
    q = cpu_cfs_rq(k, cpu)
    nr = q.h_nr_running
    return nr if modern(k).sleepers_counted != 0 else nr - q.h_nr_delayed


@inner
def has_capacity(k: Kernel, s: SgLbStats, pct: int) -> bool:
    """group_has_capacity(): return whether the group has room for another task."""
    if s.sum_nr < s.weight:
        return True
    if s.capacity * pct < s.runnable * 100:
        return False
    return s.capacity * 100 > s.util * pct


@inner
def is_overloaded(k: Kernel, s: SgLbStats, pct: int) -> bool:
    """group_is_overloaded(): return whether the group has more tasks than it can run."""
    if s.sum_nr <= s.weight:
        return False
    return s.capacity * 100 < s.util * pct or s.capacity * pct < s.runnable * 100


@inner
def classify(k: Kernel, s: SgLbStats, pct: int) -> int:
    """group_classify(): return the type of a group."""
    sgc = s.group.sgc
    if is_overloaded(k, s, pct):
        return group_type.OVERLOADED
    if sgc.imbalance != 0:
        return group_type.IMBALANCED
    if s.smt_balance != 0:
        return group_type.SMT_BALANCE
    return group_type.HAS_SPARE if has_capacity(k, s, pct) else group_type.FULLY_BUSY


@inner
def adjust_numa_imbalance(imbalance, dst_running, allowance):
    """adjust_numa_imbalance(): ignore a small imbalance between nodes while the destination runs few tasks."""
    if dst_running > allowance or imbalance > NUMA_IMBALANCE_MIN:
        return imbalance
    return imbalance * 0


#: the number of idle CPUs in the statistics of the busiest group before any group was found
NO_GROUP_IDLE = (1 << 32) - 1


@inner
def idle_cpu(k: Kernel, cpu: int) -> int:
    """idle_cpu(): the idle task runs, nothing is queued and nothing is on the wake list. The stopper is not the idle task."""
    rq = cpu_rq(k, cpu)
    return runs_idle(k, cpu) and rq.nr_running == 0 and rq.wake_list == NO_TASK


@apart(VALUE)
def update_sg_lb_stats(k: Kernel, env: LbEnv, group: SchedGroup, local: int, s: SgLbStats) -> int:
    """update_sg_lb_stats(): write the statistics into row ``s``; return whether one of the CPUs has several tasks."""
    sd = env.sd
    log_considered(k, env.dst_cpu, group.span, log_op.UPDATE_SG_LB_STATS, sd.level)
    overloaded = False
    clear(k, s)
    first = group.cpus
    for i in range(first, first + group.group_weight):
        cpu = item(k, i)
        if not test(k, cpuset.LB, cpu):
            continue
        s.load += cpu_load(k, cpu)
        s.util += cpu_util(k, cpu, NO_TASK, -1, 0)
        s.runnable += cpu_runnable(k, cpu)
        s.sum_h_nr += counted(k, cpu)
        s.sum_nr += cpu_rq(k, cpu).nr_running
        if cpu_rq(k, cpu).nr_running > 1:
            overloaded = True
        if idle_cpu(k, cpu):
            s.idle_cpus += 1
    s.group = group
    s.capacity = group.sgc.capacity
    s.weight = group.group_weight
    s.smt_balance = (
        modern(k).siblings_counted != 0
        and local == 0
        and env.idle != idle_type.NOT_IDLE
        and group.flags & sd_flag.SHARE_CPUCAPACITY != 0
        and s.sum_h_nr > 1
    )
    s.type = classify(k, s, sd.imbalance_pct)
    if s.type == group_type.OVERLOADED:
        s.avg_load = s.load * CAPACITY // s.capacity
    return overloaded


@inner
def is_smt(k: Kernel, s: SgLbStats) -> bool:
    """Return whether the group of a row consists of the threads of one core."""
    return s.group.flags & sd_flag.SHARE_CPUCAPACITY != 0


@inner
def smt_vs_nonsmt(k: Kernel, a: SgLbStats, b: SgLbStats) -> bool:
    """smt_vs_nonsmt_groups(): return whether one of two groups consists of the threads of a core, and the other does not."""
    if not a.group or not b.group:
        return False
    return is_smt(k, a) != is_smt(k, b)


@inner
def pick_busiest(k: Kernel, s: SgLbStats, busiest: SgLbStats) -> bool:
    """update_sd_pick_busiest(): return whether a group is busier than the busiest one so far."""
    kind = s.type
    if s.sum_h_nr == 0:
        return False
    if kind != busiest.type:
        return kind > busiest.type
    if kind == group_type.OVERLOADED:
        return s.avg_load > busiest.avg_load
    if kind == group_type.IMBALANCED:
        return False
    any_idle = s.idle_cpus != 0 or busiest.idle_cpus != 0
    if kind == group_type.FULLY_BUSY or (kind == group_type.SMT_BALANCE and not any_idle):
        # the average loads of both groups are 0; threads that share a core need more help
        if modern(k).last_fully_busy == 0:
            return False
        return busiest.group == NO_GROUP or not is_smt(k, busiest)
    if (
        kind == group_type.HAS_SPARE
        and modern(k).siblings_counted != 0
        and smt_vs_nonsmt(k, busiest, s)
    ):
        return not (is_smt(k, s) and s.sum_h_nr <= 1)
    if s.idle_cpus != busiest.idle_cpus:
        return s.idle_cpus < busiest.idle_cpus
    return s.sum_nr > busiest.sum_nr


@inner
def update_idle_cpu_scan(k: Kernel, env: LbEnv, sum_util: int) -> None:
    """update_idle_cpu_scan(): the more the LLC is used, the fewer CPUs may wakeups examine."""
    cpu = env.dst_cpu
    sd = env.sd
    llc = cpu_rq(k, cpu).sd_llc_size
    if env.idle == idle_type.NEWLY_IDLE or sd.span_weight != llc or not cpu_rq(k, cpu).sd_llc:
        return
    used = (sum_util // llc * sd.imbalance_pct) ** 2 // (10_000 * CAPACITY)
    shared = cpu_rq(k, cpu).sd_llc.shared
    shared.nr_idle_scan = (CAPACITY - min(used, CAPACITY)) * llc // CAPACITY


@apart(NOTHING)
def update_sd_lb_stats(k: Kernel, env: LbEnv, st: int, out: SdLbStats) -> None:
    """update_sd_lb_stats(): leave the statistics of a domain's groups in ``st`` and the totals in ``out``."""
    sd = env.sd
    dst = env.dst_cpu
    idle = env.idle
    local = SgLbStats(k, st + stats_row.LOCAL)
    busiest = SgLbStats(k, st + stats_row.BUSIEST)
    spare = SgLbStats(k, st + stats_row.SPARE)
    clear(k, local)
    clear(k, busiest)
    busiest.idle_cpus = NO_GROUP_IDLE
    out.total_load = 0
    out.total_capacity = 0
    out.prefer_sibling = 0
    overloaded = False
    sum_util = 0
    for i in range(sd.nr_groups):
        group = group_at(sd, i)
        is_local = 1 if test(k, group.span, dst) else 0
        sgc = group.sgc
        if is_local and (idle != idle_type.NEWLY_IDLE or k.jiffies >= sgc.next_update):
            update_group_capacity(k, sd, dst)
        s = local if is_local else spare
        if update_sg_lb_stats(k, env, group, is_local, s):
            overloaded = True
        if not is_local and pick_busiest(k, spare, busiest):
            for column in range(SgLbStats.group, SgLbStats.smt_balance + 1):
                busiest[column] = spare[column]
        if k.decisions != 0:
            note_group_v6_12(k, group, i, is_local, s)
        out.total_load += s.load
        out.total_capacity += s.capacity
        sum_util += s.util
    group = busiest.group
    out.busiest = group
    if modern(k).prefer_sibling_of_child != 0:
        child = sd.child
        if child and child.flags & sd_flag.PREFER_SIBLING:
            out.prefer_sibling = 1
    elif group and group.flags & sd_flag.PREFER_SIBLING:
        out.prefer_sibling = 1
    out.avg_load = out.total_load * CAPACITY // out.total_capacity
    if k.decisions != 0:
        note_groups(k, sd, out, out.prefer_sibling, out.avg_load)
    if not sd.parent:
        k.overload = 1 if overloaded else 0
    update_idle_cpu_scan(k, env, sum_util)


MAX32 = (1 << 32) - 1


@inner
def sibling_imbalance(k: Kernel, env: LbEnv, st: int) -> int:
    """sibling_imbalance(): return how many more tasks per core the busiest group has than the local one.

    In v6.1 the numbers of cores do not count, and busy CPUs pull, too (calculate_imbalance() and find_busiest_group(), v6.1.192).
    """
    local = SgLbStats(k, st + stats_row.LOCAL)
    busiest = SgLbStats(k, st + stats_row.BUSIEST)
    if modern(k).siblings_counted == 0:
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
    """The part of calculate_imbalance() for a local group that has room for tasks."""
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
    """Return a difference of loads times a capacity as an unsigned long. The difference and the product may wrap around."""
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
    # if the load of the busiest group is below the average, the first term wraps around and is large
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
    if not out.busiest:
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
            value = cpu_util(k, cpu, NO_TASK, -1, 1 if modern(k).waiting_is_use != 0 else 0)
            if nr == 1:
                continue
        if value > most:
            busiest = cpu
            most = value
    return busiest
