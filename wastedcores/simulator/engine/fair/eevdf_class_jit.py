"""The fair class of v6.12: pick, tick, wakeup preemption (kernel/sched/fair.c, v6.12.107).

The scheduler calls it through ``eevdf_seam_jit.py``. ``eevdf_jit.py`` has the arithmetic of one
queue, and ``eevdf_queue_jit.py`` enqueues and dequeues.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.v6_12_seam_jit import (
    PULL,
    ask_balancer,
    balances_v6_12,
)
from wastedcores.simulator.engine.fair.cfs_jit import resched
from wastedcores.simulator.engine.fair.eevdf_jit import (
    clear_buddies,
    eligible,
    min_slice,
    pick_eevdf,
    protected,
    put_prev_entity,
    reweight_entity,
    running,
    set_next_entity,
    shorten_protection,
    update_cfs_group,
    update_curr,
    update_deadline,
)
from wastedcores.simulator.engine.fair.eevdf_queue_jit import (
    DELAYED,
    MIGRATING,
    SLEEP,
    dequeue_entities,
    dequeue_task,
    enqueue_task,
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
    FAIR_ONLINE,
    FAIR_PICK,
    FAIR_POST_INIT,
    FAIR_PREEMPT,
    FAIR_PREEMPT_NEW,
    FAIR_PUT_PREV,
    FAIR_SET,
    FAIR_TICK,
    FAIR_WAKE,
    NEW,
)
from wastedcores.simulator.engine.fair.modern_task_jit import (
    begin_task,
    change_group,
    inverse_of,
    rq_of,
    weight_of,
)
from wastedcores.simulator.engine.fair.pelt_v6_12_jit import (
    UPDATE_TG,
    attach_task,
    post_init_util,
    update_load_avg,
)
from wastedcores.simulator.engine.fair.preemption_jit import hrtick_start, resched_lazy
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
from wastedcores.simulator.engine.world.log_jit import log_load
from wastedcores.simulator.engine.world.rules_jit import rule

# --- choice -------------------------------------------------------------------------------------------------------------


@apart(NOTHING)
def put_prev_task(m, p):
    """put_prev_task_fair(): put_prev_entity() on all levels."""
    se = p
    while se >= 0:
        put_prev_entity(m, se)
        se = m[se, entity.PARENT]


@apart(NOTHING)
def set_next_task(m, p, first):
    """set_next_task_fair(): set_next_entity() on all levels; ``first`` is 0 of a task that ran already."""
    se = p
    while se >= 0:
        set_next_entity(m, se, first)
        se = m[se, entity.PARENT]


@apart(VALUE)
def pick_next_entity(m, q, protects):
    """pick_next_entity(): choose an entity; -1 if it was a sleeper, which now leaves the queue."""
    se = m[q, cfs_rq.NEXT]
    # an entity that is alone is chosen either way
    if protects != 0 and se >= 0 and eligible(m, q, se) != 0:
        return se
    se = pick_eevdf(m, q, protects)
    if m[se, eevdf.SCHED_DELAYED] != 0:
        dequeue_entities(m, se, SLEEP | DELAYED)
        return -1
    return se


@apart(VALUE)
def pick_task_fair(m, cpu):
    """pick_task_fair(): choose a task; end the delayed dequeue of sleepers that are chosen on the way."""
    root = m[0, sim.CPUS] + cpu
    q = root
    while m[root, cfs_rq.NR_RUNNING] != 0:
        if running(m, q) >= 0:
            update_curr(m, q)
        se = pick_next_entity(m, q, 1)
        if se < 0:
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
        set_next_task(m, p, 1)
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
                set_next_entity(m, se, 1)
                se = m[se, entity.PARENT]
        put_prev_entity(m, pse)
        set_next_entity(m, se, 1)


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
def check_preempt(m, cpu, p, new):
    """check_preempt_wakeup_fair(), wakeup_preempt_fair(): reschedule if EEVDF would choose the task ``p``.

    Since v7.2 a new task, or one that sleeps, does not preempt.
    """
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
    if not rule(m, v6_12.SLICE_END_STORED):
        if preempts_short(m, q, se, pse) and protected(m, se):
            m[se, eevdf.VLAG] = m[se, eevdf.DEADLINE] + 1  # cancel_protect_slice()
        if pick_eevdf(m, q, 1) == pse:
            resched_lazy(m, cpu)
        return
    short = m[pse, eevdf.SLICE] < m[se, eevdf.SLICE]
    picks = rule(m, v6_12.WAKEUP_PICKS)
    protects = 0 if short else 1
    if picks:
        if not short and (new != 0 or m[pse, eevdf.SCHED_DELAYED] != 0):
            return
        chosen = pick_next_entity(m, q, protects)
        while chosen < 0 and m[q, cfs_rq.NR_RUNNING] != 0:
            chosen = pick_next_entity(m, q, protects)
    else:
        chosen = pick_eevdf(m, q, protects)
    if chosen != pse:
        if short or picks:
            shorten_protection(m, se, min_slice(m, q))
        return
    if short:
        if protected(m, se):
            m[se, eevdf.VPROT] = m[se, entity.VRUNTIME]  # cancel_protect_slice()
        if picks:
            clear_buddies(m, se)
    resched_lazy(m, cpu)


@apart(VALUE)
def pick_next_task(m, cpu, prev):
    """pick_next_task_fair(): choose and set the next task, after newidle balancing if there is none; return -1 for none.

    A pulled task may be asleep, and leave the queue when it is chosen: then newidle balancing is tried again.
    """
    p = pick_task_fair(m, cpu)
    while p < 0 and balances_v6_12(m) and ask_balancer(m, PULL, cpu, 0, 0) != 0:
        p = pick_task_fair(m, cpu)
    set_picked(m, p, prev)
    if p >= 0 and p != prev:
        hrtick_start(m, cpu, p)
    return p


# --- what a task does to itself -----------------------------------------------------------------------------------------


@inner
def task_fork(m, p):
    """__sched_fork(), init_entity_runnable_average(): begin the life of a task."""
    begin_task(m, p)


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
    reweight_entity(m, p, weight_of(m, nice), inverse_of(m, nice))
    enqueue_task(m, p, 0)
    set_next_task(m, p, 0)
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
    change_group(m, p, cpu, group)
    enqueue_task(m, p, 0)
    set_next_task(m, p, 0)
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
        check_preempt(m, a, b, 0)
    elif question == FAIR_PREEMPT_NEW:
        check_preempt(m, a, b, 1)
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
        check_preempt(m, rq_of(m, a), a, 0)
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
    elif question == FAIR_ONLINE:
        attach_task(m, a)  # online_fair_sched_group()
    else:
        yield_task(m, a)
    return 0
