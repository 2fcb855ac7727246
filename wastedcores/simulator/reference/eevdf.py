"""EEVDF on one CPU: lag, eligibility, deadlines, delayed dequeue, pick, tick, preemption (kernel/sched/fair.c, v6.12.107).

The tree of a queue is ordered by deadline, and an entity is eligible if its vruntime is not ahead of the weighted average of
its queue. Weights are shifted up by ten bits (scale_load()), as in this kernel on 64-bit machines. The features are the
defaults of features.h: PLACE_LAG, PLACE_DEADLINE_INITIAL, PLACE_REL_DEADLINE, RUN_TO_PARITY, PREEMPT_SHORT, PICK_BUDDY,
DELAY_DEQUEUE and DELAY_ZERO. ``eevdf_class.py`` enqueues, dequeues and wakes tasks with these functions.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from wastedcores.simulator.reference import pelt_v6_12 as pelt
from wastedcores.simulator.reference.arithmetic import inverse_weight
from wastedcores.simulator.reference.pelt_v6_12 import quotient, scale_load_down
from wastedcores.simulator.reference.preemption import resched_lazy
from wastedcores.simulator.reference.scaled_weights import (
    add_weight,
    calc_delta_fair,
    calc_group_shares,
)
from wastedcores.simulator.reference.state import CfsRq, Entity

if TYPE_CHECKING:
    from wastedcores.simulator.reference.kernel import Kernel

#: normalized_sysctl_sched_base_slice
BASE_SLICE_NS = 700_000


# --- average, eligibility, lag ----------------------------------------------------------------------------------------


def running(cfs_rq: CfsRq) -> Entity | None:
    """Return the entity that runs if it is still runnable; it is not in the tree and not in the sums."""
    curr = cfs_rq.curr
    return curr if curr is not None and curr.on_rq else None


def averaged(cfs_rq: CfsRq, weight: int) -> int:
    """Return a weight as averages of virtual time use it (scale_load_down(), v6.12.107; avg_vruntime_weight(), v7.2.13)."""
    return weight if cfs_rq.rq.rules.exact_averages else scale_load_down(weight)


def avg_vruntime(cfs_rq: CfsRq) -> int:
    """Return the weighted average of vruntime, which becomes the zero point of the sums (avg_vruntime(), v6.12.107)."""
    curr = running(cfs_rq)
    change = 0
    if cfs_rq.avg_load:
        total, load = cfs_rq.avg_vruntime, cfs_rq.avg_load
        if curr is not None:
            weight = averaged(cfs_rq, curr.weight)
            total += (curr.vruntime - cfs_rq.zero_vruntime) * weight
            load += weight
        change = total // load  # rounds down, also below zero
    elif curr is not None:
        change = curr.vruntime - cfs_rq.zero_vruntime
    cfs_rq.avg_vruntime -= cfs_rq.avg_load * change
    cfs_rq.zero_vruntime += change
    return cfs_rq.zero_vruntime


def eligible(cfs_rq: CfsRq, se: Entity) -> bool:
    """Tell whether ``se`` has not had more than its share (entity_eligible() and vruntime_eligible(), v6.12.107)."""
    total, load = cfs_rq.avg_vruntime, cfs_rq.avg_load
    curr = running(cfs_rq)
    if curr is not None:
        weight = averaged(cfs_rq, curr.weight)
        total += (curr.vruntime - cfs_rq.zero_vruntime) * weight
        load += weight
    return total >= (se.vruntime - cfs_rq.zero_vruntime) * load


def entity_lag(k: Kernel, average: int, se: Entity) -> int:
    """Return by how much ``se`` is behind the average, within limits (entity_lag(), v6.12.107 and v7.2.13)."""
    longest = max(2 * se.slice_ns, k.tick_ns)
    if k.rules.sleepers_lag_kept:
        longest = max_slice(se.cfs_rq) + k.tick_ns
    limit = calc_delta_fair(longest, se)
    return min(max(average - se.vruntime, -limit), limit)


def update_entity_lag(k: Kernel, se: Entity) -> bool:
    """Note the lag of a queued entity; return whether it is not its distance from the average (update_entity_lag(), v7.2.13).

    The lag of a sleeper that is still queued may only shrink, and does not become positive (DELAY_ZERO).
    """
    average = avg_vruntime(se.cfs_rq)
    lag = entity_lag(k, average, se)
    if k.rules.sleepers_lag_kept and se.sched_delayed:
        lag = min(max(lag, se.vlag), 0)
    se.vlag = lag
    return average - lag != se.vruntime


def insert(cfs_rq: CfsRq, se: Entity) -> None:
    """Insert an entity into the tree, behind others of equal deadline (__enqueue_entity(), v6.12.107)."""
    weight = averaged(cfs_rq, se.weight)
    cfs_rq.avg_vruntime += (se.vruntime - cfs_rq.zero_vruntime) * weight
    cfs_rq.avg_load += weight
    cfs_rq.tree.insert(bisect_right(cfs_rq.tree, se.deadline, key=lambda e: e.deadline), se)


def remove(cfs_rq: CfsRq, se: Entity) -> None:
    """Remove an entity from the tree (__dequeue_entity(), v6.12.107)."""
    cfs_rq.tree.remove(se)
    weight = averaged(cfs_rq, se.weight)
    cfs_rq.avg_vruntime -= (se.vruntime - cfs_rq.zero_vruntime) * weight
    cfs_rq.avg_load -= weight


# --- the running entity -----------------------------------------------------------------------------------------------


def protected(curr: Entity) -> bool:
    """Tell whether the slice with which ``curr`` was picked has not ended (protect_slice(), v6.12.107 and v6.18.15)."""
    if curr.cfs_rq.rq.rules.slice_end_stored:
        return curr.vprot > curr.vruntime
    return curr.vlag == curr.deadline


def protect(cfs_rq: CfsRq, se: Entity) -> None:
    """Protect the chosen entity for its slice, or the shortest one on the queue (set_protect_slice(), v6.12.107 and v6.18.15)."""
    if not cfs_rq.rq.rules.slice_end_stored:
        se.vlag = se.deadline
        return
    se.vprot = se.deadline
    slice_ns = min(min_slice(cfs_rq) or se.slice_ns, se.slice_ns)
    if slice_ns != se.slice_ns:
        se.vprot = min(se.vprot, se.vruntime + calc_delta_fair(slice_ns, se))


def shorten_protection(cfs_rq: CfsRq, se: Entity) -> None:
    """Protect the running entity no longer than for the shortest slice on the queue (update_protect_slice(), v6.18.15)."""
    se.vprot = min(se.vprot, se.vruntime + calc_delta_fair(min_slice(cfs_rq), se))


def update_curr(k: Kernel, cfs_rq: CfsRq) -> None:
    """Charge the running entity and end its slice if it is used up (update_curr(), v6.12.107)."""
    curr = cfs_rq.curr
    if curr is None:
        return
    delta = k.now_ns - curr.exec_start
    if delta <= 0:
        return
    curr.exec_start = k.now_ns
    curr.sum_exec += delta
    curr.vruntime += calc_delta_fair(delta, curr)
    ended = update_deadline(k, cfs_rq, curr)
    if cfs_rq.nr_running == 1:
        return
    if ended or (not protected(curr) and (k.rules.slice_end_stored or not eligible(cfs_rq, curr))):
        resched_lazy(k, cfs_rq.rq)
        clear_buddies(curr)


def update_deadline(k: Kernel, cfs_rq: CfsRq, se: Entity) -> bool:
    """Give ``se`` a new slice if it used up its last one; return whether it did (update_deadline(), v6.12.107)."""
    if se.vruntime < se.deadline:
        return False
    if not se.custom_slice:
        se.slice_ns = k.base_slice_ns
    se.deadline = se.vruntime + calc_delta_fair(se.slice_ns, se)
    avg_vruntime(cfs_rq)
    return True


def set_next_entity(k: Kernel, cfs_rq: CfsRq, se: Entity, first: bool = True) -> None:
    """Make the chosen entity the running one and protect its slice (set_next_entity(), v6.12.107 and v7.2.13).

    ``first`` is false of one that ran already, before its weight or group changed. A task also goes to the head of
    rq->cfs_tasks (set_next_task_fair()).
    """
    clear_buddies(se)
    if se.on_rq:
        remove(cfs_rq, se)
        pelt.update_load_avg(k.now_ns, se, tg=True)
        if first or k.rules.reweight != "average":
            protect(cfs_rq, se)
        if se.task is not None:
            cfs_rq.rq.cfs_tasks.remove(se.task)
            cfs_rq.rq.cfs_tasks.insert(0, se.task)
    se.exec_start = k.now_ns
    cfs_rq.curr = se
    se.prev_sum_exec = se.sum_exec


def put_prev_entity(k: Kernel, cfs_rq: CfsRq, prev: Entity) -> None:
    """Put the entity that ran back into the tree if it is still queued (put_prev_entity(), v6.12.107)."""
    if prev.on_rq:
        update_curr(k, cfs_rq)
        insert(cfs_rq, prev)
        pelt.update_load_avg(k.now_ns, prev)
    cfs_rq.curr = None


# --- choice -----------------------------------------------------------------------------------------------------------


def clear_buddies(se: Entity) -> None:
    """Remove the mark of the next buddy upwards for as long as the levels carry it (clear_buddies(), v6.12.107)."""
    for level in se.levels():
        if level.cfs_rq.next is not level:
            break
        level.cfs_rq.next = None


def set_next_buddy(se: Entity) -> None:
    """Mark an entity as next buddy on every level (set_next_buddy(), v6.12.107)."""
    for level in se.levels():
        level.cfs_rq.next = level


def pick_eevdf(cfs_rq: CfsRq, protect: bool = True) -> Entity:
    """Return the eligible entity of the earliest deadline, or ``curr`` during its slice (pick_eevdf(), v6.12.107).

    ``protect`` is false if that does not count (__pick_eevdf(), v6.18.15).
    """
    curr = running(cfs_rq)
    if cfs_rq.nr_running == 1:
        return curr if curr is not None else cfs_rq.tree[0]
    if curr is not None and not eligible(cfs_rq, curr):
        curr = None
    if curr is not None and protect and protected(curr):
        return curr
    best = next((se for se in cfs_rq.tree if eligible(cfs_rq, se)), None)
    if best is None or (curr is not None and curr.deadline < best.deadline):
        best = curr
    assert best is not None, (
        "no entity is eligible, although the average is never below all of them"
    )
    return best


# --- weights ----------------------------------------------------------------------------------------------------------


def reweight_entity(k: Kernel, se: Entity, weight: int, inv: int) -> None:
    """Change a weight and keep the lag (reweight_entity(), v6.12.107, v6.18.15 and v7.2.13).

    v6.18 places a queued entity anew. The other versions keep its distances from the average (reweight_eevdf(), v6.12.107;
    rescale_entity(), v7.2.13), and v7.2 that of the end of its protection, too.
    """
    cfs_rq, old, how = se.cfs_rq, se.weight, k.rules.reweight
    average, protects = 0, False
    if se.on_rq:
        update_curr(k, cfs_rq)
        average = avg_vruntime(cfs_rq)
        lag = entity_lag(k, average, se)
        protects = how == "average" and cfs_rq.curr is se and protected(se)
        if how == "place":
            se.vlag, se.rel_deadline = lag, True
            se.deadline -= se.vruntime
            cfs_rq.nr_running -= 1
        if cfs_rq.curr is not se:
            remove(cfs_rq, se)
        add_weight(cfs_rq, se, -1)
    pelt.dequeue_load_avg(cfs_rq, se)
    if se.on_rq and how != "place":
        lag = quotient(lag * old, weight)
        if how == "average":
            se.vlag = lag
        se.vruntime = average - lag
        se.deadline = average + quotient((se.deadline - average) * old, weight)
        if protects:
            se.vprot = average + quotient((se.vprot - average) * old, weight)
    else:
        se.vlag = quotient(se.vlag * old, weight)
        if se.rel_deadline and how != "lag":
            se.deadline = quotient(se.deadline * old, weight)
    se.weight, se.inv = weight, inv
    divider = pelt.MIN_DIVIDER + se.avg.period_contrib
    se.avg.load_avg = scale_load_down(weight) * se.avg.load_sum // divider
    pelt.enqueue_load_avg(cfs_rq, se)
    if se.on_rq:
        if how == "place":
            place_entity(k, cfs_rq, se, False)
        add_weight(cfs_rq, se, 1)
        if cfs_rq.curr is not se:
            insert(cfs_rq, se)
        if how == "place":
            cfs_rq.nr_running += 1


def update_cfs_group(k: Kernel, se: Entity) -> None:
    """Give a group's entity its CPU's part of the group (update_cfs_group(), v6.12.107)."""
    g = se.my_q
    if g is None or not g.weight:
        return
    weight = calc_group_shares(g)
    if weight != se.weight:
        reweight_entity(k, se, weight, inverse_weight(scale_load_down(weight)))


# --- queue membership -------------------------------------------------------------------------------------------------


def place_entity(k: Kernel, cfs_rq: CfsRq, se: Entity, initial: bool) -> None:
    """Place an entity so that it keeps its lag, and give it a deadline (place_entity(), v6.12.107)."""
    average = avg_vruntime(cfs_rq)
    if not se.custom_slice:
        se.slice_ns = k.base_slice_ns
    lag = 0
    if cfs_rq.nr_running:
        load = cfs_rq.avg_load
        curr = running(cfs_rq)
        if curr is not None:
            load += averaged(cfs_rq, curr.weight)
        lag = quotient(se.vlag * (load + averaged(cfs_rq, se.weight)), load or 1)
    se.vruntime = average - lag
    if se.rel_deadline:
        se.deadline += se.vruntime
        se.rel_deadline = False
        return
    length = calc_delta_fair(se.slice_ns, se)
    se.deadline = se.vruntime + (length // 2 if initial else length)


def min_slice(cfs_rq: CfsRq) -> int:
    """Return the shortest slice on a queue (cfs_rq_min_slice(), v6.12.107)."""
    entities = list(cfs_rq.tree)
    curr = running(cfs_rq)
    if curr is not None:
        entities.append(curr)
    return min((se.slice_ns for se in entities), default=0)


def max_slice(cfs_rq: CfsRq) -> int:
    """Return the longest slice on a queue (cfs_rq_max_slice(), v7.2.13)."""
    curr = running(cfs_rq)
    return max([se.slice_ns for se in (*cfs_rq.tree, *([] if curr is None else [curr]))], default=0)
