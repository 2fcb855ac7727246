"""The fair class of v6.12: enqueue, delayed dequeue, pick, tick, wakeup preemption, fork (kernel/sched/fair.c, v6.12.107).

``fair.py`` has the class of v4.1; ``Kernel.fair`` is one of the two, and both have the functions that ``schedule.py`` and the
others call. ``eevdf.py`` has the arithmetic of one queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.simulator.reference import pelt_v6_12 as pelt
from wastedcores.simulator.reference.arithmetic import PRIO_TO_WEIGHT
from wastedcores.simulator.reference.eevdf import (
    clear_buddies,
    eligible,
    insert,
    min_slice,
    pick_eevdf,
    place_entity,
    protected,
    put_prev_entity,
    remove,
    reweight_entity,
    running,
    set_next_buddy,
    set_next_entity,
    shorten_protection,
    update_cfs_group,
    update_curr,
    update_deadline,
    update_entity_lag,
)
from wastedcores.simulator.reference.fair import set_task_rq
from wastedcores.simulator.reference.preemption import hrtick_update, resched_lazy
from wastedcores.simulator.reference.scaled_weights import add_weight, update_runnable
from wastedcores.simulator.reference.signals_v6_12 import migrate_task, task_dead
from wastedcores.simulator.reference.state import CfsRq, Entity, Rq, Task

if TYPE_CHECKING:
    from wastedcores.simulator.reference.kernel import Kernel

__all__ = [
    "check_preempt_wakeup",
    "dequeue_entities",
    "dequeue_task",
    "enqueue_task",
    "migrate_task",
    "pick_task",
    "post_init",
    "put_prev_entity",
    "put_prev_task",
    "reweight_entity",
    "set_next_entity",
    "set_next_task",
    "set_task_rq",
    "task_dead",
    "task_fork",
    "task_tick",
    "update_curr",
    "wake_delayed",
    "yield_task",
]


# --- choice, tick -----------------------------------------------------------------------------------------------------


def pick_next_entity(k: Kernel, cfs_rq: CfsRq, protect: bool = True) -> Entity | None:
    """Choose an entity; None if it was a sleeper, which now leaves the queue (pick_next_entity(), v6.12.107)."""
    # an entity that is alone is chosen either way
    if protect and cfs_rq.next is not None and eligible(cfs_rq, cfs_rq.next):
        return cfs_rq.next
    se = pick_eevdf(cfs_rq, protect)
    if se.sched_delayed:
        dequeue_entities(k, cfs_rq.rq, se, sleep=True, delayed=True)
        return None
    return se


def pick_task(k: Kernel, rq: Rq) -> Task | None:
    """Choose the next task; None if at most sleepers were queued (pick_task_fair(), v6.12.107)."""
    cfs_rq = rq.cfs
    while rq.cfs.nr_running:
        if running(cfs_rq) is not None:
            update_curr(k, cfs_rq)
        se = pick_next_entity(k, cfs_rq)
        if se is None:
            cfs_rq = rq.cfs
        elif se.my_q is not None:
            cfs_rq = se.my_q
        else:
            return se.task
    return None


def put_prev_task(k: Kernel, prev: Task) -> None:
    """Put back a task that ran, on every level (put_prev_task_fair(), v6.12.107)."""
    for se in prev.se.levels():
        put_prev_entity(k, se.cfs_rq, se)


def set_next_task(k: Kernel, p: Task, first: bool = True) -> None:
    """Make a task the running one, on every level (set_next_task_fair(), v6.12.107)."""
    for se in p.se.levels():
        set_next_entity(k, se.cfs_rq, se, first)


def task_tick(k: Kernel, rq: Rq, curr: Task) -> None:
    """Charge the running task at a tick, on every level (task_tick_fair() and entity_tick(), v6.12.107)."""
    for se in curr.se.levels():
        update_curr(k, se.cfs_rq)
        pelt.update_load_avg(k.now_ns, se, tg=True)
        update_cfs_group(k, se)


# --- enqueue ----------------------------------------------------------------------------------------------------------


def enqueue_entity(k: Kernel, se: Entity, initial: bool) -> None:
    """Put an entity on its queue (enqueue_entity() and account_entity_enqueue(), v6.12.107)."""
    cfs_rq = se.cfs_rq
    runs = cfs_rq.curr is se
    if runs:
        place_entity(k, cfs_rq, se, initial)
    update_curr(k, cfs_rq)
    pelt.update_load_avg(k.now_ns, se, tg=True, do_attach=True)
    update_runnable(se)
    update_cfs_group(k, se)
    if not runs:
        place_entity(k, cfs_rq, se, initial)
    add_weight(cfs_rq, se, 1)
    if se.task is not None:
        cfs_rq.rq.cfs_tasks.insert(0, se.task)
    cfs_rq.nr_running += 1
    if not runs:
        insert(cfs_rq, se)
    se.on_rq = True
    cfs_rq.on_list = True


def enqueue_task(
    k: Kernel, rq: Rq, p: Task, wakeup: bool = False, waking: bool = False, initial: bool = False
) -> None:
    """Put a task, and its group's entity if needed, on a run queue (enqueue_task_fair(), v6.12.107)."""
    rq.clock_ns = k.now_ns
    # a sleeper that was queued elsewhere stays asleep, and was not expected to use the CPU
    asleep = p.se.sched_delayed and not p.se.on_rq
    if not asleep:
        rq.cfs.avg.util_est += p.se.avg.util_est
    if p.se.sched_delayed and p.se.on_rq:
        requeue_delayed(k, p.se)
        k.log_nr_running(rq)
        return
    levels = p.se.levels()
    slice_ns = i = 0
    while i < len(levels):
        se = levels[i]
        if se.on_rq:
            if se.sched_delayed:
                requeue_delayed(k, se)
            break
        if slice_ns:
            se.slice_ns, se.custom_slice = slice_ns, True
        enqueue_entity(k, se, initial)
        slice_ns = min_slice(se.cfs_rq)
        se.cfs_rq.h_nr_running += 1
        se.cfs_rq.h_nr_delayed += asleep
        initial = False
        i += 1
    _update_above(k, levels[i:], slice_ns, 1, int(asleep))
    k.add_nr_running(rq, 1)
    hrtick_update(k, rq)


def _update_above(
    k: Kernel, levels: list[Entity], slice_ns: int, queued: int, delayed: int
) -> None:
    """Update the levels that stay queued while a task below them comes (``queued`` is 1) or goes (-1).

    ``delayed`` is the same for a task that is asleep, otherwise 0.
    """
    for se in levels:
        pelt.update_load_avg(k.now_ns, se, tg=True)
        update_runnable(se)
        update_cfs_group(k, se)
        se.slice_ns = slice_ns
        slice_ns = min_slice(se.cfs_rq)
        se.cfs_rq.h_nr_running += queued
        se.cfs_rq.h_nr_delayed += delayed


def requeue_delayed(k: Kernel, se: Entity) -> None:
    """Wake an entity whose dequeue was delayed (requeue_delayed_entity(), v6.12.107).

    A sleeper whose lag has become positive is placed anew without it, and in v7.2.13 one whose lag was changed. Another one stays
    where it is.
    """
    cfs_rq, kept = se.cfs_rq, k.rules.sleepers_lag_kept
    if kept:
        update_curr(k, cfs_rq)
    changed = update_entity_lag(k, se)
    if changed if kept else se.vlag > 0:
        cfs_rq.nr_running -= 1
        if se is not cfs_rq.curr:
            remove(cfs_rq, se)
        se.vlag = min(se.vlag, 0)
        place_entity(k, cfs_rq, se, False)
        if se is not cfs_rq.curr:
            insert(cfs_rq, se)
        cfs_rq.nr_running += 1
    pelt.update_load_avg(k.now_ns, se)
    _set_delayed(se, False)


def _set_delayed(se: Entity, delayed: bool) -> None:
    """Mark a sleeper that stays queued; only tasks are counted (set_delayed() and clear_delayed(), v6.12.107)."""
    se.sched_delayed = delayed
    if se.task is not None:
        for level in se.levels():
            level.cfs_rq.h_nr_delayed += 1 if delayed else -1


# --- dequeue ----------------------------------------------------------------------------------------------------------


def dequeue_entity(
    k: Kernel, se: Entity, sleep: bool, delayed: bool, special: bool, migrating: bool
) -> bool:
    """Take an entity off its queue; return False if the dequeue is delayed (dequeue_entity(), v6.12.107).

    An entity that had more than its share stays queued while it sleeps, until the others have caught up.
    """
    cfs_rq = se.cfs_rq
    update_curr(k, cfs_rq)
    clear_buddies(se)
    if k.delay_dequeue and sleep and not delayed and not special and not eligible(cfs_rq, se):
        pelt.update_load_avg(k.now_ns, se)
        if k.rules.util_est_at_dequeue and se.task is not None:
            pelt.util_est_update(se)
        if k.rules.sleepers_lag_kept:
            update_entity_lag(k, se)
        _set_delayed(se, True)
        return False
    pelt.update_load_avg(k.now_ns, se, tg=True, do_detach=migrating and se.task is not None)
    if k.rules.util_est_at_dequeue and se.task is not None and sleep and not delayed:
        pelt.util_est_update(se)
    update_runnable(se)
    update_entity_lag(k, se)
    if not sleep:
        se.deadline -= se.vruntime
        se.rel_deadline = True
    if se is not cfs_rq.curr:
        remove(cfs_rq, se)
    se.on_rq = False
    add_weight(cfs_rq, se, -1)
    if se.task is not None:
        cfs_rq.rq.cfs_tasks.remove(se.task)
    cfs_rq.nr_running -= 1
    update_cfs_group(k, se)
    if delayed:
        _set_delayed(se, False)
        se.vlag = min(se.vlag, 0)
    return True


def dequeue_entities(
    k: Kernel,
    rq: Rq,
    se: Entity,
    sleep: bool,
    delayed: bool = False,
    special: bool = False,
    migrating: bool = False,
) -> bool:
    """Take a task or a group's entity, and the groups that it leaves empty, off a run queue (dequeue_entities(), v6.12.107).

    The flags are DEQUEUE_SLEEP, DEQUEUE_DELAYED (the end of a delayed dequeue) and DEQUEUE_SPECIAL (never delay), and whether
    the task migrates. Return False if the dequeue of the task is delayed.
    """
    is_task, task_sleep, ends_delay = se.task is not None, sleep, delayed
    tasks = int(is_task)
    # a sleeper that moves to another CPU stays asleep
    asleep = int(is_task and se.sched_delayed and not sleep and not delayed)
    slice_ns = 0 if se.my_q is None else min_slice(se.my_q)
    levels = se.levels()
    i = 0
    while i < len(levels):
        level = levels[i]
        cfs_rq = level.cfs_rq
        if not dequeue_entity(k, level, sleep, delayed, special, migrating):
            if level.task is not None:
                return False
            slice_ns = min_slice(cfs_rq)
            break
        cfs_rq.h_nr_running -= tasks
        cfs_rq.h_nr_delayed -= asleep
        i += 1
        if cfs_rq.weight:
            slice_ns = min_slice(cfs_rq)
            if task_sleep and level.parent is not None:
                set_next_buddy(level.parent)
            break
        sleep, delayed, special = True, False, False
    _update_above(k, levels[i:], slice_ns, -tasks, -asleep)
    if is_task:
        if ends_delay:
            rq.nr_running -= 1  # the log has counted it as asleep since its dequeue was delayed
            k.log_weight(rq)
        else:
            k.add_nr_running(rq, -1)
    return True


def dequeue_task(
    k: Kernel, rq: Rq, p: Task, sleep: bool, migrating: bool = True, saved: bool = False
) -> None:
    """Take a task off a run queue, or let it stay there asleep (dequeue_task_fair(), v6.12.107).

    ``migrating`` says, of a task that does not sleep, whether it leaves its CPU. ``saved`` makes a difference under CFS only. A
    dying task never stays.
    """
    rq.clock_ns = k.now_ns
    root = rq.cfs.avg
    if sleep or not p.se.sched_delayed:
        root.util_est -= min(root.util_est, p.se.avg.util_est)
    if sleep and not k.rules.util_est_at_dequeue:
        pelt.util_est_update(p.se)
    special = p.state == "X"
    if not dequeue_entities(k, rq, p.se, sleep, special=special, migrating=migrating and not sleep):
        k.log_nr_running(rq)


# --- wakeup -----------------------------------------------------------------------------------------------------------


def check_preempt_wakeup(k: Kernel, rq: Rq, p: Task, new: bool = False) -> None:
    """Preempt the running task if EEVDF would choose the woken one (check_preempt_wakeup_fair(), v6.12.107 and v6.18.15).

    v7.2.13 calls it wakeup_preempt_fair(). There a ``new`` task, or one that sleeps, does not preempt. All tasks are
    SCHED_NORMAL here and have slices of one length, except groups, which have the shortest one in them.
    """
    curr = rq.curr
    if curr is p or rq.need_resched:
        return
    # find_matching_se()
    a, b = curr.se.levels(), p.se.levels()
    a, b = a[max(len(a) - len(b), 0) :], b[max(len(b) - len(a), 0) :]
    while a[0].cfs_rq is not b[0].cfs_rq:
        del a[0], b[0]
    se, pse = a[0], b[0]
    cfs_rq = se.cfs_rq
    update_curr(k, cfs_rq)
    if not k.rules.slice_end_stored:
        if _preempts_short(cfs_rq, se, pse) and protected(se):
            se.vlag = se.deadline + 1  # cancel_protect_slice()
        if pick_eevdf(cfs_rq) is pse:
            resched_lazy(k, rq)
        return
    short = pse.slice_ns < se.slice_ns
    if k.rules.wakeup_picks:
        if not short and (new or pse.sched_delayed):
            return
        chosen = pick_next_entity(k, cfs_rq, not short)
        while chosen is None and cfs_rq.nr_running:
            chosen = pick_next_entity(k, cfs_rq, not short)
    else:
        chosen = pick_eevdf(cfs_rq, not short)
    if chosen is not pse:
        if short or k.rules.wakeup_picks:
            shorten_protection(cfs_rq, se)
        return
    if short:
        if protected(se):
            se.vprot = se.vruntime  # cancel_protect_slice()
        if k.rules.wakeup_picks:
            clear_buddies(se)
    resched_lazy(k, rq)


def _preempts_short(cfs_rq: CfsRq, se: Entity, pse: Entity) -> bool:
    """Tell whether an entity with a shorter slice may interrupt a protected one (do_preempt_short(), v6.12.107)."""
    if pse.slice_ns >= se.slice_ns or not eligible(cfs_rq, pse):
        return False
    return pse.deadline < se.deadline or not eligible(cfs_rq, se)


def wake_delayed(k: Kernel, p: Task) -> None:
    """Wake a task that is still queued, where it is (ttwu_runnable(), core.c, v6.12.107)."""
    rq = k.rqs[p.cpu]
    enqueue_task(k, rq, p)
    k.check_preempt_curr(rq, p)


def yield_task(k: Kernel, rq: Rq, p: Task) -> None:
    """Let an eligible task forgo the rest of its slice (yield_task_fair(), v6.12.107)."""
    if rq.nr_running == 1:
        return
    se = p.se
    clear_buddies(se)
    update_curr(k, se.cfs_rq)
    if eligible(se.cfs_rq, se):
        se.vruntime = se.deadline
        update_deadline(k, se.cfs_rq, se)


# --- fork ---------------------------------------------------------------------------------------


def task_fork(k: Kernel, p: Task) -> None:
    """Begin the life of a task; it is not placed against its parent (sched_fork(), core.c, v6.12.107)."""
    p.se.weight = PRIO_TO_WEIGHT[p.nice + 20] << 10  # set_load_weight()
    pelt.init_entity(p.se)


def post_init(k: Kernel, p: Task) -> None:
    """Estimate the use of a new task on the CPU that was chosen for it (post_init_entity_util_avg(), v6.12.107)."""
    pelt.post_init_util(p.se)
