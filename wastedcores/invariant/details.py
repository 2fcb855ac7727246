"""A second look at the longest episodes: times per CPU, waiting threads, and the events that overloaded the CPUs."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.invariant import detail_jit
from wastedcores.invariant.avoidable import AvoidableWaits
from wastedcores.invariant.longest import Longest
from wastedcores.runqueues.runqueues import Runqueues, comms

#: number of episodes whose per-CPU times and waiting threads are kept
DETAILED = 256

_NO_DETAILS = pl.DataFrame(
    schema={"episode": pl.Int32, "cpu": pl.Int32, "idle_ns": pl.Int64, "overloaded_ns": pl.Int64}
)
_NO_WAITING = pl.DataFrame(
    schema={
        "episode": pl.Int32,
        "pid": pl.Int32,
        "comm": pl.String,
        "cpu": pl.Int32,
        "wait_ns": pl.Int64,
    }
)
_NO_CAUSES = pl.DataFrame(
    schema={"episode": pl.Int32, "cause": pl.String, "overloaded_ns": pl.Int64}
)
#: name of the event that began an overload, by code + 1 of wastedcores.runqueues.state
CAUSES = (
    "before", "switch", "wakeup", "wakeup_new", "migrate", "fork", "exit", "affinity", "snapshot", "lost", "other",
    "nr_running", "hotplug", "throttle", "unthrottle",
)  # fmt: skip


def watch(rq: Runqueues, counted: NDArray[np.uint8], end_ns: int) -> Longest | None:
    """Return the object that looks at the longest episodes during the sweep; None if the trace says who waits."""
    return None if rq.source == "tasks" else Longest(rq.cpus, counted, DETAILED, end_ns)


def details(
    rq: Runqueues,
    episodes: pl.DataFrame,
    counted: NDArray[np.uint8],
    window: tuple[int, int],
    longest: Longest | None = None,
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, pl.DataFrame, NDArray[np.int64]]:
    """Say more about the longest episodes, and find the waits that were avoidable, in a second pass over the changes.

    A trace without task events needs no second pass, because ``longest`` has seen everything during the sweep.
    """
    avoidable = AvoidableWaits(rq, counted, *window)
    if not episodes.height:
        return _NO_DETAILS, _NO_WAITING, _NO_CAUSES, avoidable.table(), avoidable.by_evidence_ns
    chosen = (
        episodes.lazy()
        .select("start_ns", "end_ns", length=pl.col("end_ns") - pl.col("start_ns"))
        .with_row_index("episode")
        .sort("length", "start_ns", descending=[True, False])
        .head(DETAILED)
        .sort("start_ns")
        .collect()
    )
    if longest is not None:
        idle_ns, over_ns = longest.times(chosen)
        number = chosen["episode"].to_numpy()
        cause_ns = np.zeros((number.size, len(CAUSES)), np.int64)
        cause_ns[:, 0] = over_ns.sum(axis=1)  # no event says what overloaded a CPU
        times, causes = _tables(number, counted, idle_ns, over_ns, cause_ns)
        return times, _NO_WAITING, causes, avoidable.table(), avoidable.by_evidence_ns
    starts, ends = chosen["start_ns"].to_numpy().copy(), chosen["end_ns"].to_numpy().copy()
    number = chosen["episode"].to_numpy()
    now = np.full(rq.cpus, -1, np.int32)
    since = np.zeros(rq.cpus, np.int64)
    idle_ns = np.zeros((starts.size, rq.cpus), np.int64)
    over_ns = np.zeros((starts.size, rq.cpus), np.int64)
    cause = np.zeros(rq.cpus, np.int32)
    cause_ns = np.zeros((starts.size, len(CAUSES)), np.int64)
    parts: list[pl.DataFrame] = []
    for batch in rq.batches(waits=True):
        avoidable.add(batch)
        ts_ns, cpu, nr, code = batch.with_causes()
        if not counted.all():
            keep = counted[cpu] > 0
            ts_ns, cpu, nr, code = ts_ns[keep], cpu[keep], nr[keep], code[keep]
        detail_jit.cpu_times(
            ts_ns, cpu, nr, code, starts, ends, now, since, cause, idle_ns, over_ns, cause_ns
        )
        if batch.waits is not None and batch.waits.height:
            parts.append(_waits_inside(batch.waits, starts, ends))
            if len(parts) > 64:
                parts = [_sum_waits(parts)]
    detail_jit.cpu_times_end(rq.end_ns, starts, ends, now, since, cause, idle_ns, over_ns, cause_ns)
    times, causes = _tables(number, counted, idle_ns, over_ns, cause_ns)
    if not parts:
        return times, _NO_WAITING, causes, avoidable.table(), avoidable.by_evidence_ns
    summed = _sum_waits(parts)
    waiting = (
        summed.with_columns(pid=pl.Series(rq.tasks.pids(summed["task"].to_numpy())))
        .lazy()
        .filter(pl.col("cpu").is_in(np.flatnonzero(counted).tolist()))
        .with_columns(episode=pl.lit(pl.Series(number)).gather("episode").cast(pl.Int32))
        .join(comms(rq.trace).lazy(), on="pid", how="left")
        .select(*_NO_WAITING.columns)
        .sort("episode", "wait_ns", "pid", "cpu", descending=[False, True, False, False])
        .collect()
    )
    return (
        times,
        waiting,
        causes,
        avoidable.table(),
        avoidable.by_evidence_ns,
    )


def _tables(
    number: NDArray[np.int64],
    counted: NDArray[np.uint8],
    idle_ns: NDArray[np.int64],
    over_ns: NDArray[np.int64],
    cause_ns: NDArray[np.int64],
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the tables of times per CPU and of causes; ``number`` has the numbers of the episodes."""
    known = ((idle_ns > 0) | (over_ns > 0)) & (counted > 0)
    row, cpu_index = np.nonzero(known)
    times = pl.DataFrame(
        {
            "episode": number[row],
            "cpu": cpu_index,
            "idle_ns": idle_ns[known],
            "overloaded_ns": over_ns[known],
        },
        schema=_NO_DETAILS.schema,
    )
    row, column = np.nonzero(cause_ns)
    causes = pl.DataFrame(
        {
            "episode": number[row],
            "cause": [CAUSES[k] for k in column],
            "overloaded_ns": cause_ns[row, column],
        },
        schema=_NO_CAUSES.schema,
    )
    return times, causes


def _sum_waits(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Add up how long each thread waited on each CPU in each episode."""
    return pl.concat(parts).group_by("episode", "task", "cpu").agg(pl.col("wait_ns").sum())


def _waits_inside(
    waits: pl.DataFrame, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> pl.DataFrame:
    """Cut waits to the episodes that they overlap."""
    begin, end = waits["start_ns"].to_numpy(), waits["end_ns"].to_numpy()
    first = np.searchsorted(ends, begin, side="right")
    last = np.searchsorted(starts, end, side="left")
    times = np.maximum(last - first, 0)
    row = np.repeat(np.arange(begin.size), times)
    episode = np.repeat(first, times) + (
        np.arange(row.size) - np.repeat(np.cumsum(times) - times, times)
    )
    overlap = np.minimum(end[row], ends[episode]) - np.maximum(begin[row], starts[episode])
    return pl.DataFrame(
        {
            "episode": episode.astype(np.int64),
            "task": waits["task"].to_numpy()[row],
            "cpu": waits["cpu"].to_numpy()[row],
            "wait_ns": overlap,
        }
    )
