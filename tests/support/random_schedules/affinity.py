"""``sched_setaffinity()``, cpusets, and the stopper that moves a running thread (kernel/sched/core.c, v6.12)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from support.random_schedules.events import IN_SCHEDULE
from support.random_schedules.programs import Bind
from support.random_schedules.tasks import DEADLINE, Task, cpus_of

if TYPE_CHECKING:
    from support.random_schedules.machine import Machine


def affinities(m: Machine, tasks: list[Task], mask: int) -> Iterator[Bind]:
    """Bind threads one after the other (sched_setaffinity(), kernel/sched/syscalls.c, v6.12).

    A deadline thread refuses. A mask is cut to the thread's cpuset.
    """
    for task in tasks:
        allowed = mask & m.cpusets.get(task.cpuset, m.all)
        if task.rank != DEADLINE and allowed and not task.kthread:
            task.wanted = mask
            yield Bind(task, allowed)


def cpuset_changes(m: Machine, path: str, mask: int) -> Iterator[Bind]:
    """Give a cpuset other CPUs (cpuset_update_tasks_cpumask(), kernel/cgroup/cpuset.c, v6.12).

    Since v6.2 a thread keeps the part of its own affinity that the cpuset has; if there is none, it gets the whole cpuset.
    """
    m.cpusets[path] = mask
    for task in [t for t in m.tasks.values() if t.cpuset == path and t.rank != DEADLINE]:
        own = m.all if task.wanted is None else task.wanted
        yield Bind(task, mask & own or mask)


def bind(m: Machine, caller: Task, request: Bind) -> None:
    """Change the mask, and move the thread if it is elsewhere (affine_move_task(), kernel/sched/core.c, v6.12)."""
    task, mask = request.task, request.mask
    if mask == task.mask or task.state == "dead":
        return
    task.mask = mask
    m.rebound.add(task.uid)
    m.touch(task.cpu)
    usable = mask & m.active
    if usable >> task.cpu & 1 or not usable or task.state == "sleeping":
        return  # a sleeping thread gets another CPU when it is woken
    dest = m.rng.choice(cpus_of(usable))
    if task.state == "queued":
        m.move(task, dest, caller.cpu, caller, IN_SCHEDULE)
        return
    source = task.cpu
    if caller is not task:
        caller.waits_for += 1  # for the stopper's completion

    def work() -> None:
        """Move the thread if it still waits where it may not be (migration_cpu_stop())."""
        if task.state == "queued" and task.cpu == source and not task.mask >> source & 1:
            choice = cpus_of(task.mask & m.active)
            if choice:
                to = dest if dest in choice else m.rng.choice(choice)
                m.move(task, to, source, m.stoppers[source], IN_SCHEDULE)
        if caller is not task:
            caller.waits_for -= 1
            if not caller.waits_for:
                m.wake(caller, source, IN_SCHEDULE)

    m.stop(source, work, caller.cpu)
    if caller is task:
        m.schedule(source)  # preempted in the kernel by the stopper
