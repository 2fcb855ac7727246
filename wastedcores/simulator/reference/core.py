"""The core module of a design: it keeps every core busy and asks optimisation modules for suggestions (paper, section 5).

It keeps one rule: after every event, no CPU is idle while a thread waits that may run there. It acts at four moments: a
thread becomes runnable (:meth:`Core.place`), a CPU runs out of work (:meth:`Core.pull`), a CPU ticks
(:meth:`Core.tick`), or a thread has begun to wait while a CPU is idle (:meth:`Core.settle`). At each moment it asks its
modules in order and takes the first suggestion that keeps the rule. All other suggestions are refused and logged.
docs/design-mode.md describes all of it; wastedcores/simulator/engine/design follows the same text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wastedcores.simulator.reference import balance, nohz
from wastedcores.simulator.reference.answers import answer, warn_of_absent_cpu
from wastedcores.simulator.reference.state import Rq, Task
from wastedcores.simulator.vocabulary import REFUSALS

if TYPE_CHECKING:
    from wastedcores.simulator.reference.kernel import Kernel

#: the suggestion of a module that a CPU without work should stay idle
REST = -2
#: the reasons for which a suggestion is refused
WASTEFUL, IMPOSSIBLE = REFUSALS


class Module:
    """An optimisation module. It may answer any of three questions; the answer None means that it has no opinion.

    Subclass it, override one method, and pass an instance to ``Kernel(..., modules=[YourModule()])``.
    """

    name = "module"

    def suggest_cpu(self, k: Kernel, p: Task, waker_cpu: int, why: str) -> int | None:
        """Suggest the CPU on which a task that becomes runnable should run.

        Parameters
        ----------
        k
            The kernel.
        p
            The task; ``p.cpu`` is the CPU on which it ran last.
        waker_cpu
            The CPU on which it is woken or forked.
        why
            ``wakeup``, ``fork``, ``exec`` or ``handover``.

        Returns
        -------
        int or None
            A CPU; None for no opinion.
        """

    def suggest_source(self, k: Kernel, cpu: int) -> int | None:
        """Suggest the CPU from which a CPU without work should take a thread, when threads wait elsewhere.

        Parameters
        ----------
        k
            The kernel.
        cpu
            The CPU that ran out of work.

        Returns
        -------
        int or None
            A CPU; :data:`REST` to stay idle; None for no opinion.
        """

    def suggest_pull(self, k: Kernel, cpu: int) -> int | None:
        """Suggest the CPU from which a busy CPU should take a waiting thread at its tick.

        Parameters
        ----------
        k
            The kernel.
        cpu
            The CPU that ticks.

        Returns
        -------
        int or None
            A CPU; None for no opinion.
        """


class Core:
    """The core module.

    Parameters
    ----------
    modules
        Optimisation modules, in the order in which they are asked.
    near
        For each CPU all CPUs, ordered by nearness: itself, its core, its LLC, its node, then the other nodes by distance.

    Attributes
    ----------
    counts
        Number of suggestions by module, moment, and ``silent``, ``taken`` or ``refused``.
    sync
        The wakeup in progress is a synchronous one: the waker is about to sleep.
    """

    def __init__(self, modules: Sequence[Module], near: list[list[int]]) -> None:
        self.modules, self.near = list(modules), near
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.sync = False

    # --- the rule -----------------------------------------------------------------------------------------------------

    @staticmethod
    def is_idle(k: Kernel, cpu: int) -> bool:
        """Tell whether a CPU is online and its run queue is empty."""
        return cpu in k.active and k.rqs[cpu].nr_running == 0

    def is_free(self, k: Kernel, p: Task, cpu: int) -> bool:
        """Tell whether ``p`` would run on a CPU at once: the CPU is idle, or ``p`` runs there alone (exec)."""
        rq = k.rqs[cpu]
        return self.is_idle(k, cpu) or (rq.curr is p and rq.nr_running == 1)

    def nearest_free(self, k: Kernel, p: Task) -> int:
        """Return the free CPU nearest to the last CPU of ``p``, or -1 if no CPU is free for it."""
        for cpu in self.near[p.cpu]:
            if cpu in p.allowed and self.is_free(k, p, cpu):
                return cpu
        return -1

    def shortest_queue(self, k: Kernel, p: Task) -> int:
        """Return the CPU with the shortest queue on which ``p`` may run, of equal ones the nearest, or -1."""
        best = -1
        for cpu in self.near[p.cpu]:
            if (
                cpu in p.allowed
                and cpu in k.active
                and (best < 0 or k.rqs[cpu].nr_running < k.rqs[best].nr_running)
            ):
                best = cpu
        return best

    @staticmethod
    def waiting_thread(k: Kernel, src: int, cpu: int) -> Task | None:
        """Return the thread that has waited longest on ``src`` and may run on ``cpu``, or None."""
        rq = k.rqs[src]
        if rq.nr_running < 2 or src == cpu:
            return None
        for p in reversed(rq.cfs_tasks):
            if p is not rq.curr and cpu in p.allowed:
                return p
        return None

    # --- the moments --------------------------------------------------------------------------------------------------

    def place(self, k: Kernel, p: Task, why: str, waker_cpu: int, free: int) -> int:
        """Choose a CPU for ``p``; ``free`` is the nearest free CPU or -1. Only if no CPU is free may ``p`` have to wait."""
        for module in self.modules:
            cpu = answer(module.suggest_cpu, k, p, waker_cpu, why)
            if cpu is None:
                self.counts[module.name, why, "silent"] += 1
            elif cpu not in p.allowed or cpu not in k.active:
                if (
                    cpu != p.cpu
                ):  # the CPU where a thread ran last is a fair suggestion, even if it went offline since
                    warn_of_absent_cpu(module, "suggest_cpu", cpu, k)
                self._refuse(k, module, why, IMPOSSIBLE, cpu, p.cpu, p.pid)
            elif free >= 0 and not self.is_free(k, p, cpu):
                self._refuse(k, module, why, WASTEFUL, cpu, p.cpu, p.pid)
            else:
                self.counts[module.name, why, "taken"] += 1
                return cpu
        if free >= 0:
            return free
        return p.cpu if why == "exec" else self.shortest_queue(k, p)

    def select_task_rq(
        self, k: Kernel, p: Task, prev_cpu: int, flag: str, cpu: int, sync: bool
    ) -> int:
        """Choose a CPU for a task that becomes runnable; the parameters are those of ``Kernel.select_task_rq``."""
        self.sync = sync
        why = "wakeup" if flag == "wake" else flag
        return self.place(k, p, why, cpu, self.nearest_free(k, p))

    def pull(self, k: Kernel, rq: Rq) -> bool:
        """Take a waiting thread for a CPU that ran out of work; return True if it has a thread now."""
        rq.idle_stamp = k.now_ns
        src, p = -1, None
        if rq.cpu in k.active:
            for src in self.near[rq.cpu]:
                p = self.waiting_thread(k, src, rq.cpu)
                if p is not None:
                    break
        if p is None:
            return False
        for module in self.modules:
            suggested = answer(module.suggest_source, k, rq.cpu)
            if suggested is None:
                self.counts[module.name, "newidle", "silent"] += 1
            elif suggested == REST:
                self._refuse(k, module, "newidle", WASTEFUL, rq.cpu, src, p.pid)
            else:
                found = self._waiting(k, suggested, rq.cpu)
                if found is not None:
                    self.counts[module.name, "newidle", "taken"] += 1
                    src, p = suggested, found
                    break
                warn_of_absent_cpu(module, "suggest_source", suggested, k)
                self._refuse(k, module, "newidle", IMPOSSIBLE, rq.cpu, suggested, p.pid)
        self._move(k, p, rq, "newidle")
        rq.idle_stamp = 0
        return True

    def tick(self, k: Kernel, rq: Rq) -> None:
        """Take a waiting thread at the tick of a busy CPU if a module suggests it."""
        nohz.update_blocked_averages(k, rq)
        for module in self.modules:
            src = answer(module.suggest_pull, k, rq.cpu)
            if src is None:
                self.counts[module.name, "periodic", "silent"] += 1
                continue
            p = self._waiting(k, src, rq.cpu)
            if p is not None:
                self.counts[module.name, "periodic", "taken"] += 1
                self._move(k, p, rq, "periodic")
                return
            warn_of_absent_cpu(module, "suggest_pull", src, k)
            self._refuse(k, module, "periodic", IMPOSSIBLE, rq.cpu, src, -1)

    def settle(self, k: Kernel) -> None:
        """Hand over every thread that waits although a CPU on which it may run is idle.

        This is called after each event. Such a thread exists after a preemption, if the preempted thread may run on CPUs
        on which its neighbours on the queue may not run. It also exists after a CPU came online, and after a thread had to
        leave a CPU that it may no longer use.
        """
        if not any(self.is_idle(k, rq.cpu) for rq in k.rqs):
            return
        for rq in k.rqs:
            if rq.nr_running < 2:
                continue
            for p in reversed(rq.cfs_tasks.copy()):
                if p is rq.curr or rq.nr_running < 2:
                    continue
                free = self.nearest_free(k, p)
                if free >= 0:
                    target = self.place(k, p, "handover", rq.cpu, free)
                    self._move(k, p, k.rqs[target], "handover")

    # --- what it does -------------------------------------------------------------------------------------------------

    def _waiting(self, k: Kernel, src: int, cpu: int) -> Task | None:
        """Find a thread as :meth:`waiting_thread` does, on a CPU that a module named and that need not exist."""
        if not 0 <= src < len(k.rqs):
            return None
        return self.waiting_thread(k, src, cpu)

    def _move(self, k: Kernel, p: Task, dst: Rq, op: str) -> None:
        """Move a queued thread to another CPU and log it."""
        src = p.cpu
        k.log_op = op
        k.fair.dequeue_task(k, k.rqs[src], p, sleep=False)
        k.set_task_cpu(p, dst.cpu)
        balance.attach_task(k, dst, p)
        k.log_balance(dst.cpu, src, op, 1)

    def _refuse(
        self, k: Kernel, module: Module, why: str, reason: str, cpu: int, src: int, pid: int
    ) -> None:
        """Count and log a refused suggestion."""
        self.counts[module.name, why, "refused"] += 1
        exists = range(len(k.rqs))
        k.emit(
            "balance",
            cpu=cpu if cpu in exists else src,
            src_cpu=src if src in exists else cpu,
            pid=pid,
            op="refused",
            value=0,
            text=f"{module.name}: {why}, {reason}",
        )
