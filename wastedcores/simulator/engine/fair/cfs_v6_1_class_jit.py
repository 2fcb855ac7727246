"""The fair class of v6.1: CFS as in v4.1, with the load tracking and the weights of v6.12 (kernel/sched/fair.c, v6.1.192).

The scheduler calls it through ``eevdf_seam_jit.py``. What is equal to v4.1 comes from ``cfs_jit.py``, ``entity_jit.py`` and
``vruntime_jit.py``: the choice of the next entity, buddies, preemption and placement. Long sleepers, whose virtual time does not
count after 104 days, do not occur, because no replay is that long.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.v6_12_seam_jit import PULL, ask_balancer
from wastedcores.simulator.engine.codes import task_state
from wastedcores.simulator.engine.fair.cfs_jit import (
    check_preempt_tick,
    check_preempt_wakeup,
    next_entity,
    resched,
)
from wastedcores.simulator.engine.fair.eevdf_seam_jit import (
    FAIR_CHOOSE,
    FAIR_DEAD,
    FAIR_DEQUEUE,
    FAIR_ENQUEUE,
    FAIR_FORK,
    FAIR_GROUP,
    FAIR_MIGRATE,
    FAIR_NICE,
    FAIR_PICK,
    FAIR_POST_INIT,
    FAIR_PREEMPT,
    FAIR_PUT_PREV,
    FAIR_SET,
    FAIR_TICK,
    FAIR_YIELD,
    WOKEN,
)
from wastedcores.simulator.engine.fair.entity_jit import (
    add_nr_running,
    clear_buddies,
    insert,
    list_add_task,
    list_del_task,
    remove,
    set_buddy,
    set_task_rq,
)
from wastedcores.simulator.engine.fair.pelt_v6_12_jit import (
    DO_ATTACH,
    DO_DETACH,
    MIN_DIVIDER,
    UPDATE_TG,
    UTIL_EST_MARGIN,
    attach_task,
    dequeue_load_avg,
    detach_task,
    enqueue_load_avg,
    post_init_util,
    scale_load_down,
    update_load_avg,
)
from wastedcores.simulator.engine.fair.scaled_weights_jit import (
    add_weight,
    calc_group_shares,
    update_runnable,
)
from wastedcores.simulator.engine.fair.signals_v6_12_jit import migrate_task, remove_entity_load_avg
from wastedcores.simulator.engine.fair.vruntime_jit import (
    inverse_weight,
    place_entity,
    task_fork_fair,
    update_curr,
    update_min_vruntime,
)
from wastedcores.simulator.engine.world import cfs_rq, eevdf, entity, rq, sim, task
from wastedcores.simulator.engine.world.cpusets_jit import item
from wastedcores.simulator.engine.world.log_jit import log_load

#: how a task leaves its queue: asleep; for another CPU; for a moment and for the same queue (DEQUEUE_SAVE without _MOVE)
SLEEP, MIGRATING, SAVED = 1, 2, 4


@inner
def rq_of(m, p):
    """Return the CPU on whose queue a task is."""
    return m[m[p, entity.CFS_RQ], cfs_rq.CPU]


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


# --- choice, tick -------------------------------------------------------------------------------------------------------


@inner
def move_to_head(m, p):
    """list_move(): move a task to the head of rq->cfs_tasks."""
    cpu = rq_of(m, p)
    list_del_task(m, cpu, p)
    list_add_task(m, cpu, p)


@apart(NOTHING)
def set_next_entity(m, se):
    """set_next_entity(): make the chosen entity the running one, and use up its buddy marks."""
    q = m[se, entity.CFS_RQ]
    clear_buddies(m, se)
    if m[se, entity.ON_RQ] != 0:
        remove(m, q, se)
        update_load_avg(m, se, UPDATE_TG)
    m[se, entity.EXEC_START] = m[0, sim.NOW]
    m[q, cfs_rq.CURR] = se
    m[se, entity.PREV_SUM_EXEC_RUNTIME] = m[se, entity.SUM_EXEC_RUNTIME]


@apart(NOTHING)
def put_prev_entity(m, se):
    """put_prev_entity(): put the entity that ran back if it is still queued."""
    q = m[se, entity.CFS_RQ]
    if m[se, entity.ON_RQ] != 0:
        update_curr(m, q)
        insert(m, q, se)
        update_load_avg(m, se, 0)
    m[q, cfs_rq.CURR] = -1


@apart(NOTHING)
def put_prev_task(m, p):
    """put_prev_task_fair(): put_prev_entity() on all levels."""
    while p >= 0:
        put_prev_entity(m, p)
        p = m[p, entity.PARENT]


@apart(NOTHING)
def set_next_task(m, p):
    """set_next_task_fair(): set_next_entity() on all levels."""
    if m[p, entity.ON_RQ] != 0:
        move_to_head(m, p)
    while p >= 0:
        set_next_entity(m, p)
        p = m[p, entity.PARENT]


@apart(VALUE)
def pick_task_fair(m, cpu):
    """pick_next_task_fair(): choose the next task and move it to the head of rq->cfs_tasks; return -1 for none."""
    q = m[0, sim.CPUS] + cpu
    if m[q, cfs_rq.NR_RUNNING] == 0:
        return -1
    se = -1
    while q >= 0:
        curr = m[q, cfs_rq.CURR]
        if curr >= 0 and m[curr, entity.ON_RQ] == 0:
            curr = -1
        if curr >= 0:
            update_curr(m, q)
        se = next_entity(m, q, curr)
        q = m[se, entity.MY_Q]
    move_to_head(m, se)
    return se


@apart(NOTHING)
def set_picked(m, p, prev):
    """pick_next_task_fair(): put back the task that ran and set the chosen one, if there is one.

    Only the levels that differ are put and set. ``prev`` is -1 after the idle task or the stopper.
    """
    if p < 0:
        if prev >= 0:
            put_prev_task(m, prev)
    elif prev < 0:
        set_next_task(m, p)
    elif p != prev:
        se = p
        pse = prev
        while m[se, entity.CFS_RQ] != m[pse, entity.CFS_RQ]:
            depth = 1 if m[se, entity.PARENT] >= 0 else 0
            pdepth = 1 if m[pse, entity.PARENT] >= 0 else 0
            if depth <= pdepth:
                put_prev_entity(m, pse)
                pse = m[pse, entity.PARENT]
            if depth >= pdepth:
                set_next_entity(m, se)
                se = m[se, entity.PARENT]
        put_prev_entity(m, pse)
        set_next_entity(m, se)


@apart(NOTHING)
def task_tick(m, p):
    """task_tick_fair(), entity_tick(): charge the running task at a tick and preempt it if its slice is over, on all levels."""
    se = p
    while se >= 0:
        q = m[se, entity.CFS_RQ]
        update_curr(m, q)
        update_load_avg(m, se, UPDATE_TG)
        update_cfs_group(m, se)
        if m[q, cfs_rq.NR_RUNNING] > 1:
            check_preempt_tick(m, q, se)
        se = m[se, entity.PARENT]
    log_load(m, rq_of(m, p))


@apart(VALUE)
def pick_next_task(m, cpu, prev):
    """pick_next_task_fair(): choose and set the next task, after newidle balancing if there is none; return -1 for none."""
    p = pick_task_fair(m, cpu)
    while p < 0 and ask_balancer(m, PULL, cpu, 0, 0) != 0:
        p = pick_task_fair(m, cpu)
    set_picked(m, p, prev)
    return p


# --- what a task does to itself -----------------------------------------------------------------------------------------


@inner
def task_fork(m, p):
    """sched_fork(), init_entity_runnable_average(), task_fork_fair(): begin the life of a task and place it."""
    m[p, entity.WEIGHT] = item(m, m[0, sim.WEIGHT_LISTS] + m[p, task.NICE] + 20) << 10
    m[p, eevdf.LOAD_AVG] = scale_load_down(m[p, entity.WEIGHT])
    m[p, eevdf.RECENT_USED_CPU] = m[p, task.CPU]
    task_fork_fair(m, p, m[p, task.CPU])


@inner
def set_user_nice(m, p, nice):
    """set_user_nice(), reweight_task(), prio_changed_fair(): change the weight of the running task."""
    change = nice - m[p, task.NICE]
    if change == 0:
        return
    cpu = rq_of(m, p)
    dequeue_task(m, p, SAVED)
    put_prev_task(m, p)
    m[p, task.NICE] = nice
    weight = item(m, m[0, sim.WEIGHT_LISTS] + nice + 20) << 10
    reweight_entity(m, p, weight, item(m, m[0, sim.WEIGHT_LISTS] + 40 + nice + 20))
    enqueue_task(m, p, 0)
    set_next_task(m, p)
    if change > 0 and m[m[0, sim.CPUS] + cpu, cfs_rq.NR_RUNNING] > 1:
        resched(m, cpu)


@inner
def yield_task(m, p):
    """yield_task_fair(): let a task give way to the next one in the tree."""
    if m[rq_of(m, p), rq.NR_RUNNING] == 1:
        return
    clear_buddies(m, p)
    update_curr(m, m[p, entity.CFS_RQ])
    set_buddy(m, p, cfs_rq.SKIP)


@inner
def move_group(m, p, group):
    """sched_move_task(), task_change_group_fair(): move the running task to another group."""
    cpu = rq_of(m, p)
    dequeue_task(m, p, 0)
    put_prev_task(m, p)
    detach_task(m, p)
    m[p, eevdf.LAST_UPDATE] = 0
    m[p, task.GROUP] = group
    set_task_rq(m, p, cpu)
    attach_task(m, p)
    enqueue_task(m, p, 0)
    set_next_task(m, p)
    resched(m, cpu)


@inner
def leave_cpu(m, p):
    """migrate_task_rq_fair(): make the virtual time of a sleeper relative when it changes its CPU."""
    if m[p, task.STATE] == task_state.WAKING and m[p, eevdf.LAST_UPDATE] != 0:
        m[p, entity.VRUNTIME] -= m[m[p, entity.CFS_RQ], cfs_rq.MIN_VRUNTIME]
    migrate_task(m, p)


@apart(VALUE, entry=True)
def answer(m, question, a, b, c):
    """Do what the scheduler asks for through the seam. The loads of groups stay when a CPU goes offline (FAIR_LEAVE)."""
    if question == FAIR_ENQUEUE:
        enqueue_task(m, a, 1 if b == WOKEN else 0)
    elif question == FAIR_DEQUEUE:
        dequeue_task(m, a, SLEEP if b != 0 else MIGRATING)
    elif question == FAIR_PICK:
        return pick_next_task(m, a, b)
    elif question == FAIR_PUT_PREV:
        put_prev_task(m, a)
    elif question == FAIR_TICK:
        task_tick(m, a)
    elif question == FAIR_PREEMPT:
        check_preempt_wakeup(m, a, b)
    elif question == FAIR_FORK:
        task_fork(m, a)
    elif question == FAIR_POST_INIT:
        post_init_util(m, a, True)
    elif question == FAIR_NICE:
        set_user_nice(m, a, b)
    elif question == FAIR_GROUP:
        move_group(m, a, b)
    elif question == FAIR_MIGRATE:
        leave_cpu(m, a)
    elif question == FAIR_CHOOSE:
        return pick_task_fair(m, a)
    elif question == FAIR_SET:
        set_picked(m, a, b)
    elif question == FAIR_DEAD:
        remove_entity_load_avg(m, a)  # task_dead_fair()
    elif question == FAIR_YIELD:
        yield_task(m, a)
    return 0
