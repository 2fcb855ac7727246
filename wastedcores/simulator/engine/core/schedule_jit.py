"""The core: schedule(), the stopper, the tick (kernel/sched/core.c, v4.1; docs/replay-semantics.md, sections 3 and 5)."""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.load_balance_v4_1_jit import active_balance_step
from wastedcores.simulator.engine.balance.rebalance_domains_jit import (
    idle_balance,
    nohz_enter,
    nohz_idle_balance,
    run_rebalance,
    sd_state_idle,
    trigger_load_balance,
)
from wastedcores.simulator.engine.codes import cpu_event, log_kind, task_state, waits_for
from wastedcores.simulator.engine.core.stretch_jit import clock_switched, stop_stretch
from wastedcores.simulator.engine.core.wakeup_jit import leave
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import event_of
from wastedcores.simulator.engine.fair import pelt_v4_4_jit
from wastedcores.simulator.engine.fair.cfs_jit import (
    check_preempt,
    enter_kernel,
    hrtick_enter,
    hrtick_exit,
    pick_task,
    put_prev_task,
    resched,
    set_next_entity,
    task_tick,
)
from wastedcores.simulator.engine.fair.entity_jit import (
    add_nr_running,
    dequeue,
    enqueue,
    is_rt,
    set_task_rq,
)
from wastedcores.simulator.engine.fair.load_jit import (
    catch_up_idle,
    idle_cpu,
    update_cpu_load,
    weighted_cpuload,
)
from wastedcores.simulator.engine.world import table
from wastedcores.simulator.engine.world.log_jit import log_load, log_migrate, pid_of, record
from wastedcores.simulator.engine.world.rows_jit import (
    balancer,
    clock_functions,
    core_module,
    cpu_cfs_rq,
    cpu_rq,
    fair_class,
    modern,
    rt_class,
)
from wastedcores.simulator.engine.world.structs import NO_TASK, Kernel, TaskStruct, WaitObject

STATE_R, STATE_S, STATE_X = 0, 1, 2
#: the stopper is more urgent than every real-time task (sched_set_stop_task())
STOPPER_PRIORITY = 100


@apart(NOTHING)
def move_group(k: Kernel, p: TaskStruct, group: int) -> None:
    """sched_move_task(): move the running task to another group.

    setsid() does this (autogroup_move_group() in kernel/sched/auto_group.c). Exit does it, too: the task returns to the root
    group before its parent is notified (cpu_cgroup_exit(), task_wants_autogroup() with PF_EXITING).
    """
    if k.is_modern != 0:
        fair_class(k).task_change_group(k, p, group)
        return
    dequeue(k, p, False)
    fair = not is_rt(k, p)
    if fair:
        put_prev_task(k, p)
    if k.load_v4_4 != 0:
        pelt_v4_4_jit.detach(k, p)
    p.group = group
    set_task_rq(k, p, p.cpu)
    if k.load_v4_4 != 0:
        pelt_v4_4_jit.attach(k, p.se)
    se = p.se
    while fair and se:  # set_curr_task_fair()
        set_next_entity(k, se)
        se = se.parent
    enqueue(k, p, False, False)


@inner
def next_tick(k: Kernel, cpu: int) -> int:
    """Return the time of the CPU's next tick, which is later than now. Each CPU ticks with its own offset."""
    skew = cpu * k.skew_ns
    return ((k.now_ns - skew) // k.tick_ns + 1) * k.tick_ns + skew


@inner
def leave_idle(k: Kernel, cpu: int) -> None:
    """tick_nohz_idle_exit(): restart the tick."""
    if cpu_rq(k, cpu).tick_stopped != 0:
        cpu_rq(k, cpu).tick_stopped = 0
        catch_up_idle(k, cpu)
        queue_jit.push_tick(k, cpu, next_tick(k, cpu))


@inner
def idle_ends(k: Kernel, cpu: int) -> None:
    """put_prev_task_idle(), v7.2.13: update the mean idle time of a CPU whose idle task is put back."""
    if k.is_modern != 0 and modern(k).idle_time_at_exit != 0:
        balancer(k).idle_cpu_woken(k, cpu)


@inner
def enter_idle(k: Kernel, cpu: int) -> None:
    """tick_nohz_idle_enter(): stop the tick, unless RCU still needs it. v6.12 does more, and may stop the tick later."""
    if k.is_modern != 0:
        balancer(k).enters_idle(k, cpu)
        return
    sd_state_idle(k, cpu)
    stop_tick(k, cpu)


@inner
def enter_nohz(k: Kernel, cpu: int) -> None:
    """nohz_balance_enter_idle(): add the CPU to the tickless idle CPUs."""
    if k.is_modern != 0:
        balancer(k).nohz_balance_enter_idle(k, cpu)
    else:
        nohz_enter(k, cpu)


@inner
def stop_tick(k: Kernel, cpu: int) -> None:
    """tick_nohz_stop_sched_tick(), nohz_balance_enter_idle(): stop the tick of an idle CPU."""
    if cpu_rq(k, cpu).tick_stopped == 0 and k.jiffies >= cpu_rq(k, cpu).keep_tick_until:
        cpu_rq(k, cpu).tick_stopped = 1
        queue_jit.cancel(k, event_of(cpu_event.TICK, cpu))
        enter_nohz(k, cpu)


@inner
def refill(k: Kernel, cpu: int, p: TaskStruct) -> int:
    """Return the time in ns that ``p`` loses if it last ran under another last-level cache (docs/replay-semantics.md)."""
    before = p.ran_llc
    now = cpu_rq(k, cpu).sd_llc_id + 1
    p.ran_llc = now
    if before == 0 or before == now:
        return 0
    return modern(k).refill_ns


@inner
def switch_to(k: Kernel, cpu: int, prev_pid: int, state: int, p: TaskStruct) -> None:
    """context_switch(): switch to task ``p``, or to idle (NULL). The main loop then continues the task's program."""
    cpu_rq(k, cpu).curr = p
    if p:
        leave_idle(k, cpu)
    record(k, log_kind.SWITCH, cpu, pid_of(k, p), prev_pid, -1, state, -1)
    if not p:
        if k.is_modern != 0:
            balancer(k).update_idle_core(k, cpu)
        enter_idle(k, cpu)
        clock_switched(k, cpu)
        return
    exit_ns = clock_switched(k, cpu)
    if p.spin == 1 and p.waits_for == waits_for.LOCK:
        y = WaitObject(k, p.wait_object)
        if not y.owner and y.count == 0:  # a spinner that gets its CPU back tries the lock again
            leave(k, y, p)
            y.owner = p
            if p.left >= table.INFINITE:
                k.computing += 1
            p.left = k.spin_ns
            p.spin = 2
    cpu_rq(k, cpu).switched_in = 1
    # since v6.1 newidle balancing takes time; the task starts only after this time
    newidle_ns = max(cpu_cfs_rq(k, cpu).rq_modern.newidle_until - k.now_ns, 0)
    cpu_rq(k, cpu).delay = k.switch_ns + exit_ns + newidle_ns + refill(k, cpu, p)


@inner
def pick_next_task(k: Kernel, cpu: int, prev: TaskStruct, before: int) -> TaskStruct:
    """pick_next_task(): return the next task, or NULL for idle. Real-time tasks come first.

    ``before`` is the priority of the task that ran. The stopper has a higher priority than every real-time task.
    """
    rt = is_rt(k, prev)
    if k.rt0 != 0:
        p = rt_class(k).pick_next_task(k, cpu, prev, before)
        if p:
            return p
        if rt:
            rt_class(k).put_prev_task(k, cpu, prev)
    # the fair class of v6.12 looks for work itself, because all tasks on a queue may be asleep
    found = k.is_modern != 0 or cpu_cfs_rq(k, cpu).nr_running > 0
    if not found and k.design.decides != 0:
        found = core_module(k).pull(k, cpu) != 0
    elif not found:
        found = idle_balance(k, cpu) != 0
    if found:
        return pick_task(k, cpu, NO_TASK if rt else prev)
    if prev and not rt:
        put_prev_task(k, prev)
    return NO_TASK


@apart(NOTHING)
def schedule(k: Kernel, cpu: int) -> None:
    """__schedule(): choose the next task and switch to it."""
    cpu_rq(k, cpu).need_resched = 0
    cpu_rq(k, cpu).clock = k.now_ns
    hrtick_enter(k, cpu)
    prev = cpu_rq(k, cpu).curr
    state = STATE_R
    if prev and prev.state != task_state.READY:
        state = STATE_X if prev.state == task_state.DEAD else STATE_S
        dequeue(k, prev, True)
    p = pick_next_task(k, cpu, prev, prev.rt_priority if prev else 0)
    cpu_rq(k, cpu).need_resched = 0
    if p != prev:
        if prev:
            stop_stretch(k, cpu, prev)
        else:
            idle_ends(k, cpu)
        switch_to(k, cpu, pid_of(k, prev), state, p)
        if state == STATE_X and k.is_modern != 0:
            fair_class(k).task_dead(k, prev)
        elif state == STATE_X and k.load_v4_4 != 0:
            pelt_v4_4_jit.remove(k, prev)
    elif not p:
        enter_idle(k, cpu)
    elif p.left == 0:
        # the task yielded, and no other task was chosen
        cpu_rq(k, cpu).switched_in = 1
        cpu_rq(k, cpu).delay = 0
    hrtick_exit(k, cpu)
    if k.rt0 != 0:
        rt_class(k).post_schedule(k, cpu)


@apart(VALUE)
def stopper_begin(k: Kernel, cpu: int) -> TaskStruct:
    """Let the stopper preempt the task on ``cpu``, and return this task or NULL. While the stopper runs, Rq.curr is NULL."""
    prev = cpu_rq(k, cpu).curr
    cpu_rq(k, cpu).clock = k.now_ns
    log_load(k, cpu)
    add_nr_running(k, cpu, 1)
    record(k, log_kind.WAKEUP, cpu, cpu + 1, pid_of(k, prev), cpu, -1, -1)
    if prev:
        stop_stretch(k, cpu, prev)
        if is_rt(k, prev):
            rt_class(k).put_prev_task(k, cpu, prev)
        else:
            put_prev_task(k, prev)
    else:
        idle_ends(k, cpu)
        leave_idle(k, cpu)
    record(k, log_kind.SWITCH, cpu, cpu + 1, pid_of(k, prev), -1, STATE_R, -1)
    cpu_rq(k, cpu).curr = NO_TASK
    cpu_cfs_rq(k, cpu).rq_modern.stopper_runs = 1
    return prev


@apart(NOTHING)
def stopper_end(k: Kernel, cpu: int) -> None:
    """Let the stopper go to sleep, and choose the next task."""
    log_load(k, cpu)
    add_nr_running(k, cpu, -1)
    hrtick_enter(k, cpu)
    p = pick_next_task(k, cpu, NO_TASK, STOPPER_PRIORITY)
    cpu_rq(k, cpu).need_resched = 0
    cpu_cfs_rq(k, cpu).rq_modern.stopper_runs = 0
    switch_to(k, cpu, cpu + 1, STATE_S, p)
    hrtick_exit(k, cpu)
    if k.rt0 != 0:
        rt_class(k).post_schedule(k, cpu)


@apart(NOTHING)
def run_stopper(k: Kernel, cpu: int) -> None:
    """active_load_balance_cpu_stop() in the stopper's thread."""
    if cpu_rq(k, cpu).active_balance == 0:
        return
    curr = cpu_rq(k, cpu).curr
    if curr and curr.wake_q_head:
        # the task is waking others, so the stopper has to wait
        queue_jit.push(k, event_of(cpu_event.STOP, cpu), k.now_ns + max(k.wake_ns, 1))
        return
    stopper_begin(k, cpu)
    if k.is_modern != 0:
        balancer(k).active_load_balance(k, cpu)
    else:
        active_balance_step(k, cpu)
    stopper_end(k, cpu)


@apart(NOTHING)
def move_task(k: Kernel, p: TaskStruct, dst: int, why: int) -> None:
    """migration_cpu_stop(): move ``p``, which is queued or running, from its CPU to ``dst``."""
    src = p.cpu
    stopper_begin(k, src)
    dequeue(k, p, False)
    log_migrate(k, p, src, dst, why)
    p.se.exec_start = 0
    if k.load_v4_4 != 0:
        pelt_v4_4_jit.migrate(k, p)
    else:
        p.se.avg.last_update = 0
    set_task_rq(k, p, dst)
    enqueue(k, p, False, False)
    check_preempt(k, dst, p, False)
    stopper_end(k, src)


# --- tick, IPI ----------------------------------------------------------------------------------------------------------


@apart(NOTHING)
def tick(k: Kernel, cpu: int) -> None:
    """tick_sched_timer(): run scheduler_tick(), start the SCHED softirq if it is due, and stop the tick if the CPU is idle."""
    queue_jit.push_tick(k, cpu, k.now_ns + k.tick_ns)
    cpu_rq(k, cpu).clock = k.now_ns
    enter_kernel(k, cpu)
    if is_rt(k, cpu_rq(k, cpu).curr):
        rt_class(k).task_tick(k, cpu, cpu_rq(k, cpu).curr)
    elif cpu_rq(k, cpu).curr:
        task_tick(k, cpu_rq(k, cpu).curr)
    cpu_rq(k, cpu).last_load_update_tick = k.jiffies
    update_cpu_load(k, cpu, weighted_cpuload(k, cpu), 1)
    if cpu_rq(k, cpu).curr and k.clock0 != 0:
        clock_functions(k).ticked(k, cpu)
    if k.design.decides != 0:
        if cpu_rq(k, cpu).curr:
            core_module(k).task_tick(k, cpu)
    elif k.is_modern != 0:
        balancer(k).trigger_load_balance(k, cpu)
    elif k.is_modern == 0 and trigger_load_balance(k, cpu):
        # all CPUs have had their tick of this jiffy before the first softirq runs
        queue_jit.push(k, event_of(cpu_event.SOFTIRQ, cpu), k.now_ns + k.irq_ns)
    if not cpu_rq(k, cpu).curr:
        stop_tick(k, cpu)


@apart(NOTHING)
def hrtick(k: Kernel, cpu: int) -> None:
    """hrtick(), entity_tick(): end the slice of the running task (core.c and fair.c, v7.2.13)."""
    k.this_cpu = cpu
    cpu_rq(k, cpu).clock = k.now_ns
    curr = cpu_rq(k, cpu).curr
    if curr and not is_rt(k, curr):
        task_tick(k, curr)
        resched(k, cpu)


@apart(NOTHING)
def kick(k: Kernel, cpu: int) -> None:
    """Handle a NOHZ kick (scheduler_ipi(), got_nohz_idle_kick()), or continue the pass that an earlier kick started."""
    if k.is_modern != 0:
        balancer(k).kick_arrives(k, cpu)
        return
    if cpu_rq(k, cpu).nohz_kick == 0:
        return
    if cpu_rq(k, cpu).ilb_next != 0:
        nohz_idle_balance(k, cpu)
        return
    if not idle_cpu(k, cpu) or cpu_rq(k, cpu).need_resched != 0:
        cpu_rq(k, cpu).nohz_kick = 0
        return
    cpu_rq(k, cpu).idle_balance = 1
    run_rebalance(k, cpu)
