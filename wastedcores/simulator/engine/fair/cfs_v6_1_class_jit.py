"""The fair class of v6.1: CFS as in v4.1, with the load tracking and the weights of v6.12 (kernel/sched/fair.c, v6.1.192).

Its addresses are in ``FairClass``. What is equal to v4.1 comes from ``cfs_jit.py``, ``entity_jit.py`` and
``vruntime_jit.py``: the choice of the next entity, buddies, preemption and placement. Long sleepers, whose virtual time does not
count after 104 days, do not occur, because no replay is that long. ``cfs_v6_1_queue_jit.py`` enqueues and dequeues.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import arrival, task_state
from wastedcores.simulator.engine.fair.cfs_jit import check_preempt_tick, next_entity, resched
from wastedcores.simulator.engine.fair.cfs_v6_1_queue_jit import (
    MIGRATING,
    SAVED,
    SLEEP,
    dequeue_task,
    enqueue_task,
    reweight_entity,
    update_cfs_group,
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
    post_init_util,
    update_load_avg,
)
from wastedcores.simulator.engine.fair.signals_v6_12_jit import migrate_task
from wastedcores.simulator.engine.fair.vruntime_jit import task_fork_fair, update_curr
from wastedcores.simulator.engine.world.log_jit import log_load
from wastedcores.simulator.engine.world.rows_jit import balancer, cpu_cfs_rq, cpu_rq, task_of
from wastedcores.simulator.engine.world.structs import (
    NO_ENTITY,
    NO_QUEUE,
    NO_TASK,
    CfsRq,
    Kernel,
    SchedEntity,
    TaskStruct,
)

# --- choice, tick -------------------------------------------------------------------------------------------------------


@inner
def move_to_head(k: Kernel, p: TaskStruct) -> None:
    """list_move(): move a task to the head of rq->cfs_tasks."""
    cpu = rq_of(k, p)
    list_del_task(k, cpu, p)
    list_add_task(k, cpu, p)


@apart(NOTHING)
def set_next_entity(k: Kernel, se: SchedEntity) -> None:
    """set_next_entity(): make the chosen entity the running one, and use up its buddy marks."""
    q = se.cfs_rq
    clear_buddies(k, se)
    if se.on_rq != 0:
        remove(k, q, se)
        update_load_avg(k, se, UPDATE_TG)
    se.exec_start = k.now_ns
    q.curr = se
    se.prev_sum_exec_runtime = se.sum_exec_runtime


@apart(NOTHING)
def put_prev_entity(k: Kernel, se: SchedEntity) -> None:
    """put_prev_entity(): put the entity that ran back if it is still queued."""
    q = se.cfs_rq
    if se.on_rq != 0:
        update_curr(k, q)
        insert(k, q, se)
        update_load_avg(k, se, 0)
    q.curr = NO_ENTITY


@apart(NOTHING)
def put_prev_task(k: Kernel, p: TaskStruct) -> None:
    """put_prev_task_fair(): put_prev_entity() on all levels."""
    se = p.se
    while se != NO_ENTITY:
        put_prev_entity(k, se)
        se = se.parent


@apart(NOTHING)
def set_next_task(k: Kernel, p: TaskStruct) -> None:
    """set_next_task_fair(): set_next_entity() on all levels."""
    if p.se.on_rq != 0:
        move_to_head(k, p)
    se = p.se
    while se != NO_ENTITY:
        set_next_entity(k, se)
        se = se.parent


@apart(VALUE)
def pick_task_fair(k: Kernel, cpu: int) -> TaskStruct:
    """pick_next_task_fair(): choose the next task and move it to the head of rq->cfs_tasks; return NULL for none."""
    q = cpu_cfs_rq(k, cpu)
    if q.nr_running == 0:
        return NO_TASK
    se = NO_ENTITY
    while q != NO_QUEUE:
        curr = q.curr
        if curr != NO_ENTITY and curr.on_rq == 0:
            curr = NO_ENTITY
        if curr != NO_ENTITY:
            update_curr(k, q)
        se = next_entity(k, q, curr)
        q = se.my_q
    p = task_of(se)
    move_to_head(k, p)
    return p


@apart(NOTHING)
def set_picked(k: Kernel, p: TaskStruct, prev: TaskStruct) -> None:
    """pick_next_task_fair(): put back the task that ran and set the chosen one, if there is one.

    Only the levels that differ are put and set. ``prev`` is NULL after the idle task or the stopper.
    """
    if p == NO_TASK:
        if prev != NO_TASK:
            put_prev_task(k, prev)
    elif prev == NO_TASK:
        set_next_task(k, p)
    elif p != prev:
        se = p.se
        pse = prev.se
        while se.cfs_rq != pse.cfs_rq:
            depth = 1 if se.parent != NO_ENTITY else 0
            pdepth = 1 if pse.parent != NO_ENTITY else 0
            if depth <= pdepth:
                put_prev_entity(k, pse)
                pse = pse.parent
            if depth >= pdepth:
                set_next_entity(k, se)
                se = se.parent
        put_prev_entity(k, pse)
        set_next_entity(k, se)


@apart(NOTHING)
def task_tick(k: Kernel, p: TaskStruct) -> None:
    """task_tick_fair(), entity_tick(): charge the running task at a tick and preempt it if its slice is over, on all levels."""
    se = p.se
    while se != NO_ENTITY:
        q = se.cfs_rq
        update_curr(k, q)
        update_load_avg(k, se, UPDATE_TG)
        update_cfs_group(k, se)
        if q.nr_running > 1:
            check_preempt_tick(k, q, se)
        se = se.parent
    log_load(k, rq_of(k, p))


@apart(VALUE)
def pick_next_task(k: Kernel, cpu: int, prev: TaskStruct) -> TaskStruct:
    """pick_next_task_fair(): choose and set the next task, after newidle balancing if there is none; return NULL for none."""
    p = pick_task_fair(k, cpu)
    while p == NO_TASK and balancer(k).newidle_balance(k, cpu) != 0:
        p = pick_task_fair(k, cpu)
    set_picked(k, p, prev)
    return p


# --- what a task does to itself -----------------------------------------------------------------------------------------


@apart(NOTHING)
def task_fork(k: Kernel, p: TaskStruct) -> None:
    """sched_fork(), init_entity_runnable_average(), task_fork_fair(): begin the life of a task and place it."""
    begin_task(k, p)
    task_fork_fair(k, p, p.cpu)


@apart(NOTHING)
def set_user_nice(k: Kernel, p: TaskStruct, nice: int) -> None:
    """set_user_nice(), reweight_task(), prio_changed_fair(): change the weight of the running task."""
    change = nice - p.nice
    if change == 0:
        return
    cpu = rq_of(k, p)
    dequeue_task(k, p, SAVED)
    put_prev_task(k, p)
    p.nice = nice
    reweight_entity(k, p.se, weight_of(k, nice), inverse_of(k, nice))
    enqueue_task(k, p, 0)
    set_next_task(k, p)
    if change > 0 and cpu_cfs_rq(k, cpu).nr_running > 1:
        resched(k, cpu)


@apart(NOTHING)
def yield_task(k: Kernel, p: TaskStruct) -> None:
    """yield_task_fair(): let a task give way to the next one in the tree."""
    if cpu_rq(k, rq_of(k, p)).nr_running == 1:
        return
    clear_buddies(k, p.se)
    update_curr(k, p.se.cfs_rq)
    set_buddy(k, p.se, CfsRq.skip)


@apart(NOTHING)
def move_group(k: Kernel, p: TaskStruct, group: int) -> None:
    """sched_move_task(), task_change_group_fair(): move the running task to another group."""
    cpu = rq_of(k, p)
    dequeue_task(k, p, 0)
    put_prev_task(k, p)
    change_group(k, p, cpu, group)
    enqueue_task(k, p, 0)
    set_next_task(k, p)
    resched(k, cpu)


@apart(NOTHING)
def leave_cpu(k: Kernel, p: TaskStruct) -> None:
    """migrate_task_rq_fair(): make the virtual time of a sleeper relative when it changes its CPU."""
    if p.state == task_state.WAKING and p.se.avg.last_update != 0:
        p.se.vruntime -= p.se.cfs_rq.min_vruntime
    migrate_task(k, p)


# --- what the scheduler calls (wastedcores/simulator/engine/classes.py) ---------------------------------------------------


@apart(NOTHING)
def enqueue_task_fair(k: Kernel, p: TaskStruct, how: int) -> None:
    """enqueue_task_fair()."""
    enqueue_task(k, p, 1 if how == arrival.WOKEN else 0)


@apart(NOTHING)
def dequeue_task_fair(k: Kernel, p: TaskStruct, sleep: int) -> None:
    """dequeue_task_fair()."""
    dequeue_task(k, p, SLEEP if sleep != 0 else MIGRATING)


@apart(NOTHING)
def never(k: Kernel, p: TaskStruct) -> None:
    """Do nothing: CFS has no task that is asleep and queued."""


@apart(NOTHING)
def rq_offline(k: Kernel, cpu: int) -> None:
    """rq_offline_fair(): the loads of groups stay when a CPU goes offline."""


@apart(NOTHING)
def post_init_entity_util_avg(k: Kernel, p: TaskStruct) -> None:
    """post_init_entity_util_avg() of a task."""
    post_init_util(k, p.se, True)
