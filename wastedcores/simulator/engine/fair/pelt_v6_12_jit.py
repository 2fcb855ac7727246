"""Per-entity load tracking of Linux 6.12 (kernel/sched/pelt.c and fair.c, v6.12.107). Weights are shifted up by ten bits."""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.fair.decay_jit import LOAD_AVG_MAX, MAX32, decay_sum
from wastedcores.simulator.engine.world import cpuset
from wastedcores.simulator.engine.world.cpusets_jit import test
from wastedcores.simulator.engine.world.rows_jit import modern
from wastedcores.simulator.engine.world.structs import (
    NO_ENTITY,
    CfsRq,
    Kernel,
    SchedAvg,
    SchedEntity,
    TaskStruct,
)

MIN_DIVIDER = LOAD_AVG_MAX - 1024
UTIL_EST_MARGIN = 1024 // 100
TG_INTERVAL_NS = 1_000_000
#: what update_load_avg() does in addition to ageing: UPDATE_TG, DO_ATTACH, DO_DETACH
UPDATE_TG, DO_ATTACH, DO_DETACH = 1, 2, 4


@inner
def scale_load_down(weight):
    """scale_load_down(): a weight without its lowest ten bits, which loads do not have."""
    return max(2, weight >> 10) if weight != 0 else 0


@inner
def quotient(a, b):
    """Divide as C does, rounding towards zero."""
    return a // b if a >= 0 else -(-a // b)


@inner
def update_load_sum(
    k: Kernel, now: int, row: SchedAvg, load: int, runnable: int, running: int
) -> bool:
    """___update_load_sum(): bring the sums up to date; return whether a period of 1024 us ended."""
    delta = now - row.last_update
    if delta < 0:
        row.last_update = now
        return False
    delta >>= 10
    if delta == 0:
        return False
    row.last_update += delta << 10
    if load == 0:
        runnable = 0
        running = False
    contrib = delta
    delta += row.period_contrib
    periods = delta >> 10
    if periods != 0:
        row.load_sum = decay_sum(row.load_sum, periods)
        row.runnable_sum = decay_sum(row.runnable_sum, periods)
        row.util_sum = decay_sum(row.util_sum, periods)
        delta &= 1023
        first = decay_sum(1024 - row.period_contrib, periods)
        contrib = first + LOAD_AVG_MAX - decay_sum(LOAD_AVG_MAX, periods) - 1024 + delta
    row.period_contrib = delta
    row.load_sum += load * contrib
    row.runnable_sum += (runnable * contrib) << 10
    if running:
        row.util_sum += contrib << 10
    return periods != 0


@inner
def update_avg(k: Kernel, row: SchedAvg, weight: int) -> None:
    """___update_load_avg(): compute the averages from the sums."""
    divider = MIN_DIVIDER + row.period_contrib
    row.load_avg = weight * row.load_sum // divider
    row.runnable_avg = row.runnable_sum // divider
    row.util_avg = row.util_sum // divider


@inner
def update_se(k: Kernel, se: SchedEntity) -> None:
    """__update_load_avg_se(), se_runnable(): bring the averages of an entity up to date."""
    runnable = se.runnable_weight if se.my_q else se.on_rq
    if se.sched_delayed != 0:
        runnable = 0
    running = se.cfs_rq.curr == se
    if update_load_sum(k, k.now_ns, se.avg, se.on_rq, runnable, running):
        update_avg(k, se.avg, scale_load_down(se.weight))
        se.avg.unchanged = 0


@apart(NOTHING)
def update_blocked_se(k: Kernel, now: int, se: SchedEntity) -> None:
    """__update_load_avg_blocked_se(): let the averages of an entity that sleeps decay up to ``now``."""
    if update_load_sum(k, now, se.avg, 0, 0, False):
        update_avg(k, se.avg, scale_load_down(se.weight))


@inner
def add(k: Kernel, row: SchedAvg, avg: int, total: int, more: int, more_sum: int) -> None:
    """add_positive(), sub_positive(): change an average (column ``avg``) and its sum, which do not become negative."""
    row[avg] = max(0, row[avg] + more)
    row[total] = max(0, row[total] + more_sum)


@inner
def change(k: Kernel, row: SchedAvg, avg: int, total: int, more: int, more_sum: int) -> None:
    """Do the same as :func:`add`, and raise the sum to the minimum that the average implies (32-bit, as in the kernel)."""
    add(k, row, avg, total, more, more_sum)
    row[total] = max(row[total] & MAX32, (row[avg] * MIN_DIVIDER) & MAX32)


@inner
def enqueue_load_avg(k: Kernel, q: CfsRq, se: SchedEntity) -> None:
    """enqueue_load_avg(): add the load of an entity to its queue."""
    q.avg.load_avg += se.avg.load_avg
    q.avg.load_sum += scale_load_down(se.weight) * se.avg.load_sum


@inner
def dequeue_load_avg(k: Kernel, q: CfsRq, se: SchedEntity) -> None:
    """dequeue_load_avg(): take the load of an entity off its queue."""
    weighted = scale_load_down(se.weight) * se.avg.load_sum
    change(k, q.avg, SchedAvg.load_avg, SchedAvg.load_sum, -se.avg.load_avg, -weighted)


@inner
def propagate_to(k: Kernel, q: CfsRq, runnable_sum: int) -> None:
    """add_tg_cfs_propagate(): note that a group's queue has changed, for the levels above it."""
    q.propagate = 1
    q.prop_runnable_sum += runnable_sum


@apart(NOTHING)
def subtract_removed(k: Kernel, q: CfsRq) -> None:
    """update_cfs_rq_load_avg(): subtract the averages of the tasks that woke on other CPUs."""
    divider = MIN_DIVIDER + q.avg.period_contrib
    load = q.removed_load
    util = q.removed_util
    runnable = q.removed_runnable
    q.removed_nr = 0
    q.removed_load = 0
    q.removed_util = 0
    q.removed_runnable = 0
    change(k, q.avg, SchedAvg.load_avg, SchedAvg.load_sum, -load, -load * divider)
    change(k, q.avg, SchedAvg.util_avg, SchedAvg.util_sum, -util, -util * divider)
    change(k, q.avg, SchedAvg.runnable_avg, SchedAvg.runnable_sum, -runnable, -runnable * divider)
    propagate_to(k, q, (-runnable * divider) >> 10)  # rounds down, as C's shift does


@inner
def update_queue(k: Kernel, q: CfsRq) -> int:
    """update_cfs_rq_load_avg(), __update_load_avg_cfs_rq(): update the averages of a queue; return whether they changed."""
    removed = q.removed_nr != 0
    if removed:
        subtract_removed(k, q)
    load = scale_load_down(q.load_weight)
    runnable = q.h_nr_running - q.h_nr_delayed
    if update_load_sum(k, k.now_ns, q.avg, load, runnable, q.curr != NO_ENTITY):
        update_avg(k, q.avg, 1)
        return True
    return removed


@apart(NOTHING)
def attach(k: Kernel, se: SchedEntity) -> None:
    """attach_entity_load_avg(): add an entity that is new on this CPU to its queue."""
    q = se.cfs_rq
    divider = MIN_DIVIDER + q.avg.period_contrib
    se.avg.last_update = q.avg.last_update
    se.avg.period_contrib = q.avg.period_contrib
    se.avg.util_sum = se.avg.util_avg * divider
    se.avg.runnable_sum = se.avg.runnable_avg * divider
    load_sum = se.avg.load_avg * divider
    weight = scale_load_down(se.weight)
    se.avg.load_sum = load_sum // weight if weight < load_sum else 1
    enqueue_load_avg(k, q, se)
    add(k, q.avg, SchedAvg.util_avg, SchedAvg.util_sum, se.avg.util_avg, se.avg.util_sum)
    add(
        k, q.avg, SchedAvg.runnable_avg, SchedAvg.runnable_sum,
        se.avg.runnable_avg, se.avg.runnable_sum,
    )  # fmt: skip
    propagate_to(k, q, se.avg.load_sum)


@apart(NOTHING)
def detach(k: Kernel, se: SchedEntity) -> None:
    """detach_entity_load_avg(): take an entity that leaves this CPU off its queue."""
    q = se.cfs_rq
    dequeue_load_avg(k, q, se)
    change(k, q.avg, SchedAvg.util_avg, SchedAvg.util_sum, -se.avg.util_avg, -se.avg.util_sum)
    change(
        k, q.avg, SchedAvg.runnable_avg, SchedAvg.runnable_sum,
        -se.avg.runnable_avg, -se.avg.runnable_sum,
    )  # fmt: skip
    propagate_to(k, q, -se.avg.load_sum)


@inner
def update_tg_load_avg(k: Kernel, q: CfsRq) -> None:
    """update_tg_load_avg(): report a queue's load to its group, once per ms, if it changed by more than 1/64.

    v6.1 reports without the limit of once per ms, and also on CPUs that go offline.
    """
    now = k.now_ns
    if not q.entity:
        return
    if modern(k).tg_load_avg_limited != 0 and (
        not test(k, cpuset.ACTIVE, q.cpu) or now - q.last_update_tg < TG_INTERVAL_NS
    ):
        return
    difference = q.avg.load_avg - q.tg_load_contrib
    if abs(difference) > q.tg_load_contrib // 64:
        q.task_group.load_avg += difference
        q.tg_load_contrib = q.avg.load_avg
        q.last_update_tg = now


@inner
def take_over(k: Kernel, q: CfsRq, se: SchedEntity, g: CfsRq, avg: int, total: int) -> None:
    """update_tg_cfs_util(), update_tg_cfs_runnable(): copy an average of the group's queue to the group's entity."""
    difference = g[avg] - se[avg]
    if difference != 0:
        new = g[avg] * (MIN_DIVIDER + q.avg.period_contrib)
        change_of_sum = new - se[total]
        se[avg] = g[avg]
        se[total] = new
        change(k, q.avg, avg, total, difference, change_of_sum)


@inner
def take_over_load(k: Kernel, q: CfsRq, se: SchedEntity, g: CfsRq) -> None:
    """update_tg_cfs_load(): give a group's entity the load of the group's queue."""
    runnable = g.prop_runnable_sum
    g.prop_runnable_sum = 0
    if runnable == 0:
        return
    divider = MIN_DIVIDER + q.avg.period_contrib
    if runnable >= 0:
        runnable = min(runnable + se.avg.load_sum, divider)
    else:
        below = scale_load_down(g.load_weight)
        mean = g.avg.load_sum // below if below != 0 else 0
        runnable = min(se.avg.load_sum, mean)
    runnable = max(runnable, se.avg.util_sum >> 10)
    weight = scale_load_down(se.weight)
    load_avg = weight * runnable // divider
    difference = load_avg - se.avg.load_avg
    if difference == 0:
        return
    change_of_sum = weight * runnable - weight * se.avg.load_sum
    se.avg.load_sum = runnable
    se.avg.load_avg = load_avg
    change(k, q.avg, SchedAvg.load_avg, SchedAvg.load_sum, difference, change_of_sum)


@inner
def propagate_entity(k: Kernel, se: SchedEntity) -> bool:
    """propagate_entity_load_avg(): copy changes of the group's queue to the group's entity; return whether there were any."""
    g = se.my_q
    if not g or g.propagate == 0:
        return False
    q = se.cfs_rq
    g.propagate = 0
    propagate_to(k, q, g.prop_runnable_sum)
    take_over(k, q, se, g, SchedAvg.util_avg, SchedAvg.util_sum)
    take_over(k, q, se, g, SchedAvg.runnable_avg, SchedAvg.runnable_sum)
    take_over_load(k, q, se, g)
    return True


@apart(NOTHING)
def update_load_avg(k: Kernel, se: SchedEntity, flags: int) -> None:
    """update_load_avg(): bring an entity and its queue up to date."""
    q = se.cfs_rq
    known = se.avg.last_update != 0
    if known:
        update_se(k, se)
    decayed = update_queue(k, q)
    if propagate_entity(k, se):
        decayed = True
    if not known and flags & DO_ATTACH:
        attach(k, se)
        update_tg_load_avg(k, q)
    elif flags & DO_DETACH:
        detach(k, se)
        update_tg_load_avg(k, q)
    elif decayed and flags & UPDATE_TG:
        update_tg_load_avg(k, q)


@inner
def propagate_up(k: Kernel, se: SchedEntity) -> None:
    """propagate_entity_cfs_rq(): let the levels above see a change at once."""
    se = se.parent
    while se:
        update_load_avg(k, se, UPDATE_TG)
        se = se.parent


@inner
def detach_task(k: Kernel, se: SchedEntity) -> None:
    """detach_entity_cfs_rq(): take a task that changes its group off its old queue."""
    update_load_avg(k, se, 0)
    detach(k, se)
    update_tg_load_avg(k, se.cfs_rq)
    propagate_up(k, se)


@inner
def attach_task(k: Kernel, se: SchedEntity) -> None:
    """attach_entity_cfs_rq(): add a task that changed its group to its new queue."""
    update_load_avg(k, se, 0)
    attach(k, se)
    update_tg_load_avg(k, se.cfs_rq)
    propagate_up(k, se)


@inner
def post_init_util(k: Kernel, se: SchedEntity, raw_weight: int) -> None:
    """post_init_entity_util_avg(): estimate a new task's use from the queue's use; v6.1 does not shift the task's weight."""
    q = se.cfs_rq
    room = quotient(1024 - q.avg.util_avg, 2)
    if room > 0:
        if q.avg.util_avg != 0:
            weight = se.weight
            if not raw_weight:
                weight = scale_load_down(weight)
            weighted = q.avg.util_avg * weight
            se.avg.util_avg = min(weighted // (q.avg.load_avg + 1), room)
        else:
            se.avg.util_avg = room
    se.avg.runnable_avg = se.avg.util_avg


@inner
def util_est_update(k: Kernel, p: TaskStruct) -> None:
    """util_est_update(): update the estimate of a task's use when it goes to sleep."""
    if p.se.avg.unchanged != 0:
        return
    estimate = p.se.avg.util_est
    util = p.se.avg.util_avg
    if estimate <= util:
        p.se.avg.util_est = util
    elif estimate - util >= UTIL_EST_MARGIN:
        if util > 1024:
            return
        # a task that had to wait for its CPU could have used more
        if util + UTIL_EST_MARGIN >= p.se.avg.runnable_avg:
            p.se.avg.util_est = (estimate * 4 - (estimate - util)) >> 2
    p.se.avg.unchanged = 1


@apart(NOTHING)
def online_sched_group(k: Kernel, se: SchedEntity) -> None:
    """online_fair_sched_group(): attach the entity of a new group."""
    attach_task(k, se)
