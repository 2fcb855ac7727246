"""The fair class of v6.12: pick, tick, wakeup preemption (kernel/sched/fair.c, v6.12.107).

The scheduler calls it through the addresses in ``FairClass``. ``eevdf_jit.py`` has the arithmetic of one
queue, and ``eevdf_queue_jit.py`` enqueues and dequeues.
"""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import dequeue
from wastedcores.simulator.engine.fair.cfs_jit import resched, resched_lazy
from wastedcores.simulator.engine.fair.eevdf_jit import (
    eligible,
    min_slice,
    pick_eevdf,
    protected,
    running,
    shorten_protection,
    update_cfs_group,
    update_curr,
    update_deadline,
)
from wastedcores.simulator.engine.fair.eevdf_queue_jit import dequeue_entities, enqueue_task
from wastedcores.simulator.engine.fair.entity_jit import clear_buddies
from wastedcores.simulator.engine.fair.modern_task_jit import begin_task, rq_of
from wastedcores.simulator.engine.fair.pelt_v6_12_jit import (
    UPDATE_TG,
    post_init_util,
    update_load_avg,
)
from wastedcores.simulator.engine.world.log_jit import log_load
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

# --- choice -------------------------------------------------------------------------------------------------------------


@apart(VALUE)
def pick_next_entity(k: Kernel, q: CfsRq, protects: int) -> SchedEntity:
    """pick_next_entity(): choose an entity; NULL if it was a sleeper, which now leaves the queue."""
    se = q.next
    # an entity that is alone is chosen either way
    if protects != 0 and se != NO_ENTITY and eligible(k, q, se) != 0:
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
        if running(k, q) != NO_ENTITY:
            update_curr(k, q)
        se = pick_next_entity(k, q, 1)
        if se == NO_ENTITY:
            q = root
            continue
        q = se.my_q
        if q == NO_QUEUE:
            return task_of(se)
    return NO_TASK


@apart(NOTHING)
def task_tick(k: Kernel, p: TaskStruct) -> None:
    """task_tick_fair(), entity_tick(): charge the running task at a tick, on all levels."""
    se = p.se
    while se != NO_ENTITY:
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

    Since v7.2 a new task, or one that sleeps, does not preempt.
    """
    curr = cpu_rq(k, cpu).curr
    if curr == NO_TASK:
        resched(k, cpu)
        return
    if curr == p or cpu_rq(k, cpu).need_resched != 0:
        return
    se = curr.se
    pse = p.se
    if se.parent != NO_ENTITY and pse.parent == NO_ENTITY:
        se = se.parent
    elif pse.parent != NO_ENTITY and se.parent == NO_ENTITY:
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
        while chosen == NO_ENTITY and q.nr_running != 0:
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
    """clear_tg_offline_cfs_rqs(): take a dying CPU off the loads of all task groups."""
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
