"""Describe a workload in Python. It becomes flat rows, which the engine runs.

Interface::

    w = Workload("pipeline")
    meet = w.barrier(8)
    worker = Script().loop(100).compute(1_000_000).barrier(meet, "spin").end()
    for i in range(8):
        w.task(f"worker-{i}", worker, cpu=0)
    w.program()

When a process creates threads, the creator and the new threads contend for one semaphore.

The first page faults of a new thread compete for mmap_sem with the creator, which calls mmap() for the next stack and
mprotect() for its guard page. The thread starts on the CPU that fork balancing chose, sleeps after a few us, and is woken
by the creator. This may pull the thread into the creator's LLC. Or the creator sleeps and is woken on the thread's node.
Without this contention, threads would start where fork balancing placed them. The times (20 to 28 us per thread) were
measured on the recordings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from wastedcores.errors import WorkloadError
from wastedcores.workload import ops
from wastedcores.workload.program import Program, Row, TaskSpec, whole, whole_ns
from wastedcores.workload.script import Script

_US = 1_000
_JUMPS = (ops.OP_LOOP, ops.OP_LOOP_BARRIER)


class Creation:
    """A process that creates threads."""

    def __init__(self, w: Workload) -> None:
        self._workload = w
        self._mmap_sem = w.lock()

    def template(self, comm: str, body: Script, daemon: bool = False) -> int:
        """Make a template for a thread: first its page faults, then its work, and at the end the release of its stack."""
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


#: the largest number of tasks, and of templates, of one workload
MOST_SPECS = 100_000


#: results whose names do not end in ``_s``
_MEASURES = ("cpus_of_work", "s_per_iter", "share_of_first")


@dataclass(frozen=True)
class Measure:
    """The result that a workload reports."""

    #: a name ending in ``_per_s`` (rounds per second of the whole replay) or else in ``_s`` (seconds of the window),
    #: ``cpus_of_work``, ``s_per_iter`` or ``share_of_first``
    name: str
    #: texts of the marks around the measured window; empty for the whole replay
    start: str
    end: str
    of: str = ""  #: prefix of the names of the tasks whose rounds are counted
    unit_ns: int = 0  #: work of one round, in ns

    def __post_init__(self) -> None:
        """Refuse a result that a replay does not compute."""
        texts = (self.name, self.start, self.end, self.of)
        if not all(isinstance(text, str) for text in texts):
            raise WorkloadError(f"a measure has {texts}; expected texts.")
        if self.name not in _MEASURES and not self.name.endswith("_s"):
            raise WorkloadError(
                f"the measure {self.name!r} is unknown; expected a name ending in _per_s or _s, or {', '.join(_MEASURES)}."
            )
        whole(self.unit_ns, "work of one round of a measure", 0)


@dataclass
class _Task:
    comm: str
    script: Script
    session: int
    nice: int
    allowed: frozenset[int] | None
    cpu: int
    start_ns: int
    daemon: bool


@dataclass
class Workload:
    """A workload: its tasks, and the barriers, locks, semaphores and sessions that they share.

    Attributes
    ----------
    name
        Its name.
    measure
        The result that it reports, if any.
    counted_nodes
        Nodes whose CPUs count as available to the workload; None for all.
    random_phase
        Whether it begins at a random moment within a tick.
    notes
        Differences from a run on a real machine.
    """

    name: str
    measure: Measure | None = None
    counted_nodes: tuple[int, ...] | None = None
    random_phase: bool = True
    notes: tuple[str, ...] = ()
    _tasks: list[_Task] = field(default_factory=list)
    _templates: list[_Task] = field(default_factory=list)
    _barriers: list[int] = field(default_factory=list)
    _locks: int = 0
    _semaphores: list[int] = field(default_factory=list)
    _sessions: list[int] = field(default_factory=lambda: [1024])
    _hotplug: list[tuple[int, int, bool]] = field(default_factory=list)

    def session(self, shares: int = 1024) -> int:
        """Open a session. Its tasks form an autogroup with the weight ``shares``. Session 0 is the root group."""
        self._sessions.append(whole(shares, "weight of a session", 2))
        return len(self._sessions) - 1

    def barrier(self, parties: int) -> int:
        """Make a barrier for this many tasks."""
        self._barriers.append(whole(parties, "parties of a barrier"))
        return len(self._barriers) - 1

    def lock(self) -> int:
        """Make a lock."""
        self._locks += 1
        return self._locks - 1

    def semaphore(self, value: int = 0) -> int:
        """Make a semaphore whose first value is ``value``."""
        self._semaphores.append(whole(value, "first value of a semaphore", 0))
        return len(self._semaphores) - 1

    def condition(self) -> int:
        """Make a condition. A signal for which no task waits is lost."""
        return self.semaphore()

    def timer(self) -> int:
        """Make a timer, for one task or shared by several."""
        return self.semaphore()

    def template(
        self, comm: str, script: Script, allowed: Iterable[int] | None = None, daemon: bool = False
    ) -> int:
        """Make a template for forks.

        Parameters
        ----------
        comm
            Name of the tasks.
        script
            Their program.
        allowed
            CPUs on which they may run; None for the CPUs of the parent.
        daemon
            Whether the replay ends without waiting for them.

        Returns
        -------
        int
            The number for :meth:`Script.fork`.
        """
        cpus = None if allowed is None else frozenset(allowed)
        self._room(comm, len(self._templates))
        self._templates.append(_Task(comm, script, 0, 0, cpus, 0, 0, daemon))
        return len(self._templates) - 1

    def task(
        self,
        comm: str,
        script: Script,
        *,
        session: int = 0,
        nice: int = 0,
        allowed: Iterable[int] | None = None,
        cpu: int = 0,
        start_ns: int = 0,
        daemon: bool = False,
    ) -> None:
        """Add a task.

        Parameters
        ----------
        comm
            Its name.
        script
            Its program.
        session
            Its session; 0 is the root group.
        nice
            Its nice value.
        allowed
            CPUs on which it may run; None for all.
        cpu, start_ns
            The CPU on which it is forked, and when, in ns.
        daemon
            Whether the replay ends without waiting for it.

        Raises
        ------
        WorkloadError
            The nice value or the start is impossible, or there are too many tasks.
        """
        cpus = None if allowed is None else frozenset(allowed)
        if not isinstance(comm, str):
            raise WorkloadError(f"a task is called {comm!r}; expected a text.")
        if isinstance(nice, bool) or not isinstance(nice, int) or not -20 <= nice <= 19:
            raise WorkloadError(f"task {comm!r}: nice {nice}; expected a value from -20 to 19.")
        whole(cpu, f"task {comm!r}: its CPU", 0)
        whole_ns(start_ns, f"task {comm!r}: its start")
        self._room(comm, len(self._tasks))
        self._tasks.append(_Task(comm, script, session, nice, cpus, cpu, start_ns, daemon))

    def _room(self, comm: str, have: int) -> None:
        """Refuse a task or template that would be one too many."""
        if have >= MOST_SPECS:
            raise WorkloadError(
                f"task {comm!r} would be one of more than {MOST_SPECS} that workload {self.name!r} describes; describe "
                "fewer, or fork many from one template."
            )

    def hotplug(self, time_ns: int, cpu: int, online: bool) -> None:
        """Take a CPU offline or online during the run.

        Parameters
        ----------
        time_ns
            When, in ns.
        cpu
            The CPU.
        online
            True to bring it online, False to take it offline.
        """
        whole(cpu, "CPU of a step of hotplug", 0)
        self._hotplug.append((whole_ns(time_ns, "hotplug time"), cpu, online))

    def program(self) -> Program:
        """Return the workload as flat rows; all barriers, locks, semaphores, templates and sessions of its scripts must exist."""
        if not self._tasks:
            raise WorkloadError(f"workload {self.name!r} has no task.")
        masks: dict[frozenset[int], int] = {}
        texts: dict[str, int] = {}
        cache: dict[int, tuple[Row, ...]] = {}

        def rows(t: _Task) -> tuple[Row, ...]:
            if id(t.script) not in cache:
                cache[id(t.script)] = tuple(
                    self._row(t.comm, row, masks, texts) for row in t.script.finished()
                )
            return cache[id(t.script)]

        def spec(t: _Task) -> TaskSpec:
            self._check(t.comm, "session", t.session, len(self._sessions))
            return TaskSpec(
                t.comm, rows(t), t.session, t.nice, t.allowed, t.cpu, t.start_ns, t.daemon
            )

        tasks = tuple(spec(t) for t in self._tasks)
        templates = tuple(spec(t) for t in self._templates)
        return Program(
            tasks,
            templates,
            tuple(self._sessions),
            tuple(masks),
            tuple(self._barriers),
            self._locks,
            tuple(self._semaphores),
            tuple(texts),
            tuple(sorted(self._hotplug)),
            self.random_phase,
        )

    def _check(self, comm: str, what: str, number: int, have: int) -> None:
        """Refuse a number that stands for no object of the workload."""
        if not isinstance(number, int) or not 0 <= number < have:
            raise WorkloadError(
                f"task {comm!r}: {what} {number} does not exist; workload {self.name!r} has {have}."
            )

    def _row(
        self,
        comm: str,
        row: tuple[Any, ...],
        masks: dict[frozenset[int], int],
        texts: dict[str, int],
    ) -> Row:
        """Check a row of a script and replace CPU sets and texts by their numbers."""
        op, a, b, c, d = row
        if op == ops.OP_AFFINITY:
            if not a:
                raise WorkloadError(f"task {comm!r}: bound to no CPU at all.")
            a = masks.setdefault(a, len(masks))
        elif op == ops.OP_MARK:
            a = texts.setdefault(a, len(texts))
        elif op in (ops.OP_BARRIER, ops.OP_LOOP_BARRIER):
            self._check(comm, "barrier", a if op == ops.OP_BARRIER else d, len(self._barriers))
        elif op in (ops.OP_LOCK, ops.OP_UNLOCK):
            self._check(comm, "lock", a, self._locks)
        elif op in ops.OF_A_SEMAPHORE:
            self._check(comm, "semaphore", a, len(self._semaphores))
        elif op == ops.OP_SESSION:
            self._check(comm, "session", a, len(self._sessions))
        elif op == ops.OP_FORK:
            self._check(comm, "template", a, len(self._templates))
            if b >= 0:
                self._check(comm, "session", b, len(self._sessions))
        return op, a, b, c, d
