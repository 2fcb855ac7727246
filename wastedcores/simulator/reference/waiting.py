"""Barriers, locks and semaphores, each spinning, blocking or both (docs/replay-semantics.md, section 4)."""

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
    """Begin to wait: spin, block, or spin ``limit`` ns first."""
    p.program.waits_for = what
    if mode == ops.MODE_BLOCK:
        sim.block(p)
    else:
        p.program.spinning = True
        p.program.left = limit if mode == ops.MODE_SPIN_BLOCK else FOREVER


def grant(sim: Simulation, p: Task, by: Task) -> None:
    """``p`` has what it waited for: a spinner notices soon, a sleeper joins the granter's wake queue."""
    run = p.program
    run.waits_for = None
    if not run.spinning:
        by.program.wake_queue.append(p)
        return
    run.spinning = False
    run.left = sim.k.costs.spin_ns
    if sim.is_running(p):
        sim.start_stretch(p, 0)


def arrive(sim: Simulation, p: Task, number: int, mode: int, limit: int, deadline: int) -> None:
    """BARRIER."""
    barrier = sim.barriers[number]
    if len(barrier.waiters) + 1 < barrier.parties:
        barrier.waiters.append(p)
        wait(sim, p, ("barrier", number), mode, limit)
        return
    free, barrier.waiters = barrier.waiters, []
    for waiter in free:
        grant(sim, waiter, p)
    barrier.generation += 1
    if deadline >= 0 and sim.k.now_ns >= sim.start_ns + deadline:
        barrier.stopped = True


def lock(sim: Simulation, p: Task, number: int, mode: int, limit: int, shared: bool) -> bool:
    """LOCK: True if taken; a sleeper that was woken tries again."""
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
    """UNLOCK: to the first spinner that is on a CPU now, else wake the first sleeper, who tries again.

    Sleepers that share it are woken together and have it at once, as readers of a rw_semaphore.
    """
    it = sim.locks[number]
    if not it.readers if shared else it.owner is not p:
        owner = it.owner.comm if it.owner else "nobody"
        raise WorkloadError(
            f"task {p.comm!r} (pid {p.pid}) unlocks lock {number} at {(sim.k.now_ns - EPOCH_NS) / 1e9:.6f} s, but "
            f"{owner} holds it; every unlock needs a lock by the same task"
        )
    if shared:
        it.readers -= 1
        if it.readers:
            return
    it.owner = None
    for waiter in it.waiters:
        if waiter.program.spinning and sim.is_running(waiter):
            it.waiters.remove(waiter)
            it.owner = waiter
            waiter.program.pc += 1
            grant(sim, waiter, p)
            return
    for waiter in it.waiters[:]:
        if not waiter.program.spinning:
            following = it.waiters[it.waiters.index(waiter) + 1 :]
            it.waiters.remove(waiter)
            if not _shares(waiter):
                grant(sim, waiter, p)
                return
            it.readers += 1
            waiter.program.pc += 1
            grant(sim, waiter, p)
            if not following or not _shares(following[0]):
                return


def _shares(p: Task) -> bool:
    """Whether the lock operation ``p`` waits in is a shared one."""
    return bool(p.program.spec.rows[p.program.pc][4])


def spinner_switched_in(sim: Simulation, p: Task) -> None:
    """A spinner that comes back to a CPU looks at its lock again."""
    run = p.program
    if not run.spinning or run.waits_for is None or run.waits_for[0] != "lock":
        return
    it = sim.locks[run.waits_for[1]]
    if it.owner is None and not it.readers:
        it.waiters.remove(p)
        it.owner = p
        run.pc += 1
        run.waits_for, run.spinning, run.left = None, False, sim.k.costs.spin_ns


def post(sim: Simulation, p: Task, number: int, units: int) -> None:
    """POST."""
    it = sim.semaphores[number]
    for _ in range(units):
        if it.waiters:
            grant(sim, it.waiters.pop(0), p)
        else:
            it.value += 1


def wait_semaphore(sim: Simulation, p: Task, number: int, mode: int, limit: int) -> None:
    """WAIT."""
    it = sim.semaphores[number]
    if it.value > 0:
        it.value -= 1
        return
    it.waiters.append(p)
    wait(sim, p, ("semaphore", number), mode, limit)
