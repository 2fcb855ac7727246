"""The fair class of v6.1: CFS as in v4.1, with the load tracking and the weights of v6.12 (kernel/sched/fair.c, v6.1.192).

The addresses of its functions are in ``FairClass``. The choice of the next entity, buddies, preemption and placement are as in
v4.1 and come from ``cfs_jit.py``, ``entity_jit.py`` and ``vruntime_jit.py``. v6.1 ignores the virtual time of a task that has
slept for 104 days. This does not occur here, because no replay is that long.
"""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import arrival, dequeue, task_state
from wastedcores.simulator.engine.fair.cfs_jit import check_preempt_tick, next_entity
from wastedcores.simulator.engine.fair.entity_jit import (
    account_dequeue,
    account_enqueue,
    add_nr_running,
    add_weight,
    clear_buddies,
    insert,
    list_add_task,
    list_del_task,
    remove,
    set_buddy,
)
from wastedcores.simulator.engine.fair.modern_task_jit import (
    begin_task,
    calc_group_shares,
    migrate_task,
    rq_of,
    set_weight,
    update_runnable,
)
from wastedcores.simulator.engine.fair.pelt_v6_12_jit import (
    DO_ATTACH,
    DO_DETACH,
    UPDATE_TG,
    UTIL_EST_MARGIN,
    post_init_util,
    scale_load_down,
    update_load_avg,
)
from wastedcores.simulator.engine.fair.vruntime_jit import (
    inverse_weight,
    place_entity,
    task_fork_fair,
    update_curr,
    update_min_vruntime,
)
from wastedcores.simulator.engine.world.log_jit import log_load
from wastedcores.simulator.engine.world.rows_jit import cpu_cfs_rq, cpu_rq, task_of
from wastedcores.simulator.engine.world.structs import (
    NO_ENTITY,
    NO_QUEUE,
    NO_TASK,
    CfsRq,
    Kernel,
    SchedEntity,
    TaskStruct,
)

# --- weights of groups --------------------------------------------------------------------------------------------------


@apart(NOTHING)
def reweight_entity(k: Kernel, se: SchedEntity, weight: int, inv: int) -> None:
    """reweight_entity(): change a weight and keep the virtual time."""
    q = se.cfs_rq
    on_rq = se.on_rq != 0
    if on_rq:
        if q.curr == se:
            update_curr(k, q)
        add_weight(k, q, se, -1)
    set_weight(k, q, se, weight, inv)
    if on_rq:
        add_weight(k, q, se, 1)


@inner
def update_cfs_group(k: Kernel, se: SchedEntity) -> None:
    """update_cfs_group(): give a group's entity its CPU's part of the group's weight, even if the group has no task there."""
    g = se.my_q
    if g:
        weight = calc_group_shares(k, g)
        reweight_entity(k, se, weight, inverse_weight(scale_load_down(weight)))


# --- enqueue, dequeue ---------------------------------------------------------------------------------------------------


@apart(NOTHING)
def enqueue_entity(k: Kernel, se: SchedEntity, wakeup: int) -> None:
    """enqueue_entity(), account_entity_enqueue(): put one entity on its queue.

    The virtual time of an entity is relative to the queue that it left, unless the entity is a sleeper that wakes on its old CPU.
    """
    q = se.cfs_rq
    runs = q.curr == se
    is_task = se.my_q == NO_QUEUE
    relative = wakeup == 0 or (is_task and se.avg.last_update == 0)
    if relative and runs:
        se.vruntime += q.min_vruntime
    update_curr(k, q)
    if relative and not runs:
        se.vruntime += q.min_vruntime
    update_load_avg(k, se, UPDATE_TG | DO_ATTACH)
    update_runnable(k, se)
    update_cfs_group(k, se)
    account_enqueue(k, q, se)
    if wakeup:
        place_entity(k, q, se, False)
    if not runs:
        insert(k, q, se)
    se.on_rq = 1
    q.on_list = 1


@apart(NOTHING)
def dequeue_entity(k: Kernel, se: SchedEntity, flags: int) -> None:
    """dequeue_entity(), account_entity_dequeue(): take one entity off its queue."""
    q = se.cfs_rq
    is_task = se.my_q == NO_QUEUE
    update_curr(k, q)
    update_load_avg(
        k, se, UPDATE_TG | DO_DETACH if is_task and flags & dequeue.MIGRATING else UPDATE_TG
    )
    update_runnable(k, se)
    clear_buddies(k, se)
    if q.curr != se:
        remove(k, q, se)
    se.on_rq = 0
    account_dequeue(k, q, se)
    if flags & dequeue.SLEEP == 0:
        se.vruntime -= q.min_vruntime
    update_cfs_group(k, se)
    if flags & dequeue.SAVED == 0:
        update_min_vruntime(k, q)


@apart(NOTHING)
def update_above(k: Kernel, se: SchedEntity, change: int) -> None:
    """Update the levels that stay queued while a task below them comes (``change`` is 1) or goes (-1)."""
    while se:
        update_load_avg(k, se, UPDATE_TG)
        update_runnable(k, se)
        update_cfs_group(k, se)
        se.cfs_rq.h_nr_running += change
        se = se.parent


@apart(NOTHING)
def enqueue_task(k: Kernel, p: TaskStruct, how: int) -> None:
    """enqueue_task_fair(), add_nr_running(): put a task on the runqueue, and its group if the group was not queued."""
    cpu = rq_of(k, p)
    cpu_rq(k, cpu).clock = k.now_ns
    cpu_cfs_rq(k, cpu).avg.util_est += p.se.avg.util_est
    wakeup = 1 if how == arrival.WOKEN else 0
    se = p.se
    while se and se.on_rq == 0:
        enqueue_entity(k, se, wakeup)
        se.cfs_rq.h_nr_running += 1
        wakeup = 1
        se = se.parent
    update_above(k, se, 1)
    log_load(k, cpu)
    add_nr_running(k, cpu, 1)


@inner
def util_est_update(k: Kernel, p: TaskStruct) -> None:
    """util_est_update(): update the estimate of a task's use after it left the queue to sleep.

    UTIL_EST_FASTUP: the average follows a rise at once. At each update it goes a quarter of the way to a lower value.
    """
    if p.se.avg.unchanged != 0:
        return
    last = p.util_enqueued
    util = p.se.avg.util_avg
    fall = p.util_ewma - util
    if fall < 0:
        p.util_ewma = util
    elif fall < UTIL_EST_MARGIN:
        if abs(last - util) < UTIL_EST_MARGIN:
            return
    elif util > 1024:
        return
    else:
        p.util_ewma = (p.util_ewma * 4 - fall) >> 2
    p.util_enqueued = util
    p.se.avg.util_est = max(p.util_ewma, util)
    p.se.avg.unchanged = 1


@apart(NOTHING)
def dequeue_task(k: Kernel, p: TaskStruct, flags: int) -> None:
    """dequeue_task_fair(), sub_nr_running(): take a task off the runqueue, and its group if the group is then empty."""
    cpu = rq_of(k, p)
    root = cpu_cfs_rq(k, cpu)
    cpu_rq(k, cpu).clock = k.now_ns
    root.avg.util_est -= min(root.avg.util_est, p.se.avg.util_est)
    below = flags
    se = p.se
    while se:
        q = se.cfs_rq
        dequeue_entity(k, se, below)
        q.h_nr_running -= 1
        se = se.parent
        if q.load_weight != 0:
            # other tasks of the group remain: prefer to continue with the group
            if flags & dequeue.SLEEP and se:
                set_buddy(k, se, CfsRq.next)
            break
        below |= dequeue.SLEEP
    update_above(k, se, -1)
    log_load(k, cpu)
    add_nr_running(k, cpu, -1)
    if flags & dequeue.SLEEP:
        util_est_update(k, p)


# --- choice, tick -------------------------------------------------------------------------------------------------------


@apart(NOTHING)
def set_next_entity(k: Kernel, se: SchedEntity, first: int) -> None:
    """set_next_entity(): make the chosen entity the running one, and clear its buddy marks."""
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
    """put_prev_entity(): if the entity that ran is still queued, put it back into the tree."""
    q = se.cfs_rq
    if se.on_rq != 0:
        update_curr(k, q)
        insert(k, q, se)
        update_load_avg(k, se, 0)
    q.curr = NO_ENTITY


@apart(VALUE)
def pick_task(k: Kernel, cpu: int) -> TaskStruct:
    """pick_next_task_fair(): choose the next task and move it to the head of rq->cfs_tasks; return NULL if there is none."""
    q = cpu_cfs_rq(k, cpu)
    if q.nr_running == 0:
        return NO_TASK
    se = NO_ENTITY
    while q:
        curr = q.curr
        if curr and curr.on_rq == 0:
            curr = NO_ENTITY
        if curr:
            update_curr(k, q)
        se = next_entity(k, q, curr)
        q = se.my_q
    p = task_of(se)
    list_del_task(k, cpu, p)
    list_add_task(k, cpu, p)
    return p


@apart(NOTHING)
def task_tick(k: Kernel, p: TaskStruct) -> None:
    """task_tick_fair(), entity_tick(): on all levels, charge the running task at a tick and preempt it if its slice is over."""
    se = p.se
    while se:
        q = se.cfs_rq
        update_curr(k, q)
        update_load_avg(k, se, UPDATE_TG)
        update_cfs_group(k, se)
        if q.nr_running > 1:
            check_preempt_tick(k, q, se)
        se = se.parent
    log_load(k, rq_of(k, p))


@apart(NOTHING)
def task_fork(k: Kernel, p: TaskStruct) -> None:
    """sched_fork(), init_entity_runnable_average(), task_fork_fair(): begin the life of a task and place it."""
    begin_task(k, p)
    task_fork_fair(k, p, p.cpu)


@apart(NOTHING)
def yield_task(k: Kernel, p: TaskStruct) -> None:
    """yield_task_fair(): let a task give way to the next one in the tree."""
    if cpu_rq(k, rq_of(k, p)).nr_running == 1:
        return
    clear_buddies(k, p.se)
    update_curr(k, p.se.cfs_rq)
    set_buddy(k, p.se, CfsRq.skip)


@apart(NOTHING)
def migrate_task_rq(k: Kernel, p: TaskStruct) -> None:
    """migrate_task_rq_fair(): make the virtual time of a sleeper relative when it changes its CPU."""
    if p.state == task_state.WAKING and p.se.avg.last_update != 0:
        p.se.vruntime -= p.se.cfs_rq.min_vruntime
    migrate_task(k, p)


@apart(NOTHING)
def wake_delayed(k: Kernel, p: TaskStruct) -> None:
    """Do nothing: CFS has no task that is asleep and queued."""


@apart(NOTHING)
def rq_offline(k: Kernel, cpu: int) -> None:
    """rq_offline_fair(): do nothing; the loads of groups stay as they are when a CPU goes offline."""


@apart(NOTHING)
def post_init_entity_util_avg(k: Kernel, p: TaskStruct) -> None:
    """post_init_entity_util_avg() of a task."""
    post_init_util(k, p.se, True)
