"""How Linux 6.12 moves tasks: which CPU balances, and which tasks it takes (kernel/sched/fair.c, v6.12.107)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.decisions_jit import (
    begin_decision,
    designate,
    note_source,
)
from wastedcores.simulator.engine.balance.decisions_v6_12_jit import log_decision_v6_12
from wastedcores.simulator.engine.balance.find_src_group_v6_12_jit import (
    find_src_group,
    find_src_rq,
)
from wastedcores.simulator.engine.balance.load_balance_v4_1_jit import (
    MAX_PINNED_INTERVAL,
    NR_MIGRATE,
    attach_task,
    attach_tasks,
)
from wastedcores.simulator.engine.balance.sd_stats_v6_12_jit import idle_cpu
from wastedcores.simulator.engine.balance.stays_v6_12_jit import held_back, task_hot
from wastedcores.simulator.engine.codes import cpu_event, idle_type, lb_result, log_op, sd_flag
from wastedcores.simulator.engine.events.queue_jit import event_of, push
from wastedcores.simulator.engine.fair.eevdf_seam_jit import FAIR_DEQUEUE, FAIR_MIGRATE, ask_fair
from wastedcores.simulator.engine.fair.entity_jit import (
    list_add_task,
    list_del_task,
    set_task_rq,
)
from wastedcores.simulator.engine.fair.signals_v6_12_jit import task_h_load, task_util_est
from wastedcores.simulator.engine.world import (
    cpuset,
    domain,
    eevdf,
    group_capacity,
    lb_env,
    rq,
    rq_v6_12,
    sched_group,
    sim,
    task,
    v6_12,
)
from wastedcores.simulator.engine.world.cpusets_jit import exclude, item, start_from_active, test
from wastedcores.simulator.engine.world.log_jit import log_balance, log_migrate
from wastedcores.simulator.engine.world.rules_jit import rule

# --- who balances -----------------------------------------------------------------------------------------------------


@inner
def other_siblings_idle(m, cpu):
    """Return whether the other online CPUs of a core are idle."""
    n = m[0, sim.CPUS]
    other = m[n + cpu, rq_v6_12.SIBLING]
    while other != cpu:
        if test(m, cpuset.ACTIVE, other) and not idle_cpu(m, other):
            return False
        other = m[n + other, rq_v6_12.SIBLING]
    return True


@inner
def after_its_core(m, cpu):
    """Return whether an idle CPU of the same core was a candidate before this one, which left the whole core out."""
    n = m[0, sim.CPUS]
    other = m[n + cpu, rq_v6_12.SIBLING]
    while other != cpu:
        if other < cpu and test(m, cpuset.LB, other) and idle_cpu(m, other):
            return True
        other = m[n + other, rq_v6_12.SIBLING]
    return False


@apart(VALUE)
def should_we_balance(m, env):
    """should_we_balance(): return whether this CPU may balance for its group.

    The designated CPU is the first idle one of the group whose core is idle, else the first idle one, else the group's balance
    CPU. v6.1 does not look at cores. A newly idle CPU may balance unless a task arrived in the meantime.
    """
    whole_cores = rule(m, v6_12.WHOLE_CORES_BALANCE)
    dst = m[env, lb_env.DST_CPU]
    if not test(m, cpuset.LB, dst):
        return False
    if m[env, lb_env.IDLE] == idle_type.NEWLY_IDLE:
        return m[dst, rq.NR_RUNNING] == 0 and m[dst, rq.WAKE_LIST] < 0
    sd = m[env, lb_env.SD]
    group = m[sd, domain.GROUPS]
    designated = -1
    first = m[group, sched_group.BALANCE_CPUS]
    for i in range(first, first + m[group, sched_group.NR_BALANCE_CPUS]):
        cpu = item(m, i)
        if not test(m, cpuset.LB, cpu) or not idle_cpu(m, cpu):
            continue
        if not whole_cores or m[sd, domain.FLAGS] & sd_flag.SHARE_CPUCAPACITY:
            designated = cpu
            break
        if after_its_core(m, cpu):
            continue
        if other_siblings_idle(m, cpu):
            designated = cpu
            break
        if designated < 0:
            designated = cpu
    if designated < 0:
        designated = m[group, sched_group.BALANCE_CPU]
    designate(m, designated)
    return designated == dst


# --- which tasks ------------------------------------------------------------------------------------------------------


@inner
def note_pinned(m, p, env):
    """The part of can_migrate_task() for a task that may not run on the destination: look for another CPU of the group."""
    m[env, lb_env.FLAGS] |= lb_env.SOME_PINNED
    m[env, lb_env.PINNED] += 1
    if m[env, lb_env.IDLE] == idle_type.NEWLY_IDLE or m[env, lb_env.FLAGS] & (
        lb_env.DST_PINNED | lb_env.ACTIVE_LB
    ):
        return
    group = m[env, lb_env.DST_GROUP]
    first = m[group, sched_group.BALANCE_CPUS]
    for i in range(first, first + m[group, sched_group.NR_BALANCE_CPUS]):
        cpu = item(m, i)
        if test(m, cpuset.LB, cpu) and test(m, m[p, task.CPUS_ALLOWED], cpu):
            m[env, lb_env.FLAGS] |= lb_env.DST_PINNED
            m[env, lb_env.NEW_DST_CPU] = cpu
            return


@apart(VALUE)
def can_migrate_task(m, p, env):
    """can_migrate_task(): return whether a task may be moved, and note if only its affinity forbids it."""
    if held_back(m, p, env):
        return False
    if m[p, eevdf.KTHREAD] != 0 and m[p, task.NR_CPUS_ALLOWED] == 1:
        return False
    if not test(m, m[p, task.CPUS_ALLOWED], m[env, lb_env.DST_CPU]):
        note_pinned(m, p, env)
        return False
    m[env, lb_env.FLAGS] &= ~lb_env.ALL_PINNED
    if m[m[env, lb_env.SRC_CPU], rq.CURR] == p:
        m[env, lb_env.RUNNING] += 1
        return False
    sd = m[env, lb_env.SD]
    if (
        m[env, lb_env.FLAGS] & lb_env.ACTIVE_LB
        or m[sd, domain.NR_BALANCE_FAILED] > m[sd, domain.CACHE_NICE_TRIES]
        or not task_hot(m, p, env)
    ):
        return True
    m[env, lb_env.HOT] += 1
    return False


@inner
def detach_task(m, p, dst, why):
    """detach_task(): take a task off its queue and assign it to ``dst``, as set_task_cpu() does."""
    src = m[p, task.CPU]
    ask_fair(m, FAIR_DEQUEUE, p, 0)
    if src != dst:
        log_migrate(m, p, src, dst, why)
        ask_fair(m, FAIR_MIGRATE, p, 0)
    set_task_rq(m, p, dst)


@inner
def cost_of(m, p, env):
    """The switch in detach_tasks(): return by how much a task reduces the imbalance, or -1 if the task is too large."""
    if m[env, lb_env.MIGRATION] == lb_env.BY_TASK:
        return 1
    if m[env, lb_env.MIGRATION] == lb_env.BY_LOAD:
        cost = max(task_h_load(m, p), 1)
    else:
        cost = task_util_est(m, p)
    # shr_bound(): each failure halves what counts
    failed = m[m[env, lb_env.SD], domain.NR_BALANCE_FAILED]
    if cost >> min(failed, 63) > m[env, lb_env.IMBALANCE]:
        m[env, lb_env.HEAVY] += 1
        return -1
    return cost


@apart(VALUE)
def detach_tasks(m, env):
    """detach_tasks(): take tasks off the source, the one that ran longest ago first; return their number.

    A newly idle CPU takes one task, because PREEMPT_DYNAMIC sets CONFIG_PREEMPTION. lb_env.TASKS lists the tasks.
    """
    src = m[env, lb_env.SRC_CPU]
    m[env, lb_env.TASKS] = -1
    detached = 0
    if m[src, rq.NR_RUNNING] <= 1:
        m[env, lb_env.FLAGS] &= ~lb_env.ALL_PINNED
        return detached
    while m[env, lb_env.IMBALANCE] > 0 and m[src, rq.CFS_TASKS] >= 0:
        if m[env, lb_env.IDLE] != idle_type.NOT_IDLE and m[src, rq.NR_RUNNING] <= 1:
            break
        m[env, lb_env.LOOP] += 1
        if m[env, lb_env.LOOP] > m[env, lb_env.LOOP_MAX]:
            break
        p = m[src, rq.CFS_TASKS_TAIL]
        cost = cost_of(m, p, env) if can_migrate_task(m, p, env) else -1
        if cost < 0:
            list_del_task(m, src, p)
            list_add_task(m, src, p)
            continue
        m[env, lb_env.IMBALANCE] -= cost
        detach_task(m, p, m[env, lb_env.DST_CPU], m[env, lb_env.WHY])
        m[p, task.CFS_TASKS_NEXT] = m[env, lb_env.TASKS]
        m[env, lb_env.TASKS] = p
        detached += 1
        if m[env, lb_env.IDLE] == idle_type.NEWLY_IDLE:
            break
    return detached


# --- one attempt ------------------------------------------------------------------------------------------------------


@apart(VALUE)
def pull(m, env):
    """Move tasks from the source, to another CPU of the group where affinity allows only that; return how many."""
    moved = 0
    m[env, lb_env.LOOP_MAX] = min(NR_MIGRATE, m[m[env, lb_env.SRC_CPU], rq.NR_RUNNING])
    while True:
        moved += detach_tasks(m, env)
        attach_tasks(m, env)
        if m[env, lb_env.FLAGS] & lb_env.DST_PINNED == 0 or m[env, lb_env.IMBALANCE] <= 0:
            break
        exclude(m, cpuset.LB, m[env, lb_env.DST_CPU])
        m[env, lb_env.DST_CPU] = m[env, lb_env.NEW_DST_CPU]
        m[env, lb_env.FLAGS] &= ~lb_env.DST_PINNED
        m[env, lb_env.LOOP] = 0
    if m[env, lb_env.FLAGS] & lb_env.SOME_PINNED and m[env, lb_env.IMBALANCE] > 0:
        mark_parent(m, env, 1)
    return moved


@inner
def mark_parent(m, env, imbalance):
    """Set sgc->imbalance of the group above this domain."""
    parent = m[m[env, lb_env.SD], domain.PARENT]
    if parent >= 0:
        m[m[m[parent, domain.GROUPS], sched_group.SGC], group_capacity.IMBALANCE] = imbalance


@inner
def count(m, env, result):
    """Count this call by idle type and result, and log it if decisions are logged."""
    m[m[env, lb_env.SD], domain.LB_COUNT0 + 7 * m[env, lb_env.IDLE] + result] += 1
    if m[0, sim.DECISIONS] != 0:
        log_decision_v6_12(m, env, result)


@inner
def longer_interval(m, env):
    """The label out_one_pinned: double the interval of the level, up to its limit."""
    sd = m[env, lb_env.SD]
    most = m[sd, domain.MAX_INTERVAL]
    if m[env, lb_env.FLAGS] & lb_env.ALL_PINNED:
        most = max(most, MAX_PINNED_INTERVAL)
    if m[env, lb_env.IDLE] != idle_type.NEWLY_IDLE and m[sd, domain.BALANCE_INTERVAL] < most:
        m[sd, domain.BALANCE_INTERVAL] *= 2


@apart(NOTHING)
def out_balanced(m, env, result):
    """The label out_balanced: there is nothing to pull."""
    count(m, env, result)
    if m[env, lb_env.FLAGS] & lb_env.ALL_PINNED == 0:
        mark_parent(m, env, 0)
    m[m[env, lb_env.SD], domain.NR_BALANCE_FAILED] = 0
    longer_interval(m, env)


@inner
def only_local_left(m, env):
    """Return whether all CPUs that are left are in the balance mask of the local group."""
    group = m[env, lb_env.DST_GROUP]
    first = m[group, sched_group.BALANCE_CPUS]
    for cpu in range(m[0, sim.CPUS]):
        if not test(m, cpuset.LB, cpu) or not test(m, m[m[env, lb_env.SD], domain.SPAN], cpu):
            continue
        found = False
        for i in range(first, first + m[group, sched_group.NR_BALANCE_CPUS]):
            if item(m, i) == cpu:
                found = True
                break
        if not found:
            return False
    return True


@inner
def need_active_balance(m, env):
    """need_active_balance(): return whether the running task has to be moved."""
    sd = m[env, lb_env.SD]
    return (
        m[env, lb_env.MIGRATION] == lb_env.BY_TASK
        and m[sd, domain.NR_BALANCE_FAILED] > m[sd, domain.CACHE_NICE_TRIES] + 2
    )


@inner
def start_active_balance(m, env, src):
    """Ask the stopper of ``src`` to push a task unless it is busy with that; return whether it was asked."""
    if m[src, rq.ACTIVE_BALANCE] != 0:
        return False
    this_cpu = m[env, lb_env.THIS_CPU]
    m[src, rq.ACTIVE_BALANCE] = 1
    m[src, rq.PUSH_CPU] = this_cpu
    log_balance(m, this_cpu, src, log_op.ACTIVE, 0)
    push(m, event_of(cpu_event.STOP, src), m[0, sim.NOW] + m[0, sim.IPI_NS])
    return True


@apart(NOTHING)
def finish(m, env, moved):
    """The end of sched_balance_rq(): update the failure counter, start an active balance if needed, set the interval."""
    sd = m[env, lb_env.SD]
    src = m[env, lb_env.SRC_CPU]
    active = False
    if moved > 0:
        m[sd, domain.NR_BALANCE_FAILED] = 0
        m[env, lb_env.MOVED] = moved
        count(m, env, lb_result.MOVED)
        log_balance(m, m[env, lb_env.THIS_CPU], src, m[env, lb_env.WHY], moved)
    else:
        if m[env, lb_env.IDLE] != idle_type.NEWLY_IDLE:
            m[sd, domain.NR_BALANCE_FAILED] += 1
        if need_active_balance(m, env):
            curr = m[src, rq.CURR]
            # the idle task may run on its own CPU only
            if curr < 0 or not test(m, m[curr, task.CPUS_ALLOWED], m[env, lb_env.THIS_CPU]):
                count(m, env, lb_result.PINNED)
                longer_interval(m, env)
                return
            m[env, lb_env.FLAGS] &= ~lb_env.ALL_PINNED
            active = start_active_balance(m, env, src)
        count(m, env, lb_result.ACTIVE if active else lb_result.FAILED)
    if not active or need_active_balance(m, env):
        m[sd, domain.BALANCE_INTERVAL] = m[sd, domain.MIN_INTERVAL]


@inner
def begin(m, env, this_cpu, sd, idle, why):
    """Fill in struct lb_env."""
    m[env, lb_env.SD] = sd
    m[env, lb_env.DST_CPU] = m[env, lb_env.THIS_CPU] = this_cpu
    m[env, lb_env.IDLE] = idle
    m[env, lb_env.WHY] = why
    m[env, lb_env.DST_GROUP] = m[sd, domain.GROUPS]
    for column in (
        lb_env.FLAGS,
        lb_env.LOOP,
        lb_env.MOVED,
        lb_env.MIGRATION,
        lb_env.REASON,
        lb_env.MOVES,
        lb_env.IMBALANCE,
    ):
        m[env, column] = 0
    start_from_active(m)
    if m[0, sim.DECISIONS] != 0:
        begin_decision(m, env)


@apart(VALUE)
def load_balance(m, this_cpu, sd, idle, why):
    """sched_balance_rq(): return the tasks moved, or -1 if this CPU is not the one to balance (``continue_balancing = 0``)."""
    st = m[0, sim.SCRATCH]
    out = st + 3
    env = st + 4
    begin(m, env, this_cpu, sd, idle, why)
    while True:
        if not should_we_balance(m, env):
            out_balanced(m, env, lb_result.NOT_DESIGNATED)
            return -1
        group = find_src_group(m, env, st, out)
        if group < 0:
            out_balanced(m, env, lb_result.BALANCED)
            return 0
        src = find_src_rq(m, env, group)
        note_source(m, env, src)
        if src < 0:
            out_balanced(m, env, lb_result.NO_QUEUE)
            return 0
        m[env, lb_env.SRC_CPU] = src
        m[env, lb_env.FLAGS] |= lb_env.ALL_PINNED
        if m[src, rq.NR_RUNNING] <= 1:
            finish(m, env, 0)
            return 0
        moved = pull(m, env)
        if m[env, lb_env.FLAGS] & lb_env.ALL_PINNED == 0:
            finish(m, env, moved)
            return moved
        exclude(m, cpuset.LB, src)
        if only_local_left(m, env):
            m[sd, domain.NR_BALANCE_FAILED] = 0
            count(m, env, lb_result.PINNED)
            longer_interval(m, env)
            return 0
        m[env, lb_env.LOOP] = 0


@apart(NOTHING)
def active_load_balance(m, src):
    """active_load_balance_cpu_stop(), without what concerns the stopper itself: move one task to ``push_cpu``."""
    dst = m[src, rq.PUSH_CPU]
    m[src, rq.ACTIVE_BALANCE] = 0
    if m[src, rq.NR_RUNNING] <= 1 or not test(m, cpuset.ACTIVE, dst):
        return
    sd = m[dst, rq.SD] if m[dst, rq.NR_DOMAINS] > 0 else -1
    while sd >= 0 and not test(m, m[sd, domain.SPAN], src):
        sd = m[sd, domain.PARENT]
    if sd < 0:
        return
    env = m[0, sim.SCRATCH] + 4
    m[env, lb_env.SD] = sd
    m[env, lb_env.DST_CPU] = dst
    m[env, lb_env.IDLE] = idle_type.IDLE
    m[env, lb_env.SRC_CPU] = src
    m[env, lb_env.FLAGS] = lb_env.ACTIVE_LB
    m[env, lb_env.MIGRATION] = lb_env.BY_LOAD  # 0, as all that is not named
    p = m[src, rq.CFS_TASKS_TAIL]
    while p >= 0:
        if can_migrate_task(m, p, env):
            detach_task(m, p, dst, log_op.ACTIVE)
            m[sd, domain.NR_BALANCE_FAILED] = 0
            attach_task(m, p)
            return
        p = m[p, task.CFS_TASKS_PREV]
