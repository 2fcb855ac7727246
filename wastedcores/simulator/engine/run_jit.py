"""The main loop: take the next event, run the kernel code for it, reschedule (docs/replay-semantics.md, section 1)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.rebalance_domains_jit import run_rebalance
from wastedcores.simulator.engine.balance.v6_12_seam_jit import (
    SOFTIRQ,
    ask_balancer,
    balances_v6_12,
)
from wastedcores.simulator.engine.codes import cpu_event, status, task_state, waits_for
from wastedcores.simulator.engine.core.hotplug_jit import hotplug
from wastedcores.simulator.engine.core.schedule_jit import (
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
from wastedcores.simulator.engine.design.seam_jit import ASK_SETTLE, ask, designed
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
from wastedcores.simulator.engine.fair.preemption_jit import enter_kernel
from wastedcores.simulator.engine.realtime.seam_jit import PERIOD, ask_rt
from wastedcores.simulator.engine.tasks.program_jit import go_on, run_over
from wastedcores.simulator.engine.world import (
    cpuset,
    hotplug_step,
    rq,
    sim,
    table,
    task,
    v6_12,
)
from wastedcores.simulator.engine.world.cpusets_jit import test


@inner
def idle_tick(m, cpu):
    """tick_sched_timer() on a CPU whose tick is stopped: a timer of the timer wheel causes a whole tick."""
    m[cpu, rq.TICK_STOPPED] = 0
    tick(m, cpu)


@apart(NOTHING)
def timer(m, p):
    """Start a top-level task, or end a sleep on the CPU that armed its timer; the balancer may have moved the sleeper."""
    m[0, sim.TIMERS] -= 1
    cpu = m[p, task.CPU] if m[p, task.STATE] == task_state.NEW else m[p, task.WAIT_OBJECT]
    if not test(m, cpuset.ACTIVE, cpu):
        cpu = fallback_cpu(m, p, m[p, task.CPU])
    m[0, sim.CPU] = cpu
    if m[p, task.STATE] == task_state.NEW:
        fork_task(m, p, cpu, -1)
    else:
        if m[p, task.WAITS_FOR] == waits_for.JIFFY and m[cpu, rq.TICK_STOPPED] != 0:
            idle_tick(m, cpu)
        m[p, task.WAITS_FOR] = waits_for.NOTHING
        m[m[0, sim.SCRATCH] + v6_12.ROW, v6_12.IN_INTERRUPT] = 1
        try_to_wake_up(m, p, False)
        m[m[0, sim.SCRATCH] + v6_12.ROW, v6_12.IN_INTERRUPT] = 0


@inner
def ticked(m, cpu):
    """Handle the event TICK."""
    m[0, sim.CPU] = cpu
    tick(m, cpu)
    if m[0, sim.COMPUTING] == 0 and m[0, sim.TIMERS] == 0:
        m[0, sim.STATUS] = status.DEADLOCK


@apart(VALUE)
def dispatch(m, event):
    """Handle an event of the heap; return whether it was a tick."""
    cpu = event >> table.SHIFT
    if cpu >= m[0, sim.CPUS]:
        if cpu >= m[0, sim.TASK0]:
            timer(m, cpu)
        elif cpu >= m[0, sim.SCRATCH]:
            ask_rt(m, PERIOD, 0, 0, 0)
        elif cpu < 2 * m[0, sim.CPUS]:
            hrtick(m, cpu - m[0, sim.CPUS])
        else:
            m[0, sim.CPU] = m[cpu, hotplug_step.CPU]
            hotplug(m, cpu - m[0, sim.STEP0])
        return False
    kind = ((event & table.LOW) - rq.EVENTS) >> 1
    m[0, sim.CPU] = cpu
    if kind == cpu_event.TICK:
        ticked(m, cpu)
    elif kind == cpu_event.TTWU:
        ttwu_pending(m, cpu)
    elif kind == cpu_event.KICK:
        kick(m, cpu)
    elif kind == cpu_event.STOP:
        run_stopper(m, cpu)
    elif kind == cpu_event.SOFTIRQ:
        if balances_v6_12(m):
            ask_balancer(m, SOFTIRQ, cpu, 0, 0)
        else:
            run_rebalance(m, cpu)
    return kind == cpu_event.TICK


@inner
def handle(m, source):
    """Handle the next event, which is in queue ``source``; return whether it was a tick."""
    if source == FROM_TICKS:
        ticked(m, take_tick(m))
        return True
    if source == FROM_RUNS:
        cpu = take_run(m)
        m[0, sim.CPU] = cpu
        run_over(m, cpu)
        return False
    return dispatch(m, take(m)) != 0


@inner
def must_schedule(m, cpu):
    """Return whether the CPU reschedules now: it was asked to or its task blocked, and it is not in the middle of something."""
    if m[cpu, rq.ILB_NEXT] != 0:
        return False  # the softirq comes first
    curr = m[cpu, rq.CURR]
    if curr >= 0:
        if m[curr, task.STATE] != task_state.READY:
            return True
        if m[curr, task.WAKE_Q_HEAD] >= 0:
            return False
    return m[cpu, rq.NEED_RESCHED] != 0


@inner
def after_event(m, was_tick):
    """Let the CPU of the event continue: with the program of the task that was switched in, or with the next schedule()."""
    cpu = m[0, sim.CPU]
    enter_kernel(m, cpu)
    if was_tick and m[0, sim.IRQ_NS] > 0:
        # schedule() runs when the interrupt returns, at a later time
        event = event_of(cpu_event.RESCHED, cpu)
        if m[cpu, rq.NEED_RESCHED] != 0 and not pending(m, event):
            queue_jit.push(m, event, m[0, sim.NOW] + m[0, sim.IRQ_NS])
        return
    while m[0, sim.STATUS] == status.RUNNING:
        if m[cpu, rq.SWITCHED_IN] != 0:
            go_on(m, cpu)
        elif must_schedule(m, cpu):
            schedule(m, cpu)
        else:
            break


@apart(VALUE, entry=True)
def run(m):
    """Simulate until all tasks are done, sim.UNTIL is reached, the log is nearly full or an error occurs; return the status."""
    in_an_event = (
        m[0, sim.STATUS] == status.TASKS_FULL
    )  # a run that stopped for want of room continues in the middle of an event
    was_tick = False
    # A design then hands over threads that need not wait, perhaps to the CPU of the event, which then continues again.
    turns = 2 if designed(m) else 1
    m[0, sim.STATUS] = status.RUNNING
    while m[0, sim.STATUS] == status.RUNNING:
        if not in_an_event:
            if m[0, sim.LIVE_TASKS] == 0:
                m[0, sim.STATUS] = status.DONE
                break
            if m[0, sim.LOG_N] + m[0, sim.LOG_MARGIN] > m[0, sim.LOG_ROOM]:
                m[0, sim.STATUS] = status.LOG_FULL
                break
            source = first(m)
            if source == FROM_NOWHERE:
                m[0, sim.STATUS] = status.DEADLOCK
                break
            now = time_of(m, source)
            if now > m[0, sim.UNTIL]:
                m[0, sim.NOW] = m[0, sim.UNTIL]
                m[0, sim.STATUS] = status.UNTIL
                break
            if now != m[0, sim.NOW]:
                m[0, sim.NOW] = now
                m[0, sim.STEPS] = 0
                if now - m[0, sim.JIFFIES] * m[0, sim.TICK_NS] >= m[0, sim.TICK_NS]:
                    m[0, sim.JIFFIES] = now // m[0, sim.TICK_NS]
            m[0, sim.EVENTS] += 1
            was_tick = handle(m, source)
        in_an_event = False
        turn = turns
        while True:
            after_event(m, was_tick)
            turn -= 1
            if turn == 0:
                break
            if m[0, sim.STATUS] == status.RUNNING:
                ask(m, ASK_SETTLE, 0, 0, 0)
    return m[0, sim.STATUS]
