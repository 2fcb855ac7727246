"""Where tasks go: wake-up, fork, a CPU that is allowed (kernel/sched/core.c, v4.1; docs/replay-semantics.md, section 3)."""

from __future__ import annotations

from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.load_balance_v4_1_jit import set_task_rq
from wastedcores.simulator.engine.balance.select_task_rq_v4_1_jit import (
    record_wakee,
    select_task_rq_fair,
)
from wastedcores.simulator.engine.design.seam_jit import ASK_PLACE, ask, designed
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import cpu_event
from wastedcores.simulator.engine.fair.cfs_jit import check_preempt
from wastedcores.simulator.engine.fair.entity_jit import enqueue_task
from wastedcores.simulator.engine.fair.pelt_jit import synchronize_decay
from wastedcores.simulator.engine.fair.vruntime_jit import (
    init_task_runnable_average,
    place_entity,
    update_curr,
)
from wastedcores.simulator.engine.world.codes import (
    EV_TTWU,
    LOG_FORK,
    LOG_WAKEUP,
    LOG_WAKEUP_NEW,
    S_READY,
    S_WAKING,
    SD_BALANCE_FORK,
    SD_BALANCE_WAKE,
    ST_NO_CPU,
    WHY_FORK,
    WHY_WAKEUP,
)
from wastedcores.simulator.engine.world.cpusets_jit import test
from wastedcores.simulator.engine.world.log_jit import log_migrate, pid_of, record
from wastedcores.simulator.engine.world.state import (
    G_COMPUTING,
    G_CPU,
    G_CPUS,
    G_CULPRIT,
    G_IPI,
    G_NOW,
    G_STATUS,
    MASK_ACTIVE,
    Q_CURR,
    Q_MIN_V,
    Q_REMOVED,
    R_AVG_IDLE,
    R_CLOCK,
    R_CURR,
    R_IDLE_STAMP,
    R_LLC_ID,
    R_MAX_IDLE_COST,
    R_NODE,
    R_WAKE,
    SE_DECAY_COUNT,
    SE_EXEC_START,
    SE_LOAD,
    SE_Q,
    SE_VRUNTIME,
    T_CPU,
    T_HOME,
    T_MASK,
    T_NALLOWED,
    T_STATE,
    T_WNEXT,
)


@apart(VALUE)
def fallback_cpu(m, p, cpu):
    """select_fallback_rq(): an allowed active CPU, those of the node first; -1 if there is none."""
    node = m[cpu, R_NODE]
    first = -1
    for c in range(m[0, G_CPUS]):
        if test(m, MASK_ACTIVE, c) and test(m, m[p, T_MASK], c):
            if m[c, R_NODE] == node:
                return c
            if first < 0:
                first = c
    if first < 0:
        m[0, G_STATUS] = ST_NO_CPU
        m[0, G_CULPRIT] = p
        return cpu
    return first


@apart(VALUE)
def select_task_rq(m, p, flag, sync):
    """select_task_rq()."""
    cpu = m[p, T_CPU]
    if m[p, T_NALLOWED] > 1 and designed(m):
        cpu = ask(m, ASK_PLACE, p, flag, sync)
    elif m[p, T_NALLOWED] > 1:
        cpu = select_task_rq_fair(m, p, cpu, flag, m[0, G_CPU], sync)
    if not test(m, m[p, T_MASK], cpu) or not test(m, MASK_ACTIVE, cpu):
        cpu = fallback_cpu(m, p, m[p, T_CPU])
    return cpu


@apart(NOTHING)
def activate_woken(m, p, cpu):
    """ttwu_do_activate(), ttwu_do_wakeup()."""
    m[p, T_STATE] = S_READY
    enqueue_task(m, p, True, True)
    check_preempt(m, cpu, p)
    here = m[0, G_CPU]
    record(m, LOG_WAKEUP, cpu, pid_of(m, p), pid_of(m, m[here, R_CURR]), here, -1, -1)
    if m[cpu, R_IDLE_STAMP] != 0:
        delta = m[0, G_NOW] - m[cpu, R_IDLE_STAMP]
        # update_avg(): C shifts negative numbers arithmetically
        m[cpu, R_AVG_IDLE] += (delta - m[cpu, R_AVG_IDLE]) >> 3
        most = 2 * m[cpu, R_MAX_IDLE_COST]
        m[cpu, R_AVG_IDLE] = min(m[cpu, R_AVG_IDLE], most)
        m[cpu, R_IDLE_STAMP] = 0


@apart(NOTHING)
def try_to_wake_up(m, p, sync):
    """try_to_wake_up() from the context of CPU G_CPU."""
    choose_cpu(m, p, sync)
    queue_woken(m, p)


@apart(NOTHING)
def choose_cpu(m, p, sync):
    """The first part of try_to_wake_up(): where the task is to run."""
    here = m[0, G_CPU]
    m[0, G_COMPUTING] += 1
    old = m[p, T_CPU]
    m[p, SE_VRUNTIME] -= m[m[p, SE_Q], Q_MIN_V]
    record_wakee(m, m[here, R_CURR], p)
    cpu = select_task_rq(m, p, SD_BALANCE_WAKE, sync)
    if cpu != old:
        log_migrate(m, p, old, cpu, WHY_WAKEUP)
        # migrate_task_rq_fair(): leave the blocked load behind
        if m[p, SE_DECAY_COUNT] != 0:
            decays = synchronize_decay(m, p)
            m[p, SE_DECAY_COUNT] = -decays
            m[m[p, SE_Q], Q_REMOVED] += m[p, SE_LOAD]
        m[p, SE_EXEC_START] = 0
        set_task_rq(m, p, cpu)
    m[p, T_STATE] = S_WAKING


@apart(NOTHING)
def queue_woken(m, p):
    """The second part, ttwu_queue(): on the runqueue, or on the wake list of a CPU that shares no cache with this one."""
    here = m[0, G_CPU]
    cpu = m[p, T_CPU]
    if not test(m, MASK_ACTIVE, cpu):
        # it went offline meanwhile
        up = fallback_cpu(m, p, cpu)
        log_migrate(m, p, cpu, up, WHY_WAKEUP)
        set_task_rq(m, p, up)
        cpu = up
    if m[cpu, R_LLC_ID] == m[here, R_LLC_ID] or designed(m):
        # a design shows a thread on its runqueue at once, as Linux does without TTWU_QUEUE
        activate_woken(m, p, cpu)
        return
    if m[cpu, R_WAKE] < 0:
        queue_jit.push(m, cpu_event(EV_TTWU, cpu), m[0, G_NOW] + m[0, G_IPI])
    m[p, T_WNEXT] = m[cpu, R_WAKE]
    m[cpu, R_WAKE] = p


@apart(NOTHING)
def ttwu_pending(m, cpu):
    """sched_ttwu_pending(): last in, first out."""
    p = m[cpu, R_WAKE]
    m[cpu, R_WAKE] = -1
    while p >= 0:
        following = m[p, T_WNEXT]
        activate_woken(m, p, cpu)
        p = following


@apart(NOTHING)
def fork_task(m, p, cpu, parent):
    """task_fork_fair() on ``cpu``, then wake_up_new_task(); ``parent`` -1: a top-level task starts."""
    m[0, G_COMPUTING] += 1
    set_task_rq(m, p, cpu)
    q = m[p, SE_Q]
    m[cpu, R_CLOCK] = m[0, G_NOW]
    update_curr(m, q)
    curr = m[q, Q_CURR]
    m[p, SE_VRUNTIME] = m[curr, SE_VRUNTIME] if curr >= 0 else 0
    place_entity(m, q, p, True)
    m[p, SE_VRUNTIME] -= m[q, Q_MIN_V]
    pid = pid_of(m, p)
    by = pid_of(m, parent)
    record(m, LOG_FORK, cpu, pid, by, -1, -1, -1)
    dst = select_task_rq(m, p, SD_BALANCE_FORK, False)
    if dst != cpu:
        log_migrate(m, p, cpu, dst, WHY_FORK)
        set_task_rq(m, p, dst)
    init_task_runnable_average(m, p)
    m[p, T_HOME] = m[dst, R_NODE]
    m[p, T_STATE] = S_READY
    enqueue_task(m, p, False, False)
    record(m, LOG_WAKEUP_NEW, dst, pid, by, cpu, -1, -1)
    check_preempt(m, dst, p)
