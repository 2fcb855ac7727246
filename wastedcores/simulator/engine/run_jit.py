"""The state at the beginning, and the main loop: take the next event, run the kernel code for it, reschedule.

Both are described in docs/replay-semantics.md, sections 7 and 1.
"""

import numpy as np

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.rebalance_domains_jit import run_rebalance
from wastedcores.simulator.engine.codes import cpu_event, status, task_state, waits_for
from wastedcores.simulator.engine.core.hotplug_jit import attach_domains, booted_capacity, hotplug
from wastedcores.simulator.engine.core.schedule_jit import (
    enter_nohz,
    hrtick,
    kick,
    run_stopper,
    schedule,
    tick,
)
from wastedcores.simulator.engine.core.wakeup_jit import (
    fallback_cpu,
    fork_task,
    try_to_wake_up,
    ttwu_pending,
)
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import (
    FROM_NOWHERE,
    FROM_RUNS,
    FROM_TICKS,
    event_of,
    first,
    pending,
    take,
    take_run,
    take_tick,
    time_of,
)
from wastedcores.simulator.engine.fair.cfs_jit import enter_kernel
from wastedcores.simulator.engine.fair.pelt_v4_4_jit import new_entity
from wastedcores.simulator.engine.tasks.program_jit import go_on, new_task, run_over
from wastedcores.simulator.engine.world import cpuset, table
from wastedcores.simulator.engine.world.cpusets_jit import test
from wastedcores.simulator.engine.world.random_jit import draw, stream
from wastedcores.simulator.engine.world.rows_jit import (
    balancer,
    core_module,
    cpu_cfs_rq,
    cpu_rq,
    fair_class,
    modern,
    rt_class,
)
from wastedcores.simulator.engine.world.structs import (
    NO_ENTITY,
    NO_TASK,
    CfsRq,
    HotplugStep,
    Kernel,
    RandomState,
    Rq,
    SchedEntity,
    TaskGroup,
    TaskStruct,
)


@apart(VALUE, entry=True)
def start_state(k: Kernel) -> int:
    """Boot the machine, and return how far into a tick the workload begins, in ns (docs/replay-semantics.md, section 7)."""
    n = k.nr_cpus
    k.now_ns = table.EPOCH_NS
    k.jiffies = table.EPOCH_NS // k.tick_ns
    rng = RandomState(k, k.scratch + 5)
    rng.state = stream(k.seed, -1)
    for cpu in range(n):
        cpu_rq(k, cpu).cpu_capacity = 1024
        cpu_rq(k, cpu).cpu_capacity_orig = 1024
    attach_domains(k, 0, 0)
    booted_capacity(k)
    for cpu in range(n):
        for column in (Rq.curr, Rq.cfs_tasks, Rq.cfs_tasks_tail, Rq.wake_list, Rq.push_cpu):
            k[cpu, column] = -1
        cpu_rq(k, cpu).avg_idle = 1_000_000
        cpu_rq(k, cpu).max_idle_balance_cost = 500_000
        cpu_rq(k, cpu).last_load_update_tick = k.jiffies
        cpu_rq(k, cpu).tick_stopped = 1
        cpu_rq(k, cpu).idle_stamp = 1 + np_mod(draw(k, rng), table.EPOCH_NS - 1)
        enter_nohz(k, cpu)
    if k.is_modern != 0:
        balancer(k).booted(k)
    for tg in range(k.task_groups):
        TaskGroup(k, k.task_group0 + tg).shares = 1024
        for cpu in range(n):
            q = CfsRq(k, k.cfs_rq0 + tg * n + cpu)
            for column in (
                CfsRq.curr,
                CfsRq.next,
                CfsRq.last,
                CfsRq.skip,
                CfsRq.leftmost,
                CfsRq.rightmost,
                CfsRq.last_h_load_update,
            ):
                q[column] = -1
            q.cpu = cpu
            q.task_group = TaskGroup(k, k.task_group0 + tg)
            q.decay_counter = 1
            q.last_decay = table.EPOCH_NS >> 20
            q.entity = NO_ENTITY
            q.zero_vruntime = -(1 << 20)
            if tg > 0:
                se = SchedEntity(k, k.entity0 + tg * n + cpu)
                q.entity = se
                se.cfs_rq = cpu_cfs_rq(k, cpu)
                se.my_q = q
                se.parent = NO_ENTITY
                se.weight = 1 << 20 if k.is_modern != 0 else 1024
                se.inv_weight = 4194304
                if k.load_v4_4 != 0:
                    new_entity(k, se)
                if k.is_modern != 0:
                    fair_class(k).online_sched_group(k, se)
    return np_mod(draw(k, rng), k.tick_ns)


@inner
def np_mod(value, n):
    """Return ``value % n`` of an unsigned draw as a signed number."""
    return int(np.int64(value % np.uint64(n)))


@apart(NOTHING, entry=True)
def add_top(k: Kernel, template: int, group: int, cpu: int, at_ns: int) -> None:
    """Make a top-level task that starts on ``cpu`` at ``at_ns`` (engine time)."""
    p = new_task(k, template, NO_TASK, group)
    p.cpu = cpu
    k.timers += 1
    queue_jit.push(k, (p.row << table.SHIFT) + TaskStruct.timer, at_ns)


@apart(NOTHING, entry=True)
def add_step(k: Kernel, step: int, at_ns: int) -> None:
    """Plan a hotplug step for ``at_ns`` (engine time)."""
    k.timers += 1
    queue_jit.push(k, ((k.step0 + step) << table.SHIFT) + HotplugStep.event, at_ns)


@apart(NOTHING)
def timer(k: Kernel, p: TaskStruct) -> None:
    """Start a top-level task or end a sleep. A sleep ends on the CPU that armed its timer, which the sleeper may have left."""
    k.timers -= 1
    cpu = p.cpu if p.state == task_state.NEW else p.wait_object
    if not test(k, cpuset.ACTIVE, cpu):
        cpu = fallback_cpu(k, p, p.cpu)
    k.this_cpu = cpu
    if p.state == task_state.NEW:
        fork_task(k, p, cpu, NO_TASK)
    else:
        if p.waits_for == waits_for.JIFFY and cpu_rq(k, cpu).tick_stopped != 0:
            cpu_rq(k, cpu).tick_stopped = 0  # a timer of the timer wheel causes a full tick
            tick(k, cpu)
        p.waits_for = waits_for.NOTHING
        modern(k).in_interrupt = 1
        try_to_wake_up(k, p, False)
        modern(k).in_interrupt = 0


@inner
def ticked(k: Kernel, cpu: int) -> None:
    """Handle the event TICK."""
    k.this_cpu = cpu
    tick(k, cpu)
    if k.computing == 0 and k.timers == 0:
        k.status = status.DEADLOCK


@apart(VALUE)
def dispatch(k: Kernel, event: int) -> bool:
    """Handle an event of the heap; return whether it was a tick."""
    cpu = event >> table.SHIFT
    if cpu >= k.nr_cpus:
        if cpu >= k.task0:
            timer(k, TaskStruct(k, cpu))
        elif cpu >= k.scratch:
            rt_class(k).period_timer(k)
        elif cpu < 2 * k.nr_cpus:
            hrtick(k, cpu - k.nr_cpus)
        else:
            k.this_cpu = HotplugStep(k, cpu).cpu
            hotplug(k, cpu - k.step0)
        return False
    kind = ((event & table.LOW) - Rq.events) >> 1
    k.this_cpu = cpu
    if kind == cpu_event.TICK:
        ticked(k, cpu)
    elif kind == cpu_event.TTWU:
        ttwu_pending(k, cpu)
    elif kind == cpu_event.KICK:
        kick(k, cpu)
    elif kind == cpu_event.STOP:
        run_stopper(k, cpu)
    elif kind == cpu_event.SOFTIRQ:
        if k.is_modern != 0:
            balancer(k).run_rebalance_domains(k, cpu)
        else:
            run_rebalance(k, cpu)
    return kind == cpu_event.TICK


@inner
def handle(k: Kernel, source: int) -> bool:
    """Handle the next event, which is in queue ``source``; return whether it was a tick."""
    if source == FROM_TICKS:
        ticked(k, take_tick(k))
        return True
    if source == FROM_RUNS:
        cpu = take_run(k)
        k.this_cpu = cpu
        run_over(k, cpu)
        return False
    return dispatch(k, take(k)) != 0


@inner
def must_schedule(k: Kernel, cpu: int) -> bool:
    """Return whether the CPU reschedules now: it was asked to, or its task blocked. A balancing pass or a wakeup ends first."""
    if cpu_rq(k, cpu).ilb_next != 0:
        return False  # the softirq has to finish first
    curr = cpu_rq(k, cpu).curr
    if curr:
        if curr.state != task_state.READY:
            return True
        if curr.wake_q_head:
            return False
    return cpu_rq(k, cpu).need_resched != 0


@inner
def after_event(k: Kernel, was_tick: int) -> None:
    """Let the CPU of the event continue with the program of the task that was switched in, or with the next schedule()."""
    cpu = k.this_cpu
    enter_kernel(k, cpu)
    if was_tick and k.irq_ns > 0:
        # schedule() runs when the interrupt returns, at a later time
        event = event_of(cpu_event.RESCHED, cpu)
        if cpu_rq(k, cpu).need_resched != 0 and not pending(k, event):
            queue_jit.push(k, event, k.now_ns + k.irq_ns)
        return
    while k.status == status.RUNNING:
        if cpu_rq(k, cpu).switched_in != 0:
            go_on(k, cpu)
        elif must_schedule(k, cpu):
            schedule(k, cpu)
        else:
            break


@apart(VALUE, entry=True)
def run(k: Kernel) -> int:
    """Simulate until all tasks are done, k.until_ns is reached, the log is nearly full or an error occurs; return the status."""
    # a run that stopped because the table was full now continues in the middle of an event
    in_an_event = k.status == status.TASKS_FULL
    was_tick = False
    # After an event a design hands over threads that need not wait. If the CPU of the event gets a thread, it continues again.
    turns = 2 if k.design.decides != 0 else 1
    k.status = status.RUNNING
    while k.status == status.RUNNING:
        if not in_an_event:
            if k.live_tasks == 0:
                k.status = status.DONE
                break
            if k.log_n + k.log_margin > k.log_room:
                k.status = status.LOG_FULL
                break
            source = first(k)
            if source == FROM_NOWHERE:
                k.status = status.DEADLOCK
                break
            now = time_of(k, source)
            if now > k.until_ns:
                k.now_ns = k.until_ns
                k.status = status.UNTIL
                break
            if now != k.now_ns:
                k.now_ns = now
                k.steps = 0
                if now - k.jiffies * k.tick_ns >= k.tick_ns:
                    k.jiffies = now // k.tick_ns
            k.events += 1
            was_tick = handle(k, source)
        in_an_event = False
        turn = turns
        while True:
            after_event(k, was_tick)
            turn -= 1
            if turn == 0:
                break
            if k.status == status.RUNNING:
                core_module(k).settle(k)
    return k.status
