"""When a task gives way since v6.18: lazy preemption, and the timer that ends slices (kernel/sched/core.c and fair.c)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import pending
from wastedcores.simulator.engine.fair.cfs_jit import resched
from wastedcores.simulator.engine.world.idle_jit import runs_idle
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
)
from wastedcores.simulator.engine.world.rules_jit import rule

#: the shortest time to which the timer that ends slices is set, and by how much a new time has to differ
HRTICK_LEAST_NS = 10_000
HRTICK_CLOSE_NS = 5_000
NICE_0_LOAD = 1 << 20

# --- lazy preemption ----------------------------------------------------------------------------------------------------


@inner
def resched_lazy(m, cpu):
    """resched_curr_lazy(): ask a CPU to reschedule when it next enters the kernel, if preemption is lazy; an idle one at once."""
    if not rule(m, v6_12.LAZY_PREEMPTION) or cpu == m[0, sim.CPU] or runs_idle(m, cpu):
        resched(m, cpu)
    elif m[cpu, rq.NEED_RESCHED] == 0:
        m[m[0, sim.CPUS] + cpu, rq_v6_12.LAZY_RESCHED] = 1


@inner
def enter_kernel(m, cpu):
    """exit_to_user_mode_loop(): let a task give way that was asked to lazily, because its CPU has entered the kernel."""
    q = m[0, sim.CPUS] + cpu
    if m[q, rq_v6_12.LAZY_RESCHED] != 0:
        m[q, rq_v6_12.LAZY_RESCHED] = 0
        m[cpu, rq.NEED_RESCHED] = 1


# --- the timer that ends slices (HRTICK) --------------------------------------------------------------------------------


@inner
def hrtick_of(m, cpu):
    """Return the event of a CPU's timer."""
    return ((m[0, sim.CPUS] + cpu) << table.SHIFT) + rq_v6_12.HRTICK


@inner
def set_hrtick(m, cpu, at_ns):
    """hrtick_needs_rearm(): set the timer unless it expires at about the same time."""
    event = hrtick_of(m, cpu)
    before = m[m[0, sim.CPUS] + cpu, rq_v6_12.HRTICK]
    if pending(m, event) and abs(at_ns - before) <= HRTICK_CLOSE_NS:
        return
    queue_jit.push(m, event, at_ns)


@apart(NOTHING)
def hrtick_start(m, cpu, p):
    """hrtick_start_fair(): set the timer to the end of a task's slice, if another one is queued; in schedule() at its end."""
    q = m[0, sim.CPUS] + cpu
    if not rule(m, v6_12.SLICE_TIMER) or m[q, cfs_rq.H_NR_RUNNING] <= 1:
        return
    left = m[p, eevdf.DEADLINE] - m[p, entity.VRUNTIME]
    if left < 0:
        if m[cpu, rq.CURR] == p:
            resched(m, cpu)
        return
    delay = max(m[p, entity.WEIGHT] * left // NICE_0_LOAD, HRTICK_LEAST_NS)
    if m[q, rq_v6_12.IN_SCHEDULE] != 0:
        m[q, rq_v6_12.HRTICK_DELAY] = delay
    else:
        set_hrtick(m, cpu, m[0, sim.NOW] + delay)


@inner
def hrtick_update(m, cpu):
    """hrtick_update(): start the timer for the running task when another one comes, unless it runs."""
    curr = m[cpu, rq.CURR]
    if curr < 0 or m[curr, task.RT_PRIORITY] != 0 or not rule(m, v6_12.SLICE_TIMER):
        return
    if not pending(m, hrtick_of(m, cpu)):
        hrtick_start(m, cpu, curr)


@inner
def hrtick_enter(m, cpu):
    """hrtick_schedule_enter(): schedule() begins; the task need not give way lazily any more."""
    q = m[0, sim.CPUS] + cpu
    m[q, rq_v6_12.LAZY_RESCHED] = 0
    m[q, rq_v6_12.IN_SCHEDULE] = 1


@inner
def hrtick_exit(m, cpu):
    """hrtick_schedule_exit(): set the timer at the end of schedule(), or stop it if the CPU is idle."""
    q = m[0, sim.CPUS] + cpu
    m[q, rq_v6_12.LAZY_RESCHED] = 0
    m[q, rq_v6_12.IN_SCHEDULE] = 0
    if m[q, rq_v6_12.HRTICK_DELAY] != 0:
        set_hrtick(m, cpu, m[0, sim.NOW] + m[q, rq_v6_12.HRTICK_DELAY])
        m[q, rq_v6_12.HRTICK_DELAY] = 0
    elif runs_idle(m, cpu):
        queue_jit.cancel(m, hrtick_of(m, cpu))
