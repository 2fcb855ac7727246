"""Per-entity load tracking of Linux 4.4, the metric that came with 4.3 (9d89c257dfb9).

Source: kernel/sched/fair.c, v4.4; each definition names its function. Entities and queues have the same sums, divided by a
constant, and the weight is part of the sum. A queue's own average covers its sleeping entities, too. The functions have the names
of :mod:`pelt`, so that ``fair.py`` calls either module as ``k.pelt``. ``now`` is rq_clock_task(), in ns.
"""

from __future__ import annotations

from wastedcores.simulator.reference.arithmetic import LOAD_AVG_MAX, contribution, decay_load
from wastedcores.simulator.reference.state import CfsRq, Entity, SchedAvg

#: last_update of an entity that is on no queue's average: the kernel writes 0
DETACHED = -1


def _add(sa: SchedAvg, q: CfsRq | None, weight: int, running: bool, amount: int) -> None:
    """Add time to the sums of an entity, or of a queue and of its queued entities."""
    sa.load_sum += weight * amount
    if q is not None:
        q.runnable_load_sum += weight * amount
    if running:
        sa.util_sum += amount * 1024


def update_avg(sa: SchedAvg, now: int, weight: int, running: bool, q: CfsRq | None = None) -> bool:
    """Bring the sums up to date; return True if a boundary of 1024 us was crossed (__update_load_avg(), v4.4).

    ``weight`` is 0 for an entity that is not queued. ``q`` is the queue whose own sums these are, or None for an entity.
    """
    delta = now - sa.last_update
    if delta < 0:
        sa.last_update = now
        return False
    delta >>= 10
    if not delta:
        return False
    sa.last_update = now
    decayed = delta + sa.period_contrib >= 1024
    if decayed:
        rest = 1024 - sa.period_contrib
        sa.period_contrib = 0
        _add(sa, q, weight, running, rest)
        periods, delta = divmod(delta - rest, 1024)
        sa.load_sum = decay_load(sa.load_sum, periods + 1)
        sa.util_sum = decay_load(sa.util_sum, periods + 1)
        if q is not None:
            q.runnable_load_sum = decay_load(q.runnable_load_sum, periods + 1)
        _add(sa, q, weight, running, contribution(periods))
    _add(sa, q, weight, running, delta)
    sa.period_contrib += delta
    if decayed:
        sa.load_avg = sa.load_sum // LOAD_AVG_MAX
        sa.util_avg = sa.util_sum // LOAD_AVG_MAX
        if q is not None:
            q.runnable_load_avg = q.runnable_load_sum // LOAD_AVG_MAX
    return decayed


def _update_tg(q: CfsRq) -> None:
    """Report the queue's load to its group if it changed by more than 1/64 (update_tg_load_avg(), v4.4)."""
    change = q.avg.load_avg - q.tg_load_contrib
    if abs(change) > q.tg_load_contrib // 64:
        q.tg.load_avg += change
        q.tg_load_contrib = q.avg.load_avg


def _update_queue(q: CfsRq, now: int) -> bool:
    """Bring a queue up to date, without the tasks that left it; return whether its load changed.

    update_cfs_rq_load_avg(), v4.4.
    """
    removed = q.removed_load != 0
    if removed:
        load, q.removed_load = q.removed_load, 0
        q.avg.load_avg = max(q.avg.load_avg - load, 0)
        q.avg.load_sum = max(q.avg.load_sum - load * LOAD_AVG_MAX, 0)
    if q.removed_util:
        util, q.removed_util = q.removed_util, 0
        q.avg.util_avg = max(q.avg.util_avg - util, 0)
        q.avg.util_sum = max(q.avg.util_sum - util * LOAD_AVG_MAX, 0)
    return update_avg(q.avg, now, q.weight, q.curr is not None, q) or removed


def update_entity_load_avg(se: Entity, now: int, update_tg: bool) -> None:
    """Bring an entity and its queue up to date, and its group if asked to (update_load_avg(), v4.4)."""
    q = se.cfs_rq
    update_avg(se.avg, now, se.weight if se.on_rq else 0, q.curr is se)
    if _update_queue(q, now) and update_tg:
        _update_tg(q)


def update_at_tick(se: Entity, now: int) -> None:
    """Update the running entity at a tick (entity_tick(), v4.4)."""
    update_entity_load_avg(se, now, True)


def update_put_prev(se: Entity, now: int) -> None:
    """Update an entity that is put back (put_prev_entity(), v4.4)."""
    update_entity_load_avg(se, now, False)


def update_blocked_queue(q: CfsRq, now: int) -> None:
    """Bring a queue up to date outside of its own events (update_blocked_averages(), v4.4, which keeps it on the list)."""
    if _update_queue(q, now):
        _update_tg(q)


def enqueue_load_avg(se: Entity, now: int, wakeup: bool) -> None:
    """Add the load of an entity to the queued load, and attach it if it is new here (enqueue_entity_load_avg(), v4.4)."""
    del wakeup
    q, migrated = se.cfs_rq, is_detached(se)
    if not migrated:
        update_avg(se.avg, now, se.weight if se.on_rq else 0, q.curr is se)
    decayed = _update_queue(q, now)
    q.runnable_load_avg += se.avg.load_avg
    q.runnable_load_sum += se.avg.load_sum
    if migrated:
        attach(se)
    if decayed or migrated:
        _update_tg(q)


def dequeue_load_avg(se: Entity, now: int, sleep: bool) -> None:
    """Take the load of an entity off the queued load; the queue's own average keeps it (dequeue_entity_load_avg(), v4.4)."""
    del sleep
    update_entity_load_avg(se, now, True)
    q = se.cfs_rq
    q.runnable_load_avg = max(q.runnable_load_avg - se.avg.load_avg, 0)
    q.runnable_load_sum = max(q.runnable_load_sum - se.avg.load_sum, 0)


def new_entity(se: Entity) -> None:
    """Let a new entity count as fully loaded (init_entity_runnable_average(), v4.4)."""
    sa = se.avg
    sa.last_update, sa.period_contrib = DETACHED, 1023
    sa.load_avg, sa.load_sum = se.weight, se.weight * LOAD_AVG_MAX
    sa.util_avg, sa.util_sum = 1024, 1024 * LOAD_AVG_MAX


def post_init(se: Entity, slice_us: int) -> None:
    """Do nothing: the load was initialised before the task was placed (wake_up_new_task(), v4.4)."""
    del se, slice_us


def remove(se: Entity) -> None:
    """Leave the load of a task that is not queued to its queue, to subtract (remove_entity_load_avg(), task_dead_fair(), v4.4).

    v4.4 does so even for a new task that was never added (0905f04eb21f mends that in v4.5). Its time of the last update is 0, so
    its load first decays for as long as the machine has been up, which is to nothing.
    """
    sa, q = se.avg, se.cfs_rq
    if is_detached(se):
        sa.load_sum = sa.util_sum = sa.load_avg = sa.util_avg = sa.period_contrib = 0
    else:
        update_avg(sa, q.avg.last_update, 0, False)
    q.removed_load += sa.load_avg
    q.removed_util += sa.util_avg


def migrate(se: Entity) -> None:
    """Take a task's load off its old queue before its CPU changes (migrate_task_rq_fair(), v4.4)."""
    remove(se)
    se.avg.last_update = DETACHED


def is_detached(se: Entity) -> bool:
    """Tell whether the load of an entity is part of no queue's average."""
    return se.avg.last_update == DETACHED


def attach(se: Entity) -> None:
    """Add a task's load to its queue's own average (attach_entity_load_avg(), v4.4, for an entity without last_update)."""
    sa, q = se.avg, se.cfs_rq.avg
    sa.last_update = q.last_update
    q.load_avg += sa.load_avg
    q.load_sum += sa.load_sum
    q.util_avg += sa.util_avg
    q.util_sum += sa.util_sum


def detach(se: Entity) -> None:
    """Take a task's load off its queue's own average (detach_entity_load_avg() and task_move_group_fair(), v4.4)."""
    sa, q = se.avg, se.cfs_rq.avg
    update_avg(sa, q.last_update, se.weight if se.on_rq else 0, se.cfs_rq.curr is se)
    q.load_avg = max(q.load_avg - sa.load_avg, 0)
    q.load_sum = max(q.load_sum - sa.load_sum, 0)
    q.util_avg = max(q.util_avg - sa.util_avg, 0)
    q.util_sum = max(q.util_sum - sa.util_sum, 0)
    sa.last_update = DETACHED
