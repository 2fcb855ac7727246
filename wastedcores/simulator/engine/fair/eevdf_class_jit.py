"""The fair class of v6.12: enqueue, delayed dequeue, pick, tick, wakeup preemption (kernel/sched/fair.c, v6.12.107).

The scheduler calls it through ``eevdf_seam_jit.py``. ``eevdf_jit.py`` has the arithmetic of one queue.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.v6_12_seam_jit import (
    PULL,
    ask_balancer,
    balances_v6_12,
)
from wastedcores.simulator.engine.codes import task_state
from wastedcores.simulator.engine.fair import entity_jit
from wastedcores.simulator.engine.fair.cfs_jit import resched
from wastedcores.simulator.engine.fair.eevdf_jit import (
    avg_vruntime,
    clear_buddies,
    eligible,
    entity_lag,
    insert,
    min_slice,
    pick_eevdf,
    place_entity,
    protected,
    put_prev_entity,
    remove,
    reweight_entity,
    running,
    set_next_entity,
    update_cfs_group,
    update_curr,
    update_deadline,
)
from wastedcores.simulator.engine.fair.eevdf_seam_jit import (
    FAIR_CHOOSE,
    FAIR_DEAD,
    FAIR_DEQUEUE,
    FAIR_ENQUEUE,
    FAIR_FORK,
    FAIR_GROUP,
    FAIR_LEAVE,
    FAIR_MIGRATE,
    FAIR_NICE,
    FAIR_PICK,
    FAIR_POST_INIT,
    FAIR_PREEMPT,
    FAIR_PUT_PREV,
    FAIR_SET,
    FAIR_TICK,
    FAIR_WAKE,
    NEW,
)
from wastedcores.simulator.engine.fair.pelt_v6_12_jit import (
    DO_ATTACH,
    DO_DETACH,
    UPDATE_TG,
    attach_task,
    detach_task,
    post_init_util,
    scale_load_down,
    update_load_avg,
    util_est_update,
)
from wastedcores.simulator.engine.fair.scaled_weights_jit import add_weight, update_runnable
from wastedcores.simulator.engine.fair.signals_v6_12_jit import migrate_task, remove_entity_load_avg
from wastedcores.simulator.engine.world import (
    cfs_rq,
    eevdf,
    entity,
    rq,
    sim,
    task,
    task_group,
    v6_12,
)
from wastedcores.simulator.engine.world.cpusets_jit import item
from wastedcores.simulator.engine.world.log_jit import log_load, log_nr
from wastedcores.simulator.engine.world.rules_jit import rule

#: DEQUEUE_SLEEP, DEQUEUE_DELAYED (the end of a delayed dequeue), DEQUEUE_SPECIAL (never delay); the task changes its CPU
SLEEP, DELAYED, SPECIAL, MIGRATING = 1, 2, 4, 8


@inner
def rq_of(m, p):
    """Return the CPU on whose queue a task is."""
    return m[m[p, entity.CFS_RQ], cfs_rq.CPU]


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
    """requeue_delayed_entity(): wake an entity whose dequeue was delayed; without its lag if that has become positive."""
    q = m[se, entity.CFS_RQ]
    m[se, eevdf.VLAG] = entity_lag(m, avg_vruntime(m, q), se)
    if m[se, eevdf.VLAG] > 0:
        runs = m[q, cfs_rq.CURR] == se
        m[q, cfs_rq.NR_RUNNING] -= 1
        if not runs:
            remove(m, q, se)
        m[se, eevdf.VLAG] = 0
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
        set_delayed(m, se, 1)
        return 0
    is_task = m[se, entity.MY_Q] < 0
    update_load_avg(m, se, UPDATE_TG | DO_DETACH if is_task and flags & MIGRATING else UPDATE_TG)
    update_runnable(m, se)
    m[se, eevdf.VLAG] = entity_lag(m, avg_vruntime(m, q), se)
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
    if flags & SLEEP:
        util_est_update(m, p)
    if m[p, task.STATE] == task_state.DEAD:
        flags |= SPECIAL
    if dequeue_entities(m, p, flags) == 0:
        log_nr(m, cpu)


# --- choice -------------------------------------------------------------------------------------------------------------


@apart(NOTHING)
def put_prev_task(m, p):
    """put_prev_task_fair(): put_prev_entity() on all levels."""
    while p >= 0:
        put_prev_entity(m, p)
        p = m[p, entity.PARENT]


@apart(NOTHING)
def set_next_task(m, p):
    """set_next_task_fair(): set_next_entity() on all levels."""
    while p >= 0:
        set_next_entity(m, p)
        p = m[p, entity.PARENT]


@apart(VALUE)
def pick_task_fair(m, cpu):
    """pick_task_fair(), pick_next_entity(): choose a task; end the delayed dequeue of sleepers that are chosen on the way."""
    root = m[0, sim.CPUS] + cpu
    q = root
    while m[root, cfs_rq.NR_RUNNING] != 0:
        if running(m, q) >= 0:
            update_curr(m, q)
        se = m[q, cfs_rq.NEXT]
        if se < 0 or eligible(m, q, se) == 0:
            se = pick_eevdf(m, q)
            if m[se, eevdf.SCHED_DELAYED] != 0:
                dequeue_entities(m, se, SLEEP | DELAYED)
                q = root
                continue
        q = m[se, entity.MY_Q]
        if q < 0:
            return se
    return -1


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
    """task_tick_fair(), entity_tick(): charge the running task at a tick, on all levels."""
    se = p
    while se >= 0:
        update_curr(m, m[se, entity.CFS_RQ])
        update_load_avg(m, se, UPDATE_TG)
        update_cfs_group(m, se)
        se = m[se, entity.PARENT]
    log_load(m, rq_of(m, p))


@inner
def preempts_short(m, q, se, pse):
    """do_preempt_short(): return whether an entity with a shorter slice may interrupt a protected one."""
    if m[pse, eevdf.SLICE] >= m[se, eevdf.SLICE] or eligible(m, q, pse) == 0:
        return False
    return m[pse, eevdf.DEADLINE] < m[se, eevdf.DEADLINE] or eligible(m, q, se) == 0


@apart(NOTHING)
def check_preempt(m, cpu, p):
    """check_preempt_wakeup_fair(): reschedule if EEVDF would choose the woken task ``p``."""
    curr = m[cpu, rq.CURR]
    if curr < 0:
        resched(m, cpu)
        return
    if curr == p or m[cpu, rq.NEED_RESCHED] != 0:
        return
    se = curr
    pse = p
    if m[se, entity.PARENT] >= 0 and m[pse, entity.PARENT] < 0:
        se = m[se, entity.PARENT]
    elif m[pse, entity.PARENT] >= 0 and m[se, entity.PARENT] < 0:
        pse = m[pse, entity.PARENT]
    while m[se, entity.CFS_RQ] != m[pse, entity.CFS_RQ]:
        se = m[se, entity.PARENT]
        pse = m[pse, entity.PARENT]
    q = m[se, entity.CFS_RQ]
    update_curr(m, q)
    if preempts_short(m, q, se, pse) and protected(m, se):
        m[se, eevdf.VLAG] = m[se, eevdf.DEADLINE] + 1  # cancel_protect_slice()
    if pick_eevdf(m, q) == pse:
        resched(m, cpu)


@apart(VALUE)
def pick_next_task(m, cpu, prev):
    """pick_next_task_fair(): choose and set the next task, after newidle balancing if there is none; return -1 for none.

    A pulled task may be asleep, and leave the queue when it is chosen: then newidle balancing is tried again.
    """
    p = pick_task_fair(m, cpu)
    while p < 0 and balances_v6_12(m) and ask_balancer(m, PULL, cpu, 0, 0) != 0:
        p = pick_task_fair(m, cpu)
    set_picked(m, p, prev)
    return p


# --- what a task does to itself -----------------------------------------------------------------------------------------


@inner
def task_fork(m, p):
    """__sched_fork(), init_entity_runnable_average(): begin the life of a task."""
    m[p, entity.WEIGHT] = item(m, m[0, sim.WEIGHT_LISTS] + m[p, task.NICE] + 20) << 10
    m[p, eevdf.LOAD_AVG] = scale_load_down(m[p, entity.WEIGHT])
    m[p, eevdf.RECENT_USED_CPU] = m[p, task.CPU]


@inner
def set_user_nice(m, p, nice):
    """set_user_nice(), reweight_task_fair(), prio_changed_fair(): change the weight of the running task."""
    change = nice - m[p, task.NICE]
    if change == 0:
        return
    cpu = rq_of(m, p)
    dequeue_task(m, p, 0)
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
    """yield_task_fair(): let an eligible task forgo the rest of its slice."""
    if m[rq_of(m, p), rq.NR_RUNNING] == 1:
        return
    q = m[p, entity.CFS_RQ]
    clear_buddies(m, p)
    update_curr(m, q)
    if eligible(m, q, p) != 0:
        m[p, entity.VRUNTIME] = m[p, eevdf.DEADLINE]
        update_deadline(m, q, p)


@inner
def move_group(m, p, group):
    """sched_move_task(), task_change_group_fair(): move the running task to another group."""
    cpu = rq_of(m, p)
    dequeue_task(m, p, 0)
    put_prev_task(m, p)
    detach_task(m, p)
    m[p, eevdf.LAST_UPDATE] = 0
    m[p, task.GROUP] = group
    entity_jit.set_task_rq(m, p, cpu)
    attach_task(m, p)
    enqueue_task(m, p, 0)
    set_next_task(m, p)
    resched(m, cpu)


# --- several CPUs -------------------------------------------------------------------------------------------------------


@inner
def leave_groups(m, cpu):
    """clear_tg_offline_cfs_rqs(): take a dying CPU off the loads of all task groups."""
    for group in range(1, m[0, sim.TASK_GROUPS]):
        q = m[0, sim.CFS_RQ0] + group * m[0, sim.CPUS] + cpu
        m[m[q, cfs_rq.TASK_GROUP], task_group.LOAD_AVG] -= m[q, cfs_rq.TG_LOAD_CONTRIB]
        m[q, cfs_rq.TG_LOAD_CONTRIB] = 0
        m[q, eevdf.LAST_UPDATE_TG] = m[0, sim.NOW]


@apart(VALUE, entry=True)
def answer(m, question, a, b, c):
    """Do what the scheduler asks for through the seam."""
    if question == FAIR_ENQUEUE:
        enqueue_task(m, a, b == NEW)
    elif question == FAIR_DEQUEUE:
        dequeue_task(m, a, SLEEP if b != 0 else MIGRATING)
    elif question == FAIR_PICK:
        return pick_next_task(m, a, b)
    elif question == FAIR_PUT_PREV:
        put_prev_task(m, a)
    elif question == FAIR_TICK:
        task_tick(m, a)
    elif question == FAIR_PREEMPT:
        check_preempt(m, a, b)
    elif question == FAIR_FORK:
        task_fork(m, a)
    elif question == FAIR_POST_INIT:
        post_init_util(m, a, False)
    elif question == FAIR_NICE:
        set_user_nice(m, a, b)
    elif question == FAIR_GROUP:
        move_group(m, a, b)
    elif question == FAIR_WAKE:
        enqueue_task(m, a, 0)
        check_preempt(m, rq_of(m, a), a)
    elif question == FAIR_MIGRATE:
        migrate_task(m, a)
    elif question == FAIR_CHOOSE:
        return pick_task_fair(m, a)
    elif question == FAIR_SET:
        set_picked(m, a, b)
    elif question == FAIR_LEAVE:
        leave_groups(m, a)
    elif question == FAIR_DEAD:
        remove_entity_load_avg(m, a)  # task_dead_fair(), v6.12.107
    else:
        yield_task(m, a)
    return 0
