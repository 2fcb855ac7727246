"""Whether a task has the row of its pid, or one of few rows, changes nothing."""

from __future__ import annotations

import polars as pl
import pytest
from support import RECORDINGS
from support.builders import mask, switch, trace_of, wakeup
from support.recorders import as_events, random_run

from wastedcores.analysis.critical_path import critical_path
from wastedcores.analysis.examined import examine
from wastedcores.errors import TraceContentError
from wastedcores.invariant import check
from wastedcores.invariant.who import who_took
from wastedcores.runqueues.runqueues import runqueues
from wastedcores.runqueues.task_rows import ROW_PER_PID
from wastedcores.trace import Trace
from wastedcores.trace.header import TaskFacts
from wastedcores.trace.io import open_trace

#: the distance by which pids are moved: Linux gives out numbers up to 4,194,304
FAR = 4_000_000
_PIDS = ("pid", "prev_pid", "by_pid")


def _moved(number: int | None) -> int | None:
    return number + FAR if number is not None and number > 2 else number


def far(trace: Trace) -> Trace:
    """The same trace on a machine that has run for long: all pids but those of the idle task, init and kthreadd are large."""
    events = trace.events.with_columns(
        pl.when(pl.col(c) > 2).then(pl.col(c) + FAR).otherwise(pl.col(c)).cast(pl.Int32).alias(c)
        for c in _PIDS
    )
    header = trace.header

    def tasks(old: list[TaskFacts] | None) -> list[TaskFacts] | None:
        return old and [
            t.model_copy(update={n: _moved(getattr(t, n)) for n in ("pid", "tgid", "ppid")})
            for t in old
        ]

    lists = {"tasks": tasks(header.tasks), "later_tasks": tasks(header.later_tasks)}
    top = _moved(header.highest_pid)
    return Trace(events, header.model_copy(update=lists | {"highest_pid": top}), trace.path)


def near(table: pl.DataFrame) -> pl.DataFrame:
    pid = pl.col("pid")
    return table.with_columns(pl.when(pid > 2).then(pid - FAR).otherwise(pid).cast(pl.Int32))


def everything(trace: Trace, *, moved: bool) -> tuple:
    """All that a check and its companions say of a trace, with the pids of the trace that was not moved."""
    back = near if moved else (lambda table: table)
    run = examine(trace)
    result = run.result
    json = result.to_json(limit=None)
    for row in json["avoidable_waiting"]["worst"]:
        row["pid"] -= FAR * moved
    columns = [c for c in run.avoidable.columns if c != "tgid"]
    return (
        json,
        result.notes,
        back(result.avoidable).rows(),
        back(result.waiting).rows(),
        back(run.waits).rows(),
        back(run.avoidable.select(columns)).rows(),
        who_took(result).filter(~pl.col("name").str.starts_with("pid ")).rows(),
    )


def differences(trace: Trace) -> list[int]:
    pairs = zip(everything(trace, moved=False), everything(far(trace), moved=True), strict=True)
    return [number for number, (old, new) in enumerate(pairs) if old != new]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("known", [True, False])
def test_large_pids_change_no_result(seed, known):
    rows = as_events(random_run(seed, steps=80))
    assert differences(trace_of(rows, cpus=3, known=known)) == []


@pytest.mark.parametrize("name", ["bar7-two4-6.1", "grp2-two4-6.12", "nicemix-smt4-6.1"])
def test_large_pids_change_nothing_about_a_recording(name):
    trace = open_trace(RECORDINGS.parent / "recordings-kinds" / name / "trace.txt.xz")
    assert differences(trace) == []
    path, moved = critical_path(trace), critical_path(far(trace))
    assert near(moved.segments).rows() == path.segments.rows()


def test_snapshots_name_the_same_tasks_under_large_pids():
    """Parents, processes, limits and changed affinities are found by pid, too."""
    tasks = [
        {"pid": 10, "tgid": 10, "ppid": 1, "allowed": "0-1", "cgroup": "/limited"},
        {"pid": 11, "tgid": 10, "ppid": 1, "allowed": "0", "changed": ["allowed"], "cgroup": "/"},
    ]
    rows = [
        switch(0, 0, 0, "R", 10),
        switch(0, 1, 12, "S", 0),
        {"ts_ns": 5_000, "kind": "fork", "cpu": 0, "pid": 13, "by_pid": 10},
        wakeup(6_000, 0, 13),
        wakeup(10_000, 0, 11),
        {"ts_ns": 20_000, "kind": "affinity", "pid": 13, "cpu_mask": mask(0)},
        switch(900_000_000, 0, 10, "S", 11),
    ]
    header = {"later_tasks": [{"pid": 13, "tgid": 13, "ppid": 10, "allowed": "0"}]}
    trace = trace_of(rows, cpus=2, known=False, tasks=tasks, quotas={"/limited": 500}, **header)
    assert differences(trace) == []


def test_the_tables_have_a_row_for_each_task_that_the_trace_names():
    rows = as_events(random_run(1, steps=60))
    rq = runqueues(far(trace_of(rows, cpus=3)))
    pids = {r.get(c) or 0 for r in rows for c in _PIDS}
    assert rq.tasks.pid.tolist() == sorted({0, 1, 2} | {p + FAR for p in pids if p > 2})
    assert rq.tasks.rows(rq.tasks.pid).tolist() == list(range(rq.tasks.count))
    assert rq.start.task.shape[0] == rq.tasks.count


def test_the_largest_pid_that_has_its_own_row():
    def trace(pid):
        return trace_of([wakeup(1, 0, pid), switch(9, 0, 0, "R", pid)], cpus=1, known=False)

    assert runqueues(trace(ROW_PER_PID)).tasks.count == ROW_PER_PID + 1
    assert runqueues(trace(ROW_PER_PID + 1)).tasks.count == 4


def test_a_pid_above_that_of_the_header_is_refused():
    trace = far(trace_of([wakeup(1, 0, 7), switch(9, 0, 0, "R", 7)], cpus=1))
    low = trace.with_header(highest_pid=FAR, kinds={"wakeup": 1, "switch": 1})
    with pytest.raises(TraceContentError, match=f"pid {FAR + 7} is outside of the range"):
        check(low)
