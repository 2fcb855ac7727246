"""The check: one sweep over a window of a trace, then its verdict."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.errors import UsageError
from wastedcores.invariant import sweep_jit
from wastedcores.invariant.details import details as look_closer
from wastedcores.invariant.result import CheckResult
from wastedcores.invariant.sweep import episode_table, sweep
from wastedcores.runqueues.runqueues import Runqueues, runqueues
from wastedcores.trace.trace import Trace

#: M of the paper, section 4.1: violations shorter than this are the balancer's to repair
PERSIST_NS = 100_000_000


def check(
    trace: Trace,
    *,
    persist_ns: int = PERSIST_NS,
    cpus: list[int] | None = None,
    between: tuple[str, str] | None = None,
    ignore_affinity: bool = False,
    silent: str = "idle",
) -> CheckResult:
    """Check the invariant over a trace.

    Parameters
    ----------
    trace
        Any trace with nr_running or switch events.
    persist_ns
        Episodes of at least this length are persistent (the paper's M).
    cpus
        Count these CPUs only; None: all.
    between
        Start and end of the window: each the beginning of a mark's text, or a time in seconds as in the trace.
    ignore_affinity
        Treat every waiting thread as movable.
    silent
        See :func:`wastedcores.runqueues.runqueues.runqueues`.

    Raises
    ------
    UsageError
        Unknown mark, CPU that the trace does not have, empty window.
    MissingEventsError
        The trace says nothing about runqueues.
    """
    if silent not in ("idle", "unknown"):
        raise UsageError(f"silent {silent!r}: expected idle or unknown.")
    if persist_ns < 0:
        raise UsageError(f"persist {persist_ns} ns: expected 0 or more.")
    rq = runqueues(trace, silent=silent, affinity=not ignore_affinity)
    start_ns, end_ns = window(rq, between)
    counted = _counted(rq, cpus)
    state = sweep_jit.new_state(rq.cpus, counted, start_ns, end_ns)
    collected, dropped, known = sweep(rq, state, end_ns)
    episodes = episode_table(collected, rq.cpus, persist_ns)
    details, waiting, causes = look_closer(rq, episodes, counted)
    scalars = [int(x) for x in state.scalars]
    spans = [s for s in rq.lost_spans if s[1] >= start_ns and s[0] <= end_ns]
    notes = list(rq.notes)
    cut = trace.header.provenance.get("truncated_last_line")
    if cut:
        notes.append(f"the file was cut short: {cut}")
    if dropped:
        notes.append(f"the {dropped} shortest episodes are not listed; the totals count them")
    verdict = "violations" if bool(episodes["persistent"].any()) else "clean"
    unknown = [int(c) for c in np.flatnonzero(counted.astype(bool) & ~known)]
    lost_without_place = trace.header.lost_total > 0 and not rq.lost_spans
    if spans or lost_without_place:
        verdict = "unknown"
        notes.append(f"{trace.header.lost_total} events were lost: the verdict is unknown")
    elif scalars[sweep_jit.KNOWN_NS] == 0 and end_ns > start_ns:
        verdict = "unknown"
        notes.append("no runqueue is known in the interval")
    return CheckResult(
        trace,
        start_ns,
        end_ns,
        persist_ns,
        verdict,
        scalars[sweep_jit.WALL_NS],
        scalars[sweep_jit.CPU_NS],
        scalars[sweep_jit.THREAD_NS],
        scalars[sweep_jit.BUSY_NS],
        scalars[sweep_jit.IDLE_NS],
        scalars[sweep_jit.WAITING_NS],
        episodes,
        details,
        waiting,
        causes,
        dropped,
        "ignored" if ignore_affinity else ", ".join(rq.affinity) or "none in the trace",
        rq.source,
        rq.cpus,
        [int(c) for c in np.flatnonzero(counted)],
        rq.silent_cpus,
        unknown,
        spans,
        rq.oddities,
        notes,
    )


def window(rq: Runqueues, between: tuple[str, str] | None) -> tuple[int, int]:
    """The interval to look at, in ns."""
    if between is None:
        return rq.start_ns, rq.end_ns
    start, end = (_moment(rq.trace, text) for text in between)
    if end <= start:
        raise UsageError(
            f"--between {between[0]!r} {between[1]!r}: the window ends at {end} ns, not after its start {start} ns."
        )
    return max(start, rq.start_ns), min(end, rq.end_ns)


def _moment(trace: Trace, text: str) -> int:
    """Time of the first mark that begins with ``text``, or ``text`` itself as seconds."""
    marks = trace.only("mark").select("ts_ns", "text").collect()
    hit = marks.filter(pl.col("text").str.starts_with(text))
    if hit.height:
        return int(hit["ts_ns"][0])
    try:
        whole, _, fraction = text.strip().partition(".")
        return int(whole) * 1_000_000_000 + int(fraction[:9].ljust(9, "0") or 0)
    except ValueError:
        pass
    known = ", ".join(repr(t) for t in marks["text"].head(8)) or "no marks at all"
    raise UsageError(
        f"{trace.name}: no mark begins with {text!r} (it has {known}), and it is not a time in seconds either."
    )


def _counted(rq: Runqueues, cpus: list[int] | None) -> NDArray[np.uint8]:
    counted = np.ones(rq.cpus, np.uint8)
    if cpus is None:
        return counted
    wrong = [c for c in cpus if not 0 <= c < rq.cpus]
    if wrong or not cpus:
        raise UsageError(
            f"--cpus: the trace has CPUs 0-{rq.cpus - 1}, "
            + (f"not {wrong[0]}." if wrong else "and the list names none.")
        )
    counted[:] = 0
    counted[cpus] = 1
    return counted
