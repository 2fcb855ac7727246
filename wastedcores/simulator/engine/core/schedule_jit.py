"""The core: schedule, stopper, tick (kernel/sched/core.c, v4.1; docs/replay-semantics.md, sections 3 and 5)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.load_balance_v4_1_jit import (
    active_balance_step,
    set_task_rq,
)
from wastedcores.simulator.engine.balance.rebalance_domains_jit import (
    idle_balance,
    nohz_enter,
    nohz_idle_balance,
    run_rebalance,
    sd_state_idle,
    trigger_load_balance,
)
from wastedcores.simulator.engine.core.stretch_jit import stop_stretch
from wastedcores.simulator.engine.design.seam_jit import ASK_PULL, ASK_TICK, ask, designed
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import cpu_event
from wastedcores.simulator.engine.fair.cfs_jit import (
    check_preempt,
    pick_task,
    put_prev_task,
    set_next_entity,
    task_tick,
)
from wastedcores.simulator.engine.fair.entity_jit import add_nr_running, dequeue_task, enqueue_task
from wastedcores.simulator.engine.fair.load_jit import (
    catch_up_idle,
    idle_cpu,
    jiffies,
    update_cpu_load,
    weighted_cpuload,
)
from wastedcores.simulator.engine.world.codes import (
    EV_SOFTIRQ,
    EV_STOP,
    EV_TICK,
    LOG_SWITCH,
    LOG_WAKEUP,
    S_DEAD,
    S_READY,
    W_LOCK,
)
from wastedcores.simulator.engine.world.log_jit import log_migrate, pid_of, record
from wastedcores.simulator.engine.world.state import (
    G_COMPUTING,
    G_CPUS,
    G_IRQ,
    G_NOW,
    G_SKEW,
    G_SPIN,
    G_SWITCH,
    G_TICK,
    G_WAKE,
    INFINITE,
    Q_NR,
    R_ACTIVE,
    R_CLOCK,
    R_CURR,
    R_DELAY,
    R_FRESH,
    R_IDLE_BALANCE,
    R_ILB,
    R_KEEP_TICK,
    R_KICK,
    R_LAST_TICK,
    R_NEED,
    R_STOPPED,
    SE_EXEC_START,
    SE_PARENT,
    T_CPU,
    T_KHEAD,
    T_LEFT,
    T_OBJ,
    T_SPIN,
    T_STATE,
    T_TG,
    T_WAIT,
    Y_COUNT,
    Y_OWNER,
)
from wastedcores.simulator.engine.world.wait_lists_jit import leave

STATE_R, STATE_S, STATE_X = 0, 1, 2


@apart(NOTHING)
def move_group(m, p, group):
    """The running task goes to another group (core.c: sched_move_task(), v4.1).

    setsid() makes it (auto_group.c: autogroup_move_group()), and exit: the task goes back to the root group before
    its parent hears of it (cpu_cgroup_exit(), task_wants_autogroup() with PF_EXITING).
    """
    dequeue_task(m, p, False)
    put_prev_task(m, p)
    m[p, T_TG] = group
    set_task_rq(m, p, m[p, T_CPU])
    se = p
    while se >= 0:  # set_curr_task_fair()
        set_next_entity(m, se)
        se = m[se, SE_PARENT]
    enqueue_task(m, p, False, False)


@inner
def next_tick(m, cpu):
    """When CPU ``cpu`` ticks next: the first of its phases strictly after now."""
    skew = cpu * m[0, G_SKEW]
    return ((m[0, G_NOW] - skew) // m[0, G_TICK] + 1) * m[0, G_TICK] + skew


@inner
def leave_idle(m, cpu):
    """tick_nohz_idle_exit(): the tick comes back."""
    if m[cpu, R_STOPPED] != 0:
        m[cpu, R_STOPPED] = 0
        catch_up_idle(m, cpu)
        queue_jit.push_tick(m, cpu, next_tick(m, cpu))


@inner
def enter_idle(m, cpu):
    """tick_nohz_idle_enter(): stop the tick, unless RCU still needs it."""
    sd_state_idle(m, cpu)
    stop_tick(m, cpu)


@inner
def stop_tick(m, cpu):
    """tick_nohz_stop_sched_tick(), nohz_balance_enter_idle()."""
    if m[cpu, R_STOPPED] == 0 and jiffies(m) >= m[cpu, R_KEEP_TICK]:
        m[cpu, R_STOPPED] = 1
        queue_jit.cancel(m, cpu_event(EV_TICK, cpu))
        nohz_enter(m, cpu)


@inner
def lock_free(m, y):
    """Whether nobody holds the lock, alone or shared."""
    return m[y, Y_OWNER] < 0 and m[y, Y_COUNT] == 0


@apart(NOTHING)
def switch_to(m, cpu, prev_pid, state, p):
    """context_switch(); the program of ``p`` goes on in the loop (R_FRESH)."""
    m[cpu, R_CURR] = p
    if p >= 0:
        leave_idle(m, cpu)
    record(m, LOG_SWITCH, cpu, pid_of(m, p), prev_pid, -1, state, -1)
    if p < 0:
        enter_idle(m, cpu)
        return
    if m[p, T_SPIN] == 1 and m[p, T_WAIT] == W_LOCK and lock_free(m, m[p, T_OBJ]):
        # a spinner that gets its CPU back looks at the lock again
        leave(m, m[p, T_OBJ], p)
        m[m[p, T_OBJ], Y_OWNER] = p
        if m[p, T_LEFT] >= INFINITE:
            m[0, G_COMPUTING] += 1
        m[p, T_LEFT] = m[0, G_SPIN]
        m[p, T_SPIN] = 2
    m[cpu, R_FRESH] = 1
    m[cpu, R_DELAY] = m[0, G_SWITCH]


@inner
def find_work(m, cpu):
    """A CPU ran out of work: whether it has some now."""
    return ask(m, ASK_PULL, cpu, 0, 0) != 0 if designed(m) else idle_balance(m, cpu) != 0


@apart(NOTHING)
def schedule(m, cpu):
    """__schedule()."""
    m[cpu, R_NEED] = 0
    m[cpu, R_CLOCK] = m[0, G_NOW]
    prev = m[cpu, R_CURR]
    state = STATE_R
    if prev >= 0 and m[prev, T_STATE] != S_READY:
        state = STATE_X if m[prev, T_STATE] == S_DEAD else STATE_S
        dequeue_task(m, prev, True)
    q = m[0, G_CPUS] + cpu
    p = -1
    if m[q, Q_NR] > 0 or find_work(m, cpu):
        p = pick_task(m, cpu, prev)
    elif prev >= 0:
        put_prev_task(m, prev)
    m[cpu, R_NEED] = 0
    if p != prev:
        if prev >= 0:
            stop_stretch(m, cpu, prev)
        switch_to(m, cpu, pid_of(m, prev), state, p)
    elif p < 0:
        enter_idle(m, cpu)
    elif m[p, T_LEFT] == 0:
        # it yielded, and nobody else wanted the CPU more
        m[cpu, R_FRESH] = 1
        m[cpu, R_DELAY] = 0


@apart(VALUE)
def stopper_begin(m, cpu):
    """The stopper preempts what runs on ``cpu``; the task that ran, -1."""
    prev = m[cpu, R_CURR]
    m[cpu, R_CLOCK] = m[0, G_NOW]
    add_nr_running(m, cpu, 1)
    record(m, LOG_WAKEUP, cpu, cpu + 1, pid_of(m, prev), cpu, -1, -1)
    if prev >= 0:
        stop_stretch(m, cpu, prev)
        put_prev_task(m, prev)
    else:
        leave_idle(m, cpu)
    record(m, LOG_SWITCH, cpu, cpu + 1, pid_of(m, prev), -1, STATE_R, -1)
    m[cpu, R_CURR] = -1
    return prev


@apart(NOTHING)
def stopper_end(m, cpu):
    """The stopper is done: pick what runs next."""
    add_nr_running(m, cpu, -1)
    p = -1
    if m[m[0, G_CPUS] + cpu, Q_NR] > 0 or find_work(m, cpu):
        p = pick_task(m, cpu, -1)
    m[cpu, R_NEED] = 0
    switch_to(m, cpu, cpu + 1, STATE_S, p)


@apart(NOTHING)
def run_stopper(m, cpu):
    """active_load_balance_cpu_stop() in its thread."""
    if m[cpu, R_ACTIVE] == 0:
        return
    curr = m[cpu, R_CURR]
    if curr >= 0 and m[curr, T_KHEAD] >= 0:
        # in the middle of waking others: not now
        queue_jit.push(m, cpu_event(EV_STOP, cpu), m[0, G_NOW] + max(m[0, G_WAKE], 1))
        return
    stopper_begin(m, cpu)
    active_balance_step(m, cpu)
    stopper_end(m, cpu)


@apart(NOTHING)
def move_task(m, p, dst, why):
    """migration_cpu_stop(): push ``p`` (queued or running) from its CPU to ``dst``."""
    src = m[p, T_CPU]
    stopper_begin(m, src)
    dequeue_task(m, p, False)
    log_migrate(m, p, src, dst, why)
    m[p, SE_EXEC_START] = 0
    set_task_rq(m, p, dst)
    enqueue_task(m, p, False, False)
    check_preempt(m, dst, p)
    stopper_end(m, src)


# --- tick, IPI ----------------------------------------------------------------------------------------------------------


@apart(NOTHING)
def tick(m, cpu):
    """tick_sched_timer(): scheduler_tick(), then the SCHED softirq, then perhaps the end of ticking."""
    queue_jit.push_tick(m, cpu, m[0, G_NOW] + m[0, G_TICK])
    m[cpu, R_CLOCK] = m[0, G_NOW]
    if m[cpu, R_CURR] >= 0:
        task_tick(m, m[cpu, R_CURR])
    m[cpu, R_LAST_TICK] = jiffies(m)
    update_cpu_load(m, cpu, weighted_cpuload(m, cpu), 1)
    if designed(m):
        if m[cpu, R_CURR] >= 0:
            ask(m, ASK_TICK, cpu, 0, 0)
    elif trigger_load_balance(m, cpu):
        # every CPU has had its tick of this jiffy when the first gets to its softirq
        queue_jit.push(m, cpu_event(EV_SOFTIRQ, cpu), m[0, G_NOW] + m[0, G_IRQ])
    if m[cpu, R_CURR] < 0:
        stop_tick(m, cpu)


@apart(NOTHING)
def kick(m, cpu):
    """The NOHZ kick arrives (scheduler_ipi(), got_nohz_idle_kick()), or the pass it began goes on."""
    if m[cpu, R_KICK] == 0:
        return
    if m[cpu, R_ILB] != 0:
        nohz_idle_balance(m, cpu)
        return
    if not idle_cpu(m, cpu) or m[cpu, R_NEED] != 0:
        m[cpu, R_KICK] = 0
        return
    m[cpu, R_IDLE_BALANCE] = 1
    run_rebalance(m, cpu)
