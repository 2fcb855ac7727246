"""How Linux 6.12 moves tasks: which CPU balances, and which tasks it takes (kernel/sched/fair.c, v6.12.107 and v6.18.15)."""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.decisions_jit import (
    begin_decision,
    designate,
    note_source,
)
from wastedcores.simulator.engine.balance.find_src_group_v6_12_jit import (
    find_src_group,
    find_src_rq,
    idle_cpu,
)
from wastedcores.simulator.engine.balance.load_balance_v4_1_jit import (
    MAX_PINNED_INTERVAL,
    MIGRATION_COST,
    NR_MIGRATE,
    attach_task,
    attach_tasks,
    count,
    detach_task,
    mark_parent,
)
from wastedcores.simulator.engine.codes import (
    cpu_event,
    idle_type,
    lb_result,
    lbf,
    log_op,
    migration_type,
    sd_flag,
)
from wastedcores.simulator.engine.events.queue_jit import event_of, push
from wastedcores.simulator.engine.fair.eevdf_jit import eligible
from wastedcores.simulator.engine.fair.entity_jit import list_add_task, list_del_task
from wastedcores.simulator.engine.fair.load_jit import task_h_load
from wastedcores.simulator.engine.fair.modern_task_jit import task_util_est
from wastedcores.simulator.engine.world import cpuset
from wastedcores.simulator.engine.world.cpusets_jit import exclude, item, start_from_active, test
from wastedcores.simulator.engine.world.log_jit import log_balance
from wastedcores.simulator.engine.world.rows_jit import cpu_cfs_rq, cpu_rq, modern
from wastedcores.simulator.engine.world.structs import (
    NO_DOMAIN,
    NO_TASK,
    CfsRq,
    Kernel,
    LbEnv,
    SchedDomain,
    SdLbStats,
    TaskStruct,
)


@inner
def held_back(k: Kernel, p: TaskStruct, env: LbEnv) -> bool:
    """can_migrate_task(), task_is_ineligible_on_dst_cpu(): return whether a task must stay even if its affinity allows a move.

    A sleeper that is still queued is moved only if load is to be moved. A task that has had more than its share is moved only
    after an attempt that failed, or to an empty queue.
    """
    if p.se.sched_delayed != 0 and env.migration != migration_type.BY_LOAD:
        if modern(k).sleepers_pulled == 0:
            return True
    if modern(k).ineligible_wait == 0 or env.sd.nr_balance_failed != 0:
        return False
    there = CfsRq(k, k.cfs_rq0 + p.group * k.nr_cpus + env.dst_cpu)
    return there.nr_running != 0 and eligible(k, p.se.cfs_rq, p.se) == 0


@inner
def task_hot(k: Kernel, p: TaskStruct, env: LbEnv) -> bool:
    """task_hot(): return whether a task ran so recently that its cache is probably still warm."""
    if env.sd.flags & sd_flag.SHARE_CPUCAPACITY:
        return False
    q = p.se.cfs_rq
    buddy = q.next == p.se or q.last == p.se  # EEVDF has no last buddy
    if cpu_rq(k, env.dst_cpu).nr_running > 0 and buddy:
        return True
    return k.now_ns - p.se.exec_start < MIGRATION_COST


# --- who balances -----------------------------------------------------------------------------------------------------


@inner
def other_siblings_idle(k: Kernel, cpu: int) -> bool:
    """Return whether the other online CPUs of a core are idle."""
    other = cpu_cfs_rq(k, cpu).rq_modern.sibling
    while other != cpu:
        if test(k, cpuset.ACTIVE, other) and not idle_cpu(k, other):
            return False
        other = cpu_cfs_rq(k, other).rq_modern.sibling
    return True


@inner
def after_its_core(k: Kernel, cpu: int) -> bool:
    """Return whether an earlier idle CPU of the same core was rejected. If so, the whole core is rejected."""
    other = cpu_cfs_rq(k, cpu).rq_modern.sibling
    while other != cpu:
        if other < cpu and test(k, cpuset.LB, other) and idle_cpu(k, other):
            return True
        other = cpu_cfs_rq(k, other).rq_modern.sibling
    return False


@apart(VALUE)
def should_we_balance(k: Kernel, env: LbEnv) -> bool:
    """should_we_balance(): return whether this CPU may balance for its group.

    The designated CPU is the first CPU of the group whose whole core is idle, else the first idle CPU, else the group's balance
    CPU. v6.1 does not look at cores. A newly idle CPU may balance unless a task has arrived in the meantime.
    """
    whole_cores = modern(k).whole_cores_balance != 0
    dst = env.dst_cpu
    if not test(k, cpuset.LB, dst):
        return False
    if env.idle == idle_type.NEWLY_IDLE:
        return cpu_rq(k, dst).nr_running == 0 and cpu_rq(k, dst).wake_list == NO_TASK
    sd = env.sd
    group = sd.groups
    designated = -1
    first = group.balance_cpus
    for i in range(first, first + group.nr_balance_cpus):
        cpu = item(k, i)
        if not test(k, cpuset.LB, cpu) or not idle_cpu(k, cpu):
            continue
        if not whole_cores or sd.flags & sd_flag.SHARE_CPUCAPACITY:
            designated = cpu
            break
        if after_its_core(k, cpu):
            continue
        if other_siblings_idle(k, cpu):
            designated = cpu
            break
        if designated < 0:
            designated = cpu
    if designated < 0:
        designated = group.balance_cpu
    designate(k, designated)
    return designated == dst


# --- which tasks ------------------------------------------------------------------------------------------------------


@inner
def note_pinned(k: Kernel, p: TaskStruct, env: LbEnv) -> None:
    """The part of can_migrate_task() for a task that may not run on the destination: look for another CPU of the group."""
    env.flags |= lbf.SOME_PINNED
    env.held_back[0] += 1
    if env.idle == idle_type.NEWLY_IDLE or env.flags & (lbf.DST_PINNED | lbf.ACTIVE_LB):
        return
    group = env.dst_group
    first = group.balance_cpus
    for i in range(first, first + group.nr_balance_cpus):
        cpu = item(k, i)
        if test(k, cpuset.LB, cpu) and test(k, p.cpus_allowed, cpu):
            env.flags |= lbf.DST_PINNED
            env.new_dst_cpu = cpu
            return


@apart(VALUE)
def can_migrate_task(k: Kernel, p: TaskStruct, env: LbEnv) -> bool:
    """can_migrate_task(): return whether a task may be moved, and note if only its affinity forbids it."""
    if held_back(k, p, env):
        return False
    if p.kthread != 0 and p.nr_cpus_allowed == 1:
        return False
    if not test(k, p.cpus_allowed, env.dst_cpu):
        note_pinned(k, p, env)
        return False
    env.flags &= ~lbf.ALL_PINNED
    if cpu_rq(k, env.src_cpu).curr == p:
        env.running += 1
        return False
    sd = env.sd
    if (
        env.flags & lbf.ACTIVE_LB
        or sd.nr_balance_failed > sd.cache_nice_tries
        or not task_hot(k, p, env)
    ):
        return True
    env.hot += 1
    return False


@inner
def cost_of(k: Kernel, p: TaskStruct, env: LbEnv) -> int:
    """The switch in detach_tasks(): return by how much a task reduces the imbalance, or -1 if the task is too large."""
    if env.migration == migration_type.BY_TASK:
        return 1
    if env.migration == migration_type.BY_LOAD:
        cost = max(task_h_load(k, p), 1)
    else:
        cost = task_util_est(k, p)
    # shr_bound(): each failed attempt halves the cost that is compared
    failed = env.sd.nr_balance_failed
    if cost >> min(failed, 63) > env.imbalance:
        env.heavy += 1
        return -1
    return cost


@apart(VALUE)
def detach_tasks(k: Kernel, env: LbEnv) -> int:
    """detach_tasks(): take tasks off the source, first the task that ran longest ago; return their number.

    A newly idle CPU takes one task, because PREEMPT_DYNAMIC sets CONFIG_PREEMPTION. LbEnv.tasks lists the tasks.
    """
    src = env.src_cpu
    env.tasks = NO_TASK
    detached = 0
    if cpu_rq(k, src).nr_running <= 1:
        env.flags &= ~lbf.ALL_PINNED
        return detached
    while env.imbalance > 0 and cpu_rq(k, src).cfs_tasks:
        if env.idle != idle_type.NOT_IDLE and cpu_rq(k, src).nr_running <= 1:
            break
        env.loop += 1
        if env.loop > env.loop_max:
            break
        p = cpu_rq(k, src).cfs_tasks_tail
        cost = cost_of(k, p, env) if can_migrate_task(k, p, env) else -1
        if cost < 0:
            list_del_task(k, src, p)
            list_add_task(k, src, p)
            continue
        env.imbalance -= cost
        detach_task(k, p, env.dst_cpu, env.why)
        p.cfs_tasks_next = env.tasks
        env.tasks = p
        detached += 1
        if env.idle == idle_type.NEWLY_IDLE:
            break
    return detached


# --- one attempt ------------------------------------------------------------------------------------------------------


@apart(VALUE)
def pull(k: Kernel, env: LbEnv) -> int:
    """Move tasks from the source; return how many moved. If affinity requires it, they go to another CPU of the group."""
    moved = 0
    env.loop_max = min(NR_MIGRATE, cpu_rq(k, env.src_cpu).nr_running)
    while True:
        moved += detach_tasks(k, env)
        attach_tasks(k, env)
        if env.flags & lbf.DST_PINNED == 0 or env.imbalance <= 0:
            break
        exclude(k, cpuset.LB, env.dst_cpu)
        env.dst_cpu = env.new_dst_cpu
        env.flags &= ~lbf.DST_PINNED
        env.loop = 0
    if env.flags & lbf.SOME_PINNED and env.imbalance > 0:
        mark_parent(k, env, 1)
    return moved


@inner
def longer_interval(k: Kernel, env: LbEnv) -> None:
    """The label out_one_pinned: double the interval of the level, up to its limit."""
    sd = env.sd
    most = sd.max_interval
    if env.flags & lbf.ALL_PINNED:
        most = max(most, MAX_PINNED_INTERVAL)
    if env.idle != idle_type.NEWLY_IDLE and sd.balance_interval < most:
        sd.balance_interval *= 2


@apart(NOTHING)
def out_balanced(k: Kernel, env: LbEnv, result: int) -> None:
    """The label out_balanced: there is nothing to pull."""
    count(k, env, result)
    if env.flags & lbf.ALL_PINNED == 0:
        mark_parent(k, env, 0)
    env.sd.nr_balance_failed = 0
    longer_interval(k, env)


@inner
def only_local_left(k: Kernel, env: LbEnv) -> bool:
    """Return whether all CPUs that can still be pulled from are in the balance mask of the local group."""
    group = env.dst_group
    first = group.balance_cpus
    for cpu in range(k.nr_cpus):
        if not test(k, cpuset.LB, cpu) or not test(k, env.sd.span, cpu):
            continue
        found = False
        for i in range(first, first + group.nr_balance_cpus):
            if item(k, i) == cpu:
                found = True
                break
        if not found:
            return False
    return True


@inner
def need_active_balance(k: Kernel, env: LbEnv) -> bool:
    """need_active_balance(): return whether the running task has to be moved."""
    sd = env.sd
    return (
        env.migration == migration_type.BY_TASK and sd.nr_balance_failed > sd.cache_nice_tries + 2
    )


@inner
def start_active_balance(k: Kernel, env: LbEnv, src: int) -> bool:
    """Ask the stopper of ``src`` to push a task, unless it is already pushing one; return whether it was asked."""
    if cpu_rq(k, src).active_balance != 0:
        return False
    this_cpu = env.this_cpu
    cpu_rq(k, src).active_balance = 1
    cpu_rq(k, src).push_cpu = this_cpu
    log_balance(k, this_cpu, src, log_op.ACTIVE, 0)
    push(k, event_of(cpu_event.STOP, src), k.now_ns + k.ipi_ns)
    return True


@apart(NOTHING)
def finish(k: Kernel, env: LbEnv, moved: int) -> None:
    """The end of sched_balance_rq(): update the failure counter, start an active balance if needed, set the interval."""
    sd = env.sd
    src = env.src_cpu
    active = False
    if moved > 0:
        sd.nr_balance_failed = 0
        env.moved = moved
        count(k, env, lb_result.MOVED)
        log_balance(k, env.this_cpu, src, env.why, moved)
    else:
        if env.idle != idle_type.NEWLY_IDLE:
            sd.nr_balance_failed += 1
        if need_active_balance(k, env):
            curr = cpu_rq(k, src).curr
            # the idle task may run on its own CPU only
            if not curr or not test(k, curr.cpus_allowed, env.this_cpu):
                count(k, env, lb_result.PINNED)
                longer_interval(k, env)
                return
            env.flags &= ~lbf.ALL_PINNED
            active = start_active_balance(k, env, src)
        count(k, env, lb_result.ACTIVE if active else lb_result.FAILED)
    if not active or need_active_balance(k, env):
        sd.balance_interval = sd.min_interval


@inner
def begin(k: Kernel, env: LbEnv, this_cpu: int, sd: SchedDomain, idle: int, why: int) -> None:
    """Fill in struct lb_env."""
    env.sd = sd
    env.dst_cpu = env.this_cpu = this_cpu
    env.idle = idle
    env.why = why
    env.dst_group = sd.groups
    for column in (
        LbEnv.flags,
        LbEnv.loop,
        LbEnv.moved,
        LbEnv.migration,
        LbEnv.reason,
        LbEnv.moves,
        LbEnv.imbalance,
    ):
        env[column] = 0
    start_from_active(k)
    if k.decisions != 0:
        begin_decision(k, env)


@apart(VALUE)
def load_balance(k: Kernel, this_cpu: int, sd: SchedDomain, idle: int, why: int) -> int:
    """sched_balance_rq(): return how many tasks moved, or -1 if another CPU has to balance (``continue_balancing = 0``)."""
    st = k.scratch
    out = SdLbStats(k, st + 3)
    env = LbEnv(k, st + 4)
    begin(k, env, this_cpu, sd, idle, why)
    while True:
        if not should_we_balance(k, env):
            out_balanced(k, env, lb_result.NOT_DESIGNATED)
            return -1
        group = find_src_group(k, env, st, out)
        if not group:
            out_balanced(k, env, lb_result.BALANCED)
            return 0
        src = find_src_rq(k, env, group)
        note_source(k, env, src)
        if src < 0:
            out_balanced(k, env, lb_result.NO_QUEUE)
            return 0
        env.src_cpu = src
        env.flags |= lbf.ALL_PINNED
        if cpu_rq(k, src).nr_running <= 1:
            finish(k, env, 0)
            return 0
        moved = pull(k, env)
        if env.flags & lbf.ALL_PINNED == 0:
            finish(k, env, moved)
            return moved
        exclude(k, cpuset.LB, src)
        if only_local_left(k, env):
            sd.nr_balance_failed = 0
            count(k, env, lb_result.PINNED)
            longer_interval(k, env)
            return 0
        env.loop = 0


@apart(NOTHING)
def active_load_balance(k: Kernel, src: int) -> None:
    """active_load_balance_cpu_stop(), without what concerns the stopper itself: move one task to ``push_cpu``."""
    dst = cpu_rq(k, src).push_cpu
    cpu_rq(k, src).active_balance = 0
    if cpu_rq(k, src).nr_running <= 1 or not test(k, cpuset.ACTIVE, dst):
        return
    sd = cpu_rq(k, dst).sd if cpu_rq(k, dst).nr_domains > 0 else NO_DOMAIN
    while sd and not test(k, sd.span, src):
        sd = sd.parent
    if not sd:
        return
    env = LbEnv(k, k.scratch + 4)
    env.sd = sd
    env.dst_cpu = dst
    env.idle = idle_type.IDLE
    env.src_cpu = src
    env.flags = lbf.ACTIVE_LB
    env.migration = migration_type.BY_LOAD  # 0, as all fields that are not set here
    p = cpu_rq(k, src).cfs_tasks_tail
    while p:
        if can_migrate_task(k, p, env):
            detach_task(k, p, dst, log_op.ACTIVE)
            sd.nr_balance_failed = 0
            attach_task(k, p)
            return
        p = p.cfs_tasks_prev
