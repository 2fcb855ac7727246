"""Per-entity load tracking of Linux 4.4, as it was introduced in 4.3 (kernel/sched/fair.c, v4.4).

Entities and queues keep their sums in the columns of ``struct sched_avg``. The column ``runnable_sum`` of a queue is the
kernel's ``runnable_load_sum``. ``k.load_v4_4`` says whether a kernel tracks load in this way.
"""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.fair.decay_jit import LOAD_AVG_MAX, contrib_of, decay_sum
from wastedcores.simulator.engine.world.structs import (
    NO_ENTITY,
    CfsRq,
    Kernel,
    SchedAvg,
    SchedEntity,
    TaskStruct,
)

#: the ``last_update`` of an entity whose load is in no queue's average; the kernel writes 0 instead
DETACHED = -1


@inner
def is_detached(k: Kernel, se: SchedEntity) -> bool:
    """Return whether the load of an entity is in no queue's average."""
    return se.avg.last_update == DETACHED


@inner
def accrue(k: Kernel, row: SchedAvg, weight: int, running: int, is_queue: int, amount: int) -> None:
    """Add time to the sums of an entity, or of a queue and of its queued entities."""
    row.load_sum += weight * amount
    if is_queue:
        row.runnable_sum += weight * amount
    if running:
        row.util_sum += amount << 10


@apart(VALUE)
def update_avg(k: Kernel, row: SchedAvg, now: int, weight: int, running: int, is_queue: int) -> int:
    """__update_load_avg(): bring the sums of an entity or of a queue up to date; return whether a period of 1024 us ended."""
    delta = now - row.last_update
    if delta < 0:
        row.last_update = now
        return False
    delta >>= 10
    if delta == 0:
        return False
    row.last_update = now
    decayed = delta + row.period_contrib >= 1024
    if decayed:
        rest = 1024 - row.period_contrib
        row.period_contrib = 0
        accrue(k, row, weight, running, is_queue, rest)
        delta -= rest
        n = delta >> 10
        delta &= 1023
        row.load_sum = decay_sum(row.load_sum, n + 1)
        row.util_sum = decay_sum(row.util_sum, n + 1)
        if is_queue:
            row.runnable_sum = decay_sum(row.runnable_sum, n + 1)
        accrue(k, row, weight, running, is_queue, contrib_of(n))
    accrue(k, row, weight, running, is_queue, delta)
    row.period_contrib += delta
    if decayed:
        row.load_avg = row.load_sum // LOAD_AVG_MAX
        row.util_avg = row.util_sum // LOAD_AVG_MAX
        if is_queue:
            CfsRq(k, row.row).runnable_load_avg = row.runnable_sum // LOAD_AVG_MAX
    return decayed


@inner
def update_se(k: Kernel, se: SchedEntity, now: int) -> None:
    """__update_load_avg() of an entity."""
    weight = se.weight if se.on_rq != 0 else 0
    update_avg(k, se.avg, now, weight, se.cfs_rq.curr == se, False)


@inner
def update_tg(k: Kernel, q: CfsRq) -> None:
    """update_tg_load_avg(): report the queue's load to its group if it changed by more than 1/64."""
    change = q.avg.load_avg - q.tg_load_contrib
    if abs(change) > q.tg_load_contrib // 64:
        q.task_group.load_avg += change
        q.tg_load_contrib = q.avg.load_avg


@inner
def subtract(k: Kernel, q: CfsRq, load: int, load_sum: int, util: int, util_sum: int) -> None:
    """Subtract from a queue's own averages and sums, which do not become negative."""
    q.avg.load_avg = max(q.avg.load_avg - load, 0)
    q.avg.load_sum = max(q.avg.load_sum - load_sum, 0)
    q.avg.util_avg = max(q.avg.util_avg - util, 0)
    q.avg.util_sum = max(q.avg.util_sum - util_sum, 0)


@apart(VALUE)
def update_queue(k: Kernel, q: CfsRq) -> int:
    """update_cfs_rq_load_avg(): subtract the tasks that left, and bring the queue up to date; return whether its load changed."""
    load = q.removed_load
    util = q.removed_util
    if (load | util) != 0:
        q.removed_load = 0
        q.removed_util = 0
        subtract(k, q, load, load * LOAD_AVG_MAX, util, util * LOAD_AVG_MAX)
    running = q.curr != NO_ENTITY
    decayed = update_avg(k, q.avg, k.now_ns, q.load_weight, running, True)
    return decayed or load != 0


@apart(NOTHING)
def update_load_avg(k: Kernel, se: SchedEntity, report: int) -> None:
    """update_load_avg(): bring an entity and its queue up to date, and the group if ``report`` is set."""
    q = se.cfs_rq
    update_se(k, se, k.now_ns)
    if update_queue(k, q) and report:
        update_tg(k, q)


@apart(NOTHING)
def update_blocked_queue(k: Kernel, q: CfsRq) -> None:
    """Bring a queue up to date outside of its own events, as update_blocked_averages() does."""
    if update_queue(k, q):
        update_tg(k, q)


@inner
def attach(k: Kernel, se: SchedEntity) -> None:
    """attach_entity_load_avg(): add the load of a detached entity to its queue's own average."""
    q = se.cfs_rq
    se.avg.last_update = q.avg.last_update
    for column in (SchedAvg.load_avg, SchedAvg.load_sum, SchedAvg.util_avg, SchedAvg.util_sum):
        q[column] += se[column]


@apart(NOTHING)
def detach(k: Kernel, p: TaskStruct) -> None:
    """detach_entity_load_avg(), task_move_group_fair(): take a task's load off its queue's own average."""
    q = p.se.cfs_rq
    update_se(k, p.se, q.avg.last_update)
    subtract(k, q, p.se.avg.load_avg, p.se.avg.load_sum, p.se.avg.util_avg, p.se.avg.util_sum)
    p.se.avg.last_update = DETACHED


@apart(NOTHING)
def enqueue_load(k: Kernel, se: SchedEntity) -> None:
    """enqueue_entity_load_avg(): add an entity's load to the queued load, and attach the entity if it is new on its queue."""
    q = se.cfs_rq
    migrated = is_detached(k, se)
    if not migrated:
        update_se(k, se, k.now_ns)
    decayed = update_queue(k, q)
    q.runnable_load_avg += se.avg.load_avg
    q.avg.runnable_sum += se.avg.load_sum
    if migrated:
        attach(k, se)
    if decayed or migrated:
        update_tg(k, q)


@apart(NOTHING)
def dequeue_load(k: Kernel, se: SchedEntity) -> None:
    """dequeue_entity_load_avg(): take the load of an entity off the queued load."""
    q = se.cfs_rq
    update_load_avg(k, se, True)
    q.runnable_load_avg = max(q.runnable_load_avg - se.avg.load_avg, 0)
    q.avg.runnable_sum = max(q.avg.runnable_sum - se.avg.load_sum, 0)


@apart(NOTHING)
def new_entity(k: Kernel, se: SchedEntity) -> None:
    """init_entity_runnable_average(): a new entity counts as fully loaded."""
    se.avg.last_update = DETACHED
    se.avg.period_contrib = 1023
    se.avg.load_avg = se.weight
    se.avg.load_sum = se.weight * LOAD_AVG_MAX
    se.avg.util_avg = 1024
    se.avg.util_sum = 1024 * LOAD_AVG_MAX


@apart(NOTHING)
def remove(k: Kernel, p: TaskStruct) -> None:
    """remove_entity_load_avg(), task_dead_fair(): note the load of a task, so that its queue subtracts this load later.

    The load of a new task was never added. In the kernel this load decays over the whole time since boot, that is, to 0.
    """
    q = p.se.cfs_rq
    if is_detached(k, p.se):
        for column in (SchedAvg.load_sum, SchedAvg.util_sum, SchedAvg.load_avg, SchedAvg.util_avg):
            p[column] = 0
        p.se.avg.period_contrib = 0
    else:
        update_avg(k, p.se.avg, q.avg.last_update, 0, False, False)
    q.removed_load += p.se.avg.load_avg
    q.removed_util += p.se.avg.util_avg


@inner
def migrate(k: Kernel, p: TaskStruct) -> None:
    """migrate_task_rq_fair(): under v4.4, take a task's load off its queue before its CPU changes; otherwise do nothing."""
    if k.load_v4_4 != 0:
        remove(k, p)
        p.se.avg.last_update = DETACHED
