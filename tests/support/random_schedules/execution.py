"""Carries out what the programs of threads ask for, while they run."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from support.random_schedules import affinity, hotplug, placement
from support.random_schedules.events import IN_INTERRUPT, IN_SCHEDULE
from support.random_schedules.programs import (
    Act,
    Bind,
    Exec,
    Fork,
    Plug,
    Run,
    SetAffinity,
    SetCpuset,
    Sleep,
    Wake,
)
from support.random_schedules.tasks import STOP, Task

if TYPE_CHECKING:
    from support.random_schedules.machine import Machine

#: what a thread computes after a call that made it wait, before its program goes on
AFTER_CALL_US = 4


def advance(m: Machine, task: Task) -> None:
    """Carry out a running thread's requests until it computes, sleeps, or was moved away."""
    cpu = task.cpu
    while True:
        request = next(task.program, None) if task.program else None
        if isinstance(request, Run):
            task.left = request.us
            m.start_timer(cpu)
            return
        task.left = AFTER_CALL_US
        if isinstance(request, Sleep):
            if not _sleep(m, task, request):
                continue
            return
        if request is None:
            _exit(m, task)
            return
        _call(m, task, request)
        if m.current[cpu] is not task:
            return
        if task.waits_for:
            m.schedule(cpu, "D")
            return
        m.spend(m.rng.randrange(1, 4))


def _call(m: Machine, task: Task, request: Any) -> None:
    cpu = task.cpu
    if isinstance(request, Wake):
        if request.task.state == "sleeping":
            m.wake(request.task, cpu, "d..3.", request.sync)
        else:
            request.task.owed += 1  # it finds the message before it sleeps
    elif isinstance(request, Fork):
        _fork(m, task, request)
    elif isinstance(request, Exec):
        _exec(m, task, request)
    elif isinstance(request, SetAffinity):
        chosen = [task] if request.chosen is None else request.chosen()
        task.program = chain(affinity.affinities(m, chosen, request.mask), task.program or ())
    elif isinstance(request, SetCpuset):
        changes = affinity.cpuset_changes(m, request.path, request.mask)
        task.program = chain(changes, task.program or ())
    elif isinstance(request, Bind):
        affinity.bind(m, task, request)
    elif isinstance(request, Plug):
        steps = hotplug.steps(m, request.cpu, request.online)
        task.program = chain(steps, task.program or ())
    elif isinstance(request, Act):
        request.action(task)
    else:
        raise TypeError(request)


def _sleep(m: Machine, task: Task, request: Sleep) -> bool:
    """Let a thread sleep; False: it was woken before it could."""
    if request.us is None and task.owed:
        task.owed -= 1
        return False
    if task.rank != STOP and m.rng.random() < m.late_wakes:
        # it is on its runqueue still, so ttwu_runnable() (kernel/sched/core.c, v6.12) only makes it runnable again
        by = m.rng.choice([c for c in range(m.cpus) if m.online >> c & 1])
        m.events.wakeup(m.now, by, m.current[by], IN_INTERRUPT, task, "sched_waking")
        m.events.wakeup(m.now, by, m.current[by], IN_INTERRUPT, task)
        m.spend(1)
        return False
    task.sleeps += 1
    if request.us is not None:
        m.after(request.us, m.timer_wake, task, task.sleeps)
    m.schedule(task.cpu, request.letter)
    return True


def _fork(m: Machine, parent: Task, request: Fork) -> None:
    child = m.add(
        parent.comm,
        parent.mask,
        cpu=parent.cpu,
        group=parent.group,
        cpuset=parent.cpuset,
        wanted=parent.wanted,
        program=request.program(),
        tgid=parent.tgid if request.thread else 0,
        vruntime=parent.vruntime,
    )
    child.left = AFTER_CALL_US
    m.events.fork(m.now, parent.cpu, parent, child)
    m.spend(m.rng.randrange(1, 5))
    m.wake(child, parent.cpu, IN_SCHEDULE, kind="sched_wakeup_new")


def _exec(m: Machine, task: Task, request: Exec) -> None:
    """Balance at exec (sched_exec(), kernel/sched/core.c, v6.12), then become the other program."""
    cpu = task.cpu
    dest = placement.new(m, task, cpu) if task.fair and m.length(cpu) > 1 else cpu

    def work() -> None:
        if task.state == "queued" and task.cpu == cpu and task.mask & m.active & 1 << dest:
            m.move(task, dest, cpu, m.stoppers[cpu], IN_SCHEDULE)

    def renamed() -> None:
        task.comm = request.comm
        m.events.exec(m.now, task.cpu, task)

    if dest == cpu:
        renamed()
        return
    task.program = _then(renamed, task.program)
    m.stop(cpu, work, cpu)
    m.schedule(cpu)


def _then(action: Any, program: Any) -> Any:
    """Act when the thread runs again, and go on with its program."""
    action()
    yield from program


def _exit(m: Machine, task: Task) -> None:
    cpu = task.cpu
    m.events.exit(m.now, cpu, task)
    m.spend(m.rng.randrange(2, 20))
    m.after(m.rng.randrange(100, 3_000), m.free_pids.append, task.pid)
    del m.tasks[task.uid]
    m.schedule(cpu, m.rng.choice("XZ"))
