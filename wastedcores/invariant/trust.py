"""How far the verdict can be trusted: which violations are certain, and whether one may have been missed.

A violation decides the verdict only if it is still a violation after everything that may be wrong is taken out: spans in which
the trace contradicts itself, waits of threads that may have been throttled, and threads of which nothing says that they may use
the idle CPU. A trace without a violation is clean only if what is in doubt could not hide one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.invariant import sweep_jit
from wastedcores.invariant.bounds import AtMost, at_most
from wastedcores.invariant.brief import without_brief
from wastedcores.invariant.chronic import Chronic, covered_ns, offline_ns, worst
from wastedcores.invariant.reasons import (
    NOT_DISPATCHED,
    QUEUED_WITHIN_NS,
    cut_short,
    left_open,
    perhaps_new,
    rests_on,
)
from wastedcores.invariant.seen import seen_spans
from wastedcores.invariant.sweep import Swept, firm_sweep, merged, spans_of, sweep, without
from wastedcores.runqueues import task_row
from wastedcores.runqueues.affinity import repinned
from wastedcores.runqueues.doubts import HEADER_REASONS, ONLY_LESS, ONLY_MORE
from wastedcores.runqueues.runqueues import Runqueues
from wastedcores.units import human_ns

#: this many of the longest episodes are examined for threads that were seen on the idle CPUs
_LOOKS = 8
#: reasons that are no contradictions; any other reason makes a window shorter than M doubtful
_NO_CONTRADICTION = (*ONLY_LESS, "bound_by_name", *ONLY_MORE)
#: Doubts that also leave the upper bound of the waste unknown: what the header says about the whole trace can excuse an idle CPU,
#: and the kernel's count can reveal another idle CPU.
_NO_BOUND = (*HEADER_REASONS, "count_differs")
#: If both of these doubts are there, the upper bound is unknown, too: it relies on the events that tell who ran, and too many of
#: them are missing.
_UNBELIEVED = {"contradicted_often", "out_without_in"}


class Bound(NamedTuple):
    """The least and the most waste of CPU time that the trace allows, and the longest episode, in ns."""

    waste_at_least_ns: int
    waste_at_most_ns: int
    longest_at_most_ns: int


class Trust(NamedTuple):
    """The verdict and what limits it."""

    verdict: str
    kind: str
    chronic: Chronic | None
    doubts: pl.DataFrame
    affinity_unknown: int
    rests_on_affinity: bool
    bound: Bound
    endless: bool
    seen_ns: int
    notes: list[str]


class _Certain(NamedTuple):
    """What remains of the violations without everything that may be wrong."""

    episodes: NDArray[np.bool_]
    chronic: Chronic | None
    least_ns: int
    seen_ns: int
    affinity_matters: bool


def judge(
    rq: Runqueues,
    episodes: pl.DataFrame,
    found: Swept,
    state: sweep_jit.SweepState,
    persist_ns: int,
    chronic_share: float | None,
    *,
    assumed: bool,
    unknown_cpus: NDArray[np.bool_],
    lost: bool,
) -> tuple[pl.DataFrame, Trust]:
    """Decide the verdict."""
    doubts = _inside(rq.doubts, state)
    limit = np.inf if chronic_share is None else chronic_share
    offline = offline_ns(rq, state)
    found, persistent = _firm(rq, episodes, found, state, persist_ns, limit, offline)
    chronic = worst(found.firm_state, offline)
    seems_chronic = chronic is not None and chronic.enough and chronic.share >= limit
    seems = bool(persistent.any() or seems_chronic)
    less = bool((~doubts["reason"].is_in(ONLY_MORE)).any())
    questionable = assumed or less or lost or rq.trace.header.wakings
    waste_ns = int(state.scalars[sweep_jit.THREAD_NS])
    surely = worst(found.firm_state, offline, surely=True)
    certain = _Certain(persistent, surely, waste_ns, 0, False)
    throttled = rq.trace.header.quotas != {} and "idle_beside_waiting" in rq.oddities
    if rq.source == "tasks" and seems and (questionable or throttled):
        certain = _certain(
            rq, episodes, persistent, chronic, state, persist_ns, offline, assumed, throttled
        )
    elif waste_ns and (questionable or throttled):
        certain = certain._replace(least_ns=0)  # this was not examined
    sure, share = certain.episodes, certain.chronic.share if certain.chronic else 0.0
    surely_chronic = seems_chronic and share >= limit
    most = None
    length_ns, counted = int(state.window[1] - state.window[0]), int(state.counted.sum())
    brief = length_ns < persist_ns and counted > 1
    reasons = set(doubts["reason"].unique())
    endless = bool(reasons & {*_NO_BOUND}) or reasons >= _UNBELIEVED
    endless |= _idle_beside(doubts) >= persist_ns and _nothing_limited(rq)
    endless = endless or _longer_queues(rq, state, doubts)
    open_ = doubts.height or unknown_cpus.any() or lost or brief
    if rq.source == "tasks" and open_ and not endless:
        most = at_most(rq, state, unknown_cpus & _perhaps_unrecorded(rq), offline)
    notes = cut_short(rq)
    if sure.any() or surely_chronic:
        verdict = "violations"
    elif most is not None and not _allowed(most, persist_ns, limit):
        if seems and _rests_on_parked(
            rq, episodes, persistent, state, persist_ns, doubts, limit, offline
        ):
            notes.append(NOT_DISPATCHED)
        verdict = "unknown" if notes else "clean"
    else:
        short = chronic is not None and not chronic.enough and chronic.share >= limit
        hidden = lost or (most is not None and _moved_unseen(rq))
        if not (hidden or seems):
            hidden = _may_hide(rq, episodes, doubts, found.firm_state, persist_ns, limit, offline)
        notes += left_open(bool(notes), bool(unknown_cpus.any()), hidden, short)
        verdict = "unknown" if seems or notes else "clean"
        notes += perhaps_new(rq) if verdict == "unknown" else []
    if brief:
        odd = not doubts["reason"].is_in(_NO_CONTRADICTION).all()
        if verdict != "clean" or most is None or most.goes_on or odd or length_ns <= 0:
            verdict = "unknown"
            notes.append(
                f"the window is {human_ns(length_ns)} long, and waste may have begun before it or gone on after it; a "
                f"verdict needs {human_ns(persist_ns)} (--persist) at least"
            )
    if verdict != "clean" and seems:
        missing = int((persistent & ~sure).sum())
        only_chronic = seems_chronic and not surely_chronic and not sure.any()
        notes = rests_on(missing, only_chronic, throttled, certain.affinity_matters, rq) + notes
    moved = len(repinned(rq.trace.header)[0])
    if verdict == "unknown" and assumed and moved and not rq.affinity.follows:
        notes.append(
            f"{moved} threads got another affinity between the two snapshots, and the trace does not tell when: "
            "`wastedcores capture` records it"
        )
    kind = "persistent" if sure.any() else "chronic" if surely_chronic else "occasional"
    columns = [
        pl.Series("persistent", persistent, pl.Boolean),
        pl.Series("certain", sure, pl.Boolean),
    ]
    table = episodes.select("start_ns", "end_ns", *columns, pl.col(episodes.columns[3:]))
    # while CPUs idle beside a waiting thread, at least one other CPU does not idle
    ceiling_ns = (counted - 1 + int(unknown_cpus.sum())) * length_ns
    most_ns = max(min(most.waste_ns, ceiling_ns) if most else 0, waste_ns)
    longest_ns = int((episodes["end_ns"] - episodes["start_ns"]).max() or 0)  # type: ignore[arg-type]
    return table, Trust(
        verdict,
        kind if episodes.height else "none",
        None if brief else chronic,
        doubts,
        _affinity_unknown(rq),
        certain.affinity_matters and verdict == "unknown",
        Bound(
            certain.least_ns,
            most_ns,
            # at each moment of an episode at least one CPU is wasted
            max(min(most.longest_ns, length_ns, most_ns) if most else 0, longest_ns),
        ),
        endless,
        certain.seen_ns,
        notes,
    )


def _perhaps_unrecorded(rq: Runqueues) -> NDArray[np.bool_]:
    """Return the CPUs of which nothing says whether they were recorded or offline."""
    header = rq.trace.header
    online = range(rq.cpus) if header.cpus_online is None else header.cpus_online
    return np.isin(np.arange(rq.cpus), [] if header.every_cpu else list(online))


def _idle_beside(doubts: pl.DataFrame) -> int:
    """Return the longest time, in ns, that a CPU idles beside a thread on its own queue, which the bound takes for throttled."""
    spans = doubts.filter(pl.col("reason") == "idle_beside_waiting")
    return int(spans.select((pl.col("end_ns") - pl.col("start_ns")).max()).item() or 0)


def _moved_unseen(rq: Runqueues) -> bool:
    """Whether threads that an idle CPU did not run are on other queues: moves are not recorded, and nothing has a limit."""
    unseen = "migrate" not in rq.trace.kinds() and "idle_beside_waiting" in rq.oddities
    return unseen and _nothing_limited(rq)


def _nothing_limited(rq: Runqueues) -> bool:
    """Whether it is known that no control group has a quota and no thread is known to be limited, as a deadline thread is."""
    if rq.trace.header.quotas != {}:
        return False
    return task_row.LIMITED_FOR_SURE not in rq.start.task[:, task_row.LIMITED]


def _rests_on_parked(
    rq: Runqueues,
    episodes: pl.DataFrame,
    persistent: NDArray[np.bool_],
    state: sweep_jit.SweepState,
    persist_ns: int,
    doubts: pl.DataFrame,
    limit: float,
    offline: NDArray[np.int64],
) -> bool:
    """Whether there is a violation if the threads on an idle CPU's queue count as waiting; the bound takes them for throttled."""
    parked = doubts["reason"].is_in(["idle_beside_waiting", "starved"])
    if rq.trace.header.quotas or "idle_beside_waiting" not in doubts["reason"]:
        return False
    left = _again(rq, state, doubts.filter(~parked))
    chronic = worst(left.firm_state, offline)
    return bool((persistent & _survives(episodes, _persistent(left, persist_ns))).any()) or (
        chronic is not None and chronic.share >= limit
    )


def _longer_queues(rq: Runqueues, state: sweep_jit.SweepState, doubts: pl.DataFrame) -> bool:
    """Whether more is wasted if as many threads as possible wait wherever only the length of a queue is in doubt.

    The upper bound knows the tasks only, and the kernel may have counted more of them.
    """
    queues = doubts.filter(pl.col("reason") == "queue_differs")
    if not queues.height:
        return False
    most = _again(rq, state, queues, rq.cpus + 1).state
    return bool(most.scalars[sweep_jit.THREAD_NS] > state.scalars[sweep_jit.THREAD_NS])


def _firm(
    rq: Runqueues,
    episodes: pl.DataFrame,
    found: Swept,
    state: sweep_jit.SweepState,
    persist_ns: int,
    limit: float,
    offline: NDArray[np.int64],
) -> tuple[Swept, NDArray[np.bool_]]:
    """Leave out brief overloads if that was not done yet and may matter; return also which episodes stay persistent."""
    plain = episodes["persistent"].to_numpy()
    if found.firm is None:
        chronic = worst(state, offline)
        if not plain.any() and (chronic is None or chronic.share < limit):
            return found, plain
        found, early = firm_sweep(rq, state, found, persist_ns)
        if early:  # one episode is certain, and one is enough
            return found, plain
    assert found.firm is not None
    return found, _survives(episodes, spans_of(found.firm, persist_ns))


def _certain(
    rq: Runqueues,
    episodes: pl.DataFrame,
    persistent: NDArray[np.bool_],
    chronic: Chronic | None,
    state: sweep_jit.SweepState,
    persist_ns: int,
    offline: NDArray[np.int64],
    assumed: bool,
    throttled: bool,
) -> _Certain:
    """Find what is certain of the violations."""
    found = [rq.doubts]
    if rq.trace.header.wakings:
        rq = rq.late(QUEUED_WITHIN_NS)
    strict = rq.strict(throttling=throttled)
    if throttled:  # then other waits are in doubt, too
        for _ in strict.batches():
            pass
        found.append(strict.doubts)
    doubts = _inside(pl.concat(found), state)
    doubts = doubts.filter(~pl.col("reason").is_in(["bound_by_name", *ONLY_MORE]))
    left = _again(strict, state, doubts)
    told = _persistent(left, persist_ns)
    sure = persistent & _survives(episodes, told)
    still = worst(left.firm_state, offline, surely=True)
    seen_ns, proven = 0, told.clear().select("start_ns", "end_ns")
    if assumed and not sure.any() and not throttled:
        spans = told.select("start_ns", "end_ns")
        for start_ns, end_ns in _spans_to_look_at(episodes, persistent, chronic):
            # running on the only idle CPU ends an episode, so a thread that may use it was seen there just before or after
            seen = seen_spans(
                rq,
                without_brief(without(rq, doubts), rq.cpus),
                state,
                (start_ns, end_ns),
                persist_ns,
                near_each=not persistent.any(),
            )
            spans, proven = (_union(pl.concat([some, seen])) for some in (spans, proven))
            long = pl.col("end_ns") - pl.col("start_ns") >= persist_ns
            sure = persistent & _survives(episodes, spans.with_columns(persistent=long))
            if sure.any():
                break
        # several threads may have waited at once, beside several CPUs, so more may have been wasted
        seen_ns = int((proven["end_ns"] - proven["start_ns"]).sum())
        if still is not None:
            seen_too = covered_ns(spans, left.firm_state)
            still = worst(left.firm_state, offline, at_least=seen_too, surely=True)
    matters = False
    if assumed and not sure.any():
        # would the violation be certain if all threads could run anywhere?
        free = _again(rq, state, doubts)
        matters = bool(_survives(episodes, _persistent(free, persist_ns)).any())
        all_free = worst(free.firm_state, offline, surely=True)
        matters |= all_free is not None and still is not None and all_free.share > still.share
    # queueing a thread late can make its CPU look idle for longer, but the certain waste is never more than the apparent one
    told_ns, apparent_ns = (int(x.scalars[sweep_jit.THREAD_NS]) for x in (left.state, state))
    return _Certain(sure, still, min(max(told_ns, seen_ns), apparent_ns), seen_ns, matters)


def _persistent(left: Swept, persist_ns: int) -> pl.DataFrame:
    """The episodes of a sweep without brief overloads."""
    assert left.firm is not None
    return spans_of(left.firm, persist_ns)


def _spans_to_look_at(
    episodes: pl.DataFrame, persistent: NDArray[np.bool_], chronic: Chronic | None
) -> list[tuple[int, int]]:
    """The longest persistent episodes, or the worst window of chronic waste."""
    longest = (
        episodes.filter(pl.Series(persistent))
        .select("start_ns", "end_ns")
        .top_k(_LOOKS, by=pl.col("end_ns") - pl.col("start_ns"))
    )
    if longest.height or chronic is None:
        return longest.rows()
    return [(chronic.start_ns, chronic.start_ns + chronic.window_ns)]


def _inside(doubts: pl.DataFrame, state: sweep_jit.SweepState) -> pl.DataFrame:
    """Doubts about counted CPUs within the window, merged by reason and CPU."""
    start, end = (int(t) for t in state.window)
    columns = "reason", "cpu", "start_ns", "end_ns"
    if not doubts.height:
        return doubts.select(columns)
    near = (
        doubts.lazy()
        .filter(
            pl.col("end_ns") > start,
            pl.col("start_ns") < end,
            pl.col("cpu").is_in([-1, *np.flatnonzero(state.counted).tolist()]),
        )
        .with_columns(
            pl.col("start_ns").clip(lower_bound=start), pl.col("end_ns").clip(upper_bound=end)
        )
        .collect()
    )
    parts = [
        merged(rows, state.counted.size).select(pl.lit(reason).alias("reason"), *columns[1:])
        for reason in near["reason"].unique().sort()
        for rows in [near.filter(pl.col("reason") == reason)]
    ]
    return pl.concat([near.clear().select(columns), *parts])


def _again(
    rq: Runqueues, first: sweep_jit.SweepState, doubts: pl.DataFrame, nr: int = sweep_jit.UNKNOWN
) -> Swept:
    """Sweep once more, with ``nr`` tasks on a CPU in its doubtful spans."""
    window = (int(first.window[0]), int(first.window[1]))
    length = int(first.scalars[sweep_jit.SLICE_NS])
    state = sweep_jit.new_state(rq.cpus, first.counted, *window, length)
    return sweep(rq, state, window[1], without(rq, doubts, nr))


def _survives(episodes: pl.DataFrame, left: pl.DataFrame) -> NDArray[np.bool_]:
    """For each episode: whether a persistent episode of ``left`` lies in it."""
    long = left["persistent"].to_numpy()
    start, end = episodes["start_ns"].to_numpy(), episodes["end_ns"].to_numpy()
    # episodes are disjoint and in order, and so are those of ``left``
    after = np.searchsorted(left["start_ns"].to_numpy()[long], end)
    before = np.searchsorted(left["end_ns"].to_numpy()[long], start, side="right")
    return after > before


def _affinity_unknown(rq: Runqueues) -> int:
    """Number of threads that ran and of which nothing tells where they may run."""
    if rq.ran is None or rq.evidence is None or rq.mask_of_task is None:
        return 0
    assumed = (rq.evidence == task_row.ASSUMED) & (rq.mask_of_task != task_row.PRESUMED_BOUND)
    return int((rq.ran & assumed).sum())


def _allowed(most: AtMost, persist_ns: int, limit: float) -> bool:
    """Whether the most waste that the trace allows would be a violation."""
    return most.firm_longest_ns >= persist_ns or (
        most.chronic is not None and most.chronic.share >= limit
    )


def _may_hide(
    rq: Runqueues,
    episodes: pl.DataFrame,
    doubts: pl.DataFrame,
    state: sweep_jit.SweepState,
    persist_ns: int,
    limit: float,
    offline: NDArray[np.int64],
) -> bool:
    """Whether a persistent or chronic violation may lie in the spans in doubt, together with the waste around them.

    Where only the length of a queue is in doubt, its CPU is busy, and the doubt can hide waiting threads only.
    """
    doubts = doubts.filter(~pl.col("reason").is_in(ONLY_LESS))
    if not doubts.height:
        return False
    only_length = pl.col("reason") == "queue_differs"
    if doubts.select(only_length.any()).item():
        found = _again(rq, state, doubts.filter(only_length), rq.cpus + 1)
        state = found.firm_state
        episodes = spans_of(found.episodes, persist_ns)
        doubts = doubts.filter(~only_length)
    spans = [_union(t) for t in (pl.concat([_times(episodes), _times(doubts)]), doubts)]
    if int((spans[0]["end_ns"] - spans[0]["start_ns"]).max() or 0) >= persist_ns:  # type: ignore[arg-type]
        return True
    # in a span in doubt, all CPUs but one may be idle
    more = covered_ns(spans[1], state) * (int(state.counted.sum()) - 1)
    chronic = worst(state, offline, more=more)
    return chronic is not None and chronic.share >= limit


def _times(spans: pl.DataFrame) -> pl.DataFrame:
    return spans.select("start_ns", "end_ns")


def _union(spans: pl.DataFrame) -> pl.DataFrame:
    """The time that some of the spans cover, as disjoint spans in order."""
    found = merged(_times(spans).with_columns(cpu=pl.lit(0, pl.Int32)), 1)
    return found.select("start_ns", "end_ns")
