"""Per-entity load tracking of Linux 4.4, the metric that came with 4.3 (kernel/sched/fair.c, v4.4).

Entities and queues keep their sums in the columns of ``struct sched_avg`` (eevdf.py). A queue's RUNNABLE_SUM is
``runnable_load_sum``, and its ``avg.util_avg`` is UTIL_AVG. :data:`sim.LOAD_V4_4` says whether a kernel tracks load so.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.fair.decay_jit import LOAD_AVG_MAX, contrib_of, decay_sum
from wastedcores.simulator.engine.world import cfs_rq, eevdf, entity, rq, sim, task_group

#: LAST_UPDATE of an entity that is part of no queue's average, where the kernel writes 0
DETACHED = -1


@inner
def is_detached(m, se):
    """Return whether the load of an entity is part of no queue's average."""
    return m[se, eevdf.LAST_UPDATE] == DETACHED


@inner
def accrue(m, row, weight, running, is_queue, amount):
    """Add time to the sums of an entity, or of a queue and of its queued entities."""
    m[row, eevdf.LOAD_SUM] += weight * amount
    if is_queue:
        m[row, eevdf.RUNNABLE_SUM] += weight * amount
    if running:
        m[row, eevdf.UTIL_SUM] += amount << 10


@apart(VALUE)
def update_avg(m, row, now, weight, running, is_queue):
    """__update_load_avg(): bring the sums of an entity or of a queue up to date; return whether a period of 1024 us ended."""
    delta = now - m[row, eevdf.LAST_UPDATE]
    if delta < 0:
        m[row, eevdf.LAST_UPDATE] = now
        return False
    delta >>= 10
    if delta == 0:
        return False
    m[row, eevdf.LAST_UPDATE] = now
    decayed = delta + m[row, eevdf.PERIOD_CONTRIB] >= 1024
    if decayed:
        rest = 1024 - m[row, eevdf.PERIOD_CONTRIB]
        m[row, eevdf.PERIOD_CONTRIB] = 0
        accrue(m, row, weight, running, is_queue, rest)
        delta -= rest
        n = delta >> 10
        delta &= 1023
        m[row, eevdf.LOAD_SUM] = decay_sum(m[row, eevdf.LOAD_SUM], n + 1)
        m[row, eevdf.UTIL_SUM] = decay_sum(m[row, eevdf.UTIL_SUM], n + 1)
        if is_queue:
            m[row, eevdf.RUNNABLE_SUM] = decay_sum(m[row, eevdf.RUNNABLE_SUM], n + 1)
        accrue(m, row, weight, running, is_queue, contrib_of(n))
    accrue(m, row, weight, running, is_queue, delta)
    m[row, eevdf.PERIOD_CONTRIB] += delta
    if decayed:
        m[row, eevdf.LOAD_AVG] = m[row, eevdf.LOAD_SUM] // LOAD_AVG_MAX
        m[row, eevdf.UTIL_AVG] = m[row, eevdf.UTIL_SUM] // LOAD_AVG_MAX
        if is_queue:
            m[row, cfs_rq.RUNNABLE_LOAD_AVG] = m[row, eevdf.RUNNABLE_SUM] // LOAD_AVG_MAX
    return decayed


@inner
def update_se(m, se, now):
    """__update_load_avg() of an entity."""
    weight = m[se, entity.WEIGHT] if m[se, entity.ON_RQ] != 0 else 0
    update_avg(m, se, now, weight, m[m[se, entity.CFS_RQ], cfs_rq.CURR] == se, False)


@inner
def update_tg(m, q):
    """update_tg_load_avg(): report the queue's load to its group if it changed by more than 1/64."""
    change = m[q, eevdf.LOAD_AVG] - m[q, cfs_rq.TG_LOAD_CONTRIB]
    if abs(change) > m[q, cfs_rq.TG_LOAD_CONTRIB] // 64:
        m[m[q, cfs_rq.TASK_GROUP], task_group.LOAD_AVG] += change
        m[q, cfs_rq.TG_LOAD_CONTRIB] = m[q, eevdf.LOAD_AVG]


@inner
def subtract(m, q, load, load_sum, util, util_sum):
    """Subtract from a queue's own averages and sums, down to 0 at most."""
    m[q, eevdf.LOAD_AVG] = max(m[q, eevdf.LOAD_AVG] - load, 0)
    m[q, eevdf.LOAD_SUM] = max(m[q, eevdf.LOAD_SUM] - load_sum, 0)
    m[q, eevdf.UTIL_AVG] = max(m[q, eevdf.UTIL_AVG] - util, 0)
    m[q, eevdf.UTIL_SUM] = max(m[q, eevdf.UTIL_SUM] - util_sum, 0)


@apart(VALUE)
def update_queue(m, q):
    """update_cfs_rq_load_avg(): bring a queue up to date, without the tasks that left; return whether its load changed."""
    load = m[q, cfs_rq.REMOVED_LOAD]
    util = m[q, eevdf.REMOVED_UTIL]
    if (load | util) != 0:
        m[q, cfs_rq.REMOVED_LOAD] = 0
        m[q, eevdf.REMOVED_UTIL] = 0
        subtract(m, q, load, load * LOAD_AVG_MAX, util, util * LOAD_AVG_MAX)
    running = m[q, cfs_rq.CURR] >= 0
    decayed = update_avg(m, q, m[0, sim.NOW], m[q, cfs_rq.LOAD_WEIGHT], running, True)
    return decayed or load != 0


@apart(NOTHING)
def update_load_avg(m, se, report):
    """update_load_avg(): bring an entity and its queue up to date, and its group if ``report``."""
    q = m[se, entity.CFS_RQ]
    update_se(m, se, m[0, sim.NOW])
    if update_queue(m, q) and report:
        update_tg(m, q)


@apart(NOTHING)
def update_blocked_queue(m, q):
    """Bring a queue up to date outside of its own events, as update_blocked_averages() does."""
    if update_queue(m, q):
        update_tg(m, q)


@inner
def attach(m, se):
    """attach_entity_load_avg(): add the load of an entity without LAST_UPDATE to its queue's own average."""
    q = m[se, entity.CFS_RQ]
    m[se, eevdf.LAST_UPDATE] = m[q, eevdf.LAST_UPDATE]
    for column in (eevdf.LOAD_AVG, eevdf.LOAD_SUM, eevdf.UTIL_AVG, eevdf.UTIL_SUM):
        m[q, column] += m[se, column]


@apart(NOTHING)
def detach(m, p):
    """detach_entity_load_avg(), task_move_group_fair(): take a task's load off its queue's own average."""
    q = m[p, entity.CFS_RQ]
    update_se(m, p, m[q, eevdf.LAST_UPDATE])
    subtract(
        m,
        q,
        m[p, eevdf.LOAD_AVG],
        m[p, eevdf.LOAD_SUM],
        m[p, eevdf.UTIL_AVG],
        m[p, eevdf.UTIL_SUM],
    )
    m[p, eevdf.LAST_UPDATE] = DETACHED


@apart(NOTHING)
def enqueue_load(m, se):
    """enqueue_entity_load_avg(): add the load of an entity to the queued load, and attach it if it is new here."""
    q = m[se, entity.CFS_RQ]
    migrated = is_detached(m, se)
    if not migrated:
        update_se(m, se, m[0, sim.NOW])
    decayed = update_queue(m, q)
    m[q, cfs_rq.RUNNABLE_LOAD_AVG] += m[se, eevdf.LOAD_AVG]
    m[q, eevdf.RUNNABLE_SUM] += m[se, eevdf.LOAD_SUM]
    if migrated:
        attach(m, se)
    if decayed or migrated:
        update_tg(m, q)


@apart(NOTHING)
def dequeue_load(m, se):
    """dequeue_entity_load_avg(): take the load of an entity off the queued load."""
    q = m[se, entity.CFS_RQ]
    update_load_avg(m, se, True)
    m[q, cfs_rq.RUNNABLE_LOAD_AVG] = max(m[q, cfs_rq.RUNNABLE_LOAD_AVG] - m[se, eevdf.LOAD_AVG], 0)
    m[q, eevdf.RUNNABLE_SUM] = max(m[q, eevdf.RUNNABLE_SUM] - m[se, eevdf.LOAD_SUM], 0)


@apart(NOTHING)
def new_entity(m, se):
    """init_entity_runnable_average(): a new entity counts as fully loaded."""
    m[se, eevdf.LAST_UPDATE] = DETACHED
    m[se, eevdf.PERIOD_CONTRIB] = 1023
    m[se, eevdf.LOAD_AVG] = m[se, entity.WEIGHT]
    m[se, eevdf.LOAD_SUM] = m[se, entity.WEIGHT] * LOAD_AVG_MAX
    m[se, eevdf.UTIL_AVG] = 1024
    m[se, eevdf.UTIL_SUM] = 1024 * LOAD_AVG_MAX


@apart(NOTHING)
def remove(m, p):
    """remove_entity_load_avg(), task_dead_fair(): leave the load of a task to its queue, to subtract.

    A new task was never added. Its load decays over the time for which the machine has been up, which is to nothing.
    """
    q = m[p, entity.CFS_RQ]
    if is_detached(m, p):
        for column in (eevdf.LOAD_SUM, eevdf.UTIL_SUM, eevdf.LOAD_AVG, eevdf.UTIL_AVG):
            m[p, column] = 0
        m[p, eevdf.PERIOD_CONTRIB] = 0
    else:
        update_avg(m, p, m[q, eevdf.LAST_UPDATE], 0, False, False)
    m[q, cfs_rq.REMOVED_LOAD] += m[p, eevdf.LOAD_AVG]
    m[q, eevdf.REMOVED_UTIL] += m[p, eevdf.UTIL_AVG]


@inner
def migrate(m, p):
    """migrate_task_rq_fair(): under v4.4, take a task's load off its queue before its CPU changes; otherwise do nothing."""
    if m[0, sim.LOAD_V4_4] != 0:
        remove(m, p)
        m[p, eevdf.LAST_UPDATE] = DETACHED


# --- the loads that are compared --------------------------------------------------------------------------------------


@inner
def cpu_util(m, cpu):
    """cpu_util(): the utilization of a CPU, at most its capacity."""
    return min(m[cpu + m[0, sim.CPUS], eevdf.UTIL_AVG], m[cpu, rq.CPU_CAPACITY_ORIG])


@inner
def h_load(m, q):
    """update_cfs_rq_h_load(), task_h_load(): the load of a queue as seen from the root, once per jiffy."""
    now = m[0, sim.JIFFIES]
    if m[q, cfs_rq.LAST_H_LOAD_UPDATE] != now:
        se = m[q, cfs_rq.ENTITY]
        if se >= 0:
            root = m[se, entity.CFS_RQ]
            if m[root, cfs_rq.LAST_H_LOAD_UPDATE] != now:
                m[root, cfs_rq.H_LOAD] = m[root, eevdf.LOAD_AVG]
                m[root, cfs_rq.LAST_H_LOAD_UPDATE] = now
            m[q, cfs_rq.H_LOAD] = (
                m[root, cfs_rq.H_LOAD] * m[se, eevdf.LOAD_AVG] // (m[root, eevdf.LOAD_AVG] + 1)
            )
        else:
            m[q, cfs_rq.H_LOAD] = m[q, eevdf.LOAD_AVG]
        m[q, cfs_rq.LAST_H_LOAD_UPDATE] = now
    return m[q, cfs_rq.H_LOAD]


@apart(VALUE)
def task_h_load(m, p):
    """task_h_load(): the load that a task adds to its CPU, seen from the root."""
    q = m[p, entity.CFS_RQ]
    return m[p, eevdf.LOAD_AVG] * h_load(m, q) // (m[q, eevdf.LOAD_AVG] + 1)


@apart(VALUE)
def effective_load(m, tg, cpu, wl, wg):
    """effective_load(): the change of load that moving load causes, for group ``tg``, which is one level below the root."""
    q = m[0, sim.CPUS] * (1 + tg) + cpu
    row = m[q, cfs_rq.TASK_GROUP]
    total = wg + m[row, task_group.LOAD_AVG] - m[q, cfs_rq.TG_LOAD_CONTRIB]
    total += m[q, cfs_rq.LOAD_WEIGHT]
    load = m[q, eevdf.LOAD_AVG] + wl
    if total > 0 and load < total:
        product = load * m[row, task_group.SHARES]
        wl = product // total if product >= 0 else -(-product // total)
    else:
        wl = m[row, task_group.SHARES]
    return max(wl, 2) - m[m[q, cfs_rq.ENTITY], eevdf.LOAD_AVG]
