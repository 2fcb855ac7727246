"""The events of one command, without the rest of the machine."""

from __future__ import annotations

import pytest

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


def test_a_name_that_nobody_has_is_refused(trace):
    with pytest.raises(UsageError, match="no task is called 'gmake'"):
        family_of(trace, "gmake")
