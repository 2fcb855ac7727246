"""The most waste that a trace allows, found without knowing where the waiting threads are queued.

At any moment, the number of threads that wait avoidably is at most the number of idle CPUs. It is also at most the number of
threads that could run and do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.invariant import pool_events_jit, pool_jit, sweep_jit
from wastedcores.invariant.brief import FLOOR_NS, WithoutBrief
from wastedcores.invariant.chronic import Chronic, covered_ns, worst
from wastedcores.invariant.sweep import Collected, merged, sweep
from wastedcores.runqueues import cpu_row, task_row
from wastedcores.runqueues.affinity import unrestricted
from wastedcores.runqueues.doubts import limiting_groups
from wastedcores.runqueues.runqueues import Batch, Runqueues
from wastedcores.runqueues.state import PARKS, SKEW_NS


class AtMost(NamedTuple):
    """The most waste that can be in the window: in all, in the longest piece, and whether a piece reaches an end of the window.

    ``firm_longest_ns`` and ``chronic`` leave out overloads that are too brief to count.
    """

    waste_ns: int
    longest_ns: int
    goes_on: bool
    firm_longest_ns: int
    chronic: Chronic | None


class Pooled:
    """The CPUs' runqueues, followed by an extra runqueue that holds all threads that could run and do not, and one more."""

    source, counted, kept, is_strict = "nr_running", False, False, False

    def __init__(self, rq: Runqueues, dark: NDArray[np.bool_]) -> None:
        self._rq, self._dark = rq, dark
        self.cpus = rq.cpus + 1
        self.affinity = unrestricted(self.cpus, 1)
        #: spans (start_ns, end_ns) in which a thread may have waited unseen; known after streaming
        self.unseen: list[NDArray[np.int64]] = []

    def batches(self, **_: Any) -> Iterator[Batch]:
        """Stream the changes, see :class:`wastedcores.runqueues.stream.Runqueues`."""
        rq, start = self._rq, self._rq.start
        state = start.task[:, task_row.STATE]
        waiting = state == task_row.WAITING
        curr = start.cpu[:, cpu_row.CURR]
        task = np.zeros((rq.tasks.count, 3), np.int8)
        # a thread that was first seen after a loss may have waited since the start
        unsure = start.task[:, task_row.DOUBTED] == task_row.PERHAPS_WAITS
        task[:, pool_jit.STATE] = np.where(unsure, task_row.UNKNOWN, state)
        task_ns = np.full((rq.tasks.count, 7), rq.start_ns, np.int64)
        task_ns[:, pool_jit.IDLE] = 0
        task_ns[:, pool_jit.MOVED] = -1
        task_ns[:, [pool_jit.EARLY, pool_jit.AT]] = rq.start_ns - SKEW_NS - 1
        kind, has, group = self._kinds()
        nr = (curr > 0).astype(np.int32)
        idle = np.append(curr == 0, False).astype(np.int8)
        placed = self._placed()
        cpu = np.where(start.task[:, task_row.CPU] < 0, rq.cpus, start.task[:, task_row.CPU])
        cpu = cpu.astype(np.int32) if placed else np.full(rq.tasks.count, rq.cpus, np.int32)
        queued = np.zeros((rq.cpus + 1, group.size), np.int64)
        np.add.at(queued, (cpu[waiting], kind[waiting]), 1)
        may_idle = has.astype(np.int64) @ (nr == 0)
        where, which = np.nonzero(queued[:-1] * idle[:-1, None] * group)
        for c, g in set(zip(where.tolist(), group[which].tolist(), strict=True)):
            may_idle[group == g] -= has[group == g, c]
        counted = queued[idle == 0].sum(axis=0)
        pool = pool_jit.Pool(
            task,
            task_ns,
            nr,
            kind,
            cpu,
            queued,
            idle,
            counted,
            may_idle,
            has,
            group,
            placed,
            int(rq.wakes_at_fork),
            int(not rq.lost_spans and (curr != cpu_row.CURR_UNKNOWN).all()),
            curr.astype(np.int32),
            np.array([int((nr == 0).sum()), 0, rq.start_ns]),
            np.full(rq.cpus, rq.start_ns),
            self._losses(),
            idle[:-1].astype(np.uint8),
            np.array([rq.start_ns if rq.hidden else -1]),
            self._dark.astype(np.uint8),
            self._ghosts(),
        )
        useful, unseen = pool_events_jit.at_first(pool)
        begin = np.append(pool.nr, useful + unseen + 1).astype(np.int32)
        wait = np.append(np.zeros(rq.cpus), pool.waiting.sum()).astype(np.int32)
        yield self._batch(
            np.full(self.cpus, rq.start_ns),
            np.arange(self.cpus, dtype=np.int32),
            begin,
            wait,
            np.append(np.zeros(rq.cpus), unseen).astype(np.int32),
        )
        recorder = start.task[:, task_row.RECORDER] != 0
        for e in rq.task_events():
            out = _room(3 * e.code.size, 10 * e.code.size)
            pool_events_jit.pool(e, rq.trace.header.wakings, recorder, pool, out)
            rows, spans = out.n.tolist()
            self.unseen.append(out.span[:spans])
            yield self._batch(
                out.ts_ns[:rows],
                out.cpu[:rows],
                out.nr[:rows],
                out.waiting[:rows],
                out.ghosts[:rows],
            )
        out = _room(3 * rq.tasks.count)
        pool_events_jit.finish(pool, rq.end_ns, recorder, out)
        self.unseen.append(out.span[: int(out.n[1])])

    def _losses(self) -> NDArray[np.int64]:
        """The times when events were lost. The array is empty if a CPU was not recorded, for then any wakeup may be missing."""
        known = self._rq.start.cpu[:, cpu_row.CURR] != cpu_row.CURR_UNKNOWN
        losses = [start_ns for start_ns, _, _ in self._rq.lost_spans] if known.all() else []
        return np.array(losses, np.int64)

    def _ghosts(self) -> NDArray[np.int32]:
        """As many threads as there are CPUs may wait unseen on dark CPUs; if only one CPU is dark, all of them wait there."""
        dark = np.flatnonzero(self._dark)
        only = int(dark[0]) + 1 if dark.size == 1 else 0
        return np.array([self._rq.cpus if dark.size else 0, only], np.int32)

    def _placed(self) -> int:
        """1 if the trace tells on which queue each thread is, else 0."""
        kinds = self._rq.trace.kinds()
        told = {"wakeup", "migrate"} <= set(kinds) and not self._rq.trace.header.wakings
        return int(told and self._rq.start.numbers[PARKS] != 0)

    def _kinds(self) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.int32]]:
        """The kind of each thread, and for each kind its CPUs (kinds, cpus) and its limiting group.

        A thread whose affinity is not known all the time may run anywhere. Group 0: no known group limits the threads.
        """
        rq = self._rq
        mask = np.zeros(rq.tasks.count, np.int32)
        if not (rq.evidence is None or rq.mask_of_task is None or "affinity" in rq.trace.kinds()):
            known = (rq.evidence > 0) & (rq.start.task[:, task_row.REUSED] == 0)
            mask = np.where(known, np.maximum(rq.mask_of_task, 0), 0).astype(np.int32)
        group = limiting_groups(rq.tasks.trace.header, rq.tasks.count)
        group[rq.start.task[:, task_row.REUSED] != 0] = 0
        pairs, kind = np.unique(np.stack([mask, group]), axis=1, return_inverse=True)
        has = np.unpackbits(rq.affinity.masks.view(np.uint8), axis=1, bitorder="little")
        has[task_row.FREE] = 1
        has[:, rq.isolated] = 0
        return (
            kind.reshape(-1).astype(np.int32),
            np.ascontiguousarray(has[pairs[0], : rq.cpus]),
            pairs[1].astype(np.int32),
        )

    @staticmethod
    def _batch(
        ts_ns: NDArray[np.int64],
        cpu: NDArray[np.int32],
        nr: NDArray[np.int32],
        waiting: NDArray[np.int32],
        ghosts: NDArray[np.int32],
    ) -> Batch:
        # the column for the codes of events holds the number of ghosts instead
        return Batch(ts_ns, cpu, nr, waiting, np.zeros(ts_ns.size, np.int32), ghosts)  # type: ignore[arg-type]


def _room(spans: int, rows: int = 0) -> pool_jit.Changes:
    return pool_jit.Changes(
        np.empty(rows, np.int64),
        np.empty(rows, np.int32),
        np.empty(rows, np.int32),
        np.empty(rows, np.int32),
        np.empty(rows, np.int32),
        np.empty((spans, 2), np.int64),
        np.zeros(2, np.int64),
    )


class _WithoutBriefWaits(WithoutBrief):
    """Leaves out the times in which threads wait too briefly to count towards a verdict.

    While nobody waits, no runqueue is overloaded, so an overload that is brief here is brief on every runqueue. Threads that
    may wait unseen always count, because nobody knows for how long.
    """

    def push(self, batch: Batch) -> Batch:
        """Take changes, and return those that later changes can no longer alter."""
        waiting = np.where(batch.cpu == self._cpus - 1, batch.free + 1, batch.nr).astype(np.int32)
        return self._counting(super().push(replace(batch, nr=waiting, free=batch.nr)))

    def rest(self) -> Batch:
        """Return the changes that are left at the end."""
        return self._counting(super().rest())

    def _counting(self, left: Batch) -> Batch:
        counts = (left.cpu != self._cpus - 1) | (left.nr > 1)
        return replace(left, nr=np.where(counts, left.free, 1 + left.code).astype(np.int32))


def at_most(
    rq: Runqueues,
    first: sweep_jit.SweepState,
    dark: NDArray[np.bool_],
    offline: NDArray[np.int64],
) -> AtMost:
    """Find the most waste that the trace allows.

    * ``dark``: CPUs of which nothing tells what they did, or whether they were recorded.
    * ``offline``: (slices,) see :func:`wastedcores.invariant.chronic.offline_ns`.
    """
    pooled = Pooled(rq, dark)
    window = (int(first.window[0]), int(first.window[1]))
    counted = np.append(first.counted, np.uint8(1))
    counted[rq.isolated] = 0
    length = int(first.scalars[sweep_jit.SLICE_NS])
    state = sweep_jit.new_state(pooled.cpus, counted, *window, length)
    found = sweep(pooled, state, window[1], brief=_WithoutBriefWaits(pooled.cpus))  # type: ignore[arg-type]
    spans = np.concatenate(pooled.unseen).clip(*window)
    spans = spans[spans[:, 1] > spans[:, 0]]
    unseen = _union(spans)
    # a wait can be longer than the part of it that the trace shows
    near = (spans + np.array([-FLOOR_NS, FLOOR_NS])).clip(*window)
    assert found.firm is not None
    # the queue that all waiting threads share is no CPU, so it is no busy CPU either
    found.firm_state.counted[-1] = 0
    slices = found.firm_state.slices
    slices[:, 0] -= length * np.arange(1, slices.shape[0] + 1)
    hidden_ns = int((spans[:, 1] - spans[:, 0]).sum())
    every = _pieces(found.episodes, unseen)
    return AtMost(
        int(state.scalars[sweep_jit.THREAD_NS]) + hidden_ns,
        _longest_ns(every),
        bool(((every["start_ns"] <= window[0]) | (every["end_ns"] >= window[1])).any()),
        _longest_ns(_pieces(found.firm, _union(near))),
        worst(
            found.firm_state,
            offline,
            more=covered_ns(_table(near), found.firm_state),
        ),
    )


def _pieces(episodes: Collected, unseen: pl.DataFrame) -> pl.DataFrame:
    """Return the longest possible episodes: every span in which a thread may have waited unseen counts as waiting."""
    return _union(np.concatenate([*(times[:, :2] for times in episodes.times), unseen.to_numpy()]))


def _longest_ns(pieces: pl.DataFrame) -> int:
    return int((pieces["end_ns"] - pieces["start_ns"]).max() or 0)  # type: ignore[arg-type]


def _union(spans: NDArray[np.int64]) -> pl.DataFrame:
    """The time that some spans (n, 2) cover, as disjoint spans in order."""
    return merged(_table(spans).with_columns(cpu=pl.lit(0, pl.Int32)), 1).select(
        "start_ns", "end_ns"
    )


def _table(spans: NDArray[np.int64]) -> pl.DataFrame:
    return pl.DataFrame({"start_ns": spans[:, 0], "end_ns": spans[:, 1]})
