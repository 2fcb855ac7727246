"""How far the verdict can be trusted: which episodes are certain, and whether one may have been missed.

A persistent episode decides only if it remains one after all doubtful spans are taken out, and if at least one of the
threads that waited in it could have moved: its affinity is known, or it was seen running on several CPUs. A trace
without such an episode is clean only if the doubtful spans could not hide one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.invariant import sweep_jit
from wastedcores.invariant.sweep import episode_table, merged, sweep
from wastedcores.runqueues import tasks_jit as tj
from wastedcores.runqueues.runqueues import Runqueues


class Trust(NamedTuple):
    """The verdict and what limits it."""

    verdict: str
    doubts: pl.DataFrame
    affinity_unknown: int
    notes: list[str]


def judge(
    rq: Runqueues,
    episodes: pl.DataFrame,
    waiting: pl.DataFrame,
    counted: NDArray[np.uint8],
    window: tuple[int, int],
    persist_ns: int,
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
    counted
        (cpus,) 1 for CPUs that count.
    window
        Start and end in ns.
    persist_ns
        Episodes of at least this length are persistent.

    Returns
    -------
    polars.DataFrame, Trust
        The episodes with the column ``certain``, and the verdict.
    """
    doubts = _inside(rq.doubts, counted, window)
    header = rq.trace.header
    notes = (
        [f"the file was cut short: {header.truncated_last_line}"]
        if header.truncated_last_line
        else []
    )
    unknown = _affinity_unknown(rq)
    persistent = episodes["persistent"].to_numpy()
    sure = persistent.copy()
    state_doubts = doubts.filter(pl.col("reason") != "bound_by_name")
    if sure.any() and state_doubts.height:
        sure &= _survives(rq, episodes, state_doubts, counted, window, persist_ns)
        if not sure.all(where=persistent):
            notes.append(
                f"{int((persistent & ~sure).sum())} persistent episodes rest on spans in which the trace contradicts itself"
            )
    if sure.any() and rq.source == "tasks":
        movable = _somebody_could_move(rq, episodes, waiting)
        pinned = int((sure & ~movable).sum())
        sure &= movable
        if pinned:
            notes.append(
                f"in {pinned} persistent episodes no waiting thread is known to be allowed elsewhere: record their affinity"
            )
    verdict = "violations" if sure.any() else "clean"
    if not sure.any() and (
        persistent.any() or header.truncated_last_line or _longest(episodes, doubts) >= persist_ns
    ):
        verdict = "unknown"
        if not persistent.any() and not header.truncated_last_line:
            notes.append("the spans in doubt are long enough to hide a persistent episode")
    table = episodes.with_columns(certain=pl.Series(sure, dtype=pl.Boolean))
    order = [c for c in table.columns if c != "certain"]
    order.insert(order.index("persistent") + 1, "certain")
    return table.select(order), Trust(verdict, doubts, unknown, notes)


def _inside(
    doubts: pl.DataFrame, counted: NDArray[np.uint8], window: tuple[int, int]
) -> pl.DataFrame:
    """Doubts about counted CPUs within the window, merged by reason and CPU."""
    start, end = window
    near = doubts.filter(
        pl.col("end_ns") > start,
        pl.col("start_ns") < end,
        pl.col("cpu").is_in([-1, *np.flatnonzero(counted).tolist()]),
    ).with_columns(
        pl.col("start_ns").clip(lower_bound=start), pl.col("end_ns").clip(upper_bound=end)
    )
    parts = [
        merged(rows, counted.size).with_columns(reason=pl.lit(str(reason)))
        for (reason,), rows in near.sort("reason").group_by("reason", maintain_order=True)
    ]
    if not parts:
        return near.select("reason", "cpu", "start_ns", "end_ns")
    return pl.concat(parts).select("reason", "cpu", "start_ns", "end_ns")


def _survives(
    rq: Runqueues,
    episodes: pl.DataFrame,
    doubts: pl.DataFrame,
    counted: NDArray[np.uint8],
    window: tuple[int, int],
    persist_ns: int,
) -> NDArray[np.bool_]:
    """For each episode: whether it contains a persistent one when the doubtful spans count as unknown."""
    state = sweep_jit.new_state(rq.cpus, counted, *window)
    collected, _, _ = sweep(rq, state, window[1], doubts)
    left = episode_table(collected, rq.cpus, persist_ns).filter(pl.col("persistent"))
    start, end = episodes["start_ns"].to_numpy(), episodes["end_ns"].to_numpy()
    # episodes are disjoint and in order, and so are those that are left
    after = np.searchsorted(left["start_ns"].to_numpy(), end)
    before = np.searchsorted(left["end_ns"].to_numpy(), start, side="right")
    return after > before


def _somebody_could_move(
    rq: Runqueues, episodes: pl.DataFrame, waiting: pl.DataFrame
) -> NDArray[np.bool_]:
    """For each episode: whether a thread that waited in it was free to run elsewhere. Those not looked at count as such."""
    answer = np.ones(episodes.height, np.bool_)
    masks, of_pid, is_known, moved = rq.affinity.masks, rq.mask_of_pid, rq.affinity_known, rq.moved
    if of_pid is None or is_known is None or moved is None:
        return answer
    idle = episodes["idle_cpus"]
    for (episode,), rows in waiting.group_by("episode"):
        pids = rows["pid"].to_numpy()
        known = is_known[pids]
        if (moved[pids] & ~known).any() or (of_pid[pids[known]] == tj.FREE).any():
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
    return int((rq.ran & ~rq.affinity_known & (rq.mask_of_pid != tj.PRESUMED_BOUND)).sum())


def _longest(episodes: pl.DataFrame, doubts: pl.DataFrame) -> int:
    """Length in ns of the longest span that is covered by episodes and doubts together, if doubts are part of any."""
    if not doubts.height:
        return 0
    spans = pl.concat([t.select("start_ns", "end_ns") for t in (episodes, doubts)])
    whole = merged(spans.with_columns(cpu=pl.lit(0, pl.Int32)), 1)
    return int((whole["end_ns"] - whole["start_ns"]).max() or 0)  # type: ignore[arg-type]
