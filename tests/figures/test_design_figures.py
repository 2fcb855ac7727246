"""Figures of how a core treated the suggestions of its modules."""

from __future__ import annotations

import pytest

from wastedcores.analysis.compare import compare
from wastedcores.errors import MissingEventsError
from wastedcores.figures.design import refused, suggestions
from wastedcores.simulator import replay_scenario


@pytest.fixture(scope="module")
def runs():
    given = {"iterations": 10}
    return {
        k: replay_scenario("overload-on-wakeup", k, "bd-paper-16", 1, given)
        for k in ("v4.1", "core+waker_locality")
    }


def test_suggestions__taken_and_refused(runs):
    found = compare(runs)
    fig = suggestions(found)
    taken, refusals = fig.data
    assert (taken.name, refusals.name) == ("taken", "refused")
    assert sum(refusals.y) == found.table["refused_suggestions"][1] > 0
    assert list(taken.x[0]) == ["core+waker_locality"] * len(taken.y)
    assert "waker_locality: wakeup" in taken.x[1]
    assert "refused" in fig.layout.title.text


def test_suggestions__needs_a_design(runs):
    with pytest.raises(MissingEventsError, match="Compare replays of designs"):
        suggestions(compare({"v4.1": runs["v4.1"]}))


def test_refused__one_row_per_suggestion(runs):
    table = refused(runs["core+waker_locality"].trace, rows=3).data[0]
    assert [len(column) for column in table.cells["values"]] == [3] * 5
    assert all(t.startswith("waker_locality: ") for t in table.cells["values"][1])
    assert not len(refused(runs["v4.1"].trace).data[0].cells["values"][0])
