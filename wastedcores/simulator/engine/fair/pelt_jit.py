"""Per-entity load tracking of Linux 3.8 to 4.2 (kernel/sched/fair.c, v4.1; docs/scheduler-model.md, section 2)."""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.fair import pelt_v4_4_jit as v4_4
from wastedcores.simulator.engine.fair.decay_jit import contrib_of, decay_load
from wastedcores.simulator.engine.world.structs import CfsRq, Kernel, SchedEntity


@inner
def update_runnable_avg(k: Kernel, se: SchedEntity, runnable: int, running: int) -> int:
    """__update_entity_runnable_avg(): account the time since the last update; return whether a period ended in this time."""
    now = k.now_ns
    delta = now - se.last_runnable_update
    if delta < 0:
        se.last_runnable_update = now
        return False
    delta >>= 10
    if delta == 0:
        return False
    se.last_runnable_update = now
    dw = se.avg_period & 1023
    decayed = False
    if delta + dw >= 1024:
        decayed = True
        dw = 1024 - dw
        delta -= dw
        n = delta >> 10
        delta &= 1023
        c = contrib_of(n)
        se.avg_period = decay_load(se.avg_period + dw, n + 1) + c
        add = dw if runnable else 0
        se.runnable_avg_sum = decay_load(se.runnable_avg_sum + add, n + 1)
        add = dw if running else 0
        se.running_avg_sum = decay_load(se.running_avg_sum + add, n + 1)
        if runnable:
            se.runnable_avg_sum += c
        if running:
            se.running_avg_sum += c
    se.avg_period += delta
    if runnable:
        se.runnable_avg_sum += delta
    if running:
        se.running_avg_sum += delta
    return decayed


@inner
def update_tg_runnable(k: Kernel, runnable_sum: int, period: int, q: CfsRq) -> None:
    """__update_tg_runnable_avg(): update what a queue adds to its group's runnable average."""
    contrib = (runnable_sum << 10) // (period + 1) - q.tg_runnable_contrib
    if abs(contrib) > q.tg_runnable_contrib // 64:
        q.task_group.runnable_avg += contrib
        q.tg_runnable_contrib += contrib


@inner
def update_task_contrib(k: Kernel, se: SchedEntity) -> None:
    """__update_task_entity_contrib() and its counterpart for utilization."""
    se.load_avg_contrib = se.runnable_avg_sum * se.weight // (se.avg_period + 1)
    se.utilization_avg_contrib = se.running_avg_sum * 1024 // (se.avg_period + 1)


@inner
def update_group_contrib(k: Kernel, se: SchedEntity, q: CfsRq) -> None:
    """__update_group_entity_contrib() and its counterpart for utilization, for group entity ``se`` with queue ``q``."""
    tg = q.task_group
    load = q.tg_load_contrib * tg.shares // (tg.load_avg + 1)
    if tg.runnable_avg < 1024:
        load = (load * tg.runnable_avg) >> 10
    se.load_avg_contrib = load
    se.utilization_avg_contrib = q.utilization_load_avg


@inner
def subtract_blocked(k: Kernel, q: CfsRq, load: int) -> None:
    """subtract_blocked_load_contrib(): subtract from the blocked load, which never becomes negative."""
    blocked = q.blocked_load_avg - load
    q.blocked_load_avg = blocked if blocked > 0 else 0


@apart(NOTHING)
def update_entity_load_avg(k: Kernel, se: SchedEntity, update_queue: int) -> None:
    """update_entity_load_avg(): update an entity's averages and, if ``update_queue`` is set, the sums of its queue.

    Under v4.4 this is update_load_avg(), which always updates the queue, and updates the group if ``update_queue`` is set.
    """
    if k.load_v4_4 != 0:
        v4_4.update_load_avg(k, se, update_queue)
        return
    q = se.cfs_rq
    on_rq = se.on_rq != 0
    if not update_runnable_avg(k, se, on_rq, q.curr == se):
        return
    load = se.load_avg_contrib
    util = se.utilization_avg_contrib
    mine = se.my_q
    if not mine:
        update_task_contrib(k, se)
    else:
        update_tg_runnable(k, se.runnable_avg_sum, se.avg_period, mine)
        update_group_contrib(k, se, mine)
    if not update_queue:
        return
    if on_rq:
        q.runnable_load_avg += se.load_avg_contrib - load
        q.utilization_load_avg += se.utilization_avg_contrib - util
    else:
        subtract_blocked(k, q, load - se.load_avg_contrib)


@inner
def update_blocked_load(k: Kernel, q: CfsRq, force: int) -> None:
    """update_cfs_rq_blocked_load(), __update_cfs_rq_tg_load_contrib(): decay the blocked load and update the group's sum."""
    now = k.now_ns >> 20
    decays = now - q.last_decay
    if decays == 0 and not force:
        return
    if q.removed_load != 0:
        removed = q.removed_load
        q.removed_load = 0
        subtract_blocked(k, q, removed)
    if decays != 0:
        q.blocked_load_avg = decay_load(q.blocked_load_avg, decays)
        q.decay_counter += decays
        q.last_decay = now
    contrib = q.runnable_load_avg + q.blocked_load_avg - q.tg_load_contrib
    if contrib != 0 and (force or abs(contrib) > q.tg_load_contrib // 8):
        q.task_group.load_avg += contrib
        q.tg_load_contrib += contrib


@inner
def synchronize_decay(k: Kernel, se: SchedEntity) -> int:
    """__synchronize_entity_decay(): apply the decays that an entity missed while it was asleep; return their number."""
    decays = se.cfs_rq.decay_counter - se.decay_count
    se.decay_count = 0
    if decays != 0:
        se.load_avg_contrib = decay_load(se.load_avg_contrib, decays)
        se.utilization_avg_contrib = decay_load(se.utilization_avg_contrib, decays)
    return decays


@inner
def enqueue_load_avg(k: Kernel, se: SchedEntity, wakeup: int) -> None:
    """enqueue_entity_load_avg(): add an entity's averages to the sums of its queue."""
    if k.load_v4_4 != 0:
        v4_4.enqueue_load(k, se)
        return
    q = se.cfs_rq
    if se.decay_count <= 0:
        # the entity is new or has migrated: the time for which it slept on another CPU counts as not runnable
        se.last_runnable_update = k.now_ns
        if se.decay_count != 0:
            se.last_runnable_update -= (-se.decay_count) << 20
            update_entity_load_avg(k, se, False)
            se.decay_count = 0
        wakeup = False
    else:
        synchronize_decay(k, se)
    if wakeup:
        subtract_blocked(k, q, se.load_avg_contrib)
        update_entity_load_avg(k, se, False)
    q.runnable_load_avg += se.load_avg_contrib
    q.utilization_load_avg += se.utilization_avg_contrib
    update_blocked_load(k, q, not wakeup)


@inner
def dequeue_load_avg(k: Kernel, se: SchedEntity, sleep: int) -> None:
    """dequeue_entity_load_avg(): subtract an entity's averages, and count them as blocked if it goes to sleep."""
    if k.load_v4_4 != 0:
        v4_4.dequeue_load(k, se)
        return
    q = se.cfs_rq
    update_entity_load_avg(k, se, True)
    update_blocked_load(k, q, not sleep)
    q.runnable_load_avg -= se.load_avg_contrib
    q.utilization_load_avg -= se.utilization_avg_contrib
    if sleep:
        q.blocked_load_avg += se.load_avg_contrib
        se.decay_count = q.decay_counter
