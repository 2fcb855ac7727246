"""Per-entity load tracking of Linux 6.12 (kernel/sched/pelt.c and fair.c, v6.12.107). Weights are shifted up by ten bits."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.fair.decay_jit import LOAD_AVG_MAX, MAX32, decay_sum
from wastedcores.simulator.engine.world import cfs_rq, cpuset, eevdf, entity, sim, task_group, v6_12
from wastedcores.simulator.engine.world.cpusets_jit import test
from wastedcores.simulator.engine.world.rules_jit import rule

MIN_DIVIDER = LOAD_AVG_MAX - 1024
UTIL_EST_MARGIN = 1024 // 100
TG_INTERVAL_NS = 1_000_000
#: what update_load_avg() has to do besides ageing: UPDATE_TG, DO_ATTACH, DO_DETACH
UPDATE_TG, DO_ATTACH, DO_DETACH = 1, 2, 4


@inner
def scale_load_down(weight):
    """scale_load_down(): a weight with the ten bits less that loads have."""
    return max(2, weight >> 10) if weight != 0 else 0


@inner
def quotient(a, b):
    """Divide as C does, rounding towards zero."""
    return a // b if a >= 0 else -(-a // b)


@inner
def update_load_sum(m, now, row, load, runnable, running):
    """___update_load_sum(): bring the sums up to date; return whether a period of 1024 us ended."""
    delta = now - m[row, eevdf.LAST_UPDATE]
    if delta < 0:
        m[row, eevdf.LAST_UPDATE] = now
        return False
    delta >>= 10
    if delta == 0:
        return False
    m[row, eevdf.LAST_UPDATE] += delta << 10
    if load == 0:
        runnable = 0
        running = False
    contrib = delta
    delta += m[row, eevdf.PERIOD_CONTRIB]
    periods = delta >> 10
    if periods != 0:
        m[row, eevdf.LOAD_SUM] = decay_sum(m[row, eevdf.LOAD_SUM], periods)
        m[row, eevdf.RUNNABLE_SUM] = decay_sum(m[row, eevdf.RUNNABLE_SUM], periods)
        m[row, eevdf.UTIL_SUM] = decay_sum(m[row, eevdf.UTIL_SUM], periods)
        delta &= 1023
        first = decay_sum(1024 - m[row, eevdf.PERIOD_CONTRIB], periods)
        contrib = first + LOAD_AVG_MAX - decay_sum(LOAD_AVG_MAX, periods) - 1024 + delta
    m[row, eevdf.PERIOD_CONTRIB] = delta
    m[row, eevdf.LOAD_SUM] += load * contrib
    m[row, eevdf.RUNNABLE_SUM] += (runnable * contrib) << 10
    if running:
        m[row, eevdf.UTIL_SUM] += contrib << 10
    return periods != 0


@inner
def update_avg(m, row, weight):
    """___update_load_avg(): compute the averages from the sums."""
    divider = MIN_DIVIDER + m[row, eevdf.PERIOD_CONTRIB]
    m[row, eevdf.LOAD_AVG] = weight * m[row, eevdf.LOAD_SUM] // divider
    m[row, eevdf.RUNNABLE_AVG] = m[row, eevdf.RUNNABLE_SUM] // divider
    m[row, eevdf.UTIL_AVG] = m[row, eevdf.UTIL_SUM] // divider


@inner
def update_se(m, se):
    """__update_load_avg_se(), se_runnable(): bring the averages of an entity up to date."""
    runnable = m[se, eevdf.RUNNABLE_WEIGHT] if m[se, entity.MY_Q] >= 0 else m[se, entity.ON_RQ]
    if m[se, eevdf.SCHED_DELAYED] != 0:
        runnable = 0
    running = m[m[se, entity.CFS_RQ], cfs_rq.CURR] == se
    if update_load_sum(m, m[0, sim.NOW], se, m[se, entity.ON_RQ], runnable, running):
        update_avg(m, se, scale_load_down(m[se, entity.WEIGHT]))
        m[se, eevdf.UNCHANGED] = 0


@apart(NOTHING)
def update_blocked_se(m, now, se):
    """__update_load_avg_blocked_se(): let the averages of an entity that sleeps decay up to ``now``."""
    if update_load_sum(m, now, se, 0, 0, False):
        update_avg(m, se, scale_load_down(m[se, entity.WEIGHT]))


@inner
def add(m, row, avg, total, change, change_of_sum):
    """add_positive(), sub_positive(): change an average (column ``avg``) and its sum, down to 0 at most."""
    m[row, avg] = max(0, m[row, avg] + change)
    m[row, total] = max(0, m[row, total] + change_of_sum)


@inner
def floor(m, row, avg, total):
    """Keep a sum from falling below what its average stands for; the kernel computes this with 32 bits."""
    m[row, total] = max(m[row, total] & MAX32, (m[row, avg] * MIN_DIVIDER) & MAX32)


@inner
def enqueue_load_avg(m, q, se):
    """enqueue_load_avg(): add the load of an entity to its queue."""
    m[q, eevdf.LOAD_AVG] += m[se, eevdf.LOAD_AVG]
    m[q, eevdf.LOAD_SUM] += scale_load_down(m[se, entity.WEIGHT]) * m[se, eevdf.LOAD_SUM]


@inner
def dequeue_load_avg(m, q, se):
    """dequeue_load_avg(): take the load of an entity off its queue."""
    weighted = scale_load_down(m[se, entity.WEIGHT]) * m[se, eevdf.LOAD_SUM]
    add(m, q, eevdf.LOAD_AVG, eevdf.LOAD_SUM, -m[se, eevdf.LOAD_AVG], -weighted)
    floor(m, q, eevdf.LOAD_AVG, eevdf.LOAD_SUM)


@inner
def propagate_to(m, q, runnable_sum):
    """add_tg_cfs_propagate(): note a change of a group's queue for the levels above."""
    m[q, eevdf.PROPAGATE] = 1
    m[q, eevdf.PROP_RUNNABLE_SUM] += runnable_sum


@apart(NOTHING)
def subtract_removed(m, q):
    """update_cfs_rq_load_avg(): subtract the tasks that woke on other CPUs."""
    divider = MIN_DIVIDER + m[q, eevdf.PERIOD_CONTRIB]
    load = m[q, cfs_rq.REMOVED_LOAD]
    util = m[q, eevdf.REMOVED_UTIL]
    runnable = m[q, eevdf.REMOVED_RUNNABLE]
    m[q, eevdf.REMOVED_NR] = 0
    m[q, cfs_rq.REMOVED_LOAD] = 0
    m[q, eevdf.REMOVED_UTIL] = 0
    m[q, eevdf.REMOVED_RUNNABLE] = 0
    add(m, q, eevdf.LOAD_AVG, eevdf.LOAD_SUM, -load, -load * divider)
    floor(m, q, eevdf.LOAD_AVG, eevdf.LOAD_SUM)
    add(m, q, eevdf.UTIL_AVG, eevdf.UTIL_SUM, -util, -util * divider)
    floor(m, q, eevdf.UTIL_AVG, eevdf.UTIL_SUM)
    add(m, q, eevdf.RUNNABLE_AVG, eevdf.RUNNABLE_SUM, -runnable, -runnable * divider)
    floor(m, q, eevdf.RUNNABLE_AVG, eevdf.RUNNABLE_SUM)
    propagate_to(m, q, (-runnable * divider) >> 10)  # rounds down, as C's shift does


@inner
def update_queue(m, q):
    """update_cfs_rq_load_avg(), __update_load_avg_cfs_rq(): update the averages of a queue; tell whether they changed."""
    removed = m[q, eevdf.REMOVED_NR] != 0
    if removed:
        subtract_removed(m, q)
    load = scale_load_down(m[q, cfs_rq.LOAD_WEIGHT])
    runnable = m[q, cfs_rq.H_NR_RUNNING] - m[q, eevdf.H_NR_DELAYED]
    if update_load_sum(m, m[0, sim.NOW], q, load, runnable, m[q, cfs_rq.CURR] >= 0):
        update_avg(m, q, 1)
        return True
    return removed


@apart(NOTHING)
def attach(m, se):
    """attach_entity_load_avg(): add an entity that is new on this CPU to its queue."""
    q = m[se, entity.CFS_RQ]
    divider = MIN_DIVIDER + m[q, eevdf.PERIOD_CONTRIB]
    m[se, eevdf.LAST_UPDATE] = m[q, eevdf.LAST_UPDATE]
    m[se, eevdf.PERIOD_CONTRIB] = m[q, eevdf.PERIOD_CONTRIB]
    m[se, eevdf.UTIL_SUM] = m[se, eevdf.UTIL_AVG] * divider
    m[se, eevdf.RUNNABLE_SUM] = m[se, eevdf.RUNNABLE_AVG] * divider
    load_sum = m[se, eevdf.LOAD_AVG] * divider
    weight = scale_load_down(m[se, entity.WEIGHT])
    m[se, eevdf.LOAD_SUM] = load_sum // weight if weight < load_sum else 1
    enqueue_load_avg(m, q, se)
    add(m, q, eevdf.UTIL_AVG, eevdf.UTIL_SUM, m[se, eevdf.UTIL_AVG], m[se, eevdf.UTIL_SUM])
    add(
        m, q, eevdf.RUNNABLE_AVG, eevdf.RUNNABLE_SUM,
        m[se, eevdf.RUNNABLE_AVG], m[se, eevdf.RUNNABLE_SUM],
    )  # fmt: skip
    propagate_to(m, q, m[se, eevdf.LOAD_SUM])


@apart(NOTHING)
def detach(m, se):
    """detach_entity_load_avg(): take an entity that leaves this CPU off its queue."""
    q = m[se, entity.CFS_RQ]
    dequeue_load_avg(m, q, se)
    add(m, q, eevdf.UTIL_AVG, eevdf.UTIL_SUM, -m[se, eevdf.UTIL_AVG], -m[se, eevdf.UTIL_SUM])
    floor(m, q, eevdf.UTIL_AVG, eevdf.UTIL_SUM)
    add(
        m, q, eevdf.RUNNABLE_AVG, eevdf.RUNNABLE_SUM,
        -m[se, eevdf.RUNNABLE_AVG], -m[se, eevdf.RUNNABLE_SUM],
    )  # fmt: skip
    floor(m, q, eevdf.RUNNABLE_AVG, eevdf.RUNNABLE_SUM)
    propagate_to(m, q, -m[se, eevdf.LOAD_SUM])


@inner
def update_tg_load_avg(m, q):
    """update_tg_load_avg(): report a queue's load to its group, once per ms, if it changed by more than 1/64.

    v6.1 reports without the limit, and on CPUs that go offline, too.
    """
    now = m[0, sim.NOW]
    if m[q, cfs_rq.ENTITY] < 0:
        return
    if rule(m, v6_12.TG_LOAD_AVG_LIMITED) and (
        not test(m, cpuset.ACTIVE, m[q, cfs_rq.CPU])
        or now - m[q, eevdf.LAST_UPDATE_TG] < TG_INTERVAL_NS
    ):
        return
    change = m[q, eevdf.LOAD_AVG] - m[q, cfs_rq.TG_LOAD_CONTRIB]
    if abs(change) > m[q, cfs_rq.TG_LOAD_CONTRIB] // 64:
        m[m[q, cfs_rq.TASK_GROUP], task_group.LOAD_AVG] += change
        m[q, cfs_rq.TG_LOAD_CONTRIB] = m[q, eevdf.LOAD_AVG]
        m[q, eevdf.LAST_UPDATE_TG] = now


@inner
def take_over(m, q, se, g, avg, total):
    """update_tg_cfs_util(), update_tg_cfs_runnable(): give a group's entity one average of the group's queue."""
    change = m[g, avg] - m[se, avg]
    if change != 0:
        new = m[g, avg] * (MIN_DIVIDER + m[q, eevdf.PERIOD_CONTRIB])
        change_of_sum = new - m[se, total]
        m[se, avg] = m[g, avg]
        m[se, total] = new
        add(m, q, avg, total, change, change_of_sum)
        floor(m, q, avg, total)


@inner
def take_over_load(m, q, se, g):
    """update_tg_cfs_load(): give a group's entity the load of the group's queue."""
    runnable = m[g, eevdf.PROP_RUNNABLE_SUM]
    m[g, eevdf.PROP_RUNNABLE_SUM] = 0
    if runnable == 0:
        return
    divider = MIN_DIVIDER + m[q, eevdf.PERIOD_CONTRIB]
    if runnable >= 0:
        runnable = min(runnable + m[se, eevdf.LOAD_SUM], divider)
    else:
        below = scale_load_down(m[g, cfs_rq.LOAD_WEIGHT])
        mean = m[g, eevdf.LOAD_SUM] // below if below != 0 else 0
        runnable = min(m[se, eevdf.LOAD_SUM], mean)
    runnable = max(runnable, m[se, eevdf.UTIL_SUM] >> 10)
    weight = scale_load_down(m[se, entity.WEIGHT])
    load_avg = weight * runnable // divider
    change = load_avg - m[se, eevdf.LOAD_AVG]
    if change == 0:
        return
    change_of_sum = weight * runnable - weight * m[se, eevdf.LOAD_SUM]
    m[se, eevdf.LOAD_SUM] = runnable
    m[se, eevdf.LOAD_AVG] = load_avg
    add(m, q, eevdf.LOAD_AVG, eevdf.LOAD_SUM, change, change_of_sum)
    floor(m, q, eevdf.LOAD_AVG, eevdf.LOAD_SUM)


@inner
def propagate_entity(m, se):
    """propagate_entity_load_avg(): give a group's entity what changed on the group's queue; return whether anything did."""
    g = m[se, entity.MY_Q]
    if g < 0 or m[g, eevdf.PROPAGATE] == 0:
        return False
    q = m[se, entity.CFS_RQ]
    m[g, eevdf.PROPAGATE] = 0
    propagate_to(m, q, m[g, eevdf.PROP_RUNNABLE_SUM])
    take_over(m, q, se, g, eevdf.UTIL_AVG, eevdf.UTIL_SUM)
    take_over(m, q, se, g, eevdf.RUNNABLE_AVG, eevdf.RUNNABLE_SUM)
    take_over_load(m, q, se, g)
    return True


@apart(NOTHING)
def update_load_avg(m, se, flags):
    """update_load_avg(): bring an entity and its queue up to date."""
    q = m[se, entity.CFS_RQ]
    known = m[se, eevdf.LAST_UPDATE] != 0
    if known:
        update_se(m, se)
    decayed = update_queue(m, q)
    if propagate_entity(m, se):
        decayed = True
    if not known and flags & DO_ATTACH:
        attach(m, se)
        update_tg_load_avg(m, q)
    elif flags & DO_DETACH:
        detach(m, se)
        update_tg_load_avg(m, q)
    elif decayed and flags & UPDATE_TG:
        update_tg_load_avg(m, q)


@inner
def propagate_up(m, se):
    """propagate_entity_cfs_rq(): let the levels above see a change at once."""
    se = m[se, entity.PARENT]
    while se >= 0:
        update_load_avg(m, se, UPDATE_TG)
        se = m[se, entity.PARENT]


@inner
def detach_task(m, se):
    """detach_entity_cfs_rq(): take a task that changes its group off its old queue."""
    update_load_avg(m, se, 0)
    detach(m, se)
    update_tg_load_avg(m, m[se, entity.CFS_RQ])
    propagate_up(m, se)


@inner
def attach_task(m, se):
    """attach_entity_cfs_rq(): add a task that changed its group to its new queue."""
    update_load_avg(m, se, 0)
    attach(m, se)
    update_tg_load_avg(m, m[se, entity.CFS_RQ])
    propagate_up(m, se)


@inner
def post_init_util(m, se, raw_weight):
    """post_init_entity_util_avg(): estimate the use of a new task from that of its queue; v6.1 takes its weight unshifted."""
    q = m[se, entity.CFS_RQ]
    room = quotient(1024 - m[q, eevdf.UTIL_AVG], 2)
    if room > 0:
        if m[q, eevdf.UTIL_AVG] != 0:
            weight = m[se, entity.WEIGHT]
            if not raw_weight:
                weight = scale_load_down(weight)
            weighted = m[q, eevdf.UTIL_AVG] * weight
            m[se, eevdf.UTIL_AVG] = min(weighted // (m[q, eevdf.LOAD_AVG] + 1), room)
        else:
            m[se, eevdf.UTIL_AVG] = room
    m[se, eevdf.RUNNABLE_AVG] = m[se, eevdf.UTIL_AVG]


@inner
def util_est_update(m, p):
    """util_est_update(): update the estimate of a task's use when it goes to sleep."""
    if m[p, eevdf.UNCHANGED] != 0:
        return
    estimate = m[p, eevdf.UTIL_EST]
    util = m[p, eevdf.UTIL_AVG]
    if estimate <= util:
        m[p, eevdf.UTIL_EST] = util
    elif estimate - util >= UTIL_EST_MARGIN:
        if util > 1024:
            return
        # a task that had to wait for its CPU could have used more
        if util + UTIL_EST_MARGIN >= m[p, eevdf.RUNNABLE_AVG]:
            m[p, eevdf.UTIL_EST] = (estimate * 4 - (estimate - util)) >> 2
    m[p, eevdf.UNCHANGED] = 1
