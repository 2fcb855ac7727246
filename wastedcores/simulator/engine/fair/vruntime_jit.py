"""Virtual runtime in CFS: weights, slices, placement and the running entity.

Source: kernel/sched/fair.c, v4.1; docs/scheduler-model.md, section 1. CFS of v6.1 shares most of it: where the two differ, a
function asks whether the fair class is behind the seam (``eevdf_seam_jit.has_eevdf()``).
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.fair.decay_jit import MAX32, mul_shift
from wastedcores.simulator.engine.fair.eevdf_seam_jit import has_eevdf
from wastedcores.simulator.engine.fair.pelt_jit import update_task_contrib
from wastedcores.simulator.engine.fair.pelt_v4_4_jit import new_entity
from wastedcores.simulator.engine.world import cfs_rq, entity, rq, sim

NR_LATENCY = 8


@inner
def inverse_weight(weight):
    """__update_inv_weight(): 2**32 - 1 divided by a weight."""
    if weight >= MAX32:
        return 1
    if weight <= 0:
        return MAX32
    return MAX32 // weight


@inner
def calc_delta(delta, weight, inv):
    """__calc_delta(): ``delta * weight / divisor``, where ``inv`` is 2**32 over the divisor."""
    fact = weight * inv
    shift = 32
    while fact > MAX32:
        fact >>= 1
        shift -= 1
    return mul_shift(delta, fact, shift)


@inner
def calc_delta_fair(m, delta, se):
    """calc_delta_fair(): convert real time to the virtual time of an entity."""
    nice_0_load = 1 << 20 if has_eevdf(m) else 1024
    if m[se, entity.WEIGHT] == nice_0_load:
        return delta
    return calc_delta(delta, 1024, m[se, entity.INV_WEIGHT])


@inner
def update_min_vruntime(m, q):
    """update_min_vruntime(): v4.1 does not check whether curr is queued, v6.1 does."""
    v = m[q, cfs_rq.MIN_VRUNTIME]
    curr = m[q, cfs_rq.CURR]
    if curr >= 0 and has_eevdf(m) and m[curr, entity.ON_RQ] == 0:
        curr = -1
    left = m[q, cfs_rq.LEFTMOST]
    if curr >= 0:
        v = m[curr, entity.VRUNTIME]
        if left >= 0 and m[left, entity.VRUNTIME] < v:
            v = m[left, entity.VRUNTIME]
    elif left >= 0:
        v = m[left, entity.VRUNTIME]
    m[q, cfs_rq.MIN_VRUNTIME] = max(m[q, cfs_rq.MIN_VRUNTIME], v)


@inner
def update_curr(m, q):
    """update_curr(): charge the running entity the time since the last update."""
    curr = m[q, cfs_rq.CURR]
    if curr < 0:
        return
    now = m[0, sim.NOW]
    delta = now - m[curr, entity.EXEC_START]
    if delta <= 0:
        return
    m[curr, entity.EXEC_START] = now
    m[curr, entity.SUM_EXEC_RUNTIME] += delta
    m[curr, entity.VRUNTIME] += calc_delta_fair(m, delta, curr)
    update_min_vruntime(m, q)


@inner
def weighed(m, weight):
    """scale_load_down(): a weight as slices are computed with it; those of modern kernels have ten bits more."""
    if not has_eevdf(m) or weight == 0:
        return weight
    return max(2, weight >> 10)


@inner
def sched_slice(m, q, se):
    """sched_slice(): an entity's slice; the period counts only the entities of the leaf queue.

    In v6.1 it counts the tasks of the CPU (ALT_PERIOD), and no slice is below the minimum granularity (BASE_SLICE).
    """
    modern = has_eevdf(m)
    nr = m[q, cfs_rq.NR_RUNNING]
    if modern:
        nr = m[m[0, sim.CPUS] + m[q, cfs_rq.CPU], cfs_rq.H_NR_RUNNING]
    if m[se, entity.ON_RQ] == 0:
        nr += 1
    s = m[0, sim.SCHED_LATENCY]
    if nr > NR_LATENCY:
        s = nr * m[0, sim.MIN_GRANULARITY]
    while se >= 0:
        weight = m[m[se, entity.CFS_RQ], cfs_rq.LOAD_WEIGHT]
        if m[se, entity.ON_RQ] == 0:
            weight += m[se, entity.WEIGHT]
        s = calc_delta(s, weighed(m, m[se, entity.WEIGHT]), inverse_weight(weighed(m, weight)))
        se = m[se, entity.PARENT]
    if modern:
        s = max(s, m[0, sim.MIN_GRANULARITY])
    return s


@inner
def place_entity(m, q, se, initial):
    """place_entity(): set the vruntime of a new or woken entity, with START_DEBIT and GENTLE_FAIR_SLEEPERS."""
    v = m[q, cfs_rq.MIN_VRUNTIME]
    if initial:
        v += calc_delta_fair(m, sched_slice(m, q, se), se)
    else:
        v -= m[0, sim.SCHED_LATENCY] >> 1
    m[se, entity.VRUNTIME] = max(m[se, entity.VRUNTIME], v)


@inner
def task_fork_fair(m, p, cpu):
    """task_fork_fair(): place a new task against the queue of the CPU on which it is made."""
    q = m[p, entity.CFS_RQ]
    m[cpu, rq.CLOCK] = m[0, sim.NOW]
    update_curr(m, q)
    curr = m[q, cfs_rq.CURR]
    m[p, entity.VRUNTIME] = m[curr, entity.VRUNTIME] if curr >= 0 else 0
    place_entity(m, q, p, True)
    m[p, entity.VRUNTIME] -= m[q, cfs_rq.MIN_VRUNTIME]
    if m[0, sim.LOAD_V4_4] != 0:
        new_entity(m, p)


@inner
def init_task_runnable_average(m, p):
    """init_task_runnable_average(): a new task counts as fully loaded at once; under v4.4 it did before it was placed."""
    if m[0, sim.LOAD_V4_4] != 0:
        return
    s = sched_slice(m, m[p, entity.CFS_RQ], p) >> 10
    m[p, entity.RUNNABLE_AVG_SUM] = s
    m[p, entity.RUNNING_AVG_SUM] = s
    m[p, entity.AVG_PERIOD] = s
    update_task_contrib(m, p)
