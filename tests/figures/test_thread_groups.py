"""Groups of threads: their stays, how even they are, and the figures."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import wastedcores as wc
from wastedcores.analysis.thread_groups import evenness, stays
from wastedcores.errors import MissingEventsError, UsageError
from wastedcores.figures import group_stays

RECORDINGS = Path(__file__).parents[1] / "simulator" / "recordings"


@pytest.fixture(scope="module")
def recorded():
    return {p: wc.open_trace(RECORDINGS / f"groups-{p}-6.1-4cpu.txt.xz") for p in ("fifo", "rr")}


def test_evenness_is_what_the_guest_measured(recorded):
    """The program of the recording measured 0.250171 and 0.500343 s for its seven threads under SCHED_RR."""
    seven = evenness(recorded["rr"]).row(6, named=True)
    assert seven["first_s"] == pytest.approx(0.250171, abs=1e-4)
    assert seven["last_s"] == pytest.approx(0.500343, abs=1e-4)
    assert seven["spread_percent"] == pytest.approx(50, abs=0.1)
    assert evenness(recorded["rr"]).row(4, named=True)["quantum_ms"] == 100
    assert evenness(recorded["fifo"]).row(4, named=True)["longest_ms"] == pytest.approx(250, abs=1)


def test_stays_add_up_to_the_work(recorded):
    """Every thread of every group is there and computed for 250 ms, less what kernel threads took."""
    ran = (
        stays(recorded["rr"])
        .group_by("group", "thread")
        .agg(ms=(pl.col("end_ns") - pl.col("start_ns")).sum() / 1e6)
    )
    assert len(ran) == 78
    assert ran["ms"].min() == pytest.approx(250.1, abs=0.2)
    assert ran["ms"].max() == pytest.approx(250.1, abs=0.2)


def test_figures(recorded):
    one = group_stays(recorded, 7)
    assert [a.text for a in one.layout.annotations if a.text] == [
        "fifo: 50 % apart",
        "rr: 50 % apart",
    ]
    assert sum(bool(a.showarrow) for a in one.layout.annotations) == 2
    assert {t.name for t in one.data} == {"CPU 0", "CPU 1", "CPU 2", "CPU 3"}
    every = group_stays(recorded)
    assert len({t.yaxis for t in every.data}) == 2
    with pytest.raises(UsageError, match="no group of 13 threads"):
        group_stays(recorded, 13)


def test_a_trace_without_groups_is_refused():
    with pytest.raises(MissingEventsError, match="replay the scenario groups"):
        stays(wc.replay_scenario("hackbench", machine="uma8").trace)
