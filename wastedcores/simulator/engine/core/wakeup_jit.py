"""Placement of tasks: wakeup, fork, fallback CPU (kernel/sched/core.c, v4.1; docs/replay-semantics.md, section 3)."""

from __future__ import annotations

from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.select_task_rq_v4_1_jit import (
    record_wakee,
    select_task_rq_fair,
)
from wastedcores.simulator.engine.balance.v6_12_seam_jit import (
    PLACE,
    ask_balancer,
    balances_v6_12,
)
from wastedcores.simulator.engine.balance.v6_12_seam_jit import WOKEN as IDLE_CPU_WOKEN
from wastedcores.simulator.engine.codes import (
    cpu_event,
    log_kind,
    log_op,
    sd_flag,
    status,
    task_state,
)
from wastedcores.simulator.engine.design.seam_jit import ASK_PLACE, ask, designed
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import event_of
from wastedcores.simulator.engine.fair.cfs_jit import check_preempt, check_preempt_new
from wastedcores.simulator.engine.fair.eevdf_seam_jit import (
    FAIR_ENQUEUE,
    FAIR_FORK,
    FAIR_MIGRATE,
    FAIR_POST_INIT,
    FAIR_WAKE,
    NEW,
    ask_fair,
    has_eevdf,
)
from wastedcores.simulator.engine.fair.entity_jit import set_task_rq
from wastedcores.simulator.engine.fair.pelt_jit import synchronize_decay
from wastedcores.simulator.engine.fair.pelt_v4_4_jit import is_detached, migrate
from wastedcores.simulator.engine.fair.vruntime_jit import (
    init_task_runnable_average,
    task_fork_fair,
)
from wastedcores.simulator.engine.realtime.seam_jit import SELECT, WOKEN, ask_rt, enqueue, is_rt
from wastedcores.simulator.engine.world import cfs_rq, cpuset, eevdf, entity, rq, sim, task, v6_12
from wastedcores.simulator.engine.world.cpusets_jit import test
from wastedcores.simulator.engine.world.log_jit import log_affinity, log_migrate, pid_of, record
from wastedcores.simulator.engine.world.rules_jit import rule


@apart(VALUE)
def fallback_cpu(m, p, cpu):
    """select_fallback_rq(): return an allowed active CPU, if possible of the same node. Without one the replay ends."""
    node = m[cpu, rq.NODE]
    first = -1
    for c in range(m[0, sim.CPUS]):
        if test(m, cpuset.ACTIVE, c) and test(m, m[p, task.CPUS_ALLOWED], c):
            if m[c, rq.NODE] == node:
                return c
            if first < 0:
                first = c
    if first < 0:
        m[0, sim.STATUS] = status.NO_CPU
        m[0, sim.CULPRIT] = p
        return cpu
    return first


@apart(VALUE)
def select_task_rq(m, p, flag, sync):
    """select_task_rq(): return the CPU that a woken, new or exec'ing task goes to."""
    cpu = m[p, task.CPU]
    if m[p, task.NR_CPUS_ALLOWED] > 1 and designed(m):
        cpu = ask(m, ASK_PLACE, p, flag, sync)
    elif m[p, task.NR_CPUS_ALLOWED] > 1 and is_rt(m, p):
        cpu = ask_rt(m, SELECT, p, flag, 0)
    elif m[p, task.NR_CPUS_ALLOWED] > 1 and balances_v6_12(m):
        cpu = ask_balancer(m, PLACE, p, flag, sync)
    elif m[p, task.NR_CPUS_ALLOWED] > 1:
        cpu = select_task_rq_fair(m, p, cpu, flag, m[0, sim.CPU], sync)
    if not test(m, m[p, task.CPUS_ALLOWED], cpu) or not test(m, cpuset.ACTIVE, cpu):
        cpu = fallback_cpu(m, p, m[p, task.CPU])
    return cpu


@apart(NOTHING)
def activate_woken(m, p, cpu):
    """ttwu_do_activate(), ttwu_do_wakeup(): enqueue a woken task and check for preemption."""
    m[p, task.STATE] = task_state.READY
    enqueue(m, p, True, True)
    check_preempt(m, cpu, p)
    here = m[0, sim.CPU]
    record(m, log_kind.WAKEUP, cpu, pid_of(m, p), pid_of(m, m[here, rq.CURR]), here, -1, -1)
    if is_rt(m, p):
        ask_rt(m, WOKEN, cpu, p, 0)
    if balances_v6_12(m):
        if not rule(m, v6_12.IDLE_TIME_AT_EXIT):
            ask_balancer(m, IDLE_CPU_WOKEN, cpu, 0, 0)
    elif m[cpu, rq.IDLE_STAMP] != 0:
        delta = m[0, sim.NOW] - m[cpu, rq.IDLE_STAMP]
        # update_avg(): as in C, the shift of a negative number is arithmetic
        m[cpu, rq.AVG_IDLE] += (delta - m[cpu, rq.AVG_IDLE]) >> 3
        most = 2 * m[cpu, rq.MAX_IDLE_BALANCE_COST]
        m[cpu, rq.AVG_IDLE] = min(m[cpu, rq.AVG_IDLE], most)
        m[cpu, rq.IDLE_STAMP] = 0


@apart(NOTHING)
def try_to_wake_up(m, p, sync):
    """try_to_wake_up() in the context of CPU sim.CPU."""
    choose_cpu(m, p, sync)
    queue_woken(m, p)


@apart(NOTHING)
def choose_cpu(m, p, sync):
    """Do the first part of try_to_wake_up(): choose the CPU."""
    here = m[0, sim.CPU]
    m[0, sim.COMPUTING] += 1
    if m[p, eevdf.SCHED_DELAYED] != 0:
        m[p, task.STATE] = task_state.WAKING  # it is still queued, and stays on its CPU
        return
    old = m[p, task.CPU]
    fair = not has_eevdf(m) and not is_rt(m, p)
    if fair:  # task_waking_fair()
        m[p, entity.VRUNTIME] -= m[m[p, entity.CFS_RQ], cfs_rq.MIN_VRUNTIME]
        record_wakee(m, m[here, rq.CURR], p)
    m[p, task.STATE] = task_state.WAKING
    cpu = select_task_rq(m, p, sd_flag.BALANCE_WAKE, sync)
    if cpu != old:
        log_migrate(m, p, old, cpu, log_op.WAKEUP)
        # migrate_task_rq_fair(): the blocked load stays behind
        if fair and m[p, entity.DECAY_COUNT] != 0:
            decays = synchronize_decay(m, p)
            m[p, entity.DECAY_COUNT] = -decays
            m[m[p, entity.CFS_RQ], cfs_rq.REMOVED_LOAD] += m[p, entity.LOAD_AVG_CONTRIB]
        if has_eevdf(m):
            ask_fair(m, FAIR_MIGRATE, p, 0)
        migrate(m, p)
        m[p, entity.EXEC_START] = 0
        set_task_rq(m, p, cpu)


@apart(NOTHING)
def queue_woken(m, p):
    """ttwu_queue(): enqueue the task, or put it on the wake list of its CPU.

    The list is for CPUs that do not share a cache with this one, and in v6.12.107 for other idle CPUs too (ttwu_queue_cond()).
    """
    here = m[0, sim.CPU]
    cpu = m[p, task.CPU]
    if m[p, eevdf.SCHED_DELAYED] != 0:
        ask_fair(m, FAIR_WAKE, p, 0)
        m[p, task.STATE] = task_state.READY
        record(m, log_kind.WAKEUP, cpu, pid_of(m, p), pid_of(m, m[here, rq.CURR]), here, -1, -1)
        return
    if not test(m, cpuset.ACTIVE, cpu):
        # the CPU went offline in the meantime
        up = fallback_cpu(m, p, cpu)
        log_migrate(m, p, cpu, up, log_op.WAKEUP)
        if has_eevdf(m):
            ask_fair(m, FAIR_MIGRATE, p, 0)
        if m[0, sim.LOAD_V4_4] != 0 and not is_detached(m, p):
            migrate(m, p)
            m[p, entity.EXEC_START] = 0
        set_task_rq(m, p, up)
        cpu = up
    idle = has_eevdf(m) and cpu != here and m[cpu, rq.NR_RUNNING] == 0
    if designed(m) or (m[cpu, rq.SD_LLC_ID] == m[here, rq.SD_LLC_ID] and not idle):
        # under a design a task is on its runqueue at once, as in a Linux without TTWU_QUEUE
        activate_woken(m, p, cpu)
        return
    last = m[cpu, rq.WAKE_LIST]
    if last < 0:
        queue_jit.push(m, event_of(cpu_event.TTWU, cpu), m[0, sim.NOW] + m[0, sim.IPI_NS])
    if last < 0 or not has_eevdf(m):
        m[p, task.WAIT_NEXT] = last
        m[cpu, rq.WAKE_LIST] = p
        return
    while m[last, task.WAIT_NEXT] >= 0:
        last = m[last, task.WAIT_NEXT]
    m[last, task.WAIT_NEXT] = p
    m[p, task.WAIT_NEXT] = -1


@apart(NOTHING)
def ttwu_pending(m, cpu):
    """sched_ttwu_pending(): enqueue the tasks of the wake list in its order: the last one first, in v6.12.107 the first one."""
    p = m[cpu, rq.WAKE_LIST]
    m[cpu, rq.WAKE_LIST] = -1
    while p >= 0:
        following = m[p, task.WAIT_NEXT]
        activate_woken(m, p, cpu)
        p = following


@apart(NOTHING)
def fork_task(m, p, cpu, parent):
    """task_fork_fair() on ``cpu``, then wake_up_new_task(). ``parent`` is -1 for a top-level task."""
    m[0, sim.COMPUTING] += 1
    set_task_rq(m, p, cpu)
    if has_eevdf(m):
        ask_fair(m, FAIR_FORK, p, 0)
    elif not is_rt(m, p):
        task_fork_fair(m, p, cpu)
    pid = pid_of(m, p)
    by = pid_of(m, parent)
    record(m, log_kind.FORK, cpu, pid, by, -1, -1, -1)
    if parent < 0:
        own = m[p, task.NR_CPUS_ALLOWED] < m[0, sim.CPUS]
    else:
        own = m[p, task.CPUS_ALLOWED] != m[parent, task.CPUS_ALLOWED]
    if own:
        log_affinity(m, p, cpu)
    dst = select_task_rq(m, p, sd_flag.BALANCE_FORK, False)
    if dst != cpu:
        log_migrate(m, p, cpu, dst, log_op.FORK)
        migrate(m, p)
        set_task_rq(m, p, dst)
    if has_eevdf(m):
        ask_fair(m, FAIR_POST_INIT, p, 0)
    else:
        init_task_runnable_average(m, p)
    m[p, task.HOME] = m[dst, rq.NODE]
    m[p, task.STATE] = task_state.READY
    if has_eevdf(m):
        ask_fair(m, FAIR_ENQUEUE, p, NEW)
    else:
        enqueue(m, p, False, False)
    record(m, log_kind.WAKEUP_NEW, dst, pid, by, cpu, -1, -1)
    check_preempt_new(m, dst, p)
    if is_rt(m, p):
        ask_rt(m, WOKEN, dst, p, 0)
