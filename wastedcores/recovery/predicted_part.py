"""The part of a trace whose time is predicted, and whether this part ends with work or with the recording."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wastedcores.recovery import classes as cs
from wastedcores.recovery import stretches_jit as sj
from wastedcores.recovery.task_tables import Seen
from wastedcores.trace.trace import Trace

#: a window ends by the clock if the task that ends it slept for more than this share of the window
BY_CLOCK = 0.9
#: a task that was asleep for at most this share of the window computes from its beginning to its end
ALWAYS = 0.05
#: but such a task does not spin if other tasks ended at least SOME of its sleeps after the first part (BEGINNING) of its work
SOME, BEGINNING = 2, 0.02
BY_OTHERS = (cs.CHILD, cs.BARRIER, cs.MESSAGE, cs.LIKELY, cs.JOIN)


@dataclass(frozen=True)
class Span:
    """The part of a trace whose time is predicted."""

    #: the recorded times of its start and its end
    start_ns: int
    end_ns: int
    marks: tuple[str, str] | None  #: texts of the marks at the ends, if a task writes them
    ending: tuple[int, ...]  #: the tasks for whose end a replay waits
    why_endless: tuple[str, ...]  #: why no time can be predicted; empty if a time can be predicted
    #: tasks that may spin, whose CPU time therefore says nothing about their work
    spinning: frozenset[int] = frozenset()


def find_span(trace: Trace, seen: Seen, in_rounds: NDArray[np.bool_]) -> Span:
    """Find the part of a trace whose time is predicted.

    This part is the window between two marks that tasks wrote. Without such marks, it lasts from the start of the requested
    window (or of the trace) until the last exit of a task. What lies outside the trace in a requested window is left out.
    """
    window = trace.header.window
    start, end = seen.start_ns, seen.end_ns
    if window:
        start, end = (min(max(t, start), end) for t in (window.start_ns, window.end_ns))
    first, last = _mark(seen, start), _mark(seen, end)
    if window and first is not None and last is not None and first != last:
        marker = int(seen.marks[last, sj.M_TASK])
        texts = seen.texts[first], seen.texts[last]
        if spinning := _spinning(seen, in_rounds, start, end):
            return Span(start, end, None, (), _may_spin(seen, spinning), spinning)
        return Span(start, end, texts, (marker,), _by_clock(seen, marker, start, end))
    exit_ns = seen.tasks[:, sj.T_EXIT_NS]
    ending = np.flatnonzero((exit_ns >= start) & (exit_ns <= end))
    if not len(ending):
        where = "window" if window else "trace"
        why = (
            f"no task ends in the {where}, and no two marks of tasks bound it, so there is no time to predict; the "
            "number of busy CPUs is predicted instead",
        )
        return Span(start, end, None, (), why)
    last_exit = int(exit_ns[ending].max())
    if spinning := _spinning(seen, in_rounds, start, last_exit):
        return Span(start, last_exit, None, (), _may_spin(seen, spinning), spinning)
    return Span(start, last_exit, None, tuple(ending.tolist()), ())


def busy_per_cpu(seen: Seen, span: Span, switch_ns: int) -> tuple[float, ...]:
    """Return the share of a span in which each CPU was busy. The cost of switches counts as busy time, as in a replay."""
    begin = np.clip(seen.pieces[:, sj.P_SINCE] - switch_ns, span.start_ns, span.end_ns)
    end = np.clip(seen.pieces[:, sj.P_END], span.start_ns, span.end_ns)
    busy = np.bincount(seen.pieces[:, sj.P_CPU], end - begin, seen.cpus)
    return tuple((busy / max(span.end_ns - span.start_ns, 1)).tolist())


def _mark(seen: Seen, ts_ns: int) -> int | None:
    """Return the mark that was written at a moment, or None."""
    at = np.flatnonzero(seen.marks[:, sj.M_NS] == ts_ns)
    return int(at[0]) if len(at) else None


def _by_clock(seen: Seen, marker: int, start: int, end: int) -> tuple[str, ...]:
    """Return a sentence if the task that ends the window mostly slept in it, so that a time and not work ends the window."""
    s = seen.sleeps[seen.sleeps[:, sj.S_TASK] == marker]
    s = s[np.isin(s[:, sj.S_CLASS], (cs.TIMER, cs.DEVICE, cs.UNKNOWN)) & (s[:, sj.S_WAKE_NS] >= 0)]
    slept = np.clip(s[:, sj.S_WAKE_NS], start, end) - np.clip(s[:, sj.S_OUT_NS], start, end)
    if slept.sum() <= BY_CLOCK * (end - start):
        return ()
    return (
        "the window ends by the clock, not because work does, so there is no time to predict; the number of busy CPUs is "
        "predicted instead",
    )


def _spinning(seen: Seen, in_rounds: NDArray[np.bool_], start: int, end: int) -> frozenset[int]:
    """Return the tasks that may spin, because they hardly sleep and end in the window; none if there is only one such task."""
    t = seen.tasks
    exits = (t[:, sj.T_EXIT_NS] >= 0) & (t[:, sj.T_EXIT_NS] <= end + (end - start) // 20)
    lives = np.minimum(np.where(exits, t[:, sj.T_EXIT_NS], end), end) - np.maximum(
        t[:, sj.T_FIRST_NS], start
    )
    whole = (lives >= (1 - 2 * ALWAYS) * (end - start)) & (t[:, sj.T_SLEPT] <= ALWAYS * lives)
    ran = np.bincount(
        seen.pieces[:, sj.P_TASK], seen.pieces[:, sj.P_END] - seen.pieces[:, sj.P_SINCE], len(t)
    )
    wakers = seen.sleeps[np.isin(seen.sleeps[:, sj.S_CLASS], (cs.MESSAGE, cs.LIKELY)), sj.S_WAKER]
    wakes = np.bincount(wakers, minlength=len(t)) > 0
    doubtful = exits & whole & (ran > ALWAYS * lives) & ~wakes & ~in_rounds & ~_waits(seen)
    found = frozenset(np.flatnonzero(doubtful).tolist())
    return found if len(found) > 1 else frozenset()


def _waits(seen: Seen) -> NDArray[np.bool_]:
    """Return bool (tasks,): the tasks that wait for other tasks by sleeping, and not only at their beginning."""
    s = seen.sleeps[np.isin(seen.sleeps[:, sj.S_CLASS], BY_OTHERS)]
    settled = s[:, sj.S_AT] > BEGINNING * seen.tasks[s[:, sj.S_TASK], sj.T_RAN]
    return np.bincount(s[settled, sj.S_TASK], minlength=len(seen.tasks)) >= SOME


def _may_spin(seen: Seen, spinning: frozenset[int]) -> tuple[str, ...]:
    """Say why no time is predicted for tasks that may spin."""
    names = sorted({seen.comms[t] for t in spinning})
    slept = seen.tasks[list(spinning), sj.T_SLEPT].any()
    rest = f"sleep for less than {ALWAYS:.0%} of the time" if slept else "never sleep"
    return (
        f"{len(spinning)} tasks that end ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''}) {rest}: a trace does not "
        "show whether such a task computes or spins while it waits for another one, so no time is predicted, only the number "
        "of busy CPUs",
    )
