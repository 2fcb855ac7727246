"""Placement of tasks: wakeup, fork, fallback CPU (kernel/sched/core.c, v4.1; docs/replay-semantics.md, section 3).

The lists of the tasks that wait for a barrier, lock or semaphore are in order of arrival.
"""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.select_task_rq_v4_1_jit import (
    record_wakee,
    select_task_rq_fair,
)
from wastedcores.simulator.engine.codes import (
    arrival,
    cpu_event,
    log_kind,
    log_op,
    sd_flag,
    status,
    task_state,
)
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import event_of
from wastedcores.simulator.engine.fair.cfs_jit import check_preempt
from wastedcores.simulator.engine.fair.entity_jit import enqueue, is_rt, set_task_rq
from wastedcores.simulator.engine.fair.pelt_jit import synchronize_decay
from wastedcores.simulator.engine.fair.pelt_v4_4_jit import is_detached, migrate
from wastedcores.simulator.engine.fair.vruntime_jit import (
    init_task_runnable_average,
    task_fork_fair,
)
from wastedcores.simulator.engine.world import cpuset
from wastedcores.simulator.engine.world.cpusets_jit import test
from wastedcores.simulator.engine.world.log_jit import log_affinity, log_migrate, pid_of, record
from wastedcores.simulator.engine.world.rows_jit import (
    balancer,
    core_module,
    cpu_cfs_rq,
    cpu_rq,
    fair_class,
    modern,
    rt_class,
)
from wastedcores.simulator.engine.world.structs import NO_TASK, Kernel, TaskStruct, WaitObject


@inner
def append(k: Kernel, y: WaitObject, p: TaskStruct) -> None:
    """Append ``p`` to the list of wait object ``y``."""
    p.wait_next = NO_TASK
    if not y.head:
        y.head = p
    else:
        y.tail.wait_next = p
    y.tail = p


@inner
def unlink(k: Kernel, y: WaitObject, p: TaskStruct, before: TaskStruct) -> None:
    """Remove ``p``, whose predecessor is ``before`` (NULL for none), from the list."""
    if not before:
        y.head = p.wait_next
    else:
        before.wait_next = p.wait_next
    if y.tail == p:
        y.tail = before


@inner
def leave(k: Kernel, y: WaitObject, p: TaskStruct) -> None:
    """Remove ``p`` from the list, wherever in the list it is."""
    before = NO_TASK
    other = y.head
    while other != p:
        before = other
        other = other.wait_next
    unlink(k, y, p, before)


@apart(VALUE)
def fallback_cpu(k: Kernel, p: TaskStruct, cpu: int) -> int:
    """select_fallback_rq(): return an allowed active CPU, if possible of the same node. If none exists, the replay ends."""
    node = cpu_rq(k, cpu).node
    first = -1
    for c in range(k.nr_cpus):
        if test(k, cpuset.ACTIVE, c) and test(k, p.cpus_allowed, c):
            if cpu_rq(k, c).node == node:
                return c
            if first < 0:
                first = c
    if first < 0:
        k.status = status.NO_CPU
        k.culprit = p.row
        return cpu
    return first


@apart(VALUE)
def any_allowed_cpu(k: Kernel, p: TaskStruct) -> int:
    """Return the CPU to which set_cpus_allowed_ptr() sends a task, or -1 if none of its CPUs is active.

    cpumask_any_and_distribute() (lib/cpumask.c, 6.1.192) continues after the CPU that the executing CPU chose last; before v5.7,
    cpumask_any_and() took the first CPU.
    """
    rq = cpu_cfs_rq(k, k.this_cpu).rq_modern
    begin = rq.distribute_prev + 1 if k.is_modern != 0 else 0
    for i in range(k.nr_cpus):
        cpu = (begin + i) % k.nr_cpus
        if test(k, cpuset.ACTIVE, cpu) and test(k, p.cpus_allowed, cpu):
            rq.distribute_prev = cpu
            return cpu
    return -1


@apart(VALUE)
def select_task_rq(k: Kernel, p: TaskStruct, flag: int, sync: int) -> int:
    """select_task_rq(): return the CPU that a woken, new or exec'ing task goes to."""
    cpu = p.cpu
    if p.nr_cpus_allowed > 1 and k.design.decides != 0:
        cpu = core_module(k).select_cpu(k, p, flag, sync)
    elif p.nr_cpus_allowed > 1 and is_rt(k, p):
        cpu = rt_class(k).select_task_rq(k, p, flag)
    elif p.nr_cpus_allowed > 1 and k.is_modern != 0:
        cpu = balancer(k).select_task_rq(k, p, flag, sync)
    elif p.nr_cpus_allowed > 1:
        cpu = select_task_rq_fair(k, p, cpu, flag, k.this_cpu, sync)
    if not test(k, p.cpus_allowed, cpu) or not test(k, cpuset.ACTIVE, cpu):
        cpu = fallback_cpu(k, p, p.cpu)
    return cpu


@apart(NOTHING)
def activate_woken(k: Kernel, p: TaskStruct, cpu: int) -> None:
    """ttwu_do_activate(), ttwu_do_wakeup(): enqueue a woken task and check for preemption."""
    p.state = task_state.READY
    enqueue(k, p, True, True)
    check_preempt(k, cpu, p, False)
    here = k.this_cpu
    record(k, log_kind.WAKEUP, cpu, pid_of(k, p), pid_of(k, cpu_rq(k, here).curr), here, -1, -1)
    if is_rt(k, p):
        rt_class(k).task_woken(k, cpu, p)
    if k.is_modern != 0:
        if modern(k).idle_time_at_exit == 0:
            balancer(k).idle_cpu_woken(k, cpu)
    elif cpu_rq(k, cpu).idle_stamp != 0:
        delta = k.now_ns - cpu_rq(k, cpu).idle_stamp
        # update_avg(): as in C, the shift of a negative number is arithmetic
        cpu_rq(k, cpu).avg_idle += (delta - cpu_rq(k, cpu).avg_idle) >> 3
        most = 2 * cpu_rq(k, cpu).max_idle_balance_cost
        cpu_rq(k, cpu).avg_idle = min(cpu_rq(k, cpu).avg_idle, most)
        cpu_rq(k, cpu).idle_stamp = 0


@apart(NOTHING)
def try_to_wake_up(k: Kernel, p: TaskStruct, sync: int) -> None:
    """try_to_wake_up() in the context of CPU k.this_cpu."""
    choose_cpu(k, p, sync)
    queue_woken(k, p)


@apart(NOTHING)
def choose_cpu(k: Kernel, p: TaskStruct, sync: int) -> None:
    """Do the first part of try_to_wake_up(): choose the CPU."""
    here = k.this_cpu
    k.computing += 1
    if p.se.sched_delayed != 0:
        p.state = task_state.WAKING  # the task is still queued, and stays on its CPU
        return
    if p.se.on_rq != 0 or p.on_rt != 0:
        # ttwu_remote(): the task has just blocked, and its CPU, which balances for others, has not scheduled since then
        p.state = task_state.READY
        cpu_rq(k, p.cpu).need_resched = 1
        return
    old = p.cpu
    fair = k.is_modern == 0 and not is_rt(k, p)
    if fair:  # task_waking_fair()
        p.se.vruntime -= p.se.cfs_rq.min_vruntime
        record_wakee(k, cpu_rq(k, here).curr, p)
    p.state = task_state.WAKING
    cpu = select_task_rq(k, p, sd_flag.BALANCE_WAKE, sync)
    if cpu != old:
        log_migrate(k, p, old, cpu, log_op.WAKEUP)
        # migrate_task_rq_fair(): the blocked load stays with the old queue, which will subtract it
        if fair and p.se.decay_count != 0:
            decays = synchronize_decay(k, p.se)
            p.se.decay_count = -decays
            p.se.cfs_rq.removed_load += p.se.load_avg_contrib
        if k.is_modern != 0:
            fair_class(k).migrate_task_rq(k, p)
        migrate(k, p)
        p.se.exec_start = 0
        set_task_rq(k, p, cpu)


@inner
def end_of_call_ns(k: Kernel, p: TaskStruct) -> int:
    """Return how long a task computes at the end of a system call: 0 for kernel threads, which make no system calls."""
    return 0 if p.kthread != 0 else modern(k).syscall_ns


@apart(NOTHING)
def queue_woken(k: Kernel, p: TaskStruct) -> None:
    """ttwu_queue(): enqueue the task, or put it on the wake list of its CPU.

    The wake list is used if the CPU shares no cache with this CPU, and in v6.12.107 also if it is idle (ttwu_queue_cond()).
    """
    here = k.this_cpu
    cpu = p.cpu
    if p.state != task_state.WAKING:
        record(k, log_kind.WAKEUP, cpu, pid_of(k, p), pid_of(k, cpu_rq(k, here).curr), here, -1, -1)
        return
    p.left = end_of_call_ns(k, p)
    if p.se.sched_delayed != 0:
        fair_class(k).wake_delayed(k, p)
        p.state = task_state.READY
        record(k, log_kind.WAKEUP, cpu, pid_of(k, p), pid_of(k, cpu_rq(k, here).curr), here, -1, -1)
        return
    if not test(k, cpuset.ACTIVE, cpu):
        # the CPU went offline in the meantime
        up = fallback_cpu(k, p, cpu)
        log_migrate(k, p, cpu, up, log_op.WAKEUP)
        if k.is_modern != 0:
            fair_class(k).migrate_task_rq(k, p)
        if k.load_v4_4 != 0 and not is_detached(k, p.se):
            migrate(k, p)
            p.se.exec_start = 0
        set_task_rq(k, p, up)
        cpu = up
    idle = k.is_modern != 0 and cpu != here and cpu_rq(k, cpu).nr_running == 0
    if k.design.decides != 0 or (
        cpu_rq(k, cpu).sd_llc_id == cpu_rq(k, here).sd_llc_id and not idle
    ):
        # under a design a task is on its runqueue at once, as in a Linux without TTWU_QUEUE
        activate_woken(k, p, cpu)
        return
    last = cpu_rq(k, cpu).wake_list
    if not last:
        queue_jit.push(k, event_of(cpu_event.TTWU, cpu), k.now_ns + k.ipi_ns)
    if not last or k.is_modern == 0:
        p.wait_next = last
        cpu_rq(k, cpu).wake_list = p
        return
    while last.wait_next:
        last = last.wait_next
    last.wait_next = p
    p.wait_next = NO_TASK


@apart(NOTHING)
def ttwu_pending(k: Kernel, cpu: int) -> None:
    """sched_ttwu_pending(): enqueue the tasks of the wake list: the last arrival first, in v6.12.107 the first arrival first."""
    p = cpu_rq(k, cpu).wake_list
    cpu_rq(k, cpu).wake_list = NO_TASK
    while p:
        following = p.wait_next
        activate_woken(k, p, cpu)
        p = following


@apart(NOTHING)
def fork_task(k: Kernel, p: TaskStruct, cpu: int, parent: TaskStruct) -> None:
    """task_fork_fair() on ``cpu``, then wake_up_new_task(). ``parent`` is NULL for a top-level task."""
    k.computing += 1
    set_task_rq(k, p, cpu)
    if k.is_modern != 0:
        fair_class(k).task_fork(k, p)
    elif not is_rt(k, p):
        task_fork_fair(k, p, cpu)
    pid = pid_of(k, p)
    by = pid_of(k, parent)
    record(k, log_kind.FORK, cpu, pid, by, -1, -1, -1)
    if not parent:
        own = p.nr_cpus_allowed < k.nr_cpus
    else:
        own = p.cpus_allowed != parent.cpus_allowed
    if own:
        log_affinity(k, p, cpu)
    dst = select_task_rq(k, p, sd_flag.BALANCE_FORK, False)
    if dst != cpu:
        log_migrate(k, p, cpu, dst, log_op.FORK)
        migrate(k, p)
        set_task_rq(k, p, dst)
    if k.is_modern != 0:
        fair_class(k).post_init_entity_util_avg(k, p)
    else:
        init_task_runnable_average(k, p)
    p.home = cpu_rq(k, dst).node
    p.state = task_state.READY
    if k.is_modern != 0:
        fair_class(k).enqueue_task(k, p, arrival.NEW)
    else:
        enqueue(k, p, False, False)
    record(k, log_kind.WAKEUP_NEW, dst, pid, by, cpu, -1, -1)
    check_preempt(k, dst, p, True)
    if is_rt(k, p):
        rt_class(k).task_woken(k, dst, p)
