"""What ``explain`` says about recordings, compared with recordings of the same work on other kernels."""

from __future__ import annotations

import polars as pl
import price_table
import pytest
from explain_recordings import (
    SCHEMA,
    compare_explanations,
    contradictions,
    explanations_report,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def table():
    return compare_explanations(
        ["gc-buggy-16cpu", "gi-gi-64cpu", "lu1ms-sgclit-64cpu", "ms-msd-64cpu"], seeds=3
    )


@pytest.mark.slow
def test_the_cause_and_the_fix_are_those_that_the_recordings_show(table):
    assert contradictions(table) == [], explanations_report(table)
    assert table["looks_like"].to_list() == [
        "group_construction", "undecided", "transient", "undecided",
    ]  # fmt: skip
    assert "group_construction" in {p["name"] for p in table["proposals"][0]}


def test_a_gain_over_a_replay_that_is_slower_than_the_recording_is_not_proposed(table):
    """The replay of lu1ms-sgclit keeps fewer CPUs busy than the recorded kernel did."""
    assert table["proposals"].list.len()[2] == 0


def test_what_should_not_be_is_told():
    def gain(name, value):
        return {"name": name, "gain": value, "low": value, "high": value}

    row = {
        "recording": "r",
        "looks_like": "group_imbalance",
        "proposals": [gain("overload_on_wakeup", 0.2), gain("missing_domains", 0.1)],
        "has": ["missing_domains"],
        "recorded": [gain("group_construction (s)", 0.06), gain("group_imbalance (q)", 0.04)],
        "in_time": True,
    }
    found = contradictions(pl.DataFrame([{c: row.get(c) for c in SCHEMA}], schema=SCHEMA))
    assert found == [
        "r: missing_domains is already in.",
        "r: group_construction is not proposed, and it gained 6%.",
        "r: the cause is group_construction, not group_imbalance.",
    ]


def test_a_wrong_name_is_refused(monkeypatch, capsys):
    with pytest.raises(SystemExit, match="there is no recording nosuch"):
        compare_explanations(["gc-buggy-16cpu", "nosuch"])
    monkeypatch.setattr(price_table, "recordings", lambda: iter(()))
    monkeypatch.setattr("sys.argv", ["price_table.py", "nosuch"])
    with pytest.raises(SystemExit):
        price_table.main()
    assert "there is no recording nosuch" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_all_recordings_are_explained():
    table = compare_explanations()
    assert table.height == 32
    assert contradictions(table) == [], explanations_report(table)
