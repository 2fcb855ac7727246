"""CFS chooses: next task, tick, wakeup preemption (kernel/sched/fair.c, v4.1; docs/scheduler-model.md, section 1)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import cpu_event, pending
from wastedcores.simulator.engine.fair.entity_jit import (
    clear_buddies,
    insert,
    remove,
    set_buddy,
    update_cfs_shares,
)
from wastedcores.simulator.engine.fair.pelt_jit import update_blocked_load, update_entity_load_avg
from wastedcores.simulator.engine.fair.vruntime_jit import (
    NR_LATENCY,
    calc_delta_fair,
    sched_slice,
    update_curr,
)
from wastedcores.simulator.engine.world.codes import EV_RESCHED
from wastedcores.simulator.engine.world.log_jit import log_load
from wastedcores.simulator.engine.world.state import (
    G_CPU,
    G_CPUS,
    G_IPI,
    G_MIN_GRAN,
    G_NOW,
    G_WAKEUP_GRAN,
    Q_CPU,
    Q_CURR,
    Q_LAST,
    Q_LEFT,
    Q_NEXT,
    Q_NR,
    Q_SKIP,
    R_CURR,
    R_NEED,
    SE_EXEC_START,
    SE_MYQ,
    SE_NEXT,
    SE_ON_RQ,
    SE_PARENT,
    SE_PREV_SUM,
    SE_Q,
    SE_SUM_EXEC,
    SE_VRUNTIME,
)


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
