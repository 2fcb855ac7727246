"""The events of one command, without the rest of the machine."""

from __future__ import annotations

import pytest
from support.builders import switch, trace_of, wakeup

from wastedcores.errors import UsageError
from wastedcores.recovery import recover
from wastedcores.recovery.facts import family_of
from wastedcores.simulator import replay
from wastedcores.workload.builder import Workload
from wastedcores.workload.script import Script

MS = 1_000_000


@pytest.fixture(scope="module")
def trace():
    """A make with four children that compute 5 ms each, and hogs that take the CPUs from them again and again."""
    w = Workload("make among hogs")
    cc1 = w.template("cc1", Script().compute(5 * MS))
    make = Script().loop(4).compute(MS).fork(cc1).end().wait_children(0)
    w.task("make", make, start_ns=10 * MS, session=w.session())
    for cpu in range(2):
        w.task("hog", Script().compute(60 * MS), allowed=[cpu], cpu=cpu)
    return replay(w, "ring4", "v4.1", seed=1).trace


def test_a_family_has_its_own_work_and_nobody_elses(trace):
    family = family_of(trace, "make")
    names = set(family.events.collect()["comm"].drop_nulls().unique())
    assert names == {"make", "cc1"}
    recovered = recover(family)
    assert recovered.tasks == 5
    assert recovered.classes["exit of a child"] >= 1
    # 4 x 1 ms of make and 4 x 5 ms of cc1, however long they had to wait for the hogs
    start, end = recovered.window_ns
    assert recovered.busy_cpus() * (end - start) == pytest.approx(24 * MS, rel=0.02)
    assert recover(trace).tasks == 7


def test_a_pid_that_is_used_again_belongs_to_whoever_forked_it():
    """Task 1 is no make. It forks a task 3 before make does, and a task 6 after make's has exited."""

    def task(ms, pid, by):
        at, cpu = ms * MS, by
        return [
            {"ts_ns": at, "kind": "fork", "cpu": cpu, "pid": pid, "by_pid": by, "comm": f"{pid}"},
            wakeup(at + 1, 4, pid, by_pid=by) | {"kind": "wakeup_new"},
            switch(at + 9, 4, 0, "R", pid),
            {"ts_ns": at + 5 * MS, "kind": "exit", "cpu": 4, "pid": pid},
            switch(at + 5 * MS + 9, 4, pid, "X", 0),
        ]

    events = [switch(0, 1, 0, "R", 1), switch(0, 2, 0, "R", 2) | {"comm": "make"}]
    events += [*task(10, 3, 1), *task(20, 3, 2), *task(30, 6, 2), *task(40, 6, 1)]
    events += [switch(60 * MS, 1, 1, "R", 1), switch(60 * MS, 2, 2, "S", 0), wakeup(60 * MS, 2, 2)]
    family = family_of(trace_of(events, cpus=5), "make")
    assert family.only("fork").collect()["ts_ns"].to_list() == [20 * MS, 30 * MS]
    recovered = recover(family)
    assert recovered.tasks == 3
    start, end = recovered.window_ns
    # with the cost of a switch, which is 1 us
    assert recovered.busy_per_cpu[4] * (end - start) == pytest.approx(10 * MS, rel=0.001)


def test_a_name_that_nobody_has_is_refused(trace):
    with pytest.raises(UsageError, match="no task is called 'gmake'"):
        family_of(trace, "gmake")
