"""CPUs whose speed changes: both replays agree, and the work that is done follows from the speeds."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from hypothesis import HealthCheck
from support.random_runs import (
    MS,
)

from wastedcores.errors import TopologyError
from wastedcores.simulator import replay, replay_scenario
from wastedcores.topology.clocks import Frequency, IdleState
from wastedcores.topology.machine import Machine
from wastedcores.workload import Script, Workload

CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def two_cores(**clocks) -> Machine:
    """Two cores with two CPUs each; CPUs 0 and 2 share a core."""
    return replace(Machine.preset("i3-7100"), **clocks)


def done_ns(machine: Machine, *cpus: int) -> list[int]:
    """When 100 ms of work are done that begin at the same time on each of these CPUs."""
    w = Workload("work", random_phase=False)
    for cpu in cpus:
        w.task("work", Script().compute(100 * MS), allowed=[cpu], cpu=cpu)
    return replay(w, machine).tasks["completed_ns"].to_list()


def about(ns: int) -> object:
    """Return a time give or take the costs of switches and the offsets of ticks."""
    return pytest.approx(ns, abs=20_000)


def test_a_core_speeds_up_at_the_third_busy_tick():
    """12 ms at half speed do 6 ms of work, and the other 94 ms take half as long at twice the nominal frequency."""
    turbo = Frequency(1_000_000, 2_000_000, ((1, 4_000_000), (2, 3_000_000)))
    assert done_ns(two_cores(frequency=turbo), 0) == [about(59 * MS)]
    # two active cores run at 1.5 times the nominal frequency; CPU 1 ticks 50 ns after it began, and so speeds up a tick earlier
    slower = [about(12 * MS + 94 * MS * 2 // 3), about(8 * MS + 96 * MS * 2 // 3)]
    assert done_ns(two_cores(frequency=turbo), 0, 1) == slower


def test_cpus_of_one_core_share_it():
    assert done_ns(two_cores(smt_speed=0.5), 0, 1) == [about(100 * MS)] * 2
    assert done_ns(two_cores(smt_speed=0.5), 0, 2) == [about(200 * MS)] * 2


def test_leaving_an_idle_state_takes_time():
    states = (IdleState("C1", 2_000, 0), IdleState("C6", 300_000, 100_000))
    assert done_ns(two_cores(idle_states=states), 0) == [about(100 * MS + 300_000)]


def test_a_core_keeps_its_frequency_while_it_is_idle_for_less_than_the_hold():
    """The second 20 ms of work begin at the lowest frequency only if the sleep before them lasted as long as the hold."""
    turbo = Frequency(1_000_000, 1_000_000, ((1, 2_000_000),), ramp_ticks=1, hold_ticks=2)
    for nap, took in ((7 * MS, 10 * MS), (9 * MS, 12 * MS)):
        w = Workload("nap", random_phase=False)
        script = Script().compute(18 * MS).mark("nap").sleep(nap).mark("on").compute(20 * MS)
        w.task("work", script, allowed=[0])
        r = replay(w, two_cores(frequency=turbo))
        marks = dict(
            r.trace.events.filter(kind="mark").select("text", "ts_ns").collect().iter_rows()
        )
        assert r.tasks["completed_ns"][0] - marks["on"] == about(took)
        first = r.trace.events.filter(kind="frequency").collect()["value"].to_list()
        assert first == ([2_000_000] if nap < 8 * MS else [2_000_000, 1_000_000, 2_000_000])


def test_a_machine_of_constant_speed_has_no_clocks():
    """At the nominal frequency a replay with clocks differs from one without only by its ticks."""
    constant = Frequency(2_000_000, 2_000_000, ((1, 2_000_000),))
    events = [
        replay_scenario("hackbench", machine=two_cores(frequency=f), until_ns=50 * MS).trace.events
        for f in (None, constant)
    ]
    plain, clocked = (e.collect() for e in events)
    assert clocked.filter(pl.col("kind") == "tick").height > 20
    assert clocked.filter(pl.col("kind") != "tick").equals(plain)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ({"frequency": {"min_khz": 1, "nominal_khz": 1}}, "turbo is missing"),
        (
            {"frequency": {"min_khz": 5, "nominal_khz": 5, "turbo": [[2, 4]]}},
            "none below the lowest",
        ),
        (
            {"frequency": {"min_khz": 1, "nominal_khz": 5, "turbo": [[2, 9], [1, 8]]}},
            "rising numbers",
        ),
        ({"smt_speed": 1.5}, "at most 1"),
        ({"idle_states": [["C6", 5, 9], ["C1", 2, 0]]}, "a longer residency"),
        ({"turbo": []}, "unknown field 'turbo'"),
    ],
)
def test_impossible_clocks_are_refused(fault, says):
    with pytest.raises(TopologyError, match=says):
        Machine.from_dict({"cpus": 2} | fault)


def test_a_description_keeps_the_clocks():
    machine = two_cores(
        frequency=Frequency(1_000_000, 2_000_000, ((1, 4_000_000),), 5, 7),
        smt_speed=0.75,
        idle_states=(IdleState("C6", 30_000, 100_000),),
    )
    assert Machine.from_dict(machine.to_dict()) == machine
