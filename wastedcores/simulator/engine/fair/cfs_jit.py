"""CFS decisions: the next task, the tick, wakeup preemption (kernel/sched/fair.c, v4.1; docs/scheduler-model.md, section 1)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import cpu_event
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import event_of, pending
from wastedcores.simulator.engine.fair.eevdf_seam_jit import (
    FAIR_PICK,
    FAIR_PREEMPT,
    FAIR_PREEMPT_NEW,
    FAIR_PUT_PREV,
    FAIR_TICK,
    ask_fair,
    has_eevdf,
)
from wastedcores.simulator.engine.fair.entity_jit import (
    clear_buddies,
    insert,
    remove,
    set_buddy,
    update_cfs_shares,
)
from wastedcores.simulator.engine.fair.pelt_jit import update_blocked_load, update_entity_load_avg
from wastedcores.simulator.engine.fair.vruntime_jit import (
    NR_LATENCY,
    calc_delta_fair,
    sched_slice,
    update_curr,
)
from wastedcores.simulator.engine.realtime.seam_jit import PREEMPT, ask_rt
from wastedcores.simulator.engine.tasks.weight_jit import SCHED_IDLE
from wastedcores.simulator.engine.world import cfs_rq, entity, rq, sim, task
from wastedcores.simulator.engine.world.log_jit import log_load


@apart(NOTHING)
def resched(m, cpu):
    """resched_curr(): ask a CPU to reschedule, by its flag on the own CPU and by IPI on another."""
    if m[cpu, rq.NEED_RESCHED] != 0:
        return
    m[cpu, rq.NEED_RESCHED] = 1
    if cpu != m[0, sim.CPU]:
        event = event_of(cpu_event.RESCHED, cpu)
        if not pending(m, event):
            queue_jit.push(m, event, m[0, sim.NOW] + m[0, sim.IPI_NS])


@inner
def wakeup_preempt_entity(m, curr, se):
    """wakeup_preempt_entity(): return 1 if ``se`` should preempt ``curr``, -1 if ``curr`` is not ahead of it, else 0."""
    vdiff = m[curr, entity.VRUNTIME] - m[se, entity.VRUNTIME]
    if vdiff <= 0:
        return -1
    if vdiff > calc_delta_fair(m, m[0, sim.WAKEUP_GRANULARITY], se):
        return 1
    return 0


@inner
def next_entity(m, q, curr):
    """pick_next_entity(): return the leftmost entity, or a buddy if that is not too unfair (v4.1 and v6.1)."""
    left = m[q, cfs_rq.LEFTMOST]
    if left < 0 or (curr >= 0 and m[curr, entity.VRUNTIME] < m[left, entity.VRUNTIME]):
        left = curr
    se = left
    if m[q, cfs_rq.SKIP] == se:
        if se == curr:
            second = m[q, cfs_rq.LEFTMOST]
        else:
            second = m[se, entity.NEXT]
            if second < 0 or (curr >= 0 and m[curr, entity.VRUNTIME] < m[second, entity.VRUNTIME]):
                second = curr
        if second >= 0 and wakeup_preempt_entity(m, second, left) < 1:
            se = second
    last = m[q, cfs_rq.LAST]
    if last >= 0 and wakeup_preempt_entity(m, last, left) < 1:
        se = last
    following = m[q, cfs_rq.NEXT]
    if following >= 0 and wakeup_preempt_entity(m, following, left) < 1:
        se = following
    return se


@inner
def pick_next_entity(m, q, curr):
    """pick_next_entity() of v4.1, which uses up the buddy marks of the entity that it returns."""
    se = next_entity(m, q, curr)
    clear_buddies(m, se)
    return se


@inner
def set_next_entity(m, se):
    """set_next_entity(): take the entity out of the queue, because it runs now."""
    q = m[se, entity.CFS_RQ]
    if m[se, entity.ON_RQ] != 0:
        remove(m, q, se)
        update_entity_load_avg(m, se, True)
    m[se, entity.EXEC_START] = m[0, sim.NOW]
    m[q, cfs_rq.CURR] = se
    m[se, entity.PREV_SUM_EXEC_RUNTIME] = m[se, entity.SUM_EXEC_RUNTIME]


@inner
def put_prev_entity(m, se):
    """put_prev_entity(): put the entity that ran back into the queue if it is still runnable."""
    q = m[se, entity.CFS_RQ]
    if m[se, entity.ON_RQ] != 0:
        update_curr(m, q)
        insert(m, q, se)
        # v4.4 does not tell the group of it
        update_entity_load_avg(m, se, m[0, sim.LOAD_V4_4] == 0)
    m[q, cfs_rq.CURR] = -1


@inner
def put_prev_task(m, p):
    """put_prev_task_fair(): put_prev_entity() on all levels."""
    if has_eevdf(m):
        ask_fair(m, FAIR_PUT_PREV, p, 0)
        return
    se = p
    while se >= 0:
        put_prev_entity(m, se)
        se = m[se, entity.PARENT]


@inner
def set_next_task(m, p):
    """set_next_entity() on all levels, the root first."""
    parent = m[p, entity.PARENT]
    if parent >= 0:
        set_next_entity(m, parent)
    set_next_entity(m, p)


@apart(VALUE)
def pick_task(m, cpu, prev):
    """pick_next_task_fair() of a queue that is not empty; only the levels that differ between the two tasks are put and set.

    ``prev`` is -1 after the idle task or the stopper.
    """
    if has_eevdf(m):
        return ask_fair(m, FAIR_PICK, cpu, prev)
    q = cpu + m[0, sim.CPUS]
    se = -1
    while True:
        curr = m[q, cfs_rq.CURR]
        if curr >= 0:
            if m[curr, entity.ON_RQ] != 0:
                update_curr(m, q)
            else:
                curr = -1
        se = pick_next_entity(m, q, curr)
        q = m[se, entity.MY_Q]
        if q < 0:
            break
    p = se
    if prev < 0:
        set_next_task(m, p)
    elif p != prev:
        pse = prev
        # autogroups are one level deep, so the depth is 0 or 1
        while m[se, entity.CFS_RQ] != m[pse, entity.CFS_RQ]:
            depth = 1 if m[se, entity.PARENT] >= 0 else 0
            pdepth = 1 if m[pse, entity.PARENT] >= 0 else 0
            if depth <= pdepth:
                put_prev_entity(m, pse)
                pse = m[pse, entity.PARENT]
            if depth >= pdepth:
                set_next_entity(m, se)
                se = m[se, entity.PARENT]
        put_prev_entity(m, pse)
        set_next_entity(m, se)
    return p


@inner
def check_preempt_tick(m, q, curr):
    """check_preempt_tick(): reschedule if the slice is over. Slices are checked nowhere else."""
    ideal = sched_slice(m, q, curr)
    ran = m[curr, entity.SUM_EXEC_RUNTIME] - m[curr, entity.PREV_SUM_EXEC_RUNTIME]
    if ran > ideal:
        resched(m, m[q, cfs_rq.CPU])
        clear_buddies(m, curr)
        return
    if ran < m[0, sim.MIN_GRANULARITY]:
        return
    if m[curr, entity.VRUNTIME] - m[m[q, cfs_rq.LEFTMOST], entity.VRUNTIME] > ideal:
        resched(m, m[q, cfs_rq.CPU])


@apart(NOTHING)
def task_tick(m, p):
    """task_tick_fair(), entity_tick(): the tick of the running task, on all levels."""
    if has_eevdf(m):
        ask_fair(m, FAIR_TICK, p, 0)
        return
    se = p
    while se >= 0:
        q = m[se, entity.CFS_RQ]
        update_curr(m, q)
        update_entity_load_avg(m, se, True)
        if m[0, sim.LOAD_V4_4] == 0:
            update_blocked_load(m, q, True)
        update_cfs_shares(m, q)
        if m[q, cfs_rq.NR_RUNNING] > 1:
            check_preempt_tick(m, q, se)
        se = m[se, entity.PARENT]
    log_load(m, m[m[p, entity.CFS_RQ], cfs_rq.CPU])


@apart(NOTHING)
def check_preempt(m, cpu, p):
    """check_preempt_curr(), check_preempt_wakeup(): reschedule if the woken task ``p`` should preempt the running one."""
    if has_eevdf(m):
        ask_fair(m, FAIR_PREEMPT, cpu, p)
        return
    check_preempt_wakeup(m, cpu, p)


@apart(NOTHING)
def check_preempt_new(m, cpu, p):
    """wakeup_preempt() with WF_FORK: the same for a new task, which makes a difference since v7.2."""
    if has_eevdf(m):
        ask_fair(m, FAIR_PREEMPT_NEW, cpu, p)
        return
    check_preempt_wakeup(m, cpu, p)


@apart(NOTHING)
def check_preempt_wakeup(m, cpu, p):
    """check_preempt_wakeup() of v4.1 and v6.1, or the real-time class's test."""
    curr = m[cpu, rq.CURR]
    if curr < 0:
        resched(m, cpu)
        return
    if (m[curr, task.RT_PRIORITY] | m[p, task.RT_PRIORITY]) != 0:
        ask_rt(m, PREEMPT, cpu, p, 0)
        return
    if curr == p or m[cpu, rq.NEED_RESCHED] != 0:
        return
    scale = m[m[curr, entity.CFS_RQ], cfs_rq.NR_RUNNING] >= NR_LATENCY
    se = curr
    pse = p
    if m[curr, task.POLICY] == SCHED_IDLE and m[p, task.POLICY] != SCHED_IDLE:
        resched(m, cpu)  # without a last buddy, which set_last_buddy() refuses to SCHED_IDLE
        return
    if m[p, task.POLICY] != 0:
        return
    if m[se, entity.PARENT] >= 0 and m[pse, entity.PARENT] < 0:
        se = m[se, entity.PARENT]
    elif m[pse, entity.PARENT] >= 0 and m[se, entity.PARENT] < 0:
        pse = m[pse, entity.PARENT]
    while m[se, entity.CFS_RQ] != m[pse, entity.CFS_RQ]:
        se = m[se, entity.PARENT]
        pse = m[pse, entity.PARENT]
    update_curr(m, m[se, entity.CFS_RQ])
    if wakeup_preempt_entity(m, se, pse) != 1:
        return
    set_buddy(m, pse, cfs_rq.NEXT)
    resched(m, cpu)
    if (
        scale and m[se, entity.ON_RQ] != 0 and m[se, entity.MY_Q] < 0
    ):  # a task that just went to sleep does not become the last buddy
        set_buddy(m, se, cfs_rq.LAST)
