"""The fair class of v6.1: CFS as in v4.1, with the load tracking and the weights of v6.12 (kernel/sched/fair.c, v6.1.192).

The scheduler calls it through ``eevdf_seam_jit.py``. What is equal to v4.1 comes from ``cfs_jit.py``, ``entity_jit.py`` and
``vruntime_jit.py``: the choice of the next entity, buddies, preemption and placement. Long sleepers, whose virtual time does not
count after 104 days, do not occur, because no replay is that long. ``cfs_v6_1_queue_jit.py`` enqueues and dequeues.
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
from wastedcores.simulator.engine.fair.cfs_v6_1_queue_jit import (
    MIGRATING,
    SAVED,
    SLEEP,
    dequeue_task,
    enqueue_task,
    reweight_entity,
    update_cfs_group,
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
    FAIR_ONLINE,
    FAIR_PICK,
    FAIR_POST_INIT,
    FAIR_PREEMPT,
    FAIR_PREEMPT_NEW,
    FAIR_PUT_PREV,
    FAIR_SET,
    FAIR_TICK,
    FAIR_YIELD,
    WOKEN,
)
from wastedcores.simulator.engine.fair.entity_jit import (
    clear_buddies,
    insert,
    list_add_task,
    list_del_task,
    remove,
    set_buddy,
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
from wastedcores.simulator.engine.fair.signals_v6_12_jit import migrate_task, remove_entity_load_avg
from wastedcores.simulator.engine.fair.vruntime_jit import (
    task_fork_fair,
    update_curr,
)
from wastedcores.simulator.engine.world import cfs_rq, eevdf, entity, rq, sim, task
from wastedcores.simulator.engine.world.log_jit import log_load

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
    se = p
    while se >= 0:
        put_prev_entity(m, se)
        se = m[se, entity.PARENT]


@apart(NOTHING)
def set_next_task(m, p):
    """set_next_task_fair(): set_next_entity() on all levels."""
    if m[p, entity.ON_RQ] != 0:
        move_to_head(m, p)
    se = p
    while se >= 0:
        set_next_entity(m, se)
        se = m[se, entity.PARENT]


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
    p = se
    move_to_head(m, p)
    return p


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
    begin_task(m, p)
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
    reweight_entity(m, p, weight_of(m, nice), inverse_of(m, nice))
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
    change_group(m, p, cpu, group)
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
    elif question in (FAIR_PREEMPT, FAIR_PREEMPT_NEW):
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
    elif question == FAIR_ONLINE:
        attach_task(m, a)  # online_fair_sched_group()
    elif question == FAIR_YIELD:
        yield_task(m, a)
    return 0
