"""The figures of the fork/wait paper: classes of frequencies, stays with their arrows, and the tornado."""

from __future__ import annotations

import pytest
from support.builders import switch, trace_of

from wastedcores import figures as fg
from wastedcores.errors import MissingEventsError
from wastedcores.queries import events_where
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


@pytest.mark.parametrize("begin_ns", [0, 10**15])
def test_one_busy_cpu_at_a_time_is_one_however_long_the_trace(begin_ns):
    """A process goes from CPU to CPU for 8 s, so that a mark is narrower than the figure's column; then nobody runs."""
    at = [*range(2000), 3000]
    ticks = [
        {"ts_ns": begin_ns + 4_000_000 * k, "kind": "tick", "cpu": k % 4, "pid": 5, "value": 10**6}
        for k in at
    ]
    fig = fg.tick_frequencies({"t": trace_of(ticks, cpus=4)})
    busy = next(t for t in fig.data if t.mode == "lines")
    assert len(busy.x) > 500
    assert max(busy.y) == 1
    assert busy.y[-2] == 0
    assert (busy.x[0], busy.x[-1]) == (0, pytest.approx(12, abs=0.02))


def test_ticks_without_a_frequency_are_not_slow():
    tick = {"ts_ns": 10, "kind": "tick", "cpu": 0, "pid": 5, "value": 0}
    trace = trace_of([switch(0, 0, 0, "R", 5), tick, switch(20, 0, 5, "S", 0)], cpus=1)
    with pytest.raises(MissingEventsError, match="no event tells a frequency"):
        fg.fork_wait_zoom(trace, 0, 20, "frequency")
    assert events_where(trace, "frequency_khz < 2000000").is_empty()


def test_the_time_before_the_first_switch_of_a_recording_is_no_idle_time():
    """The clock of a recording does not begin at 0."""
    ms = 1_000_000
    rows = [
        switch(1000 * ms, 1, 0, "R", 5),
        switch(1500 * ms, 1, 5, "S", 0),
        switch(1700 * ms, 1, 0, "R", 5),
        switch(2000 * ms, 0, 0, "R", 6),
        switch(3000 * ms, 0, 6, "S", 0),
    ]
    trace = trace_of(rows, cpus=2)
    assert list(fg.idle_before({"t": trace}).data[0].x) == [200]
