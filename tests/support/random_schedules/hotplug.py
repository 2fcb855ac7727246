"""Taking a CPU offline and bringing it back (kernel/cpu.c and sched_cpu_deactivate(), kernel/sched/core.c, v6.12)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from support.random_schedules.events import IN_INTERRUPT, IN_SCHEDULE
from support.random_schedules.placement import fallback
from support.random_schedules.programs import Run, Sleep
from support.random_schedules.tasks import Task, cpus_of

if TYPE_CHECKING:
    from support.random_schedules.machine import Machine


def plug(m: Machine, caller: Task, cpu: int, online: bool) -> None:
    """Change the state of a CPU in the name of a thread, which waits until it is done."""
    if bool(m.active >> cpu & 1) == online or (not online and m.active.bit_count() == 1):
        return
    thread = m.hotplug_threads[cpu]
    thread.program = _up(m, thread, caller) if online else _down(m, thread, caller)
    thread.left = 3
    caller.waits_for += 1
    if online:
        m.online |= 1 << cpu
        m.touch(cpu)
    m.wake(thread, cpu if online else caller.cpu, IN_INTERRUPT if online else IN_SCHEDULE)


def _done(m: Machine, caller: Task, by: int) -> None:
    caller.waits_for -= 1
    m.wake(caller, by, IN_SCHEDULE)


def _up(m: Machine, thread: Task, caller: Task) -> Iterator[Any]:
    yield Run(m.rng.randrange(20, 200))
    m.active |= 1 << thread.cpu
    m.events.hotplug(m.now, thread.cpu, thread, True)
    m.touch_all()
    yield Run(m.rng.randrange(5, 50))
    _done(m, caller, thread.cpu)
    yield Sleep(None)


def _down(m: Machine, thread: Task, caller: Task) -> Iterator[Any]:
    cpu = thread.cpu
    yield Run(m.rng.randrange(20, 200))
    m.events.hotplug(m.now, cpu, thread, False)
    m.active &= ~(1 << cpu)
    m.touch_all()
    m.stop(cpu, lambda: _push_away(m, cpu), cpu)
    yield Run(m.rng.randrange(200, 2_000))
    # stop_machine(): the stoppers of all CPUs hold still while the CPU leaves
    for c in cpus_of(m.online):
        if c != cpu:
            m.stop(c, lambda: None, cpu)
    m.after(m.rng.randrange(80, 300), _gone, m, cpu, caller)
    yield Sleep(None)


def _push_away(m: Machine, cpu: int) -> None:
    """Let the stopper move what waits on a dying CPU (__balance_push_cpu_stop(), kernel/sched/core.c, v6.12)."""
    for task in list(m.queue[cpu]):
        if not task.kthread:
            dest = m.rng.choice(cpus_of(fallback(m, task)))
            m.move(task, dest, cpu, m.stoppers[cpu], IN_SCHEDULE)
            m.spend(1)


def _gone(m: Machine, cpu: int, caller: Task) -> None:
    """The CPU executes nothing any more (take_cpu_down(), kernel/cpu.c)."""
    if m.current[cpu] is not None or m.queue[cpu]:
        m.stop(cpu, lambda: _push_away(m, cpu), cpu)
        m.after(m.rng.randrange(50, 200), _gone, m, cpu, caller)
        return
    m.online &= ~(1 << cpu)
    m.touch_all()
    _done(m, caller, m.rng.choice(cpus_of(m.online)))
