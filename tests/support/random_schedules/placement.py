"""Where a woken or new thread is put (select_task_rq() of the classes, kernel/sched/, v6.12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.random_schedules.tasks import FAIR, Task, cpus_of

if TYPE_CHECKING:
    from support.random_schedules.machine import Machine


def fallback(m: Machine, task: Task) -> int:
    """Return the CPUs that a thread may use; if none of them is left, it gets all others (select_fallback_rq(), core.c)."""
    usable = task.mask & m.active
    if not usable:
        task.mask = usable = m.active & ~m.isolated or m.active
        m.rebound.add(task.uid)
        m.touch(task.cpu)
    return usable


def woken(m: Machine, task: Task, by: int, sync: bool) -> int:
    """Choose a CPU for a thread that is woken."""
    if task.kthread and task.mask.bit_count() == 1:
        return task.cpu
    usable = fallback(m, task)
    if not task.fair:
        return _woken_first(m, task, usable)
    reach = _reach(m, task, usable)
    if sync and reach >> by & 1 and m.length(by) == 1 and m.rng.random() < 0.9:
        return by  # wake_affine_idle(): the waker is about to sleep
    idle = [c for c in cpus_of(reach) if m.current[c] is None and not m.queue[c]]
    if idle and m.rng.random() < m.quality.wake_idle:
        return task.cpu if task.cpu in idle else m.rng.choice(idle)
    if usable >> task.cpu & 1:
        return task.cpu
    return m.rng.choice(cpus_of(reach))


def new(m: Machine, task: Task, by: int) -> int:
    """Choose a CPU for a new thread, or one that calls exec: the least loaded one, or the caller's own."""
    usable = fallback(m, task)
    reach = _reach(m, task, usable)
    if m.rng.random() < m.quality.fork_idle:
        lengths = {c: m.length(c) for c in cpus_of(reach)}
        least = min(lengths.values())
        best = [c for c, n in lengths.items() if n == least]
        return by if by in best else m.rng.choice(best)
    return by if usable >> by & 1 else m.rng.choice(cpus_of(reach))


def _reach(m: Machine, task: Task, usable: int) -> int:
    """Return the CPUs that the fair class looks at: those of the thread's own domains."""
    here = 1 << task.cpu
    if m.isolated & here:
        return usable & here or usable
    side = m.quality.apart if m.quality.apart & here else ~m.quality.apart
    return usable & side & ~m.isolated or usable & ~m.isolated or usable


def _woken_first(m: Machine, task: Task, usable: int) -> int:
    """Choose for a real-time or deadline thread: where it was, unless such a thread runs there (select_task_rq_rt(), rt.c)."""
    if usable >> task.cpu & 1:
        current = m.current[task.cpu]
        if current is None or current.fair:
            return task.cpu
    best = lowest(m, task, usable)
    if best >= 0:
        return best
    return task.cpu if usable >> task.cpu & 1 else m.rng.choice(cpus_of(usable))


def lowest(m: Machine, task: Task, usable: int) -> int:
    """Return the CPU that runs the least important thread below this one; -1: none does (find_lowest_rq(), rt.c)."""
    best, found = min(task.rank, FAIR), -1
    for c in cpus_of(usable & ~m.isolated):
        current = m.current[c]
        queued = min((t.rank for t in m.queue[c] if m.runnable(t)), default=200)
        runs = min(200 if current is None else current.rank, queued)
        if runs > best:
            best, found = runs, c
    return found
