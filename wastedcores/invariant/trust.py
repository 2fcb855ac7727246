"""How far the verdict can be trusted: which episodes are certain, and whether one may have been missed.

A persistent episode decides only if it remains one after all doubtful spans are taken out, together with all threads that
may have been pinned: their affinity is unknown, and they were on one CPU only since the episode began. An earlier move
proves nothing: the thread may have been pinned since then, as ``taskset`` does. Chronic waste decides if enough of it
remains without the doubtful spans and without threads that might be pinned. A trace without either is clean only if the
doubtful spans could not hide one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.invariant import sweep_jit
from wastedcores.invariant.chronic import Chronic, covered_ns, worst
from wastedcores.invariant.sweep import Collected, episode_table, merged, sweep
from wastedcores.runqueues import task_row
from wastedcores.runqueues.runqueues import Runqueues

#: sweeps for the question whether an episode is certain, each without the threads that may be pinned
_LOOKS = 4


class Trust(NamedTuple):
    """The verdict and what limits it."""

    verdict: str
    kind: str
    chronic: Chronic | None
    doubts: pl.DataFrame
    affinity_unknown: int
    rests_on_affinity: bool
    notes: list[str]


def judge(
    rq: Runqueues,
    episodes: pl.DataFrame,
    waiting: pl.DataFrame,
    state: sweep_jit.SweepState,
    persist_ns: int,
    chronic_share: float | None,
) -> tuple[pl.DataFrame, Trust]:
    """Decide the verdict.

    Parameters
    ----------
    rq
        The runqueues, streamed before, so that their doubts are known.
    episodes
        All episodes, as :func:`wastedcores.invariant.sweep.episode_table` gives them.
    waiting
        Who waited in the longest of them: episode, pid, ...
    state
        The finished sweep that found them.
    persist_ns
        Episodes of at least this length are persistent.
    chronic_share
        The share from which waste is chronic, see :mod:`wastedcores.invariant.chronic`; None: it is not looked for.

    Returns
    -------
    polars.DataFrame, Trust
        The episodes with the column ``certain``, and the verdict.
    """
    doubts = _inside(rq.doubts, state)
    cut = rq.trace.header.truncated_last_line
    notes = [f"the file was cut short: {cut}"] if cut else []
    unknown = _affinity_unknown(rq)
    persistent = episodes["persistent"].to_numpy()
    sure = persistent.copy()
    chronic = worst(state)
    rests = False
    limit = np.inf if chronic_share is None else chronic_share
    found = chronic is not None and chronic.share >= limit
    state_doubts = doubts.filter(pl.col("reason") != "bound_by_name")
    if sure.any() and state_doubts.height:
        collected, _ = _again(rq, state, state_doubts)
        sure &= _survives(episodes, episode_table(collected, rq.cpus, persist_ns))
        if not sure.all(where=persistent):
            notes.append(
                f"{int((persistent & ~sure).sum())} persistent episodes rest on spans in which the trace contradicts itself"
            )
    if sure.any() and rq.source == "tasks":
        movable = _somebody_could_move(rq, episodes, waiting)
        possible = sure.copy()
        sure &= movable
        if sure.any() and unknown:
            sure = _survives_bound(rq, state, episodes, sure, state_doubts, persist_ns)
        pinned = int((possible & ~sure).sum())
        rests = pinned > 0
        if pinned:
            notes.append(
                f"{pinned} persistent episodes rest on threads of which nobody knows whether they may run elsewhere: record "
                "their affinity"
            )
    certain = found
    if chronic and found and not sure.any() and (state_doubts.height or unknown):
        strict = _bound(rq, chronic.start_ns) if unknown else rq
        left = worst(_again(strict, state, state_doubts)[1])
        certain = left is not None and left.share >= limit
        if not certain:
            rests |= unknown > 0
            notes.append(
                "the waste is chronic only if spans count in which the trace contradicts itself, or threads of which "
                "nobody knows whether they may run elsewhere"
            )
    verdict = "violations" if sure.any() or certain else "clean"
    if verdict == "clean":
        hidden = (
            not persistent.any()
            and not found
            and _may_hide(rq, episodes, doubts, state, persist_ns, limit)
        )
        if hidden and not cut:
            notes.append("what the CPUs did is in doubt for so long that a violation may be hidden")
        if persistent.any() or found or cut or hidden:
            verdict = "unknown"
    kind = "persistent" if sure.any() else "chronic" if certain else "occasional"
    table = episodes.with_columns(certain=pl.Series(sure, dtype=pl.Boolean))
    order = [c for c in table.columns if c != "certain"]
    order.insert(order.index("persistent") + 1, "certain")
    return table.select(order), Trust(
        verdict,
        kind if episodes.height else "none",
        chronic,
        doubts,
        unknown,
        rests and verdict == "unknown",
        notes,
    )


def _inside(doubts: pl.DataFrame, state: sweep_jit.SweepState) -> pl.DataFrame:
    """Doubts about counted CPUs within the window, merged by reason and CPU."""
    start, end = (int(t) for t in state.window)
    near = doubts.filter(
        pl.col("end_ns") > start,
        pl.col("start_ns") < end,
        pl.col("cpu").is_in([-1, *np.flatnonzero(state.counted).tolist()]),
    ).with_columns(
        pl.col("start_ns").clip(lower_bound=start), pl.col("end_ns").clip(upper_bound=end)
    )
    parts = [
        merged(rows, state.counted.size).with_columns(reason=pl.lit(str(reason)))
        for (reason,), rows in near.sort("reason").group_by("reason", maintain_order=True)
    ]
    if not parts:
        return near.select("reason", "cpu", "start_ns", "end_ns")
    return pl.concat(parts).select("reason", "cpu", "start_ns", "end_ns")


def _again(
    rq: Runqueues, first: sweep_jit.SweepState, doubts: pl.DataFrame, nr: int = sweep_jit.UNKNOWN
) -> tuple[Collected, sweep_jit.SweepState]:
    """Sweep once more, with ``nr`` tasks on a CPU in its doubtful spans; return the episodes and the finished sweep."""
    window = (int(first.window[0]), int(first.window[1]))
    length = int(first.scalars[sweep_jit.SLICE_NS])
    state = sweep_jit.new_state(rq.cpus, first.counted, *window, length)
    collected, _, _ = sweep(rq, state, window[1], doubts if doubts.height else None, nr)
    return collected, state


def _bound(rq: Runqueues, since_ns: int) -> Runqueues:
    """The same runqueues, with threads taken as pinned of which no affinity is known and that did not move since then."""
    assert rq.moved_ns is not None
    assert rq.affinity_known is not None
    return rq.with_bound((rq.moved_ns <= since_ns) & ~rq.affinity_known)


def _survives(episodes: pl.DataFrame, left: pl.DataFrame) -> NDArray[np.bool_]:
    """For each episode: whether it contains a persistent one of those that are left."""
    left = left.filter(pl.col("persistent"))
    start, end = episodes["start_ns"].to_numpy(), episodes["end_ns"].to_numpy()
    # episodes are disjoint and in order, and so are those that are left
    after = np.searchsorted(left["start_ns"].to_numpy(), end)
    before = np.searchsorted(left["end_ns"].to_numpy(), start, side="right")
    return after > before


def _survives_bound(
    rq: Runqueues,
    state: sweep_jit.SweepState,
    episodes: pl.DataFrame,
    sure: NDArray[np.bool_],
    doubts: pl.DataFrame,
    persist_ns: int,
) -> NDArray[np.bool_]:
    """For each sure episode: whether it stays persistent without threads that may be pinned.

    These are the threads of unknown affinity that did not move since the episode began. They are fewer for an earlier episode,
    so what survives without those of the latest one is certain. Earlier ones are asked only until one survives.
    """
    begins = episodes["start_ns"].to_numpy()
    found, left = np.zeros_like(sure), sure.copy()
    for _ in range(_LOOKS):
        since_ns = int(begins[left].max())
        collected, _ = _again(_bound(rq, since_ns), state, doubts)
        found |= left & _survives(episodes, episode_table(collected, rq.cpus, persist_ns))
        left &= ~found & (begins < since_ns)
        if found.any() or not left.any():
            break
    return found


def _somebody_could_move(
    rq: Runqueues, episodes: pl.DataFrame, waiting: pl.DataFrame
) -> NDArray[np.bool_]:
    """For each episode: whether a thread that waited in it was free to run elsewhere. Those not looked at count as such."""
    answer = np.ones(episodes.height, np.bool_)
    masks, of_pid, is_known, moved_ns = (
        rq.affinity.masks,
        rq.mask_of_pid,
        rq.affinity_known,
        rq.moved_ns,
    )
    if of_pid is None or is_known is None or moved_ns is None:
        return answer
    idle, begins = episodes["idle_cpus"], episodes["start_ns"].to_numpy()
    for (episode,), rows in waiting.group_by("episode"):
        pids = rows["pid"].to_numpy()
        known = is_known[pids]
        moved = moved_ns[pids] > begins[int(episode)]  # type: ignore[arg-type]
        if (moved & ~known).any() or (of_pid[pids[known]] == task_row.FREE).any():
            continue
        cpus = idle[int(episode)].to_numpy()  # type: ignore[arg-type]
        bits = masks[of_pid[pids[known]]][:, cpus >> 6] >> (cpus & 63).astype(
            np.uint64
        ) & np.uint64(1)
        answer[int(episode)] = bool(bits.any())  # type: ignore[arg-type]
    return answer


def _affinity_unknown(rq: Runqueues) -> int:
    """Number of threads that ran and of which the trace does not tell where they may run."""
    if rq.ran is None or rq.affinity_known is None or rq.mask_of_pid is None:
        return 0
    return int((rq.ran & ~rq.affinity_known & (rq.mask_of_pid != task_row.PRESUMED_BOUND)).sum())


def _may_hide(
    rq: Runqueues,
    episodes: pl.DataFrame,
    doubts: pl.DataFrame,
    state: sweep_jit.SweepState,
    persist_ns: int,
    limit: float,
) -> bool:
    """Whether a persistent or chronic violation may lie in the spans in doubt, together with the waste around them.

    Where only the length of a queue is in doubt, the CPU is busy, and it cannot hide more than many waiting threads.
    """
    if not doubts.height:
        return False
    only_length = pl.col("reason") == "queue_differs"
    if doubts.select(only_length.any()).item():
        collected, state = _again(rq, state, doubts.filter(only_length), rq.cpus + 1)
        episodes = episode_table(collected, rq.cpus, persist_ns)
        doubts = doubts.filter(~only_length)
    spans = [_union(t) for t in (pl.concat([_times(episodes), _times(doubts)]), doubts)]
    if int((spans[0]["end_ns"] - spans[0]["start_ns"]).max() or 0) >= persist_ns:  # type: ignore[arg-type]
        return True
    chronic = worst(state, covered_ns(spans[1], state))
    return chronic is not None and chronic.share >= limit


def _times(spans: pl.DataFrame) -> pl.DataFrame:
    return spans.select("start_ns", "end_ns")


def _union(spans: pl.DataFrame) -> pl.DataFrame:
    """The time that some of the spans cover, as disjoint spans in order."""
    return merged(_times(spans).with_columns(cpu=pl.lit(0, pl.Int32)), 1)
