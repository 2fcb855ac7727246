"""EEVDF on one queue: average, eligibility, lag, deadlines, choice, weights (kernel/sched/fair.c, v6.12.107).

The queue is a list in the order of deadlines. A scan of it for the first eligible entity finds what the kernel's tree finds.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.fair import entity_jit
from wastedcores.simulator.engine.fair.cfs_jit import resched
from wastedcores.simulator.engine.fair.pelt_v6_12_jit import (
    MIN_DIVIDER,
    UPDATE_TG,
    dequeue_load_avg,
    enqueue_load_avg,
    quotient,
    scale_load_down,
    update_load_avg,
)
from wastedcores.simulator.engine.fair.scaled_weights_jit import add_weight, calc_group_shares
from wastedcores.simulator.engine.fair.vruntime_jit import calc_delta_fair, inverse_weight
from wastedcores.simulator.engine.world import cfs_rq, eevdf, entity, sim


@inner
def running(m, q):
    """Return the entity that runs if it is still runnable, else -1; it is not in the tree and not in the sums."""
    curr = m[q, cfs_rq.CURR]
    return curr if curr >= 0 and m[curr, entity.ON_RQ] != 0 else -1


@inner
def key(m, q, se):
    """entity_key(): vruntime from the zero point of the sums."""
    return m[se, entity.VRUNTIME] - m[q, eevdf.ZERO_VRUNTIME]


@apart(VALUE)
def avg_vruntime(m, q):
    """avg_vruntime(): return the weighted average of vruntime, which becomes the zero point of the sums."""
    curr = running(m, q)
    change = 0
    load = m[q, eevdf.AVG_LOAD]
    if load != 0:
        total = m[q, eevdf.AVG_VRUNTIME]
        if curr >= 0:
            weight = scale_load_down(m[curr, entity.WEIGHT])
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
        weight = scale_load_down(m[curr, entity.WEIGHT])
        total += key(m, q, curr) * weight
        load += weight
    return total >= key(m, q, se) * load


@inner
def entity_lag(m, average, se):
    """entity_lag(): return by how much an entity is behind the average, within limits."""
    limit = calc_delta_fair(m, max(2 * m[se, eevdf.SLICE], m[0, sim.TICK_NS]), se)
    return min(max(average - m[se, entity.VRUNTIME], -limit), limit)


@apart(NOTHING)
def insert(m, q, se):
    """__enqueue_entity(): insert an entity behind others of equal deadline."""
    weight = scale_load_down(m[se, entity.WEIGHT])
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
    weight = scale_load_down(m[se, entity.WEIGHT])
    m[q, eevdf.AVG_VRUNTIME] -= key(m, q, se) * weight
    m[q, eevdf.AVG_LOAD] -= weight


@inner
def protected(m, curr):
    """protect_slice(): return whether the slice with which ``curr`` was picked has not ended."""
    return m[curr, eevdf.VLAG] == m[curr, eevdf.DEADLINE]


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
    if ended or (not protected(m, curr) and eligible(m, q, curr) == 0):
        resched(m, m[q, cfs_rq.CPU])
        clear_buddies(m, curr)


@apart(NOTHING)
def set_next_entity(m, se):
    """set_next_entity(): make the chosen entity the running one and protect its slice; a task heads rq->cfs_tasks."""
    q = m[se, entity.CFS_RQ]
    clear_buddies(m, se)
    if m[se, entity.ON_RQ] != 0:
        remove(m, q, se)
        update_load_avg(m, se, UPDATE_TG)
        m[se, eevdf.VLAG] = m[se, eevdf.DEADLINE]
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
def pick_eevdf(m, q):
    """pick_eevdf(): return the eligible entity of the earliest deadline, or ``curr`` during its slice."""
    curr = running(m, q)
    if m[q, cfs_rq.NR_RUNNING] == 1:
        return curr if curr >= 0 else m[q, cfs_rq.LEFTMOST]
    if curr >= 0 and eligible(m, q, curr) == 0:
        curr = -1
    if curr >= 0 and protected(m, curr):
        return curr
    best = m[q, cfs_rq.LEFTMOST]
    while best >= 0 and eligible(m, q, best) == 0:
        best = m[best, entity.NEXT]
    if best < 0 or (curr >= 0 and m[curr, eevdf.DEADLINE] < m[best, eevdf.DEADLINE]):
        best = curr
    return best


@apart(NOTHING)
def reweight_entity(m, se, weight, inv):
    """reweight_entity(), reweight_eevdf(): change a weight and keep the lag."""
    q = m[se, entity.CFS_RQ]
    old = m[se, entity.WEIGHT]
    on_rq = m[se, entity.ON_RQ] != 0
    average = 0
    if on_rq:
        update_curr(m, q)
        average = avg_vruntime(m, q)
        if m[q, cfs_rq.CURR] != se:
            remove(m, q, se)
        add_weight(m, q, se, -1)
    dequeue_load_avg(m, q, se)
    if on_rq:
        if average != m[se, entity.VRUNTIME]:
            lag = entity_lag(m, average, se)
            m[se, entity.VRUNTIME] = average - quotient(lag * old, weight)
        distance = m[se, eevdf.DEADLINE] - average
        m[se, eevdf.DEADLINE] = average + quotient(distance * old, weight)
    else:
        m[se, eevdf.VLAG] = quotient(m[se, eevdf.VLAG] * old, weight)
    m[se, entity.WEIGHT] = weight
    m[se, entity.INV_WEIGHT] = inv
    divider = MIN_DIVIDER + m[se, eevdf.PERIOD_CONTRIB]
    m[se, eevdf.LOAD_AVG] = scale_load_down(weight) * m[se, eevdf.LOAD_SUM] // divider
    enqueue_load_avg(m, q, se)
    if on_rq:
        add_weight(m, q, se, 1)
        if m[q, cfs_rq.CURR] != se:
            insert(m, q, se)


@inner
def update_cfs_group(m, se):
    """update_cfs_group(): give a group's entity its CPU's part of the group."""
    g = m[se, entity.MY_Q]
    if g < 0 or m[g, cfs_rq.LOAD_WEIGHT] == 0:
        return
    weight = calc_group_shares(m, g)
    if weight != m[se, entity.WEIGHT]:
        reweight_entity(m, se, weight, inverse_weight(scale_load_down(weight)))


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
            load += scale_load_down(m[curr, entity.WEIGHT])
        scaled = m[se, eevdf.VLAG] * (load + scale_load_down(m[se, entity.WEIGHT]))
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
