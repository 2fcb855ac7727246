"""The loads the balancer compares (kernel/sched/fair.c and proc.c, v4.1; docs/scheduler-model.md, sections 2.4 and 2.5)."""

from __future__ import annotations

import numpy as np

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.fair.pelt_jit import update_blocked_load, update_entity_load_avg
from wastedcores.simulator.engine.world.state import (
    G_CPUS,
    G_GROUPS,
    G_JIFFY,
    G_NOW,
    G_SE0,
    Q_H_JIFFY,
    Q_H_LOAD,
    Q_H_NR,
    Q_NR,
    Q_ON_LIST,
    Q_RLOAD,
    Q_SE,
    Q_TG,
    Q_TG_CONTRIB,
    Q_ULOAD,
    Q_WEIGHT,
    R_CAP_ORIG,
    R_CLOCK,
    R_CURR,
    R_LAST_TICK,
    R_LOAD0,
    R_NR,
    R_WAKE,
    SE_LOAD,
    SE_Q,
    SE_RUNNABLE_SUM,
    SE_WEIGHT,
    TG_LOAD,
    TG_SHARES,
)

#: proc.c: degrade_zero_ticks and degrade_factor
ZERO_TICKS = np.array([0, 8, 32, 64, 128], dtype=np.int64)
FACTORS = np.array(
    [
        [0, 0, 0, 0, 0, 0, 0, 0],
        [64, 32, 8, 0, 0, 0, 0, 0],
        [96, 72, 40, 12, 1, 0, 0, 0],
        [112, 98, 75, 43, 15, 1, 0, 0],
        [120, 112, 98, 76, 45, 16, 2, 0],
    ],
    dtype=np.int64,
)


@inner
def jiffies(m):
    """The present jiffy."""
    return m[0, G_JIFFY]


@inner
def idle_cpu(m, cpu):
    """idle_cpu(): idle task running, nothing queued, nothing on its way."""
    return m[cpu, R_CURR] < 0 and m[cpu, R_NR] == 0 and m[cpu, R_WAKE] < 0


@inner
def decay_missed(load, missed, i):
    """decay_load_missed()."""
    if missed == 0:
        return load
    if missed >= ZERO_TICKS[i]:
        return load * 0
    if i == 1:
        return load >> missed
    j = 0
    while missed != 0:
        if missed & 1:
            load = (load * FACTORS[i, j]) >> 7
        missed >>= 1
        j += 1
    return load


@apart(NOTHING)
def update_cpu_load(m, cpu, load, pending):
    """__update_cpu_load(): the running averages over ``pending`` ticks."""
    m[cpu, R_LOAD0] = load
    for i in range(1, 5):
        old = decay_missed(m[cpu, R_LOAD0 + i], pending - 1, i)
        scale = 1 << i
        new = load
        if new > old:
            new += scale - 1
        m[cpu, R_LOAD0 + i] = (old * (scale - 1) + new) >> i


@inner
def catch_up_idle(m, cpu):
    """update_cpu_load_nohz(): ticks that did not happen count as idle."""
    now = jiffies(m)
    pending = now - m[cpu, R_LAST_TICK]
    if pending > 0:
        m[cpu, R_LAST_TICK] = now
        update_cpu_load(m, cpu, 0, pending)


@inner
def weighted_cpuload(m, cpu):
    """weighted_cpuload(): queued entities only."""
    return m[cpu + m[0, G_CPUS], Q_RLOAD]


@inner
def source_load(m, cpu, index):
    """source_load(): the low guess; index t reads cpu_load[t-1]."""
    total = weighted_cpuload(m, cpu)
    if index > 0 and m[cpu, R_LOAD0 + index - 1] < total:
        return m[cpu, R_LOAD0 + index - 1]
    return total


@inner
def target_load(m, cpu, index):
    """target_load(): the high guess."""
    total = weighted_cpuload(m, cpu)
    if index > 0 and m[cpu, R_LOAD0 + index - 1] > total:
        return m[cpu, R_LOAD0 + index - 1]
    return total


@inner
def avg_load_per_task(m, cpu):
    """cpu_avg_load_per_task()."""
    q = cpu + m[0, G_CPUS]
    if m[q, Q_H_NR] > 0:
        return m[q, Q_RLOAD] // m[q, Q_H_NR]
    return m[q, Q_RLOAD] * 0


@inner
def get_cpu_usage(m, cpu):
    """get_cpu_usage(), v4.1."""
    usage = m[cpu + m[0, G_CPUS], Q_ULOAD]
    if usage >= 1024:
        return m[cpu, R_CAP_ORIG]
    return (usage * m[cpu, R_CAP_ORIG]) >> 10


@apart(VALUE)
def task_h_load(m, p):
    """task_h_load(), update_cfs_rq_h_load(): what the task adds to its CPU, seen from the root."""
    now = jiffies(m)
    q = m[p, SE_Q]
    if m[q, Q_H_JIFFY] != now:
        se = m[q, Q_SE]
        if se >= 0:
            root = m[se, SE_Q]
            if m[root, Q_H_JIFFY] != now:
                m[root, Q_H_LOAD] = m[root, Q_RLOAD]
                m[root, Q_H_JIFFY] = now
            m[q, Q_H_LOAD] = m[root, Q_H_LOAD] * m[se, SE_LOAD] // (m[root, Q_RLOAD] + 1)
        else:
            m[q, Q_H_LOAD] = m[q, Q_RLOAD]
        m[q, Q_H_JIFFY] = now
    return m[p, SE_LOAD] * m[q, Q_H_LOAD] // (m[q, Q_RLOAD] + 1)


@apart(VALUE)
def effective_load(m, tg, cpu, wl, wg):
    """effective_load(), for groups one level below the root; ``tg`` is the group's number."""
    if tg == 0:
        return wl
    q = m[0, G_CPUS] * (1 + tg) + cpu
    row = m[q, Q_TG]
    total = wg + m[row, TG_LOAD] - m[q, Q_TG_CONTRIB] + m[q, Q_WEIGHT]
    weight = m[q, Q_WEIGHT] + wl
    if total > 0 and weight < total:
        product = weight * m[row, TG_SHARES]
        wl = product // total if product >= 0 else -(-product // total)
    else:
        wl = m[row, TG_SHARES]
    wl = max(wl, 2)
    return wl - m[m[q, Q_SE], SE_WEIGHT]


@apart(NOTHING)
def update_blocked_averages(m, cpu):
    """update_blocked_averages(): groups first, then the root queue."""
    n = m[0, G_CPUS]
    m[cpu, R_CLOCK] = m[0, G_NOW]
    for tg in range(1, m[0, G_GROUPS]):
        q = n * (1 + tg) + cpu
        if m[q, Q_ON_LIST] != 0:
            se = m[0, G_SE0] + tg * n + cpu
            update_blocked_load(m, q, True)
            update_entity_load_avg(m, se, True)
            if m[se, SE_RUNNABLE_SUM] == 0 and m[q, Q_NR] == 0:
                m[q, Q_ON_LIST] = 0
    if m[n + cpu, Q_ON_LIST] != 0:
        update_blocked_load(m, n + cpu, True)
