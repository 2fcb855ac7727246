"""The real-time class: SCHED_FIFO and SCHED_RR (kernel/sched/rt.c, v4.1; docs/replay-semantics.md, section 13).

A greater ``rt_priority`` is more urgent. A task of the fair class and the idle task have 0, the migration thread has 100.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.simulator.reference.state import Rq, Task

if TYPE_CHECKING:
    from wastedcores.simulator.reference.kernel import Kernel

#: the migration thread is more urgent than every real-time task (sched_set_stop_task(), core.c, v4.1)
STOPPER_PRIORITY = 100
#: sched_rr_timeslice, in ns
RR_TIMESLICE_NS = 100_000_000
#: sysctl_sched_rt_runtime and sysctl_sched_rt_period, in ns
RUNTIME_NS, PERIOD_NS = 950_000_000, 1_000_000_000


def rr_timeslice(k: Kernel) -> int:
    """Return the quantum of SCHED_RR in ticks (RR_TIMESLICE, include/linux/sched/rt.h, v4.1)."""
    return max(RR_TIMESLICE_NS // k.tick_ns, 1)


def priority_of(k: Kernel, rq: Rq) -> int:
    """Return the priority of what a CPU runs."""
    return STOPPER_PRIORITY if rq.curr is k.stoppers[rq.cpu] else rq.curr.rt_priority


def highest(rq: Rq) -> int:
    """Return the greatest priority of the queue, which contains the running task, or 0 (rt_rq->highest_prio.curr)."""
    return rq.rt.queue[0].rt_priority if rq.rt.queue else 0


# --- the queue --------------------------------------------------------------------------------------------------------


def enqueue_top_rt_rq(k: Kernel, rq: Rq) -> None:
    """Let ``rq->nr_running`` count the tasks of the queue, or none of them while it is throttled.

    enqueue_top_rt_rq() and dequeue_top_rt_rq(), v4.1, which take off all tasks before they count them again.
    """
    rt = rq.rt
    n = 0 if rt.throttled else len(rt.queue)
    if n == rt.counted:
        return
    others = rq.nr_running - rt.counted
    change, rt.counted = n - rt.counted, n
    k.add_nr_running(rq, change)
    if n and others < 2 <= others + n:
        k.overload = True


def enqueue_task(k: Kernel, rq: Rq, p: Task, head: bool = False) -> None:
    """Put a task behind those of its priority, or with ``head`` before them (enqueue_task_rt(), v4.1)."""
    rq.clock_ns = k.now_ns
    start_rt_bandwidth(k)
    _insert(rq, p, head)
    p.on_rt = True
    enqueue_top_rt_rq(k, rq)
    if p is not rq.curr:
        _make_pushable(k, p)


def _insert(rq: Rq, p: Task, head: bool) -> None:
    queue, i = rq.rt.queue, 0
    while i < len(queue) and (
        queue[i].rt_priority > p.rt_priority or (queue[i].rt_priority == p.rt_priority and not head)
    ):
        i += 1
    queue.insert(i, p)


def dequeue_task(k: Kernel, rq: Rq, p: Task) -> None:
    """Take a task off its queue (dequeue_task_rt(), v4.1)."""
    rq.clock_ns = k.now_ns
    update_curr(k, rq)
    rq.rt.queue.remove(p)
    p.on_rt = False
    p.pushable = 0
    enqueue_top_rt_rq(k, rq)


def requeue_task(rq: Rq, p: Task, head: bool) -> None:
    """Move a queued task behind, or before, the others of its priority (requeue_task_rt(), v4.1)."""
    rq.rt.queue.remove(p)
    _insert(rq, p, head)


def _make_pushable(k: Kernel, p: Task) -> None:
    """Append a task that waits to the pushable tasks of its priority (enqueue_pushable_task(), v4.1)."""
    if len(p.allowed) > 1:
        k.pushed += 1
        p.pushable = k.pushed


def pushable_tasks(rq: Rq) -> list[Task]:
    """Return the tasks that wait and may run elsewhere, the most urgent one first (rt_rq->pushable_tasks, v4.1)."""
    return sorted(
        (p for p in rq.rt.queue if p.pushable), key=lambda p: (-p.rt_priority, p.pushable)
    )


# --- time -------------------------------------------------------------------------------------------------------------


def update_curr(k: Kernel, rq: Rq) -> None:
    """Charge the running real-time task and throttle the queue when its runtime is over (update_curr_rt(), v4.1)."""
    p = rq.curr
    delta = k.now_ns - p.se.exec_start
    if not p.rt_priority or delta <= 0:
        return
    p.se.sum_exec += delta
    p.se.exec_start = k.now_ns
    rq.rt.time_ns += delta
    if sched_rt_runtime_exceeded(k, rq):
        k.resched(rq)


def sched_rt_runtime_exceeded(k: Kernel, rq: Rq) -> bool:
    """Tell whether the tasks of a CPU are throttled, and throttle them if they ran too long (v4.1).

    Queues do not borrow runtime of each other: RT_RUNTIME_SHARE is off since v5.10.
    """
    rt = rq.rt
    if not rt.throttled and rt.time_ns > RUNTIME_NS:
        rt.throttled = True
        enqueue_top_rt_rq(k, rq)
    return rt.throttled


def start_rt_bandwidth(k: Kernel) -> None:
    """Start the timer of the period if it does not run; it expires at once, and then every period.

    start_rt_bandwidth(), v4.5; before, the periods began at round seconds.
    """
    if k.rt_period_cpu < 0:
        k.rt_period_cpu = k.cpu
        k.push(k.now_ns, "PERIOD", 0)


def sched_rt_period_timer(k: Kernel) -> None:
    """Give every queue the runtime of a new period (do_sched_rt_period_timer(), v4.1)."""
    idle = True
    for rq in (k.rqs[c] for c in sorted(k.active)):
        rt = rq.rt
        enqueue = False
        if rt.time_ns:
            rt.time_ns -= min(rt.time_ns, RUNTIME_NS)
            if rt.throttled and rt.time_ns < RUNTIME_NS:
                rt.throttled = False
                enqueue = True
            idle &= not (rt.time_ns or rt.queue)
        elif rt.queue:
            idle = False
            enqueue = not rt.throttled
        if enqueue and rt.queue:
            # sched_rt_rq_enqueue()
            enqueue_top_rt_rq(k, rq)
            if highest(rq) > priority_of(k, rq):
                k.resched(rq)
    if idle:
        k.rt_period_cpu = -1
    else:
        k.push(k.now_ns + PERIOD_NS, "PERIOD", 0)


def task_tick(k: Kernel, rq: Rq, p: Task) -> None:
    """Charge the running task, and end the quantum of SCHED_RR (task_tick_rt(), v4.1)."""
    update_curr(k, rq)
    if p.policy != "rr":
        return
    p.time_slice -= 1
    if p.time_slice:
        return
    p.time_slice = rr_timeslice(k)
    if any(q is not p and q.rt_priority == p.rt_priority for q in rq.rt.queue):
        requeue_task(rq, p, head=False)
        k.resched(rq)


# --- choosing ---------------------------------------------------------------------------------------------------------


def pick_next_task(k: Kernel, rq: Rq, prev: Task) -> Task | None:
    """Choose the next real-time task, after pulling one if the CPU becomes less urgent (pick_next_task_rt(), v4.1)."""
    if priority_of(k, rq) > highest(rq):
        pull_rt_task(k, rq)
    update_curr(k, rq)
    if not rq.rt.counted:
        return None
    if prev.rt_priority:
        put_prev_task(k, rq, prev)
    elif prev is not rq.idle_task and not rq.stopper:
        k.fair.put_prev_task(k, prev)
    p = rq.rt.queue[0]
    p.se.exec_start = k.now_ns
    p.pushable = 0
    rq.rt.push_later = bool(pushable_tasks(rq))
    return p


def put_prev_task(k: Kernel, rq: Rq, p: Task) -> None:
    """Charge the task that ran, which another CPU may take if it is still queued (put_prev_task_rt(), v4.1)."""
    update_curr(k, rq)
    if p.on_rt:
        _make_pushable(k, p)


def check_preempt_curr(k: Kernel, rq: Rq, p: Task) -> None:
    """Preempt the running task if ``p`` should run first; one of the two is a real-time task.

    check_preempt_curr(), core.c, and check_preempt_curr_rt(), v4.1.
    """
    curr = rq.curr
    if p.rt_priority > curr.rt_priority:
        k.resched(rq)
    elif p.rt_priority == curr.rt_priority and not rq.need_resched:
        check_preempt_equal_prio(k, rq, p)


def check_preempt_equal_prio(k: Kernel, rq: Rq, p: Task) -> None:
    """Let a task that must run here preempt one that may run elsewhere (check_preempt_equal_prio(), v4.1)."""
    curr = rq.curr
    if len(curr.allowed) == 1 or not lowest_mask(k, curr):
        return
    if len(p.allowed) > 1 and lowest_mask(k, p):
        return
    requeue_task(rq, p, head=True)
    k.resched(rq)


# --- placement, push and pull -----------------------------------------------------------------------------------------


def lowest_mask(k: Kernel, p: Task) -> list[int]:
    """Return the CPUs of the lowest priority below the task's where it may run (cpupri_find(), cpupri.c, v4.1).

    CPUs with fair tasks and idle CPUs are equal.
    """
    cpus = sorted(p.allowed & k.active)
    least = min((highest(k.rqs[c]) for c in cpus), default=STOPPER_PRIORITY)
    if least >= p.rt_priority:
        return []
    return [c for c in cpus if highest(k.rqs[c]) == least]


def find_lowest_rq(k: Kernel, p: Task) -> int:
    """Return the CPU to which a task should go, or -1: its own, or one near to it (find_lowest_rq(), v4.1)."""
    lowest = lowest_mask(k, p)
    if len(p.allowed) == 1 or not lowest:
        return -1
    if p.cpu in lowest:
        return p.cpu
    here = k.cpu in lowest
    for sd in k.rqs[p.cpu].sd:
        if sd.has("WAKE_AFFINE"):
            if here and k.cpu in sd.span:
                return k.cpu
            near = [c for c in lowest if c in sd.span]
            if near:
                return near[0]
    return k.cpu if here else lowest[0]


def select_task_rq(k: Kernel, p: Task, flag: str) -> int:
    """Choose the CPU of a woken or new task: its own unless that runs something as urgent (select_task_rq_rt(), v4.1)."""
    rq = k.rqs[p.cpu]
    curr = rq.curr
    if flag == "exec" or not curr.rt_priority:
        return p.cpu
    if len(curr.allowed) < 2 or curr.rt_priority >= p.rt_priority:
        target = find_lowest_rq(k, p)
        if target >= 0:
            return target
    return p.cpu


def _move(k: Kernel, p: Task, target: Rq, op: str) -> None:
    k.log_op = op
    dequeue_task(k, k.rqs[p.cpu], p)
    k.set_task_cpu(p, target.cpu)
    enqueue_task(k, target, p)


def push_rt_task(k: Kernel, rq: Rq) -> bool:
    """Move the most urgent task that waits to a CPU that runs something less urgent (push_rt_task(), v4.1)."""
    tasks = pushable_tasks(rq)
    if len(rq.rt.queue) < 2 or not tasks:
        return False
    p = tasks[0]
    if p.rt_priority > priority_of(k, rq):
        k.resched(rq)
        return False
    cpu = find_lowest_rq(k, p)
    if cpu in (-1, rq.cpu):
        return False
    _move(k, p, k.rqs[cpu], "push")
    k.resched(k.rqs[cpu])
    return True


def push_rt_tasks(k: Kernel, rq: Rq) -> None:
    """Push until nothing moves any more (push_rt_tasks(), v4.1)."""
    while push_rt_task(k, rq):
        pass


def post_schedule(k: Kernel, rq: Rq) -> None:
    """Push the tasks that wait behind the one just chosen (post_schedule_rt(), v4.1)."""
    if rq.rt.push_later:
        rq.rt.push_later = False
        push_rt_tasks(k, rq)


def task_woken(k: Kernel, rq: Rq, p: Task) -> None:
    """Push a woken task away if it will not run here soon (task_woken_rt(), v4.1)."""
    curr = rq.curr
    if (
        curr is not p
        and not rq.need_resched
        and len(p.allowed) > 1
        and curr.rt_priority
        and (len(curr.allowed) < 2 or curr.rt_priority >= p.rt_priority)
    ):
        push_rt_tasks(k, rq)


def pull_rt_task(k: Kernel, rq: Rq) -> bool:
    """Take waiting tasks, from all CPUs that have several, that are more urgent than any task here (pull_rt_task(), v4.1).

    The CPU pulls by itself; it does not ask the others to push (RT_PUSH_IPI).
    """
    pulled = False
    for src in (k.rqs[c] for c in sorted(k.active)):
        if src is rq or len(src.rt.queue) < 2:
            continue
        waiting = pushable_tasks(src)
        if not waiting or waiting[0].rt_priority <= highest(rq):
            continue
        p = next((t for t in waiting if rq.cpu in t.allowed), None)
        if p is None or not highest(rq) < p.rt_priority <= priority_of(k, src):
            continue
        _move(k, p, rq, "pull")
        pulled = True
    return pulled


# --- changes ----------------------------------------------------------------------------------------------------------


def check_class_changed(k: Kernel, rq: Rq, p: Task, before: int) -> None:
    """Reschedule or pull after the running task's priority was ``before`` (check_class_changed(), core.c, v4.1).

    switched_from_rt(), switched_to_fair() and prio_changed_rt().
    """
    if before and not p.rt_priority:
        if not rq.rt.queue:
            pull_rt_task(k, rq)
        k.resched(rq)
    elif before:
        if before > p.rt_priority:
            pull_rt_task(k, rq)
        if p.rt_priority < highest(rq):
            k.resched(rq)


def rq_offline(k: Kernel, rq: Rq) -> None:
    """Let the tasks of a CPU that goes offline run, so that they can be moved (rq_offline_rt() and __disable_runtime(), v4.1)."""
    rq.rt.time_ns = 0
    rq.rt.throttled = False
    enqueue_top_rt_rq(k, rq)
