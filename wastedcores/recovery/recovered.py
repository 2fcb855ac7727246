"""From a trace to a workload that can be replayed: :func:`recover`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wastedcores.recovery import stretches_jit as sj
from wastedcores.recovery.barriers import find_barriers
from wastedcores.recovery.build import WARM_NS, build
from wastedcores.recovery.classes import GUESSED, NAMES, RECOGNISED, UNENDED
from wastedcores.recovery.facts import Facts, gather
from wastedcores.recovery.joins import find_joins, mark_exits_of_children
from wastedcores.recovery.messages import find_messages
from wastedcores.recovery.predicted_part import busy_per_cpu, find_span
from wastedcores.recovery.task_tables import Seen, seen
from wastedcores.recovery.timeline import Waits, timeline
from wastedcores.recovery.timers import find_timers
from wastedcores.topology.machine import Machine
from wastedcores.trace.header import TaskFacts
from wastedcores.trace.named import TraceLike
from wastedcores.trace.named import open as opened
from wastedcores.workload.builder import Workload
from wastedcores.workload.program import Costs


@dataclass(frozen=True)
class Recovered:
    """A workload that was recovered from a trace, and how certain the recovery is."""

    workload: Workload  #: the workload; :func:`wastedcores.replay` runs it
    #: how many tasks and sleeps the trace shows
    tasks: int
    sleeps: int
    classes: dict[str, int]  #: number of sleeps by class, such as ``barrier`` or ``timer``
    #: start and end of the recording's measured window, counted from the first event
    window_ns: tuple[int, int]
    #: texts of the marks that begin and end the window; None if the window does not lie between marks of tasks
    marks: tuple[str, str] | None
    ends: bool  #: whether work ends in the window, so that the time of this work can be predicted
    #: sentences for the reader about facts that are missing or contradictory
    notes: tuple[str, ...] = ()
    finite: bool = True  #: whether a replay ends with its tasks, and not after the recorded time
    #: the share of the recorded window in which each CPU was busy
    busy_per_cpu: tuple[float, ...] = ()
    #: the share of all CPU time that was used before sleeps whose cause is guessed or unknown
    guessed_work: float = 0.0
    #: number of CPUs of the recording; a task that may use all of them may use all CPUs of any machine
    cpus: int = 0
    first_ns: int = 0  #: the time of the first event that was used

    def busy_cpus(self, cpus: Iterable[int] | None = None) -> float:
        """Return the recorded mean number of busy CPUs in the window, counting all CPUs or only the given CPUs."""
        counted = range(len(self.busy_per_cpu)) if cpus is None else cpus
        return sum(self.busy_per_cpu[c] for c in counted if c < len(self.busy_per_cpu))

    def share(self, *classes: int) -> float:
        """Return the share of sleeps of some classes; 0 if there were no sleeps."""
        return sum(self.classes.get(NAMES[c], 0) for c in classes) / max(self.sleeps, 1)

    def counts(self) -> dict[str, Any]:
        """Return, for JSON, how much the trace shows, and how much of this is explained."""
        names = ("tasks", "sleeps", "recognised", "guessed", "unknown", "classes")
        return {name: getattr(self, name) for name in names}

    @property
    def recognised(self) -> float:
        """The share of sleeps whose cause is recognised."""
        return self.share(*RECOGNISED)

    @property
    def guessed(self) -> float:
        """The share of sleeps whose cause is guessed."""
        return self.share(*GUESSED)

    @property
    def unknown(self) -> float:
        """The share of sleeps for which only the length is known."""
        return max(0.0, 1.0 - self.share(*RECOGNISED, *GUESSED)) if self.sleeps else 0.0

    @property
    def lead_ns(self) -> int:
        """How long a replay runs before the trace begins."""
        return WARM_NS


def recover(
    trace: TraceLike,
    tasks: Sequence[TaskFacts | Mapping[str, Any]] | None = None,
    sessions: Iterable[str] = (),
    *,
    costs: Costs | None = None,
    machine: Machine | None = None,
) -> Recovered:
    """Recover the work of a trace: what its tasks computed, and how they waited for each other.

    Parameters
    ----------
    trace
        Any trace with switches and wakeups.
    tasks
        What a snapshot tells about the tasks (``wastedcores snapshot``). None: what the trace's header tells, including the tasks
        that it lists only as of the end of the trace.
    sessions
        Names. A task that ever has one of these names leads a session of its own, and its children inherit the session.
    costs
        What switches and wakeups cost in the replay. These costs are subtracted from the recorded CPU time.
    machine
        The recorded machine; default: the machine that the trace names. Its caches tell which wakeups are synchronous.

    Returns
    -------
    Recovered
        The workload and how certain it is.

    Raises
    ------
    TraceContentError
        The trace lacks switches or wakeups.
    """
    trace, costs = opened(trace), costs or Costs()
    s = seen(trace, costs.switch_ns)
    if tasks is None:  # for a pid that is in both lists, the older entry counts
        tasks = [*(trace.header.later_tasks or ()), *(trace.header.tasks or ())]
    header = trace.header
    facts = gather(s, tasks, sessions, header.task_groups, header.autogroups)
    _forget_stoppers(s, facts)
    waits = classify(s, facts)
    if machine is None and trace.header.machine:
        machine = Machine.from_dict(trace.header.machine)
    llc_of_cpu = None if machine is None else machine.llc_of_cpu.astype(np.int64)
    plan = timeline(s, waits, costs.wake_ns, llc_of_cpu)
    span = find_span(trace, s, waits.rounds.takes_part(s))
    name = trace.header.recording or trace.name
    workload = build(name, s, facts, waits.rounds, plan, span)
    ended = s.sleeps[s.sleeps[:, sj.S_CLASS] != UNENDED, sj.S_CLASS]
    classes = {name: int((ended == c).sum()) for c, name in NAMES.items()}
    return Recovered(
        workload,
        len(s.tasks),
        len(ended),
        {name: n for name, n in classes.items() if n},
        (span.start_ns - s.start_ns, span.end_ns - s.start_ns),
        span.marks,
        not span.why_endless,
        (*_notes(s, facts), *span.why_endless),
        bool(span.ending),
        busy_per_cpu(s, span, costs.switch_ns),
        _guessed_work(s),
        s.cpus,
        s.start_ns,
    )


def classify(s: Seen, facts: Facts) -> Waits:
    """Find out why each sleep ended."""
    mark_exits_of_children(s)
    rounds = find_barriers(s)
    find_messages(s, facts.bound)
    joins = find_joins(s)
    return Waits(rounds, joins, find_timers(s))


def _forget_stoppers(s: Seen, facts: Facts) -> None:
    """Leave out the stopper threads, because a replay has its own."""
    s.sleeps = s.sleeps[~facts.stopper[s.sleeps[:, sj.S_TASK]]]
    by = s.sleeps[:, sj.S_BY]
    by[(by >= 0) & facts.stopper[by]] = -1


def _guessed_work(s: Seen) -> float:
    """Return the share of the CPU time that was used before sleeps whose cause is not recognised."""
    order = np.lexsort((s.sleeps[:, sj.S_AT], s.sleeps[:, sj.S_TASK]))
    rows = s.sleeps[order]
    first = np.append(True, rows[1:, sj.S_TASK] != rows[:-1, sj.S_TASK])[: len(rows)]
    before = np.where(first, 0, np.append(0, rows[:-1, sj.S_AT])[: len(rows)])
    unsure = ~np.isin(rows[:, sj.S_CLASS], (*RECOGNISED, UNENDED))
    work = int((s.pieces[:, sj.P_END] - s.pieces[:, sj.P_SINCE]).sum())
    return float((rows[:, sj.S_AT] - before)[unsure].sum() / max(work, 1))


#: a thread that slept at least this often, and only on one CPU, is probably bound to this CPU
STAYED = 10


def _notes(s: Seen, facts: Facts) -> tuple[str, ...]:
    notes = []
    if facts.switched_off and facts.session.any():
        notes.append(
            "autogroups were switched off when this was recorded; replays keep them off under kernels with +noautogroup, and "
            "only there"
        )
    if not facts.told:
        notes.append(
            "nothing tells which session or control group a task belongs to, so all tasks share the root group; a file of "
            "`wastedcores snapshot` (--snapshot) or --session tells it"
        )
    stayed = (s.tasks[:, sj.T_MOVED] == 0) & (s.tasks[:, sj.T_NUMBER] >= STAYED)
    pinned = int((stayed & ~facts.placed & ~facts.stopper).sum())
    if pinned and s.cpus > 1:
        notes.append(
            f"some threads ({pinned}) woke {STAYED} times or more and always on the same CPU, and nothing tells where they may "
            "run, so they may run anywhere in the replay; if they are bound, `wastedcores snapshot` (--snapshot) tells it"
        )
    if s.realtime.any() and not facts.stopper[s.realtime].all():
        notes.append("real-time tasks are replayed as tasks of the fair class with nice -20")
    if facts.idle.any():
        notes.append("tasks of SCHED_IDLE are replayed as tasks of SCHED_OTHER with nice 19")
    return tuple(notes)
