"""The doubts that the compiled state machine wrote down, as a table with names."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.runqueues import state as st
from wastedcores.runqueues import task_row
from wastedcores.trace.header import Header
from wastedcores.trace.trace import Trace

#: by reason of :mod:`wastedcores.runqueues.state`
REASONS = (
    "wakeup_of_queued", "in_without_wakeup", "out_without_in", "ran_elsewhere", "left_unseen", "idle_beside_waiting",
    "starved", "count_differs", "bound_by_name", "queue_differs", "silence_before_contradiction", "events_lost",
    "offline_or_idle", "recorder_waiting", "woken_early", "perhaps_asleep", "perhaps_elsewhere", "affinity_told_late",
)  # fmt: skip
NO_DOUBTS = pl.DataFrame(
    schema={"cpu": pl.Int32, "start_ns": pl.Int64, "end_ns": pl.Int64, "reason": pl.String}
)

#: if more than this share of a CPU's switches contradicts the state, events were lost all along, so nothing between the first and
#: the last contradiction is believed
_OFTEN = 0.05
#: if more than this share of all switches contradicts the state, nothing in the trace is believed: it mixes two recordings, or
#: is no recording. In 72 recordings of Linux 4.1 to 7.2 (2026-11-22) no switch at all contradicts the state.
_OFTEN_EVERYWHERE = 0.001
#: with fewer contradictions than this, their share of the switches decides nothing
_MANY = 10


#: the reason if a thread was runnable at a snapshot and has no event: there can only be more waste than was found
UNSEEN = "unseen_waiting"
#: the reason if wakeups were not recorded, or if the wakeups of new threads were not
NO_WAKEUPS = "no_wakeups"
#: reasons that can only mean more waste than was found, and reasons that can only mean less
ONLY_MORE = (UNSEEN, NO_WAKEUPS, "recorder_waiting", "woken_early", "perhaps_elsewhere")
ONLY_LESS = ("starved", "perhaps_asleep")


def doubt_table(out: st.Output, n: int) -> pl.DataFrame:
    """Return the first ``n`` doubts as a table."""
    rows = out.doubt[:, :n]
    return pl.DataFrame(
        {
            "cpu": rows[st.DOUBT_CPU].astype(np.int32),
            "start_ns": rows[st.START].copy(),
            "end_ns": rows[st.END].copy(),
            "reason": pl.Series([REASONS[r] for r in rows[st.REASON]], dtype=pl.String),
        },
        schema=NO_DOUBTS.schema,
    )


def widened(
    doubts: pl.DataFrame, switches: NDArray[np.int64], start_ns: int, end_ns: int
) -> pl.DataFrame:
    """If there are many contradictions, doubt the whole trace, or the time from a CPU's first contradiction to its last."""
    if doubts.height < _MANY:
        return doubts
    odd = doubts.filter(pl.col("reason").is_in(REASONS[: st.ODD_PARKED]))
    if odd.height < _MANY:
        return doubts
    many = (
        odd.filter(pl.col("cpu") >= 0)
        .group_by("cpu")
        .agg(pl.len(), pl.col("start_ns").min(), pl.col("end_ns").max())
        .filter(pl.col("len") >= _MANY)
        .sort("cpu")
    )
    often = many["len"].to_numpy() > _OFTEN * switches[many["cpu"].to_numpy()]
    added = many.filter(often).select("cpu", "start_ns", "end_ns")
    if odd.height > _OFTEN_EVERYWHERE * switches.sum():
        added = pl.DataFrame([(-1, start_ns, end_ns)], added.schema, orient="row")
    return pl.concat([doubts, added.with_columns(reason=pl.lit("contradicted_often"))])


#: facts in the header that make the whole trace doubtful -> a sentence for the reader of the verdict
HEADER_REASONS = {
    "core_scheduling": "core scheduling was in use: a CPU that it forces idle looks like one that is wasted",
    "some_tasks": "perf recorded the events of some tasks only, so nobody knows what the others did and whether a CPU was idle: "
    "record all with -a",
    "isolation_changed": "the isolated CPUs were others when the trace ended: nobody knows from when on",
}


def header_doubts(
    header: Header, start_ns: int, end_ns: int, *, wakeups: bool = True, hidden: int = 0
) -> pl.DataFrame:
    """Return doubts about the whole trace: they follow from its header, and from what was not recorded.

    ``wakeups``: whether all kinds of wakeups were recorded. ``hidden``: the number of runnable threads without an event.

    With core scheduling a CPU is forced idle while its sibling runs a task with another cookie (kernel/sched/core.c,
    pick_next_task(), v5.14), and no event tells so. An isolated CPU should not take tasks, and if other CPUs were isolated at the
    end, nobody knows since when.
    """
    tasks = (header.tasks or []) + (header.later_tasks or [])
    cookies = header.core_scheduling or any(t.core_cookie for t in tasks)
    reasons = [UNSEEN] * (hidden > 0) + [NO_WAKEUPS] * (not wakeups)
    if cookies or "core_scheduling" in header.changed:
        reasons.append("core_scheduling")
    if header.some_tasks:
        reasons.append("some_tasks")
    if "isolated_cpus" in header.changed:
        reasons.append("isolation_changed")
    rows = [(-1, start_ns, end_ns, reason) for reason in reasons]
    return pl.DataFrame(rows, NO_DOUBTS.schema, orient="row")


def _limits(header: Header) -> dict[int, tuple[str, ...]]:
    """Return, for each task, the control groups with a limit that contain it; a task whose group is not known is left out."""
    return {
        task.pid: tuple(
            path
            for path in sorted(header.quotas or ())
            if task.cgroup == path or task.cgroup.startswith(path.rstrip("/") + "/")
        )
        for task in (header.tasks or []) + (header.later_tasks or [])
        if task.cgroup is not None and "cgroup" not in task.changed
    }


def limiting_groups(header: Header, tasks: int) -> NDArray[np.int32]:
    """Return a number for each task: tasks with the same number above 0 are in the same control groups with limits."""
    found = np.zeros(tasks, np.int32)
    numbers: dict[tuple[str, ...], int] = {(): 0}
    if "quotas" not in header.changed:
        for pid, groups in _limits(header).items():
            if 0 < pid < tasks:
                found[pid] = numbers.setdefault(groups, len(numbers))
    return found


def limited(trace: Trace, tasks: int) -> NDArray[np.int32]:
    """Tell which tasks may be throttled: deadline and real-time tasks, and those of groups with a limit or of unknown groups.

    Even if no group has a limit when the snapshots are taken, a group that exists only between them may have one
    (systemd-run --scope). A thread whose group no snapshot tells may be in such a group.
    """
    header = trace.header
    listed = (header.tasks or []) + (header.later_tasks or [])
    quotas = header.quotas if "quotas" not in header.changed else None
    if quotas is None:
        groups = {}
    elif quotas:
        groups = _limits(header)
    else:
        groups = {t.pid: () for t in listed if "cgroup" not in t.changed}
    told = quotas is not None and not quotas
    found = np.full(
        tasks, task_row.UNLIMITED if told and not listed else task_row.PERHAPS, np.int32
    )
    if told:  # no group has a limit that a thread could inherit
        found[0] = task_row.UNLIMITED
    for pid, limits in groups.items():
        if 0 < pid < tasks:
            found[pid] = task_row.LIMITED_FOR_SURE if limits else task_row.UNLIMITED
    for task in listed:
        if 0 < task.pid < tasks and task.policy in ("fifo", "rr"):
            found[task.pid] = max(found[task.pid], task_row.PERHAPS)  # sysctl sched_rt_runtime_us
        if 0 < task.pid < tasks and (task.policy == "deadline" or "policy" in task.changed):
            # a deadline task is throttled by its own budget
            found[task.pid] = task_row.LIMITED_FOR_SURE
    for pid, prio in _highest_prios(trace):
        at_least = task_row.LIMITED_FOR_SURE if prio < 0 else task_row.PERHAPS
        found[pid] = max(found[pid], at_least)
    return found


def _highest_prios(trace: Trace) -> Iterator[tuple[int, int]]:
    """Yield each task that ran with a real-time (below 100) or deadline (below 0) priority, and its lowest priority number."""
    switches = trace.only("switch")
    both = [
        switches.select(pid=pid, prio=prio).filter(pl.col("prio") < 100, pl.col("pid") > 0)
        for pid, prio in (("pid", "prio"), ("prev_pid", "prev_prio"))
    ]
    yield from pl.concat(both).group_by("pid").agg(pl.col("prio").min()).collect().iter_rows()
