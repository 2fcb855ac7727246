"""State over time: how many tasks every runqueue held, and which tasks waited where.

Either the trace says so (nr_running events) or it is rebuilt from task events by
:mod:`wastedcores.runqueues.tasks_jit`. Everything streams; memory goes by tasks and CPUs, not by events.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from wastedcores.errors import MissingEventsError
from wastedcores.runqueues.affinity import find_affinity
from wastedcores.runqueues.facts import extent, lost_spans, silent_cpus
from wastedcores.runqueues.stream import I32, I64, Batch, Runqueues, wait_room, wait_table
from wastedcores.trace.trace import Trace

__all__ = ["Batch", "Runqueues", "changes", "comms", "runqueues", "waits"]


def runqueues(trace: Trace, *, silent: str = "idle", affinity: bool = True) -> Runqueues:
    """Find out how the runqueues of ``trace`` are known; its ``batches()`` then stream their changes.

    Parameters
    ----------
    trace
        With nr_running events or with switch events.
    silent
        ``idle``: an online CPU without one event in a trace that records every switch was idle; ``unknown``: leave
        it out.
    affinity
        Take affinity into account where the trace tells it (events, names of bound kernel threads).

    Raises
    ------
    MissingEventsError
        Neither nr_running nor switch events.
    TraceContentError
        A CPU or pid that no Linux can have.
    """
    kinds = trace.kinds()
    source = "nr_running" if "nr_running" in kinds else "tasks"
    if affinity and "switch" in kinds and ("affinity" in kinds or "task_state" in kinds):
        source = "tasks"
    if source == "tasks" and "switch" not in kinds:
        raise MissingEventsError(
            f"{trace.name}: has neither nr_running nor switch events (it has: "
            f"{', '.join(kinds) or 'none'}), so the runqueues cannot be known. Record sched_switch, sched_wakeup, "
            "sched_wakeup_new, sched_migrate_task and sched_process_fork, e.g. with `wastedcores capture` or "
            "`perf sched record`."
        )
    start_ns, end_ns, top_cpu, top_pid = extent(trace)
    header = trace.header
    online = header.cpus_online
    cpus = max(top_cpu + 1, header.cpus or 0, max(online, default=-1) + 1 if online else 0)
    rq = Runqueues(
        trace,
        source,
        cpus,
        start_ns,
        end_ns,
        [],
        silent,
        np.zeros((1, (cpus + 63) // 64), np.uint64),
        [],
        lost_spans(trace, kinds),
        pids=top_pid + 1,
    )
    if source == "tasks":
        rq.silent_cpus = silent_cpus(trace, online)
        if affinity:
            find_affinity(rq, kinds)
        for kind, need in (("wakeup", "woken"), ("migrate", "migrated")):
            if kind not in kinds:
                rq.notes.append(
                    f"no {kind} events: how long {need} tasks waited is not fully known"
                )
    return rq


def changes(trace: Trace, *, silent: str = "idle") -> Iterator[tuple[I64, I32, I32]]:
    """Stream (ts_ns, cpu, nr_running) of every runqueue change; nr -1 means unknown."""
    for batch in runqueues(trace, silent=silent, affinity=False).batches():
        yield batch.runqueues()


def waits(trace: Trace) -> pl.DataFrame:
    """Every wait on a runqueue: pid, comm, cpu, start_ns, end_ns (one row per runqueue a task waited on).

    Raises
    ------
    MissingEventsError
        The trace has no task events.
    """
    if "switch" not in trace.kinds():
        raise MissingEventsError(
            f"{trace.name}: has no switch events, so it does not tell which tasks waited."
        )
    rq = runqueues(trace, affinity=False)
    rq.source = "tasks"
    parts = [b.waits for b in rq.batches(waits=True) if b.waits is not None]
    table = pl.concat(parts) if parts else wait_table(wait_room(0), 0)
    return table.join(comms(trace), on="pid", how="left").select(
        "pid", "comm", "cpu", "start_ns", "end_ns"
    )


def comms(trace: Trace) -> pl.DataFrame:
    """The last name each pid had in the trace: pid, comm."""
    return (
        pl.concat(
            [
                trace.events.select(pid=pl.col(p), comm=pl.col(c).cast(pl.String))
                for p, c in (("prev_pid", "prev_comm"), ("pid", "comm"))
            ]
        )
        .drop_nulls()
        .unique("pid", keep="last", maintain_order=True)
        .collect(engine="streaming")
    )
