"""Properties of any replay, checked on random machines, kernels and programs that are stopped at random times."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from support.random_runs import Case, cases

from wastedcores.errors import WorkloadError
from wastedcores.simulator import RawReplay, log_column, log_kind, simulate
from wastedcores.simulator.engine.codes import task_state
from wastedcores.simulator.engine.world.structs import Rq, SchedEntity, TaskStruct

CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def run(case: Case) -> RawReplay | None:
    """Return the compiled engine's replay, or None if the program cannot run to its end."""
    try:
        return simulate(
            case.program, case.machine, case.kernel, seed=case.seed, until_ns=case.until_ns,
            costs=case.costs, considered=case.considered,
        )  # fmt: skip
    except WorkloadError:
        return None


def queued(raw: RawReplay, cpu: int) -> list[int]:
    """Return the numbers of the tasks in rq->cfs_tasks of a CPU at the end of the replay."""
    first = len(raw.masks)
    out = []
    row = int(raw.masks[cpu, Rq.cfs_tasks])
    while row >= 0:
        out.append(row - first)
        row = int(raw.tasks[row - first, TaskStruct.cfs_tasks_next])
        assert len(out) <= len(raw.tasks), "the list goes in a circle"
    return out


@pytest.mark.slow
@settings(
    max_examples=60, derandomize=True, deadline=None, database=None, suppress_health_check=CALM
)
@given(cases())
def test_a_task_is_on_one_runqueue_if_it_can_run_and_on_none_if_not(case):
    raw = run(case)
    if raw is None:
        return
    lists = [queued(raw, cpu) for cpu in range(case.machine.cpus)]
    places = Counter(number for tasks in lists for number in tasks)
    for number, row in enumerate(raw.tasks):
        ready = row[TaskStruct.state] == task_state.READY
        assert places[number] == int(ready)
        assert not ready or number in lists[row[TaskStruct.cpu]]
    changes = raw.of(log_kind.NR_RUNNING)
    for cpu, tasks in enumerate(lists):
        assert raw.masks[cpu, Rq.nr_running] == len(tasks)
        last = changes[changes[:, log_column.CPU] == cpu, log_column.VALUE]
        assert (int(last[-1]) if len(last) else 0) == len(tasks), "the trace says so too"


@pytest.mark.slow
@settings(
    max_examples=60, derandomize=True, deadline=None, database=None, suppress_health_check=CALM
)
@given(cases())
def test_time_never_goes_back_and_cpu_time_is_somebodys(case):
    raw = run(case)
    if raw is None:
        return
    assert (np.diff(raw.log[:, log_column.TS]) >= 0).all()
    on: dict[int, int] = defaultdict(int)
    since: dict[int, int] = {}
    ran: dict[int, int] = defaultdict(int)
    busy = 0
    for ts, _, cpu, pid, prev, *_ in raw.of(log_kind.SWITCH).tolist():
        assert on[cpu] == prev, "a CPU switches away from what it ran"
        assert pid == 0 or pid not in on.values(), "a task runs on one CPU at a time"
        if prev:
            ran[prev] += ts - since[cpu]
            busy += ts - since[cpu]
        on[cpu], since[cpu] = pid, ts
    for cpu, pid in on.items():
        if pid:
            ran[pid] += raw.end_ns - since[cpu]
            busy += raw.end_ns - since[cpu]
    # CPU time: the time that CPUs were busy is what the scheduler charged to tasks, exactly so for those that ended
    charged = 0
    for pid, row in zip(raw.pids.tolist(), raw.tasks, strict=True):
        mine = ran.get(pid, 0)
        sum_exec = int(row[SchedEntity.sum_exec_runtime])
        charged += mine
        assert sum_exec <= mine
        if row[TaskStruct.state] in (task_state.DEAD, task_state.SLEEPING):
            assert sum_exec == mine
    assert charged == busy, "the stopper takes no time"


@settings(
    max_examples=20, derandomize=True, deadline=None, database=None, suppress_health_check=CALM
)
@given(cases())
def test_same_seed_same_bytes(case):
    one, two = run(case), run(case)
    assert (one is None) == (two is None)
    if one is not None and two is not None:
        assert one.log.tobytes() == two.log.tobytes()
        assert one.tasks.tobytes() == two.tasks.tobytes()
