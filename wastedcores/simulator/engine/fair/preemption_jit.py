"""When a task gives way since v6.18: lazy preemption, and the timer that ends slices (kernel/sched/core.c and fair.c)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import pending
from wastedcores.simulator.engine.fair.cfs_jit import resched
from wastedcores.simulator.engine.world import table
from wastedcores.simulator.engine.world.idle_jit import runs_idle
from wastedcores.simulator.engine.world.rows_jit import cpu_cfs_rq, cpu_rq
from wastedcores.simulator.engine.world.rules_jit import rule
from wastedcores.simulator.engine.world.structs import NO_TASK, Kernel, Modern, RqModern, TaskStruct

#: the shortest time to which the timer that ends slices is set, and by how much a new time has to differ
HRTICK_LEAST_NS = 10_000
HRTICK_CLOSE_NS = 5_000
NICE_0_LOAD = 1 << 20

# --- lazy preemption ----------------------------------------------------------------------------------------------------


@inner
def resched_lazy(k: Kernel, cpu: int) -> None:
    """resched_curr_lazy(): ask a CPU to reschedule when it next enters the kernel, if preemption is lazy; an idle one at once."""
    if not rule(k, Modern.lazy_preemption) or cpu == k.this_cpu or runs_idle(k, cpu):
        resched(k, cpu)
    elif cpu_rq(k, cpu).need_resched == 0:
        cpu_cfs_rq(k, cpu).rq_modern.lazy_resched = 1


@inner
def enter_kernel(k: Kernel, cpu: int) -> None:
    """exit_to_user_mode_loop(): let a task give way that was asked to lazily, because its CPU has entered the kernel."""
    q = cpu_cfs_rq(k, cpu)
    if q.rq_modern.lazy_resched != 0:
        q.rq_modern.lazy_resched = 0
        cpu_rq(k, cpu).need_resched = 1


# --- the timer that ends slices (HRTICK) --------------------------------------------------------------------------------


@inner
def hrtick_of(k: Kernel, cpu: int) -> int:
    """Return the event of a CPU's timer."""
    return ((k.nr_cpus + cpu) << table.SHIFT) + RqModern.hrtick


@inner
def set_hrtick(k: Kernel, cpu: int, at_ns: int) -> None:
    """hrtick_needs_rearm(): set the timer unless it expires at about the same time."""
    event = hrtick_of(k, cpu)
    before = cpu_cfs_rq(k, cpu).rq_modern.hrtick
    if pending(k, event) and abs(at_ns - before) <= HRTICK_CLOSE_NS:
        return
    queue_jit.push(k, event, at_ns)


@apart(NOTHING)
def hrtick_start(k: Kernel, cpu: int, p: TaskStruct) -> None:
    """hrtick_start_fair(): set the timer to the end of a task's slice, if another one is queued; in schedule() at its end."""
    q = cpu_cfs_rq(k, cpu)
    if not rule(k, Modern.slice_timer) or q.h_nr_running <= 1:
        return
    left = p.se.deadline - p.se.vruntime
    if left < 0:
        if cpu_rq(k, cpu).curr == p:
            resched(k, cpu)
        return
    delay = max(p.se.weight * left // NICE_0_LOAD, HRTICK_LEAST_NS)
    if q.rq_modern.in_schedule != 0:
        q.rq_modern.hrtick_delay = delay
    else:
        set_hrtick(k, cpu, k.now_ns + delay)


@inner
def hrtick_update(k: Kernel, cpu: int) -> None:
    """hrtick_update(): start the timer for the running task when another one comes, unless it runs."""
    curr = cpu_rq(k, cpu).curr
    if curr == NO_TASK or curr.rt_priority != 0 or not rule(k, Modern.slice_timer):
        return
    if not pending(k, hrtick_of(k, cpu)):
        hrtick_start(k, cpu, curr)


@inner
def hrtick_enter(k: Kernel, cpu: int) -> None:
    """hrtick_schedule_enter(): schedule() begins; the task need not give way lazily any more."""
    q = cpu_cfs_rq(k, cpu)
    q.rq_modern.lazy_resched = 0
    q.rq_modern.in_schedule = 1


@inner
def hrtick_exit(k: Kernel, cpu: int) -> None:
    """hrtick_schedule_exit(): set the timer at the end of schedule(), or stop it if the CPU is idle."""
    q = cpu_cfs_rq(k, cpu)
    q.rq_modern.lazy_resched = 0
    q.rq_modern.in_schedule = 0
    if q.rq_modern.hrtick_delay != 0:
        set_hrtick(k, cpu, k.now_ns + q.rq_modern.hrtick_delay)
        q.rq_modern.hrtick_delay = 0
    elif runs_idle(k, cpu):
        queue_jit.cancel(k, hrtick_of(k, cpu))
