"""State over time: how many tasks every runqueue held, and which tasks waited where.

The kernel's own number is the truth where the trace has it (nr_running events). Task events say who waits, and the state is
rebuilt from them by :mod:`wastedcores.runqueues.tasks_jit`. It is streamed, so that memory depends on the number of tasks
and CPUs and not on the number of events.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from wastedcores.errors import MissingEventsError
from wastedcores.runqueues.affinity import find_affinity, unrestricted
from wastedcores.runqueues.batch import Batch
from wastedcores.runqueues.doubts import HEADER_REASONS, header_doubts
from wastedcores.runqueues.facts import complete, extent, lost_spans, with_losses
from wastedcores.runqueues.stream import Runqueues
from wastedcores.runqueues.task_rows import task_rows
from wastedcores.trace.trace import Trace

_BEGINS_LATE = "ring buffers had overwritten their oldest events, so the window begins where every CPU has some"

#: with more losses than this, the time around each of them is not examined
MANY_LOSSES = 1000

__all__ = ["Batch", "Runqueues", "comms", "runqueues"]


def runqueues(
    trace: Trace, *, silent: str | None = None, affinity: bool = True, keep: bool = False
) -> Runqueues:
    """Find out what a trace tells about its runqueues; ``batches()`` of the result streams their changes."""
    kinds = trace.kinds()
    source = "tasks" if "switch" in kinds else "nr_running"
    if source not in kinds and "switch" not in kinds:
        raise MissingEventsError(
            f"{trace.name}: has neither nr_running nor switch events (it has: "
            f"{', '.join(kinds) or 'none'}), so the runqueues cannot be known. Record sched_switch, sched_wakeup, "
            "sched_wakeup_new, sched_migrate_task and sched_process_fork, e.g. with `wastedcores capture` or "
            "`perf sched record`."
        )
    whole, (trace, preempted, left) = trace, complete(trace, kinds)
    start_ns, end_ns, top_cpu, top_pid = extent(trace)
    losses = lost_spans(trace, kinds, start_ns)
    online = trace.header.cpus_online
    cpus = max(top_cpu + 1, trace.header.cpus or 0, max(online or [], default=-1) + 1)
    another = _with_another_cpu(whole, cpus) if source == "tasks" else None
    has_tasks, counted = source == "tasks", "nr_running" in kinds
    # a trace with nr_running events but without a snapshot has such an event on every CPU that was in use
    told = has_tasks and trace.header.every_switch and (not counted or "task_state" in kinds)
    listed = (
        trace.header.silent_is_idle
        or trace.header.source_format == "replay"
        or "task_state" in kinds
    )
    tasks = task_rows(trace, top_pid if has_tasks else 0)
    allowed = unrestricted(cpus, tasks.count)
    if has_tasks and affinity:
        allowed = find_affinity(tasks.trace, kinds, cpus, tasks.count)
    if has_tasks and len(losses) <= MANY_LOSSES:
        tasks = replace(tasks, trace=with_losses(tasks.trace, losses))
    from_header = header_doubts(trace.header, start_ns, end_ns)["reason"]
    return Runqueues(
        trace,
        source,
        cpus,
        tasks,
        start_ns,
        end_ns,
        sorted(online or []) if told else [],
        silent or ("idle" if listed else "unknown"),
        allowed,
        losses,
        keep,
        counted=counted,
        preempted=preempted,
        left=left,
        another_cpu=another,
        notes=[HEADER_REASONS[reason] for reason in from_header]
        + ([_BEGINS_LATE] if trace is not whole else [])
        + [
            f"no {kind} events: how long {need} tasks waited is not fully known"
            for kind, need in (("wakeup", "woken"), ("migrate", "migrated"))
            if has_tasks and kind not in kinds
        ],
    )


def _with_another_cpu(trace: Trace, cpus: int) -> Trace | None:
    """Return a trace as if there had been one more CPU, which was idle; None if something tells how many CPUs there were."""
    header = trace.header
    told = header.cpus_online or header.machine or header.unswitched is not None
    if told or cpus > extent(trace)[2] + 1:
        return None
    return trace.with_header(cpus=cpus + 1, unswitched={cpus: False})


def comms(trace: Trace) -> pl.DataFrame:
    """Return the last name that each pid had in the trace, as columns pid and comm."""
    told = [
        trace.events.select("ts_ns", pid=pl.col(p), comm=pl.col(c).cast(pl.String))
        .drop_nulls()
        .unique("pid", keep="last", maintain_order=True)
        for p, c in (("prev_pid", "prev_comm"), ("pid", "comm"))
    ]
    # if a thread is renamed in its last run, the switch by which it leaves the CPU has its last name
    last = pl.concat(told).collect(engine="streaming").sort("ts_ns", maintain_order=True)
    return last.unique("pid", keep="last", maintain_order=True).select("pid", "comm")
