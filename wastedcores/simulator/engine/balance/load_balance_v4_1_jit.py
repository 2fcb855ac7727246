"""load_balance(): the choice of the CPU to pull from and of the tasks that move.

Source: kernel/sched/fair.c, v4.1; docs/scheduler-model.md, sections 5.4 to 5.6.
"""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.decisions_jit import (
    begin_decision,
    designate,
    log_decision,
    note_source,
)
from wastedcores.simulator.engine.balance.group_stats_jit import find_busiest_group
from wastedcores.simulator.engine.codes import cpu_event, idle_type, lb_result, lbf, log_op, sd_flag
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
from wastedcores.simulator.engine.fair.vruntime_jit import SCHED_IDLE
from wastedcores.simulator.engine.world import cpuset
from wastedcores.simulator.engine.world.cpusets_jit import (
    exclude,
    is_empty,
    item,
    start_from_active,
    test,
)
from wastedcores.simulator.engine.world.log_jit import log_balance, log_considered, log_migrate
from wastedcores.simulator.engine.world.rows_jit import cpu_cfs_rq, cpu_rq, fair_class
from wastedcores.simulator.engine.world.structs import (
    NO_GROUP,
    NO_TASK,
    Kernel,
    LbEnv,
    SchedDomain,
    SchedGroup,
    SdLbStats,
    TaskStruct,
)

MIGRATION_COST = 500_000  # sysctl_sched_migration_cost, ns
NR_MIGRATE = 32  # sysctl_sched_nr_migrate
MAX_PINNED_INTERVAL = 512  # ms


@apart(NOTHING)
def detach_task(k: Kernel, p: TaskStruct, dst: int, why: int) -> None:
    """detach_task(): take a task off its queue and assign it to ``dst``, as set_task_cpu() does."""
    src = p.cpu
    dequeue_task(k, p, False)
    if src != dst:  # if groups overlap, LBF_DST_PINNED can select the source itself
        log_migrate(k, p, src, dst, why)
        if k.is_modern != 0:
            fair_class(k).migrate_task_rq(k, p)
        migrate(k, p)
        p.se.exec_start = 0
    set_task_rq(k, p, dst)


@apart(NOTHING)
def attach_task(k: Kernel, p: TaskStruct) -> None:
    """attach_task(): enqueue a task on its new CPU and check for preemption."""
    enqueue_task(k, p, False, False)
    check_preempt(k, p.cpu, p, False)


@inner
def task_hot(k: Kernel, p: TaskStruct, env: LbEnv) -> bool:
    """task_hot(): return whether a task ran within half a millisecond of the last update of the source's clock.

    Before Linux 4.11 load_balance() did not update that clock. Whether a task is hot therefore changes only when the clock is
    updated again, at the latest at the next tick of the source.
    """
    if p.policy == SCHED_IDLE:
        return False
    q = p.se.cfs_rq
    if cpu_rq(k, env.dst_cpu).nr_running > 0 and (q.next == p.se or q.last == p.se):
        return True
    return cpu_rq(k, env.src_cpu).clock - p.se.exec_start < MIGRATION_COST


@apart(VALUE)
def can_migrate_task(k: Kernel, p: TaskStruct, env: LbEnv) -> bool:
    """can_migrate_task(): check affinity, and that the task neither runs nor is hot."""
    mask = p.cpus_allowed
    if not test(k, mask, env.dst_cpu):
        env.flags |= lbf.SOME_PINNED
        env.held_back[0] += 1
        if not env.dst_group or env.flags & lbf.DST_PINNED:
            return False
        group = env.dst_group
        first = group.cpus
        for i in range(first, first + group.group_weight):
            cpu = item(k, i)
            if test(k, cpuset.LB, cpu) and test(k, mask, cpu):
                env.flags |= lbf.DST_PINNED
                env.new_dst_cpu = cpu
                break
        return False
    env.flags &= ~lbf.ALL_PINNED
    if cpu_rq(k, env.src_cpu).curr == p:
        env.running += 1
        return False
    if not task_hot(k, p, env):
        return True
    sd = env.sd
    if sd.nr_balance_failed > sd.cache_nice_tries:
        return True
    env.hot += 1
    return False


@apart(VALUE)
def detach_tasks(k: Kernel, env: LbEnv) -> int:
    """detach_tasks(): take tasks off the busiest queue, the newest first, and list them in LbEnv.tasks; return their number."""
    src = env.src_cpu
    env.tasks = NO_TASK
    detached = 0
    if env.imbalance <= 0:
        return detached
    while cpu_rq(k, src).cfs_tasks:
        last = k.load_v4_4 != 0 and cpu_rq(k, src).nr_running <= 1
        if last and env.idle != idle_type.NOT_IDLE:
            break  # under v4.4 an idle CPU never takes the last task of a queue
        p = cpu_rq(k, src).cfs_tasks
        env.loop += 1
        if env.loop > env.loop_max:
            break
        if env.loop > env.loop_break:
            env.loop_break += NR_MIGRATE
            env.flags |= lbf.NEED_BREAK
            break
        if can_migrate_task(k, p, env):
            load = task_h_load(k, p)
            if load // 2 <= env.imbalance:
                detach_task(k, p, env.dst_cpu, env.why)
                p.cfs_tasks_next = env.tasks
                env.tasks = p
                detached += 1
                env.imbalance -= load
                if env.imbalance <= 0:
                    break
                continue
            env.heavy += 1
        list_move_tail(k, src, p)
    return detached


@inner
def attach_tasks(k: Kernel, env: LbEnv) -> None:
    """attach_tasks(): enqueue the detached tasks."""
    p = env.tasks
    while p:
        following = p.cfs_tasks_next
        attach_task(k, p)
        p = following


@inner
def should_we_balance(k: Kernel, env: LbEnv) -> bool:
    """should_we_balance(): the first idle CPU of the local group's balance mask balances or, if none is idle, the balance CPU.

    With the published group construction patch every CPU balances.
    """
    if env.idle == idle_type.NEWLY_IDLE or k.always_balance != 0:
        return True
    group = env.sd.groups
    first = group.balance_cpus
    for i in range(first, first + group.nr_balance_cpus):
        cpu = item(k, i)
        if test(k, cpuset.LB, cpu) and idle_cpu(k, cpu):
            designate(k, cpu)
            return cpu == env.dst_cpu
    designate(k, group.balance_cpu)
    return group.balance_cpu == env.dst_cpu


@apart(VALUE)
def find_busiest_queue(k: Kernel, env: LbEnv, group: SchedGroup) -> int:
    """find_busiest_queue(): return the CPU to pull from, or -1 if there is none."""
    busiest = -1
    busiest_load = 0
    busiest_cap = 1
    log_considered(k, env.dst_cpu, group.span, log_op.FIND_BUSIEST_QUEUE, env.sd.level)
    first = group.cpus
    for i in range(first, first + group.group_weight):
        cpu = item(k, i)
        if not test(k, cpuset.LB, cpu):
            continue
        load = weighted_cpuload(k, cpu)
        if (
            cpu_rq(k, cpu).nr_running == 1
            and load > env.imbalance
            and not low_capacity(k, cpu, env.sd)
        ):
            continue
        if load * busiest_cap > busiest_load * cpu_rq(k, cpu).cpu_capacity:
            busiest_load = load
            busiest_cap = cpu_rq(k, cpu).cpu_capacity
            busiest = cpu
    return busiest


@inner
def low_capacity(k: Kernel, cpu: int, sd: SchedDomain) -> bool:
    """check_cpu_capacity(): return whether other classes or interrupts noticeably reduce the CPU's capacity."""
    return cpu_rq(k, cpu).cpu_capacity * sd.imbalance_pct < cpu_rq(k, cpu).cpu_capacity_orig * 100


@apart(VALUE)
def need_active_balance(k: Kernel, env: LbEnv) -> bool:
    """need_active_balance(): return whether the running task has to be pushed."""
    sd = env.sd
    src = env.src_cpu
    dst = env.dst_cpu
    if env.idle == idle_type.NEWLY_IDLE and sd.flags & sd_flag.ASYM_PACKING and src > dst:
        return True
    if (
        env.idle != idle_type.NOT_IDLE
        and cpu_cfs_rq(k, src).h_nr_running == 1
        and low_capacity(k, src, sd)
        and cpu_rq(k, src).cpu_capacity * sd.imbalance_pct < cpu_rq(k, dst).cpu_capacity * 100
    ):
        return True
    return sd.nr_balance_failed > sd.cache_nice_tries + 2


@apart(VALUE)
def move_tasks(k: Kernel, env: LbEnv) -> int:
    """Move tasks in rounds; return how many moved, -1 if the search must go on without the source, -2 if no CPU is left."""
    src = env.src_cpu
    moved = 0
    env.flags |= lbf.ALL_PINNED
    env.loop_max = min(NR_MIGRATE, cpu_rq(k, src).nr_running)
    while True:
        now_moved = detach_tasks(k, env)
        if now_moved > 0:
            attach_tasks(k, env)
            moved += now_moved
        if env.flags & lbf.NEED_BREAK:
            env.flags &= ~lbf.NEED_BREAK
            continue
        if env.flags & lbf.DST_PINNED and env.imbalance > 0:
            exclude(k, cpuset.LB, env.dst_cpu)
            env.dst_cpu = env.new_dst_cpu
            env.flags &= ~lbf.DST_PINNED
            env.loop = 0
            env.loop_break = NR_MIGRATE
            continue
        break
    if env.flags & lbf.SOME_PINNED and env.imbalance > 0:
        mark_parent(k, env, 1)
    if env.flags & lbf.ALL_PINNED:
        exclude(k, cpuset.LB, src)
        if is_empty(k, cpuset.LB):
            return -2
        env.loop = 0
        env.loop_break = NR_MIGRATE
        return -1
    return moved


@apart(VALUE)
def start_active_balance(k: Kernel, env: LbEnv, this_cpu: int) -> int:
    """Start the stopper after a failed load_balance(); return 1 if it was started, 0 if it is busy, -1 if the task is pinned."""
    src = env.src_cpu
    curr = cpu_rq(k, src).curr
    # the idle task may run on its own CPU only
    if not curr or not test(k, curr.cpus_allowed, this_cpu):
        return -1
    started = 0
    if cpu_rq(k, src).active_balance == 0:
        cpu_rq(k, src).active_balance = 1
        cpu_rq(k, src).push_cpu = this_cpu
        started = 1
        queue_jit.push(k, event_of(cpu_event.STOP, src), k.now_ns + k.ipi_ns)
        log_balance(k, this_cpu, src, log_op.ACTIVE, 0)
    env.sd.nr_balance_failed = env.sd.cache_nice_tries + 1
    return started


@inner
def count(k: Kernel, env: LbEnv, result: int) -> None:
    """Count this load_balance() call under its idle type and result; log it if decisions are logged."""
    env.sd.lb_count[7 * env.idle + result] += 1
    if k.decisions != 0:
        log_decision(k, env, result)


@inner
def mark_parent(k: Kernel, env: LbEnv, imbalance: int) -> None:
    """Set sgc->imbalance of the group above this domain."""
    parent = env.sd.parent
    if parent:
        parent.groups.sgc.imbalance = imbalance


@inner
def tune_up(k: Kernel, env: LbEnv, sd: SchedDomain, failed: int) -> None:
    """The labels after out_balanced: nothing could be moved at this level, so balance it less often."""
    if failed:
        sd.nr_balance_failed = 0
    if (
        env.flags & lbf.ALL_PINNED and sd.balance_interval < MAX_PINNED_INTERVAL
    ) or sd.balance_interval < sd.max_interval:
        sd.balance_interval *= 2


@inner
def out_balanced(k: Kernel, env: LbEnv, sd: SchedDomain, result: int) -> None:
    """The label out_balanced: clear the parent group's imbalance flag."""
    mark_parent(k, env, 0)
    count(k, env, result)
    tune_up(k, env, sd, True)


@apart(VALUE)
def load_balance(k: Kernel, this_cpu: int, sd: SchedDomain, idle: int, why: int) -> int:
    """load_balance(): return how many tasks moved, or -1 if another CPU has to balance (``continue_balancing = 0``)."""
    st = k.scratch
    out = SdLbStats(k, st + 3)
    env = LbEnv(k, st + 4)
    env.sd = sd
    env.dst_cpu = env.this_cpu = this_cpu
    env.moved = 0
    env.idle = idle
    env.flags = 0
    env.loop = 0
    env.loop_break = NR_MIGRATE
    env.why = why
    env.dst_group = NO_GROUP if idle == idle_type.NEWLY_IDLE else sd.groups
    start_from_active(k)
    if k.decisions != 0:
        begin_decision(k, env)
    while True:
        if not should_we_balance(k, env):
            out_balanced(k, env, sd, lb_result.NOT_DESIGNATED)
            return -1
        if not find_busiest_group(k, sd, env.dst_cpu, idle, st, out):
            out_balanced(k, env, sd, lb_result.BALANCED)
            return 0
        env.imbalance = out.imbalance
        src = find_busiest_queue(k, env, out.busiest)
        if src >= 0:
            env.src_cpu = src
        note_source(k, env, src)
        if src < 0:
            out_balanced(k, env, sd, lb_result.NO_QUEUE)
            return 0
        moved = 0
        if cpu_rq(k, src).nr_running > 1:
            moved = move_tasks(k, env)
            if moved == -1:
                continue
            if moved == -2:
                count(k, env, lb_result.PINNED)
                tune_up(k, env, sd, True)
                return 0
        break
    started = 0
    if moved == 0:
        if idle != idle_type.NEWLY_IDLE:
            sd.nr_balance_failed += 1
        if need_active_balance(k, env):
            started = start_active_balance(k, env, this_cpu)
            if started < 0:
                env.flags |= lbf.ALL_PINNED
                count(k, env, lb_result.PINNED)
                tune_up(k, env, sd, False)
                return 0
        count(k, env, lb_result.ACTIVE if started > 0 else lb_result.FAILED)
    else:
        sd.nr_balance_failed = 0
        env.moved = moved
        count(k, env, lb_result.MOVED)
        log_balance(k, this_cpu, env.src_cpu, why, moved)
    if started == 0:
        sd.balance_interval = sd.min_interval
    elif sd.balance_interval < sd.max_interval:
        sd.balance_interval *= 2
    return moved


@apart(NOTHING)
def active_balance_step(k: Kernel, src: int) -> None:
    """active_load_balance_cpu_stop(), without what concerns the stopper thread itself."""
    dst = cpu_rq(k, src).push_cpu
    cpu_rq(k, src).active_balance = 0
    if cpu_rq(k, src).nr_running <= 1:
        return
    sd = cpu_rq(k, dst).sd
    for _ in range(cpu_rq(k, dst).nr_domains):
        if test(k, sd.span, src):
            break
        sd = sd.parent
    if not sd:
        return
    env = LbEnv(k, k.scratch + 4)
    env.sd = sd
    env.dst_cpu = dst
    env.idle = idle_type.IDLE
    env.src_cpu = src
    env.flags = 0
    env.dst_group = NO_GROUP
    p = cpu_rq(k, src).cfs_tasks
    while p:
        if can_migrate_task(k, p, env):
            detach_task(k, p, dst, log_op.ACTIVE)
            attach_task(k, p)
            return
        p = p.cfs_tasks_next
