"""CFS entities come and go: the sorted queue, weights and group shares.

Source: kernel/sched/fair.c, v4.1; docs/scheduler-model.md, section 1.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.fair.pelt_jit import (
    dequeue_load_avg,
    enqueue_load_avg,
    update_entity_load_avg,
)
from wastedcores.simulator.engine.fair.vruntime_jit import (
    inverse_weight,
    place_entity,
    update_curr,
    update_min_vruntime,
)
from wastedcores.simulator.engine.world.log_jit import log_load, log_nr
from wastedcores.simulator.engine.world.state import (
    G_NOW,
    G_OVERLOAD,
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
    R_CLOCK,
    R_LOADW,
    R_NR,
    R_THEAD,
    R_TTAIL,
    SE_INV,
    SE_MYQ,
    SE_NEXT,
    SE_ON_RQ,
    SE_PARENT,
    SE_PREV,
    SE_Q,
    SE_VRUNTIME,
    SE_WEIGHT,
    T_CNEXT,
    T_CPREV,
    TG_LOAD,
    TG_SHARES,
)


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
    m[cpu, R_CLOCK] = m[0, G_NOW]
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
    m[cpu, R_CLOCK] = m[0, G_NOW]
    log_load(m, cpu)
    add_nr_running(m, cpu, -1)
