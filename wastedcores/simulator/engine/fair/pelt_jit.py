"""Per-entity load tracking as in Linux 3.8-4.2 (kernel/sched/fair.c, v4.1; docs/scheduler-model.md, section 2)."""

from __future__ import annotations

import numpy as np

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.world.state import (
    G_NOW,
    Q_BLOAD,
    Q_CURR,
    Q_DECAYS,
    Q_LAST_DECAY,
    Q_REMOVED,
    Q_RLOAD,
    Q_TG,
    Q_TG_CONTRIB,
    Q_TG_RUNNABLE,
    Q_ULOAD,
    SE_DECAY_COUNT,
    SE_LAST_UPDATE,
    SE_LOAD,
    SE_MYQ,
    SE_ON_RQ,
    SE_PERIOD,
    SE_Q,
    SE_RUNNABLE_SUM,
    SE_RUNNING_SUM,
    SE_UTIL,
    SE_WEIGHT,
    TG_LOAD,
    TG_RUNNABLE,
    TG_SHARES,
)

LOAD_AVG_MAX = 47742
LOAD_AVG_MAX_N = 345


def _tables() -> tuple[np.ndarray, np.ndarray]:
    """``runnable_avg_yN_inv`` and ``runnable_avg_yN_sum``, recomputed in integers (y**32 = 1/2)."""
    # y**n as a 200-bit fixed-point number: the 32nd root by integer roots (32 = 2**5)
    from math import isqrt

    one = 1 << 200
    y = one >> 1
    for _ in range(5):
        y = isqrt(y << 200)
    power, inv = one, []
    for _ in range(32):
        inv.append(((2**32 - 1) * power) >> 200)
        power = (power * y) >> 200
    total, sums = 0, [0]
    for _ in range(32):
        total = ((total + 1024) * y) >> 200
        sums.append(total)
    return np.array(inv, dtype=np.int64), np.array(sums, dtype=np.int64)


Y_INV, Y_SUM = _tables()


@inner
def decay_load(value, n):
    """``value * y**n`` as decay_load() computes it."""
    if n == 0:
        return value
    if n > 2016:
        return value * 0
    return ((value >> (n >> 5)) * Y_INV[n & 31]) >> 32


@inner
def contrib_of(n):
    """Sum of ``n`` full periods (__compute_runnable_contrib())."""
    if n <= 32:
        return Y_SUM[n]
    if n >= LOAD_AVG_MAX_N:
        return Y_SUM[0] + LOAD_AVG_MAX
    c = Y_SUM[0]
    while True:
        c = (c >> 1) + Y_SUM[32]
        n -= 32
        if n <= 32:
            break
    return decay_load(c, n) + Y_SUM[n]


@inner
def update_runnable_avg(m, se, runnable, running):
    """__update_entity_runnable_avg(): whether a period boundary was crossed."""
    now = m[0, G_NOW]
    delta = now - m[se, SE_LAST_UPDATE]
    if delta < 0:
        m[se, SE_LAST_UPDATE] = now
        return False
    delta >>= 10
    if delta == 0:
        return False
    m[se, SE_LAST_UPDATE] = now
    dw = m[se, SE_PERIOD] & 1023
    decayed = False
    if delta + dw >= 1024:
        decayed = True
        dw = 1024 - dw
        delta -= dw
        n = delta >> 10
        delta &= 1023
        c = contrib_of(n)
        m[se, SE_PERIOD] = decay_load(m[se, SE_PERIOD] + dw, n + 1) + c
        add = dw if runnable else 0
        m[se, SE_RUNNABLE_SUM] = decay_load(m[se, SE_RUNNABLE_SUM] + add, n + 1)
        add = dw if running else 0
        m[se, SE_RUNNING_SUM] = decay_load(m[se, SE_RUNNING_SUM] + add, n + 1)
        if runnable:
            m[se, SE_RUNNABLE_SUM] += c
        if running:
            m[se, SE_RUNNING_SUM] += c
    m[se, SE_PERIOD] += delta
    if runnable:
        m[se, SE_RUNNABLE_SUM] += delta
    if running:
        m[se, SE_RUNNING_SUM] += delta
    return decayed


@inner
def update_tg_runnable(m, runnable_sum, period, q):
    """__update_tg_runnable_avg()."""
    contrib = (runnable_sum << 10) // (period + 1) - m[q, Q_TG_RUNNABLE]
    if abs(contrib) > m[q, Q_TG_RUNNABLE] // 64:
        m[m[q, Q_TG], TG_RUNNABLE] += contrib
        m[q, Q_TG_RUNNABLE] += contrib


@inner
def update_task_contrib(m, se):
    """__update_task_entity_contrib() and its utilization twin."""
    m[se, SE_LOAD] = m[se, SE_RUNNABLE_SUM] * m[se, SE_WEIGHT] // (m[se, SE_PERIOD] + 1)
    m[se, SE_UTIL] = m[se, SE_RUNNING_SUM] * 1024 // (m[se, SE_PERIOD] + 1)


@inner
def update_group_contrib(m, se, q):
    """__update_group_entity_contrib() and its utilization twin, of group entity ``se`` with queue ``q``."""
    tg = m[q, Q_TG]
    load = m[q, Q_TG_CONTRIB] * m[tg, TG_SHARES] // (m[tg, TG_LOAD] + 1)
    if m[tg, TG_RUNNABLE] < 1024:
        load = (load * m[tg, TG_RUNNABLE]) >> 10
    m[se, SE_LOAD] = load
    m[se, SE_UTIL] = m[q, Q_ULOAD]


@inner
def subtract_blocked(m, q, load):
    """subtract_blocked_load_contrib()."""
    blocked = m[q, Q_BLOAD] - load
    m[q, Q_BLOAD] = blocked if blocked > 0 else 0


@apart(NOTHING)
def update_entity_load_avg(m, se, update_queue):
    """update_entity_load_avg()."""
    q = m[se, SE_Q]
    on_rq = m[se, SE_ON_RQ] != 0
    if not update_runnable_avg(m, se, on_rq, m[q, Q_CURR] == se):
        return
    load = m[se, SE_LOAD]
    util = m[se, SE_UTIL]
    mine = m[se, SE_MYQ]
    if mine < 0:
        update_task_contrib(m, se)
    else:
        update_tg_runnable(m, m[se, SE_RUNNABLE_SUM], m[se, SE_PERIOD], mine)
        update_group_contrib(m, se, mine)
    if not update_queue:
        return
    if on_rq:
        m[q, Q_RLOAD] += m[se, SE_LOAD] - load
        m[q, Q_ULOAD] += m[se, SE_UTIL] - util
    else:
        subtract_blocked(m, q, load - m[se, SE_LOAD])


@apart(NOTHING)
def update_blocked_load(m, q, force):
    """update_cfs_rq_blocked_load() and __update_cfs_rq_tg_load_contrib()."""
    now = m[0, G_NOW] >> 20
    decays = now - m[q, Q_LAST_DECAY]
    if decays == 0 and not force:
        return
    if m[q, Q_REMOVED] != 0:
        removed = m[q, Q_REMOVED]
        m[q, Q_REMOVED] = 0
        subtract_blocked(m, q, removed)
    if decays != 0:
        m[q, Q_BLOAD] = decay_load(m[q, Q_BLOAD], decays)
        m[q, Q_DECAYS] += decays
        m[q, Q_LAST_DECAY] = now
    contrib = m[q, Q_RLOAD] + m[q, Q_BLOAD] - m[q, Q_TG_CONTRIB]
    if contrib != 0 and (force or abs(contrib) > m[q, Q_TG_CONTRIB] // 8):
        m[m[q, Q_TG], TG_LOAD] += contrib
        m[q, Q_TG_CONTRIB] += contrib


@inner
def synchronize_decay(m, se):
    """__synchronize_entity_decay(): the decays missed while asleep."""
    decays = m[m[se, SE_Q], Q_DECAYS] - m[se, SE_DECAY_COUNT]
    m[se, SE_DECAY_COUNT] = 0
    if decays != 0:
        m[se, SE_LOAD] = decay_load(m[se, SE_LOAD], decays)
        m[se, SE_UTIL] = decay_load(m[se, SE_UTIL], decays)
    return decays


@inner
def enqueue_load_avg(m, se, wakeup):
    """enqueue_entity_load_avg()."""
    q = m[se, SE_Q]
    if m[se, SE_DECAY_COUNT] <= 0:
        # a migrated or new entity: what it slept elsewhere counts as not runnable
        m[se, SE_LAST_UPDATE] = m[0, G_NOW]
        if m[se, SE_DECAY_COUNT] != 0:
            m[se, SE_LAST_UPDATE] -= (-m[se, SE_DECAY_COUNT]) << 20
            update_entity_load_avg(m, se, False)
            m[se, SE_DECAY_COUNT] = 0
        wakeup = False
    else:
        synchronize_decay(m, se)
    if wakeup:
        subtract_blocked(m, q, m[se, SE_LOAD])
        update_entity_load_avg(m, se, False)
    m[q, Q_RLOAD] += m[se, SE_LOAD]
    m[q, Q_ULOAD] += m[se, SE_UTIL]
    update_blocked_load(m, q, not wakeup)


@inner
def dequeue_load_avg(m, se, sleep):
    """dequeue_entity_load_avg()."""
    q = m[se, SE_Q]
    update_entity_load_avg(m, se, True)
    update_blocked_load(m, q, not sleep)
    m[q, Q_RLOAD] -= m[se, SE_LOAD]
    m[q, Q_ULOAD] -= m[se, SE_UTIL]
    if sleep:
        m[q, Q_BLOAD] += m[se, SE_LOAD]
        m[se, SE_DECAY_COUNT] = m[q, Q_DECAYS]
