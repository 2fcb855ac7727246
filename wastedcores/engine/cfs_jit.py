"""CFS on one CPU: virtual time, slices, queues, pick, tick, preemption (kernel/sched/fair.c, v4.1; model document 1)."""

from __future__ import annotations

import numpy as np

from wastedcores.engine import queue_jit
from wastedcores.engine._apart import NOTHING, VALUE, apart
from wastedcores.engine._jit import inner
from wastedcores.engine.codes import EV_RESCHED
from wastedcores.engine.log_jit import log_load, log_nr
from wastedcores.engine.pelt_jit import (
    dequeue_load_avg,
    enqueue_load_avg,
    update_blocked_load,
    update_entity_load_avg,
    update_task_contrib,
)
from wastedcores.engine.queue_jit import cpu_event, pending
from wastedcores.engine.state import (
    G_CPU,
    G_CPUS,
    G_IPI,
    G_LATENCY,
    G_MIN_GRAN,
    G_NOW,
    G_OVERLOAD,
    G_WAKEUP_GRAN,
    Q_CPU,
    Q_CURR,
    Q_H_NR,
    Q_LAST,
    Q_LEFT,
    Q_MIN_V,
    Q_NEXT,
    Q_NR,
    Q_ON_LIST,
    Q_RIGHT,
    Q_SE,
    Q_SKIP,
    Q_TG,
    Q_TG_CONTRIB,
    Q_WEIGHT,
    R_CURR,
    R_LOADW,
    R_NEED,
    R_NR,
    R_THEAD,
    R_TTAIL,
    SE_EXEC_START,
    SE_INV,
    SE_MYQ,
    SE_NEXT,
    SE_ON_RQ,
    SE_PARENT,
    SE_PERIOD,
    SE_PREV,
    SE_PREV_SUM,
    SE_Q,
    SE_RUNNABLE_SUM,
    SE_RUNNING_SUM,
    SE_SUM_EXEC,
    SE_VRUNTIME,
    SE_WEIGHT,
    T_CNEXT,
    T_CPREV,
    TG_LOAD,
    TG_SHARES,
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


@apart(NOTHING)
def resched(m, cpu):
    """resched_curr(): by flag here, by IPI elsewhere."""
    if m[cpu, R_NEED] != 0:
        return
    m[cpu, R_NEED] = 1
    if cpu != m[0, G_CPU]:
        event = cpu_event(EV_RESCHED, cpu)
        if not pending(m, event):
            queue_jit.push(m, event, m[0, G_NOW] + m[0, G_IPI])


# --- the queue of one level: a list sorted by vruntime, equal keys in order of arrival -----------------------------------


@inner
def insert(m, q, se):
    """__enqueue_entity()."""
    v = m[se, SE_VRUNTIME]
    after = m[q, Q_RIGHT]
    while after >= 0 and m[after, SE_VRUNTIME] > v:
        after = m[after, SE_PREV]
    if after < 0:
        following = m[q, Q_LEFT]
        m[q, Q_LEFT] = se
    else:
        following = m[after, SE_NEXT]
        m[after, SE_NEXT] = se
    m[se, SE_PREV] = after
    m[se, SE_NEXT] = following
    if following < 0:
        m[q, Q_RIGHT] = se
    else:
        m[following, SE_PREV] = se


@inner
def remove(m, q, se):
    """__dequeue_entity()."""
    before = m[se, SE_PREV]
    after = m[se, SE_NEXT]
    if before < 0:
        m[q, Q_LEFT] = after
    else:
        m[before, SE_NEXT] = after
    if after < 0:
        m[q, Q_RIGHT] = before
    else:
        m[after, SE_PREV] = before


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


# --- slices, placement --------------------------------------------------------------------------------------------------


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


# --- weights, membership ------------------------------------------------------------------------------------------------


@inner
def account_enqueue(m, q, se):
    """account_entity_enqueue(): tasks go to the head of rq->cfs_tasks."""
    m[q, Q_WEIGHT] += m[se, SE_WEIGHT]
    m[q, Q_NR] += 1
    cpu = m[q, Q_CPU]
    if m[se, SE_PARENT] < 0:
        m[cpu, R_LOADW] += m[se, SE_WEIGHT]
    if m[se, SE_MYQ] < 0:
        head = m[cpu, R_THEAD]
        m[se, T_CPREV] = -1
        m[se, T_CNEXT] = head
        if head < 0:
            m[cpu, R_TTAIL] = se
        else:
            m[head, T_CPREV] = se
        m[cpu, R_THEAD] = se


@inner
def list_del_task(m, cpu, p):
    """Take a task out of rq->cfs_tasks."""
    before = m[p, T_CPREV]
    after = m[p, T_CNEXT]
    if before < 0:
        m[cpu, R_THEAD] = after
    else:
        m[before, T_CNEXT] = after
    if after < 0:
        m[cpu, R_TTAIL] = before
    else:
        m[after, T_CPREV] = before


@inner
def list_move_tail(m, cpu, p):
    """list_move_tail() on rq->cfs_tasks."""
    list_del_task(m, cpu, p)
    tail = m[cpu, R_TTAIL]
    m[p, T_CNEXT] = -1
    m[p, T_CPREV] = tail
    if tail < 0:
        m[cpu, R_THEAD] = p
    else:
        m[tail, T_CNEXT] = p
    m[cpu, R_TTAIL] = p


@inner
def account_dequeue(m, q, se):
    """account_entity_dequeue()."""
    m[q, Q_WEIGHT] -= m[se, SE_WEIGHT]
    m[q, Q_NR] -= 1
    cpu = m[q, Q_CPU]
    if m[se, SE_PARENT] < 0:
        m[cpu, R_LOADW] -= m[se, SE_WEIGHT]
    if m[se, SE_MYQ] < 0:
        list_del_task(m, cpu, se)


@apart(NOTHING)
def update_cfs_shares(m, q):
    """update_cfs_shares(), calc_cfs_shares(), reweight_entity()."""
    se = m[q, Q_SE]
    if se < 0:
        return
    tg = m[q, Q_TG]
    total = m[tg, TG_LOAD] - m[q, Q_TG_CONTRIB] + m[q, Q_WEIGHT]
    shares = m[tg, TG_SHARES] * m[q, Q_WEIGHT]
    if total != 0:
        # C division; total can be negative for a moment
        shares = shares // total if total > 0 else -(shares // -total)
    shares = max(shares, 2)
    shares = min(shares, m[tg, TG_SHARES])
    up = m[se, SE_Q]
    if m[se, SE_ON_RQ] != 0:
        if m[up, Q_CURR] == se:
            update_curr(m, up)
        change = shares - m[se, SE_WEIGHT]
        m[up, Q_WEIGHT] += change
        if m[se, SE_PARENT] < 0:
            m[m[up, Q_CPU], R_LOADW] += change
    if shares != m[se, SE_WEIGHT]:
        m[se, SE_WEIGHT] = shares
        m[se, SE_INV] = inverse_weight(shares)


@inner
def enqueue_entity(m, se, wakeup, waking):
    """enqueue_entity()."""
    q = m[se, SE_Q]
    if not wakeup or waking:
        m[se, SE_VRUNTIME] += m[q, Q_MIN_V]
    update_curr(m, q)
    enqueue_load_avg(m, se, wakeup)
    account_enqueue(m, q, se)
    update_cfs_shares(m, q)
    if wakeup:
        place_entity(m, q, se, False)
    if se != m[q, Q_CURR]:
        insert(m, q, se)
    m[se, SE_ON_RQ] = 1
    if m[q, Q_NR] == 1:
        m[q, Q_ON_LIST] = 1


@apart(NOTHING)
def enqueue_task(m, p, wakeup, waking):
    """enqueue_task_fair(), add_nr_running()."""
    se = p
    while se >= 0 and m[se, SE_ON_RQ] == 0:
        enqueue_entity(m, se, wakeup, waking)
        m[m[se, SE_Q], Q_H_NR] += 1
        wakeup = True
        waking = False
        se = m[se, SE_PARENT]
    while se >= 0:
        m[m[se, SE_Q], Q_H_NR] += 1
        update_cfs_shares(m, m[se, SE_Q])
        update_entity_load_avg(m, se, True)
        se = m[se, SE_PARENT]
    cpu = m[m[p, SE_Q], Q_CPU]
    log_load(m, cpu)
    add_nr_running(m, cpu, 1)


@inner
def add_nr_running(m, cpu, n):
    """add_nr_running(), sub_nr_running(); sets rd->overload when a CPU gets its second task."""
    before = m[cpu, R_NR]
    m[cpu, R_NR] = before + n
    if before < 2 and before + n >= 2:
        m[0, G_OVERLOAD] = 1
    log_nr(m, cpu)


@inner
def clear_buddies(m, se):
    """clear_buddies(): each mark is followed up while the levels carry it."""
    for which in (Q_LAST, Q_NEXT, Q_SKIP):
        e = se
        while e >= 0 and m[m[e, SE_Q], which] == e:
            m[m[e, SE_Q], which] = -1
            e = m[e, SE_PARENT]


@inner
def set_buddy(m, se, which):
    """set_next_buddy(), set_last_buddy()."""
    while se >= 0:
        m[m[se, SE_Q], which] = se
        se = m[se, SE_PARENT]


@inner
def dequeue_entity(m, se, sleep):
    """dequeue_entity()."""
    q = m[se, SE_Q]
    update_curr(m, q)
    dequeue_load_avg(m, se, sleep)
    clear_buddies(m, se)
    if se != m[q, Q_CURR]:
        remove(m, q, se)
    m[se, SE_ON_RQ] = 0
    account_dequeue(m, q, se)
    if not sleep:
        m[se, SE_VRUNTIME] -= m[q, Q_MIN_V]
    update_min_vruntime(m, q)
    update_cfs_shares(m, q)


@apart(NOTHING)
def dequeue_task(m, p, sleep):
    """dequeue_task_fair(), sub_nr_running()."""
    task_sleep = sleep
    se = p
    while se >= 0:
        q = m[se, SE_Q]
        dequeue_entity(m, se, sleep)
        m[q, Q_H_NR] -= 1
        se = m[se, SE_PARENT]
        if m[q, Q_WEIGHT] != 0:
            if task_sleep and se >= 0:
                set_buddy(m, se, Q_NEXT)
            break
        sleep = True
    while se >= 0:
        m[m[se, SE_Q], Q_H_NR] -= 1
        update_cfs_shares(m, m[se, SE_Q])
        update_entity_load_avg(m, se, True)
        se = m[se, SE_PARENT]
    cpu = m[m[p, SE_Q], Q_CPU]
    log_load(m, cpu)
    add_nr_running(m, cpu, -1)


# --- choosing -----------------------------------------------------------------------------------------------------------


@inner
def wakeup_preempt_entity(m, curr, se):
    """wakeup_preempt_entity()."""
    vdiff = m[curr, SE_VRUNTIME] - m[se, SE_VRUNTIME]
    if vdiff <= 0:
        return -1
    if vdiff > calc_delta_fair(m, m[0, G_WAKEUP_GRAN], se):
        return 1
    return 0


@inner
def pick_next_entity(m, q, curr):
    """pick_next_entity()."""
    left = m[q, Q_LEFT]
    if left < 0 or (curr >= 0 and m[curr, SE_VRUNTIME] < m[left, SE_VRUNTIME]):
        left = curr
    se = left
    if m[q, Q_SKIP] == se:
        if se == curr:
            second = m[q, Q_LEFT]
        else:
            second = m[se, SE_NEXT]
            if second < 0 or (curr >= 0 and m[curr, SE_VRUNTIME] < m[second, SE_VRUNTIME]):
                second = curr
        if second >= 0 and wakeup_preempt_entity(m, second, left) < 1:
            se = second
    last = m[q, Q_LAST]
    if last >= 0 and wakeup_preempt_entity(m, last, left) < 1:
        se = last
    following = m[q, Q_NEXT]
    if following >= 0 and wakeup_preempt_entity(m, following, left) < 1:
        se = following
    clear_buddies(m, se)
    return se


@apart(NOTHING)
def set_next_entity(m, se):
    """set_next_entity()."""
    q = m[se, SE_Q]
    if m[se, SE_ON_RQ] != 0:
        remove(m, q, se)
        update_entity_load_avg(m, se, True)
    m[se, SE_EXEC_START] = m[0, G_NOW]
    m[q, Q_CURR] = se
    m[se, SE_PREV_SUM] = m[se, SE_SUM_EXEC]


@apart(NOTHING)
def put_prev_entity(m, se):
    """put_prev_entity()."""
    q = m[se, SE_Q]
    if m[se, SE_ON_RQ] != 0:
        update_curr(m, q)
        insert(m, q, se)
        update_entity_load_avg(m, se, True)
    m[q, Q_CURR] = -1


@inner
def put_prev_task(m, p):
    """put_prev_task_fair()."""
    while p >= 0:
        put_prev_entity(m, p)
        p = m[p, SE_PARENT]


@inner
def set_next_task(m, p):
    """set_next_entity() on all levels, root first."""
    parent = m[p, SE_PARENT]
    if parent >= 0:
        set_next_entity(m, parent)
    set_next_entity(m, p)


@apart(VALUE)
def pick_task(m, cpu, prev):
    """pick_next_task_fair() with something on the queue; only what differs between prev and next is put and set.

    ``prev`` is -1 after the idle task or the stopper.
    """
    q = cpu + m[0, G_CPUS]
    p = -1
    while True:
        curr = m[q, Q_CURR]
        if curr >= 0:
            if m[curr, SE_ON_RQ] != 0:
                update_curr(m, q)
            else:
                curr = -1
        p = pick_next_entity(m, q, curr)
        q = m[p, SE_MYQ]
        if q < 0:
            break
    if prev < 0:
        set_next_task(m, p)
    elif p != prev:
        se = p
        pse = prev
        # autogroups are one level deep, so depth is 0 or 1
        while m[se, SE_Q] != m[pse, SE_Q]:
            depth = 1 if m[se, SE_PARENT] >= 0 else 0
            pdepth = 1 if m[pse, SE_PARENT] >= 0 else 0
            if depth <= pdepth:
                put_prev_entity(m, pse)
                pse = m[pse, SE_PARENT]
            if depth >= pdepth:
                set_next_entity(m, se)
                se = m[se, SE_PARENT]
        put_prev_entity(m, pse)
        set_next_entity(m, se)
    return p


# --- tick, preemption ---------------------------------------------------------------------------------------------------


@inner
def check_preempt_tick(m, q, curr):
    """check_preempt_tick(): slices are looked at only here."""
    ideal = sched_slice(m, q, curr)
    ran = m[curr, SE_SUM_EXEC] - m[curr, SE_PREV_SUM]
    if ran > ideal:
        resched(m, m[q, Q_CPU])
        clear_buddies(m, curr)
        return
    if ran < m[0, G_MIN_GRAN]:
        return
    if m[curr, SE_VRUNTIME] - m[m[q, Q_LEFT], SE_VRUNTIME] > ideal:
        resched(m, m[q, Q_CPU])


@apart(NOTHING)
def task_tick(m, p):
    """task_tick_fair(), entity_tick()."""
    se = p
    while se >= 0:
        q = m[se, SE_Q]
        update_curr(m, q)
        update_entity_load_avg(m, se, True)
        update_blocked_load(m, q, True)
        update_cfs_shares(m, q)
        if m[q, Q_NR] > 1:
            check_preempt_tick(m, q, se)
        se = m[se, SE_PARENT]
    log_load(m, m[m[p, SE_Q], Q_CPU])


@apart(NOTHING)
def check_preempt(m, cpu, p):
    """check_preempt_curr(), check_preempt_wakeup(): may the woken task ``p`` push the running one out?"""
    curr = m[cpu, R_CURR]
    if curr < 0:
        resched(m, cpu)
        return
    if curr == p or m[cpu, R_NEED] != 0:
        return
    scale = m[m[curr, SE_Q], Q_NR] >= NR_LATENCY
    se = curr
    pse = p
    if m[se, SE_PARENT] >= 0 and m[pse, SE_PARENT] < 0:
        se = m[se, SE_PARENT]
    elif m[pse, SE_PARENT] >= 0 and m[se, SE_PARENT] < 0:
        pse = m[pse, SE_PARENT]
    while m[se, SE_Q] != m[pse, SE_Q]:
        se = m[se, SE_PARENT]
        pse = m[pse, SE_PARENT]
    update_curr(m, m[se, SE_Q])
    if wakeup_preempt_entity(m, se, pse) != 1:
        return
    set_buddy(m, pse, Q_NEXT)
    resched(m, cpu)
    if (
        scale and m[se, SE_ON_RQ] != 0 and m[se, SE_MYQ] < 0
    ):  # a task that just went to sleep is no last buddy
        set_buddy(m, se, Q_LAST)
