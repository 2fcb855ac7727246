"""Barriers, locks and semaphores; waiters spin, block, or spin first and then block (docs/replay-semantics.md, section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.errors import WorkloadError
from wastedcores.simulator.reference.kernel import EPOCH_NS
from wastedcores.simulator.reference.programs import FOREVER
from wastedcores.simulator.reference.state import Task
from wastedcores.workload import ops

if TYPE_CHECKING:
    from wastedcores.simulator.reference.simulation import Simulation


def wait(sim: Simulation, p: Task, what: tuple[str, int], mode: int, limit: int) -> None:
    """Begin to wait: spin, block, or spin for ``limit`` ns and then block."""
    p.progress.waits_for = what
    if mode == ops.MODE_BLOCK:
        sim.block(p)
    else:
        p.progress.spinning = True
        p.progress.left = limit if mode == ops.MODE_SPIN_BLOCK else FOREVER


def grant(sim: Simulation, p: Task, by: Task) -> None:
    """Give ``p`` what it waited for: a spinner notices after ``spin_ns``, a sleeper joins the wake queue of the task ``by``."""
    run = p.progress
    run.waits_for = None
    if not run.spinning:
        by.progress.wake_queue.append(p)
        return
    run.spinning = False
    run.left = sim.k.costs.spin_ns
    if sim.is_running(p):
        sim.start_stretch(p, 0)


def arrive(sim: Simulation, p: Task, number: int, mode: int, limit: int, deadline: int) -> None:
    """Arrive at a barrier; the last task to arrive releases the others. After ``deadline`` ns the barrier stops its loops."""
    barrier = sim.barriers[number]
    if len(barrier.waiters) + 1 < barrier.parties:
        barrier.waiters.append(p)
        wait(sim, p, ("barrier", number), mode, limit)
        return
    free, barrier.waiters = barrier.waiters, []
    for waiter in free:
        grant(sim, waiter, p)
    if deadline >= 0 and sim.k.now_ns >= sim.start_ns + deadline:
        barrier.stopped = True


def lock(sim: Simulation, p: Task, number: int, mode: int, limit: int, shared: bool) -> bool:
    """Take a lock and return True, or begin to wait and return False. A woken sleeper executes the row again."""
    it = sim.locks[number]
    if it.owner is None and (shared or not it.readers):
        if shared:
            it.readers += 1
        else:
            it.owner = p
        return True
    it.waiters.append(p)
    wait(sim, p, ("lock", number), mode, limit)
    return False


def unlock(sim: Simulation, p: Task, number: int, shared: bool) -> None:
    """Release a lock.

    It goes to the first waiter that is spinning on a CPU at this moment. Otherwise the first sleeper is woken and tries
    again. Sleepers next to each other that want to share the lock get it at once and are woken together, as readers of an
    rw_semaphore are.
    """
    it = sim.locks[number]
    if not it.readers if shared else it.owner is not p:
        owner = it.owner.comm if it.owner else "nobody"
        raise WorkloadError(
            f"task {p.comm!r} (pid {p.pid}) unlocks lock {number} at {(sim.k.now_ns - EPOCH_NS) / 1e9:.6f} s, but "
            f"{owner} holds it; every unlock needs a lock by the same task."
        )
    if shared:
        it.readers -= 1
        if it.readers:
            return
    it.owner = None
    for waiter in it.waiters:
        if waiter.progress.spinning and sim.is_running(waiter):
            it.waiters.remove(waiter)
            it.owner = waiter
            waiter.progress.pc += 1
            grant(sim, waiter, p)
            return
    for waiter in it.waiters[:]:
        if not waiter.progress.spinning:
            following = it.waiters[it.waiters.index(waiter) + 1 :]
            it.waiters.remove(waiter)
            if not _shares(waiter):
                grant(sim, waiter, p)
                return
            it.readers += 1
            waiter.progress.pc += 1
            grant(sim, waiter, p)
            if not following or not _shares(following[0]):
                return


def _shares(p: Task) -> bool:
    """Tell whether ``p`` waits in a lock operation that shares the lock."""
    return bool(p.progress.spec.rows[p.progress.pc][4])


def spinner_switched_in(sim: Simulation, p: Task) -> None:
    """Let a spinner that comes back to a CPU take its lock if it is free by now."""
    run = p.progress
    if not run.spinning or run.waits_for is None or run.waits_for[0] != "lock":
        return
    it = sim.locks[run.waits_for[1]]
    if it.owner is None and not it.readers:
        it.waiters.remove(p)
        it.owner = p
        run.pc += 1
        run.waits_for, run.spinning, run.left = None, False, sim.k.costs.spin_ns


def post(sim: Simulation, p: Task, number: int, units: int) -> None:
    """Raise a semaphore by ``units``: each unit goes to the first waiter, or into the counter if there is none."""
    it = sim.semaphores[number]
    for _ in range(units):
        if it.waiters:
            grant(sim, it.waiters.pop(0), p)
        else:
            it.value += 1


def wait_semaphore(sim: Simulation, p: Task, number: int, mode: int, limit: int) -> None:
    """Lower a semaphore, or begin to wait for a unit."""
    it = sim.semaphores[number]
    if it.value > 0:
        it.value -= 1
        return
    it.waiters.append(p)
    wait(sim, p, ("semaphore", number), mode, limit)
