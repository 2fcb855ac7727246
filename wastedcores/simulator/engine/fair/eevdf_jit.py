"""EEVDF on one queue: average, eligibility, lag, deadlines, choice, weights (kernel/sched/fair.c, v6.12.107).

The queue is a list in the order of deadlines. Its first eligible entity is the one that a search of the kernel's tree finds.
"""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import reweight
from wastedcores.simulator.engine.fair import entity_jit
from wastedcores.simulator.engine.fair.cfs_jit import resched_lazy
from wastedcores.simulator.engine.fair.entity_jit import add_weight, clear_buddies, link
from wastedcores.simulator.engine.fair.modern_task_jit import calc_group_shares, set_weight
from wastedcores.simulator.engine.fair.pelt_v6_12_jit import (
    UPDATE_TG,
    quotient,
    scale_load_down,
    update_load_avg,
)
from wastedcores.simulator.engine.fair.vruntime_jit import calc_delta_fair, inverse_weight
from wastedcores.simulator.engine.world.rows_jit import modern, task_of
from wastedcores.simulator.engine.world.structs import NO_ENTITY, CfsRq, Kernel, SchedEntity


@inner
def running(k: Kernel, q: CfsRq) -> SchedEntity:
    """Return the running entity if it is still runnable, else NULL. The running entity is in neither the tree nor the sums."""
    curr = q.curr
    return curr if curr and curr.on_rq != 0 else NO_ENTITY


@inner
def key(k: Kernel, q: CfsRq, se: SchedEntity) -> int:
    """entity_key(): return the vruntime minus the zero point of the sums."""
    return se.vruntime - q.zero_vruntime


@inner
def averaged(k: Kernel, weight: int) -> int:
    """scale_load_down(), avg_vruntime_weight(): return a weight in the resolution that averages of virtual time use."""
    return weight if modern(k).exact_averages != 0 else scale_load_down(weight)


@apart(VALUE)
def avg_vruntime(k: Kernel, q: CfsRq) -> int:
    """avg_vruntime(): return the weighted average of vruntime, which becomes the zero point of the sums."""
    curr = running(k, q)
    change = 0
    load = q.avg_load
    if load != 0:
        total = q.avg_vruntime
        if curr:
            weight = averaged(k, curr.weight)
            total += key(k, q, curr) * weight
            load += weight
        change = total // load  # rounds down, even if the sum is negative
    elif curr:
        change = key(k, q, curr)
    q.avg_vruntime -= q.avg_load * change
    q.zero_vruntime += change
    return q.zero_vruntime


@apart(VALUE)
def eligible(k: Kernel, q: CfsRq, se: SchedEntity) -> bool:
    """entity_eligible(), vruntime_eligible(): return whether an entity has not had more than its share."""
    total = q.avg_vruntime
    load = q.avg_load
    curr = running(k, q)
    if curr:
        weight = averaged(k, curr.weight)
        total += key(k, q, curr) * weight
        load += weight
    if modern(k).exact_averages != 0 and load > 0:
        return total // load >= key(k, q, se)  # the product may need more than 64 bits
    return total >= key(k, q, se) * load


@inner
def min_slice(k: Kernel, q: CfsRq) -> int:
    """cfs_rq_min_slice(): return the shortest slice on a queue, 0 if it is empty."""
    best = 0
    se = running(k, q)
    if se:
        best = se.slice
    se = q.leftmost
    while se:
        if best == 0 or se.slice < best:
            best = se.slice
        se = se.next
    return best


@inner
def max_slice(k: Kernel, q: CfsRq) -> int:
    """cfs_rq_max_slice(): return the longest slice on a queue."""
    se = running(k, q)
    best = se.slice if se else 0
    se = q.leftmost
    while se:
        best = max(best, se.slice)
        se = se.next
    return best


@inner
def entity_lag(k: Kernel, average: int, se: SchedEntity) -> int:
    """entity_lag(): return by how much an entity is behind the average, within limits."""
    longest = max(2 * se.slice, k.tick_ns)
    if modern(k).sleepers_lag_kept != 0:
        longest = max_slice(k, se.cfs_rq) + k.tick_ns
    limit = calc_delta_fair(k, longest, se)
    return min(max(average - se.vruntime, -limit), limit)


@apart(VALUE)
def update_entity_lag(k: Kernel, se: SchedEntity) -> bool:
    """update_entity_lag(): note the lag of a queued entity; return whether a limit has changed the lag.

    Since v7.2 the lag of a sleeper that is still queued may only shrink, and does not become positive (DELAY_ZERO).
    """
    average = avg_vruntime(k, se.cfs_rq)
    lag = entity_lag(k, average, se)
    if modern(k).sleepers_lag_kept != 0 and se.sched_delayed != 0:
        lag = min(max(lag, se.vlag), 0)
    se.vlag = lag
    return average - lag != se.vruntime


@apart(NOTHING)
def insert(k: Kernel, q: CfsRq, se: SchedEntity) -> None:
    """__enqueue_entity(): insert an entity after all entities with an earlier or equal deadline."""
    weight = averaged(k, se.weight)
    q.avg_vruntime += key(k, q, se) * weight
    q.avg_load += weight
    after = q.rightmost
    while after and after.deadline > se.deadline:
        after = after.prev
    link(k, q, se, after)


@apart(NOTHING)
def remove(k: Kernel, q: CfsRq, se: SchedEntity) -> None:
    """__dequeue_entity(): remove an entity."""
    entity_jit.remove(k, q, se)
    weight = averaged(k, se.weight)
    q.avg_vruntime -= key(k, q, se) * weight
    q.avg_load -= weight


@inner
def protected(k: Kernel, curr: SchedEntity) -> bool:
    """protect_slice(): return whether ``curr`` is still in the slice with which it was picked."""
    if modern(k).slice_end_stored != 0:
        return curr.vprot > curr.vruntime
    return curr.vlag == curr.deadline


@inner
def protect(k: Kernel, q: CfsRq, se: SchedEntity) -> None:
    """set_protect_slice(): protect the chosen entity for its slice, since v6.17 at most for the queue's shortest slice."""
    if modern(k).slice_end_stored == 0:
        se.vlag = se.deadline
        return
    se.vprot = se.deadline
    shortest = min_slice(k, q)
    if shortest != 0 and shortest < se.slice:
        shorten_protection(k, se, shortest)


@inner
def shorten_protection(k: Kernel, se: SchedEntity, slice_ns: int) -> None:
    """update_protect_slice(): protect the running entity for at most a slice of this length from now on."""
    end = se.vruntime + calc_delta_fair(k, slice_ns, se)
    se.vprot = min(se.vprot, end)


@inner
def update_deadline(k: Kernel, q: CfsRq, se: SchedEntity) -> bool:
    """update_deadline(): if an entity has used up its slice, give it a new slice; return whether it got one."""
    if se.vruntime < se.deadline:
        return False
    if se.custom_slice == 0:
        se.slice = k.base_slice
    se.deadline = se.vruntime + calc_delta_fair(k, se.slice, se)
    avg_vruntime(k, q)
    return True


@apart(NOTHING)
def update_curr(k: Kernel, q: CfsRq) -> None:
    """update_curr(): charge the running entity, and end its slice if the slice is used up."""
    curr = q.curr
    if not curr:
        return
    delta = k.now_ns - curr.exec_start
    if delta <= 0:
        return
    curr.exec_start = k.now_ns
    curr.sum_exec_runtime += delta
    curr.vruntime += calc_delta_fair(k, delta, curr)
    ended = update_deadline(k, q, curr)
    if q.nr_running == 1:
        return
    if ended or (
        not protected(k, curr) and (modern(k).slice_end_stored != 0 or eligible(k, q, curr) == 0)
    ):
        resched_lazy(k, q.cpu)
        clear_buddies(k, curr)


@apart(NOTHING)
def set_next_entity(k: Kernel, se: SchedEntity, first: int) -> None:
    """set_next_entity(): make the chosen entity the running one and protect its slice; move a task to the head of rq->cfs_tasks.

    ``first`` is 0 if the entity already ran and only its weight or group has changed.
    """
    q = se.cfs_rq
    clear_buddies(k, se)
    if se.on_rq != 0:
        remove(k, q, se)
        update_load_avg(k, se, UPDATE_TG)
        if first != 0 or modern(k).reweight != reweight.AVERAGE:
            protect(k, q, se)
        if not se.my_q:
            cpu = q.cpu
            entity_jit.list_del_task(k, cpu, task_of(se))
            entity_jit.list_add_task(k, cpu, task_of(se))
    se.exec_start = k.now_ns
    q.curr = se
    se.prev_sum_exec_runtime = se.sum_exec_runtime


@apart(NOTHING)
def put_prev_entity(k: Kernel, se: SchedEntity) -> None:
    """put_prev_entity(): if the entity that ran is still queued, put it back into the tree."""
    q = se.cfs_rq
    if se.on_rq != 0:
        update_curr(k, q)
        insert(k, q, se)
        update_load_avg(k, se, 0)
    q.curr = NO_ENTITY


@apart(VALUE)
def pick_eevdf(k: Kernel, q: CfsRq, protects: int) -> SchedEntity:
    """pick_eevdf(): return the eligible entity with the earliest deadline, or ``curr`` if it is eligible and protected."""
    curr = running(k, q)
    if q.nr_running == 1:
        return curr if curr else q.leftmost
    if curr and eligible(k, q, curr) == 0:
        curr = NO_ENTITY
    if curr and protects != 0 and protected(k, curr):
        return curr
    best = q.leftmost
    while best and eligible(k, q, best) == 0:
        best = best.next
    if not best or (curr and curr.deadline < best.deadline):
        best = curr
    return best


@apart(NOTHING)
def place_entity(k: Kernel, q: CfsRq, se: SchedEntity, initial: int) -> None:
    """place_entity(): place an entity so that it keeps its lag, and give it a deadline."""
    average = avg_vruntime(k, q)
    if se.custom_slice == 0:
        se.slice = k.base_slice
    lag = 0
    if q.nr_running != 0:
        load = q.avg_load
        curr = running(k, q)
        if curr:
            load += averaged(k, curr.weight)
        scaled = se.vlag * (load + averaged(k, se.weight))
        lag = quotient(scaled, max(load, 1))
    se.vruntime = average - lag
    if se.rel_deadline != 0:
        se.deadline += se.vruntime
        se.rel_deadline = 0
        return
    length = calc_delta_fair(k, se.slice, se)
    if initial != 0:
        length //= 2
    se.deadline = se.vruntime + length


@apart(NOTHING)
def reweight_entity(k: Kernel, se: SchedEntity, weight: int, inv: int) -> None:
    """reweight_entity(), reweight_eevdf(), rescale_entity(): change a weight and keep the lag.

    v6.18 places a queued entity anew. The other versions keep the weighted distances of its vruntime and deadline from the
    average; v7.2 also keeps the distance of the end of its protection.
    """
    q = se.cfs_rq
    old = se.weight
    how = modern(k).reweight
    on_rq = se.on_rq != 0
    average = 0
    lag = 0
    protects = False
    if on_rq:
        update_curr(k, q)
        average = avg_vruntime(k, q)
        lag = entity_lag(k, average, se)
        if how == reweight.AVERAGE and q.curr == se:
            protects = protected(k, se)
        if how == reweight.PLACE:
            se.vlag = lag
            se.rel_deadline = 1
            se.deadline -= se.vruntime
            q.nr_running -= 1
        if q.curr != se:
            remove(k, q, se)
        add_weight(k, q, se, -1)
    if on_rq and how != reweight.PLACE:
        lag = quotient(lag * old, weight)
        if how == reweight.AVERAGE:
            se.vlag = lag
        se.vruntime = average - lag
        distance = se.deadline - average
        se.deadline = average + quotient(distance * old, weight)
        if protects:
            se.vprot = average + quotient((se.vprot - average) * old, weight)
    else:
        se.vlag = quotient(se.vlag * old, weight)
        if se.rel_deadline != 0 and how != reweight.LAG:
            se.deadline = quotient(se.deadline * old, weight)
    set_weight(k, q, se, weight, inv)
    if on_rq:
        if how == reweight.PLACE:
            place_entity(k, q, se, 0)
        add_weight(k, q, se, 1)
        if q.curr != se:
            insert(k, q, se)
        if how == reweight.PLACE:
            q.nr_running += 1


@inner
def update_cfs_group(k: Kernel, se: SchedEntity) -> None:
    """update_cfs_group(): give a group's entity its CPU's part of the group's weight."""
    g = se.my_q
    if not g or g.load_weight == 0:
        return
    weight = calc_group_shares(k, g)
    if weight != se.weight:
        reweight_entity(k, se, weight, inverse_weight(scale_load_down(weight)))
