"""Task programs: the next operation of a running task, birth and death (docs/replay-semantics.md, sections 2 to 4)."""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import (
    log_kind,
    log_op,
    sd_flag,
    status,
    task_state,
    waits_for,
)
from wastedcores.simulator.engine.core.schedule_jit import move_group, move_task
from wastedcores.simulator.engine.core.stretch_jit import start_stretch
from wastedcores.simulator.engine.core.wakeup_jit import (
    any_allowed_cpu,
    end_of_call_ns,
    fork_task,
    select_task_rq,
    try_to_wake_up,
)
from wastedcores.simulator.engine.fair.cfs_jit import resched
from wastedcores.simulator.engine.fair.entity_jit import (
    clear_buddies,
    dequeue_task,
    enqueue_task,
    is_rt,
    set_buddy,
)
from wastedcores.simulator.engine.fair.vruntime_jit import SCHED_BATCH, set_load_weight, update_curr
from wastedcores.simulator.engine.tasks.sync_jit import (
    GRANTED,
    barrier,
    begin_wait,
    begin_wake,
    block,
    end_wake,
    lock,
    page_counter_op,
    post,
    round_jiffies,
    set_contended,
    signal_op,
    sleep,
    sleep_jiffies,
    unlock,
)
from wastedcores.simulator.engine.world import table
from wastedcores.simulator.engine.world.cpusets_jit import equal, test
from wastedcores.simulator.engine.world.log_jit import log_affinity, pid_of, record
from wastedcores.simulator.engine.world.random_jit import draw_exponential, draw_uniform, stream
from wastedcores.simulator.engine.world.rows_jit import cpu_rq, fair_class, rt_class
from wastedcores.simulator.engine.world.structs import (
    NO_QUEUE,
    NO_TASK,
    CfsRq,
    Kernel,
    Op,
    TaskStruct,
    WaitObject,
)
from wastedcores.workload import ops


@inner
def set_nice(k: Kernel, p: TaskStruct, nice: int) -> None:
    """set_load_weight(): set the nice level and the weight of a task."""
    p.nice = nice
    set_load_weight(k, p)


@apart(VALUE)
def new_task(k: Kernel, template: int, parent: TaskStruct, group: int) -> TaskStruct:
    """Fill the next free task row from a template and return it. ``parent`` is NULL for a top-level task."""
    number = k.nr_tasks
    k.nr_tasks = number + 1
    p = TaskStruct(k, k.task0 + number)
    t = TaskStruct(k, k.template0 + template)
    for i in range(table.WIDTH):
        p[i] = 0
    p.number = number
    p.template = template
    p.pc = t.pc
    p.daemon = t.daemon
    p.kthread = t.kthread
    p.se.my_q = NO_QUEUE
    p.state = task_state.NEW
    p.parent = parent
    p.last_wakee = NO_TASK
    p.wake_q_head = NO_TASK
    p.exited = -1
    p.started = -1
    p.cpus_allowed = t.cpus_allowed
    p.nr_cpus_allowed = t.nr_cpus_allowed
    nice = t.nice
    tg = group
    if parent:
        if t.cpus_allowed < 0:
            p.cpus_allowed = parent.cpus_allowed
            p.nr_cpus_allowed = parent.nr_cpus_allowed
        if nice < -20:
            nice = parent.nice
        if group < 0:
            tg = parent.group
        parent.children += 1
        p.policy = parent.policy
        p.rt_priority = parent.rt_priority
    if k.rt0 != 0:
        rt_class(k).task_born(k, p)
    p.group = tg
    set_nice(k, p, nice)
    p.random.state = stream(k.seed, number)
    if p.daemon == 0:
        k.live_tasks += 1
    return p


@apart(NOTHING)
def exit_task(k: Kernel, p: TaskStruct) -> None:
    """do_exit(): end a task, and wake its parent if the parent waits for it."""
    cpu = k.this_cpu
    record(k, log_kind.EXIT, cpu, pid_of(k, p), -1, -1, -1, -1)
    p.exited = k.now_ns
    if p.daemon == 0:
        k.live_tasks -= 1
    if p.group > 0:
        move_group(k, p, 0)
    cpu_rq(k, cpu).keep_tick_until = k.jiffies + k.idle_ticks
    parent = p.parent
    if parent and parent.state != task_state.DEAD:
        parent.children -= 1
        if parent.state == task_state.SLEEPING and parent.waits_for == waits_for.CHILDREN:
            # fair.c: select_task_rq_fair(), since v5.1 (24d0c1d6e65f): the wakeup by a task that exits is not synchronous
            try_to_wake_up(k, parent, k.is_modern == 0)
    p.state = task_state.DEAD
    k.computing -= 1


@apart(NOTHING)
def fork(k: Kernel, p: TaskStruct, template: int, group: int, thread: int) -> None:
    """The operation FORK: make a child from a template. If the child is a process, the fork leaves work for RCU."""
    child = new_task(k, template, p, group)
    cpu = k.this_cpu
    if thread == 0:
        cpu_rq(k, cpu).keep_tick_until = k.jiffies + k.idle_ticks
    fork_task(k, child, cpu, p)


MAX_STEPS = 100_000


@inner
def loop_back(k: Kernel, p: TaskStruct, op: Op) -> int:
    """Count a round at the bottom of a loop; return whether there is another round."""
    slot = op.arg2
    p.slot[slot] += 1
    p.units[slot] += 1
    count = op.arg3
    again = count < 0 or p.slot[slot] < count
    last = op.arg4
    if op.code == ops.OP_LOOP_BARRIER:
        if WaitObject(k, k.wait0 + last).stopped != 0:
            again = False
    elif last >= 0 and k.now_ns >= p.started + last:
        again = False
    if not again:
        p.slot[slot] = 0
    return again


@inner
def timed_op(k: Kernel, p: TaskStruct, code: int, a: int, b: int, c: int) -> bool:
    """Do an operation that computes or sleeps; return whether the program continues at once."""
    if code == ops.OP_COMPUTE:
        p.left = draw_uniform(k, p, a, b)
        return p.left <= 0
    if code == ops.OP_COMPUTE_EXP:
        p.left = draw_exponential(k, p, a, b, c)
        return p.left <= 0
    if code == ops.OP_SLEEP:
        sleep(k, p, draw_uniform(k, p, a, b))
    else:
        sleep(k, p, draw_exponential(k, p, a, b, c))
    return False


@apart(VALUE)
def wait_op(k: Kernel, p: TaskStruct, code: int, op: Op) -> int:
    """Do an operation by which tasks wait for each other; return whether the program continues at once."""
    y = WaitObject(k, k.wait0 + op.arg1)
    if code == ops.OP_BARRIER:
        return barrier(k, p, y, op.arg2, op.arg3, op.arg4)
    if code == ops.OP_LOCK:
        done = lock(k, p, y, op.arg2, op.arg3, op.arg4)
        if not done and p.spin == 0:
            p.pc = Op(k, p.pc.row - 1)  # when the sleeper is woken, it tries again
        return done
    if code == ops.OP_UNLOCK:
        unlock(k, p, y, op.arg4)
        return True
    if code == ops.OP_POST:
        post(k, p, y, op.arg2)
        return True
    if y.count > 0:
        y.count -= 1
        return True
    begin_wait(k, p, waits_for.SEM, y, op.arg2, op.arg3)
    return False


@apart(VALUE)
def placement_op(k: Kernel, p: TaskStruct, code: int, a: int, b: int) -> bool:
    """Do AFFINITY, SESSION, NICE, POLICY, EXEC or YIELD; return whether the program continues at once."""
    cpu = k.this_cpu
    if code == ops.OP_AFFINITY:
        same = equal(k, a, p.cpus_allowed)
        p.cpus_allowed = a
        total = 0
        for c in range(k.nr_cpus):
            if test(k, a, c):
                total += 1
        p.nr_cpus_allowed = total
        log_affinity(k, p, cpu)
        if same:
            return True
        dst = any_allowed_cpu(k, p)
        if dst < 0:
            k.status = status.NO_CPU
            k.culprit = p.row
            return False
        if test(k, a, cpu):
            return True
        move_task(k, p, dst, log_op.AFFINITY)
        return False
    if code == ops.OP_EXEC:
        dst = select_task_rq(k, p, sd_flag.BALANCE_EXEC, False)
        if dst == cpu:
            return True
        move_task(k, p, dst, log_op.EXEC)
        return False
    if code == ops.OP_SESSION:
        if a != p.group:
            move_group(k, p, a)
        return True
    if code == ops.OP_POLICY:
        rt_class(k).set_policy(k, p, a, b)
        return True
    if code == ops.OP_NICE and is_rt(k, p):
        p.nice = a
        return True
    if code == ops.OP_NICE:
        if k.is_modern != 0:
            fair_class(k).set_user_nice(k, p, a)
            return True
        change = a - p.nice
        dequeue_task(k, p, False)
        set_nice(k, p, a)
        enqueue_task(k, p, False, False)
        if change != 0:
            resched(k, cpu)
        return True
    if k.is_modern != 0:
        fair_class(k).yield_task(k, p)
    elif is_rt(k, p):
        rt_class(k).yield_task(k, cpu, p)
    elif cpu_rq(k, cpu).nr_running > 1:  # yield_task_fair()
        clear_buddies(k, p.se)
        if p.policy != SCHED_BATCH:
            update_curr(k, p.se.cfs_rq)
        set_buddy(k, p.se, CfsRq.skip)
    cpu_rq(k, cpu).need_resched = 1
    return False


@inner
def preempted(k: Kernel, p: TaskStruct) -> bool:
    """Return whether the running task has woken all its wakees and now, at the end of a system call, gives up its CPU."""
    return not p.wake_q_head and cpu_rq(k, k.this_cpu).need_resched != 0


@apart(NOTHING)
def advance(k: Kernel, p: TaskStruct, delay: int) -> None:
    """Run the program of the task on CPU k.this_cpu until an operation takes time, blocks the task or moves it.

    If a stretch begins, it begins ``delay`` ns from now.
    """
    cpu = k.this_cpu
    if p.started < 0:
        p.started = k.now_ns
    if preempted(k, p):
        return
    while k.steps < MAX_STEPS:
        if k.status != status.RUNNING:
            return
        if p.wake_q_head:
            begin_wake(k, p)
            if k.wake_ns > 0:
                p.left = k.wake_ns
                start_stretch(k, cpu, p, delay)
                return
            end_wake(k, p)
            if preempted(k, p):
                return
            continue
        k.steps += 1
        op = p.pc
        p.pc = Op(k, op.row + 1)
        code = op.code
        on = True
        if code == ops.OP_LOOP or code == ops.OP_LOOP_BARRIER:
            if loop_back(k, p, op):
                p.pc = Op(k, op.arg1)
        elif code <= ops.OP_SLEEP_EXP and code != ops.OP_EXIT:
            on = timed_op(k, p, code, op.arg1, op.arg2, op.arg3)
        elif code >= ops.OP_BARRIER and code <= ops.OP_WAIT:
            on = wait_op(k, p, code, op) != 0
        elif code == ops.OP_FORK:
            if k.nr_tasks >= k.task_room:
                # simulate() enlarges the table, and then the task continues here
                p.pc = op
                cpu_rq(k, cpu).switched_in = 1
                cpu_rq(k, cpu).delay = delay
                k.status = status.TASKS_FULL
                return
            fork(k, p, op.arg1, op.arg2, op.arg3)
            on = not preempted(k, p)
        elif code == ops.OP_WAIT_CHILDREN:
            p.waits_for = waits_for.NOTHING
            if p.children > op.arg1:
                p.pc = op
                p.waits_for = waits_for.CHILDREN
                block(k, p)
                on = False
        elif code == ops.OP_MARK:
            record(k, log_kind.MARK, cpu, pid_of(k, p), -1, -1, op.arg1, -1)
        elif code == ops.OP_EXIT:
            exit_task(k, p)
            on = False
        elif code == ops.OP_SLEEP_JIFFIES:
            ticks = op.arg1
            ticks = ticks if ticks > 0 else round_jiffies(k, op.arg2, op.arg3)
            sleep_jiffies(k, p, ticks, op.arg4 - 1 if op.arg4 > 0 else cpu)
            on = False
        elif code == ops.OP_SESSION or code == ops.OP_POLICY:
            on = placement_op(k, p, code, op.arg1, op.arg2) and not preempted(k, p)
        elif code >= ops.OP_TOUCH:
            on = page_counter_op(k, p, code, op)
        elif code >= ops.OP_SIGNAL:
            on = signal_op(k, p, op)
        else:
            on = placement_op(k, p, code, op.arg1, 0) and not preempted(k, p)
        if not on:
            if cpu_rq(k, cpu).curr == p and p.state == task_state.READY and p.left > 0:
                start_stretch(k, cpu, p, delay)
            return
    k.status = status.ZERO_LOOP
    k.culprit = p.row


@inner
def run_on(k: Kernel, cpu: int, p: TaskStruct, delay: int) -> None:
    """Let the running task compute what is left of its stretch, or else begin its next operation."""
    if p.left > 0:
        start_stretch(k, cpu, p, delay)
    else:
        advance(k, p, delay)


@inner
def run_over(k: Kernel, cpu: int) -> None:
    """The event RUN: the running task's stretch has ended."""
    p = cpu_rq(k, cpu).curr
    p.left = 0
    if p.spin == 1:
        # the task has spun long enough, so it blocks
        p.spin = 0
        if p.waits_for == waits_for.LOCK:
            p.pc = Op(k, p.pc.row - 1)
            set_contended(WaitObject(k, p.wait_object), True)
        block(k, p)
        return
    if p.spin == GRANTED:
        p.spin = 0
        p.waits_for = waits_for.NOTHING
    if p.wake_q_head:
        end_wake(k, p)
        if not p.wake_q_head:
            p.left = end_of_call_ns(k, p)
    run_on(k, cpu, p, 0)


@inner
def go_on(k: Kernel, cpu: int) -> None:
    """Continue the program of the task that was just switched in, after the cost of the switch."""
    p = cpu_rq(k, cpu).curr
    cpu_rq(k, cpu).switched_in = 0
    run_on(k, cpu, p, cpu_rq(k, cpu).delay)
