"""Answers of lab 1, find the idle cores."""

from __future__ import annotations

from itertools import pairwise

from wastedcores.invariant.checking import check
from wastedcores_course.answers.episodes import episodes
from wastedcores_course.labs.idle_cores import (
    CONTROL,
    LONGEST,
    RECORDING,
    Row,
    Variation,
    at,
    recording,
    rows,
)
from wastedcores_course.task import Answer, Mistake

Episodes = list[tuple[int, int]]


def _kind(nr_running: int) -> str:
    return "idle" if nr_running == 0 else "busy" if nr_running == 1 else "overloaded"


def _one_is_overloaded(rows: list[Row], start_ns: int, end_ns: int) -> Episodes:
    return episodes([(t, cpu, 2 if n == 1 else n) for t, cpu, n in rows], start_ns, end_ns)


def _from_first_event(rows: list[Row], start_ns: int, end_ns: int) -> Episodes:
    """Wrongly ignore the lengths that the runqueues have when the window begins."""
    return episodes([r for r in rows if r[0] > start_ns], start_ns, end_ns)


def _never_closed(rows: list[Row], start_ns: int, end_ns: int) -> Episodes:
    """Report an episode only when it ends inside of the window."""
    return [e for e in episodes(rows, start_ns, end_ns) if e[1] != end_ns]


def _split(rows: list[Row], start_ns: int, end_ns: int) -> Episodes:
    """Begin another episode at every event."""
    found = []
    for begin, end in episodes(rows, start_ns, end_ns):
        cuts = [begin, *sorted({t for t, _, _ in rows if begin < t < end}), end]
        found += list(pairwise(cuts))
    return found


def _lengths(v: Variation) -> list[float]:
    return [(e - b) / 1e6 for b, e in episodes(rows(v), *v.window_ns)]


def _any_may(idle: list[int], waiting: list[list[int]]) -> bool:
    return any(set(idle) & set(allowed) for allowed in waiting)


ANSWERS = {
    "1": Answer(lambda v: at(rows(v), v.window_ns[0]), (
        Mistake(lambda v: [0, 0],
            "A runqueue is not empty because nothing was reported of it yet in your window: look at the rows before it."),
    )),
    "2": Answer(lambda v: _kind, (
        Mistake(lambda v: lambda n: "idle" if n == 0 else "overloaded",
            "With one thread on the runqueue that thread runs and nobody waits."),
        Mistake(lambda v: lambda n: "idle" if n <= 1 else "overloaded",
            "nr_running counts the running thread, too, so a CPU with one thread is not idle."),
    )),
    "3": Answer(lambda v: episodes, (
        Mistake(lambda v: _one_is_overloaded, "You count CPUs with one thread as overloaded. That thread runs; nobody waits."),
        Mistake(lambda v: _from_first_event,
            "You begin with the first event in the window. The state before it comes from earlier rows."),
        Mistake(lambda v: _never_closed, "An episode that is still open at the end of the window ends there."),
        Mistake(lambda v: _split,
            "You begin another episode at each event. An episode goes on as long as the condition holds."),
    )),
    "4": Answer(lambda v: sum(_lengths(v)), (
        Mistake(lambda v: sum(e - b for b, e in episodes(rows(v), *v.window_ns)),
            "These are ns. A millisecond has a million of them."),
        Mistake(lambda v: sum(e - b for b, e in episodes(rows(v), -(10**9), 10**10)) / 1e6,
            "This is the whole recording. Ask for your window only."),
    )),
    "5": Answer(lambda v: sorted(_lengths(v), reverse=True)[:LONGEST], (
        Mistake(lambda v: _lengths(v)[:LONGEST], "These are the first episodes, in order of time."),
        Mistake(lambda v: sorted(_lengths(v))[:LONGEST], "These are the shortest episodes: sort the other way round."),
    )),
    "6": Answer(lambda v: _any_may, (
        Mistake(lambda v: lambda idle, waiting: bool(idle and waiting),
            "You ignore the affinity: an idle CPU is not wasted if no waiting thread may run there."),
        Mistake(lambda v: lambda idle, waiting: bool(waiting) and all(set(idle) & set(w) for w in waiting),
            "One thread that could run is enough; not all of them have to."),
    )),
    "7": Answer(lambda v: [check(recording(name)).verdict for name in (RECORDING, CONTROL)], (
        Mistake(lambda v: ["clean", "violations"], "You exchanged the two recordings."),
        Mistake(lambda v: ["violations", "violations"],
            "With balancing on there are short moments, too, but look at what the tool says about them."),
    )),
}  # fmt: skip
