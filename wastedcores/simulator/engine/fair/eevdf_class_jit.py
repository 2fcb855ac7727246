"""The fair class of v6.12: queueing with the delayed dequeue, pick, tick, wakeup preemption (kernel/sched/fair.c, v6.12.107).

The scheduler calls it through the addresses in ``FairClass``. ``eevdf_jit.py`` has the arithmetic of one queue.
"""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import arrival, dequeue, task_state
from wastedcores.simulator.engine.fair import entity_jit
from wastedcores.simulator.engine.fair.cfs_jit import hrtick_update, resched, resched_lazy
from wastedcores.simulator.engine.fair.eevdf_jit import (
    eligible,
    insert,
    min_slice,
    pick_eevdf,
    place_entity,
    protected,
    remove,
    running,
    shorten_protection,
    update_cfs_group,
    update_curr,
    update_deadline,
    update_entity_lag,
)
from wastedcores.simulator.engine.fair.entity_jit import (
    account_dequeue,
    account_enqueue,
    clear_buddies,
)
from wastedcores.simulator.engine.fair.modern_task_jit import begin_task, rq_of, update_runnable
from wastedcores.simulator.engine.fair.pelt_v6_12_jit import (
    DO_ATTACH,
    DO_DETACH,
    UPDATE_TG,
    post_init_util,
    update_load_avg,
    util_est_update,
)
from wastedcores.simulator.engine.world.log_jit import log_load, log_nr
from wastedcores.simulator.engine.world.rows_jit import cpu_cfs_rq, cpu_rq, modern, task_of
from wastedcores.simulator.engine.world.structs import (
    NO_ENTITY,
    NO_QUEUE,
    NO_TASK,
    CfsRq,
    Kernel,
    SchedEntity,
    TaskStruct,
)


@inner
def set_delayed(k: Kernel, se: SchedEntity, delayed: int) -> None:
    """set_delayed(), clear_delayed(): set or clear the mark of a sleeper that stays queued; count it if it is a task."""
    se.sched_delayed = delayed
    if not se.my_q:
        change = 1 if delayed != 0 else -1
        while se:
            se.cfs_rq.h_nr_delayed += change
            se = se.parent


# --- enqueue ------------------------------------------------------------------------------------------------------------


@apart(NOTHING)
def enqueue_entity(k: Kernel, se: SchedEntity, initial: int) -> None:
    """enqueue_entity(), account_entity_enqueue(): put one entity on its queue."""
    q = se.cfs_rq
    runs = q.curr == se
    if runs:
        place_entity(k, q, se, initial)
    update_curr(k, q)
    update_load_avg(k, se, UPDATE_TG | DO_ATTACH)
    update_runnable(k, se)
    update_cfs_group(k, se)
    if not runs:
        place_entity(k, q, se, initial)
    account_enqueue(k, q, se)
    if not runs:
        insert(k, q, se)
    se.on_rq = 1
    q.on_list = 1


@apart(NOTHING)
def requeue_delayed(k: Kernel, se: SchedEntity) -> None:
    """requeue_delayed_entity(): wake an entity whose dequeue was delayed. If its lag has become positive, the lag is dropped.

    Since v7.2 the entity is placed anew if its lag was changed.
    """
    q = se.cfs_rq
    kept = modern(k).sleepers_lag_kept != 0
    if kept:
        update_curr(k, q)
    changed = update_entity_lag(k, se)
    if not kept:
        changed = se.vlag > 0
    if changed:
        runs = q.curr == se
        q.nr_running -= 1
        if not runs:
            remove(k, q, se)
        se.vlag = min(se.vlag, 0)
        place_entity(k, q, se, 0)
        if not runs:
            insert(k, q, se)
        q.nr_running += 1
    update_load_avg(k, se, 0)
    set_delayed(k, se, 0)


@apart(NOTHING)
def update_above(k: Kernel, se: SchedEntity, slice_ns: int, queued: int, delayed: int) -> None:
    """Update the levels that stay queued while a task below them comes (``queued`` is 1) or goes (-1).

    ``delayed`` is equal to ``queued`` if the task is asleep, and 0 otherwise.
    """
    while se:
        q = se.cfs_rq
        update_load_avg(k, se, UPDATE_TG)
        update_runnable(k, se)
        update_cfs_group(k, se)
        se.slice = slice_ns
        slice_ns = min_slice(k, q)
        q.h_nr_running += queued
        q.h_nr_delayed += delayed
        se = se.parent


@apart(NOTHING)
def enqueue_task(k: Kernel, p: TaskStruct, how: int) -> None:
    """enqueue_task_fair(), add_nr_running(): put a task on the runqueue, and its group if the group was not queued."""
    cpu = rq_of(k, p)
    cpu_rq(k, cpu).clock = k.now_ns
    # a sleeper that was queued on another CPU stays asleep, and does not count in the expected use of this CPU
    asleep = 1 if p.se.sched_delayed != 0 and p.se.on_rq == 0 else 0
    if asleep == 0:
        cpu_cfs_rq(k, cpu).avg.util_est += p.se.avg.util_est
    if p.se.sched_delayed != 0 and p.se.on_rq != 0:
        requeue_delayed(k, p.se)
        log_nr(k, cpu)
        return
    slice_ns = 0
    initial = 1 if how == arrival.NEW else 0
    se = p.se
    while se:
        if se.on_rq != 0:
            if se.sched_delayed != 0:
                requeue_delayed(k, se)
            break
        if slice_ns != 0:
            se.slice = slice_ns
            se.custom_slice = 1
        q = se.cfs_rq
        enqueue_entity(k, se, initial)
        slice_ns = min_slice(k, q)
        q.h_nr_running += 1
        q.h_nr_delayed += asleep
        initial = 0
        se = se.parent
    update_above(k, se, slice_ns, 1, asleep)
    log_load(k, cpu)
    entity_jit.add_nr_running(k, cpu, 1)
    hrtick_update(k, cpu)


# --- dequeue ------------------------------------------------------------------------------------------------------------


@apart(VALUE)
def dequeue_entity(k: Kernel, se: SchedEntity, flags: int) -> int:
    """dequeue_entity(): take one entity off its queue; return 0 if the dequeue is delayed."""
    q = se.cfs_rq
    update_curr(k, q)
    clear_buddies(k, se)
    delays = modern(k).delay_dequeue != 0
    if (
        delays
        and flags & (dequeue.SLEEP | dequeue.DELAYED | dequeue.SPECIAL) == dequeue.SLEEP
        and eligible(k, q, se) == 0
    ):
        update_load_avg(k, se, 0)
        if not se.my_q and modern(k).util_est_at_dequeue != 0:
            util_est_update(k, task_of(se))
        if modern(k).sleepers_lag_kept != 0:
            update_entity_lag(k, se)
        set_delayed(k, se, 1)
        return 0
    is_task = se.my_q == NO_QUEUE
    update_load_avg(
        k, se, UPDATE_TG | DO_DETACH if is_task and flags & dequeue.MIGRATING else UPDATE_TG
    )
    if (
        is_task
        and flags & (dequeue.SLEEP | dequeue.DELAYED) == dequeue.SLEEP
        and modern(k).util_est_at_dequeue != 0
    ):
        util_est_update(k, task_of(se))
    update_runnable(k, se)
    update_entity_lag(k, se)
    if not flags & dequeue.SLEEP:
        se.deadline -= se.vruntime
        se.rel_deadline = 1
    if q.curr != se:
        remove(k, q, se)
    se.on_rq = 0
    account_dequeue(k, q, se)
    update_cfs_group(k, se)
    if flags & dequeue.DELAYED:
        set_delayed(k, se, 0)
        se.vlag = min(se.vlag, 0)
    return 1


@apart(VALUE)
def dequeue_entities(k: Kernel, se: SchedEntity, flags: int) -> int:
    """dequeue_entities(): take a task or group off its queue, and then emptied groups, too; return 0 if this is delayed."""
    cpu = rq_of(k, task_of(se))
    tasks = 1 if not se.my_q else 0
    sleeps = flags & dequeue.SLEEP
    ends_delay = flags & dequeue.DELAYED
    # a sleeper that moves to another CPU stays asleep
    stays = tasks == 1 and se.sched_delayed != 0 and flags & (dequeue.SLEEP | dequeue.DELAYED) == 0
    asleep = 1 if stays else 0
    slice_ns = min_slice(k, se.my_q) if tasks == 0 else 0
    while se:
        q = se.cfs_rq
        if dequeue_entity(k, se, flags) == 0:
            if not se.my_q:
                return 0
            slice_ns = min_slice(k, q)
            break
        q.h_nr_running -= tasks
        q.h_nr_delayed -= asleep
        se = se.parent
        if q.load_weight != 0:
            slice_ns = min_slice(k, q)
            if sleeps and se:
                entity_jit.set_buddy(k, se, CfsRq.next)
            break
        flags = (flags | dequeue.SLEEP) & ~(dequeue.DELAYED | dequeue.SPECIAL)
    update_above(k, se, slice_ns, -tasks, -asleep)
    if tasks:
        log_load(k, cpu)
        if ends_delay:
            # in the log the task has been asleep since its dequeue was delayed
            cpu_rq(k, cpu).nr_running -= 1
        else:
            entity_jit.add_nr_running(k, cpu, -1)
    return 1


@apart(NOTHING)
def dequeue_task(k: Kernel, p: TaskStruct, flags: int) -> None:
    """dequeue_task_fair(): take a task off its runqueue, or let it stay there asleep; a dying task never stays."""
    cpu = rq_of(k, p)
    root = cpu_cfs_rq(k, cpu)
    cpu_rq(k, cpu).clock = k.now_ns
    if flags & dequeue.SLEEP or p.se.sched_delayed == 0:
        root.avg.util_est -= min(root.avg.util_est, p.se.avg.util_est)
    if flags & dequeue.SLEEP and modern(k).util_est_at_dequeue == 0:
        util_est_update(k, p)
    if p.state == task_state.DEAD:
        flags |= dequeue.SPECIAL
    if dequeue_entities(k, p.se, flags) == 0:
        log_nr(k, cpu)


# --- choice -------------------------------------------------------------------------------------------------------------


@apart(VALUE)
def pick_next_entity(k: Kernel, q: CfsRq, protects: int) -> SchedEntity:
    """pick_next_entity(): choose an entity. If it was a sleeper, it now leaves the queue, and the result is NULL."""
    se = q.next
    # an entity that is alone on its queue is chosen in any case
    if protects != 0 and se and eligible(k, q, se) != 0:
        return se
    se = pick_eevdf(k, q, protects)
    if se.sched_delayed != 0:
        dequeue_entities(k, se, dequeue.SLEEP | dequeue.DELAYED)
        return NO_ENTITY
    return se


@apart(VALUE)
def pick_task(k: Kernel, cpu: int) -> TaskStruct:
    """pick_task_fair(): choose a task; end the delayed dequeue of sleepers that are chosen on the way."""
    root = cpu_cfs_rq(k, cpu)
    q = root
    while root.nr_running != 0:
        if running(k, q):
            update_curr(k, q)
        se = pick_next_entity(k, q, 1)
        if not se:
            q = root
            continue
        q = se.my_q
        if not q:
            return task_of(se)
    return NO_TASK


@apart(NOTHING)
def task_tick(k: Kernel, p: TaskStruct) -> None:
    """task_tick_fair(), entity_tick(): charge the running task at a tick, on all levels."""
    se = p.se
    while se:
        update_curr(k, se.cfs_rq)
        update_load_avg(k, se, UPDATE_TG)
        update_cfs_group(k, se)
        se = se.parent
    log_load(k, rq_of(k, p))


@inner
def preempts_short(k: Kernel, q: CfsRq, se: SchedEntity, pse: SchedEntity) -> bool:
    """do_preempt_short(): return whether an entity with a shorter slice may interrupt a protected one."""
    if pse.slice >= se.slice or eligible(k, q, pse) == 0:
        return False
    return pse.deadline < se.deadline or eligible(k, q, se) == 0


@apart(NOTHING)
def wakeup_preempt(k: Kernel, cpu: int, p: TaskStruct, new: int) -> None:
    """check_preempt_wakeup_fair(), wakeup_preempt_fair(): reschedule if EEVDF would choose the task ``p``.

    Since v7.2 a new task, or a task that sleeps, does not preempt unless its slice is shorter.
    """
    curr = cpu_rq(k, cpu).curr
    if not curr:
        resched(k, cpu)
        return
    if curr == p or cpu_rq(k, cpu).need_resched != 0:
        return
    se = curr.se
    pse = p.se
    if se.parent and not pse.parent:
        se = se.parent
    elif pse.parent and not se.parent:
        pse = pse.parent
    while se.cfs_rq != pse.cfs_rq:
        se = se.parent
        pse = pse.parent
    q = se.cfs_rq
    update_curr(k, q)
    if modern(k).slice_end_stored == 0:
        if preempts_short(k, q, se, pse) and protected(k, se):
            se.vlag = se.deadline + 1  # cancel_protect_slice()
        if pick_eevdf(k, q, 1) == pse:
            resched_lazy(k, cpu)
        return
    short = pse.slice < se.slice
    picks = modern(k).wakeup_picks != 0
    protects = 0 if short else 1
    if picks:
        if not short and (new != 0 or pse.sched_delayed != 0):
            return
        chosen = pick_next_entity(k, q, protects)
        while not chosen and q.nr_running != 0:
            chosen = pick_next_entity(k, q, protects)
    else:
        chosen = pick_eevdf(k, q, protects)
    if chosen != pse:
        if short or picks:
            shorten_protection(k, se, min_slice(k, q))
        return
    if short:
        if protected(k, se):
            se.vprot = se.vruntime  # cancel_protect_slice()
        if picks:
            clear_buddies(k, se)
    resched_lazy(k, cpu)


@apart(NOTHING)
def task_fork(k: Kernel, p: TaskStruct) -> None:
    """__sched_fork(), init_entity_runnable_average(): begin the life of a task."""
    begin_task(k, p)


@apart(NOTHING)
def yield_task(k: Kernel, p: TaskStruct) -> None:
    """yield_task_fair(): let an eligible task forgo the rest of its slice."""
    if cpu_rq(k, rq_of(k, p)).nr_running == 1:
        return
    q = p.se.cfs_rq
    clear_buddies(k, p.se)
    update_curr(k, q)
    if eligible(k, q, p.se) != 0:
        p.se.vruntime = p.se.deadline
        update_deadline(k, q, p.se)


@apart(NOTHING)
def rq_offline(k: Kernel, cpu: int) -> None:
    """clear_tg_offline_cfs_rqs(): subtract the part of a dying CPU from the loads of all task groups."""
    for group in range(1, k.task_groups):
        q = CfsRq(k, k.cfs_rq0 + group * k.nr_cpus + cpu)
        q.task_group.load_avg -= q.tg_load_contrib
        q.tg_load_contrib = 0
        q.last_update_tg = k.now_ns


@apart(NOTHING)
def wake_delayed(k: Kernel, p: TaskStruct) -> None:
    """ttwu_runnable(): wake a task that is still queued."""
    enqueue_task(k, p, 0)
    wakeup_preempt(k, rq_of(k, p), p, 0)


@apart(NOTHING)
def post_init_entity_util_avg(k: Kernel, p: TaskStruct) -> None:
    """post_init_entity_util_avg() of a task."""
    post_init_util(k, p.se, False)
