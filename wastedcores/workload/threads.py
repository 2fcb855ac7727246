"""pthread_create() n times, as the scheduler sees it: a dance of creator and children on one semaphore.

The new thread's first page faults meet the creator's mmap() for the next stack and mprotect() of its guard page
(mmap_sem): the thread starts where fork put it, sleeps after a few us and is woken by the creator, which can pull it
into the creator's LLC; or the creator sleeps, and is woken on the thread's node. Without this threads would begin
where only fork balancing put them. Times (20-28 us a thread) were read off the recordings.
"""

from __future__ import annotations

from wastedcores.workload import ops
from wastedcores.workload.builder import Workload
from wastedcores.workload.script import Script

_US = 1_000
_JUMPS = (ops.OP_LOOP, ops.OP_LOOP_BARRIER)


class Creation:
    """One process that creates threads.

    Parameters
    ----------
    w
        Workload that the process is part of; gets a lock, its mmap_sem.
    """

    def __init__(self, w: Workload) -> None:
        self._workload = w
        self._mmap_sem = w.lock()

    def template(self, comm: str, body: Script, daemon: bool = False) -> int:
        """A thread to create: its first page faults, then its own work, and its stack is given back."""
        thread = Script().touch().compute(1 * _US, 3 * _US)
        for _ in range(2):
            thread.lock(self._mmap_sem, "block", shared=True).compute(1 * _US, 4 * _US)
            thread.unlock(self._mmap_sem, shared=True).compute(8 * _US, 25 * _US)
        thread.rows += [
            (op, a + len(thread.rows) if op in _JUMPS else a, *rest) for op, a, *rest in body.rows
        ]
        return self._workload.template(comm, thread.touch(), daemon=daemon)

    def create(self, creator: Script, template: int) -> Script:
        """Add one pthread_create() to the creator's script."""
        creator.lock(self._mmap_sem, "block").compute(4 * _US, 6 * _US).unlock(self._mmap_sem)
        creator.compute(500, 1_500)
        creator.lock(self._mmap_sem, "block").compute(1 * _US, 2 * _US).unlock(self._mmap_sem)
        return (
            creator.compute(8 * _US, 12 * _US)
            .touch()
            .fork(template, thread=True)
            .compute(500, 4_500)
        )
