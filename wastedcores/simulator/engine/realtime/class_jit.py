"""Real-time tasks: placement, push and pull, the next task, changes of the policy (kernel/sched/rt.c, cpupri.c, core.c, v4.1)."""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import log_op, sd_flag
from wastedcores.simulator.engine.fair.cfs_jit import put_prev_task, resched, set_next_task
from wastedcores.simulator.engine.fair.entity_jit import dequeue_task, enqueue_task, set_task_rq
from wastedcores.simulator.engine.fair.vruntime_jit import set_load_weight
from wastedcores.simulator.engine.realtime.queue_jit import (
    count_tasks,
    dequeue_rt,
    enqueue_rt,
    first_pushable,
    highest,
    priority_of,
    put_prev,
    requeue,
    rt_of,
    shared,
    update_curr,
)
from wastedcores.simulator.engine.world import cpuset
from wastedcores.simulator.engine.world.cpusets_jit import test
from wastedcores.simulator.engine.world.log_jit import log_migrate
from wastedcores.simulator.engine.world.rows_jit import cpu_cfs_rq, cpu_rq
from wastedcores.simulator.engine.world.structs import NO_TASK, Kernel, TaskStruct


@inner
def may_run(k: Kernel, p: TaskStruct, cpu: int) -> int:
    """Return whether ``cpu`` is active and ``p`` may run on it."""
    return test(k, p.cpus_allowed, cpu) and test(k, cpuset.ACTIVE, cpu)


@apart(VALUE)
def lowest_priority(k: Kernel, p: TaskStruct) -> int:
    """cpupri_find(): return the lowest priority of the CPUs where ``p`` may run, or -1 if it is not below the priority of ``p``.

    CPUs that run fair tasks and idle CPUs have the same priority.
    """
    out = p.rt_priority
    for cpu in range(k.nr_cpus):
        if may_run(k, p, cpu):
            out = min(out, highest(k, cpu))
    return out if out < p.rt_priority else -1


@apart(VALUE)
def any_at(k: Kernel, p: TaskStruct, priority: int, mask: int) -> int:
    """Return a CPU of the mask (0: of all CPUs) that has this priority and where ``p`` may run, or -1.

    cpumask_any_and_distribute() (lib/cpumask.c, 6.1.192) continues after the CPU that the executing CPU chose last; before v5.11
    the first CPU was taken.
    """
    rq = cpu_cfs_rq(k, k.this_cpu).rq_modern
    begin = rq.distribute_prev + 1 if k.is_modern != 0 else 0
    for i in range(k.nr_cpus):
        cpu = (begin + i) % k.nr_cpus
        if may_run(k, p, cpu) and highest(k, cpu) == priority and (mask == 0 or test(k, mask, cpu)):
            rq.distribute_prev = cpu
            return cpu
    return -1


@apart(VALUE)
def find_lowest_rq(k: Kernel, p: TaskStruct) -> int:
    """find_lowest_rq(): return the CPU to which a task should go: its own or a CPU near to it, or -1 for none."""
    least = lowest_priority(k, p)
    if p.nr_cpus_allowed == 1 or least < 0:
        return -1
    own = p.cpu
    if may_run(k, p, own) and highest(k, own) == least:
        return own
    this = k.this_cpu
    here = may_run(k, p, this) and highest(k, this) == least
    sd = cpu_rq(k, own).sd
    for _ in range(cpu_rq(k, own).nr_domains):
        if sd.flags & sd_flag.WAKE_AFFINE:
            if here and test(k, sd.span, this):
                return this
            near = any_at(k, p, least, sd.span)
            if near >= 0:
                return near
        sd = sd.parent
    return this if here else any_at(k, p, least, 0)


@inner
def as_urgent(k: Kernel, cpu: int, p: TaskStruct) -> bool:
    """Return whether a CPU runs a real-time task that ``p`` should avoid: a pinned task, or one that is at least as urgent."""
    curr = cpu_rq(k, cpu).curr
    return priority_of(k, cpu) != 0 and (
        curr.nr_cpus_allowed < 2 or curr.rt_priority >= p.rt_priority
    )


@apart(VALUE)
def select_task_rq(k: Kernel, p: TaskStruct, flag: int) -> int:
    """select_task_rq_rt(): return the CPU for a woken or new task: its own if that CPU runs no task that ``p`` should avoid."""
    cpu = p.cpu
    if flag != sd_flag.BALANCE_EXEC and as_urgent(k, cpu, p):
        target = find_lowest_rq(k, p)
        if target >= 0:
            return target
    return cpu


@inner
def move(k: Kernel, p: TaskStruct, dst: int, why: int) -> None:
    """Take a task to another CPU, as push_rt_task() and pull_rt_task() do."""
    src = p.cpu
    dequeue_rt(k, p)
    log_migrate(k, p, src, dst, why)
    set_task_rq(k, p, dst)
    enqueue_rt(k, p, 0)


@apart(VALUE)
def push_rt_task(k: Kernel, cpu: int) -> bool:
    """push_rt_task(): move the most urgent waiting task to a CPU that runs a less urgent one; return whether it moved."""
    p = first_pushable(k, cpu, -1)
    if not p or rt_of(k, cpu).nr_running < 2:
        return False
    if p.rt_priority > priority_of(k, cpu):
        resched(k, cpu)
        return False
    dst = find_lowest_rq(k, p)
    if dst < 0 or dst == cpu:
        return False
    move(k, p, dst, log_op.PUSH)
    resched(k, dst)
    return True


@apart(NOTHING)
def push_rt_tasks(k: Kernel, cpu: int) -> None:
    """push_rt_tasks(): push until nothing moves any more."""
    while push_rt_task(k, cpu) != 0:
        pass


@apart(VALUE)
def pull_rt_task(k: Kernel, this: int) -> int:
    """pull_rt_task(): take waiting tasks that are more urgent than the tasks of this CPU; return whether any moved.

    The CPU pulls by itself. It does not ask other CPUs to push (RT_PUSH_IPI).
    """
    pulled = False
    for src in range(k.nr_cpus):
        if src == this or not test(k, cpuset.ACTIVE, src) or rt_of(k, src).nr_running < 2:
            continue
        p = first_pushable(k, src, -1)
        if not p or p.rt_priority <= highest(k, this):
            continue
        p = first_pushable(k, src, this)
        if not p or p.rt_priority <= highest(k, this):
            continue
        if p.rt_priority > priority_of(k, src):
            continue
        move(k, p, this, log_op.PULL)
        pulled = True
    return pulled


@apart(NOTHING)
def check_preempt_curr(k: Kernel, cpu: int, p: TaskStruct) -> None:
    """check_preempt_curr(), check_preempt_curr_rt(), check_preempt_equal_prio(), if ``p`` or the running task is real-time."""
    curr = cpu_rq(k, cpu).curr
    if p.rt_priority > curr.rt_priority:
        resched(k, cpu)
        return
    if p.rt_priority < curr.rt_priority or cpu_rq(k, cpu).need_resched != 0:
        return
    # a task that may run only here preempts an equally urgent task that may run elsewhere
    if curr.nr_cpus_allowed == 1 or lowest_priority(k, curr) < 0:
        return
    if p.nr_cpus_allowed > 1 and lowest_priority(k, p) >= 0:
        return
    requeue(k, cpu, p, 1)
    resched(k, cpu)


@apart(NOTHING)
def task_woken(k: Kernel, cpu: int, p: TaskStruct) -> None:
    """task_woken_rt(): push a woken task away if it will not run here soon."""
    if (
        cpu_rq(k, cpu).curr != p
        and cpu_rq(k, cpu).need_resched == 0
        and p.nr_cpus_allowed > 1
        and as_urgent(k, cpu, p)
    ):
        push_rt_tasks(k, cpu)


@apart(VALUE)
def pick_next_task(k: Kernel, cpu: int, prev: TaskStruct, before: int) -> TaskStruct:
    """pick_next_task_rt(): return the next real-time task or NULL. If the CPU becomes less urgent, try to pull a task first.

    ``before`` is the priority of the task that ran. ``prev`` is NULL after the idle task and after the stopper.
    """
    if before > highest(k, cpu):
        pull_rt_task(k, cpu)
    update_curr(k, cpu)
    rt = rt_of(k, cpu)
    if rt.counted == 0:
        return NO_TASK
    if prev:
        if prev.rt_priority != 0:
            put_prev(k, cpu, prev)
        else:
            put_prev_task(k, prev)
    p = rt.head
    p.se.exec_start = k.now_ns
    p.pushable = 0
    rt.push_later = 1 if first_pushable(k, cpu, -1) else 0
    return p


@apart(NOTHING)
def post_schedule(k: Kernel, cpu: int) -> None:
    """post_schedule_rt(): push the tasks that wait because another task was just chosen."""
    rt = rt_of(k, cpu)
    if rt.push_later != 0:
        rt.push_later = 0
        push_rt_tasks(k, cpu)


@apart(NOTHING)
def set_policy(k: Kernel, p: TaskStruct, policy: int, priority: int) -> None:
    """__sched_setscheduler() of the running task, and check_class_changed().

    Changes within the fair class also take the task off its queue, as the kernel does since v4.2.
    """
    before = p.rt_priority
    if p.policy == policy and before == priority:
        return
    cpu = p.cpu
    if before != 0:
        dequeue_rt(k, p)
    else:
        dequeue_task(k, p, False)
        put_prev_task(k, p)
    p.policy = policy
    p.rt_priority = priority
    set_load_weight(k, p)
    if priority != 0:
        p.se.exec_start = k.now_ns
        # the task goes to the tail only if its priority rises
        enqueue_rt(k, p, 1 if before >= priority else 0)
        if before > priority:
            pull_rt_task(k, cpu)
        if before != 0 and priority < highest(k, cpu):
            resched(k, cpu)
        return
    set_next_task(k, p)
    enqueue_task(k, p, False, False)
    if before != 0:
        if rt_of(k, cpu).nr_running == 0:
            pull_rt_task(k, cpu)
        resched(k, cpu)


@apart(VALUE)
def rq_offline(k: Kernel, cpu: int) -> TaskStruct:
    """rq_offline_rt(), __disable_runtime(): end the throttling of a CPU that goes offline; return its most urgent task."""
    rt = rt_of(k, cpu)
    rt.time = 0
    rt.throttled = 0
    count_tasks(k, cpu)
    return rt.head


@apart(NOTHING)
def yield_task(k: Kernel, cpu: int, p: TaskStruct) -> None:
    """yield_task_rt(): put the task behind the other tasks of its priority."""
    requeue(k, cpu, p, 0)


@apart(NOTHING)
def task_born(k: Kernel, p: TaskStruct) -> None:
    """Give a new task its quantum."""
    p.time_slice = shared(k).time_slice
