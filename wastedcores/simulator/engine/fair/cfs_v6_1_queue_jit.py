"""How CFS of v6.1 queues tasks, takes them off and weighs groups (kernel/sched/fair.c, v6.1.192)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.fair.entity_jit import (
    add_nr_running,
    clear_buddies,
    insert,
    list_add_task,
    list_del_task,
    remove,
    set_buddy,
)
from wastedcores.simulator.engine.fair.modern_task_jit import (
    rq_of,
)
from wastedcores.simulator.engine.fair.pelt_v6_12_jit import (
    DO_ATTACH,
    DO_DETACH,
    MIN_DIVIDER,
    UPDATE_TG,
    UTIL_EST_MARGIN,
    dequeue_load_avg,
    enqueue_load_avg,
    scale_load_down,
    update_load_avg,
)
from wastedcores.simulator.engine.fair.scaled_weights_jit import (
    add_weight,
    calc_group_shares,
    update_runnable,
)
from wastedcores.simulator.engine.fair.vruntime_jit import (
    inverse_weight,
    place_entity,
    update_curr,
    update_min_vruntime,
)
from wastedcores.simulator.engine.world import cfs_rq, eevdf, entity, rq, sim
from wastedcores.simulator.engine.world.log_jit import log_load

#: how a task leaves its queue: asleep; for another CPU; for a moment and for the same queue (DEQUEUE_SAVE without _MOVE)
SLEEP, MIGRATING, SAVED = 1, 2, 4


# --- weights of groups --------------------------------------------------------------------------------------------------


@apart(NOTHING)
def reweight_entity(m, se, weight, inv):
    """reweight_entity(): change a weight and keep the virtual time."""
    q = m[se, entity.CFS_RQ]
    on_rq = m[se, entity.ON_RQ] != 0
    if on_rq:
        if m[q, cfs_rq.CURR] == se:
            update_curr(m, q)
        add_weight(m, q, se, -1)
    dequeue_load_avg(m, q, se)
    m[se, entity.WEIGHT] = weight
    m[se, entity.INV_WEIGHT] = inv
    divider = MIN_DIVIDER + m[se, eevdf.PERIOD_CONTRIB]
    m[se, eevdf.LOAD_AVG] = scale_load_down(weight) * m[se, eevdf.LOAD_SUM] // divider
    enqueue_load_avg(m, q, se)
    if on_rq:
        add_weight(m, q, se, 1)


@inner
def update_cfs_group(m, se):
    """update_cfs_group(): give a group's entity its CPU's part of the group, also while it is empty."""
    g = m[se, entity.MY_Q]
    if g >= 0:
        weight = calc_group_shares(m, g)
        reweight_entity(m, se, weight, inverse_weight(scale_load_down(weight)))


# --- enqueue, dequeue ---------------------------------------------------------------------------------------------------


@apart(NOTHING)
def enqueue_entity(m, se, wakeup):
    """enqueue_entity(), account_entity_enqueue(): put one entity on its queue.

    A virtual time is relative to the queue that was left, except that of a sleeper that wakes on its old CPU.
    """
    q = m[se, entity.CFS_RQ]
    runs = m[q, cfs_rq.CURR] == se
    is_task = m[se, entity.MY_Q] < 0
    relative = wakeup == 0 or (is_task and m[se, eevdf.LAST_UPDATE] == 0)
    if relative and runs:
        m[se, entity.VRUNTIME] += m[q, cfs_rq.MIN_VRUNTIME]
    update_curr(m, q)
    if relative and not runs:
        m[se, entity.VRUNTIME] += m[q, cfs_rq.MIN_VRUNTIME]
    update_load_avg(m, se, UPDATE_TG | DO_ATTACH)
    update_runnable(m, se)
    update_cfs_group(m, se)
    add_weight(m, q, se, 1)
    if is_task:
        list_add_task(m, m[q, cfs_rq.CPU], se)
    m[q, cfs_rq.NR_RUNNING] += 1
    if wakeup:
        place_entity(m, q, se, False)
    if not runs:
        insert(m, q, se)
    m[se, entity.ON_RQ] = 1
    m[q, cfs_rq.ON_LIST] = 1


@apart(NOTHING)
def dequeue_entity(m, se, flags):
    """dequeue_entity(), account_entity_dequeue(): take one entity off its queue."""
    q = m[se, entity.CFS_RQ]
    is_task = m[se, entity.MY_Q] < 0
    update_curr(m, q)
    update_load_avg(m, se, UPDATE_TG | DO_DETACH if is_task and flags & MIGRATING else UPDATE_TG)
    update_runnable(m, se)
    clear_buddies(m, se)
    if m[q, cfs_rq.CURR] != se:
        remove(m, q, se)
    m[se, entity.ON_RQ] = 0
    add_weight(m, q, se, -1)
    if is_task:
        list_del_task(m, m[q, cfs_rq.CPU], se)
    m[q, cfs_rq.NR_RUNNING] -= 1
    if flags & SLEEP == 0:
        m[se, entity.VRUNTIME] -= m[q, cfs_rq.MIN_VRUNTIME]
    update_cfs_group(m, se)
    if flags & SAVED == 0:
        update_min_vruntime(m, q)


@apart(NOTHING)
def update_above(m, se, change):
    """Update the levels that stay queued while a task below them comes (``change`` is 1) or goes (-1)."""
    while se >= 0:
        update_load_avg(m, se, UPDATE_TG)
        update_runnable(m, se)
        update_cfs_group(m, se)
        m[m[se, entity.CFS_RQ], cfs_rq.H_NR_RUNNING] += change
        se = m[se, entity.PARENT]


@apart(NOTHING)
def enqueue_task(m, p, wakeup):
    """enqueue_task_fair(), add_nr_running(): put a task, and its group if that was not queued, on the runqueue."""
    cpu = rq_of(m, p)
    m[cpu, rq.CLOCK] = m[0, sim.NOW]
    m[m[0, sim.CPUS] + cpu, eevdf.UTIL_EST] += m[p, eevdf.UTIL_EST]
    se = p
    while se >= 0 and m[se, entity.ON_RQ] == 0:
        enqueue_entity(m, se, wakeup)
        m[m[se, entity.CFS_RQ], cfs_rq.H_NR_RUNNING] += 1
        wakeup = 1
        se = m[se, entity.PARENT]
    update_above(m, se, 1)
    log_load(m, cpu)
    add_nr_running(m, cpu, 1)


@inner
def util_est_update(m, p):
    """util_est_update(): update the estimate of a task's use after it left the queue to sleep.

    UTIL_EST_FASTUP: the average follows a rise at once, and a fall by a quarter each time.
    """
    if m[p, eevdf.UNCHANGED] != 0:
        return
    last = m[p, eevdf.UTIL_ENQUEUED]
    util = m[p, eevdf.UTIL_AVG]
    fall = m[p, eevdf.UTIL_EWMA] - util
    if fall < 0:
        m[p, eevdf.UTIL_EWMA] = util
    elif fall < UTIL_EST_MARGIN:
        if abs(last - util) < UTIL_EST_MARGIN:
            return
    elif util > 1024:
        return
    else:
        m[p, eevdf.UTIL_EWMA] = (m[p, eevdf.UTIL_EWMA] * 4 - fall) >> 2
    m[p, eevdf.UTIL_ENQUEUED] = util
    m[p, eevdf.UTIL_EST] = max(m[p, eevdf.UTIL_EWMA], util)
    m[p, eevdf.UNCHANGED] = 1


@apart(NOTHING)
def dequeue_task(m, p, flags):
    """dequeue_task_fair(), sub_nr_running(): take a task, and its group if nothing else of it is queued, off the runqueue."""
    cpu = rq_of(m, p)
    root = m[0, sim.CPUS] + cpu
    m[cpu, rq.CLOCK] = m[0, sim.NOW]
    m[root, eevdf.UTIL_EST] -= min(m[root, eevdf.UTIL_EST], m[p, eevdf.UTIL_EST])
    below = flags
    se = p
    while se >= 0:
        q = m[se, entity.CFS_RQ]
        dequeue_entity(m, se, below)
        m[q, cfs_rq.H_NR_RUNNING] -= 1
        se = m[se, entity.PARENT]
        if m[q, cfs_rq.LOAD_WEIGHT] != 0:
            # other tasks of the group remain: prefer to continue with the group
            if flags & SLEEP and se >= 0:
                set_buddy(m, se, cfs_rq.NEXT)
            break
        below |= SLEEP
    update_above(m, se, -1)
    log_load(m, cpu)
    add_nr_running(m, cpu, -1)
    if flags & SLEEP:
        util_est_update(m, p)
