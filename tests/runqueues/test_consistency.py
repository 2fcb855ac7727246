"""However damaged a trace is, the lengths of the rebuilt runqueues agree with the rebuilt states of the tasks."""

from __future__ import annotations

import random
from copy import deepcopy

import numpy as np
import pytest
from support.builders import switch, trace_of, wakeup
from support.recorders import as_events, random_run

from wastedcores.invariant import check
from wastedcores.runqueues import cpu_row, task_row, tasks_jit
from wastedcores.runqueues import state as st
from wastedcores.runqueues.runqueues import runqueues


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
