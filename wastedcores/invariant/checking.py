"""The check: one sweep over a window of a trace, then its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.cpulist import format_cpulist
from wastedcores.errors import UsageError
from wastedcores.invariant import chronic, sweep_jit
from wastedcores.invariant.details import details, watch
from wastedcores.invariant.result import CheckResult
from wastedcores.invariant.sweep import episode_table, sweep
from wastedcores.invariant.trust import judge
from wastedcores.limits import CHRONIC_SHARE, EVENTS_KEPT_BY_CHECK, PERSIST_NS
from wastedcores.runqueues import task_row
from wastedcores.runqueues.runqueues import MANY_LOSSES, Runqueues, runqueues
from wastedcores.trace.header import Window
from wastedcores.trace.named import TraceLike
from wastedcores.trace.named import open as opened
from wastedcores.trace.window import Moment, asked

_WAITS_ON_ISOLATED = "threads that wait on isolated CPUs may use other CPUs, so their waits count"


def check(
    trace: TraceLike,
    *,
    persist_ns: int = PERSIST_NS,
    chronic_share: float | None = CHRONIC_SHARE,
    cpus: str | Sequence[int] | None = None,
    between: Sequence[Moment] | None = None,
    whole: bool = False,
    ignore_affinity: bool = False,
    silent: str | None = None,
) -> CheckResult:
    """Check the invariant over a trace.

    Parameters
    ----------
    trace
        Any trace with nr_running or switch events.
    persist_ns
        Episodes of at least this length are persistent (the paper's M), in ns.
    chronic_share
        Waste is chronic from this share of the used CPU time on, see :mod:`wastedcores.invariant.chronic`; None: only
        persistent episodes are violations.
    cpus
        Count these CPUs only: numbers, or text in the kernel's list format; default: the CPUs that the recording names,
        else all.
    between
        Start and end of the window: each a time in ns, the beginning of a mark's text, or a time in seconds as text;
        default: the window that the recording names, else all of the trace.
    whole
        Ignore the window and the CPUs that the recording names.
    ignore_affinity
        Treat every waiting thread as movable.
    silent
        See :func:`wastedcores.runqueues.runqueues.runqueues`.

    Returns
    -------
    CheckResult
        The verdict, the integrals over time, and the episodes.

    Raises
    ------
    UsageError
        An unknown mark, a CPU that the trace does not have, or an empty window.
    MissingEventsError
        The trace says nothing about runqueues.
    """
    require_sensible(persist_ns, silent, chronic_share)
    trace = opened(trace)
    small = (trace.header.events or EVENTS_KEPT_BY_CHECK) < EVENTS_KEPT_BY_CHECK
    rq = runqueues(trace, silent=silent, affinity=not ignore_affinity, keep=small)
    window, counted = asked(trace, between, cpus, whole=whole)
    return check_runqueues(
        rq,
        window,
        counted,
        persist_ns=persist_ns,
        chronic_share=chronic_share,
        ignore_affinity=ignore_affinity,
    )


def require_sensible(
    persist_ns: int, silent: str | None, chronic_share: float | None = CHRONIC_SHARE
) -> None:
    """Refuse impossible options before a trace is read."""
    if silent not in (None, "idle", "unknown"):
        raise UsageError(f"silent {silent!r}: expected idle or unknown.")
    if persist_ns < 0:
        raise UsageError(f"persist {persist_ns} ns: expected 0 or more.")
    if chronic_share is not None and not 0 < chronic_share <= 1:
        raise UsageError(f"chronic share {chronic_share}: expected a number above 0 and up to 1.")


def check_runqueues(
    rq: Runqueues,
    window: Window | None,
    cpus: Sequence[int] | None,
    *,
    persist_ns: int,
    chronic_share: float | None = CHRONIC_SHARE,
    ignore_affinity: bool = False,
) -> CheckResult:
    """Check the invariant over runqueues that were found before."""
    trace = rq.trace
    start_ns, end_ns, outside = rq.start_ns, rq.end_ns, []
    if window is not None:
        start_ns, end_ns = max(window.start_ns, start_ns), min(window.end_ns, end_ns)
    if window is not None and end_ns < start_ns:
        told = (
            f"the window is {window.start_ns / 1e9:.9g} to {window.end_ns / 1e9:.9g} s, and the trace has the events of every "
            f"CPU only from {rq.start_ns / 1e9:.9g} to {rq.end_ns / 1e9:.9g} s"
        )
        if window != trace.header.window:
            raise UsageError(f"{trace.name}: {told}. Ask for a window in that time.")
        outside = [told]
        end_ns = start_ns
    counted = _counted(rq, cpus)
    isolated = (
        [] if ignore_affinity else [c for c in trace.header.isolated_cpus or [] if c < rq.cpus]
    )
    if not rq.isolated:
        counted[isolated] = 0
    slice_ns = chronic.slice_ns(persist_ns, start_ns, end_ns) if chronic_share else 0
    if chronic_share and rq.source == "tasks" and 0 < end_ns - start_ns < persist_ns:
        slice_ns = end_ns - start_ns
    state = sweep_jit.new_state(rq.cpus, counted, start_ns, end_ns, slice_ns)
    longest = watch(rq, counted, end_ns)
    # where only lengths are known, a second pass may end early, so it is not made before it is needed
    firm = rq.keep or rq.source == "tasks"
    found = sweep(rq, state, end_ns, longest=longest, firm=firm)
    # a CPU that was offline when the trace began, and of which there is no event, did not come online
    counted[_offline(rq) & ~found.known] = 0
    state.counted[:] = found.firm_state.counted[:] = counted
    episodes = episode_table(found.episodes, rq.cpus, persist_ns)
    times, waiting, causes, avoidable, by_evidence_ns = details(
        rq, episodes, counted, (start_ns, end_ns), longest
    )
    scalars = [int(x) for x in state.scalars]
    unknown = counted.astype(bool) & ~found.known
    unknown[rq.isolated] = False
    never_known = np.flatnonzero(unknown)
    spans = [s for s in rq.lost_spans if s[1] >= start_ns and s[0] <= end_ns]
    all_known = scalars[sweep_jit.KNOWN_NS] == int(counted.sum()) * (end_ns - start_ns)
    losses = _that_matter(rq, spans, end_ns, all_known)
    lost, located = trace.header.lost_total, _located(rq, losses)
    notes = [*rq.notes, *outside]  # some notes are only known after streaming
    if isolated:
        notes.append(
            f"CPUs {format_cpulist(isolated)} are isolated, so no thread is balanced onto them: they do not count"
        )
    if trace.header.unproven:
        notes.append(trace.header.unproven)
    if found.dropped:
        notes.append(f"the {found.dropped} shortest episodes are not listed; the totals count them")
    if chronic_share and (not slice_ns or (end_ns - start_ns) // slice_ns < chronic.WINDOW):
        notes.append(chronic.not_judged(persist_ns, start_ns, end_ns))
    episodes, trust = judge(
        rq,
        episodes,
        found,
        state,
        persist_ns,
        chronic_share,
        assumed=bool(by_evidence_ns[task_row.ASSUMED]),
        unknown_cpus=unknown,
        lost=located,
    )
    verdict, bound = trust.verdict, trust.bound
    alone = counted.sum() == 1
    notes += [] if alone else trust.notes
    if located:
        notes.append(f"{lost} events were lost: what happened around them is in doubt")
    if alone:
        verdict = "clean"
        notes.append("only one CPU counts, so there is nowhere to move a thread")
    elif (losses or (lost > 0 and not rq.lost_spans)) and not located:
        verdict = "unknown"
        notes.append(f"{lost} events were lost: the verdict is unknown")
        # the lost events might show that there was no waste
        bound = bound._replace(waste_at_least_ns=0)
        episodes = episodes.with_columns(certain=pl.lit(False))
    elif scalars[sweep_jit.KNOWN_NS] == 0 and (outside or end_ns > start_ns):
        verdict = "unknown"
        notes.append("no runqueue is known in the interval")
    affinity = ", ".join(rq.affinity.sources) or "none in the trace"
    result = CheckResult(
        trace=trace,
        window=window,
        start_ns=start_ns,
        end_ns=end_ns,
        persist_ns=persist_ns,
        verdict=verdict,
        kind=trust.kind,
        chronic=trust.chronic,
        wall_ns=scalars[sweep_jit.WALL_NS],
        cpu_ns=scalars[sweep_jit.CPU_NS],
        thread_ns=scalars[sweep_jit.THREAD_NS],
        busy_ns=scalars[sweep_jit.BUSY_NS],
        idle_ns=scalars[sweep_jit.IDLE_NS],
        waiting_ns=scalars[sweep_jit.WAITING_NS],
        episodes=episodes,
        details=times,
        waiting=waiting,
        causes=causes,
        avoidable=avoidable,
        episodes_dropped=found.dropped,
        affinity="ignored" if ignore_affinity else affinity,
        source="nr_running" if rq.counted else "tasks",
        cpus=rq.cpus,
        counted_cpus=[int(c) for c in np.flatnonzero(counted)],
        silent_cpus=rq.silent_cpus,
        silent=rq.silent,
        unknown_cpus=never_known.tolist(),
        unknown_spans=spans,
        oddities=rq.oddities,
        doubts=trust.doubts,
        affinity_unknown=trust.affinity_unknown,
        rests_on_affinity=trust.rests_on_affinity,
        bound=bound,
        endless=trust.endless,
        evidence=_evidence(rq, by_evidence_ns, trust.seen_ns),
        notes=notes,
    )
    again = partial(
        check_runqueues,
        window=window,
        persist_ns=persist_ns,
        chronic_share=chronic_share,
        ignore_affinity=ignore_affinity,
    )
    if isolated and result.verdict == "clean" and rq.source == "tasks" and not rq.isolated:
        there = again(replace(rq, isolated=isolated, notes=[], oddities={}), cpus=cpus)
        if there.verdict != "clean":
            notes = [*result.notes, _WAITS_ON_ISOLATED, *there.notes]
            return replace(there, notes=list(dict.fromkeys(notes)))
    if rq.another_cpu is None or cpus is not None:
        return result
    more = runqueues(rq.another_cpu, silent=rq.silent, affinity=not ignore_affinity, keep=rq.keep)
    return _allowing(result, again(more, cpus=None))


def _allowing(result: CheckResult, more: CheckResult) -> CheckResult:
    """Return what is true whether or not there was one more CPU; ``more`` is the check with this CPU."""
    bound = result.bound._replace(
        waste_at_most_ns=more.bound.waste_at_most_ns,
        longest_at_most_ns=more.bound.longest_at_most_ns,
    )
    verdict, notes = result.verdict, result.notes
    if verdict == "clean" and more.verdict != "clean":
        verdict = "unknown"
        notes = [
            *notes,
            "the trace does not tell how many CPUs there were: with one more, which was idle, a violation is possible. If "
            f"there was none, name the CPUs: --cpus 0-{result.cpus - 1}",
        ]
    return replace(
        result, verdict=verdict, bound=bound, endless=result.endless or more.endless, notes=notes
    )


def _offline(rq: Runqueues) -> NDArray[np.bool_]:
    """Return which CPUs were offline at the beginning, if the trace says it."""
    online = rq.trace.header.cpus_online
    return np.zeros(rq.cpus, np.bool_) if online is None else ~np.isin(np.arange(rq.cpus), online)


def _that_matter(
    rq: Runqueues, inside: list[tuple[int, int, int]], end_ns: int, all_known: bool
) -> list[tuple[int, int, int]]:
    """Return the losses that can make the verdict on a window wrong; the losses ``inside`` lie in the window.

    What is lost before the window can leave a wrong state behind. If the trace only has lengths of runqueues, a loss at a known
    place makes each CPU unknown until its next length. So this loss does not matter to a window in which all CPUs are known. If
    neither the CPU nor the time of a loss is known, readers place it at the end of the trace: it may have happened at any time.
    """
    before = [s for s in rq.lost_spans if s[0] <= end_ns or (s[2] < 0 and s[1] >= rq.end_ns)]
    healed = rq.source == "nr_running" and all_known and all(c >= 0 for _, _, c in before)
    return inside if healed else before


def _located(rq: Runqueues, losses: list[tuple[int, int, int]]) -> bool:
    """Whether events were lost at known places only, so that only the time around them is in doubt.

    A lost change of affinity would make everything after it wrong.
    """
    some = bool(losses) and len(rq.lost_spans) <= MANY_LOSSES and all(c >= 0 for *_, c in losses)
    return some and rq.source == "tasks" and not rq.affinity.follows and not rq.counted


def _evidence(rq: Runqueues, by_grade_ns: NDArray[np.int64], seen_ns: int) -> dict[str, int]:
    """Avoidable waiting in ns, by the evidence that the thread could have run elsewhere."""
    assumed = int(by_grade_ns[task_row.ASSUMED])
    seen = min(seen_ns, assumed)
    return {
        "told_ns": int(by_grade_ns[task_row.TOLD]),
        "inherited_ns": int(by_grade_ns[task_row.INHERITED]),
        "seen_ns": seen,
        "assumed_ns": assumed - seen,
    }


def _counted(rq: Runqueues, cpus: Sequence[int] | None) -> NDArray[np.uint8]:
    """Return 1 for each CPU that counts, else 0."""
    if cpus is None:
        return np.ones(rq.cpus, np.uint8)
    wrong = [c for c in cpus if not 0 <= c < rq.cpus]
    if wrong or not cpus:
        raise UsageError(
            f"--cpus: the trace has CPUs 0-{rq.cpus - 1}, "
            + (f"not {wrong[0]}." if wrong else "and the list names none.")
        )
    counted = np.zeros(rq.cpus, np.uint8)
    counted[cpus] = 1
    return counted
