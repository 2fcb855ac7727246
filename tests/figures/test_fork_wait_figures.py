"""The figures of the fork/wait paper: classes of frequencies, stays with their arrows, and the tornado."""

from __future__ import annotations

import pytest

from wastedcores import figures as fg
from wastedcores.errors import MissingEventsError
from wastedcores.simulator import replay_scenario

RED = "#d7191c"


@pytest.fixture(scope="module")
def traces():
    """The first half second of the build under CFS and under strategy 1."""
    kernels = {"CFS": "v4.1", "strategy 1": "v4.1+fork_wait:1"}
    return {n: replay_scenario("kbuild", k, until_ns=500_000_000).trace for n, k in kernels.items()}


def test_every_busy_tick_is_one_mark_of_its_class(traces):
    fig = fg.tick_frequencies(traces)
    for axis, trace in zip(("y", "y2"), traces.values(), strict=True):
        ticks = trace.events.filter(kind="tick").collect()["value"]
        marks = [t for t in fig.data if t.type == "scattergl" and t.yaxis == axis]
        assert sum(len(t.x) for t in marks) == len(ticks)
        red = next(t for t in marks if t.marker.color == RED)
        assert len(red.x) == (ticks > 2_600_000).sum()
    assert sum(t.showlegend is not False for t in fig.data) == 4 + len(traces)


def test_a_trace_without_frequencies_says_what_to_do():
    plain = replay_scenario("hackbench", until_ns=10_000_000).trace
    with pytest.raises(MissingEventsError, match="xeon-e7-8870-turbo"):
        fg.tick_frequencies({"plain": plain})


@pytest.mark.parametrize("by", ["task", "frequency"])
def test_a_zoom_shows_the_stays_on_each_cpu(traces, by):
    wide, narrow = (fg.fork_wait_zoom(t, 300_000_000, 380_000_000, by) for t in traces.values())
    assert len(wide.layout.yaxis.ticktext) > 2 * len(narrow.layout.yaxis.ticktext)
    names = {t.name for t in wide.data}
    assert names >= ({"make", "sh", "gcc", "cc1", "as"} if by == "task" else {"2.6-3.0 GHz"})


def test_the_time_idle_before_a_stay_is_cumulated(traces):
    fig = fg.idle_before(traces)
    assert [t.name for t in fig.data] == list(traces)
    assert all(t.y[-1] == pytest.approx(100) for t in fig.data)


def test_the_tornado_has_a_mark_per_assumption_and_strategy():
    rows = [
        {"parameter": "as assumed", "value": 0.0, "s1": 30.0, "s2": 40.0},
        {"parameter": "turbo", "value": 1.1, "s1": 33.0, "s2": 44.0},
    ]
    fig = fg.assumptions(rows)
    assert [(t.name, list(t.x), list(t.y)) for t in fig.data] == [
        ("strategy 1", [33.0], ["turbo = 1.1"]),
        ("strategy 2", [44.0], ["turbo = 1.1"]),
    ]
