"""Lab 1: find the idle cores in a real recording, with the sweep of the paper's Algorithm 2."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from wastedcores.trace import named
from wastedcores.trace.trace import Trace
from wastedcores_course.task import Manual, Task

TITLE = "find the idle cores"
RECORDING, CONTROL = "live-balancing-off", "live-balancing-on"
#: students must name this many of the longest episodes
LONGEST = 5
#: a function is tried with this many made-up traces
TRIED = 12

#: time in ns, CPU, threads on its runqueue from then on
Row = tuple[int, int, int]
#: function of rows and of a window in ns; returns episodes, each with its first and last ns
Violations = Callable[[list[Row], int, int], list[tuple[int, int]]]


@dataclass(frozen=True)
class Variation:
    """The window of one student."""

    #: the ends of the window, as parts of the measured interval of the recording
    first: float
    last: float
    seed: int  #: seed of the made-up traces on which functions are tried

    @property
    def window_ns(self) -> tuple[int, int]:
        """The window in ns, on the clock of :func:`rows`."""
        start, end = _measured()
        first, last = (round((end - start) * part) for part in (self.first, self.last))
        return first, last


def draw(rng: random.Random) -> Variation:
    """Draw a variation."""
    first = rng.randrange(300, 3000) / 10_000
    return Variation(first, first + rng.randrange(5500, 6800) / 10_000, rng.randrange(1 << 30))


def is_fair(v: Variation) -> bool:
    """Tell whether the window has enough episodes and cuts one at an end, and whether common mistakes give other answers."""
    # imported here, because the answers are left out where students' code runs; no window is drawn there
    from wastedcores_course.answers.episodes import episodes

    start, end = v.window_ns
    found = episodes(rows(v), start, end)
    long = [e - b for b, e in found]
    return (
        len(found) > LONGEST
        and sorted(long, reverse=True)[:LONGEST] != long[:LONGEST]
        and (found[0][0] == start or found[-1][1] == end)
        and at(rows(v), start) != [0, 0]
    )


def facts(v: Variation) -> dict[str, str]:
    """Return what a student sees of a variation."""
    start, end = v.window_ns
    return {
        "recording": f"{RECORDING}: Linux 6.18 on a machine with two CPUs, 1.2 s, through BPF",
        "your window": f"from {start / 1e6:.1f} ms to {end / 1e6:.1f} ms",
    }


# --- what students work with ------------------------------------------------------------------------------------------


def recording(name: str = RECORDING) -> Trace:
    """Return the recording, or its control, which has the same work but a kernel that balances."""
    return named.open(name)


@lru_cache(maxsize=1)
def _measured() -> tuple[int, int]:
    window = recording().header.window
    assert window is not None
    return window.start_ns, window.end_ns


@lru_cache(maxsize=1)
def _rows() -> list[Row]:
    start, _ = _measured()
    table = recording().only("nr_running").select("ts_ns", "cpu", "nr_running").collect()
    return [(t - start, cpu, nr) for t, cpu, nr in table.iter_rows()]


def rows(v: Variation) -> list[Row]:
    """Return the changes of the runqueues: time in ns since the measurement began, CPU, threads on its runqueue from then on.

    The first rows are from before the measurement, so their times are negative.
    """
    return list(_rows())


def at(rows: list[Row], time_ns: int) -> list[int]:
    """Return the number of threads on each of the two CPUs' runqueues at a time."""
    nr = [0, 0]
    for t, cpu, n in rows:
        if t <= time_ns:
            nr[cpu] = n
    return nr


# --- what checks measure ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def tried(seed: int) -> list[tuple[list[Row], int, int]]:
    """Return made-up traces of two to four CPUs, each with a window."""
    rng = random.Random(seed)
    made = []
    for _ in range(TRIED):
        cpus = rng.randrange(2, 5)
        changes = [(0, cpu, rng.choice((0, 1, 2))) for cpu in range(cpus)]
        for i in range(1, 40):
            changes.append((10 * i, rng.randrange(cpus), rng.choice((0, 0, 1, 1, 2, 3))))
        # both ends are odd numbers, so that a window neither begins nor ends at the time of a row
        made.append((changes, rng.randrange(31, 120) | 1, rng.randrange(250, 399) | 1))
    return made


@lru_cache(maxsize=4)
def moments(seed: int) -> list[tuple[list[int], list[list[int]]]]:
    """Return moments, each as a list of the idle CPUs and, for each waiting thread, a list of the CPUs on which it may run."""
    rng = random.Random(seed)
    made: list[tuple[list[int], list[list[int]]]] = [
        ([2, 3], [[0, 1], [2, 3]]),  # the second thread could run
        ([3], [[0, 1], [1]]),  # no thread could run
        ([], [[0], [1]]),
        ([1], []),
    ]
    for _ in range(20):
        idle = sorted(rng.sample(range(4), rng.randrange(4)))
        waiting = [
            sorted(rng.sample(range(4), rng.randrange(1, 4))) for _ in range(rng.randrange(4))
        ]
        made.append((idle, waiting))
    return made


def _measure_kind(v: Variation, kind: Callable[[int], str]) -> list[str]:
    return [kind(n) for n in range(6)]


def _measure_violations(v: Variation, violations: Violations) -> list[Any]:
    return [[list(e) for e in violations(list(r), a, b)] for r, a, b in tried(v.seed)]


def _measure_wasted(v: Variation, wasted: Callable[..., Any]) -> list[bool]:
    return [
        bool(wasted(list(idle), [list(w) for w in waiting])) for idle, waiting in moments(v.seed)
    ]


# --- how a wrong answer is explained ----------------------------------------------------------------------------------


def _explain_start(v: Variation, want: Any, got: Any) -> str:
    cpu = next(c for c in (0, 1) if want[c] != got[c])
    return (
        f"CPU {cpu} does not have {got[cpu]} threads when your window begins. Its last change before that moment says how many "
        "it has."
    )


def _explain_kind(v: Variation, want: Any, got: Any) -> str:
    n = next(n for n in range(6) if want[n] != got[n])
    return f"a CPU with {n} threads on its runqueue is {want[n]}, and not {got[n]!r}: one thread runs, and {max(n - 1, 0)} wait."


def _explain_violations(v: Variation, want: Any, got: Any) -> str:
    (changes, start, end), w, g = next(
        x for x in zip(tried(v.seed), want, got, strict=True) if x[1] != x[2]
    )
    i = next((i for i, x in enumerate(w) if i >= len(g) or g[i] != x), len(w))
    cpus = max(c for _, c, _ in changes) + 1
    where = f"In a trace of {cpus} CPUs, with a window from {start} to {end} ns,"
    if i == len(w):
        return f"{where} you report {g[i]} after the last episode, but then no CPU is idle while another is overloaded."
    mine = f"yours is {g[i]}" if i < len(g) else "you report no more"
    return f"{where} episode {i + 1} is {w[i]}; {mine}. The rows of this trace are toy.tried(v.seed)[{want.index(w)}][0]."


def _explain_total(v: Variation, want: Any, got: Any) -> str:
    return f"it is not {got:g} ms. Add up the lengths of the episodes in your window, and convert ns to ms."


def _right_total(v: Variation, want: Any, got: Any) -> bool:
    return bool(abs(want - got) <= 0.01)


def _explain_longest(v: Variation, want: Any, got: Any) -> str:
    if len(got) != len(want):
        return f"expected {len(want)} lengths, but your list has {len(got)}."
    i = next(i for i, (w, g) in enumerate(zip(want, got, strict=True)) if abs(w - g) > 0.01)
    return f"length {i + 1} is not {got[i]:g} ms. Sort the lengths of the episodes in your window, the longest first."


def _right_longest(v: Variation, want: Any, got: Any) -> bool:
    return all(abs(w - g) <= 0.01 for w, g in zip(want, got, strict=True))


def _explain_wasted(v: Variation, want: Any, got: Any) -> str:
    (idle, waiting), w = next(
        (m, w) for m, w, g in zip(moments(v.seed), want, got, strict=True) if w != g
    )
    why = (
        "some waiting thread may run on one of them"
        if w
        else "no waiting thread may run on any of them"
    )
    return f"with idle CPUs {idle}, and threads waiting that may run on {waiting}, the answer is {w}, because {why}."


def _explain_verdicts(v: Variation, want: Any, got: Any) -> str:
    i = next(i for i, (w, g) in enumerate(zip(want, got, strict=True)) if w != g)
    return f"the verdict about {(RECORDING, CONTROL)[i]} is not {got[i]!r}. Print the result of wc.check."


TASKS = (
    Task("1", "where the window begins", 1, 10, explain=_explain_start),
    Task("2", "idle, busy, overloaded", 1, 5, _measure_kind, _explain_kind),
    Task("3", "the sweep", 5, 25, _measure_violations, _explain_violations, hidden=True),
    Task("4", "the violation time", 2, 5, explain=_explain_total, right=_right_total),
    Task("5", "the longest episodes", 2, 5, explain=_explain_longest, right=_right_longest),
    Task("6", "affinity", 3, 10, _measure_wasted, _explain_wasted, hidden=True),
    Task("7", "the verdicts of the tool", 1, 5, explain=_explain_verdicts),
    Manual("8", "reflection: which episodes to report", 3, 10),
)
