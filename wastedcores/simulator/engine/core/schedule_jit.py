"""The core: schedule(), the stopper, the tick (kernel/sched/core.c, v4.1; docs/replay-semantics.md, sections 3 and 5)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.load_balance_v4_1_jit import (
    active_balance_step,
)
from wastedcores.simulator.engine.balance.rebalance_domains_jit import (
    idle_balance,
    nohz_enter,
    nohz_idle_balance,
    run_rebalance,
    sd_state_idle,
    trigger_load_balance,
)
from wastedcores.simulator.engine.balance.v6_12_seam_jit import (
    ACTIVE,
    AT_TICK,
    ENTERS_NOHZ,
    IDLE_CORE,
    IDLES,
    KICKED,
    WOKEN,
    ask_balancer,
    balances_v6_12,
)
from wastedcores.simulator.engine.clocks.seam_jit import SWITCHED, TICKED, ask_clock
from wastedcores.simulator.engine.codes import cpu_event, log_kind, task_state, waits_for
from wastedcores.simulator.engine.core.stretch_jit import stop_stretch
from wastedcores.simulator.engine.design.seam_jit import ASK_PULL, ASK_TICK, ask, designed
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import event_of
from wastedcores.simulator.engine.fair import pelt_v4_4_jit
from wastedcores.simulator.engine.fair.cfs_jit import (
    check_preempt,
    pick_task,
    put_prev_task,
    resched,
    set_next_entity,
    task_tick,
)
from wastedcores.simulator.engine.fair.eevdf_seam_jit import (
    FAIR_DEAD,
    FAIR_GROUP,
    ask_fair,
    has_eevdf,
)
from wastedcores.simulator.engine.fair.entity_jit import add_nr_running, set_task_rq
from wastedcores.simulator.engine.fair.load_jit import (
    catch_up_idle,
    idle_cpu,
    jiffies,
    update_cpu_load,
    weighted_cpuload,
)
from wastedcores.simulator.engine.fair.preemption_jit import (
    enter_kernel,
    hrtick_enter,
    hrtick_exit,
    hrtick_of,
)
from wastedcores.simulator.engine.realtime.seam_jit import (
    PICK,
    POST_SCHEDULE,
    PUT_PREV,
    TICK,
    ask_rt,
    dequeue,
    enqueue,
    has_rt,
    is_rt,
)
from wastedcores.simulator.engine.world import (
    cfs_rq,
    eevdf,
    entity,
    rq,
    rq_v6_12,
    sim,
    table,
    task,
    v6_12,
    wait,
)
from wastedcores.simulator.engine.world.log_jit import log_load, log_migrate, pid_of, record
from wastedcores.simulator.engine.world.rules_jit import rule
from wastedcores.simulator.engine.world.wait_lists_jit import leave

STATE_R, STATE_S, STATE_X = 0, 1, 2
#: the stopper is more urgent than every real-time task (sched_set_stop_task())
STOPPER_PRIORITY = 100


@apart(NOTHING)
def move_group(m, p, group):
    """sched_move_task(): move the running task to another group.

    setsid() does this (autogroup_move_group() in kernel/sched/auto_group.c). So does exit: the task returns to the root group
    before its parent is told (cpu_cgroup_exit(), task_wants_autogroup() with PF_EXITING).
    """
    if has_eevdf(m):
        ask_fair(m, FAIR_GROUP, p, group)
        return
    dequeue(m, p, False)
    fair = not is_rt(m, p)
    if fair:
        put_prev_task(m, p)
    if m[0, sim.LOAD_V4_4] != 0:
        pelt_v4_4_jit.detach(m, p)
    m[p, task.GROUP] = group
    set_task_rq(m, p, m[p, task.CPU])
    if m[0, sim.LOAD_V4_4] != 0:
        pelt_v4_4_jit.attach(m, p)
    se = p
    while fair and se >= 0:  # set_curr_task_fair()
        set_next_entity(m, se)
        se = m[se, entity.PARENT]
    enqueue(m, p, False, False)


@inner
def next_tick(m, cpu):
    """Return the time of the CPU's next tick, strictly after now. Each CPU ticks with its own offset."""
    skew = cpu * m[0, sim.SKEW_NS]
    return ((m[0, sim.NOW] - skew) // m[0, sim.TICK_NS] + 1) * m[0, sim.TICK_NS] + skew


@inner
def leave_idle(m, cpu):
    """tick_nohz_idle_exit(): restart the tick."""
    if m[cpu, rq.TICK_STOPPED] != 0:
        m[cpu, rq.TICK_STOPPED] = 0
        catch_up_idle(m, cpu)
        queue_jit.push_tick(m, cpu, next_tick(m, cpu))


@inner
def idle_ends(m, cpu):
    """put_prev_task_idle(), v7.2.13: update the mean idle time of a CPU whose idle task is put back."""
    if balances_v6_12(m) and rule(m, v6_12.IDLE_TIME_AT_EXIT):
        ask_balancer(m, WOKEN, cpu, 0, 0)


@inner
def enter_idle(m, cpu):
    """tick_nohz_idle_enter(): stop the tick, unless RCU still needs it; v6.12 does more, and does not always stop it at once."""
    if balances_v6_12(m):
        ask_balancer(m, IDLES, cpu, 0, 0)
        return
    sd_state_idle(m, cpu)
    stop_tick(m, cpu)


@inner
def enter_nohz(m, cpu):
    """nohz_balance_enter_idle(): add the CPU to the tickless idle CPUs."""
    if balances_v6_12(m):
        ask_balancer(m, ENTERS_NOHZ, cpu, 0, 0)
    else:
        nohz_enter(m, cpu)


@inner
def stop_tick(m, cpu):
    """tick_nohz_stop_sched_tick(), nohz_balance_enter_idle(): stop the tick of an idle CPU."""
    if m[cpu, rq.TICK_STOPPED] == 0 and jiffies(m) >= m[cpu, rq.KEEP_TICK_UNTIL]:
        m[cpu, rq.TICK_STOPPED] = 1
        queue_jit.cancel(m, event_of(cpu_event.TICK, cpu))
        enter_nohz(m, cpu)


@inner
def lock_free(m, y):
    """Return whether nobody holds the lock, alone or shared."""
    return m[y, wait.OWNER] < 0 and m[y, wait.COUNT] == 0


@inner
def newidle_left(m, cpu):
    """Return for how long the CPU is still occupied with newidle balancing, in ns; before v6.1 the balancing takes no time."""
    return max(m[m[0, sim.CPUS] + cpu, rq_v6_12.NEWIDLE_UNTIL] - m[0, sim.NOW], 0)


@inner
def refill(m, cpu, p):
    """Return what a task pays that runs behind another last-level cache than before, in ns (docs/replay-semantics.md)."""
    before = m[p, task.RAN_LLC]
    now = m[cpu, rq.SD_LLC_ID] + 1
    m[p, task.RAN_LLC] = now
    if before == 0 or before == now:
        return 0
    return m[m[0, sim.SCRATCH] + v6_12.ROW, v6_12.REFILL_NS]


@inner
def switch_to(m, cpu, prev_pid, state, p):
    """context_switch(): switch to task ``p``, or to idle (-1). The loop then continues the task's program (rq.SWITCHED_IN)."""
    m[cpu, rq.CURR] = p
    if p >= 0:
        leave_idle(m, cpu)
    record(m, log_kind.SWITCH, cpu, pid_of(m, p), prev_pid, -1, state, -1)
    if p < 0:
        if balances_v6_12(m):
            ask_balancer(m, IDLE_CORE, cpu, 0, 0)
        enter_idle(m, cpu)
        ask_clock(m, SWITCHED, cpu)
        return
    exit_ns = ask_clock(m, SWITCHED, cpu)
    if (
        m[p, task.SPIN] == 1
        and m[p, task.WAITS_FOR] == waits_for.LOCK
        and lock_free(m, m[p, task.WAIT_OBJECT])
    ):
        # a spinner that gets its CPU back tries the lock again
        leave(m, m[p, task.WAIT_OBJECT], p)
        m[m[p, task.WAIT_OBJECT], wait.OWNER] = p
        if m[p, task.LEFT] >= table.INFINITE:
            m[0, sim.COMPUTING] += 1
        m[p, task.LEFT] = m[0, sim.SPIN_NS]
        m[p, task.SPIN] = 2
    m[cpu, rq.SWITCHED_IN] = 1
    m[cpu, rq.DELAY] = m[0, sim.SWITCH_NS] + exit_ns + newidle_left(m, cpu) + refill(m, cpu, p)


@inner
def find_work(m, cpu):
    """Look for work for a CPU that ran out of it; return whether it has some now."""
    return ask(m, ASK_PULL, cpu, 0, 0) != 0 if designed(m) else idle_balance(m, cpu) != 0


@inner
def pick_next_task(m, cpu, prev, before):
    """pick_next_task(): return the next task, a real-time one first, or -1 for idle.

    ``before`` is the priority of what ran: the stopper's is above that of every real-time task.
    """
    rt = is_rt(m, prev)
    if has_rt(m):
        p = ask_rt(m, PICK, cpu, prev, before)
        if p >= 0:
            return p
        if rt:
            ask_rt(m, PUT_PREV, cpu, prev, 0)
    # v6.12's class looks for work itself, because the tasks on a queue may all be asleep
    if has_eevdf(m) or m[m[0, sim.CPUS] + cpu, cfs_rq.NR_RUNNING] > 0 or find_work(m, cpu):
        return pick_task(m, cpu, -1 if rt else prev)
    if prev >= 0 and not rt:
        put_prev_task(m, prev)
    return -1


@apart(NOTHING)
def schedule(m, cpu):
    """__schedule(): choose the next task and switch to it."""
    m[cpu, rq.NEED_RESCHED] = 0
    m[cpu, rq.CLOCK] = m[0, sim.NOW]
    hrtick_enter(m, cpu)
    prev = m[cpu, rq.CURR]
    state = STATE_R
    if prev >= 0 and m[prev, task.STATE] != task_state.READY:
        state = STATE_X if m[prev, task.STATE] == task_state.DEAD else STATE_S
        dequeue(m, prev, True)
    p = pick_next_task(m, cpu, prev, m[prev, task.RT_PRIORITY] if prev >= 0 else 0)
    m[cpu, rq.NEED_RESCHED] = 0
    if p != prev:
        if prev >= 0:
            stop_stretch(m, cpu, prev)
        else:
            idle_ends(m, cpu)
        switch_to(m, cpu, pid_of(m, prev), state, p)
        if state == STATE_X and has_eevdf(m):
            ask_fair(m, FAIR_DEAD, prev, 0)
        elif state == STATE_X and m[0, sim.LOAD_V4_4] != 0:
            pelt_v4_4_jit.remove(m, prev)
    elif p < 0:
        enter_idle(m, cpu)
    elif m[p, task.LEFT] == 0:
        # it yielded, and no other task was chosen
        m[cpu, rq.SWITCHED_IN] = 1
        m[cpu, rq.DELAY] = 0
    hrtick_exit(m, cpu)
    if has_rt(m):
        ask_rt(m, POST_SCHEDULE, cpu, 0, 0)


@apart(VALUE)
def stopper_begin(m, cpu):
    """Let the stopper preempt what runs on ``cpu``; return the task that ran, or -1. The stopper is no task: rq.CURR is NULL."""
    prev = m[cpu, rq.CURR]
    m[cpu, rq.CLOCK] = m[0, sim.NOW]
    log_load(m, cpu)
    add_nr_running(m, cpu, 1)
    record(m, log_kind.WAKEUP, cpu, cpu + 1, pid_of(m, prev), cpu, -1, -1)
    if prev >= 0:
        stop_stretch(m, cpu, prev)
        if is_rt(m, prev):
            ask_rt(m, PUT_PREV, cpu, prev, 0)
        else:
            put_prev_task(m, prev)
    else:
        idle_ends(m, cpu)
        leave_idle(m, cpu)
    record(m, log_kind.SWITCH, cpu, cpu + 1, pid_of(m, prev), -1, STATE_R, -1)
    m[cpu, rq.CURR] = -1
    m[m[0, sim.CPUS] + cpu, rq_v6_12.STOPPER_RUNS] = 1
    return prev


@apart(NOTHING)
def stopper_end(m, cpu):
    """Let the stopper go to sleep, and choose what runs next."""
    log_load(m, cpu)
    add_nr_running(m, cpu, -1)
    hrtick_enter(m, cpu)
    p = pick_next_task(m, cpu, -1, STOPPER_PRIORITY)
    m[cpu, rq.NEED_RESCHED] = 0
    m[m[0, sim.CPUS] + cpu, rq_v6_12.STOPPER_RUNS] = 0
    switch_to(m, cpu, cpu + 1, STATE_S, p)
    hrtick_exit(m, cpu)
    if has_rt(m):
        ask_rt(m, POST_SCHEDULE, cpu, 0, 0)


@apart(NOTHING)
def run_stopper(m, cpu):
    """active_load_balance_cpu_stop() in the stopper's thread."""
    if m[cpu, rq.ACTIVE_BALANCE] == 0:
        return
    curr = m[cpu, rq.CURR]
    if curr >= 0 and m[curr, task.WAKE_Q_HEAD] >= 0:
        # the task is waking others, so the stopper has to wait
        queue_jit.push(m, event_of(cpu_event.STOP, cpu), m[0, sim.NOW] + max(m[0, sim.WAKE_NS], 1))
        return
    stopper_begin(m, cpu)
    if balances_v6_12(m):
        ask_balancer(m, ACTIVE, cpu, 0, 0)
    else:
        active_balance_step(m, cpu)
    stopper_end(m, cpu)


@apart(NOTHING)
def move_task(m, p, dst, why):
    """migration_cpu_stop(): move ``p``, which is queued or running, from its CPU to ``dst``."""
    src = m[p, task.CPU]
    stopper_begin(m, src)
    dequeue(m, p, False)
    log_migrate(m, p, src, dst, why)
    m[p, entity.EXEC_START] = 0
    if m[0, sim.LOAD_V4_4] != 0:
        pelt_v4_4_jit.migrate(m, p)
    else:
        m[p, eevdf.LAST_UPDATE] = 0
    set_task_rq(m, p, dst)
    enqueue(m, p, False, False)
    check_preempt(m, dst, p)
    stopper_end(m, src)


# --- tick, IPI ----------------------------------------------------------------------------------------------------------


@apart(NOTHING)
def tick(m, cpu):
    """tick_sched_timer(): scheduler_tick(), the SCHED softirq if it is due, and the end of ticking if the CPU is idle."""
    queue_jit.push_tick(m, cpu, m[0, sim.NOW] + m[0, sim.TICK_NS])
    m[cpu, rq.CLOCK] = m[0, sim.NOW]
    enter_kernel(m, cpu)
    if is_rt(m, m[cpu, rq.CURR]):
        ask_rt(m, TICK, cpu, m[cpu, rq.CURR], 0)
    elif m[cpu, rq.CURR] >= 0:
        task_tick(m, m[cpu, rq.CURR])
    m[cpu, rq.LAST_LOAD_UPDATE_TICK] = jiffies(m)
    update_cpu_load(m, cpu, weighted_cpuload(m, cpu), 1)
    if m[cpu, rq.CURR] >= 0:
        ask_clock(m, TICKED, cpu)
    if designed(m):
        if m[cpu, rq.CURR] >= 0:
            ask(m, ASK_TICK, cpu, 0, 0)
    elif balances_v6_12(m):
        ask_balancer(m, AT_TICK, cpu, 0, 0)
    elif not has_eevdf(m) and trigger_load_balance(m, cpu):
        # all CPUs have had their tick of this jiffy before the first softirq runs
        queue_jit.push(m, event_of(cpu_event.SOFTIRQ, cpu), m[0, sim.NOW] + m[0, sim.IRQ_NS])
    if m[cpu, rq.CURR] < 0:
        stop_tick(m, cpu)


@apart(NOTHING)
def hrtick(m, cpu):
    """hrtick(), entity_tick(): end the slice of the running task (core.c and fair.c, v7.2.13)."""
    m[0, sim.CPU] = cpu
    m[cpu, rq.CLOCK] = m[0, sim.NOW]
    curr = m[cpu, rq.CURR]
    if curr >= 0 and not is_rt(m, curr):
        task_tick(m, curr)
        resched(m, cpu)


@inner
def stop_hrtick(m, cpu):
    """Stop the timer that ends slices of a CPU that goes offline."""
    queue_jit.cancel(m, hrtick_of(m, cpu))


@apart(NOTHING)
def kick(m, cpu):
    """Handle a NOHZ kick (scheduler_ipi(), got_nohz_idle_kick()), or continue the pass that it started."""
    if balances_v6_12(m):
        ask_balancer(m, KICKED, cpu, 0, 0)
        return
    if m[cpu, rq.NOHZ_KICK] == 0:
        return
    if m[cpu, rq.ILB_NEXT] != 0:
        nohz_idle_balance(m, cpu)
        return
    if not idle_cpu(m, cpu) or m[cpu, rq.NEED_RESCHED] != 0:
        m[cpu, rq.NOHZ_KICK] = 0
        return
    m[cpu, rq.IDLE_BALANCE] = 1
    run_rebalance(m, cpu)
