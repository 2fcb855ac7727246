"""Statistics of scheduling groups under Linux 6.12, and the choice of the busiest group.

The code is kernel/sched/fair.c, v6.12.107. The statistics of the local group, of the busiest group so far and of the group that
is being looked at are three rows from ``st`` on (SgLbStats), and the totals are the row ``out`` (SdLbStats).
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.decisions_v6_12_jit import note_group, note_groups
from wastedcores.simulator.engine.balance.group_stats_jit import update_group_capacity
from wastedcores.simulator.engine.balance.group_stats_v6_12_jit import classify, clear, counted
from wastedcores.simulator.engine.codes import group_type, idle_type, log_op, sd_flag, stats_row
from wastedcores.simulator.engine.fair.load_jit import jiffies
from wastedcores.simulator.engine.fair.signals_v6_12_jit import (
    CAPACITY,
    cpu_load,
    cpu_runnable,
    cpu_util,
)
from wastedcores.simulator.engine.world import cpuset
from wastedcores.simulator.engine.world.cpusets_jit import item, test
from wastedcores.simulator.engine.world.idle_jit import runs_idle
from wastedcores.simulator.engine.world.log_jit import log_considered
from wastedcores.simulator.engine.world.rows_jit import cpu_rq, group_at
from wastedcores.simulator.engine.world.rules_jit import rule
from wastedcores.simulator.engine.world.structs import (
    NO_DOMAIN,
    NO_GROUP,
    NO_TASK,
    Kernel,
    LbEnv,
    Modern,
    SchedGroup,
    SdLbStats,
    SgLbStats,
)

#: the number of idle CPUs of a busiest group that was not found yet
NO_GROUP_IDLE = (1 << 32) - 1


@inner
def idle_cpu(k: Kernel, cpu: int) -> int:
    """idle_cpu(): the idle task runs, nothing is queued and nothing is on the wake list. The stopper is not the idle task."""
    return (
        runs_idle(k, cpu) and cpu_rq(k, cpu).nr_running == 0 and cpu_rq(k, cpu).wake_list == NO_TASK
    )


@apart(VALUE)
def update_sg_lb_stats(k: Kernel, env: LbEnv, group: SchedGroup, local: int, s: SgLbStats) -> int:
    """update_sg_lb_stats() into row ``s``; return whether one of the CPUs has several tasks."""
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
        rule(k, Modern.siblings_counted)
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
    if a.group == NO_GROUP or b.group == NO_GROUP:
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
        # average loads are 0 on both sides; threads that share a core need more help
        if not rule(k, Modern.last_fully_busy):
            return False
        return busiest.group == NO_GROUP or not is_smt(k, busiest)
    if (
        kind == group_type.HAS_SPARE
        and rule(k, Modern.siblings_counted)
        and smt_vs_nonsmt(k, busiest, s)
    ):
        return not (is_smt(k, s) and s.sum_h_nr <= 1)
    if s.idle_cpus != busiest.idle_cpus:
        return s.idle_cpus < busiest.idle_cpus
    return s.sum_nr > busiest.sum_nr


@inner
def update_idle_cpu_scan(k: Kernel, env: LbEnv, sum_util: int) -> None:
    """update_idle_cpu_scan(): let wakeups examine fewer CPUs the more the LLC is used."""
    cpu = env.dst_cpu
    sd = env.sd
    llc = cpu_rq(k, cpu).sd_llc_size
    if (
        env.idle == idle_type.NEWLY_IDLE
        or sd.span_weight != llc
        or cpu_rq(k, cpu).sd_llc == NO_DOMAIN
    ):
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
        if is_local and (idle != idle_type.NEWLY_IDLE or jiffies(k) >= sgc.next_update):
            update_group_capacity(k, sd, dst)
        s = local if is_local else spare
        if update_sg_lb_stats(k, env, group, is_local, s):
            overloaded = True
        if not is_local and pick_busiest(k, spare, busiest):
            for column in range(SgLbStats.group, SgLbStats.smt_balance + 1):
                busiest[column] = spare[column]
        if k.decisions != 0:
            note_group(k, group, i, is_local, s)
        out.total_load += s.load
        out.total_capacity += s.capacity
        sum_util += s.util
    group = busiest.group
    out.busiest = group
    if rule(k, Modern.prefer_sibling_of_child):
        child = sd.child
        if child != NO_DOMAIN and child.flags & sd_flag.PREFER_SIBLING:
            out.prefer_sibling = 1
    elif group != NO_GROUP and group.flags & sd_flag.PREFER_SIBLING:
        out.prefer_sibling = 1
    out.avg_load = out.total_load * CAPACITY // out.total_capacity
    if k.decisions != 0:
        note_groups(k, sd, out)
    if sd.parent == NO_DOMAIN:
        k.overload = 1 if overloaded else 0
    update_idle_cpu_scan(k, env, sum_util)
