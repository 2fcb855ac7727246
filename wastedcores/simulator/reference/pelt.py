"""Per-entity load tracking: the load of an entity on its queue, and of a task group on a CPU.

Source: kernel/sched/fair.c, v4.1; each definition names its function. ``now`` is always rq_clock_task, in ns.
"""

from __future__ import annotations

from wastedcores.simulator.reference.arithmetic import (
    MIN_SHARES,
    NICE_0_LOAD,
    contribution,
    decay_load,
    inverse_weight,
)
from wastedcores.simulator.reference.state import CfsRq, Entity


def update_runnable_avg(se: Entity, now: int, runnable: bool, running: bool) -> bool:
    """Bring the three decaying sums up to date; return True if a boundary of 1024 us was crossed.

    __update_entity_runnable_avg(), v4.1.
    """
    delta = now - se.last_update
    if delta < 0:
        se.last_update = now
        return False
    delta >>= 10
    if not delta:
        return False
    se.last_update = now
    rest = se.avg_period % 1024
    decayed = delta + rest >= 1024
    if decayed:
        rest = 1024 - rest
        _add(se, rest, runnable, running)
        delta -= rest
        periods, delta = divmod(delta, 1024)
        se.runnable_sum = decay_load(se.runnable_sum, periods + 1)
        se.running_sum = decay_load(se.running_sum, periods + 1)
        se.avg_period = decay_load(se.avg_period, periods + 1)
        _add(se, contribution(periods), runnable, running)
    _add(se, delta, runnable, running)
    return decayed


def _add(se: Entity, amount: int, runnable: bool, running: bool) -> None:
    """Add time to the sums of an entity."""
    if runnable:
        se.runnable_sum += amount
    if running:
        se.running_sum += amount
    se.avg_period += amount


def update_entity_load_avg(se: Entity, now: int, update_cfs_rq: bool) -> None:
    """Bring the load of an entity up to date, and the sums of its queue too if asked to (update_entity_load_avg(), v4.1)."""
    cfs_rq = se.cfs_rq
    if not update_runnable_avg(se, now, se.on_rq, cfs_rq.curr is se):
        return
    old_load, old_util = se.load_avg_contrib, se.utilization_avg_contrib
    if se.my_q is None:
        update_task_contrib(se)
    else:
        _update_tg_runnable_avg(se)
        _update_group_contrib(se)
        se.utilization_avg_contrib = se.my_q.utilization_load_avg
    if not update_cfs_rq:
        return
    if se.on_rq:
        cfs_rq.runnable_load_avg += se.load_avg_contrib - old_load
        cfs_rq.utilization_load_avg += se.utilization_avg_contrib - old_util
    else:
        subtract_blocked(cfs_rq, old_load - se.load_avg_contrib)


def update_task_contrib(se: Entity) -> None:
    """Compute the load and the utilization of a task from its sums.

    __update_task_entity_contrib() and __update_task_entity_utilization(), v4.1.
    """
    se.load_avg_contrib = se.runnable_sum * se.weight // (se.avg_period + 1)
    se.utilization_avg_contrib = se.running_sum * 1024 // (se.avg_period + 1)


def _update_tg_runnable_avg(se: Entity) -> None:
    """Update the group's share of CPU time if this CPU's part changed by more than 1/64 (__update_tg_runnable_avg(), v4.1)."""
    q = se.my_q
    assert q is not None
    change = (se.runnable_sum << 10) // (se.avg_period + 1) - q.tg_runnable_contrib
    if abs(change) > q.tg_runnable_contrib // 64:
        q.tg.runnable_avg += change
        q.tg_runnable_contrib += change


def _update_group_contrib(se: Entity) -> None:
    """Compute the load of a group's entity (__update_group_entity_contrib(), v4.1)."""
    q = se.my_q
    assert q is not None
    tg = q.tg
    load = q.tg_load_contrib * tg.shares // (tg.load_avg + 1)
    if tg.runnable_avg < NICE_0_LOAD:
        load = (load * tg.runnable_avg) >> 10
    se.load_avg_contrib = load


def subtract_blocked(cfs_rq: CfsRq, load: int) -> None:
    """Subtract from the blocked load, down to 0 at most (subtract_blocked_load_contrib(), v4.1)."""
    if load < cfs_rq.blocked_load_avg:
        cfs_rq.blocked_load_avg -= load
    else:
        cfs_rq.blocked_load_avg = 0


def update_blocked_load(cfs_rq: CfsRq, now: int, force: bool) -> None:
    """Decay the blocked load once per 2^20 ns and report the queue's load to its group (update_cfs_rq_blocked_load(), v4.1)."""
    decays = (now >> 20) - cfs_rq.last_decay
    if not decays and not force:
        return
    if cfs_rq.removed_load:
        load, cfs_rq.removed_load = cfs_rq.removed_load, 0
        subtract_blocked(cfs_rq, load)
    if decays:
        cfs_rq.blocked_load_avg = decay_load(cfs_rq.blocked_load_avg, decays)
        cfs_rq.decay_counter += decays
        cfs_rq.last_decay = now >> 20
    _update_tg_load_contrib(cfs_rq, force)


def _update_tg_load_contrib(cfs_rq: CfsRq, force: bool) -> None:
    """Report the queue's load to its group if forced or if it changed by more than 1/8.

    __update_cfs_rq_tg_load_contrib(), v4.1.
    """
    change = cfs_rq.runnable_load_avg + cfs_rq.blocked_load_avg - cfs_rq.tg_load_contrib
    if change and (force or abs(change) > cfs_rq.tg_load_contrib // 8):
        cfs_rq.tg.load_avg += change
        cfs_rq.tg_load_contrib += change


def update_at_tick(se: Entity, now: int) -> None:
    """Update the running entity and its queue at a tick (entity_tick(), v4.1)."""
    update_entity_load_avg(se, now, True)
    update_blocked_load(se.cfs_rq, now, True)


def update_put_prev(se: Entity, now: int) -> None:
    """Update an entity that is put back (put_prev_entity(), v4.1)."""
    update_entity_load_avg(se, now, True)


def update_blocked_queue(q: CfsRq, now: int) -> None:
    """Decay what sleeping tasks left on a queue, and take it off the list if nothing is left.

    __update_blocked_averages_cpu(), v4.1.
    """
    update_blocked_load(q, now, True)
    se = q.tg.se[q.rq.cpu]
    if se is not None:
        update_entity_load_avg(se, now, True)
        if not se.runnable_sum and not q.nr_running:
            q.on_list = False


def new_entity(se: Entity) -> None:
    """Do nothing: a new entity has no load until :func:`post_init` (__sched_fork(), v4.1)."""
    del se


def post_init(se: Entity, slice_us: int) -> None:
    """Let a new task count as if it had run for a slice (init_task_runnable_average(), v4.1)."""
    se.runnable_sum = se.running_sum = se.avg_period = slice_us
    update_task_contrib(se)


def migrate(se: Entity) -> None:
    """Take a sleeping task's load off its old queue before its CPU changes (migrate_task_rq_fair(), v4.1)."""
    if se.decay_count:
        se.decay_count = -synchronize_decay(se)
        se.cfs_rq.removed_load += se.load_avg_contrib


def synchronize_decay(se: Entity) -> int:
    """Apply the decays that a sleeper missed, and return their number (__synchronize_entity_decay(), v4.1)."""
    decays = se.cfs_rq.decay_counter - se.decay_count
    se.decay_count = 0
    if decays:
        se.load_avg_contrib = decay_load(se.load_avg_contrib, decays)
        se.utilization_avg_contrib = decay_load(se.utilization_avg_contrib, decays)
    return decays


def enqueue_load_avg(se: Entity, now: int, wakeup: bool) -> None:
    """Add the load of an entity to its queue (enqueue_entity_load_avg(), v4.1)."""
    cfs_rq = se.cfs_rq
    if se.decay_count <= 0:
        se.last_update = now
        if se.decay_count:
            # it was woken on another queue than the one on which it went to sleep: make up for the sleep
            se.last_update -= (-se.decay_count) << 20
            update_entity_load_avg(se, now, False)
            se.decay_count = 0
        wakeup = False
    else:
        synchronize_decay(se)
    if wakeup:
        subtract_blocked(cfs_rq, se.load_avg_contrib)
        update_entity_load_avg(se, now, False)
    cfs_rq.runnable_load_avg += se.load_avg_contrib
    cfs_rq.utilization_load_avg += se.utilization_avg_contrib
    update_blocked_load(cfs_rq, now, not wakeup)


def dequeue_load_avg(se: Entity, now: int, sleep: bool) -> None:
    """Take the load of an entity off its queue, to the blocked load if it sleeps (dequeue_entity_load_avg(), v4.1)."""
    cfs_rq = se.cfs_rq
    update_entity_load_avg(se, now, True)
    update_blocked_load(cfs_rq, now, not sleep)
    cfs_rq.runnable_load_avg -= se.load_avg_contrib
    cfs_rq.utilization_load_avg -= se.utilization_avg_contrib
    if sleep:
        cfs_rq.blocked_load_avg += se.load_avg_contrib
        se.decay_count = cfs_rq.decay_counter


def calc_shares(cfs_rq: CfsRq) -> int:
    """Return the weight of a group's entity on this CPU (calc_tg_weight() and calc_cfs_shares(), v4.1)."""
    tg = cfs_rq.tg
    total = tg.load_avg - cfs_rq.tg_load_contrib + cfs_rq.weight
    shares = tg.shares * cfs_rq.weight
    if total:
        shares //= total
    return min(max(shares, MIN_SHARES), tg.shares)


def set_weight(se: Entity, weight: int) -> None:
    """Set the weight of an entity and its inverse (update_load_set(), v4.1)."""
    se.weight = weight
    se.inv = inverse_weight(weight)
