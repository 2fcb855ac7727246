"""Waste that is certain although nothing tells where the threads may run, because they were seen on the idle CPUs.

An idle CPU could have run a waiting thread if the wait lies between two stays of the thread on that CPU, both at most M away from
the persistent episode. Chronic waste consists of many short episodes, so for it the stays must be at most M away from the wait. A
thread does not count at all if a move of it looks like a change of its affinity, or if the stopper moved it and no idle CPU had
asked for this. Nor does a thread count if another thread was moved in this way between the two stays: a change of a cpuset leaves
no sign of the sleeping threads in the cpuset. If moves were not recorded, nobody knows of changes of affinity, so nothing is
certain.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.invariant import seen_jit as sj
from wastedcores.invariant.sweep_jit import SweepState
from wastedcores.runqueues import task_row
from wastedcores.runqueues.runqueues import Batch, Runqueues
from wastedcores.runqueues.state import MOST_REPINS, N_REPINS

#: at most this many spans of waste are kept, since more would not prove more
_ROOM = 1 << 20


def seen_spans(
    rq: Runqueues,
    changes: Iterable[Batch],
    state: SweepState,
    span: tuple[int, int],
    persist_ns: int,
    *,
    near_each: bool,
) -> pl.DataFrame:
    """Find the certain waste of threads of unknown affinity within a span and M around it, but inside of the sweep's window.

    With ``near_each``, the stays are at most M away from each wait, else from the span.
    """
    window = np.array([span[0] - persist_ns, span[1] + persist_ns], np.int64)
    nothing = pl.DataFrame(schema={"start_ns": pl.Int64, "end_ns": pl.Int64})
    repins = int(rq.start.numbers[N_REPINS])
    if repins > MOST_REPINS or "migrate" not in rq.trace.kinds():
        return nothing
    stays = _stays(rq, window)
    waits = _waits(rq, window, state.counted)
    if not stays.height or not waits.height:
        return nothing
    stays = stays.with_row_index("stay")
    found = waits.sort("start_ns").join_asof(
        stays.filter(pl.col("cpu") >= 0).sort("start_ns"),
        on="start_ns",
        by=["task", "cpu"],
        coalesce=True,
        check_sortedness=False,
    )
    found = found.drop_nulls("stay")
    start, end = found["start_ns"].to_numpy(), found["end_ns"].to_numpy()
    places = sj.surrounded(
        stays["task"].to_numpy(),
        stays["cpu"].to_numpy(),
        stays["start_ns"].to_numpy(),
        found["stay"].cast(pl.Int32).to_numpy(),
        start,
        end,
        rq.start.repin_ns[:repins],
        persist_ns if near_each else int(window[1] - window[0]),
        (rq.cpus + 63) // 64,
    )
    places &= _words(state.counted)
    some = places.any(axis=1)
    found, places, start, end = found.filter(pl.Series(some)), places[some], start[some], end[some]
    if not found.height:
        return nothing
    idle, over = _lengths(rq, changes, window.clip(*state.window))
    spans = sj.shared(
        found["cpu"].to_numpy(),
        start,
        end,
        places,
        *over,
        *idle,
        _ROOM,
    )
    return pl.DataFrame(spans, schema=nothing.schema)


def _stays(rq: Runqueues, window: NDArray[np.int64]) -> pl.DataFrame:
    """Stays of threads within the window, ordered by thread and time."""
    last = np.zeros(rq.tasks.count, np.int32)
    parts = [pl.DataFrame(schema={"task": pl.Int32, "cpu": pl.Int32, "start_ns": pl.Int64})]
    for e in rq.task_events():
        room = 2 * e.code.size
        out = sj.Stays(
            np.empty(room, np.int32),
            np.empty(room, np.int32),
            np.empty(room, np.int64),
            np.zeros(1, np.int64),
        )
        sj.stays(
            e.code, e.ts_ns, e.cpu, e.pid, e.prev_pid, rq.trace.header.wakings, window, last, out
        )
        n = int(out.n[0])
        parts.append(
            pl.DataFrame({"task": out.task[:n], "cpu": out.cpu[:n], "start_ns": out.start_ns[:n]})
        )
    return pl.concat(parts).sort("task", maintain_order=True)


def _words(counted: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The CPUs that count, as a mask."""
    bits = np.zeros((counted.size + 63) // 64 * 64, np.uint8)
    bits[: counted.size] = counted
    return np.packbits(bits, bitorder="little").view(np.uint64)


def _waits(rq: Runqueues, window: NDArray[np.int64], counted: NDArray[np.uint8]) -> pl.DataFrame:
    """Return the waits in the window of threads of assumed affinity, except threads that a change of affinity may have moved."""
    cpus = np.flatnonzero(counted).tolist()
    moved = np.flatnonzero(rq.start.task[:, [task_row.REPINNED, task_row.PUSHED]].any(axis=1))
    parts = []
    for batch in rq.batches(waits=True):
        if batch.waits is not None:
            parts.append(
                batch.waits.filter(
                    pl.col("evidence") == task_row.ASSUMED,
                    pl.col("mask") == task_row.FREE,
                    pl.col("end_ns") > window[0],
                    pl.col("start_ns") < window[1],
                    pl.col("cpu").is_in(cpus),
                )
            )
    if not parts:
        return pl.DataFrame()
    return pl.concat(parts).filter(~pl.col("task").is_in(moved.tolist()))


def _lengths(
    rq: Runqueues, changes: Iterable[Batch], window: NDArray[np.int64]
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int32]], ...]:
    """Intervals in which CPUs were idle, and in which they were overloaded: (n, 2) by CPU and time, and each CPU's first row."""
    now, since = np.zeros(rq.cpus, np.int32), np.zeros(rq.cpus, np.int64)
    end = np.arange(rq.cpus, dtype=np.int32)
    none = np.full(rq.cpus, -1, np.int32)
    last = Batch(np.full(rq.cpus, window[1]), end, none, none, none, none.astype(np.int8))
    parts = []
    for batch in [*changes, last]:
        out = np.zeros((batch.ts_ns.size, 4), np.int64)
        n = sj.lengths(batch.ts_ns, batch.cpu, batch.nr, batch.mask, window, now, since, out)
        parts.append(out[:n])
    rows = np.concatenate(parts)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    found = []
    for kind in (1, 2):
        mine = rows[rows[:, 3] == kind]
        first = np.searchsorted(mine[:, 0], np.arange(rq.cpus + 1)).astype(np.int32)
        found.append((np.ascontiguousarray(mine[:, 1:3]), first))
    return found[0], found[1]
