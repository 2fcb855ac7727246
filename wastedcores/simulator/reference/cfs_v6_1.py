"""The fair class of v6.1: CFS as in v4.1, with the load tracking and the weights of v6.12 (kernel/sched/fair.c, v6.1.192).

``Kernel.fair`` is ``fair`` (v4.1), this module or ``eevdf_class`` (v6.12). What is equal to v4.1 comes from ``fair.py``: the
choice of the next entity, buddies, preemption and placement. This is different: slices (ALT_PERIOD and BASE_SLICE), the order of
placing and charging, when a sleeper's virtual time becomes relative, and the weights of groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.simulator.reference import fair, signals_v6_12
from wastedcores.simulator.reference import pelt_v6_12 as pelt
from wastedcores.simulator.reference.arithmetic import PRIO_TO_WEIGHT, calc_delta, inverse_weight
from wastedcores.simulator.reference.fair import (
    check_preempt_tick,
    check_preempt_wakeup,
    clear_buddies,
    next_entity,
    sched_period,
    set_buddy,
    set_task_rq,
    update_curr,
)
from wastedcores.simulator.reference.pelt_v6_12 import scale_load_down
from wastedcores.simulator.reference.scaled_weights import (
    add_weight,
    calc_delta_fair,
    calc_group_shares,
    update_runnable,
)
from wastedcores.simulator.reference.signals_v6_12 import task_dead
from wastedcores.simulator.reference.state import CfsRq, Entity, Rq, Task

if TYPE_CHECKING:
    from wastedcores.simulator.reference.kernel import Kernel

__all__ = [
    "calc_delta_fair",
    "check_preempt_wakeup",
    "dequeue_task",
    "enqueue_task",
    "migrate_task",
    "pick_task",
    "post_init",
    "put_prev_entity",
    "put_prev_task",
    "reweight_entity",
    "sched_slice",
    "set_next_entity",
    "set_next_task",
    "set_task_rq",
    "task_dead",
    "task_fork",
    "task_tick",
    "update_curr",
    "update_min_vruntime",
    "yield_task",
]

#: 2^63 / scale_load_down(NICE_0_LOAD): after this time, 104 days, virtual times could have overflowed
LONG_SLEEP_NS = (1 << 63) // 1024


# --- what v4.1's functions ask of their class -------------------------------------------------------------------------


def update_min_vruntime(cfs_rq: CfsRq) -> None:
    """Advance the queue's min_vruntime; an entity that left the queue does not count (update_min_vruntime(), v6.1.192)."""
    curr = cfs_rq.curr if cfs_rq.curr is not None and cfs_rq.curr.on_rq else None
    there = [se.vruntime for se in (curr, *cfs_rq.tree[:1]) if se is not None]
    cfs_rq.min_vruntime = max(cfs_rq.min_vruntime, min(there, default=cfs_rq.min_vruntime))


def sched_slice(k: Kernel, cfs_rq: CfsRq, se: Entity) -> int:
    """Return the real time for which ``se`` may run in one period (sched_slice(), v6.1.192).

    The period counts the tasks of the whole CPU (ALT_PERIOD), and no slice is shorter than the minimum granularity (BASE_SLICE).
    """
    slice_ns = sched_period(k, cfs_rq.rq.cfs.h_nr_running + (not se.on_rq))
    for level in se.levels():
        weight = level.cfs_rq.weight
        if not level.on_rq:
            weight += level.weight
        inv = inverse_weight(scale_load_down(weight))
        slice_ns = calc_delta(slice_ns, scale_load_down(level.weight), inv)
    return max(slice_ns, k.min_granularity_ns)


# --- weights of groups ------------------------------------------------------------------------------------------------


def reweight_entity(k: Kernel, se: Entity, weight: int, inv: int) -> None:
    """Change a weight and keep the virtual time (reweight_entity(), v6.1.192)."""
    cfs_rq = se.cfs_rq
    if se.on_rq:
        if cfs_rq.curr is se:
            update_curr(k, cfs_rq)
        add_weight(cfs_rq, se, -1)
    pelt.dequeue_load_avg(cfs_rq, se)
    se.weight, se.inv = weight, inv
    divider = pelt.MIN_DIVIDER + se.avg.period_contrib
    se.avg.load_avg = scale_load_down(weight) * se.avg.load_sum // divider
    pelt.enqueue_load_avg(cfs_rq, se)
    if se.on_rq:
        add_weight(cfs_rq, se, 1)


def update_cfs_group(k: Kernel, se: Entity) -> None:
    """Give a group's entity its CPU's part of the group, also while it is empty (update_cfs_group(), v6.1.192)."""
    if se.my_q is not None:
        weight = calc_group_shares(se.my_q)
        reweight_entity(k, se, weight, inverse_weight(scale_load_down(weight)))


# --- enqueue, dequeue -------------------------------------------------------------------------------------------------


def place_entity(k: Kernel, cfs_rq: CfsRq, se: Entity) -> None:
    """Set the virtual time of an entity that wakes (place_entity(), v6.1.192).

    That of an entity that slept for very long does not count.
    """
    if se.exec_start and k.now_ns - se.exec_start > LONG_SLEEP_NS:
        se.vruntime = cfs_rq.min_vruntime - k.latency_ns  # lower than any place of a sleeper
    fair.place_entity(k, cfs_rq, se, initial=False)


def enqueue_entity(k: Kernel, se: Entity, wakeup: bool) -> None:
    """Put an entity on its queue (enqueue_entity() and account_entity_enqueue(), v6.1.192).

    A virtual time is relative to the queue that was left, except that of a sleeper that wakes on its old CPU.
    """
    cfs_rq = se.cfs_rq
    runs = cfs_rq.curr is se
    migrated = se.task is not None and not se.avg.last_update
    relative = not wakeup or migrated
    if relative and runs:
        se.vruntime += cfs_rq.min_vruntime
    update_curr(k, cfs_rq)
    if relative and not runs:
        se.vruntime += cfs_rq.min_vruntime
    pelt.update_load_avg(k.now_ns, se, tg=True, do_attach=True)
    update_runnable(se)
    update_cfs_group(k, se)
    add_weight(cfs_rq, se, 1)
    if se.task is not None:
        cfs_rq.rq.cfs_tasks.insert(0, se.task)
    cfs_rq.nr_running += 1
    if wakeup:
        place_entity(k, cfs_rq, se)
    if not runs:
        cfs_rq.insert(se)
    se.on_rq = True
    cfs_rq.on_list = True


def dequeue_entity(k: Kernel, se: Entity, sleep: bool, migrating: bool, saved: bool) -> None:
    """Take an entity off its queue (dequeue_entity() and account_entity_dequeue(), v6.1.192)."""
    cfs_rq = se.cfs_rq
    update_curr(k, cfs_rq)
    pelt.update_load_avg(k.now_ns, se, tg=True, do_detach=migrating and se.task is not None)
    update_runnable(se)
    clear_buddies(se)
    if se is not cfs_rq.curr:
        cfs_rq.remove(se)
    se.on_rq = False
    add_weight(cfs_rq, se, -1)
    if se.task is not None:
        cfs_rq.rq.cfs_tasks.remove(se.task)
    cfs_rq.nr_running -= 1
    if not sleep:
        se.vruntime -= cfs_rq.min_vruntime
    update_cfs_group(k, se)
    if not saved:
        update_min_vruntime(cfs_rq)


def _update_above(k: Kernel, levels: list[Entity], change: int) -> None:
    """Update the levels that stay queued while a task below them comes (``change`` is 1) or goes (-1)."""
    for se in levels:
        pelt.update_load_avg(k.now_ns, se, tg=True)
        update_runnable(se)
        update_cfs_group(k, se)
        se.cfs_rq.h_nr_running += change


def enqueue_task(
    k: Kernel, rq: Rq, p: Task, wakeup: bool = False, waking: bool = False, initial: bool = False
) -> None:
    """Put a task, and its group's entity if needed, on a run queue (enqueue_task_fair(), v6.1.192).

    A new task was placed by :func:`task_fork`.
    """
    rq.clock_ns = k.now_ns
    rq.cfs.avg.util_est += p.se.avg.util_est
    levels = p.se.levels()
    i = 0
    while i < len(levels) and not levels[i].on_rq:
        enqueue_entity(k, levels[i], wakeup)
        levels[i].cfs_rq.h_nr_running += 1
        wakeup = True
        i += 1
    _update_above(k, levels[i:], 1)
    k.add_nr_running(rq, 1)


def dequeue_task(
    k: Kernel, rq: Rq, p: Task, sleep: bool, migrating: bool = True, saved: bool = False
) -> None:
    """Take a task, and its group's entity if it was the last, off a run queue (dequeue_task_fair(), v6.1.192).

    ``migrating`` says, of a task that does not sleep, whether it leaves its CPU. ``saved`` is DEQUEUE_SAVE without DEQUEUE_MOVE:
    the task comes back at once, and does not lose its place to a min_vruntime that advances meanwhile.
    """
    rq.clock_ns = k.now_ns
    rq.cfs.avg.util_est -= min(rq.cfs.avg.util_est, p.se.avg.util_est)
    levels = p.se.levels()
    below, i = sleep, 0
    while i < len(levels):
        se = levels[i]
        dequeue_entity(k, se, below, migrating and not sleep, saved)
        se.cfs_rq.h_nr_running -= 1
        i += 1
        if se.cfs_rq.weight:
            # other tasks of the group remain: prefer to continue with the group
            if sleep and se.parent is not None:
                set_buddy(se.parent, "next")
            break
        below = True
    _update_above(k, levels[i:], -1)
    k.add_nr_running(rq, -1)
    if sleep:
        pelt.util_est_update_v6_1(p.se)


# --- choice, tick -----------------------------------------------------------------------------------------------------


def pick_task(k: Kernel, rq: Rq) -> Task | None:
    """Choose the next task and move it to the head of rq->cfs_tasks (pick_next_task_fair(), v6.1.192)."""
    if not rq.cfs.nr_running:
        return None
    cfs_rq: CfsRq | None = rq.cfs
    while cfs_rq is not None:
        curr = cfs_rq.curr if cfs_rq.curr is not None and cfs_rq.curr.on_rq else None
        if curr is not None:
            update_curr(k, cfs_rq)
        se = next_entity(k, cfs_rq, curr)
        cfs_rq = se.my_q
    assert se.task is not None
    _move_to_head(rq, se.task)
    return se.task


def _move_to_head(rq: Rq, p: Task) -> None:
    rq.cfs_tasks.remove(p)
    rq.cfs_tasks.insert(0, p)


def set_next_entity(k: Kernel, cfs_rq: CfsRq, se: Entity) -> None:
    """Make the chosen entity the running one, and use up its buddy marks (set_next_entity(), v6.1.192)."""
    clear_buddies(se)
    if se.on_rq:
        cfs_rq.remove(se)
        pelt.update_load_avg(k.now_ns, se, tg=True)
    se.exec_start = k.now_ns
    cfs_rq.curr = se
    se.prev_sum_exec = se.sum_exec


def set_next_task(k: Kernel, p: Task, first: bool = True) -> None:
    """Make a task the running one, on every level (set_next_task_fair(), v6.1.192)."""
    if p.se.on_rq:
        _move_to_head(k.rqs[p.cpu], p)
    for se in p.se.levels():
        set_next_entity(k, se.cfs_rq, se)


def put_prev_entity(k: Kernel, cfs_rq: CfsRq, prev: Entity) -> None:
    """Put the entity that ran back into the tree if it is still queued (put_prev_entity(), v6.1.192)."""
    if prev.on_rq:
        update_curr(k, cfs_rq)
        cfs_rq.insert(prev)
        pelt.update_load_avg(k.now_ns, prev)
    cfs_rq.curr = None


def put_prev_task(k: Kernel, prev: Task) -> None:
    """Put back a task that ran, on every level (put_prev_task_fair(), v6.1.192)."""
    for se in prev.se.levels():
        put_prev_entity(k, se.cfs_rq, se)


def task_tick(k: Kernel, rq: Rq, curr: Task) -> None:
    """Charge the running task at a tick and preempt it if its slice is over (task_tick_fair() and entity_tick(), v6.1.192)."""
    for se in curr.se.levels():
        cfs_rq = se.cfs_rq
        update_curr(k, cfs_rq)
        pelt.update_load_avg(k.now_ns, se, tg=True)
        update_cfs_group(k, se)
        if cfs_rq.nr_running > 1:
            check_preempt_tick(k, rq, cfs_rq, se)


def yield_task(k: Kernel, rq: Rq, p: Task) -> None:
    """Let a task give way to the next one in the tree (yield_task_fair(), v4.1 and v6.1.192)."""
    if rq.nr_running == 1:
        return
    clear_buddies(p.se)
    update_curr(k, p.se.cfs_rq)
    set_buddy(p.se, "skip")


# --- fork, migration --------------------------------------------------------------------------------------------------


def task_fork(k: Kernel, p: Task) -> None:
    """Begin the life of a task and place it against its parent's queue (sched_fork() and task_fork_fair(), v6.1.192)."""
    p.se.weight = PRIO_TO_WEIGHT[p.nice + 20] << 10  # set_load_weight()
    pelt.init_entity(p.se)
    fair.task_fork(k, p)


def post_init(k: Kernel, p: Task) -> None:
    """Estimate the use of a new task on the CPU that was chosen for it (post_init_entity_util_avg(), v6.1.192)."""
    pelt.post_init_util(p.se, k.model.rules.raw_initial_util)


def migrate_task(k: Kernel, p: Task) -> None:
    """Make the virtual time of a sleeper relative when it changes its CPU (migrate_task_rq_fair(), v6.1.192)."""
    if p.state == "waking" and p.se.avg.last_update:
        p.se.vruntime -= p.se.cfs_rq.min_vruntime
    signals_v6_12.migrate_task(k, p)
