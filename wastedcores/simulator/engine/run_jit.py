"""The loop: next event, kernel code, reschedule (docs/replay-semantics.md, section 1)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.rebalance_domains_jit import run_rebalance
from wastedcores.simulator.engine.core.hotplug_jit import hotplug
from wastedcores.simulator.engine.core.schedule_jit import kick, run_stopper, schedule, tick
from wastedcores.simulator.engine.core.wakeup_jit import (
    fallback_cpu,
    fork_task,
    try_to_wake_up,
    ttwu_pending,
)
from wastedcores.simulator.engine.design.seam_jit import ASK_SETTLE, ask, designed
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import (
    FROM_NOWHERE,
    FROM_RUNS,
    FROM_TICKS,
    cpu_event,
    first,
    pending,
    take,
    take_run,
    take_tick,
    time_of,
)
from wastedcores.simulator.engine.tasks.program_jit import go_on, run_over
from wastedcores.simulator.engine.world.codes import (
    EV_KICK,
    EV_RESCHED,
    EV_SOFTIRQ,
    EV_STOP,
    EV_TICK,
    EV_TTWU,
    S_NEW,
    S_READY,
    ST_DEADLOCK,
    ST_DONE,
    ST_LOG_FULL,
    ST_RUNNING,
    ST_TASKS_FULL,
    ST_UNTIL,
    W_JIFFY,
    W_NOTHING,
)
from wastedcores.simulator.engine.world.cpusets_jit import test
from wastedcores.simulator.engine.world.state import (
    G_COMPUTING,
    G_CPU,
    G_CPUS,
    G_EVENTS,
    G_IRQ,
    G_JIFFY,
    G_LIVE,
    G_LOG_N,
    G_LOG_ROOM,
    G_MARGIN,
    G_NOW,
    G_STATUS,
    G_STEP0,
    G_STEPS,
    G_T0,
    G_TICK,
    G_TIMERS,
    G_UNTIL,
    H_CPU,
    LOW,
    MASK_ACTIVE,
    R_CURR,
    R_EV,
    R_FRESH,
    R_ILB,
    R_NEED,
    R_STOPPED,
    SHIFT,
    T_CPU,
    T_KHEAD,
    T_OBJ,
    T_STATE,
    T_WAIT,
)


@inner
def idle_tick(m, cpu):
    """tick_sched_timer() on a CPU whose tick is stopped: a timer of the wheel brings a whole tick with it."""
    m[cpu, R_STOPPED] = 0
    tick(m, cpu)


@apart(NOTHING)
def timer(m, p):
    """A top-level task starts, or a sleep is over."""
    m[0, G_TIMERS] -= 1
    cpu = m[p, T_OBJ] if m[p, T_WAIT] == W_JIFFY else m[p, T_CPU]
    if not test(m, MASK_ACTIVE, cpu):
        cpu = fallback_cpu(m, p, m[p, T_CPU])
    m[0, G_CPU] = cpu
    if m[p, T_STATE] == S_NEW:
        fork_task(m, p, cpu, -1)
    else:
        if m[p, T_WAIT] == W_JIFFY and m[cpu, R_STOPPED] != 0:
            idle_tick(m, cpu)
        m[p, T_WAIT] = W_NOTHING
        try_to_wake_up(m, p, False)


@inner
def ticked(m, cpu):
    """TICK."""
    m[0, G_CPU] = cpu
    tick(m, cpu)
    if m[0, G_COMPUTING] == 0 and m[0, G_TIMERS] == 0:
        m[0, G_STATUS] = ST_DEADLOCK


@apart(VALUE)
def dispatch(m, event):
    """Handle an event of the heap; whether it was a tick."""
    cpu = event >> SHIFT
    if cpu >= m[0, G_CPUS]:
        if cpu >= m[0, G_T0]:
            timer(m, cpu)
        else:
            m[0, G_CPU] = m[cpu, H_CPU]
            hotplug(m, cpu - m[0, G_STEP0])
        return False
    kind = ((event & LOW) - R_EV) >> 1
    m[0, G_CPU] = cpu
    if kind == EV_TICK:
        ticked(m, cpu)
    elif kind == EV_TTWU:
        ttwu_pending(m, cpu)
    elif kind == EV_KICK:
        kick(m, cpu)
    elif kind == EV_STOP:
        run_stopper(m, cpu)
    elif kind == EV_SOFTIRQ:
        run_rebalance(m, cpu)
    return kind == EV_TICK


@inner
def handle(m, source):
    """Handle the next event, which is at ``source``; whether it was a tick."""
    if source == FROM_TICKS:
        ticked(m, take_tick(m))
        return True
    if source == FROM_RUNS:
        cpu = take_run(m)
        m[0, G_CPU] = cpu
        run_over(m, cpu)
        return False
    return dispatch(m, take(m)) != 0


@inner
def must_schedule(m, cpu):
    """Whether the CPU is to reschedule now: asked to or its task blocked, and not in the middle of something."""
    if m[cpu, R_ILB] != 0:
        return False  # the softirq comes first
    curr = m[cpu, R_CURR]
    if curr >= 0:
        if m[curr, T_STATE] != S_READY:
            return True
        if m[curr, T_KHEAD] >= 0:
            return False
    return m[cpu, R_NEED] != 0


@inner
def after_event(m, was_tick):
    """Let the CPU whose event it was go on: the switched-in task's program, or the next schedule()."""
    cpu = m[0, G_CPU]
    if was_tick and m[0, G_IRQ] > 0:
        # schedule() runs when the interrupt returns, with a later clock
        event = cpu_event(EV_RESCHED, cpu)
        if m[cpu, R_NEED] != 0 and not pending(m, event):
            queue_jit.push(m, event, m[0, G_NOW] + m[0, G_IRQ])
        return
    while m[0, G_STATUS] == ST_RUNNING:
        if m[cpu, R_FRESH] != 0:
            go_on(m, cpu)
        elif must_schedule(m, cpu):
            schedule(m, cpu)
        else:
            break


@apart(VALUE)
def run(m):
    """Simulate until all is done, G_UNTIL is reached, the log is nearly full or something is wrong."""
    in_an_event = m[0, G_STATUS] == ST_TASKS_FULL  # where a run that was stopped for room goes on
    was_tick = False
    # a design then hands over what waits in vain, perhaps to the CPU whose event it was, so that this goes on again
    turns = 2 if designed(m) else 1
    m[0, G_STATUS] = ST_RUNNING
    while m[0, G_STATUS] == ST_RUNNING:
        if not in_an_event:
            if m[0, G_LIVE] == 0:
                m[0, G_STATUS] = ST_DONE
                break
            if m[0, G_LOG_N] + m[0, G_MARGIN] > m[0, G_LOG_ROOM]:
                m[0, G_STATUS] = ST_LOG_FULL
                break
            source = first(m)
            if source == FROM_NOWHERE:
                m[0, G_STATUS] = ST_DEADLOCK
                break
            now = time_of(m, source)
            if now > m[0, G_UNTIL]:
                m[0, G_NOW] = m[0, G_UNTIL]
                m[0, G_STATUS] = ST_UNTIL
                break
            if now != m[0, G_NOW]:
                m[0, G_NOW] = now
                m[0, G_STEPS] = 0
                if now - m[0, G_JIFFY] * m[0, G_TICK] >= m[0, G_TICK]:
                    m[0, G_JIFFY] = now // m[0, G_TICK]
            m[0, G_EVENTS] += 1
            was_tick = handle(m, source)
        in_an_event = False
        turn = turns
        while True:
            after_event(m, was_tick)
            turn -= 1
            if turn == 0:
                break
            if m[0, G_STATUS] == ST_RUNNING:
                ask(m, ASK_SETTLE, 0, 0, 0)
    return m[0, G_STATUS]
