"""Virtual time of CFS: weights, slices, placement, the running entity.

Source: kernel/sched/fair.c, v4.1; docs/scheduler-model.md, section 1.
"""

from __future__ import annotations

import numpy as np

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.fair.pelt_jit import update_task_contrib
from wastedcores.simulator.engine.world.state import (
    G_LATENCY,
    G_MIN_GRAN,
    G_NOW,
    Q_CURR,
    Q_LEFT,
    Q_MIN_V,
    Q_NR,
    Q_WEIGHT,
    SE_EXEC_START,
    SE_INV,
    SE_ON_RQ,
    SE_PARENT,
    SE_PERIOD,
    SE_Q,
    SE_RUNNABLE_SUM,
    SE_RUNNING_SUM,
    SE_SUM_EXEC,
    SE_VRUNTIME,
    SE_WEIGHT,
)

NR_LATENCY = 8
MAX32 = (1 << 32) - 1


@inner
def mul_shift(a, mul, shift):
    """``a * mul >> shift`` with a 96-bit product (mul_u64_u32_shr()); a >= 0, mul < 2**32, shift <= 32."""
    high = a >> 32
    low = np.int64((np.uint64(a & MAX32) * np.uint64(mul)) >> np.uint64(shift))
    if high != 0:
        low += (high * mul) << (32 - shift)
    return low


@inner
def inverse_weight(weight):
    """__update_inv_weight()."""
    if weight >= MAX32:
        return 1
    if weight <= 0:
        return MAX32
    return MAX32 // weight


@inner
def calc_delta(delta, weight, inv):
    """__calc_delta(): ``delta * weight / divisor`` where ``inv`` is 2**32 over the divisor."""
    fact = weight * inv
    shift = 32
    while fact > MAX32:
        fact >>= 1
        shift -= 1
    return mul_shift(delta, fact, shift)


@inner
def calc_delta_fair(m, delta, se):
    """Real to virtual time."""
    if m[se, SE_WEIGHT] == 1024:
        return delta
    return calc_delta(delta, 1024, m[se, SE_INV])


@inner
def update_min_vruntime(m, q):
    """update_min_vruntime(), v4.1: does not ask whether curr is queued."""
    v = m[q, Q_MIN_V]
    curr = m[q, Q_CURR]
    left = m[q, Q_LEFT]
    if curr >= 0:
        v = m[curr, SE_VRUNTIME]
        if left >= 0 and m[left, SE_VRUNTIME] < v:
            v = m[left, SE_VRUNTIME]
    elif left >= 0:
        v = m[left, SE_VRUNTIME]
    m[q, Q_MIN_V] = max(m[q, Q_MIN_V], v)


@apart(NOTHING)
def update_curr(m, q):
    """update_curr()."""
    curr = m[q, Q_CURR]
    if curr < 0:
        return
    now = m[0, G_NOW]
    delta = now - m[curr, SE_EXEC_START]
    if delta <= 0:
        return
    m[curr, SE_EXEC_START] = now
    m[curr, SE_SUM_EXEC] += delta
    m[curr, SE_VRUNTIME] += calc_delta_fair(m, delta, curr)
    update_min_vruntime(m, q)


@apart(VALUE)
def sched_slice(m, q, se):
    """sched_slice(): the period counts the leaf queue's entities only."""
    nr = m[q, Q_NR]
    if m[se, SE_ON_RQ] == 0:
        nr += 1
    s = m[0, G_LATENCY]
    if nr > NR_LATENCY:
        s = nr * m[0, G_MIN_GRAN]
    while se >= 0:
        weight = m[m[se, SE_Q], Q_WEIGHT]
        if m[se, SE_ON_RQ] == 0:
            weight += m[se, SE_WEIGHT]
        s = calc_delta(s, m[se, SE_WEIGHT], inverse_weight(weight))
        se = m[se, SE_PARENT]
    return s


@inner
def place_entity(m, q, se, initial):
    """place_entity(): START_DEBIT and GENTLE_FAIR_SLEEPERS on."""
    v = m[q, Q_MIN_V]
    if initial:
        v += calc_delta_fair(m, sched_slice(m, q, se), se)
    else:
        v -= m[0, G_LATENCY] >> 1
    m[se, SE_VRUNTIME] = max(m[se, SE_VRUNTIME], v)


@inner
def init_task_runnable_average(m, p):
    """init_task_runnable_average(): a new task counts as fully loaded at once."""
    s = sched_slice(m, m[p, SE_Q], p) >> 10
    m[p, SE_RUNNABLE_SUM] = s
    m[p, SE_RUNNING_SUM] = s
    m[p, SE_PERIOD] = s
    update_task_contrib(m, p)
