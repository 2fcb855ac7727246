"""A machine at one moment: CPUs with threads on their runqueues, built in the engine from a few numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

from wastedcores.kernels import KernelModel
from wastedcores.simulator.engine.balance import find_src_group_v6_12_jit, load_balance_v6_12_jit
from wastedcores.simulator.engine.codes import cpu_event, lb_result, newidle, task_state
from wastedcores.simulator.engine.core import schedule_jit
from wastedcores.simulator.engine.design import modules_jit
from wastedcores.simulator.engine.fair import entity_jit, vruntime_jit
from wastedcores.simulator.engine.world import cpuset, cpusets_jit, log_jit, rows_jit
from wastedcores.simulator.engine.world.structs import Rq, SchedDomain, TaskStruct
from wastedcores.simulator.plain import still
from wastedcores.simulator.vocabulary import BALANCE_RESULTS, BALANCED
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import grid
from wastedcores.workload.program import TaskSpec
from wastedcores_studies.proofs.choices import Affinity, Choices

V6_12 = KernelModel.named("v6.12.107")
#: section 5's core with one module
CORE = replace(KernelModel.named("core"), modules=("any",))
#: machines of one level: the part of which each has several; ``grid()`` gets the number of these parts
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
#: a thread that never sleeps adds this to the averages of its CPU; a thread that has just woken adds nothing
FULL = 1024
#: the largest number of threads in a state
MOST_THREADS = 8
_EVENTS = [(kind, Rq.events + 2 * kind) for kind in (cpu_event.RESCHED, cpu_event.STOP)]


def machine(kind: str, cpus: int) -> Machine:
    """Return a machine of :data:`ONE_LEVEL` or :data:`TWO_LEVELS`."""
    parts = {ONE_LEVEL[kind]: cpus} if kind in ONE_LEVEL else TWO_LEVELS[kind]
    return grid(kind, **parts)  # type: ignore[arg-type]


def lengths(cpus: int, threads: int) -> Iterator[tuple[int, ...]]:
    """Return the lengths of the run queues of ``cpus`` CPUs that hold at most ``threads`` threads."""
    if cpus == 0:
        yield ()
        return
    for n in range(threads + 1):
        for rest in lengths(cpus - 1, threads - n):
            yield (n, *rest)


def cpus_of(queues: tuple[int, ...]) -> list[int]:
    """Return for each thread of run queues of these lengths its CPU."""
    return [cpu for cpu, length in enumerate(queues) for _ in range(length)]


#: an outcome; the number of states for which the run stands; and the number of threads with the state as tables in docs write it
Found = tuple[str, int, tuple[int, str]]
Queues = tuple[tuple[int, ...], ...]


class Still(still.Still):
    """A kernel whose clock stands still, with threads on its runqueues; :meth:`begin` puts it into a state.

    Attributes
    ----------
    allowed
        The affinities of the threads, by their numbers.
    results, reasons
        The results of calls of load_balance() that did not end as balanced, and the reasons of those that did.
    interrupt
        A function that is called once, when a pass has found a queue but has not yet taken a thread.
    """

    def __init__(self, kind: str, cpus: int, model: KernelModel) -> None:
        super().__init__(machine(kind, cpus), model, [TaskSpec("thread", ())] * MOST_THREADS)
        k, self.rqs = self.k, [*self.k.rqs]
        self.choose, self.light = Choices(), frozenset[int]()
        self.allowed: list[Affinity] = []
        self.results: list[str] = []
        self.reasons: list[str] = []
        self.interrupt: Callable[[], None] | None = None
        self.domains = [
            [SchedDomain(k, rq.sd.row + i) for i in range(rq.nr_domains)] for rq in self.rqs
        ]
        for rq, levels in zip(self.rqs, self.domains, strict=True):
            self.call(rows_jit.cpu_cfs_rq, rq.cpu).avg.last_update = k.now_ns
            rq.idle_stamp = 1 + rq.cpu
            for sd in levels:
                if sd.shared:
                    sd.shared.has_idle_cores = 0
        # the draw is a choice of the kernel, not of a state
        self.call(rows_jit.modern).newidle = newidle.COST
        # nothing is logged, so the last rows of the log have room for the CPU sets of the threads
        self._masks = len(self.m) - MOST_THREADS
        for p in self.tasks:
            p.cpus_allowed = self._masks + p.number
        self._now = self.m[: k.log0]
        self._booted = self._saved = self._now.copy()
        self._built: Any = None
        self._decide_instead()

    # --- decisions that the search makes instead of the engine ---------------------------------------------------------

    def _decide_instead(self) -> None:
        own: dict[Any, Callable[..., Any]] = {cpusets_jit.test: self._test}
        own[log_jit.record] = lambda before, k, *columns: None
        if self.model.is_modern:
            own[load_balance_v6_12_jit.count] = self._count
            own[find_src_group_v6_12_jit.find_src_rq] = self._find_src_rq
        else:
            own[modules_jit.suggest_cpu] = own[modules_jit.suggest_pull] = self._suggest
            own[modules_jit.suggest_source] = partial(self._suggest, also=(modules_jit.REST,))
        for function, instead in own.items():
            self.replace(function, partial(instead, self.of(function)))

    def _test(self, test: Any, k: Any, mask: int, cpu: int) -> bool:
        """Answer whether a CPU is in a set; for the affinity of a thread, decide this when it is first asked."""
        if mask >= self._masks:
            return cpu in self.allowed[mask - self._masks]
        return test(k, mask, cpu)  # type: ignore[no-any-return]

    def _count(self, count: Any, k: Any, env: Any, result: int) -> None:
        """Remember the result of a call of load_balance()."""
        if result == lb_result.BALANCED:
            self.reasons.append(BALANCED[env.reason])
        else:
            self.results.append(BALANCE_RESULTS[result])

    def _find_src_rq(self, find_src_rq: Any, k: Any, env: Any, group: Any) -> int:
        """Find the queue to pull from, and call ``interrupt`` before a thread is taken."""
        src = find_src_rq(k, env, group)
        if self.interrupt is not None:
            interrupt, self.interrupt = self.interrupt, None
            # a real kernel has these rows once per CPU: the statistics, struct lb_env and load_balance_mask
            own = [self.m[k.scratch : k.scratch + 5], self.m[k.design.row + cpuset.LB]]
            saved = [rows.copy() for rows in own]
            interrupt()
            for rows, before in zip(own, saved, strict=True):
                rows[:] = before
        return src  # type: ignore[no-any-return]

    def _suggest(self, suggest: Any, k: Any, *about: Any, also: tuple[int, ...] = ()) -> int:
        """Give every answer that a module could give: no answer, each CPU, and, if this is possible, to stay idle."""
        options = (modules_jit.NONE, *also, *self.online())
        return options[self.choose(len(options))]

    # --- states -------------------------------------------------------------------------------------------------------

    def begin(
        self,
        choose: Choices,
        queues: tuple[int, ...],
        light: frozenset[int] = frozenset(),
        hot: bool = False,
    ) -> Still:
        """Begin in a state with these numbers of threads on the CPUs; the affinities of the threads are not decided yet.

        The threads with the numbers ``light`` have just woken, after a long sleep; the others never slept. ``hot``: the
        waiting threads ran a moment ago.
        """
        if self._built != (queues, light, hot):
            self._build(queues, light, hot)
            self._built, self._saved = (queues, light, hot), self._now.copy()
        self.choose, self.light = choose, light
        self.allowed = [Affinity(choose, len(queues), {c: True}) for c in cpus_of(queues)]
        self.again()
        return self

    def again(self) -> None:
        """Go back to the beginning of the state, and keep the affinities that have been decided."""
        self._now[:] = self._saved
        self.interrupt = None

    def _build(self, queues: tuple[int, ...], light: frozenset[int], hot: bool) -> None:
        k, tasks = self.k, iter(self.tasks)
        self._now[:] = self._booted
        for rq, length in zip(self.rqs, queues, strict=True):
            mine = [next(tasks) for _ in range(length)]
            for p in mine:
                self._place(p, rq.cpu)
                p.state = task_state.READY
                self.call(entity_jit.enqueue_task, p, False, False)
                p.se.exec_start = k.now_ns if hot else 0
            k.this_cpu = rq.cpu
            if mine:
                self.call(schedule_jit.schedule, rq.cpu)
                # the thread that ran longest ago is the last one
                for p in (*reversed([p for p in mine if p != rq.curr]), rq.curr):
                    self.call(entity_jit.list_del_task, rq.cpu, p)
                    self.call(entity_jit.list_add_task, rq.cpu, p)
            if self.model.is_modern:
                self._average(rq.cpu, mine, light)
        self.m[: len(queues), Rq.events + 1 : Rq.events + 14 : 2] = 0  # no event is pending
        k.heap_n = 0
        k.overload = max(queues) > 1

    def _place(self, p: TaskStruct, cpu: int) -> None:
        """Set up a thread as if it were new and had run on this CPU."""
        self.call(entity_jit.set_task_rq, p, cpu)
        if self.model.is_modern:
            self.call(rows_jit.fair_class).task_fork(self.k, p)
        else:
            self.call(vruntime_jit.task_fork_fair, p, cpu)
        p.recent_used_cpu = cpu

    def _average(self, cpu: int, tasks: list[TaskStruct], light: frozenset[int]) -> None:
        """Set the averages of a CPU and its threads; those of a thread are full if it never slept, and 0 if it has just woken."""
        steady = [p for p in tasks if p.number not in light]
        full = FULL if steady else 0
        averages = [(p.se.avg, FULL, FULL // len(steady)) for p in steady]
        averages += [(p.se.avg, 0, 0) for p in tasks if p.number in light]
        averages.append((self.call(rows_jit.cpu_cfs_rq, cpu).avg, FULL * len(steady), full))
        for avg, load, util in averages:
            avg.load_avg = avg.runnable_avg = load
            avg.util_avg, avg.util_est, avg.last_update = util, 0, self.k.now_ns

    def sleeper(self, cpu: int) -> TaskStruct:
        """Add a sleeping thread that last ran on ``cpu``."""
        p = self.tasks[len(self.allowed)]
        self.allowed.append(Affinity(self.choose, len(self.rqs), {}))
        self._place(p, cpu)
        p.state = task_state.SLEEPING
        return p

    def decide(self, p: TaskStruct) -> list[int]:
        """Decide the whole affinity of a thread, because wakeups and forks look at all of it; return the CPUs."""
        allowed = [*self.allowed[p.number]]
        self.m[p.cpus_allowed] = cpuset.bits_of(allowed)
        p.nr_cpus_allowed = len(allowed)
        return allowed

    # --- the state of the machine -------------------------------------------------------------------------------------

    def online(self) -> list[int]:
        """Return the CPUs that are online."""
        return cpuset.cpus_of(self.m[self.k.design.row + cpuset.ACTIVE], len(self.rqs))

    def is_idle(self, cpu: int) -> bool:
        """Tell whether a CPU has no thread."""
        return self.rqs[cpu].nr_running == 0

    def on(self, cpu: int) -> list[TaskStruct]:
        """Return the threads of a CPU in the order of its list."""
        p, found = self.rqs[cpu].cfs_tasks, []
        while p:
            found.append(p)
            p = p.cfs_tasks_next
        return found

    def waiting(self) -> list[Affinity]:
        """Return the affinities of the waiting threads; a thread that is alone on its CPU runs or is about to run."""
        crowded = (rq for rq in self.rqs if rq.nr_running > 1)
        return [self.allowed[p.number] for rq in crowded for p in self.on(rq.cpu) if p != rq.curr]

    def queues(self) -> Queues:
        """Return for each CPU the numbers of its threads, in the order of its list."""
        return tuple(tuple(p.number for p in self.on(rq.cpu)) for rq in self.rqs)

    def take(self) -> tuple[int, int] | None:
        """Take the next event that lets a CPU reschedule or its migration thread run; return the kind and the CPU."""
        due = [
            (rq[at], rq[at + 1], kind, rq.cpu)
            for kind, at in _EVENTS
            for rq in self.rqs
            if rq[at + 1]
        ]
        if not due:
            return None
        _, _, kind, cpu = min(due)
        self.rqs[cpu][Rq.events + 2 * kind + 1] = 0
        return kind, cpu

    def found(self, outcome: str, queues: Queues, note: str = "") -> Found:
        """Return an outcome with the state that had these queues, as a text such as ``CPU 0: idle; CPU 1: 1, 0+1~``.

        Each thread is written as the CPUs on which it may run; ``~`` marks a thread that has just woken. The running thread comes
        first. CPUs about which the code did not ask are left out: the text stands for all states that differ only in them.
        """
        words = [f"{a.text()}{'~' * (i in self.light)}" for i, a in enumerate(self.allowed)]
        cpus = (
            f"CPU {c}: {', '.join(words[i] for i in q) or 'idle'}" for c, q in enumerate(queues)
        )
        stands_for = 1 << sum(a.undecided for a in self.allowed)
        return outcome, stands_for, (sum(map(len, queues)), "; ".join(cpus) + note)


@cache
def kernel(kind: str, cpus: int, model: KernelModel) -> Still:
    """Return the kernel of a machine, the same one for all states."""
    return Still(kind, cpus, model)
