"""EEVDF on one queue: average, eligibility, lag, deadlines, choice, weights (kernel/sched/fair.c, v6.12.107).

The queue is a list in the order of deadlines. A scan of it for the first eligible entity finds what the kernel's tree finds.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.fair import entity_jit
from wastedcores.simulator.engine.fair.pelt_v6_12_jit import (
    MIN_DIVIDER,
    UPDATE_TG,
    dequeue_load_avg,
    enqueue_load_avg,
    quotient,
    scale_load_down,
    update_load_avg,
)
from wastedcores.simulator.engine.fair.preemption_jit import resched_lazy
from wastedcores.simulator.engine.fair.scaled_weights_jit import add_weight, calc_group_shares
from wastedcores.simulator.engine.fair.vruntime_jit import calc_delta, inverse_weight
from wastedcores.simulator.engine.world import cfs_rq, eevdf, entity, sim, v6_12
from wastedcores.simulator.engine.world.rules_jit import rule

NICE_0_LOAD = 1 << 20


@inner
def running(m, q):
    """Return the entity that runs if it is still runnable, else -1; it is not in the tree and not in the sums."""
    curr = m[q, cfs_rq.CURR]
    return curr if curr >= 0 and m[curr, entity.ON_RQ] != 0 else -1


@inner
def key(m, q, se):
    """entity_key(): vruntime from the zero point of the sums."""
    return m[se, entity.VRUNTIME] - m[q, eevdf.ZERO_VRUNTIME]


@inner
def calc_delta_fair(m, delta, se):
    """calc_delta_fair(), __calc_delta(): convert real time to the virtual time of an entity."""
    weight = m[se, entity.WEIGHT]
    if weight == NICE_0_LOAD:
        return delta
    if rule(m, v6_12.EXACT_AVERAGES):
        return delta * NICE_0_LOAD // weight
    return calc_delta(delta, 1024, m[se, entity.INV_WEIGHT])


@inner
def averaged(m, weight):
    """scale_load_down(), avg_vruntime_weight(): return a weight as averages of virtual time use it."""
    return weight if rule(m, v6_12.EXACT_AVERAGES) else scale_load_down(weight)


@apart(VALUE)
def avg_vruntime(m, q):
    """avg_vruntime(): return the weighted average of vruntime, which becomes the zero point of the sums."""
    curr = running(m, q)
    change = 0
    load = m[q, eevdf.AVG_LOAD]
    if load != 0:
        total = m[q, eevdf.AVG_VRUNTIME]
        if curr >= 0:
            weight = averaged(m, m[curr, entity.WEIGHT])
            total += key(m, q, curr) * weight
            load += weight
        change = total // load  # rounds down, also below zero
    elif curr >= 0:
        change = key(m, q, curr)
    m[q, eevdf.AVG_VRUNTIME] -= m[q, eevdf.AVG_LOAD] * change
    m[q, eevdf.ZERO_VRUNTIME] += change
    return m[q, eevdf.ZERO_VRUNTIME]


@apart(VALUE)
def eligible(m, q, se):
    """entity_eligible(), vruntime_eligible(): return whether an entity has not had more than its share."""
    total = m[q, eevdf.AVG_VRUNTIME]
    load = m[q, eevdf.AVG_LOAD]
    curr = running(m, q)
    if curr >= 0:
        weight = averaged(m, m[curr, entity.WEIGHT])
        total += key(m, q, curr) * weight
        load += weight
    if rule(m, v6_12.EXACT_AVERAGES) and load > 0:
        return total // load >= key(m, q, se)  # the product may need more than 64 bits
    return total >= key(m, q, se) * load


@inner
def min_slice(m, q):
    """cfs_rq_min_slice(): return the shortest slice on a queue, 0 if it is empty."""
    best = 0
    se = running(m, q)
    if se >= 0:
        best = m[se, eevdf.SLICE]
    se = m[q, cfs_rq.LEFTMOST]
    while se >= 0:
        if best == 0 or m[se, eevdf.SLICE] < best:
            best = m[se, eevdf.SLICE]
        se = m[se, entity.NEXT]
    return best


@inner
def max_slice(m, q):
    """cfs_rq_max_slice(): return the longest slice on a queue."""
    se = running(m, q)
    best = m[se, eevdf.SLICE] if se >= 0 else 0
    se = m[q, cfs_rq.LEFTMOST]
    while se >= 0:
        best = max(best, m[se, eevdf.SLICE])
        se = m[se, entity.NEXT]
    return best


@inner
def entity_lag(m, average, se):
    """entity_lag(): return by how much an entity is behind the average, within limits."""
    longest = max(2 * m[se, eevdf.SLICE], m[0, sim.TICK_NS])
    if rule(m, v6_12.SLEEPERS_LAG_KEPT):
        longest = max_slice(m, m[se, entity.CFS_RQ]) + m[0, sim.TICK_NS]
    limit = calc_delta_fair(m, longest, se)
    return min(max(average - m[se, entity.VRUNTIME], -limit), limit)


@apart(VALUE)
def update_entity_lag(m, se):
    """update_entity_lag(): note the lag of a queued entity; return whether it is not its distance from the average.

    Since v7.2 the lag of a sleeper that is still queued may only shrink, and does not become positive (DELAY_ZERO).
    """
    average = avg_vruntime(m, m[se, entity.CFS_RQ])
    lag = entity_lag(m, average, se)
    if rule(m, v6_12.SLEEPERS_LAG_KEPT) and m[se, eevdf.SCHED_DELAYED] != 0:
        lag = min(max(lag, m[se, eevdf.VLAG]), 0)
    m[se, eevdf.VLAG] = lag
    return average - lag != m[se, entity.VRUNTIME]


@apart(NOTHING)
def insert(m, q, se):
    """__enqueue_entity(): insert an entity behind others of equal deadline."""
    weight = averaged(m, m[se, entity.WEIGHT])
    m[q, eevdf.AVG_VRUNTIME] += key(m, q, se) * weight
    m[q, eevdf.AVG_LOAD] += weight
    after = m[q, cfs_rq.RIGHTMOST]
    while after >= 0 and m[after, eevdf.DEADLINE] > m[se, eevdf.DEADLINE]:
        after = m[after, entity.PREV]
    if after < 0:
        following = m[q, cfs_rq.LEFTMOST]
        m[q, cfs_rq.LEFTMOST] = se
    else:
        following = m[after, entity.NEXT]
        m[after, entity.NEXT] = se
    m[se, entity.PREV] = after
    m[se, entity.NEXT] = following
    if following < 0:
        m[q, cfs_rq.RIGHTMOST] = se
    else:
        m[following, entity.PREV] = se


@apart(NOTHING)
def remove(m, q, se):
    """__dequeue_entity(): remove an entity."""
    entity_jit.remove(m, q, se)
    weight = averaged(m, m[se, entity.WEIGHT])
    m[q, eevdf.AVG_VRUNTIME] -= key(m, q, se) * weight
    m[q, eevdf.AVG_LOAD] -= weight


@inner
def protected(m, curr):
    """protect_slice(): return whether the slice with which ``curr`` was picked has not ended."""
    if rule(m, v6_12.SLICE_END_STORED):
        return m[curr, eevdf.VPROT] > m[curr, entity.VRUNTIME]
    return m[curr, eevdf.VLAG] == m[curr, eevdf.DEADLINE]


@inner
def protect(m, q, se):
    """set_protect_slice(): protect the chosen entity for its slice, since v6.17 at most for the shortest one on the queue."""
    if not rule(m, v6_12.SLICE_END_STORED):
        m[se, eevdf.VLAG] = m[se, eevdf.DEADLINE]
        return
    m[se, eevdf.VPROT] = m[se, eevdf.DEADLINE]
    shortest = min_slice(m, q)
    if shortest != 0 and shortest < m[se, eevdf.SLICE]:
        shorten_protection(m, se, shortest)


@inner
def shorten_protection(m, se, slice_ns):
    """update_protect_slice(): protect the running entity no longer than for a slice of this length."""
    end = m[se, entity.VRUNTIME] + calc_delta_fair(m, slice_ns, se)
    m[se, eevdf.VPROT] = min(m[se, eevdf.VPROT], end)


@inner
def clear_buddies(m, se):
    """clear_buddies(): remove the mark of the next buddy, upwards as long as the levels carry it."""
    while se >= 0 and m[m[se, entity.CFS_RQ], cfs_rq.NEXT] == se:
        m[m[se, entity.CFS_RQ], cfs_rq.NEXT] = -1
        se = m[se, entity.PARENT]


@inner
def update_deadline(m, q, se):
    """update_deadline(): give an entity a new slice if it used up its last one; return whether it did."""
    if m[se, entity.VRUNTIME] < m[se, eevdf.DEADLINE]:
        return False
    if m[se, eevdf.CUSTOM_SLICE] == 0:
        m[se, eevdf.SLICE] = m[0, sim.BASE_SLICE]
    m[se, eevdf.DEADLINE] = m[se, entity.VRUNTIME] + calc_delta_fair(m, m[se, eevdf.SLICE], se)
    avg_vruntime(m, q)
    return True


@apart(NOTHING)
def update_curr(m, q):
    """update_curr(): charge the running entity and end its slice if it is used up."""
    curr = m[q, cfs_rq.CURR]
    if curr < 0:
        return
    delta = m[0, sim.NOW] - m[curr, entity.EXEC_START]
    if delta <= 0:
        return
    m[curr, entity.EXEC_START] = m[0, sim.NOW]
    m[curr, entity.SUM_EXEC_RUNTIME] += delta
    m[curr, entity.VRUNTIME] += calc_delta_fair(m, delta, curr)
    ended = update_deadline(m, q, curr)
    if m[q, cfs_rq.NR_RUNNING] == 1:
        return
    if ended or (
        not protected(m, curr) and (rule(m, v6_12.SLICE_END_STORED) or eligible(m, q, curr) == 0)
    ):
        resched_lazy(m, m[q, cfs_rq.CPU])
        clear_buddies(m, curr)


@apart(NOTHING)
def set_next_entity(m, se, first):
    """set_next_entity(): make the chosen entity the running one and protect its slice; a task heads rq->cfs_tasks.

    ``first`` is 0 of one that ran already, before its weight or group changed.
    """
    q = m[se, entity.CFS_RQ]
    clear_buddies(m, se)
    if m[se, entity.ON_RQ] != 0:
        remove(m, q, se)
        update_load_avg(m, se, UPDATE_TG)
        if first != 0 or m[m[0, sim.SCRATCH] + v6_12.ROW, v6_12.REWEIGHT] != v6_12.REWEIGHT_AVERAGE:
            protect(m, q, se)
        if m[se, entity.MY_Q] < 0:
            cpu = m[q, cfs_rq.CPU]
            entity_jit.list_del_task(m, cpu, se)
            entity_jit.list_add_task(m, cpu, se)
    m[se, entity.EXEC_START] = m[0, sim.NOW]
    m[q, cfs_rq.CURR] = se
    m[se, entity.PREV_SUM_EXEC_RUNTIME] = m[se, entity.SUM_EXEC_RUNTIME]


@apart(NOTHING)
def put_prev_entity(m, se):
    """put_prev_entity(): put the entity that ran back if it is still queued."""
    q = m[se, entity.CFS_RQ]
    if m[se, entity.ON_RQ] != 0:
        update_curr(m, q)
        insert(m, q, se)
        update_load_avg(m, se, 0)
    m[q, cfs_rq.CURR] = -1


@apart(VALUE)
def pick_eevdf(m, q, protects):
    """pick_eevdf(): return the eligible entity with the earliest deadline; with ``protects``, ``curr`` until its slice ends."""
    curr = running(m, q)
    if m[q, cfs_rq.NR_RUNNING] == 1:
        return curr if curr >= 0 else m[q, cfs_rq.LEFTMOST]
    if curr >= 0 and eligible(m, q, curr) == 0:
        curr = -1
    if curr >= 0 and protects != 0 and protected(m, curr):
        return curr
    best = m[q, cfs_rq.LEFTMOST]
    while best >= 0 and eligible(m, q, best) == 0:
        best = m[best, entity.NEXT]
    if best < 0 or (curr >= 0 and m[curr, eevdf.DEADLINE] < m[best, eevdf.DEADLINE]):
        best = curr
    return best


@apart(NOTHING)
def place_entity(m, q, se, initial):
    """place_entity(): place an entity so that it keeps its lag, and give it a deadline."""
    average = avg_vruntime(m, q)
    if m[se, eevdf.CUSTOM_SLICE] == 0:
        m[se, eevdf.SLICE] = m[0, sim.BASE_SLICE]
    lag = 0
    if m[q, cfs_rq.NR_RUNNING] != 0:
        load = m[q, eevdf.AVG_LOAD]
        curr = running(m, q)
        if curr >= 0:
            load += averaged(m, m[curr, entity.WEIGHT])
        scaled = m[se, eevdf.VLAG] * (load + averaged(m, m[se, entity.WEIGHT]))
        lag = quotient(scaled, max(load, 1))
    m[se, entity.VRUNTIME] = average - lag
    if m[se, eevdf.REL_DEADLINE] != 0:
        m[se, eevdf.DEADLINE] += m[se, entity.VRUNTIME]
        m[se, eevdf.REL_DEADLINE] = 0
        return
    length = calc_delta_fair(m, m[se, eevdf.SLICE], se)
    if initial != 0:
        length //= 2
    m[se, eevdf.DEADLINE] = m[se, entity.VRUNTIME] + length


@apart(NOTHING)
def reweight_entity(m, se, weight, inv):
    """reweight_entity(), reweight_eevdf(), rescale_entity(): change a weight and keep the lag.

    v6.18 places a queued entity anew. The other versions keep its distances from the average, and v7.2 that of the end of its
    protection, too.
    """
    q = m[se, entity.CFS_RQ]
    old = m[se, entity.WEIGHT]
    how = m[m[0, sim.SCRATCH] + v6_12.ROW, v6_12.REWEIGHT]
    on_rq = m[se, entity.ON_RQ] != 0
    average = 0
    lag = 0
    protects = False
    if on_rq:
        update_curr(m, q)
        average = avg_vruntime(m, q)
        lag = entity_lag(m, average, se)
        if how == v6_12.REWEIGHT_AVERAGE and m[q, cfs_rq.CURR] == se:
            protects = protected(m, se)
        if how == v6_12.REWEIGHT_PLACE:
            m[se, eevdf.VLAG] = lag
            m[se, eevdf.REL_DEADLINE] = 1
            m[se, eevdf.DEADLINE] -= m[se, entity.VRUNTIME]
            m[q, cfs_rq.NR_RUNNING] -= 1
        if m[q, cfs_rq.CURR] != se:
            remove(m, q, se)
        add_weight(m, q, se, -1)
    dequeue_load_avg(m, q, se)
    if on_rq and how != v6_12.REWEIGHT_PLACE:
        lag = quotient(lag * old, weight)
        if how == v6_12.REWEIGHT_AVERAGE:
            m[se, eevdf.VLAG] = lag
        m[se, entity.VRUNTIME] = average - lag
        distance = m[se, eevdf.DEADLINE] - average
        m[se, eevdf.DEADLINE] = average + quotient(distance * old, weight)
        if protects:
            m[se, eevdf.VPROT] = average + quotient((m[se, eevdf.VPROT] - average) * old, weight)
    else:
        m[se, eevdf.VLAG] = quotient(m[se, eevdf.VLAG] * old, weight)
        if m[se, eevdf.REL_DEADLINE] != 0 and how != v6_12.REWEIGHT_LAG:
            m[se, eevdf.DEADLINE] = quotient(m[se, eevdf.DEADLINE] * old, weight)
    m[se, entity.WEIGHT] = weight
    m[se, entity.INV_WEIGHT] = inv
    divider = MIN_DIVIDER + m[se, eevdf.PERIOD_CONTRIB]
    m[se, eevdf.LOAD_AVG] = scale_load_down(weight) * m[se, eevdf.LOAD_SUM] // divider
    enqueue_load_avg(m, q, se)
    if on_rq:
        if how == v6_12.REWEIGHT_PLACE:
            place_entity(m, q, se, 0)
        add_weight(m, q, se, 1)
        if m[q, cfs_rq.CURR] != se:
            insert(m, q, se)
        if how == v6_12.REWEIGHT_PLACE:
            m[q, cfs_rq.NR_RUNNING] += 1


@inner
def update_cfs_group(m, se):
    """update_cfs_group(): give a group's entity its CPU's part of the group."""
    g = m[se, entity.MY_Q]
    if g < 0 or m[g, cfs_rq.LOAD_WEIGHT] == 0:
        return
    weight = calc_group_shares(m, g)
    if weight != m[se, entity.WEIGHT]:
        reweight_entity(m, se, weight, inverse_weight(scale_load_down(weight)))
