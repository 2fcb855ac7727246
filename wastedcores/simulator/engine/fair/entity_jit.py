"""Enqueueing and dequeueing of CFS entities: the sorted queue, weights and group shares.

At the end are the functions that enqueue or dequeue a task of any class.

Source: kernel/sched/fair.c, v4.1; docs/scheduler-model.md, section 1.
"""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.codes import arrival
from wastedcores.simulator.engine.codes import dequeue as flags
from wastedcores.simulator.engine.fair.pelt_jit import (
    dequeue_load_avg,
    enqueue_load_avg,
    update_entity_load_avg,
)
from wastedcores.simulator.engine.fair.vruntime_jit import (
    SCHED_IDLE,
    inverse_weight,
    place_entity,
    update_curr,
    update_min_vruntime,
    weighed,
)
from wastedcores.simulator.engine.world.log_jit import log_load, log_nr
from wastedcores.simulator.engine.world.rows_jit import cpu_rq, fair_class, rt_class, task_of
from wastedcores.simulator.engine.world.structs import (
    NO_ENTITY,
    NO_TASK,
    CfsRq,
    Kernel,
    SchedEntity,
    TaskStruct,
)


@inner
def link(k: Kernel, q: CfsRq, se: SchedEntity, after: SchedEntity) -> None:
    """Put an entity after the entity ``after`` of the queue, or at the front of the queue if ``after`` is NULL."""
    if not after:
        following = q.leftmost
        q.leftmost = se
    else:
        following = after.next
        after.next = se
    se.prev = after
    se.next = following
    if not following:
        q.rightmost = se
    else:
        following.prev = se


@inner
def insert(k: Kernel, q: CfsRq, se: SchedEntity) -> None:
    """__enqueue_entity(): insert an entity into the queue, which is sorted by vruntime."""
    v = se.vruntime
    after = q.rightmost
    while after and after.vruntime > v:
        after = after.prev
    link(k, q, se, after)


@inner
def remove(k: Kernel, q: CfsRq, se: SchedEntity) -> None:
    """__dequeue_entity(): remove an entity from the sorted queue."""
    before = se.prev
    after = se.next
    if not before:
        q.leftmost = after
    else:
        before.next = after
    if not after:
        q.rightmost = before
    else:
        after.prev = before


@inner
def list_add_task(k: Kernel, cpu: int, p: TaskStruct) -> None:
    """Put a task at the head of rq->cfs_tasks."""
    head = cpu_rq(k, cpu).cfs_tasks
    p.cfs_tasks_prev = NO_TASK
    p.cfs_tasks_next = head
    if not head:
        cpu_rq(k, cpu).cfs_tasks_tail = p
    else:
        head.cfs_tasks_prev = p
    cpu_rq(k, cpu).cfs_tasks = p


@inner
def add_weight(k: Kernel, q: CfsRq, se: SchedEntity, sign: int) -> None:
    """Add the weight of an entity to its queue (``sign`` is 1), or subtract it (-1)."""
    q.load_weight += sign * se.weight
    if not se.parent:
        cpu_rq(k, q.cpu).load_weight += sign * weighed(k, se.weight)


@inner
def account_enqueue(k: Kernel, q: CfsRq, se: SchedEntity) -> None:
    """account_entity_enqueue(): add the weight; a task goes to the head of rq->cfs_tasks."""
    add_weight(k, q, se, 1)
    q.nr_running += 1
    if not se.my_q:
        list_add_task(k, q.cpu, task_of(se))


@inner
def list_del_task(k: Kernel, cpu: int, p: TaskStruct) -> None:
    """Remove a task from rq->cfs_tasks."""
    before = p.cfs_tasks_prev
    after = p.cfs_tasks_next
    if not before:
        cpu_rq(k, cpu).cfs_tasks = after
    else:
        before.cfs_tasks_next = after
    if not after:
        cpu_rq(k, cpu).cfs_tasks_tail = before
    else:
        after.cfs_tasks_prev = before


@inner
def list_move_tail(k: Kernel, cpu: int, p: TaskStruct) -> None:
    """list_move_tail(): move a task to the end of rq->cfs_tasks."""
    list_del_task(k, cpu, p)
    tail = cpu_rq(k, cpu).cfs_tasks_tail
    p.cfs_tasks_next = NO_TASK
    p.cfs_tasks_prev = tail
    if not tail:
        cpu_rq(k, cpu).cfs_tasks = p
    else:
        tail.cfs_tasks_next = p
    cpu_rq(k, cpu).cfs_tasks_tail = p


@inner
def account_dequeue(k: Kernel, q: CfsRq, se: SchedEntity) -> None:
    """account_entity_dequeue(): subtract the weight and take a task off rq->cfs_tasks."""
    add_weight(k, q, se, -1)
    q.nr_running -= 1
    if not se.my_q:
        list_del_task(k, q.cpu, task_of(se))


@inner
def update_cfs_shares(k: Kernel, q: CfsRq) -> None:
    """update_cfs_shares(), calc_cfs_shares(), reweight_entity(): give a group's entity its share of the group's weight."""
    se = q.entity
    if not se:
        return
    tg = q.task_group
    total = tg.load_avg - q.tg_load_contrib + q.load_weight
    shares = tg.shares * q.load_weight
    if total != 0:
        # C division rounds towards zero, and the total can be negative for a moment
        shares = shares // total if total > 0 else -(shares // -total)
    shares = max(shares, 2)
    shares = min(shares, tg.shares)
    up = se.cfs_rq
    if se.on_rq != 0:
        if up.curr == se:
            update_curr(k, up)
        change = shares - se.weight
        up.load_weight += change
        if not se.parent:
            cpu_rq(k, up.cpu).load_weight += change
    if shares != se.weight:
        se.weight = shares
        se.inv_weight = inverse_weight(shares)


@inner
def enqueue_entity(k: Kernel, se: SchedEntity, wakeup: int, waking: int) -> None:
    """enqueue_entity(): put one entity on its queue."""
    q = se.cfs_rq
    if not wakeup or waking:
        se.vruntime += q.min_vruntime
    update_curr(k, q)
    enqueue_load_avg(k, se, wakeup)
    account_enqueue(k, q, se)
    update_cfs_shares(k, q)
    if wakeup:
        place_entity(k, q, se, False)
    if se != q.curr:
        insert(k, q, se)
    se.on_rq = 1
    if q.nr_running == 1:
        q.on_list = 1


@inner
def update_level(k: Kernel, se: SchedEntity) -> None:
    """Update an entity above a task that came or left: first its weight and then its load; under v4.4 first its load."""
    if k.load_v4_4 != 0:
        update_entity_load_avg(k, se, True)
        update_cfs_shares(k, se.cfs_rq)
        return
    update_cfs_shares(k, se.cfs_rq)
    update_entity_load_avg(k, se, True)


@apart(NOTHING)
def enqueue_task(k: Kernel, p: TaskStruct, wakeup: int, waking: int) -> None:
    """enqueue_task_fair(), add_nr_running(): put a task on the runqueue, and its group if the group was not queued."""
    if k.is_modern != 0:
        fair_class(k).enqueue_task(k, p, arrival.WOKEN if wakeup else arrival.MOVED)
        return
    se = p.se
    while se and se.on_rq == 0:
        enqueue_entity(k, se, wakeup, waking)
        se.cfs_rq.h_nr_running += 1
        wakeup = True
        waking = False
        se = se.parent
    while se:
        se.cfs_rq.h_nr_running += 1
        update_level(k, se)
        se = se.parent
    cpu = p.se.cfs_rq.cpu
    cpu_rq(k, cpu).clock = k.now_ns
    log_load(k, cpu)
    add_nr_running(k, cpu, 1)


@inner
def add_nr_running(k: Kernel, cpu: int, n: int) -> None:
    """add_nr_running(), sub_nr_running(): change nr_running; a second task on a CPU sets rd->overload."""
    before = cpu_rq(k, cpu).nr_running
    cpu_rq(k, cpu).nr_running = before + n
    if before < 2 and before + n >= 2:
        k.overload = 1
    log_nr(k, cpu)


@inner
def clear_buddies(k: Kernel, se: SchedEntity) -> None:
    """clear_buddies(): clear each buddy mark of the entity and of its parents, up to the first level without this mark."""
    for which in (CfsRq.last, CfsRq.next, CfsRq.skip):
        e = se
        while e and e.cfs_rq[which] == e.row:
            e.cfs_rq[which] = -1
            e = e.parent


@inner
def set_buddy(k: Kernel, se: SchedEntity, which: int) -> None:
    """set_next_buddy(), set_last_buddy(): mark the entity and its parents as a buddy; a SCHED_IDLE task can only be skipped."""
    if which != CfsRq.skip and not se.my_q and task_of(se).policy == SCHED_IDLE:
        return
    while se:
        se.cfs_rq[which] = se.row
        se = se.parent


@inner
def dequeue_entity(k: Kernel, se: SchedEntity, sleep: int) -> None:
    """dequeue_entity(): take one entity off its queue."""
    q = se.cfs_rq
    update_curr(k, q)
    dequeue_load_avg(k, se, sleep)
    clear_buddies(k, se)
    if se != q.curr:
        remove(k, q, se)
    se.on_rq = 0
    account_dequeue(k, q, se)
    if not sleep:
        se.vruntime -= q.min_vruntime
    update_min_vruntime(k, q)
    update_cfs_shares(k, q)


@apart(NOTHING)
def dequeue_task(k: Kernel, p: TaskStruct, sleep: int) -> None:
    """dequeue_task_fair(), sub_nr_running(): take a task off the runqueue, and its group if the group is then empty."""
    if k.is_modern != 0:
        fair_class(k).dequeue_task(k, p, flags.SLEEP if sleep else flags.MIGRATING)
        return
    task_sleep = sleep
    se = p.se
    while se:
        q = se.cfs_rq
        dequeue_entity(k, se, sleep)
        q.h_nr_running -= 1
        se = se.parent
        if q.load_weight != 0:
            if task_sleep and se:
                set_buddy(k, se, CfsRq.next)
            break
        sleep = True
    while se:
        se.cfs_rq.h_nr_running -= 1
        update_level(k, se)
        se = se.parent
    cpu = p.se.cfs_rq.cpu
    cpu_rq(k, cpu).clock = k.now_ns
    log_load(k, cpu)
    add_nr_running(k, cpu, -1)


@inner
def set_task_rq(k: Kernel, p: TaskStruct, cpu: int) -> None:
    """set_task_rq() (kernel/sched/sched.h): point a task at the queue of its group on ``cpu``."""
    p.cpu = cpu
    tg = p.group
    n = k.nr_cpus
    p.se.cfs_rq = CfsRq(k, k.cfs_rq0 + tg * n + cpu)
    p.se.parent = SchedEntity(k, k.entity0 + tg * n + cpu) if tg > 0 else NO_ENTITY


@inner
def is_rt(k: Kernel, p: TaskStruct) -> bool:
    """Return whether ``p`` is a real-time task. NULL stands for the idle task and is no real-time task."""
    return p != NO_TASK and p.rt_priority != 0


@inner
def enqueue(k: Kernel, p: TaskStruct, wakeup: int, waking: int) -> None:
    """enqueue_task() of the task's class."""
    if p.rt_priority != 0:
        rt_class(k).enqueue_task(k, p, 0)
    else:
        enqueue_task(k, p, wakeup, waking)


@inner
def dequeue(k: Kernel, p: TaskStruct, sleep: int) -> None:
    """dequeue_task() of the task's class."""
    if p.rt_priority != 0:
        rt_class(k).dequeue_task(k, p)
    else:
        dequeue_task(k, p, sleep)
