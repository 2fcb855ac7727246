"""Per-entity load tracking of Linux 3.8 to 4.2 (kernel/sched/fair.c, v4.1; docs/scheduler-model.md, section 2)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.fair import pelt_v4_4_jit as v4_4
from wastedcores.simulator.engine.fair.decay_jit import contrib_of, decay_load
from wastedcores.simulator.engine.world import cfs_rq, entity, sim, task_group


@inner
def update_runnable_avg(m, se, runnable, running):
    """__update_entity_runnable_avg(): account the time since the last update; return whether a period ended in it."""
    now = m[0, sim.NOW]
    delta = now - m[se, entity.LAST_RUNNABLE_UPDATE]
    if delta < 0:
        m[se, entity.LAST_RUNNABLE_UPDATE] = now
        return False
    delta >>= 10
    if delta == 0:
        return False
    m[se, entity.LAST_RUNNABLE_UPDATE] = now
    dw = m[se, entity.AVG_PERIOD] & 1023
    decayed = False
    if delta + dw >= 1024:
        decayed = True
        dw = 1024 - dw
        delta -= dw
        n = delta >> 10
        delta &= 1023
        c = contrib_of(n)
        m[se, entity.AVG_PERIOD] = decay_load(m[se, entity.AVG_PERIOD] + dw, n + 1) + c
        add = dw if runnable else 0
        m[se, entity.RUNNABLE_AVG_SUM] = decay_load(m[se, entity.RUNNABLE_AVG_SUM] + add, n + 1)
        add = dw if running else 0
        m[se, entity.RUNNING_AVG_SUM] = decay_load(m[se, entity.RUNNING_AVG_SUM] + add, n + 1)
        if runnable:
            m[se, entity.RUNNABLE_AVG_SUM] += c
        if running:
            m[se, entity.RUNNING_AVG_SUM] += c
    m[se, entity.AVG_PERIOD] += delta
    if runnable:
        m[se, entity.RUNNABLE_AVG_SUM] += delta
    if running:
        m[se, entity.RUNNING_AVG_SUM] += delta
    return decayed


@inner
def update_tg_runnable(m, runnable_sum, period, q):
    """__update_tg_runnable_avg(): update what a queue adds to its group's runnable average."""
    contrib = (runnable_sum << 10) // (period + 1) - m[q, cfs_rq.TG_RUNNABLE_CONTRIB]
    if abs(contrib) > m[q, cfs_rq.TG_RUNNABLE_CONTRIB] // 64:
        m[m[q, cfs_rq.TASK_GROUP], task_group.RUNNABLE_AVG] += contrib
        m[q, cfs_rq.TG_RUNNABLE_CONTRIB] += contrib


@inner
def update_task_contrib(m, se):
    """__update_task_entity_contrib() and its counterpart for utilization."""
    m[se, entity.LOAD_AVG_CONTRIB] = (
        m[se, entity.RUNNABLE_AVG_SUM] * m[se, entity.WEIGHT] // (m[se, entity.AVG_PERIOD] + 1)
    )
    m[se, entity.UTILIZATION_AVG_CONTRIB] = (
        m[se, entity.RUNNING_AVG_SUM] * 1024 // (m[se, entity.AVG_PERIOD] + 1)
    )


@inner
def update_group_contrib(m, se, q):
    """__update_group_entity_contrib() and its counterpart for utilization, for group entity ``se`` with queue ``q``."""
    tg = m[q, cfs_rq.TASK_GROUP]
    load = (
        m[q, cfs_rq.TG_LOAD_CONTRIB] * m[tg, task_group.SHARES] // (m[tg, task_group.LOAD_AVG] + 1)
    )
    if m[tg, task_group.RUNNABLE_AVG] < 1024:
        load = (load * m[tg, task_group.RUNNABLE_AVG]) >> 10
    m[se, entity.LOAD_AVG_CONTRIB] = load
    m[se, entity.UTILIZATION_AVG_CONTRIB] = m[q, cfs_rq.UTILIZATION_LOAD_AVG]


@inner
def subtract_blocked(m, q, load):
    """subtract_blocked_load_contrib(): subtract from the blocked load, which never becomes negative."""
    blocked = m[q, cfs_rq.BLOCKED_LOAD_AVG] - load
    m[q, cfs_rq.BLOCKED_LOAD_AVG] = blocked if blocked > 0 else 0


@apart(NOTHING)
def update_entity_load_avg(m, se, update_queue):
    """update_entity_load_avg(): update an entity's averages and, if asked to, the sums of its queue.

    Under v4.4 it is update_load_avg(), which always updates the queue, and the group if asked to.
    """
    if m[0, sim.LOAD_V4_4] != 0:
        v4_4.update_load_avg(m, se, update_queue)
        return
    q = m[se, entity.CFS_RQ]
    on_rq = m[se, entity.ON_RQ] != 0
    if not update_runnable_avg(m, se, on_rq, m[q, cfs_rq.CURR] == se):
        return
    load = m[se, entity.LOAD_AVG_CONTRIB]
    util = m[se, entity.UTILIZATION_AVG_CONTRIB]
    mine = m[se, entity.MY_Q]
    if mine < 0:
        update_task_contrib(m, se)
    else:
        update_tg_runnable(m, m[se, entity.RUNNABLE_AVG_SUM], m[se, entity.AVG_PERIOD], mine)
        update_group_contrib(m, se, mine)
    if not update_queue:
        return
    if on_rq:
        m[q, cfs_rq.RUNNABLE_LOAD_AVG] += m[se, entity.LOAD_AVG_CONTRIB] - load
        m[q, cfs_rq.UTILIZATION_LOAD_AVG] += m[se, entity.UTILIZATION_AVG_CONTRIB] - util
    else:
        subtract_blocked(m, q, load - m[se, entity.LOAD_AVG_CONTRIB])


@inner
def update_blocked_load(m, q, force):
    """update_cfs_rq_blocked_load(), __update_cfs_rq_tg_load_contrib(): decay the blocked load and update the group's sum."""
    now = m[0, sim.NOW] >> 20
    decays = now - m[q, cfs_rq.LAST_DECAY]
    if decays == 0 and not force:
        return
    if m[q, cfs_rq.REMOVED_LOAD] != 0:
        removed = m[q, cfs_rq.REMOVED_LOAD]
        m[q, cfs_rq.REMOVED_LOAD] = 0
        subtract_blocked(m, q, removed)
    if decays != 0:
        m[q, cfs_rq.BLOCKED_LOAD_AVG] = decay_load(m[q, cfs_rq.BLOCKED_LOAD_AVG], decays)
        m[q, cfs_rq.DECAY_COUNTER] += decays
        m[q, cfs_rq.LAST_DECAY] = now
    contrib = (
        m[q, cfs_rq.RUNNABLE_LOAD_AVG]
        + m[q, cfs_rq.BLOCKED_LOAD_AVG]
        - m[q, cfs_rq.TG_LOAD_CONTRIB]
    )
    if contrib != 0 and (force or abs(contrib) > m[q, cfs_rq.TG_LOAD_CONTRIB] // 8):
        m[m[q, cfs_rq.TASK_GROUP], task_group.LOAD_AVG] += contrib
        m[q, cfs_rq.TG_LOAD_CONTRIB] += contrib


@inner
def synchronize_decay(m, se):
    """__synchronize_entity_decay(): apply the decays that an entity missed while it was asleep; return their number."""
    decays = m[m[se, entity.CFS_RQ], cfs_rq.DECAY_COUNTER] - m[se, entity.DECAY_COUNT]
    m[se, entity.DECAY_COUNT] = 0
    if decays != 0:
        m[se, entity.LOAD_AVG_CONTRIB] = decay_load(m[se, entity.LOAD_AVG_CONTRIB], decays)
        m[se, entity.UTILIZATION_AVG_CONTRIB] = decay_load(
            m[se, entity.UTILIZATION_AVG_CONTRIB], decays
        )
    return decays


@inner
def enqueue_load_avg(m, se, wakeup):
    """enqueue_entity_load_avg(): add an entity's averages to the sums of its queue."""
    if m[0, sim.LOAD_V4_4] != 0:
        v4_4.enqueue_load(m, se)
        return
    q = m[se, entity.CFS_RQ]
    if m[se, entity.DECAY_COUNT] <= 0:
        # the entity is new or has migrated: the time that it slept elsewhere counts as not runnable
        m[se, entity.LAST_RUNNABLE_UPDATE] = m[0, sim.NOW]
        if m[se, entity.DECAY_COUNT] != 0:
            m[se, entity.LAST_RUNNABLE_UPDATE] -= (-m[se, entity.DECAY_COUNT]) << 20
            update_entity_load_avg(m, se, False)
            m[se, entity.DECAY_COUNT] = 0
        wakeup = False
    else:
        synchronize_decay(m, se)
    if wakeup:
        subtract_blocked(m, q, m[se, entity.LOAD_AVG_CONTRIB])
        update_entity_load_avg(m, se, False)
    m[q, cfs_rq.RUNNABLE_LOAD_AVG] += m[se, entity.LOAD_AVG_CONTRIB]
    m[q, cfs_rq.UTILIZATION_LOAD_AVG] += m[se, entity.UTILIZATION_AVG_CONTRIB]
    update_blocked_load(m, q, not wakeup)


@inner
def dequeue_load_avg(m, se, sleep):
    """dequeue_entity_load_avg(): subtract an entity's averages, and count them as blocked if it goes to sleep."""
    if m[0, sim.LOAD_V4_4] != 0:
        v4_4.dequeue_load(m, se)
        return
    q = m[se, entity.CFS_RQ]
    update_entity_load_avg(m, se, True)
    update_blocked_load(m, q, not sleep)
    m[q, cfs_rq.RUNNABLE_LOAD_AVG] -= m[se, entity.LOAD_AVG_CONTRIB]
    m[q, cfs_rq.UTILIZATION_LOAD_AVG] -= m[se, entity.UTILIZATION_AVG_CONTRIB]
    if sleep:
        m[q, cfs_rq.BLOCKED_LOAD_AVG] += m[se, entity.LOAD_AVG_CONTRIB]
        m[se, entity.DECAY_COUNT] = m[q, cfs_rq.DECAY_COUNTER]
