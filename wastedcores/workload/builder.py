"""Describe a workload in words; it becomes flat rows that engine and reference run.

Interface::

    w = Workload("pipeline")
    meet = w.barrier(8)
    worker = Script().loop(100).compute(1_000_000).barrier(meet, "spin").end()
    for i in range(8):
        w.task(f"worker-{i}", worker, cpu=0)
    w.program()
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from wastedcores.errors import WorkloadError
from wastedcores.workload import ops
from wastedcores.workload.program import Program, Row, TaskSpec
from wastedcores.workload.script import Script, whole, whole_ns

_OF_SEMAPHORES = (
    ops.OP_POST,
    ops.OP_WAIT,
    ops.OP_SIGNAL,
    ops.OP_CATCH,
    ops.OP_WAIT_SIGNAL,
    ops.OP_TIMER,
    ops.OP_FLUSH,
    ops.OP_SHEPHERD,
)

#: tasks and templates that one workload can describe
MOST_SPECS = 100_000


@dataclass(frozen=True)
class Measure:
    """What a workload reports of itself.

    Attributes
    ----------
    name
        ``make_s``, ``db_s`` or another ending in ``_s``: seconds of the window; ``cpus_of_work``; ``s_per_iter``.
    start, end
        Texts of the marks around the measured window.
    of
        Name prefix of the tasks whose rounds are counted.
    unit_ns
        Work of one round.
    """

    name: str
    start: str
    end: str
    of: str = ""
    unit_ns: int = 0


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
    """Tasks and what they share.

    Attributes
    ----------
    name
        For headings.
    measure
        What it reports, if anything.
    counted_nodes
        Nodes whose CPUs count as available to it; None: all.
    random_phase
        Begin anywhere inside a tick.
    notes
        What of its description is not as it would be on a real machine.
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
        """Open a new session: its tasks form an autogroup. 0 is the root group."""
        self._sessions.append(whole(shares, "weight of a session", 2))
        return len(self._sessions) - 1

    def barrier(self, parties: int) -> int:
        """Make a barrier."""
        self._barriers.append(whole(parties, "parties of a barrier"))
        return len(self._barriers) - 1

    def lock(self) -> int:
        """Make a lock."""
        self._locks += 1
        return self._locks - 1

    def semaphore(self, value: int = 0) -> int:
        """Make a semaphore."""
        self._semaphores.append(whole(value, "first value of a semaphore", 0))
        return len(self._semaphores) - 1

    def condition(self) -> int:
        """Make a condition: a signal that nobody waits for is forgotten."""
        return self.semaphore()

    def timer(self) -> int:
        """Make a timer, of one task or shared by several."""
        return self.semaphore()

    def template(
        self, comm: str, script: Script, allowed: Iterable[int] | None = None, daemon: bool = False
    ) -> int:
        """Make something to fork: the number for :meth:`Script.fork`."""
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
        """Start a task: forked on ``cpu`` at ``start_ns``; the replay does not wait for a daemon."""
        cpus = None if allowed is None else frozenset(allowed)
        if not -20 <= nice <= 19:
            raise WorkloadError(f"task {comm!r}: nice {nice}; it goes from -20 to 19")
        whole_ns(start_ns, f"task {comm!r}: its start")
        self._room(comm, len(self._tasks))
        self._tasks.append(_Task(comm, script, session, nice, cpus, cpu, start_ns, daemon))

    def _room(self, comm: str, have: int) -> None:
        if have >= MOST_SPECS:
            raise WorkloadError(
                f"task {comm!r} would be one of more than {MOST_SPECS} that workload {self.name!r} describes; describe "
                "fewer, or fork many from one template"
            )

    def hotplug(self, time_ns: int, cpu: int, online: bool) -> None:
        """Take a CPU offline or online during the run."""
        self._hotplug.append((whole_ns(time_ns, "hotplug time"), cpu, online))

    def program(self) -> Program:
        """The flat rows.

        Raises
        ------
        WorkloadError
            A number that names no barrier, lock, semaphore, template or session; a workload without tasks.
        """
        if not self._tasks:
            raise WorkloadError(f"workload {self.name!r} has no task")
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
        if not 0 <= number < have:
            raise WorkloadError(
                f"task {comm!r}: {what} {number} does not exist; workload {self.name!r} has {have}"
            )

    def _row(
        self,
        comm: str,
        row: tuple[Any, ...],
        masks: dict[frozenset[int], int],
        texts: dict[str, int],
    ) -> Row:
        op, a, b, c, d = row
        if op == ops.OP_AFFINITY:
            if not a:
                raise WorkloadError(f"task {comm!r}: bound to no CPU at all")
            a = masks.setdefault(a, len(masks))
        elif op == ops.OP_MARK:
            a = texts.setdefault(a, len(texts))
        elif op == ops.OP_BARRIER:
            self._check(comm, "barrier", a, len(self._barriers))
        elif op in (ops.OP_LOCK, ops.OP_UNLOCK):
            self._check(comm, "lock", a, self._locks)
        elif op in _OF_SEMAPHORES:
            self._check(comm, "semaphore", a, len(self._semaphores))
        elif op == ops.OP_SESSION:
            self._check(comm, "session", a, len(self._sessions))
        elif op == ops.OP_FORK:
            self._check(comm, "template", a, len(self._templates))
            if b >= 0:
                self._check(comm, "session", b, len(self._sessions))
        return op, a, b, c, d
