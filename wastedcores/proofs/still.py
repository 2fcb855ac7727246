"""A machine at one moment: CPUs with threads on their run queues, built in the reference from a few numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from wastedcores.kernels import KernelModel
from wastedcores.proofs.choices import Affinity, Choices
from wastedcores.simulator.reference import Kernel, schedule
from wastedcores.simulator.reference.core import Module
from wastedcores.simulator.reference.state import Rq, Task
from wastedcores.topology.domains import Domains, domain_events
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import grid

V6_12 = KernelModel.named("v6.12.107")
CORE = KernelModel.named("core")
#: the parts of which a machine of one level has several: ``grid()`` gets their number
ONE_LEVEL = {
    "one cache": "cores_per_llc",
    "one core": "threads",
    "a cache per CPU": "llcs_per_node",
    "a node per CPU": "nodes_per_package",
}
#: machines of four CPUs and two levels
TWO_LEVELS = {
    "2 cores of 2 threads": {"cores_per_llc": 2, "threads": 2},
    "2 caches of 2 CPUs": {"llcs_per_node": 2, "cores_per_llc": 2},
    "2 nodes of 2 CPUs": {"nodes_per_package": 2, "cores_per_llc": 2},
}
#: what a thread that never sleeps adds to its CPU's averages; one that has just woken adds nothing
FULL = 1024


@cache
def machine(kind: str, cpus: int) -> Machine:
    """Return a machine of :data:`ONE_LEVEL` or :data:`TWO_LEVELS`."""
    parts = {ONE_LEVEL[kind]: cpus} if kind in ONE_LEVEL else TWO_LEVELS[kind]
    return grid(kind, **parts)  # type: ignore[arg-type]


@cache
def _domains(kind: str, cpus: int, model: KernelModel) -> list[Domains]:
    return domain_events(machine(kind, cpus), model.linux)


def lengths(cpus: int, threads: int, at_least: int = 0) -> Iterator[tuple[int, ...]]:
    """Return the lengths of the run queues of ``cpus`` CPUs that hold at most ``threads`` threads and at least ``at_least``."""
    if cpus == 0:
        yield ()
        return
    for n in range(threads + 1):
        for rest in lengths(cpus - 1, threads - n):
            if n + sum(rest) >= at_least:
                yield (n, *rest)


@dataclass(frozen=True)
class Seen:
    """A state as a table of documents has it: for each CPU its threads, the running one first.

    A thread is written as the CPUs on which it may run, as far as that matters; ``~`` marks one that has just woken.
    """

    kind: str
    queues: tuple[tuple[str, ...], ...]
    note: str = ""

    def text(self) -> str:
        """Return ``CPU 0: idle; CPU 1: 1, 0+1``."""
        cpus = (f"CPU {c}: {', '.join(q) or 'idle'}" for c, q in enumerate(self.queues))
        return "; ".join(cpus) + self.note

    @property
    def size(self) -> tuple[int, int]:
        """The number of CPUs and of threads."""
        return len(self.queues), sum(map(len, self.queues))


class Still:
    """A kernel whose clock stands, with threads on its run queues.

    Parameters
    ----------
    choose
        Decides the affinities.
    kind, queues
        The machine, and the number of threads on each of its CPUs.
    model
        The kernel.
    light
        The numbers of the threads that have just woken, after a long sleep. All others never slept.
    hot
        Threads that wait ran a moment ago.
    modules
        For a design: its optimisation modules.
    """

    def __init__(
        self,
        choose: Choices,
        kind: str,
        queues: Sequence[int],
        model: KernelModel = V6_12,
        light: frozenset[int] = frozenset(),
        hot: bool = False,
        modules: Sequence[Module] = (),
    ) -> None:
        self.kind, self.choose, self.light = kind, choose, light
        self._made = (kind, tuple(queues), model, light, hot, modules)
        n = len(queues)
        k = self.k = Kernel(machine(kind, n), model, _domains(kind, n, model))
        if k.core is not None:
            k.core.modules = list(modules)
        k.attach_domains(k.trees[0], 0)
        k.newidle = "cost"  # the draw is a choice of the kernel, not of a state
        for rq in k.rqs:
            rq.cfs.avg.last_update = k.now_ns
            rq.idle_stamp = 1 + rq.cpu
            for sd in rq.sd:
                if sd.shared is not None:
                    sd.shared.nr_idle_scan = len(sd.span)
        self.tasks: list[Task] = []
        for cpu, length in enumerate(queues):
            for _ in range(length):
                self._queue(cpu, hot)
            k.cpu = cpu
            rq = k.rqs[cpu]
            if length:
                schedule.schedule(k, rq)
                #: the thread that ran longest ago is the last one
                rq.cfs_tasks = [
                    rq.curr,
                    *(p for p in self.tasks if p.cpu == cpu and p is not rq.curr),
                ]
        k.log.clear()
        k._queue.clear()
        k._pending.clear()
        for rq in k.rqs:
            self._average(rq)
            rq.cfs_tasks = rq.cfs_tasks[:]
        k.overload = any(n > 1 for n in queues)

    def again(self) -> Still:
        """Return the state as it was built, with the affinities that are decided by now."""
        other = Still(self.choose, *self._made)
        for mine, its in zip(self.tasks, other.tasks, strict=True):
            its.allowed = mine.allowed
        return other

    def sleeper(self, cpu: int, known: dict[int, bool] | None = None) -> Task:
        """Add a thread that sleeps and ran on ``cpu`` the last time."""
        k = self.k
        p = Task(100 + len(self.tasks), "thread", k.groups[0], frozenset(range(len(k.rqs))))
        p.allowed = Affinity(self.choose, len(k.rqs), {} if known is None else known)  # type: ignore[assignment]
        k.fair.set_task_rq(p, cpu)
        k.fair.task_fork(k, p)
        p.state = "S"
        p.recent_used_cpu = cpu
        self.tasks.append(p)
        return p

    def _queue(self, cpu: int, hot: bool) -> None:
        p, k = self.sleeper(cpu, {cpu: True}), self.k
        p.state = "R"
        k.fair.enqueue_task(k, k.rqs[cpu], p)
        p.se.exec_start = k.now_ns if hot else 0

    def _average(self, rq: Rq) -> None:
        """Set the load averages of a CPU and its threads: full if a thread has always run, 0 if it has just woken."""
        if not self.k.model.is_modern:
            return
        steady = [p for p in rq.cfs_tasks if self.number(p) not in self.light]
        for p in rq.cfs_tasks:
            share = FULL // len(steady) if p in steady else 0
            self._set(p.se.avg, FULL if p in steady else 0, share)
        self._set(rq.cfs.avg, FULL * len(steady), FULL if steady else 0)

    def _set(self, avg: Any, load: int, util: int) -> None:
        avg.load_avg = avg.runnable_avg = load
        avg.util_avg, avg.util_est, avg.last_update = util, 0, self.k.now_ns

    def number(self, p: Task) -> int:
        """Return the number of a thread."""
        return p.pid - 100

    # --- what there is ------------------------------------------------------------------------------------------------

    def is_idle(self, cpu: int) -> bool:
        """Tell whether a CPU has no thread."""
        return self.k.rqs[cpu].nr_running == 0

    def waiting(self) -> list[Task]:
        """Return the threads that wait; a thread alone on its CPU runs, or is about to."""
        crowded = (rq for rq in self.k.rqs if rq.nr_running > 1)
        return [p for rq in crowded for p in rq.cfs_tasks if p is not rq.curr]

    def queues(self) -> tuple[tuple[int, ...], ...]:
        """Return for each CPU the numbers of its threads, in the order of its list."""
        return tuple(tuple(self.number(p) for p in rq.cfs_tasks) for rq in self.k.rqs)

    def seen(self, queues: Sequence[Sequence[int]]) -> Seen:
        """Return these queues for a table."""
        return Seen(
            self.kind,
            tuple(
                tuple(
                    f"{self.tasks[i].allowed.text()}{'~' * (i in self.light)}"  # type: ignore[attr-defined]
                    for i in queue
                )
                for queue in queues
            ),
        )

    @property
    def stands_for(self) -> int:
        """The number of states with these queues that differ only in CPUs for which nobody asked."""
        out = 1
        for p in self.tasks:
            out <<= p.allowed.undecided  # type: ignore[attr-defined]
        return out
