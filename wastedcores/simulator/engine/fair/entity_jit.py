"""Enqueueing and dequeueing of CFS entities: the sorted queue, weights and group shares.

Source: kernel/sched/fair.c, v4.1; docs/scheduler-model.md, section 1.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.fair.eevdf_seam_jit import (
    FAIR_DEQUEUE,
    FAIR_ENQUEUE,
    MOVED,
    WOKEN,
    ask_fair,
    has_eevdf,
)
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
from wastedcores.simulator.engine.tasks.weight_jit import SCHED_IDLE
from wastedcores.simulator.engine.world import cfs_rq, entity, rq, sim, task, task_group
from wastedcores.simulator.engine.world.log_jit import log_load, log_nr


@inner
def insert(m, q, se):
    """__enqueue_entity(): insert an entity into the queue, which is sorted by vruntime."""
    v = m[se, entity.VRUNTIME]
    after = m[q, cfs_rq.RIGHTMOST]
    while after >= 0 and m[after, entity.VRUNTIME] > v:
        after = m[after, entity.PREV]
    if after < 0:
        following = m[q, cfs_rq.LEFTMOST]
        m[q, cfs_rq.LEFTMOST] = se
    else:
        following = m[after, entity.NEXT]
        m[after, entity.NEXT] = se
    m[se, entity.PREV] = after
    m[se, entity.NEXT] = following
    if following < 0:
        m[q, cfs_rq.RIGHTMOST] = se
    else:
        m[following, entity.PREV] = se


@inner
def remove(m, q, se):
    """__dequeue_entity(): remove an entity from the sorted queue."""
    before = m[se, entity.PREV]
    after = m[se, entity.NEXT]
    if before < 0:
        m[q, cfs_rq.LEFTMOST] = after
    else:
        m[before, entity.NEXT] = after
    if after < 0:
        m[q, cfs_rq.RIGHTMOST] = before
    else:
        m[after, entity.PREV] = before


@inner
def list_add_task(m, cpu, p):
    """Put a task at the head of rq->cfs_tasks."""
    head = m[cpu, rq.CFS_TASKS]
    m[p, task.CFS_TASKS_PREV] = -1
    m[p, task.CFS_TASKS_NEXT] = head
    if head < 0:
        m[cpu, rq.CFS_TASKS_TAIL] = p
    else:
        m[head, task.CFS_TASKS_PREV] = p
    m[cpu, rq.CFS_TASKS] = p


@inner
def account_enqueue(m, q, se):
    """account_entity_enqueue(): add the weight; a task goes to the head of rq->cfs_tasks."""
    m[q, cfs_rq.LOAD_WEIGHT] += m[se, entity.WEIGHT]
    m[q, cfs_rq.NR_RUNNING] += 1
    cpu = m[q, cfs_rq.CPU]
    if m[se, entity.PARENT] < 0:
        m[cpu, rq.LOAD_WEIGHT] += m[se, entity.WEIGHT]
    if m[se, entity.MY_Q] < 0:
        list_add_task(m, cpu, se)


@inner
def list_del_task(m, cpu, p):
    """Remove a task from rq->cfs_tasks."""
    before = m[p, task.CFS_TASKS_PREV]
    after = m[p, task.CFS_TASKS_NEXT]
    if before < 0:
        m[cpu, rq.CFS_TASKS] = after
    else:
        m[before, task.CFS_TASKS_NEXT] = after
    if after < 0:
        m[cpu, rq.CFS_TASKS_TAIL] = before
    else:
        m[after, task.CFS_TASKS_PREV] = before


@inner
def list_move_tail(m, cpu, p):
    """list_move_tail(): move a task to the end of rq->cfs_tasks."""
    list_del_task(m, cpu, p)
    tail = m[cpu, rq.CFS_TASKS_TAIL]
    m[p, task.CFS_TASKS_NEXT] = -1
    m[p, task.CFS_TASKS_PREV] = tail
    if tail < 0:
        m[cpu, rq.CFS_TASKS] = p
    else:
        m[tail, task.CFS_TASKS_NEXT] = p
    m[cpu, rq.CFS_TASKS_TAIL] = p


@inner
def account_dequeue(m, q, se):
    """account_entity_dequeue(): subtract the weight and take a task off rq->cfs_tasks."""
    m[q, cfs_rq.LOAD_WEIGHT] -= m[se, entity.WEIGHT]
    m[q, cfs_rq.NR_RUNNING] -= 1
    cpu = m[q, cfs_rq.CPU]
    if m[se, entity.PARENT] < 0:
        m[cpu, rq.LOAD_WEIGHT] -= m[se, entity.WEIGHT]
    if m[se, entity.MY_Q] < 0:
        list_del_task(m, cpu, se)


@inner
def update_cfs_shares(m, q):
    """update_cfs_shares(), calc_cfs_shares(), reweight_entity(): give a group's entity its share of the group's weight."""
    se = m[q, cfs_rq.ENTITY]
    if se < 0:
        return
    tg = m[q, cfs_rq.TASK_GROUP]
    total = m[tg, task_group.LOAD_AVG] - m[q, cfs_rq.TG_LOAD_CONTRIB] + m[q, cfs_rq.LOAD_WEIGHT]
    shares = m[tg, task_group.SHARES] * m[q, cfs_rq.LOAD_WEIGHT]
    if total != 0:
        # C division rounds towards zero, and the total can be negative for a moment
        shares = shares // total if total > 0 else -(shares // -total)
    shares = max(shares, 2)
    shares = min(shares, m[tg, task_group.SHARES])
    up = m[se, entity.CFS_RQ]
    if m[se, entity.ON_RQ] != 0:
        if m[up, cfs_rq.CURR] == se:
            update_curr(m, up)
        change = shares - m[se, entity.WEIGHT]
        m[up, cfs_rq.LOAD_WEIGHT] += change
        if m[se, entity.PARENT] < 0:
            m[m[up, cfs_rq.CPU], rq.LOAD_WEIGHT] += change
    if shares != m[se, entity.WEIGHT]:
        m[se, entity.WEIGHT] = shares
        m[se, entity.INV_WEIGHT] = inverse_weight(shares)


@inner
def enqueue_entity(m, se, wakeup, waking):
    """enqueue_entity(): put one entity on its queue."""
    q = m[se, entity.CFS_RQ]
    if not wakeup or waking:
        m[se, entity.VRUNTIME] += m[q, cfs_rq.MIN_VRUNTIME]
    update_curr(m, q)
    enqueue_load_avg(m, se, wakeup)
    account_enqueue(m, q, se)
    update_cfs_shares(m, q)
    if wakeup:
        place_entity(m, q, se, False)
    if se != m[q, cfs_rq.CURR]:
        insert(m, q, se)
    m[se, entity.ON_RQ] = 1
    if m[q, cfs_rq.NR_RUNNING] == 1:
        m[q, cfs_rq.ON_LIST] = 1


@inner
def update_level(m, se):
    """Update an entity above a task that came or left: first its weight and then its load, or under v4.4 first its load."""
    if m[0, sim.LOAD_V4_4] != 0:
        update_entity_load_avg(m, se, True)
        update_cfs_shares(m, m[se, entity.CFS_RQ])
        return
    update_cfs_shares(m, m[se, entity.CFS_RQ])
    update_entity_load_avg(m, se, True)


@apart(NOTHING)
def enqueue_task(m, p, wakeup, waking):
    """enqueue_task_fair(), add_nr_running(): put a task, and its group if that was not queued, on the runqueue."""
    if has_eevdf(m):
        ask_fair(m, FAIR_ENQUEUE, p, WOKEN if wakeup else MOVED)
        return
    se = p
    while se >= 0 and m[se, entity.ON_RQ] == 0:
        enqueue_entity(m, se, wakeup, waking)
        m[m[se, entity.CFS_RQ], cfs_rq.H_NR_RUNNING] += 1
        wakeup = True
        waking = False
        se = m[se, entity.PARENT]
    while se >= 0:
        m[m[se, entity.CFS_RQ], cfs_rq.H_NR_RUNNING] += 1
        update_level(m, se)
        se = m[se, entity.PARENT]
    cpu = m[m[p, entity.CFS_RQ], cfs_rq.CPU]
    m[cpu, rq.CLOCK] = m[0, sim.NOW]
    log_load(m, cpu)
    add_nr_running(m, cpu, 1)


@inner
def add_nr_running(m, cpu, n):
    """add_nr_running(), sub_nr_running(): change nr_running; a second task on a CPU sets rd->overload."""
    before = m[cpu, rq.NR_RUNNING]
    m[cpu, rq.NR_RUNNING] = before + n
    if before < 2 and before + n >= 2:
        m[0, sim.OVERLOAD] = 1
    log_nr(m, cpu)


@inner
def clear_buddies(m, se):
    """clear_buddies(): clear each buddy mark of the entity, upwards as long as the levels carry it."""
    for which in (cfs_rq.LAST, cfs_rq.NEXT, cfs_rq.SKIP):
        e = se
        while e >= 0 and m[m[e, entity.CFS_RQ], which] == e:
            m[m[e, entity.CFS_RQ], which] = -1
            e = m[e, entity.PARENT]


@inner
def set_buddy(m, se, which):
    """set_next_buddy(), set_last_buddy(): mark the entity and its parents as a buddy; SCHED_IDLE tasks are none but to skip."""
    if which != cfs_rq.SKIP and m[se, entity.MY_Q] < 0 and m[se, task.POLICY] == SCHED_IDLE:
        return
    while se >= 0:
        m[m[se, entity.CFS_RQ], which] = se
        se = m[se, entity.PARENT]


@inner
def dequeue_entity(m, se, sleep):
    """dequeue_entity(): take one entity off its queue."""
    q = m[se, entity.CFS_RQ]
    update_curr(m, q)
    dequeue_load_avg(m, se, sleep)
    clear_buddies(m, se)
    if se != m[q, cfs_rq.CURR]:
        remove(m, q, se)
    m[se, entity.ON_RQ] = 0
    account_dequeue(m, q, se)
    if not sleep:
        m[se, entity.VRUNTIME] -= m[q, cfs_rq.MIN_VRUNTIME]
    update_min_vruntime(m, q)
    update_cfs_shares(m, q)


@apart(NOTHING)
def dequeue_task(m, p, sleep):
    """dequeue_task_fair(), sub_nr_running(): take a task, and its group if nothing else of it is queued, off the runqueue."""
    if has_eevdf(m):
        ask_fair(m, FAIR_DEQUEUE, p, sleep)
        return
    task_sleep = sleep
    se = p
    while se >= 0:
        q = m[se, entity.CFS_RQ]
        dequeue_entity(m, se, sleep)
        m[q, cfs_rq.H_NR_RUNNING] -= 1
        se = m[se, entity.PARENT]
        if m[q, cfs_rq.LOAD_WEIGHT] != 0:
            if task_sleep and se >= 0:
                set_buddy(m, se, cfs_rq.NEXT)
            break
        sleep = True
    while se >= 0:
        m[m[se, entity.CFS_RQ], cfs_rq.H_NR_RUNNING] -= 1
        update_level(m, se)
        se = m[se, entity.PARENT]
    cpu = m[m[p, entity.CFS_RQ], cfs_rq.CPU]
    m[cpu, rq.CLOCK] = m[0, sim.NOW]
    log_load(m, cpu)
    add_nr_running(m, cpu, -1)


@inner
def set_task_rq(m, p, cpu):
    """set_task_rq() (kernel/sched/sched.h): point a task at the queue of its group on ``cpu``."""
    m[p, task.CPU] = cpu
    tg = m[p, task.GROUP]
    n = m[0, sim.CPUS]
    m[p, entity.CFS_RQ] = m[0, sim.CFS_RQ0] + tg * n + cpu
    m[p, entity.PARENT] = m[0, sim.ENTITY0] + tg * n + cpu if tg > 0 else -1
