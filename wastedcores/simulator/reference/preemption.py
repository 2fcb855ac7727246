"""When a task gives way since v6.18: lazy preemption, and the timer that ends slices (kernel/sched/core.c and fair.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.simulator.reference.scaled_weights import NICE_0_LOAD
from wastedcores.simulator.reference.state import Rq, Task

if TYPE_CHECKING:
    from wastedcores.simulator.reference.kernel import Kernel

#: the shortest time to which the timer that ends slices is set, and by how much a new time has to differ
HRTICK_LEAST_NS, HRTICK_CLOSE_NS = 10_000, 5_000

# --- lazy preemption --------------------------------------------------------------------------------------------------


def resched_lazy(k: Kernel, rq: Rq) -> None:
    """Ask a CPU to call schedule() when it next enters the kernel, if preemption is lazy (resched_curr_lazy(), v6.18.15).

    The idle task is always preempted at once, and so is the task of the CPU that asks, which is in the kernel.
    """
    if not k.rules.lazy_preemption or rq.cpu == k.cpu or rq.curr is rq.idle_task:
        k.resched(rq)
    elif not rq.need_resched:
        rq.lazy_resched = True


def enter_kernel(rq: Rq) -> None:
    """Let a task give way that was asked to lazily: its CPU has entered the kernel (exit_to_user_mode_loop(), v6.18.15)."""
    if rq.lazy_resched:
        rq.lazy_resched = False
        rq.need_resched = True


# --- the timer that ends slices (HRTICK) ------------------------------------------------------------------------------


def hrtick_start(k: Kernel, rq: Rq, p: Task) -> None:
    """Set the timer of a CPU to the end of a task's slice, if another one is queued (hrtick_start_fair(), v7.2.13).

    During schedule() only the time is noted, for its end (hrtick_start(), core.c).
    """
    if not k.rules.slice_timer or rq.cfs.h_nr_running <= 1:
        return
    left = p.se.deadline - p.se.vruntime
    if left < 0:
        if rq.curr is p:
            k.resched(rq)
        return
    delay = max(p.se.weight * left // NICE_0_LOAD, HRTICK_LEAST_NS)
    if rq.in_schedule:
        rq.hrtick_delay_ns = delay
    else:
        _set_hrtick(k, rq, k.now_ns + delay)


def hrtick_update(k: Kernel, rq: Rq) -> None:
    """Start the timer for the running task when another one comes, unless it runs (hrtick_update(), v7.2.13)."""
    fair = rq.curr.progress is not None and not rq.stopper and not rq.curr.rt_priority
    if k.rules.slice_timer and fair and not k.is_planned("HRTICK", rq.cpu):
        hrtick_start(k, rq, rq.curr)


def hrtick_exit(k: Kernel, rq: Rq) -> None:
    """Set the timer at the end of schedule(), or stop it if the CPU is idle (hrtick_schedule_exit(), core.c, v7.2.13)."""
    rq.in_schedule = False
    if rq.hrtick_delay_ns >= 0:
        _set_hrtick(k, rq, k.now_ns + rq.hrtick_delay_ns)
        rq.hrtick_delay_ns = -1
    elif rq.curr is rq.idle_task:
        k.cancel("HRTICK", rq.cpu)


def _set_hrtick(k: Kernel, rq: Rq, at_ns: int) -> None:
    """Set the timer unless it expires at about the same time (hrtick_needs_rearm(), core.c, v7.2.13)."""
    if k.is_planned("HRTICK", rq.cpu) and abs(at_ns - rq.hrtick_at_ns) <= HRTICK_CLOSE_NS:
        return
    rq.hrtick_at_ns = at_ns
    k.push(at_ns, "HRTICK", rq.cpu)
