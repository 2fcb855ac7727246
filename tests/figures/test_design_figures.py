"""Figures of how a core treated the suggestions of its modules."""

from __future__ import annotations

import pytest

from wastedcores.analysis.compare import compare
from wastedcores.errors import MissingEventsError
from wastedcores.figures.compare import suggestions
from wastedcores.simulator import replay_scenario
from wastedcores.words.replays import refused


@pytest.fixture(scope="module")
def runs():
    given = {"iterations": 10}
    return {
        k: replay_scenario("overload-on-wakeup", k, "bd-paper-16", 1, given)
        for k in ("v4.1", "core+waker_locality")
    }


@pytest.mark.slow
def test_suggestions__taken_and_refused(runs):
    found = compare(runs)
    fig = suggestions(found)
    taken, refusals = fig.data
    assert (taken.name, refusals.name) == ("taken", "refused")
    assert sum(refusals.x) == found.table["refused_suggestions"][1] > 0
    assert "waker_locality: wakeup" in taken.y
    assert "refused" in fig.layout.title.text


def test_suggestions__needs_a_design(runs):
    with pytest.raises(MissingEventsError, match="Compare replays of designs"):
        suggestions(compare({"v4.1": runs["v4.1"]}))


def test_refused__one_row_per_suggestion(runs):
    shown = refused(runs["core+waker_locality"].trace, most=3).text.splitlines()
    assert len(shown) == 2 + 3
    assert shown[0].startswith("The core refused ")
    assert all("waker_locality: " in row for row in shown[2:])
    assert refused(runs["v4.1"].trace).text == "The core refused no suggestion."
