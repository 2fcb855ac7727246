"""Statistics of scheduling groups and the choice of the busiest group.

The code is kernel/sched/fair.c of Linux v4.1 (docs/scheduler-model.md, sections 5.4 and 5.7). The statistics of the local
group, of the busiest group so far and of the group that is being looked at are three rows from ``st`` on (world/sgs.py).
What find_busiest_group() finds is the row ``out`` (world/sds.py).
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.decisions_jit import note_group, note_groups
from wastedcores.simulator.engine.codes import idle_type, log_op, sd_flag
from wastedcores.simulator.engine.fair.load_jit import (
    avg_load_per_task,
    get_cpu_usage,
    idle_cpu,
    jiffies,
    source_load,
    target_load,
    weighted_cpuload,
)
from wastedcores.simulator.engine.world import (
    cfs_rq,
    cpuset,
    domain,
    group_capacity,
    rq,
    sched_group,
    sds,
    sgs,
    sim,
)
from wastedcores.simulator.engine.world.cpusets_jit import item, test
from wastedcores.simulator.engine.world.log_jit import log_considered


@inner
def ms_to_jiffies(m, ms):
    """msecs_to_jiffies(): the result is rounded up."""
    return (ms * 1_000_000 + m[0, sim.TICK_NS] - 1) // m[0, sim.TICK_NS]


@apart(NOTHING)
def update_group_capacity(m, sd, cpu):
    """update_group_capacity(), update_cpu_capacity(): no RT or interrupt time is subtracted."""
    group = m[sd, domain.GROUPS]
    sgc = m[group, sched_group.SGC]
    interval = ms_to_jiffies(m, m[sd, domain.BALANCE_INTERVAL])
    interval = max(interval, 1)
    interval = min(interval, m[0, sim.MAX_LB_INTERVAL])
    m[sgc, group_capacity.NEXT_UPDATE] = jiffies(m) + interval
    child = m[sd, domain.CHILD]
    capacity = 0
    if child < 0:
        m[cpu, rq.CPU_CAPACITY] = m[cpu, rq.CPU_CAPACITY_ORIG]
        capacity = m[cpu, rq.CPU_CAPACITY]
    elif m[child, domain.FLAGS] & sd_flag.OVERLAP:
        first = m[group, sched_group.CPUS]
        for i in range(first, first + m[group, sched_group.GROUP_WEIGHT]):
            other = item(m, i)
            if m[other, rq.SD] < 0:
                capacity += m[other, rq.CPU_CAPACITY]
            else:
                capacity += m[
                    m[m[m[other, rq.SD], domain.GROUPS], sched_group.SGC], group_capacity.CAPACITY
                ]
    else:
        ring = m[child, domain.GROUPS]
        for i in range(m[child, domain.NR_GROUPS]):
            capacity += m[m[ring + i, sched_group.SGC], group_capacity.CAPACITY]
    m[sgc, group_capacity.CAPACITY] = capacity


@inner
def has_capacity(m, s, pct):
    """group_has_capacity() of the group whose statistics are row ``s``."""
    if m[s, sgs.SUM_NR_RUNNING] < m[s, sgs.GROUP_WEIGHT]:
        return True
    return m[s, sgs.GROUP_CAPACITY] * 100 > m[s, sgs.GROUP_USAGE] * pct


@inner
def update_sg_lb_stats(m, sd, group, local, index, s, dst):
    """update_sg_lb_stats() into row ``s``; return whether a CPU of the group has more than one task."""
    total = 0
    usage = 0
    running = 0
    weighted = 0
    idle = 0
    least = 1 << 62
    most = 0
    overload = False
    n = m[0, sim.CPUS]
    first = m[group, sched_group.CPUS]
    for i in range(first, first + m[group, sched_group.GROUP_WEIGHT]):
        cpu = item(m, i)
        if not test(m, cpuset.LB, cpu):
            continue
        load = target_load(m, cpu, index) if local else source_load(m, cpu, index)
        total += load
        least = min(least, load)
        most = max(most, load)
        usage += get_cpu_usage(m, cpu)
        running += m[n + cpu, cfs_rq.H_NR_RUNNING]
        if m[cpu, rq.NR_RUNNING] > 1:
            overload = True
        weighted += weighted_cpuload(m, cpu)
        if idle_cpu(m, cpu):
            idle += 1
    log_considered(
        m, dst, m[group, sched_group.SPAN], log_op.UPDATE_SG_LB_STATS, m[sd, domain.LEVEL]
    )
    sgc = m[group, sched_group.SGC]
    capacity = m[sgc, group_capacity.CAPACITY]
    weight = m[group, sched_group.GROUP_WEIGHT]
    m[s, sgs.GROUP_LOAD] = total
    m[s, sgs.GROUP_USAGE] = usage
    m[s, sgs.SUM_NR_RUNNING] = running
    m[s, sgs.SUM_WEIGHTED_LOAD] = weighted
    m[s, sgs.IDLE_CPUS] = idle
    m[s, sgs.GROUP_CAPACITY] = capacity
    m[s, sgs.AVG_LOAD] = total * 1024 // capacity
    m[s, sgs.LOAD_PER_TASK] = weighted // running if running > 0 else 0
    m[s, sgs.GROUP_WEIGHT] = weight
    # group_is_overloaded()
    beyond = capacity * 100 < usage * m[sd, domain.IMBALANCE_PCT]
    m[s, sgs.GROUP_NO_CAPACITY] = running > weight and beyond
    m[s, sgs.MIN_LOAD] = least
    m[s, sgs.MAX_LOAD] = most
    classify(m, s, sgc)
    return overload


@inner
def classify(m, s, sgc):
    """group_classify(): set the type of a group."""
    if m[s, sgs.GROUP_NO_CAPACITY] != 0:
        m[s, sgs.GROUP_TYPE] = sgs.OVERLOADED
    elif m[sgc, group_capacity.IMBALANCE] != 0:
        m[s, sgs.GROUP_TYPE] = sgs.IMBALANCED
    else:
        m[s, sgs.GROUP_TYPE] = sgs.OTHER


@inner
def pick_busiest(m, spare, busiest):
    """update_sd_pick_busiest(), with the group imbalance fix as described or as published (paper, section 3.1)."""
    if m[0, sim.GROUP_IMBALANCE_FIX] == sim.GI_PATCH:
        # as published, every non-local group passes, so the last group of the ring becomes "the busiest"
        return True
    if m[spare, sgs.GROUP_TYPE] != m[busiest, sgs.GROUP_TYPE]:
        return m[spare, sgs.GROUP_TYPE] > m[busiest, sgs.GROUP_TYPE]
    if m[0, sim.GROUP_IMBALANCE_FIX] != sim.GI_NONE:
        return m[spare, sgs.MIN_LOAD] > m[busiest, sgs.MIN_LOAD]
    return m[spare, sgs.AVG_LOAD] > m[busiest, sgs.AVG_LOAD]


@inner
def load_index(m, sd, idle):
    """get_sd_load_idx(): return which of the cpu_load averages this domain uses."""
    if idle == idle_type.NOT_IDLE:
        return m[sd, domain.BUSY_IDX]
    if idle == idle_type.NEWLY_IDLE:
        return m[sd, domain.NEWIDLE_IDX]
    return m[sd, domain.IDLE_IDX]


@apart(NOTHING)
def update_sd_lb_stats(m, sd, dst, idle, st, out):
    """update_sd_lb_stats(): walk the ring of groups and leave the statistics in ``st`` and the totals in ``out``."""
    local = st + sgs.LOCAL
    busiest = st + sgs.BUSIEST
    spare = st + sgs.SPARE
    prefer = False
    child = m[sd, domain.CHILD]
    if child >= 0 and m[child, domain.FLAGS] & sd_flag.PREFER_SIBLING:
        prefer = True
    index = load_index(m, sd, idle)
    overload = False
    seen_local = False
    for i in range(3):
        for j in range(13):
            m[st + i, j] = 0
    m[out, sds.BUSIEST] = -1
    m[out, sds.TOTAL_LOAD] = 0
    m[out, sds.TOTAL_CAPACITY] = 0
    ring = m[sd, domain.GROUPS]
    for i in range(m[sd, domain.NR_GROUPS]):
        group = ring + i
        is_local = test(m, m[group, sched_group.SPAN], dst)
        sgc = m[group, sched_group.SGC]
        s = local if is_local else spare
        if is_local:
            seen_local = True
            if idle != idle_type.NEWLY_IDLE or jiffies(m) >= m[sgc, group_capacity.NEXT_UPDATE]:
                update_group_capacity(m, sd, dst)
        if update_sg_lb_stats(m, sd, group, is_local, index, s, dst):
            overload = True
        if not is_local:
            if (
                prefer
                and seen_local
                and has_capacity(m, local, m[sd, domain.IMBALANCE_PCT])
                and m[spare, sgs.SUM_NR_RUNNING] > 1
            ):
                m[spare, sgs.GROUP_NO_CAPACITY] = 1
                classify(m, spare, sgc)
            if pick_busiest(m, spare, busiest):
                m[out, sds.BUSIEST] = group
                for j in range(13):
                    m[busiest, j] = m[spare, j]
        if m[0, sim.DECISIONS] != 0:
            note_group(m, group, i, is_local, s, dst)
        m[out, sds.TOTAL_LOAD] += m[s, sgs.GROUP_LOAD]
        m[out, sds.TOTAL_CAPACITY] += m[s, sgs.GROUP_CAPACITY]
    if m[sd, domain.PARENT] < 0:
        m[0, sim.OVERLOAD] = 1 if overload else 0
    if m[0, sim.DECISIONS] != 0:
        note_groups(m, sd, out, prefer)


@apart(NOTHING)
def fix_small_imbalance(m, dst, st, out):
    """fix_small_imbalance(): move one task's load if that increases the throughput."""
    local = st + sgs.LOCAL
    busiest = st + sgs.BUSIEST
    imbn = 2
    lpt = m[busiest, sgs.LOAD_PER_TASK]
    if m[local, sgs.SUM_NR_RUNNING] == 0:
        m[local, sgs.LOAD_PER_TASK] = avg_load_per_task(m, dst)
    elif lpt > m[local, sgs.LOAD_PER_TASK]:
        imbn = 1
    local_lpt = m[local, sgs.LOAD_PER_TASK]
    local_avg = m[local, sgs.AVG_LOAD]
    local_cap = m[local, sgs.GROUP_CAPACITY]
    avg = m[busiest, sgs.AVG_LOAD]
    cap = m[busiest, sgs.GROUP_CAPACITY]
    scaled = lpt * 1024 // cap
    if avg + scaled >= local_avg + scaled * imbn:
        m[out, sds.IMBALANCE] = lpt
        return
    now = (cap * min(lpt, avg) + local_cap * min(local_lpt, local_avg)) // 1024
    move = 0
    if avg > scaled:
        move = cap * min(lpt, avg - scaled)
    if avg * cap < lpt * 1024:
        gained = avg * cap // local_cap
    else:
        gained = lpt * 1024 // local_cap
    move = (move + local_cap * min(local_lpt, local_avg + gained)) // 1024
    if move > now:
        m[out, sds.IMBALANCE] = lpt


@apart(NOTHING)
def calculate_imbalance(m, dst, st, out):
    """calculate_imbalance(): compute how much load to move."""
    local = st + sgs.LOCAL
    busiest = st + sgs.BUSIEST
    if m[0, sim.GROUP_IMBALANCE_FIX] != sim.GI_NONE:
        # the fix takes half the distance from the local minimum to the busiest group's maximum
        distance = m[busiest, sgs.MAX_LOAD] - m[local, sgs.MIN_LOAD]
        m[out, sds.IMBALANCE] = distance // 2 if distance > 0 else 0
        return
    avg = m[out, sds.AVG_LOAD]
    if m[busiest, sgs.GROUP_TYPE] == sgs.IMBALANCED:
        m[busiest, sgs.LOAD_PER_TASK] = min(m[busiest, sgs.LOAD_PER_TASK], avg)
    if m[busiest, sgs.AVG_LOAD] <= avg or m[local, sgs.AVG_LOAD] >= avg:
        m[out, sds.IMBALANCE] = 0
        fix_small_imbalance(m, dst, st, out)
        return
    above = 1 << 62
    if m[busiest, sgs.GROUP_TYPE] == sgs.OVERLOADED and m[local, sgs.GROUP_TYPE] == sgs.OVERLOADED:
        tasks = m[busiest, sgs.SUM_NR_RUNNING] * 1024
        if tasks > m[busiest, sgs.GROUP_CAPACITY]:
            above = tasks - m[busiest, sgs.GROUP_CAPACITY]
    give = min(m[busiest, sgs.AVG_LOAD] - avg, above) * m[busiest, sgs.GROUP_CAPACITY]
    take = (avg - m[local, sgs.AVG_LOAD]) * m[local, sgs.GROUP_CAPACITY]
    m[out, sds.IMBALANCE] = min(give, take) // 1024
    if m[out, sds.IMBALANCE] < m[busiest, sgs.LOAD_PER_TASK]:
        fix_small_imbalance(m, dst, st, out)


@apart(VALUE)
def find_busiest_group(m, sd, dst, idle, st, out):
    """find_busiest_group(): return whether there is one; the group and the imbalance are in row ``out``."""
    local = st + sgs.LOCAL
    busiest = st + sgs.BUSIEST
    update_sd_lb_stats(m, sd, dst, idle, st, out)
    m[out, sds.IMBALANCE] = 0
    if m[out, sds.BUSIEST] < 0 or m[busiest, sgs.SUM_NR_RUNNING] == 0:
        return False
    m[out, sds.AVG_LOAD] = 1024 * m[out, sds.TOTAL_LOAD] // m[out, sds.TOTAL_CAPACITY]
    pct = m[sd, domain.IMBALANCE_PCT]
    force = m[busiest, sgs.GROUP_TYPE] == sgs.IMBALANCED
    if (
        idle == idle_type.NEWLY_IDLE
        and has_capacity(m, local, pct)
        and m[busiest, sgs.GROUP_NO_CAPACITY] != 0
    ):
        force = True
    if not force:
        local_avg = m[local, sgs.AVG_LOAD]
        if m[0, sim.GROUP_IMBALANCE_FIX] != sim.GI_NONE:
            # the fix compares the least loaded CPUs of the groups instead of the averages (paper, section 3.1)
            if m[local, sgs.MIN_LOAD] >= m[busiest, sgs.MIN_LOAD]:
                return False
        else:
            if local_avg >= m[busiest, sgs.AVG_LOAD] or local_avg >= m[out, sds.AVG_LOAD]:
                return False
            if idle == idle_type.IDLE:
                if (
                    m[busiest, sgs.GROUP_TYPE] != sgs.OVERLOADED
                    and m[local, sgs.IDLE_CPUS] <= m[busiest, sgs.IDLE_CPUS] + 1
                ):
                    return False
            elif 100 * m[busiest, sgs.AVG_LOAD] <= pct * local_avg:
                return False
    calculate_imbalance(m, dst, st, out)
    return True
