"""Times within the resolution of a recording at which the model makes the recorded choices.

A recorded time is known to half a us. The virtual times of threads of nice 0 are sums of such times, so each recorded choice is a
linear inequality between the errors of the times. A solution is a course of events that prints as the recording does.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from support.recorded_cpu import Event, RecordedCpu
from wastedcores.simulator.engine.fair import eevdf_jit
from wastedcores.simulator.engine.world.structs import TaskStruct

#: a sum of errors: the number of an event -> how often its error counts
Form = dict[int, float]


@dataclass
class Inequality:
    """``form`` of the errors is at most ``slack`` ns; ``choice`` is the number of the choice that says so."""

    form: Form
    slack: int
    choice: int

    def is_certain(self, limit: dict[int, float]) -> bool:
        """Tell whether it holds for all errors within the limits."""
        return self.slack >= sum(abs(n) * limit[e] for e, n in self.form.items())


def _plus(*terms: tuple[Form, float]) -> Form:
    out: Counter[int] = Counter()
    for form, factor in terms:
        for event, n in form.items():
            out[event] += n * factor
    return {event: n for event, n in out.items() if n}


class Inequalities(RecordedCpu):
    """The run of a recording that notes what each choice says about the errors of its times."""

    def __init__(self, path: Path, lag_ns: int, moved: dict[int, int] | None = None) -> None:
        self.virtual: dict[str, Form] = {}
        self.deadlines: dict[str, Form] = {}
        self.since: dict[str, int] = {}
        #: the numbers of forks, and of ticks, which a recording does not have
        self.forks: set[int] = set()
        self.ticks: set[int] = set()
        self.found: list[Inequality] = []
        super().__init__(path, lag_ns, moved)

    def _now(self, p: TaskStruct) -> Form:
        """Return how the vruntime of a thread depends on the errors, up to now if it runs."""
        form = self.virtual.get(p.comm, {})
        if self.curr != p or p.comm not in self.since:
            return form
        return _plus((form, 1), ({self.number: 1.0}, 1), ({self.since[p.comm]: 1.0}, -1))

    def _members(self) -> list[TaskStruct]:
        return [p for p in self.tasks.values() if p and p.group == self.group and p.se.on_rq]

    def enqueue(self, pid: int, in_group: bool, initial: bool = False) -> None:
        """Place a new thread at the average of its queue."""
        members = self._members()
        average = _plus(*((self._now(p), 1 / len(members)) for p in members))
        super().enqueue(pid, in_group, initial)
        p = self.tasks[pid]
        self.virtual[p.comm] = self.deadlines[p.comm] = average
        self.forks.add(self.number)

    def on_tick(self, event: Event) -> None:
        """Note that the running thread got its deadline at this tick."""
        curr = self.curr
        before = curr.se.deadline
        self.ticks.add(self.number)
        super().on_tick(event)
        if curr.se.deadline != before:
            self.deadlines[curr.comm] = self._now(curr)

    def choose(self, ts_us: int, recorded: TaskStruct) -> None:
        """Note that no other eligible thread had an earlier deadline than the recorded one."""
        prev = self.curr
        before, running = prev.se.deadline, recorded == prev and not self.stopper
        goes_on = running and self.call(eevdf_jit.protected, prev.se)
        now = self._now(prev)
        super().choose(ts_us, recorded)
        if recorded != prev:
            self.virtual[prev.comm] = now
            self.since[recorded.comm] = self.number
        if prev.se.deadline != before:
            self.deadlines[prev.comm] = now
        if recorded.group != self.group or goes_on:
            return
        own = self.deadlines[recorded.comm]
        for p in self._members():
            if p != recorded and self.call(eevdf_jit.eligible, recorded.se.cfs_rq, p.se):
                form = _plus((own, 1), (self.deadlines[p.comm], -1))
                slack = p.se.deadline - recorded.se.deadline - 1
                self.found.append(Inequality(form, slack, len(self.choices) - 1))

    def limits(self, stamp_ns: float, tick_ns: float, fork_ns: float) -> dict[int, float]:
        """Return how far the time of each event that matters may be off."""
        special = dict.fromkeys(self.forks, fork_ns) | dict.fromkeys(self.ticks, tick_ns)
        return {e: special.get(e, stamp_ns) for q in self.found for e in q.form}


def solve(run: Inequalities, limit: dict[int, float], sweeps: int = 1000) -> dict[int, int]:
    """Return errors within the limits that satisfy the inequalities, by projecting on one after the other.

    The result fails some of them if there is no solution, or if the sweeps do not suffice.
    """
    column = {event: n for n, event in enumerate(limit)}
    bound = np.array(list(limit.values()))
    rows = []
    for q in run.found:
        if not q.is_certain(limit):
            factor = np.array(list(q.form.values()))
            rows.append(([column[e] for e in q.form], factor, factor @ factor, q.slack - 20))
    x = np.zeros(len(column))
    for _ in range(sweeps):
        worst = 0.0
        for at, factor, norm, slack in rows:
            over = factor @ x[at] - slack
            if over > 0:
                worst = max(worst, over)
                x[at] -= factor * (over / norm)
        x = np.clip(x, -bound, bound)
        if worst < 1:
            break
    return {event: round(x[n]) for event, n in column.items()}
