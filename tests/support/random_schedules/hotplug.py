"""Taking a CPU offline and bringing it back (kernel/cpu.c and sched_cpu_deactivate(), kernel/sched/core.c, v6.12).

The caller goes through steps, and sleeps in each until a thread of the CPU has done its part. The threads that belong to the CPU
park (state P): ksoftirqd, then the hotplug thread, and in the end the stopper, after which the CPU executes nothing any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from support.random_schedules.events import IN_INTERRUPT, IN_SCHEDULE
from support.random_schedules.placement import fallback
from support.random_schedules.programs import Act, Run, Sleep
from support.random_schedules.tasks import Task, cpus_of

if TYPE_CHECKING:
    from support.random_schedules.machine import Machine


def steps(m: Machine, cpu: int, online: bool) -> Iterator[Act]:
    """Return what a thread has to do that changes the state of a CPU; the last CPU stays."""
    if bool(m.active >> cpu & 1) == online or (not online and m.active.bit_count() == 1):
        return
    if online:
        yield Act(lambda caller: _bring_up(m, cpu, caller))
        return
    thread = m.hotplug_threads[cpu]
    yield Act(lambda caller: _start(m, thread, _down(m, thread, caller), caller))
    yield Act(lambda caller: _start(m, thread, _park(m, caller, cpu), caller))
    yield Act(lambda caller: _take_down(m, cpu, caller))


def _start(m: Machine, thread: Task, program: Iterator[Any], caller: Task) -> None:
    """Let a thread of the CPU do its part, and let the caller wait."""
    thread.program = program
    thread.left = 3
    caller.waits_for += 1
    m.wake(thread, caller.cpu, IN_SCHEDULE)


def _done(m: Machine, caller: Task, by: int) -> None:
    caller.waits_for -= 1
    m.wake(caller, by, IN_SCHEDULE)


def _park(m: Machine, waiting: Task, cpu: int) -> Iterator[Any]:
    """Tell the one who waits, and park (__kthread_parkme(), kernel/kthread.c, v6.12)."""
    yield Run(2)
    _done(m, waiting, cpu)
    yield Sleep(None, "P")


def _down(m: Machine, thread: Task, caller: Task) -> Iterator[Any]:
    """Stop to use the CPU, as its hotplug thread (cpuhp_thread_fun())."""
    cpu = thread.cpu
    yield Run(m.rng.randrange(20, 200))
    m.events.hotplug(m.now, cpu, thread, False)
    m.active &= ~(1 << cpu)
    m.touch_all()
    m.stop(cpu, lambda: _push_away(m, cpu), cpu)
    yield Run(m.rng.randrange(200, 2_000))
    if m.softirq_threads:  # smpboot_park_threads()
        softirqs = m.softirq_threads[cpu]
        softirqs.program = chain(_park(m, thread, cpu), softirqs.program or ())
        thread.waits_for += 1
        m.wake(softirqs, cpu, IN_SCHEDULE)
        if thread.waits_for:
            yield Sleep(None, "D")
    yield Run(m.rng.randrange(10, 60))
    _done(m, caller, cpu)
    yield Sleep(None)


def _push_away(m: Machine, cpu: int) -> None:
    """Let the stopper move what waits on a dying CPU (__balance_push_cpu_stop(), kernel/sched/core.c, v6.12)."""
    for task in list(m.queue[cpu]):
        if not task.kthread:
            dest = m.rng.choice(cpus_of(fallback(m, task)))
            m.move(task, dest, cpu, m.stoppers[cpu], IN_SCHEDULE)
            m.spend(1)


def _take_down(m: Machine, cpu: int, caller: Task) -> None:
    """Stop the machine; the stoppers of all CPUs hold still while the CPU leaves (takedown_cpu(), take_cpu_down())."""
    caller.waits_for += 1
    for c in cpus_of(m.online):
        if c != cpu:
            m.stop(c, lambda: None, caller.cpu)

    def leave() -> None:
        _push_away(m, cpu)
        m.parked |= 1 << cpu  # stop_machine_park()
        m.after(20, _gone, m, cpu, caller)

    m.stop(cpu, leave, caller.cpu)


def _gone(m: Machine, cpu: int, caller: Task) -> None:
    """The CPU executes nothing any more once its last thread is out of the way."""
    if m.current[cpu] is not None or m.queue[cpu]:
        if any(not t.kthread for t in m.queue[cpu]):
            m.stop(cpu, lambda: _push_away(m, cpu), cpu)
        m.after(m.rng.randrange(20, 100), _gone, m, cpu, caller)
        return
    m.online &= ~(1 << cpu)
    m.touch_all()
    _done(m, caller, m.rng.choice(cpus_of(m.online)))


def _bring_up(m: Machine, cpu: int, caller: Task) -> None:
    """Start the CPU: its idle thread unparks the stopper, and the caller the hotplug thread (bringup_cpu())."""
    m.online |= 1 << cpu
    m.parked &= ~(1 << cpu)
    m.touch(cpu)
    m.wake(m.stoppers[cpu], cpu, IN_INTERRUPT)
    m.spend(m.rng.randrange(10, 50))
    thread = m.hotplug_threads[cpu]
    _start(m, thread, _up(m, thread, caller), caller)


def _up(m: Machine, thread: Task, caller: Task) -> Iterator[Any]:
    cpu = thread.cpu
    yield Run(m.rng.randrange(20, 200))
    if m.softirq_threads:  # smpboot_unpark_threads()
        m.wake(m.softirq_threads[cpu], cpu, IN_SCHEDULE)
    yield Run(m.rng.randrange(20, 200))
    m.active |= 1 << cpu
    m.events.hotplug(m.now, cpu, thread, True)
    m.touch_all()
    yield Run(m.rng.randrange(5, 50))
    _done(m, caller, cpu)
    yield Sleep(None)
