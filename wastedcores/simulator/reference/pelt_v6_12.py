"""Per-entity load tracking of Linux 6.12: what each entity and each queue contributes to load, runnable time and use.

Source: kernel/sched/pelt.c and fair.c, v6.12.107; each definition names its function. ``now`` is cfs_rq_clock_pelt(), which is
the simulated time because the frequency of a CPU does not scale it. Weights of entities are shifted up by ten bits.
"""

from __future__ import annotations

from wastedcores.simulator.reference.arithmetic import LOAD_AVG_MAX, decay_load
from wastedcores.simulator.reference.state import CfsRq, Entity, SchedAvg

#: PELT_MIN_DIVIDER
MIN_DIVIDER = LOAD_AVG_MAX - 1024
#: UTIL_EST_MARGIN
UTIL_EST_MARGIN = 1024 // 100
#: how often a queue may report its load to its group (update_tg_load_avg())
TG_INTERVAL_NS = 1_000_000
_MAX32 = (1 << 32) - 1


def scale_load_down(weight: int) -> int:
    """Return a weight with the ten bits less that loads have (sched.h: scale_load_down(), v6.12.107)."""
    return max(2, weight >> 10) if weight else 0


def quotient(a: int, b: int) -> int:
    """Divide as C does, rounding towards zero."""
    return a // b if a >= 0 else -(-a // b)


# --- one sum ----------------------------------------------------------------------------------------------------------


def update_load_sum(now: int, sa: SchedAvg, load: int, runnable: int, running: bool) -> bool:
    """Bring the sums up to date; return whether a period of 1024 us ended (___update_load_sum(), v6.12.107)."""
    delta = now - sa.last_update
    if delta < 0:
        sa.last_update = now
        return False
    delta >>= 10
    if not delta:
        return False
    sa.last_update += delta << 10
    if not load:
        runnable, running = 0, False
    contrib = delta
    delta += sa.period_contrib
    periods = delta // 1024
    if periods:
        sa.load_sum = decay_load(sa.load_sum, periods)
        sa.runnable_sum = decay_load(sa.runnable_sum, periods)
        sa.util_sum = decay_load(sa.util_sum, periods)
        delta %= 1024
        # __accumulate_pelt_segments()
        first = decay_load(1024 - sa.period_contrib, periods)
        contrib = first + LOAD_AVG_MAX - decay_load(LOAD_AVG_MAX, periods) - 1024 + delta
    sa.period_contrib = delta
    sa.load_sum += load * contrib
    sa.runnable_sum += runnable * contrib << 10
    if running:
        sa.util_sum += contrib << 10
    return periods > 0


def update_avg(sa: SchedAvg, weight: int) -> None:
    """Compute the averages from the sums (___update_load_avg(), v6.12.107)."""
    divider = MIN_DIVIDER + sa.period_contrib
    sa.load_avg = weight * sa.load_sum // divider
    sa.runnable_avg = sa.runnable_sum // divider
    sa.util_avg = sa.util_sum // divider


def update_se(now: int, se: Entity) -> None:
    """Bring the averages of an entity up to date (__update_load_avg_se() and se_runnable(), v6.12.107)."""
    runnable = se.runnable_weight if se.my_q is not None else int(se.on_rq)
    if se.sched_delayed:
        runnable = 0
    if update_load_sum(now, se.avg, int(se.on_rq), runnable, se.cfs_rq.curr is se):
        update_avg(se.avg, scale_load_down(se.weight))
        se.avg.unchanged = False


def update_blocked_se(now: int, se: Entity) -> None:
    """Let the averages of an entity that sleeps decay (__update_load_avg_blocked_se(), v6.12.107)."""
    if update_load_sum(now, se.avg, 0, 0, False):
        update_avg(se.avg, scale_load_down(se.weight))


def update_queue(now: int, q: CfsRq) -> bool:
    """Bring the averages of a queue up to date (update_cfs_rq_load_avg(), __update_load_avg_cfs_rq(), v6.12.107)."""
    removed = q.removed_nr > 0
    if removed:
        _remove(q)
    runnable = q.h_nr_running - q.h_nr_delayed
    decayed = update_load_sum(now, q.avg, scale_load_down(q.weight), runnable, q.curr is not None)
    if decayed:
        update_avg(q.avg, 1)
    return decayed or removed


# --- the sums of a queue ----------------------------------------------------------------------------------------------


def _add(sa: SchedAvg, signal: str, avg: int, total: int) -> None:
    """Add, possibly a negative amount, down to 0 at most (add_positive(), sub_positive())."""
    setattr(sa, f"{signal}_avg", max(0, getattr(sa, f"{signal}_avg") + avg))
    setattr(sa, f"{signal}_sum", max(0, getattr(sa, f"{signal}_sum") + total))


def _floor(sa: SchedAvg, signal: str) -> None:
    """Keep a sum from falling below what its average stands for; the kernel computes this with 32 bits."""
    least = (getattr(sa, f"{signal}_avg") * MIN_DIVIDER) & _MAX32
    setattr(sa, f"{signal}_sum", max(getattr(sa, f"{signal}_sum") & _MAX32, least))


def _remove(q: CfsRq) -> None:
    """Subtract the tasks that woke on other CPUs (update_cfs_rq_load_avg(), v6.12.107)."""
    divider = MIN_DIVIDER + q.avg.period_contrib
    left = {"load": q.removed_load, "util": q.removed_util, "runnable": q.removed_runnable}
    q.removed_nr = q.removed_load = q.removed_util = q.removed_runnable = 0
    for signal, avg in left.items():
        _add(q.avg, signal, -avg, -avg * divider)
        _floor(q.avg, signal)
    _propagate_to(q, -left["runnable"] * divider >> 10)  # rounds down, as C's shift does


def enqueue_load_avg(q: CfsRq, se: Entity) -> None:
    """Add the load of an entity to its queue (enqueue_load_avg(), v6.12.107)."""
    q.avg.load_avg += se.avg.load_avg
    q.avg.load_sum += scale_load_down(se.weight) * se.avg.load_sum


def dequeue_load_avg(q: CfsRq, se: Entity) -> None:
    """Take the load of an entity off its queue (dequeue_load_avg(), v6.12.107)."""
    _add(q.avg, "load", -se.avg.load_avg, -scale_load_down(se.weight) * se.avg.load_sum)
    _floor(q.avg, "load")


def attach(q: CfsRq, se: Entity) -> None:
    """Add an entity that is new on this CPU to its queue (attach_entity_load_avg(), v6.12.107)."""
    divider = MIN_DIVIDER + q.avg.period_contrib
    sa = se.avg
    sa.last_update, sa.period_contrib = q.avg.last_update, q.avg.period_contrib
    sa.util_sum, sa.runnable_sum = sa.util_avg * divider, sa.runnable_avg * divider
    sa.load_sum = sa.load_avg * divider
    weight = scale_load_down(se.weight)
    sa.load_sum = sa.load_sum // weight if weight < sa.load_sum else 1
    enqueue_load_avg(q, se)
    for signal in ("util", "runnable"):
        _add(q.avg, signal, getattr(sa, f"{signal}_avg"), getattr(sa, f"{signal}_sum"))
    _propagate_to(q, sa.load_sum)


def detach(q: CfsRq, se: Entity) -> None:
    """Take an entity that leaves this CPU off its queue (detach_entity_load_avg(), v6.12.107)."""
    dequeue_load_avg(q, se)
    for signal in ("util", "runnable"):
        _add(q.avg, signal, -getattr(se.avg, f"{signal}_avg"), -getattr(se.avg, f"{signal}_sum"))
        _floor(q.avg, signal)
    _propagate_to(q, -se.avg.load_sum)


def detach_task(now: int, se: Entity) -> None:
    """Take a task that changes its group off its old queue (detach_entity_cfs_rq(), v6.12.107)."""
    update_load_avg(now, se)
    detach(se.cfs_rq, se)
    update_tg_load_avg(now, se.cfs_rq)
    _propagate_up(now, se)


def attach_task(now: int, se: Entity) -> None:
    """Add a task that changed its group to its new queue (attach_entity_cfs_rq(), v6.12.107)."""
    update_load_avg(now, se)
    attach(se.cfs_rq, se)
    update_tg_load_avg(now, se.cfs_rq)
    _propagate_up(now, se)


def _propagate_up(now: int, se: Entity) -> None:
    """Let the levels above see a change at once (propagate_entity_cfs_rq(), v6.12.107)."""
    for level in se.levels()[1:]:
        update_load_avg(now, level, tg=True)


def _propagate_to(q: CfsRq, runnable_sum: int) -> None:
    """Note a change of a group's queue for the levels above (add_tg_cfs_propagate(), v6.12.107)."""
    q.propagate = True
    q.prop_runnable_sum += runnable_sum


# --- update_load_avg() ------------------------------------------------------------------------------------------------


def update_load_avg(
    now: int, se: Entity, *, tg: bool = False, do_attach: bool = False, do_detach: bool = False
) -> None:
    """Bring an entity and its queue up to date (update_load_avg(), v6.12.107).

    ``tg``, ``do_attach`` and ``do_detach`` are UPDATE_TG, DO_ATTACH and DO_DETACH.
    """
    q = se.cfs_rq
    if se.avg.last_update:
        update_se(now, se)
    decayed = update_queue(now, q)
    decayed = propagate_entity(se) or decayed
    if not se.avg.last_update and do_attach:
        attach(q, se)
        update_tg_load_avg(now, q)
    elif do_detach:
        detach(q, se)
        update_tg_load_avg(now, q)
    elif decayed and tg:
        update_tg_load_avg(now, q)


def update_tg_load_avg(now: int, q: CfsRq) -> None:
    """Report a queue's load to its group, once per ms, if it changed by more than 1/64 (update_tg_load_avg(), v6.12.107).

    v6.1 reports without the limit, and on CPUs that go offline, too.
    """
    if q.tg.se[q.rq.cpu] is None:
        return
    if q.tg.limited and (not q.rq.online or now - q.last_update_tg < TG_INTERVAL_NS):
        return
    change = q.avg.load_avg - q.tg_load_contrib
    if abs(change) > q.tg_load_contrib // 64:
        q.tg.load_avg += change
        q.tg_load_contrib = q.avg.load_avg
        q.last_update_tg = now


def propagate_entity(se: Entity) -> bool:
    """Give a group's entity what changed on the group's queue (propagate_entity_load_avg(), v6.12.107)."""
    g, q = se.my_q, se.cfs_rq
    if g is None or not g.propagate:
        return False
    g.propagate = False
    _propagate_to(q, g.prop_runnable_sum)
    for signal in ("util", "runnable"):  # update_tg_cfs_util(), update_tg_cfs_runnable()
        change = getattr(g.avg, f"{signal}_avg") - getattr(se.avg, f"{signal}_avg")
        if not change:
            continue
        new = getattr(g.avg, f"{signal}_avg") * (MIN_DIVIDER + q.avg.period_contrib)
        change_of_sum = new - getattr(se.avg, f"{signal}_sum")
        setattr(se.avg, f"{signal}_avg", getattr(g.avg, f"{signal}_avg"))
        setattr(se.avg, f"{signal}_sum", new)
        _add(q.avg, signal, change, change_of_sum)
        _floor(q.avg, signal)
    _propagate_load(q, se, g)
    return True


def _propagate_load(q: CfsRq, se: Entity, g: CfsRq) -> None:
    """Give a group's entity the load of the group's queue (update_tg_cfs_load(), v6.12.107)."""
    runnable, g.prop_runnable_sum = g.prop_runnable_sum, 0
    if not runnable:
        return
    divider = MIN_DIVIDER + q.avg.period_contrib
    if runnable >= 0:
        runnable = min(runnable + se.avg.load_sum, divider)
    else:
        weight = scale_load_down(g.weight)
        runnable = min(se.avg.load_sum, g.avg.load_sum // weight if weight else 0)
    runnable = max(runnable, se.avg.util_sum >> 10)
    weight = scale_load_down(se.weight)
    load_sum = weight * runnable
    load_avg = load_sum // divider
    change = load_avg - se.avg.load_avg
    if not change:
        return
    change_of_sum = load_sum - weight * se.avg.load_sum
    se.avg.load_sum, se.avg.load_avg = runnable, load_avg
    _add(q.avg, "load", change, change_of_sum)
    _floor(q.avg, "load")


# --- tasks ------------------------------------------------------------------------------------------------------------


def init_entity(se: Entity) -> None:
    """Let a new task count as fully loaded (init_entity_runnable_average(), v6.12.107)."""
    se.avg = SchedAvg(load_avg=scale_load_down(se.weight))


def post_init_util(se: Entity, raw_weight: bool = False) -> None:
    """Estimate the use of a new task from that of its queue (post_init_entity_util_avg(), v6.12.107).

    With ``raw_weight``, as in v6.1, the weight is not shifted down.
    """
    q, sa = se.cfs_rq.avg, se.avg
    room = quotient(1024 - q.util_avg, 2)
    if room > 0:
        if q.util_avg:
            weight = se.weight if raw_weight else scale_load_down(se.weight)
            sa.util_avg = min(q.util_avg * weight // (q.load_avg + 1), room)
        else:
            sa.util_avg = room
    sa.runnable_avg = sa.util_avg


def util_est_update(se: Entity) -> None:
    """Update the estimate of a task's use when it goes to sleep (util_est_update(), v6.12.107)."""
    sa = se.avg
    if sa.unchanged:
        return
    estimate, util = sa.util_est, sa.util_avg
    if estimate <= util:
        sa.util_est = util
    elif estimate - util >= UTIL_EST_MARGIN:
        if util > 1024:
            return
        # a task that had to wait for its CPU could have used more
        if util + UTIL_EST_MARGIN >= sa.runnable_avg:
            sa.util_est = (estimate * 4 - (estimate - util)) >> 2
    sa.unchanged = True


def util_est_update_v6_1(se: Entity) -> None:
    """Update the estimate of a task's use after it left the queue to sleep (util_est_update(), v6.1.192).

    UTIL_EST_FASTUP: the average follows a rise at once, and a fall by a quarter each time.
    """
    sa = se.avg
    if sa.unchanged:
        return
    last, sa.util_enqueued = sa.util_enqueued, sa.util_avg
    fall = sa.util_ewma - sa.util_enqueued
    if fall < 0:
        sa.util_ewma = sa.util_enqueued
    elif fall < UTIL_EST_MARGIN:
        if abs(last - sa.util_enqueued) < UTIL_EST_MARGIN:
            sa.util_enqueued = last
            return
    elif sa.util_avg > 1024:
        sa.util_enqueued = last
        return
    else:
        sa.util_ewma = (sa.util_ewma * 4 - fall) >> 2
    sa.util_est = max(sa.util_ewma, sa.util_enqueued)
    sa.unchanged = True
