"""CFS on one CPU: enqueue, dequeue, pick, tick, preemption (kernel/sched/fair.c, v4.1).

Functions that need the clock, the tunables or the log take the kernel ``k`` first. Here the clock of a run queue is always
the simulated time. ``cfs_v6_1.py`` shares most of this. What the two versions compute differently is called as ``k.fair``'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.simulator.reference import pelt
from wastedcores.simulator.reference.arithmetic import NICE_0_LOAD, calc_delta, inverse_weight
from wastedcores.simulator.reference.state import CfsRq, Entity, Rq, Task

if TYPE_CHECKING:
    from wastedcores.simulator.reference.kernel import Kernel

#: sched_nr_latency
NR_LATENCY = 8


def calc_delta_fair(delta: int, se: Entity) -> int:
    """Convert real time into the virtual time of ``se`` (calc_delta_fair(), v4.1)."""
    if se.weight == NICE_0_LOAD:
        return delta
    return calc_delta(delta, NICE_0_LOAD, se.inv)


def update_curr(k: Kernel, cfs_rq: CfsRq) -> None:
    """Charge the running entity for the time since it was last charged (update_curr(), v4.1)."""
    curr = cfs_rq.curr
    if curr is None:
        return
    delta = k.now_ns - curr.exec_start
    if delta <= 0:
        return
    curr.exec_start = k.now_ns
    curr.sum_exec += delta
    curr.vruntime += k.fair.calc_delta_fair(delta, curr)
    k.fair.update_min_vruntime(cfs_rq)


def update_min_vruntime(cfs_rq: CfsRq) -> None:
    """Advance the queue's min_vruntime, which never goes back (update_min_vruntime(), v4.1)."""
    v = cfs_rq.min_vruntime
    if cfs_rq.curr is not None:
        v = cfs_rq.curr.vruntime
    if cfs_rq.tree:
        left = cfs_rq.tree[0].vruntime
        v = left if cfs_rq.curr is None else min(v, left)
    cfs_rq.min_vruntime = max(cfs_rq.min_vruntime, v)


# --- slices -----------------------------------------------------------------------------------------------------------


def sched_period(k: Kernel, nr_running: int) -> int:
    """Return the time in which every runnable entity should run once (__sched_period(), v4.1)."""
    if nr_running > NR_LATENCY:
        return nr_running * k.min_granularity_ns
    return k.latency_ns


def sched_slice(k: Kernel, cfs_rq: CfsRq, se: Entity) -> int:
    """Return the real time for which ``se`` may run in one period (sched_slice(), v4.1).

    The period counts the entities of its own queue only.
    """
    slice_ns = sched_period(k, cfs_rq.nr_running + (not se.on_rq))
    for level in se.levels():
        weight = level.cfs_rq.weight
        if not level.on_rq:
            weight += level.weight
        slice_ns = calc_delta(slice_ns, level.weight, inverse_weight(weight))
    return slice_ns


def sched_vslice(k: Kernel, cfs_rq: CfsRq, se: Entity) -> int:
    """Return the slice of ``se`` in its virtual time (sched_vslice(), v4.1)."""
    return k.fair.calc_delta_fair(k.fair.sched_slice(k, cfs_rq, se), se)


# --- queue membership -------------------------------------------------------------------------------------------------


def place_entity(k: Kernel, cfs_rq: CfsRq, se: Entity, initial: bool) -> None:
    """Set the virtual time of a new or waking entity (place_entity(), v4.1; START_DEBIT and GENTLE_FAIR_SLEEPERS on)."""
    v = cfs_rq.min_vruntime
    if initial:
        v += sched_vslice(k, cfs_rq, se)
    else:
        v -= k.latency_ns >> 1
    se.vruntime = max(se.vruntime, v)


def account_enqueue(cfs_rq: CfsRq, se: Entity) -> None:
    """Add the weight of ``se`` to its queue; a task goes to the head of rq->cfs_tasks (account_entity_enqueue(), v4.1)."""
    cfs_rq.weight += se.weight
    if se.parent is None:
        cfs_rq.rq.load_weight += se.weight
    if se.task is not None:
        cfs_rq.rq.cfs_tasks.insert(0, se.task)
    cfs_rq.nr_running += 1


def account_dequeue(cfs_rq: CfsRq, se: Entity) -> None:
    """Take the weight of ``se`` off its queue (account_entity_dequeue(), v4.1)."""
    cfs_rq.weight -= se.weight
    if se.parent is None:
        cfs_rq.rq.load_weight -= se.weight
    if se.task is not None:
        cfs_rq.rq.cfs_tasks.remove(se.task)
    cfs_rq.nr_running -= 1


def update_cfs_shares(k: Kernel, cfs_rq: CfsRq) -> None:
    """Set the weight of a group's entity to its CPU's present part of the group (update_cfs_shares(), v4.1)."""
    se = cfs_rq.tg.se[cfs_rq.rq.cpu]
    if se is None:
        return
    weight = pelt.calc_shares(cfs_rq)
    # reweight_entity()
    if se.on_rq:
        if se.cfs_rq.curr is se:
            update_curr(k, se.cfs_rq)
        account_dequeue(se.cfs_rq, se)
    pelt.set_weight(se, weight)
    if se.on_rq:
        account_enqueue(se.cfs_rq, se)


def enqueue_entity(k: Kernel, se: Entity, wakeup: bool, waking: bool) -> None:
    """Put an entity on its queue; the flags are ENQUEUE_WAKEUP and ENQUEUE_WAKING (enqueue_entity(), v4.1)."""
    cfs_rq = se.cfs_rq
    if not wakeup or waking:
        se.vruntime += cfs_rq.min_vruntime
    update_curr(k, cfs_rq)
    k.pelt.enqueue_load_avg(se, k.now_ns, wakeup)
    account_enqueue(cfs_rq, se)
    update_cfs_shares(k, cfs_rq)
    if wakeup:
        place_entity(k, cfs_rq, se, initial=False)
    if se is not cfs_rq.curr:
        cfs_rq.insert(se)
    se.on_rq = True
    if cfs_rq.nr_running == 1:
        cfs_rq.on_list = True


def dequeue_entity(k: Kernel, se: Entity, sleep: bool) -> None:
    """Take an entity off its queue; the flag is DEQUEUE_SLEEP (dequeue_entity(), v4.1)."""
    cfs_rq = se.cfs_rq
    update_curr(k, cfs_rq)
    k.pelt.dequeue_load_avg(se, k.now_ns, sleep)
    clear_buddies(se)
    if se is not cfs_rq.curr:
        cfs_rq.remove(se)
    se.on_rq = False
    account_dequeue(cfs_rq, se)
    if not sleep:
        se.vruntime -= cfs_rq.min_vruntime
    update_min_vruntime(cfs_rq)
    update_cfs_shares(k, cfs_rq)


def enqueue_task(
    k: Kernel, rq: Rq, p: Task, wakeup: bool = False, waking: bool = False, initial: bool = False
) -> None:
    """Put a task, and its group's entity if needed, on a run queue (enqueue_task() and enqueue_task_fair(), v4.1).

    A new task (``initial``) was placed by :func:`task_fork`.
    """
    rq.clock_ns = k.now_ns
    levels = p.se.levels()
    i = 0
    while i < len(levels) and not levels[i].on_rq:
        enqueue_entity(k, levels[i], wakeup, waking)
        levels[i].cfs_rq.h_nr_running += 1
        # parents sleep and wake with absolute vruntime
        wakeup, waking = True, False
        i += 1
    for se in levels[i:]:
        se.cfs_rq.h_nr_running += 1
        _update_level(k, se)
    k.add_nr_running(rq, 1)


def dequeue_task(k: Kernel, rq: Rq, p: Task, sleep: bool) -> None:
    """Take a task, and its group's entity if it was the last, off a run queue (dequeue_task_fair(), v4.1)."""
    rq.clock_ns = k.now_ns
    levels = p.se.levels()
    task_sleep = sleep
    i = 0
    while i < len(levels):
        se = levels[i]
        dequeue_entity(k, se, sleep)
        se.cfs_rq.h_nr_running -= 1
        i += 1
        if se.cfs_rq.weight:
            # other tasks of the group remain: prefer to continue with the group
            if task_sleep and se.parent is not None:
                set_buddy(se.parent, "next")
            break
        sleep = True
    for se in levels[i:]:
        se.cfs_rq.h_nr_running -= 1
        _update_level(k, se)
    k.add_nr_running(rq, -1)


def _update_level(k: Kernel, se: Entity) -> None:
    """Update an entity above a task that came or left: first its weight and then its load, or in v4.4 first its load."""
    if k.model.tracks_load_v4_4:
        k.pelt.update_entity_load_avg(se, k.now_ns, True)
    update_cfs_shares(k, se.cfs_rq)
    if not k.model.tracks_load_v4_4:
        k.pelt.update_entity_load_avg(se, k.now_ns, True)


# --- buddies, choice --------------------------------------------------------------------------------------------------


def set_buddy(se: Entity, which: str) -> None:
    """Mark an entity as buddy on every level (set_next_buddy(), set_last_buddy() and set_skip_buddy(), v4.1)."""
    if se.task is not None and se.task.policy == "idle" and which != "skip":
        return
    for level in se.levels():
        setattr(level.cfs_rq, which, level)


def clear_buddies(se: Entity) -> None:
    """Remove the buddy marks of an entity, each upwards for as long as the levels carry it (clear_buddies(), v4.1)."""
    for which in ("last", "next", "skip"):
        for level in se.levels():
            if getattr(level.cfs_rq, which) is not level:
                break
            setattr(level.cfs_rq, which, None)


def wakeup_preempt_entity(k: Kernel, curr: Entity, se: Entity) -> int:
    """Compare virtual times (wakeup_preempt_entity(), v4.1).

    Return -1 if ``se`` has not run less than ``curr``, 0 if it has run less but not by the wakeup granularity, and 1 if it
    should preempt ``curr``.
    """
    vdiff = curr.vruntime - se.vruntime
    if vdiff <= 0:
        return -1
    return 1 if vdiff > k.fair.calc_delta_fair(k.wakeup_granularity_ns, se) else 0


def pick_next_entity(k: Kernel, cfs_rq: CfsRq, curr: Entity | None) -> Entity:
    """Choose the next entity, whose buddy marks are used up then (pick_next_entity(), v4.1)."""
    se = next_entity(k, cfs_rq, curr)
    clear_buddies(se)
    return se


def next_entity(k: Kernel, cfs_rq: CfsRq, curr: Entity | None) -> Entity:
    """Return the leftmost entity, or a buddy that is not unfair to it (pick_next_entity(), v4.1 and v6.1.192)."""
    left = cfs_rq.tree[0] if cfs_rq.tree else None
    if left is None or (curr is not None and curr.vruntime < left.vruntime):
        left = curr
    assert left is not None
    se = left
    if cfs_rq.skip is se:
        if se is curr:
            second = cfs_rq.tree[0] if cfs_rq.tree else None
        else:
            i = cfs_rq.tree.index(se) + 1
            second = cfs_rq.tree[i] if i < len(cfs_rq.tree) else None
            if second is None or (curr is not None and curr.vruntime < second.vruntime):
                second = curr
        if second is not None and wakeup_preempt_entity(k, second, left) < 1:
            se = second
    if cfs_rq.last is not None and wakeup_preempt_entity(k, cfs_rq.last, left) < 1:
        se = cfs_rq.last
    if cfs_rq.next is not None and wakeup_preempt_entity(k, cfs_rq.next, left) < 1:
        se = cfs_rq.next
    return se


def set_next_entity(k: Kernel, cfs_rq: CfsRq, se: Entity) -> None:
    """Take the chosen entity out of the tree and make it the running one (set_next_entity(), v4.1)."""
    if se.on_rq:
        cfs_rq.remove(se)
        k.pelt.update_entity_load_avg(se, k.now_ns, True)
    se.exec_start = k.now_ns
    cfs_rq.curr = se
    se.prev_sum_exec = se.sum_exec


def put_prev_entity(k: Kernel, cfs_rq: CfsRq, prev: Entity) -> None:
    """Put the entity that ran back into the tree if it is still runnable (put_prev_entity(), v4.1)."""
    if prev.on_rq:
        update_curr(k, cfs_rq)
        cfs_rq.insert(prev)
        k.pelt.update_put_prev(prev, k.now_ns)
    cfs_rq.curr = None


def put_prev_task(k: Kernel, prev: Task) -> None:
    """Put back a task that ran, on every level (put_prev_task_fair(), v4.1)."""
    for se in prev.se.levels():
        put_prev_entity(k, se.cfs_rq, se)


def task_tick(k: Kernel, rq: Rq, curr: Task) -> None:
    """Charge the running task at a tick and preempt it if its slice is over (task_tick_fair() and entity_tick(), v4.1)."""
    for se in curr.se.levels():
        cfs_rq = se.cfs_rq
        update_curr(k, cfs_rq)
        k.pelt.update_at_tick(se, k.now_ns)
        update_cfs_shares(k, cfs_rq)
        if cfs_rq.nr_running > 1:
            check_preempt_tick(k, rq, cfs_rq, se)


def check_preempt_tick(k: Kernel, rq: Rq, cfs_rq: CfsRq, curr: Entity) -> None:
    """Preempt the running entity if it ran longer than its slice (check_preempt_tick(), v4.1).

    The slice is only tested at ticks, so slices of 9 ms and of 12 ms both give quanta of 12 ms.
    """
    ideal = k.fair.sched_slice(k, cfs_rq, curr)
    ran = curr.sum_exec - curr.prev_sum_exec
    if ran > ideal:
        k.resched(rq)
        clear_buddies(curr)
        return
    if ran < k.min_granularity_ns:
        return
    delta = curr.vruntime - cfs_rq.tree[0].vruntime
    if delta > ideal:
        k.resched(rq)


def check_preempt_wakeup(k: Kernel, rq: Rq, p: Task, new: bool = False) -> None:
    """Preempt the running task if a woken one has run sufficiently less (check_preempt_wakeup(), v4.1)."""
    curr = rq.curr
    if curr is p:
        return
    scale = rq.curr.se.cfs_rq.nr_running >= NR_LATENCY
    if rq.need_resched:
        return
    se, pse = curr.se, p.se
    if curr.policy == "idle" and p.policy != "idle":
        preempt(k, rq, curr.se, scale)
        return
    if p.policy != "other":
        return
    # find_matching_se(): go up to the queue that both share
    a, b = se.levels(), pse.levels()
    while len(a) > len(b):
        a.pop(0)
    while len(b) > len(a):
        b.pop(0)
    while a[0].cfs_rq is not b[0].cfs_rq:
        a.pop(0)
        b.pop(0)
    se, pse = a[0], b[0]
    update_curr(k, se.cfs_rq)
    if wakeup_preempt_entity(k, se, pse) != 1:
        return
    set_buddy(pse, "next")
    preempt(k, rq, se, scale)


def preempt(k: Kernel, rq: Rq, se: Entity, scale: bool) -> None:
    """Reschedule, and come back to the preempted task if there are many (label preempt in check_preempt_wakeup(), v4.1)."""
    k.resched(rq)
    if scale and se.on_rq and se.task is not None:
        set_buddy(se, "last")


# --- fork, migration --------------------------------------------------------------------------------------------------


def task_fork(k: Kernel, p: Task) -> None:
    """Place a new task against the queue of the CPU on which it is made (task_fork_fair(), v4.1)."""
    queue = p.se.cfs_rq
    k.rqs[p.cpu].clock_ns = k.now_ns
    update_curr(k, queue)
    p.se.vruntime = queue.curr.vruntime if queue.curr is not None else 0
    place_entity(k, queue, p.se, initial=True)
    p.se.vruntime -= queue.min_vruntime
    k.pelt.new_entity(p.se)


def post_init(k: Kernel, p: Task) -> None:
    """Let a new task count as fully loaded from the start (init_task_runnable_average(), v4.1)."""
    k.pelt.post_init(p.se, sched_slice(k, p.se.cfs_rq, p.se) >> 10)


def migrate_task(k: Kernel, p: Task) -> None:
    """Take a sleeping task's load off its old CPU before the CPU changes (migrate_task_rq_fair(), v4.1)."""
    k.pelt.migrate(p.se)
    p.se.exec_start = 0


def set_task_rq(p: Task, cpu: int) -> None:
    """Attach the task's entity to its group's queue on ``cpu`` (set_task_rq(), v4.1)."""
    p.cpu = cpu
    p.se.cfs_rq = p.tg.cfs_rq[cpu]
    p.se.parent = p.tg.se[cpu]
