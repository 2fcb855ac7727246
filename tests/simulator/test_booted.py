"""Boot parameters in replays: isolated CPUs, and no autogroups."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from wastedcores.errors import UnknownKernelError, WorkloadError
from wastedcores.kernels import KernelModel
from wastedcores.simulator import log_column, log_kind, replay, replay_scenario, simulate
from wastedcores.topology.machine import Machine
from wastedcores.workload.builder import Workload
from wastedcores.workload.script import Script

MS = 1_000_000


@pytest.mark.parametrize("kernel", ["v4.1", "v6.1.192", "v6.12.107", "v7.2.13"])
def test_only_bound_tasks_run_on_isolated_cpus(kernel):
    machine = replace(Machine.preset("uma8"), isolated=(2, 3))
    w = Workload("isolated")
    child = w.template("child", Script().compute(20 * MS))
    parent = Script()
    for _ in range(12):
        parent.fork(child)
    w.task("parent", parent.wait_children(0), cpu=2)
    w.task("bound", Script().compute(5 * MS), allowed=[3], cpu=3)
    trace = replay(w, machine, kernel).trace
    ran = trace.only("switch").filter(pl.col("pid") > 8).collect()
    cpus = {
        c: set(t["cpu"])
        for (c,), t in ran.with_columns(pl.col("comm").cast(pl.String)).group_by("comm")
    }
    assert cpus["bound"] == {3}
    assert cpus["parent"] | cpus["child"] == {0, 1, 4, 5, 6, 7}


def test_all_cpus_isolated_is_refused():
    machine = replace(Machine.preset("uma8"), isolated=tuple(range(8)))
    w = Workload("w")
    w.task("t", Script().compute(MS))
    with pytest.raises(WorkloadError, match="all 8 CPUs are isolated"):
        replay(w, machine)


def test_without_autogroups_the_group_imbalance_is_gone():
    """R's threads weigh as much as make's, and not as much as all of make's together (paper 3.1)."""
    small = {"jobs": 500}
    with_groups, without = (
        replay_scenario("recorded-gi", kernel, "bd-paper-16", given=small)
        for kernel in ("v4.1", "v4.1+noautogroup")
    )
    assert without.kernel.name == "v4.1+noautogroup"
    assert set(without.tasks.columns) == set(with_groups.tasks.columns)
    assert without.summary.idle_while_overloaded < with_groups.summary.idle_while_overloaded / 3


def test_a_flat_program_has_no_groups_without_autogroups():
    """A thread of the root group gets half of a CPU beside three of a session. Without autogroups it gets a quarter.

    Its last slice may begin a little sooner or later, for which 2 % are left.
    """
    w = Workload("beside")
    session = w.session()
    w.task("alone", Script().compute(20 * MS), allowed=[0])
    for _ in range(3):
        w.task("one of three", Script().session(session).compute(40 * MS), allowed=[0])
    ended = {}
    for kernel in ("v6.12.107", "v6.12.107+noautogroup"):
        raw = simulate(w.program(), Machine.preset("uma8"), KernelModel.named(kernel))
        exits = raw.of(log_kind.EXIT)
        ended[kernel] = exits[:, log_column.TS].min() - raw.phase_ns
    assert ended["v6.12.107"] == pytest.approx(40 * MS, rel=0.02)
    assert ended["v6.12.107+noautogroup"] == pytest.approx(80 * MS, rel=0.02)


def test_names():
    assert KernelModel.named("6.12.107+noautogroup").noautogroup
    assert (
        KernelModel.named("v6.12.107+NO_NI_RANDOM+noautogroup").name
        == "v6.12.107+NO_NI_RANDOM+noautogroup"
    )
    with pytest.raises(UnknownKernelError, match="isolated CPUs belong to the machine"):
        KernelModel.named("v6.12.107+isolcpus:2-3")
