"""However damaged a trace is, the lengths of the rebuilt runqueues agree with the rebuilt states of the tasks."""

from __future__ import annotations

import random
from copy import deepcopy

import numpy as np
import polars as pl
import pytest
from support.builders import switch, trace_of, wakeup
from support.recorders import as_events, random_run

from wastedcores.errors import TraceContentError
from wastedcores.invariant import check
from wastedcores.runqueues import cpu_row, task_row, tasks_jit
from wastedcores.runqueues import state as st
from wastedcores.runqueues.runqueues import runqueues
from wastedcores.trace.trace import Trace


def damaged(rows: list[dict], rng: random.Random) -> list[dict]:
    """Drop, swap, repeat and change some events; times stay in order."""
    times = [r["ts_ns"] for r in rows]
    for _ in range(rng.randint(1, 8)):
        i = rng.randrange(len(rows) - 2)
        match rng.randrange(4):
            case 0:
                del rows[i]
            case 1:
                rows[i], rows[i + 1] = rows[i + 1], rows[i]
            case 2:
                rows.insert(i, rows[i])
            case 3:
                name = rng.choice([n for n in ("pid", "prev_pid") if rows[i].get(n) is not None])
                rows[i] = rows[i] | {name: rng.choice([0, 100, 101, 102])}
    rows = rows[: len(times)]
    return [r | {"ts_ns": t} for r, t in zip(rows, times, strict=False)]


def disagreements(state: st.State) -> list[int]:
    """Return the CPUs whose counters differ from the states of the tasks."""
    task, cpu = state.task, state.cpu
    on = task[:, task_row.CPU]
    waits = np.flatnonzero(task[:, task_row.STATE] == task_row.WAITING)
    waits = waits[task[waits, task_row.EPOCH] == cpu[on[waits], cpu_row.EPOCH]]
    waiting = np.bincount(on[waits], minlength=len(cpu))
    runs = np.flatnonzero(task[:, task_row.STATE] == task_row.RUNNING)
    running = np.bincount(on[runs], minlength=len(cpu))
    differs = (cpu[:, cpu_row.WAITING] != waiting) | (cpu[:, cpu_row.NR] != waiting + running)
    differs |= running != (cpu[:, cpu_row.CURR] > 0)
    return np.flatnonzero(differs).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_counters_agree_with_the_tasks_after_every_event(seed):
    rows = damaged(as_events(random_run(seed, steps=60)), random.Random(seed))
    rq = runqueues(trace_of(rows, cpus=3))
    state = deepcopy(rq.start)
    assert disagreements(state) == []
    for event in rq.task_events(1):
        out = st.new_output(10 + 2 * int(state.cpu[:, cpu_row.WAITING].sum()), 1, 8)
        tasks_jit.run(event, state, out)
        assert disagreements(state) == [], event


def test_a_first_switch_that_stops_a_sleeping_task_leaves_nobody_behind():
    """The switch to task 7 is missing. Its runqueue had counted one task too many from then on."""
    second = 1_000_000_000
    rows = [
        switch(0, 0, 900, "S", 0),
        wakeup(1_000, 1, 7),
        switch(9_000, 1, 7, "S", 0),
        wakeup(10_000, 1, 8),
        switch(11_000, 1, 0, "R", 8),
        switch(second, 1, 8, "S", 0),
    ]
    result = check(trace_of(rows, cpus=2))
    assert result.verdict == "clean"
    assert result.longest_ns < 20_000


def test_a_trace_may_begin_at_any_time_from_0_on():
    """Nobody knows since when 10, which stops at the beginning, waited until it runs without a wakeup."""

    def rows(begin_ns):
        ends = begin_ns + 500_000_000
        yield switch(begin_ns, 0, 10, "S", 11)
        yield switch(begin_ns, 1, 12, "S", 0)
        yield switch(ends, 0, 11, "S", 10)

    at_0, later = (check(trace_of(list(rows(t)), cpus=2)) for t in (0, 1_000_000_000))
    assert at_0.verdict == later.verdict == "unknown"
    with pytest.raises(TraceContentError, match=r"begins at -0\.5 s"):
        check(trace_of(list(rows(-500_000_000)), cpus=2))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_the_time_at_which_a_trace_begins_changes_nothing(seed):
    """Damaged runs of a fifth of a second: verdict, bounds, doubts and episodes are the same whenever they begin."""
    rng = random.Random(seed)
    rows = damaged(as_events(random_run(seed)), rng)
    first = rows[0]["ts_ns"]
    known = seed % 2 == 0
    answers = []
    for begin_ns in (0, 1, 10**18):
        moved = [r | {"ts_ns": begin_ns + 50 * (r["ts_ns"] - first)} for r in rows]
        found = check(trace_of(moved, cpus=3, known=known), persist_ns=20_000_000)
        times = [
            table.with_columns(pl.col("start_ns", "end_ns") - begin_ns).to_dicts()
            for table in (found.doubts, found.episodes)
        ]
        answers.append(
            (found.verdict, found.kind, found.bound, found.oddities, found.evidence, times)
        )
    assert answers[0] == answers[1] == answers[2]


def test_waits_and_doubts_have_room_however_few_events_the_first_batch_has():
    """60 threads wait at the start, and CPU 0 idles beside them; the other events of the first batch say nothing of tasks."""
    rows = [switch(0, 0, 1, "S", 0), switch(1, 1, 0, "R", 10)]
    rows += [{"ts_ns": 2, "kind": "frequency", "cpu": 0, "value": 1}] * 8
    for k in range(1, 20):
        rows += [wakeup(100 * k, 1, 11), switch(100 * k + 20, 1, 10, "S", 11)]
        rows += [wakeup(100 * k + 30, 1, 10), switch(100 * k + 60, 1, 11, "S", 10)]
    rows += [switch(3000 + p, 0, p - 1 if p > 100 else 0, "S", p) for p in range(100, 160)]
    trace = trace_of(rows, cpus=2)
    whole, parts = (
        pl.concat([b.waits for b in rq.batches(waits=True, rows=n) if b.waits is not None])
        for rq, n in ((runqueues(trace), 1000), (runqueues(trace), 10))
    )
    assert whole.filter(task=11).height == 19
    assert parts.equals(whole)


def test_each_doubt_about_a_thread_that_waits_to_the_end_has_room():
    """Six workers are woken on CPU 0, which is idle: each may be bound to it, throttled, or elsewhere."""
    rows = [switch(0, 0, 1, "S", 0), switch(0, 1, 0, "R", 2)]
    rows += [wakeup(100 + p, 0, p, comm=f"kworker/0:{p}") for p in range(10, 16)]
    rows += [switch(1_000_000_000, 1, 2, "S", 0)]
    rq = runqueues(trace_of(rows, cpus=2, known=False))
    list(rq.batches())
    found = rq.doubts.filter(pl.col("end_ns") == 1_000_000_000).sort("reason", "start_ns")
    assert found["cpu"].to_list() == [0] * 18
    assert found["reason"].unique().sort().to_list() == [
        "bound_by_name",
        "idle_beside_waiting",
        "starved",
    ]


@pytest.mark.parametrize("pid", [-1, None])
def test_a_snapshot_of_no_task_is_refused(pid):
    told = {
        "ts_ns": 5,
        "kind": "task_state",
        "cpu": 0,
        "pid": 7,
        "prev_state": "sleeping",
        "cpu_mask": b"\1",
    }
    trace = trace_of([told, switch(20, 0, 0, "R", 7), switch(30, 0, 7, "S", 0)], cpus=2)
    nobody = (
        pl.when(pl.col("kind") == "task_state")
        .then(pl.lit(pid))
        .otherwise(pl.col("pid"))
        .cast(pl.Int32)
    )
    damaged = Trace(trace.events.with_columns(pid=nobody), trace.header)
    with pytest.raises(TraceContentError, match="pid -1 is outside of the range"):
        check(damaged)


def test_doubts_without_room_become_one_that_limits_nothing():
    """11 seems to have waited for a quota period, and 12 runs without a wakeup; there is room for one doubt."""
    late = 200_000_000
    rows = [switch(0, 0, 0, "R", 10), wakeup(1, 0, 11), switch(2, 1, 12, "S", 13)]
    rows += [switch(late, 0, 10, "S", 11), switch(late + 9, 1, 13, "S", 12)]
    rq = runqueues(trace_of(rows, cpus=2, quotas=None))
    (event,) = rq.task_events()
    reasons = []
    for room in (8, 1):
        state, out = deepcopy(rq.start), st.new_output(100, 0, room)
        tasks_jit.run(event, state, out)
        n = int(state.numbers[st.N_DOUBTS])
        reasons.append(out.doubt[st.REASON, :n].tolist())
    assert reasons == [[st.ODD_STARVED, st.ODD_IN_WITHOUT_WAKEUP], [st.ODD_COUNT]]
    assert out.doubt[[st.DOUBT_CPU, st.START, st.END], 0].tolist() == [-1, 1, late + 9]
