"""load_balance(): who gives, what moves (kernel/sched/fair.c, v4.1; docs/scheduler-model.md, sections 5.4 to 5.6)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.group_stats_jit import (
    OUT_GROUP,
    OUT_IMBALANCE,
    find_busiest_group,
)
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import cpu_event
from wastedcores.simulator.engine.fair.cfs_jit import check_preempt
from wastedcores.simulator.engine.fair.entity_jit import dequeue_task, enqueue_task, list_move_tail
from wastedcores.simulator.engine.fair.load_jit import idle_cpu, task_h_load, weighted_cpuload
from wastedcores.simulator.engine.world.codes import (
    CPU_IDLE,
    CPU_NEWLY_IDLE,
    CPU_NOT_IDLE,
    EV_STOP,
    LOOK_QUEUE,
    RES_ACTIVE,
    RES_BALANCED,
    RES_FAILED,
    RES_MOVED,
    RES_NO_QUEUE,
    RES_NOT_DESIGNATED,
    RES_PINNED,
    SD_ASYM_PACKING,
    WHY_ACTIVE,
)
from wastedcores.simulator.engine.world.cpusets_jit import (
    exclude,
    is_empty,
    item,
    start_from_active,
    test,
)
from wastedcores.simulator.engine.world.log_jit import log_balance, log_considered, log_migrate
from wastedcores.simulator.engine.world.state import (
    C_IMBALANCE,
    D_COUNT0,
    D_FAILED,
    D_FLAGS,
    D_GROUPS,
    D_INTERVAL,
    D_LEVEL,
    D_MASK,
    D_MAX_INT,
    D_MIN_INT,
    D_PARENT,
    D_PCT,
    D_TRIES,
    G_ALWAYS_BALANCE,
    G_CPUS,
    G_IPI,
    G_NOW,
    G_Q0,
    G_SCRATCH,
    G_SE0,
    GR_BAL,
    GR_BLIST,
    GR_BN,
    GR_LIST,
    GR_MASK,
    GR_N,
    GR_SGC,
    MASK_LB,
    Q_H_NR,
    Q_LAST,
    Q_NEXT,
    R_ACTIVE,
    R_CAP,
    R_CAP_ORIG,
    R_CLOCK,
    R_CURR,
    R_NR,
    R_NSD,
    R_PUSH_CPU,
    R_SD,
    R_THEAD,
    SE_EXEC_START,
    SE_PARENT,
    SE_Q,
    T_CNEXT,
    T_CPU,
    T_MASK,
    T_TG,
)

MIGRATION_COST = 500_000
NR_MIGRATE = 32
MAX_PINNED_INTERVAL = 512

# struct lb_env
(
    E_SD,
    E_DST,
    E_IDLE,
    E_SRC,
    E_FLAGS,
    E_LOOP,
    E_LOOP_MAX,
    E_BREAK,
    E_IMB,
    E_NEW_DST,
    E_TASKS,
    E_WHY,
    E_GRPMASK,
) = range(13)
ALL_PINNED, NEED_BREAK, DST_PINNED, SOME_PINNED = 1, 2, 4, 8


@inner
def set_task_rq(m, p, cpu):
    """set_task_rq(): point the task at its group's queue on ``cpu``."""
    m[p, T_CPU] = cpu
    tg = m[p, T_TG]
    n = m[0, G_CPUS]
    m[p, SE_Q] = m[0, G_Q0] + tg * n + cpu
    m[p, SE_PARENT] = m[0, G_SE0] + tg * n + cpu if tg > 0 else -1


@apart(NOTHING)
def detach_task(m, p, dst, why):
    """detach_task(): off its queue, set_task_cpu()."""
    src = m[p, T_CPU]
    dequeue_task(m, p, False)
    if src != dst:  # where groups overlap, LBF_DST_PINNED can name the source itself
        log_migrate(m, p, src, dst, why)
        m[p, SE_EXEC_START] = 0
    set_task_rq(m, p, dst)


@apart(NOTHING)
def attach_task(m, p):
    """attach_task()."""
    enqueue_task(m, p, False, False)
    check_preempt(m, m[p, T_CPU], p)


@inner
def task_hot(m, p, env):
    """task_hot(): it ran within half a millisecond of when the source last read its clock.

    load_balance() did not update that clock before Linux 4.11: a task stays as hot as it was then, to the next tick of the
    source if nothing else happens there.
    """
    q = m[p, SE_Q]
    if m[m[env, E_DST], R_NR] > 0 and (m[q, Q_NEXT] == p or m[q, Q_LAST] == p):
        return True
    return m[m[env, E_SRC], R_CLOCK] - m[p, SE_EXEC_START] < MIGRATION_COST


@apart(VALUE)
def can_migrate_task(m, p, env):
    """can_migrate_task()."""
    mask = m[p, T_MASK]
    if not test(m, mask, m[env, E_DST]):
        m[env, E_FLAGS] |= SOME_PINNED
        if m[env, E_GRPMASK] < 0 or m[env, E_FLAGS] & DST_PINNED:
            return False
        group = m[env, E_GRPMASK]
        first = m[group, GR_LIST]
        for i in range(first, first + m[group, GR_N]):
            cpu = item(m, i)
            if test(m, MASK_LB, cpu) and test(m, mask, cpu):
                m[env, E_FLAGS] |= DST_PINNED
                m[env, E_NEW_DST] = cpu
                break
        return False
    m[env, E_FLAGS] &= ~ALL_PINNED
    if m[m[env, E_SRC], R_CURR] == p:
        return False
    if not task_hot(m, p, env):
        return True
    return m[m[env, E_SD], D_FAILED] > m[m[env, E_SD], D_TRIES]


@apart(VALUE)
def detach_tasks(m, env):
    """detach_tasks(): number of tasks taken off the busiest queue, newest first; E_TASKS holds them, last first."""
    src = m[env, E_SRC]
    m[env, E_TASKS] = -1
    detached = 0
    if m[env, E_IMB] <= 0:
        return detached
    while m[src, R_THEAD] >= 0:
        p = m[src, R_THEAD]
        m[env, E_LOOP] += 1
        if m[env, E_LOOP] > m[env, E_LOOP_MAX]:
            break
        if m[env, E_LOOP] > m[env, E_BREAK]:
            m[env, E_BREAK] += NR_MIGRATE
            m[env, E_FLAGS] |= NEED_BREAK
            break
        if can_migrate_task(m, p, env):
            load = task_h_load(m, p)
            if load // 2 <= m[env, E_IMB]:
                detach_task(m, p, m[env, E_DST], m[env, E_WHY])
                m[p, T_CNEXT] = m[env, E_TASKS]
                m[env, E_TASKS] = p
                detached += 1
                m[env, E_IMB] -= load
                if m[env, E_IMB] <= 0:
                    break
                continue
        list_move_tail(m, src, p)
    return detached


@inner
def attach_tasks(m, env):
    """attach_tasks()."""
    p = m[env, E_TASKS]
    while p >= 0:
        following = m[p, T_CNEXT]
        attach_task(m, p)
        p = following


@inner
def should_we_balance(m, env):
    """should_we_balance(): the first idle CPU of the local group that is in its balance mask, else its balance CPU.

    The published group construction patch answers yes to everybody.
    """
    if m[env, E_IDLE] == CPU_NEWLY_IDLE or m[0, G_ALWAYS_BALANCE] != 0:
        return True
    group = m[m[env, E_SD], D_GROUPS]
    first = m[group, GR_BLIST]
    for i in range(first, first + m[group, GR_BN]):
        cpu = item(m, i)
        if test(m, MASK_LB, cpu) and idle_cpu(m, cpu):
            return cpu == m[env, E_DST]
    return m[group, GR_BAL] == m[env, E_DST]


@apart(VALUE)
def find_busiest_queue(m, env, group):
    """find_busiest_queue(): the CPU, -1 if none."""
    busiest = -1
    busiest_load = 0
    busiest_cap = 1
    log_considered(m, m[env, E_DST], m[group, GR_MASK], LOOK_QUEUE, m[m[env, E_SD], D_LEVEL])
    first = m[group, GR_LIST]
    for i in range(first, first + m[group, GR_N]):
        cpu = item(m, i)
        if not test(m, MASK_LB, cpu):
            continue
        load = weighted_cpuload(m, cpu)
        if m[cpu, R_NR] == 1 and load > m[env, E_IMB] and not low_capacity(m, cpu, m[env, E_SD]):
            continue
        if load * busiest_cap > busiest_load * m[cpu, R_CAP]:
            busiest_load = load
            busiest_cap = m[cpu, R_CAP]
            busiest = cpu
    return busiest


@inner
def low_capacity(m, cpu, sd):
    """check_cpu_capacity()."""
    return m[cpu, R_CAP] * m[sd, D_PCT] < m[cpu, R_CAP_ORIG] * 100


@apart(VALUE)
def need_active_balance(m, env):
    """need_active_balance()."""
    sd = m[env, E_SD]
    src = m[env, E_SRC]
    dst = m[env, E_DST]
    if m[env, E_IDLE] == CPU_NEWLY_IDLE and m[sd, D_FLAGS] & SD_ASYM_PACKING and src > dst:
        return True
    if (
        m[env, E_IDLE] != CPU_NOT_IDLE
        and m[m[0, G_CPUS] + src, Q_H_NR] == 1
        and low_capacity(m, src, sd)
        and m[src, R_CAP] * m[sd, D_PCT] < m[dst, R_CAP] * 100
    ):
        return True
    return m[sd, D_FAILED] > m[sd, D_TRIES] + 2


@apart(VALUE)
def move_tasks(m, env):
    """Detach and attach rounds of one load_balance(): number moved; -1: all pinned, try again; -2: nothing left."""
    src = m[env, E_SRC]
    moved = 0
    m[env, E_FLAGS] |= ALL_PINNED
    m[env, E_LOOP_MAX] = min(NR_MIGRATE, m[src, R_NR])
    while True:
        now_moved = detach_tasks(m, env)
        if now_moved > 0:
            attach_tasks(m, env)
            moved += now_moved
        if m[env, E_FLAGS] & NEED_BREAK:
            m[env, E_FLAGS] &= ~NEED_BREAK
            continue
        if m[env, E_FLAGS] & DST_PINNED and m[env, E_IMB] > 0:
            exclude(m, MASK_LB, m[env, E_DST])
            m[env, E_DST] = m[env, E_NEW_DST]
            m[env, E_FLAGS] &= ~DST_PINNED
            m[env, E_LOOP] = 0
            m[env, E_BREAK] = NR_MIGRATE
            continue
        break
    parent = m[m[env, E_SD], D_PARENT]
    if parent >= 0 and m[env, E_FLAGS] & SOME_PINNED and m[env, E_IMB] > 0:
        m[m[m[parent, D_GROUPS], GR_SGC], C_IMBALANCE] = 1
    if m[env, E_FLAGS] & ALL_PINNED:
        exclude(m, MASK_LB, src)
        if is_empty(m, MASK_LB):
            return -2
        m[env, E_LOOP] = 0
        m[env, E_BREAK] = NR_MIGRATE
        return -1
    return moved


@apart(VALUE)
def start_active_balance(m, env, this_cpu):
    """The end of load_balance() after failures: 1 if the stopper was started, 0 if busy with it, -1 if pinned."""
    src = m[env, E_SRC]
    curr = m[src, R_CURR]
    if curr >= 0 and not test(m, m[curr, T_MASK], this_cpu):
        return -1
    started = 0
    if m[src, R_ACTIVE] == 0:
        m[src, R_ACTIVE] = 1
        m[src, R_PUSH_CPU] = this_cpu
        started = 1
        queue_jit.push(m, cpu_event(EV_STOP, src), m[0, G_NOW] + m[0, G_IPI])
        log_balance(m, this_cpu, src, WHY_ACTIVE, 0)
    m[m[env, E_SD], D_FAILED] = m[m[env, E_SD], D_TRIES] + 1
    return started


@inner
def count(m, env, sd, result):
    """Statistics of load_balance() calls."""
    m[sd, D_COUNT0 + 7 * m[env, E_IDLE] + result] += 1


@inner
def tune_up(m, env, sd, failed):
    """Labels out_balanced and below: nothing to do here, so look less often."""
    if failed:
        m[sd, D_FAILED] = 0
    if (m[env, E_FLAGS] & ALL_PINNED and m[sd, D_INTERVAL] < MAX_PINNED_INTERVAL) or m[
        sd, D_INTERVAL
    ] < m[sd, D_MAX_INT]:
        m[sd, D_INTERVAL] *= 2


@inner
def out_balanced(m, env, sd, result):
    """Label out_balanced."""
    parent = m[sd, D_PARENT]
    if parent >= 0:
        m[m[m[parent, D_GROUPS], GR_SGC], C_IMBALANCE] = 0
    count(m, env, sd, result)
    tune_up(m, env, sd, True)


@apart(VALUE)
def load_balance(m, this_cpu, sd, idle, why):
    """load_balance(): tasks moved; -1 if this CPU is not the one to balance (``continue_balancing = 0``)."""
    st = m[0, G_SCRATCH]
    out = st + 3
    env = st + 4
    m[env, E_SD] = sd
    m[env, E_DST] = this_cpu
    m[env, E_IDLE] = idle
    m[env, E_FLAGS] = 0
    m[env, E_LOOP] = 0
    m[env, E_BREAK] = NR_MIGRATE
    m[env, E_WHY] = why
    m[env, E_GRPMASK] = -1 if idle == CPU_NEWLY_IDLE else m[sd, D_GROUPS]
    start_from_active(m)
    while True:
        if not should_we_balance(m, env):
            out_balanced(m, env, sd, RES_NOT_DESIGNATED)
            return -1
        if not find_busiest_group(m, sd, m[env, E_DST], idle, st, out):
            out_balanced(m, env, sd, RES_BALANCED)
            return 0
        m[env, E_IMB] = m[out, OUT_IMBALANCE]
        src = find_busiest_queue(m, env, m[out, OUT_GROUP])
        if src < 0:
            out_balanced(m, env, sd, RES_NO_QUEUE)
            return 0
        m[env, E_SRC] = src
        moved = 0
        if m[src, R_NR] > 1:
            moved = move_tasks(m, env)
            if moved == -1:
                continue
            if moved == -2:
                count(m, env, sd, RES_PINNED)
                tune_up(m, env, sd, True)
                return 0
        break
    started = 0
    if moved == 0:
        if idle != CPU_NEWLY_IDLE:
            m[sd, D_FAILED] += 1
        if need_active_balance(m, env):
            started = start_active_balance(m, env, this_cpu)
            if started < 0:
                m[env, E_FLAGS] |= ALL_PINNED
                count(m, env, sd, RES_PINNED)
                tune_up(m, env, sd, False)
                return 0
        count(m, env, sd, RES_ACTIVE if started > 0 else RES_FAILED)
    else:
        m[sd, D_FAILED] = 0
        count(m, env, sd, RES_MOVED)
        log_balance(m, this_cpu, m[env, E_SRC], why, moved)
    if started == 0:
        m[sd, D_INTERVAL] = m[sd, D_MIN_INT]
    elif m[sd, D_INTERVAL] < m[sd, D_MAX_INT]:
        m[sd, D_INTERVAL] *= 2
    return moved


@apart(NOTHING)
def active_balance_step(m, src):
    """active_load_balance_cpu_stop(), without the part of the stopper thread itself."""
    dst = m[src, R_PUSH_CPU]
    m[src, R_ACTIVE] = 0
    if m[src, R_NR] <= 1:
        return
    sd = m[dst, R_SD]
    for _ in range(m[dst, R_NSD]):
        if test(m, m[sd, D_MASK], src):
            break
        sd = m[sd, D_PARENT]
    if sd < 0:
        return
    env = m[0, G_SCRATCH] + 4
    m[env, E_SD] = sd
    m[env, E_DST] = dst
    m[env, E_IDLE] = CPU_IDLE
    m[env, E_SRC] = src
    m[env, E_FLAGS] = 0
    m[env, E_GRPMASK] = -1
    p = m[src, R_THEAD]
    while p >= 0:
        if can_migrate_task(m, p, env):
            detach_task(m, p, dst, WHY_ACTIVE)
            attach_task(m, p)
            return
        p = m[p, T_CNEXT]
