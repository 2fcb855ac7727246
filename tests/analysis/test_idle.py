"""Idle intervals, what leaving idle states takes, and what policies of spinning would have cost."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from support.builders import switch, trace_of

import wastedcores as wc
from wastedcores import figures
from wastedcores.analysis.idle import exits, idle_costs, idle_intervals
from wastedcores.errors import TopologyError, UsageError
from wastedcores.topology.clocks import IdleState
from wastedcores.topology.machine import Machine

US = 1_000
C6 = IdleState("C6", 30 * US, 600)


@pytest.fixture(scope="module")
def started():
    """The trace of seven threads that start on sleeping CPUs."""
    return wc.replay_scenario("clones", "v4.1", "i3-7100-c6", 1).trace


def made(*idle_us):
    return pl.DataFrame({"idle_ns": [round(us * US) for us in idle_us]})


def test_intervals_are_the_times_between_a_switch_to_idle_and_the_next_task(started):
    found = idle_intervals(started)
    assert (found["idle_ns"] == found["end_ns"] - found["start_ns"]).all()
    switches = started.only("switch").collect()
    assert found.height == ((switches["prev_pid"] == 0) & (switches["pid"] != 0)).sum()
    # CPU 1 sleeps from the beginning until the first thread comes
    first = found.filter(pl.col("cpu") == 1).row(0, named=True)
    assert first["idle_ns"] > 20_000 * US


def test_the_deepest_state_whose_residency_is_reached_is_left():
    states = (IdleState("C1", 2 * US, 1 * US), IdleState("C6", 30 * US, 100 * US))
    found = exits(made(0.5, 1, 99, 100), states)
    assert found["state"].to_list() == [None, "C1", "C1", "C6"]
    assert found["exit_ns"].to_list() == [0, 2 * US, 2 * US, 30 * US]
    with pytest.raises(TopologyError):
        exits(made(1), states[::-1])


def test_a_thread_starts_when_its_cpu_has_left_the_state(started):
    """The first instruction of a thread, a mark, comes no earlier than the replay says that the state was left."""
    none = replace(Machine.preset("i3-7100-c6"), idle_states=())
    awake = wc.replay_scenario("clones", "v4.1", none, 1).trace
    took = {}
    for name, trace in (("asleep", started), ("awake", awake)):
        marks = trace.only("mark").collect()
        at = dict(zip(marks["text"].cast(pl.String), marks["ts_ns"], strict=True))
        took[name] = at["thread 0 computes"] - at["clones start"]
    assert took["asleep"] - took["awake"] >= 2 * C6.exit_ns


def test_spinning_for_as_long_as_the_exit_is_at_most_twice_the_best():
    for idle_us in ((1, 29, 30, 31, 1000), (30.5,) * 7, (0.1,), (5000,)):
        costs = idle_costs(made(*idle_us), 30 * US, {"half": 30 * US, "never": None})
        half = costs.filter(pl.col("policy") == "half").row(0, named=True)
        assert half["times_oracle"] <= 2
        assert costs["policy"].to_list() == ["half", "never", "oracle"]


def test_costs_by_hand():
    costs = idle_costs(made(10, 100), 30 * US, {"early": 1 * US, "half": 30 * US, "never": None})
    assert (costs["cost_s"] * 1e6).to_list() == pytest.approx([62, 70, 110, 40])
    assert costs["late_share"].to_list() == [1, 0.5, 0, 0.5]
    with pytest.raises(UsageError, match="0 ns or more"):
        idle_costs(made(1), 0, {})


def test_figures_have_every_exit_of_the_window_and_every_policy(started):
    forks = started.only("fork").collect()["ts_ns"]
    start, end = forks[-7] - 20 * US, forks[-7] + 400 * US
    fig = figures.idle_exits(started, (C6,), start, end)
    late = exits(idle_intervals(started), (C6,)).filter(
        pl.col("end_ns").is_between(start, end), pl.col("exit_ns") > 0
    )
    bars = next(t for t in fig.data if t.name == "leaving an idle state")
    assert len(bars.x) == late.height > 5
    costs = idle_costs(idle_intervals(started), 30 * US, {"half": 30 * US})
    assert list(figures.spin_costs(costs).data[0].y) == ["half", "oracle"]


def test_an_interval_whose_beginning_was_lost_is_left_out():
    """The switch from thread 10 to the idle task is missing."""
    rows = [switch(0, 0, 0, "R", 10), switch(100_000 * US, 0, 0, "R", 11)]
    assert idle_intervals(trace_of(rows, cpus=1))["end_ns"].to_list() == [0]
