"""load_balance(): the CPU that gives tasks and the tasks that move.

Source: kernel/sched/fair.c, v4.1; docs/scheduler-model.md, sections 5.4 to 5.6.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.decisions_jit import (
    begin_decision,
    designate,
    log_decision,
    note_source,
)
from wastedcores.simulator.engine.balance.group_stats_jit import find_busiest_group
from wastedcores.simulator.engine.codes import cpu_event, idle_type, lb_result, log_op, sd_flag
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import event_of
from wastedcores.simulator.engine.fair.cfs_jit import check_preempt
from wastedcores.simulator.engine.fair.entity_jit import (
    dequeue_task,
    enqueue_task,
    list_move_tail,
    set_task_rq,
)
from wastedcores.simulator.engine.fair.load_jit import idle_cpu, task_h_load, weighted_cpuload
from wastedcores.simulator.engine.fair.pelt_v4_4_jit import migrate
from wastedcores.simulator.engine.tasks.weight_jit import SCHED_IDLE
from wastedcores.simulator.engine.world import (
    cfs_rq,
    cpuset,
    domain,
    entity,
    group_capacity,
    lb_env,
    rq,
    sched_group,
    sds,
    sim,
    task,
)
from wastedcores.simulator.engine.world.cpusets_jit import (
    exclude,
    is_empty,
    item,
    start_from_active,
    test,
)
from wastedcores.simulator.engine.world.log_jit import log_balance, log_considered, log_migrate

MIGRATION_COST = 500_000  # sysctl_sched_migration_cost, ns
NR_MIGRATE = 32  # sysctl_sched_nr_migrate
MAX_PINNED_INTERVAL = 512  # ms


@apart(NOTHING)
def detach_task(m, p, dst, why):
    """detach_task(): take a task off its queue and assign it to ``dst``, as set_task_cpu() does."""
    src = m[p, task.CPU]
    dequeue_task(m, p, False)
    if src != dst:  # where groups overlap, LBF_DST_PINNED can select the source itself
        log_migrate(m, p, src, dst, why)
        migrate(m, p)
        m[p, entity.EXEC_START] = 0
    set_task_rq(m, p, dst)


@apart(NOTHING)
def attach_task(m, p):
    """attach_task(): enqueue a task on its new CPU and check for preemption."""
    enqueue_task(m, p, False, False)
    check_preempt(m, m[p, task.CPU], p)


@inner
def task_hot(m, p, env):
    """task_hot(): return whether a task ran within half a millisecond of the last update of the source's clock.

    Before Linux 4.11 load_balance() did not update that clock. A task therefore stays as hot as it was at the last update, until
    the next tick of the source if nothing else happens there.
    """
    if m[p, task.POLICY] == SCHED_IDLE:
        return False
    q = m[p, entity.CFS_RQ]
    if m[m[env, lb_env.DST_CPU], rq.NR_RUNNING] > 0 and (
        m[q, cfs_rq.NEXT] == p or m[q, cfs_rq.LAST] == p
    ):
        return True
    return m[m[env, lb_env.SRC_CPU], rq.CLOCK] - m[p, entity.EXEC_START] < MIGRATION_COST


@apart(VALUE)
def can_migrate_task(m, p, env):
    """can_migrate_task(): check affinity, and that the task neither runs nor is hot."""
    mask = m[p, task.CPUS_ALLOWED]
    if not test(m, mask, m[env, lb_env.DST_CPU]):
        m[env, lb_env.FLAGS] |= lb_env.SOME_PINNED
        m[env, lb_env.PINNED] += 1
        if m[env, lb_env.DST_GROUP] < 0 or m[env, lb_env.FLAGS] & lb_env.DST_PINNED:
            return False
        group = m[env, lb_env.DST_GROUP]
        first = m[group, sched_group.CPUS]
        for i in range(first, first + m[group, sched_group.GROUP_WEIGHT]):
            cpu = item(m, i)
            if test(m, cpuset.LB, cpu) and test(m, mask, cpu):
                m[env, lb_env.FLAGS] |= lb_env.DST_PINNED
                m[env, lb_env.NEW_DST_CPU] = cpu
                break
        return False
    m[env, lb_env.FLAGS] &= ~lb_env.ALL_PINNED
    if m[m[env, lb_env.SRC_CPU], rq.CURR] == p:
        m[env, lb_env.RUNNING] += 1
        return False
    if not task_hot(m, p, env):
        return True
    sd = m[env, lb_env.SD]
    if m[sd, domain.NR_BALANCE_FAILED] > m[sd, domain.CACHE_NICE_TRIES]:
        return True
    m[env, lb_env.HOT] += 1
    return False


@apart(VALUE)
def detach_tasks(m, env):
    """detach_tasks(): take tasks off the busiest queue, the newest first; return their number. lb_env.TASKS lists them."""
    src = m[env, lb_env.SRC_CPU]
    m[env, lb_env.TASKS] = -1
    detached = 0
    if m[env, lb_env.IMBALANCE] <= 0:
        return detached
    while m[src, rq.CFS_TASKS] >= 0:
        last = m[0, sim.LOAD_V4_4] != 0 and m[src, rq.NR_RUNNING] <= 1
        if last and m[env, lb_env.IDLE] != idle_type.NOT_IDLE:
            break  # v4.4 never takes the last task of a queue
        p = m[src, rq.CFS_TASKS]
        m[env, lb_env.LOOP] += 1
        if m[env, lb_env.LOOP] > m[env, lb_env.LOOP_MAX]:
            break
        if m[env, lb_env.LOOP] > m[env, lb_env.LOOP_BREAK]:
            m[env, lb_env.LOOP_BREAK] += NR_MIGRATE
            m[env, lb_env.FLAGS] |= lb_env.NEED_BREAK
            break
        if can_migrate_task(m, p, env):
            load = task_h_load(m, p)
            if load // 2 <= m[env, lb_env.IMBALANCE]:
                detach_task(m, p, m[env, lb_env.DST_CPU], m[env, lb_env.WHY])
                m[p, task.CFS_TASKS_NEXT] = m[env, lb_env.TASKS]
                m[env, lb_env.TASKS] = p
                detached += 1
                m[env, lb_env.IMBALANCE] -= load
                if m[env, lb_env.IMBALANCE] <= 0:
                    break
                continue
            m[env, lb_env.HEAVY] += 1
        list_move_tail(m, src, p)
    return detached


@inner
def attach_tasks(m, env):
    """attach_tasks(): enqueue the detached tasks."""
    p = m[env, lb_env.TASKS]
    while p >= 0:
        following = m[p, task.CFS_TASKS_NEXT]
        attach_task(m, p)
        p = following


@inner
def should_we_balance(m, env):
    """should_we_balance(): only the first idle CPU in the balance mask of the local group balances, else the balance CPU.

    With the published group construction patch every CPU balances.
    """
    if m[env, lb_env.IDLE] == idle_type.NEWLY_IDLE or m[0, sim.ALWAYS_BALANCE] != 0:
        return True
    group = m[m[env, lb_env.SD], domain.GROUPS]
    first = m[group, sched_group.BALANCE_CPUS]
    for i in range(first, first + m[group, sched_group.NR_BALANCE_CPUS]):
        cpu = item(m, i)
        if test(m, cpuset.LB, cpu) and idle_cpu(m, cpu):
            designate(m, cpu)
            return cpu == m[env, lb_env.DST_CPU]
    designate(m, m[group, sched_group.BALANCE_CPU])
    return m[group, sched_group.BALANCE_CPU] == m[env, lb_env.DST_CPU]


@apart(VALUE)
def find_busiest_queue(m, env, group):
    """find_busiest_queue(): return the CPU, or -1 if there is none."""
    busiest = -1
    busiest_load = 0
    busiest_cap = 1
    log_considered(
        m,
        m[env, lb_env.DST_CPU],
        m[group, sched_group.SPAN],
        log_op.FIND_BUSIEST_QUEUE,
        m[m[env, lb_env.SD], domain.LEVEL],
    )
    first = m[group, sched_group.CPUS]
    for i in range(first, first + m[group, sched_group.GROUP_WEIGHT]):
        cpu = item(m, i)
        if not test(m, cpuset.LB, cpu):
            continue
        load = weighted_cpuload(m, cpu)
        if (
            m[cpu, rq.NR_RUNNING] == 1
            and load > m[env, lb_env.IMBALANCE]
            and not low_capacity(m, cpu, m[env, lb_env.SD])
        ):
            continue
        if load * busiest_cap > busiest_load * m[cpu, rq.CPU_CAPACITY]:
            busiest_load = load
            busiest_cap = m[cpu, rq.CPU_CAPACITY]
            busiest = cpu
    return busiest


@inner
def low_capacity(m, cpu, sd):
    """check_cpu_capacity(): return whether other classes or interrupts noticeably reduce the CPU's capacity."""
    return (
        m[cpu, rq.CPU_CAPACITY] * m[sd, domain.IMBALANCE_PCT] < m[cpu, rq.CPU_CAPACITY_ORIG] * 100
    )


@apart(VALUE)
def need_active_balance(m, env):
    """need_active_balance(): return whether the running task has to be pushed."""
    sd = m[env, lb_env.SD]
    src = m[env, lb_env.SRC_CPU]
    dst = m[env, lb_env.DST_CPU]
    if (
        m[env, lb_env.IDLE] == idle_type.NEWLY_IDLE
        and m[sd, domain.FLAGS] & sd_flag.ASYM_PACKING
        and src > dst
    ):
        return True
    if (
        m[env, lb_env.IDLE] != idle_type.NOT_IDLE
        and m[m[0, sim.CPUS] + src, cfs_rq.H_NR_RUNNING] == 1
        and low_capacity(m, src, sd)
        and m[src, rq.CPU_CAPACITY] * m[sd, domain.IMBALANCE_PCT] < m[dst, rq.CPU_CAPACITY] * 100
    ):
        return True
    return m[sd, domain.NR_BALANCE_FAILED] > m[sd, domain.CACHE_NICE_TRIES] + 2


@apart(VALUE)
def move_tasks(m, env):
    """Detach and attach tasks in rounds; return the number moved, -1 to try again without the source, -2 if no CPU is left."""
    src = m[env, lb_env.SRC_CPU]
    moved = 0
    m[env, lb_env.FLAGS] |= lb_env.ALL_PINNED
    m[env, lb_env.LOOP_MAX] = min(NR_MIGRATE, m[src, rq.NR_RUNNING])
    while True:
        now_moved = detach_tasks(m, env)
        if now_moved > 0:
            attach_tasks(m, env)
            moved += now_moved
        if m[env, lb_env.FLAGS] & lb_env.NEED_BREAK:
            m[env, lb_env.FLAGS] &= ~lb_env.NEED_BREAK
            continue
        if m[env, lb_env.FLAGS] & lb_env.DST_PINNED and m[env, lb_env.IMBALANCE] > 0:
            exclude(m, cpuset.LB, m[env, lb_env.DST_CPU])
            m[env, lb_env.DST_CPU] = m[env, lb_env.NEW_DST_CPU]
            m[env, lb_env.FLAGS] &= ~lb_env.DST_PINNED
            m[env, lb_env.LOOP] = 0
            m[env, lb_env.LOOP_BREAK] = NR_MIGRATE
            continue
        break
    parent = m[m[env, lb_env.SD], domain.PARENT]
    if parent >= 0 and m[env, lb_env.FLAGS] & lb_env.SOME_PINNED and m[env, lb_env.IMBALANCE] > 0:
        m[m[m[parent, domain.GROUPS], sched_group.SGC], group_capacity.IMBALANCE] = 1
    if m[env, lb_env.FLAGS] & lb_env.ALL_PINNED:
        exclude(m, cpuset.LB, src)
        if is_empty(m, cpuset.LB):
            return -2
        m[env, lb_env.LOOP] = 0
        m[env, lb_env.LOOP_BREAK] = NR_MIGRATE
        return -1
    return moved


@apart(VALUE)
def start_active_balance(m, env, this_cpu):
    """End a load_balance() that failed: return 1 if it started the stopper, 0 if the stopper is busy, -1 if pinned."""
    src = m[env, lb_env.SRC_CPU]
    curr = m[src, rq.CURR]
    # the idle task may run on its CPU only
    if curr < 0 or not test(m, m[curr, task.CPUS_ALLOWED], this_cpu):
        return -1
    started = 0
    if m[src, rq.ACTIVE_BALANCE] == 0:
        m[src, rq.ACTIVE_BALANCE] = 1
        m[src, rq.PUSH_CPU] = this_cpu
        started = 1
        queue_jit.push(m, event_of(cpu_event.STOP, src), m[0, sim.NOW] + m[0, sim.IPI_NS])
        log_balance(m, this_cpu, src, log_op.ACTIVE, 0)
    m[m[env, lb_env.SD], domain.NR_BALANCE_FAILED] = (
        m[m[env, lb_env.SD], domain.CACHE_NICE_TRIES] + 1
    )
    return started


@inner
def count(m, env, sd, result):
    """Count this load_balance() call by idle type and result, and log it if decisions are logged."""
    m[sd, domain.LB_COUNT0 + 7 * m[env, lb_env.IDLE] + result] += 1
    if m[0, sim.DECISIONS] != 0:
        log_decision(m, env, result)


@inner
def tune_up(m, env, sd, failed):
    """The labels after out_balanced: there is nothing to do here, so balance less often."""
    if failed:
        m[sd, domain.NR_BALANCE_FAILED] = 0
    if (
        m[env, lb_env.FLAGS] & lb_env.ALL_PINNED
        and m[sd, domain.BALANCE_INTERVAL] < MAX_PINNED_INTERVAL
    ) or m[sd, domain.BALANCE_INTERVAL] < m[sd, domain.MAX_INTERVAL]:
        m[sd, domain.BALANCE_INTERVAL] *= 2


@inner
def out_balanced(m, env, sd, result):
    """The label out_balanced: clear the parent group's imbalance flag."""
    parent = m[sd, domain.PARENT]
    if parent >= 0:
        m[m[m[parent, domain.GROUPS], sched_group.SGC], group_capacity.IMBALANCE] = 0
    count(m, env, sd, result)
    tune_up(m, env, sd, True)


@apart(VALUE)
def load_balance(m, this_cpu, sd, idle, why):
    """load_balance(): return the tasks moved, or -1 if this CPU is not the one to balance (``continue_balancing = 0``)."""
    st = m[0, sim.SCRATCH]
    out = st + 3
    env = st + 4
    m[env, lb_env.SD] = sd
    m[env, lb_env.DST_CPU] = m[env, lb_env.THIS_CPU] = this_cpu
    m[env, lb_env.MOVED] = 0
    m[env, lb_env.IDLE] = idle
    m[env, lb_env.FLAGS] = 0
    m[env, lb_env.LOOP] = 0
    m[env, lb_env.LOOP_BREAK] = NR_MIGRATE
    m[env, lb_env.WHY] = why
    m[env, lb_env.DST_GROUP] = -1 if idle == idle_type.NEWLY_IDLE else m[sd, domain.GROUPS]
    start_from_active(m)
    if m[0, sim.DECISIONS] != 0:
        begin_decision(m, env)
    while True:
        if not should_we_balance(m, env):
            out_balanced(m, env, sd, lb_result.NOT_DESIGNATED)
            return -1
        if not find_busiest_group(m, sd, m[env, lb_env.DST_CPU], idle, st, out):
            out_balanced(m, env, sd, lb_result.BALANCED)
            return 0
        m[env, lb_env.IMBALANCE] = m[out, sds.IMBALANCE]
        src = find_busiest_queue(m, env, m[out, sds.BUSIEST])
        if src >= 0:
            m[env, lb_env.SRC_CPU] = src
        note_source(m, env, src)
        if src < 0:
            out_balanced(m, env, sd, lb_result.NO_QUEUE)
            return 0
        moved = 0
        if m[src, rq.NR_RUNNING] > 1:
            moved = move_tasks(m, env)
            if moved == -1:
                continue
            if moved == -2:
                count(m, env, sd, lb_result.PINNED)
                tune_up(m, env, sd, True)
                return 0
        break
    started = 0
    if moved == 0:
        if idle != idle_type.NEWLY_IDLE:
            m[sd, domain.NR_BALANCE_FAILED] += 1
        if need_active_balance(m, env):
            started = start_active_balance(m, env, this_cpu)
            if started < 0:
                m[env, lb_env.FLAGS] |= lb_env.ALL_PINNED
                count(m, env, sd, lb_result.PINNED)
                tune_up(m, env, sd, False)
                return 0
        count(m, env, sd, lb_result.ACTIVE if started > 0 else lb_result.FAILED)
    else:
        m[sd, domain.NR_BALANCE_FAILED] = 0
        m[env, lb_env.MOVED] = moved
        count(m, env, sd, lb_result.MOVED)
        log_balance(m, this_cpu, m[env, lb_env.SRC_CPU], why, moved)
    if started == 0:
        m[sd, domain.BALANCE_INTERVAL] = m[sd, domain.MIN_INTERVAL]
    elif m[sd, domain.BALANCE_INTERVAL] < m[sd, domain.MAX_INTERVAL]:
        m[sd, domain.BALANCE_INTERVAL] *= 2
    return moved


@apart(NOTHING)
def active_balance_step(m, src):
    """active_load_balance_cpu_stop(), without what concerns the stopper thread itself."""
    dst = m[src, rq.PUSH_CPU]
    m[src, rq.ACTIVE_BALANCE] = 0
    if m[src, rq.NR_RUNNING] <= 1:
        return
    sd = m[dst, rq.SD]
    for _ in range(m[dst, rq.NR_DOMAINS]):
        if test(m, m[sd, domain.SPAN], src):
            break
        sd = m[sd, domain.PARENT]
    if sd < 0:
        return
    env = m[0, sim.SCRATCH] + 4
    m[env, lb_env.SD] = sd
    m[env, lb_env.DST_CPU] = dst
    m[env, lb_env.IDLE] = idle_type.IDLE
    m[env, lb_env.SRC_CPU] = src
    m[env, lb_env.FLAGS] = 0
    m[env, lb_env.DST_GROUP] = -1
    p = m[src, rq.CFS_TASKS]
    while p >= 0:
        if can_migrate_task(m, p, env):
            detach_task(m, p, dst, log_op.ACTIVE)
            attach_task(m, p)
            return
        p = m[p, task.CFS_TASKS_NEXT]
