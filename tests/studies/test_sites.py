"""The study of Sites' article: its rows, what is left out and why, and the measures of its replays."""

from __future__ import annotations

import pytest

from wastedcores.studies import scorecard, sites, sites_replays, tool_costs
from wastedcores.studies.published import load

SEEDS = (1, 2, 3)


@pytest.fixture(scope="module")
def rows():
    """The rows of the article, replayed with three seeds."""
    made = sites.attempts(load(), SEEDS)
    runs = {run.key: run for a in made for run in a.runs()}
    results = {}
    for key, run in runs.items():
        task = getattr(sites_replays, run.task.partition(":")[2])
        results[key] = {"error": None} | task(**dict(run.arguments))
    return {a.id: a.row(results) for a in made}


def test_predictions_have_the_published_direction_and_four_in_five_the_size(rows):
    summary = scorecard.summary(list(rows.values()))
    assert summary["direction_wrong"] == []
    assert summary["failed"] == 0
    assert summary["predicted_within_1.5"] >= 0.8
    assert rows["sites.quantum"]["ours"] == 12
    assert rows["sites.clone_delays"]["ours"] == pytest.approx(50, rel=0.2)


def test_only_the_total_time_is_calibrated(rows):
    assert [i for i, r in rows.items() if r["kind"] == "calibrated"] == ["sites.groups_total"]
    total = rows["sites.groups_total"]
    assert total["ours"] == pytest.approx(26, rel=0.03)
    assert total["beside"]["without shared cores"] < 22


def test_spinning_for_the_exit_saves_most_sleeps_but_not_the_first_ones():
    short, long, never = (
        sites_replays.launch("v4.1", 1, spin_ns=spin) for spin in (600, 30_000, None)
    )
    assert short["exits"] > long["exits"] > never["exits"] == 0
    assert short["startup_us"] > long["startup_us"] > never["startup_us"]
    assert short["delay_us"] > 30 > long["delay_us"]


def test_every_number_of_the_article_is_a_row_or_has_a_reason(rows):
    tables = load()
    measured = sites.measured(tables) + tool_costs.rows(tables, sites.TABLE)[0]
    compared = {i.partition(".")[2] for i in rows} | {r["id"].partition(".")[2] for r in measured}
    assert compared == set(sites.COMPARED)
    assert compared | set(sites.WHY_NOT) == set(tables.rows(sites.TABLE))
    assert not compared & set(sites.WHY_NOT)
    assert all(r["kind"] == "measured" and "ours" in r for r in measured)


def test_a_printed_range_is_compared_by_its_middle(rows):
    spread = rows["sites.completion_spread"]
    assert spread["published"] == 25
    assert "20 to 30" in spread["quantity"]
