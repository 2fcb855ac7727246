"""How EEVDF queues tasks and takes them off, with the delayed dequeue (kernel/sched/fair.c, v6.12.107)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import task_state
from wastedcores.simulator.engine.fair import entity_jit
from wastedcores.simulator.engine.fair.eevdf_jit import (
    clear_buddies,
    eligible,
    insert,
    min_slice,
    place_entity,
    remove,
    update_cfs_group,
    update_curr,
    update_entity_lag,
)
from wastedcores.simulator.engine.fair.modern_task_jit import (
    rq_of,
)
from wastedcores.simulator.engine.fair.pelt_v6_12_jit import (
    DO_ATTACH,
    DO_DETACH,
    UPDATE_TG,
    update_load_avg,
    util_est_update,
)
from wastedcores.simulator.engine.fair.preemption_jit import hrtick_update
from wastedcores.simulator.engine.fair.scaled_weights_jit import add_weight, update_runnable
from wastedcores.simulator.engine.world import (
    cfs_rq,
    eevdf,
    entity,
    rq,
    sim,
    task,
    v6_12,
)
from wastedcores.simulator.engine.world.log_jit import log_load, log_nr
from wastedcores.simulator.engine.world.rules_jit import rule

#: DEQUEUE_SLEEP, DEQUEUE_DELAYED (the end of a delayed dequeue), DEQUEUE_SPECIAL (never delay); the task changes its CPU
SLEEP, DELAYED, SPECIAL, MIGRATING = 1, 2, 4, 8


@inner
def set_delayed(m, se, delayed):
    """set_delayed(), clear_delayed(): mark a sleeper that stays queued; only tasks are counted."""
    m[se, eevdf.SCHED_DELAYED] = delayed
    if m[se, entity.MY_Q] < 0:
        change = 1 if delayed != 0 else -1
        while se >= 0:
            m[m[se, entity.CFS_RQ], eevdf.H_NR_DELAYED] += change
            se = m[se, entity.PARENT]


# --- enqueue ------------------------------------------------------------------------------------------------------------


@apart(NOTHING)
def enqueue_entity(m, se, initial):
    """enqueue_entity(), account_entity_enqueue(): put one entity on its queue."""
    q = m[se, entity.CFS_RQ]
    runs = m[q, cfs_rq.CURR] == se
    if runs:
        place_entity(m, q, se, initial)
    update_curr(m, q)
    update_load_avg(m, se, UPDATE_TG | DO_ATTACH)
    update_runnable(m, se)
    update_cfs_group(m, se)
    if not runs:
        place_entity(m, q, se, initial)
    add_weight(m, q, se, 1)
    if m[se, entity.MY_Q] < 0:
        entity_jit.list_add_task(m, m[q, cfs_rq.CPU], se)
    m[q, cfs_rq.NR_RUNNING] += 1
    if not runs:
        insert(m, q, se)
    m[se, entity.ON_RQ] = 1
    m[q, cfs_rq.ON_LIST] = 1


@apart(NOTHING)
def requeue_delayed(m, se):
    """requeue_delayed_entity(): wake an entity whose dequeue was delayed; without its lag if that has become positive.

    Since v7.2 it is placed anew if its lag was changed.
    """
    q = m[se, entity.CFS_RQ]
    kept = rule(m, v6_12.SLEEPERS_LAG_KEPT)
    if kept:
        update_curr(m, q)
    changed = update_entity_lag(m, se)
    if not kept:
        changed = m[se, eevdf.VLAG] > 0
    if changed:
        runs = m[q, cfs_rq.CURR] == se
        m[q, cfs_rq.NR_RUNNING] -= 1
        if not runs:
            remove(m, q, se)
        m[se, eevdf.VLAG] = min(m[se, eevdf.VLAG], 0)
        place_entity(m, q, se, 0)
        if not runs:
            insert(m, q, se)
        m[q, cfs_rq.NR_RUNNING] += 1
    update_load_avg(m, se, 0)
    set_delayed(m, se, 0)


@apart(NOTHING)
def update_above(m, se, slice_ns, queued, delayed):
    """Update the levels that stay queued while a task below them comes (``queued`` is 1) or goes (-1).

    ``delayed`` is the same for a task that is asleep, otherwise 0.
    """
    while se >= 0:
        q = m[se, entity.CFS_RQ]
        update_load_avg(m, se, UPDATE_TG)
        update_runnable(m, se)
        update_cfs_group(m, se)
        m[se, eevdf.SLICE] = slice_ns
        slice_ns = min_slice(m, q)
        m[q, cfs_rq.H_NR_RUNNING] += queued
        m[q, eevdf.H_NR_DELAYED] += delayed
        se = m[se, entity.PARENT]


@apart(NOTHING)
def enqueue_task(m, p, initial):
    """enqueue_task_fair(), add_nr_running(): put a task, and its group if that was not queued, on the runqueue."""
    cpu = rq_of(m, p)
    m[cpu, rq.CLOCK] = m[0, sim.NOW]
    # a sleeper that was queued elsewhere stays asleep, and was not expected to use the CPU
    asleep = 1 if m[p, eevdf.SCHED_DELAYED] != 0 and m[p, entity.ON_RQ] == 0 else 0
    if asleep == 0:
        m[m[0, sim.CPUS] + cpu, eevdf.UTIL_EST] += m[p, eevdf.UTIL_EST]
    if m[p, eevdf.SCHED_DELAYED] != 0 and m[p, entity.ON_RQ] != 0:
        requeue_delayed(m, p)
        log_nr(m, cpu)
        return
    slice_ns = 0
    se = p
    while se >= 0:
        if m[se, entity.ON_RQ] != 0:
            if m[se, eevdf.SCHED_DELAYED] != 0:
                requeue_delayed(m, se)
            break
        if slice_ns != 0:
            m[se, eevdf.SLICE] = slice_ns
            m[se, eevdf.CUSTOM_SLICE] = 1
        q = m[se, entity.CFS_RQ]
        enqueue_entity(m, se, initial)
        slice_ns = min_slice(m, q)
        m[q, cfs_rq.H_NR_RUNNING] += 1
        m[q, eevdf.H_NR_DELAYED] += asleep
        initial = 0
        se = m[se, entity.PARENT]
    update_above(m, se, slice_ns, 1, asleep)
    log_load(m, cpu)
    entity_jit.add_nr_running(m, cpu, 1)
    hrtick_update(m, cpu)


# --- dequeue ------------------------------------------------------------------------------------------------------------


@apart(VALUE)
def dequeue_entity(m, se, flags):
    """dequeue_entity(): take one entity off its queue; return 0 if the dequeue is delayed."""
    q = m[se, entity.CFS_RQ]
    update_curr(m, q)
    clear_buddies(m, se)
    delays = rule(m, v6_12.DELAY_DEQUEUE)
    if delays and flags & (SLEEP | DELAYED | SPECIAL) == SLEEP and eligible(m, q, se) == 0:
        update_load_avg(m, se, 0)
        if m[se, entity.MY_Q] < 0 and rule(m, v6_12.UTIL_EST_AT_DEQUEUE):
            util_est_update(m, se)
        if rule(m, v6_12.SLEEPERS_LAG_KEPT):
            update_entity_lag(m, se)
        set_delayed(m, se, 1)
        return 0
    is_task = m[se, entity.MY_Q] < 0
    update_load_avg(m, se, UPDATE_TG | DO_DETACH if is_task and flags & MIGRATING else UPDATE_TG)
    if is_task and flags & (SLEEP | DELAYED) == SLEEP and rule(m, v6_12.UTIL_EST_AT_DEQUEUE):
        util_est_update(m, se)
    update_runnable(m, se)
    update_entity_lag(m, se)
    if not flags & SLEEP:
        m[se, eevdf.DEADLINE] -= m[se, entity.VRUNTIME]
        m[se, eevdf.REL_DEADLINE] = 1
    if m[q, cfs_rq.CURR] != se:
        remove(m, q, se)
    m[se, entity.ON_RQ] = 0
    add_weight(m, q, se, -1)
    if is_task:
        entity_jit.list_del_task(m, m[q, cfs_rq.CPU], se)
    m[q, cfs_rq.NR_RUNNING] -= 1
    update_cfs_group(m, se)
    if flags & DELAYED:
        set_delayed(m, se, 0)
        m[se, eevdf.VLAG] = min(m[se, eevdf.VLAG], 0)
    return 1


@apart(VALUE)
def dequeue_entities(m, se, flags):
    """dequeue_entities(): take a task or a group's entity off, with the groups that it leaves empty; 0 if that is delayed."""
    cpu = rq_of(m, se)
    tasks = 1 if m[se, entity.MY_Q] < 0 else 0
    sleeps = flags & SLEEP
    ends_delay = flags & DELAYED
    # a sleeper that moves to another CPU stays asleep
    stays = tasks == 1 and m[se, eevdf.SCHED_DELAYED] != 0 and flags & (SLEEP | DELAYED) == 0
    asleep = 1 if stays else 0
    slice_ns = min_slice(m, m[se, entity.MY_Q]) if tasks == 0 else 0
    while se >= 0:
        q = m[se, entity.CFS_RQ]
        if dequeue_entity(m, se, flags) == 0:
            if m[se, entity.MY_Q] < 0:
                return 0
            slice_ns = min_slice(m, q)
            break
        m[q, cfs_rq.H_NR_RUNNING] -= tasks
        m[q, eevdf.H_NR_DELAYED] -= asleep
        se = m[se, entity.PARENT]
        if m[q, cfs_rq.LOAD_WEIGHT] != 0:
            slice_ns = min_slice(m, q)
            if sleeps and se >= 0:
                entity_jit.set_buddy(m, se, cfs_rq.NEXT)
            break
        flags = (flags | SLEEP) & ~(DELAYED | SPECIAL)
    update_above(m, se, slice_ns, -tasks, -asleep)
    if tasks:
        log_load(m, cpu)
        if ends_delay:
            # the log has counted it as asleep since its dequeue was delayed
            m[cpu, rq.NR_RUNNING] -= 1
        else:
            entity_jit.add_nr_running(m, cpu, -1)
    return 1


@apart(NOTHING)
def dequeue_task(m, p, flags):
    """dequeue_task_fair(): take a task off its runqueue, or let it stay there asleep; a dying task never stays."""
    cpu = rq_of(m, p)
    root = m[0, sim.CPUS] + cpu
    m[cpu, rq.CLOCK] = m[0, sim.NOW]
    if flags & SLEEP or m[p, eevdf.SCHED_DELAYED] == 0:
        m[root, eevdf.UTIL_EST] -= min(m[root, eevdf.UTIL_EST], m[p, eevdf.UTIL_EST])
    if flags & SLEEP and not rule(m, v6_12.UTIL_EST_AT_DEQUEUE):
        util_est_update(m, p)
    if m[p, task.STATE] == task_state.DEAD:
        flags |= SPECIAL
    if dequeue_entities(m, p, flags) == 0:
        log_nr(m, cpu)
