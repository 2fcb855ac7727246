"""The creation of threads, as the scheduler sees it: the creator and the new threads contend for one semaphore.

The first page faults of a new thread compete for mmap_sem with the creator, which calls mmap() for the next stack and
mprotect() for its guard page. The thread starts on the CPU that fork balancing chose, sleeps after a few us, and is woken
by the creator, which may pull it into the creator's LLC. Or the creator sleeps and is woken on the node of the thread.
Without this contention, threads would start where fork balancing placed them. The times (20 to 28 us per thread) were
measured on the recordings.
"""

from __future__ import annotations

from wastedcores.workload import ops
from wastedcores.workload.builder import Workload
from wastedcores.workload.script import Script

_US = 1_000
_JUMPS = (ops.OP_LOOP, ops.OP_LOOP_BARRIER)


class Creation:
    """A process that creates threads."""

    def __init__(self, w: Workload) -> None:
        self._workload = w
        self._mmap_sem = w.lock()

    def template(self, comm: str, body: Script, daemon: bool = False) -> int:
        """Make a template for a thread: its first page faults, then its work, and the release of its stack."""
        thread = Script().touch().compute(1 * _US, 3 * _US)
        for _ in range(2):
            thread.lock(self._mmap_sem, "block", shared=True).compute(1 * _US, 4 * _US)
            thread.unlock(self._mmap_sem, shared=True).compute(8 * _US, 25 * _US)
        thread.rows += [
            (op, a + len(thread.rows) if op in _JUMPS else a, *rest) for op, a, *rest in body.rows
        ]
        return self._workload.template(comm, thread.touch(), daemon=daemon)

    def create(self, creator: Script, template: int) -> Script:
        """Add one pthread_create() to a script."""
        creator.lock(self._mmap_sem, "block").compute(4 * _US, 6 * _US).unlock(self._mmap_sem)
        creator.compute(500, 1_500)
        creator.lock(self._mmap_sem, "block").compute(1 * _US, 2 * _US).unlock(self._mmap_sem)
        return (
            creator.compute(8 * _US, 12 * _US)
            .touch()
            .fork(template, thread=True)
            .compute(500, 4_500)
        )
