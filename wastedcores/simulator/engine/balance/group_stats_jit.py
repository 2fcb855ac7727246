"""Statistics of scheduling groups and the choice of the busiest.

Source: kernel/sched/fair.c, v4.1; docs/scheduler-model.md, sections 5.4 and 5.7.

A group's statistics are a row of ``STATS``: found by update_sg_lb_stats(), kept for the local and the busiest group.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.fair.load_jit import (
    avg_load_per_task,
    get_cpu_usage,
    idle_cpu,
    jiffies,
    source_load,
    target_load,
    weighted_cpuload,
)
from wastedcores.simulator.engine.world.codes import (
    CPU_IDLE,
    CPU_NEWLY_IDLE,
    CPU_NOT_IDLE,
    GI_NONE,
    GI_PATCH,
    LOOK_STATS,
    SD_OVERLAP,
    SD_PREFER_SIBLING,
)
from wastedcores.simulator.engine.world.cpusets_jit import item, test
from wastedcores.simulator.engine.world.log_jit import log_considered
from wastedcores.simulator.engine.world.state import (
    C_CAPACITY,
    C_IMBALANCE,
    C_NEXT_UPDATE,
    D_BUSY_IDX,
    D_CHILD,
    D_FLAGS,
    D_GROUPS,
    D_IDLE_IDX,
    D_INTERVAL,
    D_LEVEL,
    D_NEWIDLE_IDX,
    D_NGROUPS,
    D_PARENT,
    D_PCT,
    G_CPUS,
    G_GI,
    G_MAX_INTERVAL,
    G_OVERLOAD,
    G_TICK,
    GR_LIST,
    GR_MASK,
    GR_N,
    GR_SGC,
    MASK_LB,
    Q_H_NR,
    R_CAP,
    R_CAP_ORIG,
    R_NR,
    R_SD,
)

# columns of a row of statistics (struct sg_lb_stats)
(
    ST_LOAD,
    ST_USAGE,
    ST_NR,
    ST_WEIGHTED,
    ST_IDLE,
    ST_CAP,
    ST_AVG,
    ST_LPT,  # load_per_task
    ST_WEIGHT,
    ST_NO_CAP,
    ST_TYPE,
    ST_MIN,
    ST_MAX,
) = range(13)
OTHER, IMBALANCED, OVERLOADED = 0, 1, 2
LOCAL, BUSIEST, SPARE = 0, 1, 2
# what find_busiest_group() returns through the array of results
OUT_GROUP, OUT_IMBALANCE, OUT_TOTAL_LOAD, OUT_TOTAL_CAP, OUT_AVG = range(5)


@inner
def ms_to_jiffies(m, ms):
    """msecs_to_jiffies(): rounds up."""
    return (ms * 1_000_000 + m[0, G_TICK] - 1) // m[0, G_TICK]


@apart(NOTHING)
def update_group_capacity(m, sd, cpu):
    """update_group_capacity(), update_cpu_capacity(); no RT or interrupt time is taken off."""
    group = m[sd, D_GROUPS]
    sgc = m[group, GR_SGC]
    interval = ms_to_jiffies(m, m[sd, D_INTERVAL])
    interval = max(interval, 1)
    interval = min(interval, m[0, G_MAX_INTERVAL])
    m[sgc, C_NEXT_UPDATE] = jiffies(m) + interval
    child = m[sd, D_CHILD]
    capacity = 0
    if child < 0:
        m[cpu, R_CAP] = m[cpu, R_CAP_ORIG]
        capacity = m[cpu, R_CAP]
    elif m[child, D_FLAGS] & SD_OVERLAP:
        first = m[group, GR_LIST]
        for i in range(first, first + m[group, GR_N]):
            other = item(m, i)
            if m[other, R_SD] < 0:
                capacity += m[other, R_CAP]
            else:
                capacity += m[m[m[m[other, R_SD], D_GROUPS], GR_SGC], C_CAPACITY]
    else:
        ring = m[child, D_GROUPS]
        for i in range(m[child, D_NGROUPS]):
            capacity += m[m[ring + i, GR_SGC], C_CAPACITY]
    m[sgc, C_CAPACITY] = capacity


@inner
def has_capacity(m, st, row, pct):
    """group_has_capacity()."""
    if m[st + row, ST_NR] < m[st + row, ST_WEIGHT]:
        return True
    return m[st + row, ST_CAP] * 100 > m[st + row, ST_USAGE] * pct


@inner
def update_sg_lb_stats(m, sd, group, local, index, st, row, dst):
    """update_sg_lb_stats(); whether a CPU of the group has more than one task."""
    total = 0
    usage = 0
    running = 0
    weighted = 0
    idle = 0
    least = 1 << 62
    most = 0
    overload = False
    n = m[0, G_CPUS]
    first = m[group, GR_LIST]
    for i in range(first, first + m[group, GR_N]):
        cpu = item(m, i)
        if not test(m, MASK_LB, cpu):
            continue
        load = target_load(m, cpu, index) if local else source_load(m, cpu, index)
        total += load
        least = min(least, load)
        most = max(most, load)
        usage += get_cpu_usage(m, cpu)
        running += m[n + cpu, Q_H_NR]
        if m[cpu, R_NR] > 1:
            overload = True
        weighted += weighted_cpuload(m, cpu)
        if idle_cpu(m, cpu):
            idle += 1
    log_considered(m, dst, m[group, GR_MASK], LOOK_STATS, m[sd, D_LEVEL])
    sgc = m[group, GR_SGC]
    capacity = m[sgc, C_CAPACITY]
    weight = m[group, GR_N]
    s = st + row
    m[s, ST_LOAD] = total
    m[s, ST_USAGE] = usage
    m[s, ST_NR] = running
    m[s, ST_WEIGHTED] = weighted
    m[s, ST_IDLE] = idle
    m[s, ST_CAP] = capacity
    m[s, ST_AVG] = total * 1024 // capacity
    m[s, ST_LPT] = weighted // running if running > 0 else 0
    m[s, ST_WEIGHT] = weight
    # group_is_overloaded()
    m[s, ST_NO_CAP] = running > weight and capacity * 100 < usage * m[sd, D_PCT]
    m[s, ST_MIN] = least
    m[s, ST_MAX] = most
    group_type(m, st, row, sgc)
    return overload


@inner
def group_type(m, st, row, sgc):
    """group_classify()."""
    if m[st + row, ST_NO_CAP] != 0:
        m[st + row, ST_TYPE] = OVERLOADED
    elif m[sgc, C_IMBALANCE] != 0:
        m[st + row, ST_TYPE] = IMBALANCED
    else:
        m[st + row, ST_TYPE] = OTHER


@inner
def pick_busiest(m, st):
    """update_sd_pick_busiest(), with the group imbalance fix as text or as published (paper 3.1)."""
    if m[0, G_GI] == GI_PATCH:
        # as published every non-local group passes, so the last of the ring is "busiest"
        return True
    if m[st + SPARE, ST_TYPE] != m[st + BUSIEST, ST_TYPE]:
        return m[st + SPARE, ST_TYPE] > m[st + BUSIEST, ST_TYPE]
    if m[0, G_GI] != GI_NONE:
        return m[st + SPARE, ST_MIN] > m[st + BUSIEST, ST_MIN]
    return m[st + SPARE, ST_AVG] > m[st + BUSIEST, ST_AVG]


@inner
def load_index(m, sd, idle):
    """get_sd_load_idx()."""
    if idle == CPU_NOT_IDLE:
        return m[sd, D_BUSY_IDX]
    if idle == CPU_NEWLY_IDLE:
        return m[sd, D_NEWIDLE_IDX]
    return m[sd, D_IDLE_IDX]


@apart(NOTHING)
def update_sd_lb_stats(m, sd, dst, idle, st, out):
    """update_sd_lb_stats(): walk the ring; rows LOCAL and BUSIEST of ``st`` and totals in ``out``."""
    prefer = False
    child = m[sd, D_CHILD]
    if child >= 0 and m[child, D_FLAGS] & SD_PREFER_SIBLING:
        prefer = True
    index = load_index(m, sd, idle)
    overload = False
    seen_local = False
    for i in range(3):
        for j in range(13):
            m[st + i, j] = 0
    m[out, OUT_GROUP] = -1
    m[out, OUT_TOTAL_LOAD] = 0
    m[out, OUT_TOTAL_CAP] = 0
    ring = m[sd, D_GROUPS]
    for i in range(m[sd, D_NGROUPS]):
        group = ring + i
        local = test(m, m[group, GR_MASK], dst)
        row = LOCAL if local else SPARE
        if local:
            seen_local = True
            if idle != CPU_NEWLY_IDLE or jiffies(m) >= m[m[group, GR_SGC], C_NEXT_UPDATE]:
                update_group_capacity(m, sd, dst)
        if update_sg_lb_stats(m, sd, group, local, index, st, row, dst):
            overload = True
        if not local:
            if (
                prefer
                and seen_local
                and has_capacity(m, st, LOCAL, m[sd, D_PCT])
                and m[st + SPARE, ST_NR] > 1
            ):
                m[st + SPARE, ST_NO_CAP] = 1
                group_type(m, st, SPARE, m[group, GR_SGC])
            if pick_busiest(m, st):
                m[out, OUT_GROUP] = group
                for j in range(13):
                    m[st + BUSIEST, j] = m[st + SPARE, j]
        m[out, OUT_TOTAL_LOAD] += m[st + row, ST_LOAD]
        m[out, OUT_TOTAL_CAP] += m[st + row, ST_CAP]
    if m[sd, D_PARENT] < 0:
        m[0, G_OVERLOAD] = 1 if overload else 0


@apart(NOTHING)
def fix_small_imbalance(m, dst, st, out):
    """fix_small_imbalance()."""
    imbn = 2
    if m[st + LOCAL, ST_NR] == 0:
        m[st + LOCAL, ST_LPT] = avg_load_per_task(m, dst)
    elif m[st + BUSIEST, ST_LPT] > m[st + LOCAL, ST_LPT]:
        imbn = 1
    lpt = m[st + BUSIEST, ST_LPT]
    avg = m[st + BUSIEST, ST_AVG]
    cap = m[st + BUSIEST, ST_CAP]
    lcap = m[st + LOCAL, ST_CAP]
    s = lpt * 1024 // cap
    if avg + s >= m[st + LOCAL, ST_AVG] + s * imbn:
        m[out, OUT_IMBALANCE] = lpt
        return
    now = (cap * min(lpt, avg) + lcap * min(m[st + LOCAL, ST_LPT], m[st + LOCAL, ST_AVG])) // 1024
    move = 0
    if avg > s:
        move = cap * min(lpt, avg - s)
    if avg * cap < lpt * 1024:
        tmp = avg * cap // lcap
    else:
        tmp = lpt * 1024 // lcap
    move = (move + lcap * min(m[st + LOCAL, ST_LPT], m[st + LOCAL, ST_AVG] + tmp)) // 1024
    if move > now:
        m[out, OUT_IMBALANCE] = lpt


@apart(NOTHING)
def calculate_imbalance(m, dst, st, out):
    """calculate_imbalance()."""
    if m[0, G_GI] != GI_NONE:
        # the fix: half the distance from the local minimum to the busiest maximum
        m[out, OUT_IMBALANCE] = 0
        if m[st + LOCAL, ST_MIN] < m[st + BUSIEST, ST_MAX]:
            m[out, OUT_IMBALANCE] = (m[st + BUSIEST, ST_MAX] - m[st + LOCAL, ST_MIN]) // 2
        return
    if m[st + BUSIEST, ST_TYPE] == IMBALANCED:
        m[st + BUSIEST, ST_LPT] = min(m[st + BUSIEST, ST_LPT], m[out, OUT_AVG])
    if m[st + BUSIEST, ST_AVG] <= m[out, OUT_AVG] or m[st + LOCAL, ST_AVG] >= m[out, OUT_AVG]:
        m[out, OUT_IMBALANCE] = 0
        fix_small_imbalance(m, dst, st, out)
        return
    above = 1 << 62
    if m[st + BUSIEST, ST_TYPE] == OVERLOADED and m[st + LOCAL, ST_TYPE] == OVERLOADED:
        tasks = m[st + BUSIEST, ST_NR] * 1024
        if tasks > m[st + BUSIEST, ST_CAP]:
            above = tasks - m[st + BUSIEST, ST_CAP]
    pull = min(m[st + BUSIEST, ST_AVG] - m[out, OUT_AVG], above)
    m[out, OUT_IMBALANCE] = (
        min(
            pull * m[st + BUSIEST, ST_CAP],
            (m[out, OUT_AVG] - m[st + LOCAL, ST_AVG]) * m[st + LOCAL, ST_CAP],
        )
        // 1024
    )
    if m[out, OUT_IMBALANCE] < m[st + BUSIEST, ST_LPT]:
        fix_small_imbalance(m, dst, st, out)


@apart(VALUE)
def find_busiest_group(m, sd, dst, idle, st, out):
    """find_busiest_group(): whether there is one; it and the imbalance are in ``out``."""
    update_sd_lb_stats(m, sd, dst, idle, st, out)
    m[out, OUT_IMBALANCE] = 0
    if m[out, OUT_GROUP] < 0 or m[st + BUSIEST, ST_NR] == 0:
        return False
    m[out, OUT_AVG] = 1024 * m[out, OUT_TOTAL_LOAD] // m[out, OUT_TOTAL_CAP]
    pct = m[sd, D_PCT]
    force = m[st + BUSIEST, ST_TYPE] == IMBALANCED
    if (
        idle == CPU_NEWLY_IDLE
        and has_capacity(m, st, LOCAL, pct)
        and m[st + BUSIEST, ST_NO_CAP] != 0
    ):
        force = True
    if not force:
        if m[0, G_GI] != GI_NONE:
            # fix of paper 3.1: compare the least loaded CPUs of the groups instead of their averages
            if m[st + LOCAL, ST_MIN] >= m[st + BUSIEST, ST_MIN]:
                return False
        else:
            if (
                m[st + LOCAL, ST_AVG] >= m[st + BUSIEST, ST_AVG]
                or m[st + LOCAL, ST_AVG] >= m[out, OUT_AVG]
            ):
                return False
            if idle == CPU_IDLE:
                if (
                    m[st + BUSIEST, ST_TYPE] != OVERLOADED
                    and m[st + LOCAL, ST_IDLE] <= m[st + BUSIEST, ST_IDLE] + 1
                ):
                    return False
            elif 100 * m[st + BUSIEST, ST_AVG] <= pct * m[st + LOCAL, ST_AVG]:
                return False
    calculate_imbalance(m, dst, st, out)
    return True
