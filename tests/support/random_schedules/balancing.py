"""Moves between runqueues: newidle, periodic and active balancing of the fair class; push and pull of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.random_schedules.events import IN_INTERRUPT, IN_SCHEDULE, IN_SOFTIRQ
from support.random_schedules.placement import lowest
from support.random_schedules.tasks import STOP, Task, cpus_of

if TYPE_CHECKING:
    from support.random_schedules.machine import Machine


def _movable(m: Machine, source: int, dest: int) -> list[Task]:
    """Return the waiting threads that balancing may take (can_migrate_task(), kernel/sched/fair.c, v6.12)."""
    bit = 1 << dest
    if m.isolated >> source & 1 or m.isolated & bit or not m.active & bit:
        return []
    if bool(m.quality.apart & bit) != bool(m.quality.apart >> source & 1):
        return []
    found = [
        t
        for t in m.queue[source]
        if t.fair
        and t.mask & bit
        and m.runnable(t)
        and not (t.group and t.group.throttled & bit)  # throttled_lb_pair()
    ]
    if m.current[source] is None:
        del found[:1]  # it is about to run there
    return found


def _busiest(m: Machine, dest: int, least: int) -> list[Task]:
    """Return what the longest other queue of at least this length can give."""
    order = sorted(range(m.cpus), key=lambda c: (-m.length(c), m.rng.random()))
    for source in order:
        if source != dest and m.length(source) >= least:
            movable = _movable(m, source, dest)
            if movable:
                return movable
    return []


def newidle(m: Machine, cpu: int, prev: Task | None) -> None:
    """Look for work when a CPU runs out of it (sched_balance_newidle(), kernel/sched/fair.c, v6.12)."""
    if m.rng.random() >= m.quality.newidle:
        return
    movable = _busiest(m, cpu, 2)
    if movable:
        m.spend(m.rng.randrange(1, 3))
        if movable[0].state == "queued" and movable[0].cpu != cpu:
            m.move(movable[0], cpu, cpu, prev, IN_SCHEDULE)


def ticked(m: Machine, cpu: int) -> None:
    """Balance at a busy CPU's tick, and send an idle CPU to balance for all idle ones (nohz_balancer_kick())."""
    if m.rng.random() < 0.25 and m.rng.random() < m.quality.periodic:
        movable = _busiest(m, cpu, m.length(cpu) + 2)
        if movable:
            m.move(movable[0], cpu, cpu, m.current[cpu], IN_SOFTIRQ)
    if m.length(cpu) >= 2 and m.rng.random() < m.quality.periodic:
        idle = [c for c in range(m.cpus) if m.current[c] is None and m.active >> c & 1]
        if idle:
            m.after(m.rng.randrange(2, 15), _idle_balance, m, m.rng.choice(idle))


def _idle_balance(m: Machine, cpu: int) -> None:
    """Balance for every idle CPU, as an action of one of them (_nohz_idle_balance(), kernel/sched/fair.c, v6.12)."""
    for dest in sorted(range(m.cpus), key=lambda c: c == cpu):
        if m.current[dest] is None and not m.length(dest) and m.active >> dest & 1:
            movable = _busiest(m, dest, 2)
            if movable and m.online >> cpu & 1:
                m.move(movable[0], dest, cpu, m.current[cpu], IN_SOFTIRQ)
                m.spend(1)


def active(m: Machine, source: int, dest: int) -> None:
    """Let the stopper move a running thread to an idle CPU (active_load_balance_cpu_stop(), kernel/sched/fair.c, v6.12)."""

    def work() -> None:
        movable = _movable(m, source, dest)
        if movable and m.current[dest] is None:
            m.move(movable[-1], dest, source, m.stoppers[source], IN_SCHEDULE)

    m.stop(source, work, dest)


def push(m: Machine, cpu: int) -> None:
    """Send waiting real-time and deadline threads where less important ones run (push_rt_tasks(), kernel/sched/rt.c, v6.12)."""
    current = m.current[cpu]
    if current is None:
        return
    for task in [t for t in m.queue[cpu] if not t.fair and t.rank != STOP]:
        if task.rank < min(current.rank, 100) or not m.runnable(task):
            continue  # it runs next
        dest = lowest(m, task, task.mask & m.active & ~(1 << cpu))
        if dest >= 0:
            m.move(task, dest, cpu, current, IN_INTERRUPT)


def pull(m: Machine, cpu: int, prev: Task | None) -> None:
    """Fetch a waiting real-time or deadline thread when the last one here stopped (pull_rt_task(), kernel/sched/rt.c, v6.12)."""
    if m.isolated >> cpu & 1 or not m.active >> cpu & 1:
        return
    found = [
        t
        for c in range(m.cpus)
        if c != cpu and m.current[c] is not None and not m.isolated >> c & 1
        for t in m.queue[c]
        if not t.fair and t.rank != STOP and t.mask >> cpu & 1 and m.runnable(t)
    ]
    found = [t for t in found if (r := m.current[t.cpu]) is not None and t.rank >= min(r.rank, 100)]
    if found:
        m.move(min(found, key=lambda t: t.rank), cpu, cpu, prev, IN_SCHEDULE)


def candidates(m: Machine) -> list[tuple[int, int]]:
    """Return pairs of a CPU with a fair running thread and an idle CPU, for active balancing."""
    busy = [c for c in range(m.cpus) if (t := m.current[c]) is not None and t.fair]
    idle = [c for c in cpus_of(m.active & ~m.isolated) if m.current[c] is None and not m.queue[c]]
    return [(s, d) for s in busy for d in idle]
