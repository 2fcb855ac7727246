"""Facts about waste, computed from the log of all states, and what a verdict about it must say.

The facts have two bounds. What is *certain* is waste whatever one thinks of borderline cases; what is *possible* includes them:
an idle CPU on which the thread's group had no time left in its pool. Without such cases the two are equal.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from support.random_schedules.machine import Cell

Log = list[tuple[int, tuple[Cell, ...]]]
Spans = list[tuple[int, int]]


@dataclass(frozen=True)
class Limits:
    """From when on waste must be a violation, and up to when it must not. Between the two nothing is judged."""

    #: how much shorter or longer than M the longest episode has to be, because ftrace rounds and clocks differ
    slack_us: int = 500
    #: chronic waste must not be found below this share of the machine's time in waits longer than ``short_us`` ...
    chronic_never: float = 0.002
    short_us: int = 500
    #: ... and must be found from this share on, in waits longer than ``long_us``, in so many of ten slices
    chronic_always: float = 0.05
    long_us: int = 2_000
    slices_always: int = 8


@dataclass
class Bound:
    """The facts for one of the two bounds."""

    #: intervals with an idle CPU and a thread on another queue that could run there
    episodes: Spans = field(default_factory=list)
    #: (from, to, CPUs that could have worked more) of every interval with waste
    waste: list[tuple[int, int, int]] = field(default_factory=list)
    #: the same with waits longer than ``Limits.short_us`` and ``Limits.long_us`` only
    waste_short: list[tuple[int, int, int]] = field(default_factory=list)
    waste_long: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def longest_us(self) -> int:
        """The length of the longest episode."""
        return max((b - a for a, b in self.episodes), default=0)


@dataclass
class Truth:
    """What was wasted between two moments."""

    start_us: int
    end_us: int
    cpus: int
    certain: Bound
    possible: Bound
    #: (uid, from, to, avoidable): a thread waited, and could have run elsewhere for so long of it
    waits: list[tuple[int, int, int, int]]

    def verdicts(
        self, persist_us: int, limits: Limits = Limits()
    ) -> tuple[bool | None, bool | None]:
        """Return whether a persistent and a chronic violation exist; None: too close to call."""
        return self.persistent(persist_us, limits), self.chronic(persist_us, limits)

    def persistent(self, persist_us: int, limits: Limits = Limits()) -> bool | None:
        """Whether an episode of at least M exists; of one at an end of a window that is shorter nobody knows."""
        if self.end_us - self.start_us < persist_us and self.goes_on(self.possible):
            return None
        if self.certain.longest_us >= persist_us + limits.slack_us:
            return True
        return False if self.possible.longest_us < persist_us - limits.slack_us else None

    def goes_on(self, bound: Bound, least_us: int = 0) -> bool:
        """Whether an episode that is longer than so much reaches an end of the window."""
        return any(
            b - a > least_us and (a <= self.start_us or b >= self.end_us) for a, b in bound.episodes
        )

    def chronic(self, persist_us: int, limits: Limits = Limits()) -> bool | None:
        """Whether waste must be called chronic (True), must not be (False), or is between the two (None)."""
        worst, slices = 0.0, 0
        never = per_slice(self.possible.waste_short, self.start_us, self.end_us, persist_us)
        always = per_slice(self.certain.waste_long, self.start_us, self.end_us, persist_us)
        for first in range(max(1, len(never) - 9)):
            window = never[first : first + 10]
            worst = max(worst, sum(window) / (len(window) * persist_us * self.cpus))
            share = [w / (persist_us * self.cpus) for w in always[first : first + 10]]
            slices = max(slices, sum(s >= limits.chronic_always for s in share))
        if slices >= limits.slices_always and len(never) >= 10:
            return True
        return False if worst < limits.chronic_never else None


def per_slice(waste: list[tuple[int, int, int]], start: int, end: int, length: int) -> list[int]:
    """Return the CPU time wasted in every whole slice of a length; a last one that is shorter is left out unless it is all."""
    count = max(1, (end - start) // length)
    slices = [0] * count
    for a, b, cpus in waste:
        for index in range((a - start) // length, min(count, (b - 1 - start) // length + 1)):
            began = start + index * length
            slices[index] += cpus * (min(b, began + length) - max(a, began))
    return slices


def truth_of(log: Log, start: int, end: int, limits: Limits = Limits(), isolated: int = 0) -> Truth:
    """Compute the facts between two moments, whether or not the CPUs were recorded.

    ``isolated``: CPUs, as bits, to which nobody is moved, so that they are not wasted while they idle.
    """
    cpus = len(log[0][1])
    waits = _waits(log, start, end, isolated)
    long_enough = {
        limit: {(uid, a) for uid, a, b, _ in waits if b - a > limit}
        for limit in (limits.short_us, limits.long_us)
    }
    bounds = (Bound(), Bound())
    began: dict[int, int] = {}
    for at, (time, cells) in enumerate(log):
        until = log[at + 1][0] if at + 1 < len(log) else end
        waiting = {uid for cell in cells for uid, _, _ in cell[3]}
        began = {u: began.get(u, time) for u in waiting}
        a, b = max(time, start), min(until, end)
        if a >= b or not waiting:
            continue
        for which, bound in enumerate(bounds):
            idle = _idle(cells, isolated)
            if not idle:
                continue
            masks = [
                (uid, (sure if which == 0 else maybe) & idle)
                for cell in cells
                for uid, sure, maybe in cell[3]
                if (sure if which == 0 else maybe) & idle
            ]
            if not masks:
                continue
            _extend(bound.episodes, a, b)
            bound.waste.append((a, b, matching([mask for _, mask in masks])))
            for limit, into in (
                (limits.short_us, bound.waste_short),
                (limits.long_us, bound.waste_long),
            ):
                some = [mask for uid, mask in masks if (uid, began[uid]) in long_enough[limit]]
                if some:
                    into.append((a, b, matching(some)))
    return Truth(start, end, cpus, *bounds, waits)


def _extend(spans: Spans, a: int, b: int) -> None:
    if spans and spans[-1][1] == a:
        spans[-1] = (spans[-1][0], b)
    else:
        spans.append((a, b))


def _idle(cells: tuple[Cell, ...], isolated: int) -> int:
    return sum(1 << c for c, cell in enumerate(cells) if cell[0] and not cell[2]) & ~isolated


def _waits(log: Log, start: int, end: int, isolated: int) -> list[tuple[int, int, int, int]]:
    """Return all waits of all threads, moves between queues included, and how much of each was avoidable."""
    open_waits: dict[int, list[int]] = {}
    found = []
    for at, (time, cells) in enumerate(log):
        until = log[at + 1][0] if at + 1 < len(log) else end
        idle = _idle(cells, isolated)
        now = {uid: maybe & idle for cell in cells for uid, _, maybe in cell[3]}
        for uid in [u for u in open_waits if u not in now]:
            began, avoidable = open_waits.pop(uid)
            found.append((uid, began, time, avoidable))
        for uid, usable in now.items():
            wait = open_waits.setdefault(uid, [time, 0])
            if usable:
                wait[1] += max(0, min(until, end) - max(time, start))
    found += [(uid, began, end, avoidable) for uid, (began, avoidable) in open_waits.items()]
    return sorted(found)


def matching(masks: list[int]) -> int:
    """Return how many of these threads could run at once, each on one of its CPUs (a maximum matching)."""
    taken: dict[int, int] = {}

    def place(thread: int, tried: set[int]) -> bool:
        for c in range(masks[thread].bit_length()):
            if masks[thread] >> c & 1 and c not in tried:
                tried.add(c)
                if c not in taken or place(taken[c], tried):
                    taken[c] = thread
                    return True
        return False

    return sum(place(thread, set()) for thread in range(len(masks)))
