"""The study of Sites' article: its rows, what is left out and why, and the measures of its replays."""

from __future__ import annotations

from statistics import median

import pytest

from wastedcores.topology.presets import preset
from wastedcores_studies import anomalies, anomalies_replays, scorecard, tool_costs
from wastedcores_studies.published import load

SEEDS = (1, 2, 3)


@pytest.fixture(scope="module")
def rows():
    """The rows of the article, replayed with three seeds."""
    made = anomalies.attempts(load(), SEEDS)
    runs = {run.key: run for a in made for run in a.runs()}
    results = {}
    for key, run in runs.items():
        task = getattr(anomalies_replays, run.task.partition(":")[2])
        results[key] = {"error": None} | task(**dict(run.arguments))
    return {a.id: a.row(results) for a in made}


def test_predictions_have_the_published_direction_and_at_most_two_miss_the_size(rows):
    """With 20 seeds only the gain of the start misses a factor of 1.5; with these few, the spread does and the gain may not."""
    summary = scorecard.summary(list(rows.values()))
    assert summary["direction_wrong"] == []
    assert summary["failed"] == 0
    assert set(summary["missed"]) <= {"sites.completion_spread", "sites.startup_gain"}
    assert rows["sites.quantum"]["ours"] == 12
    assert rows["sites.clone_delays"]["ours"] == pytest.approx(50, rel=0.2)


def test_readings_chosen_after_the_result_say_so_and_show_the_other_one(rows):
    gain, stay = rows["sites.startup_gain"], rows["sites.uninterrupted"]
    spun, never = (
        [anomalies_replays.launch("v4.1", s, spin_ns=spin)["startup_us"] for s in SEEDS]
        for spin in (30_000, None)
    )
    short = [anomalies_replays.launch("v4.1", s, spin_ns=600)["startup_us"] for s in SEEDS]
    assert gain["ours"] == pytest.approx(median(a / b for a, b in zip(short, spun, strict=True)))
    without = gain["beside"]["without sleeps"]
    assert without == pytest.approx(median(a / b for a, b in zip(short, never, strict=True)))
    assert stay["beside"]["quanta"] > 12 * 1.5
    reasons = (gain["reason"], stay["reason"], anomalies.WHY_NOT["clone_cpus"])
    assert all("had been seen" in reason for reason in reasons)
    assert any("first four" in label for label in gain["beside"])


def test_only_the_total_time_is_calibrated(rows):
    assert [i for i, r in rows.items() if r["kind"] == "calibrated"] == ["sites.groups_total"]
    total = rows["sites.groups_total"]
    assert total["ours"] == pytest.approx(26, rel=0.03)
    assert total["beside"]["without shared cores"] < 22


def test_spinning_for_the_exit_saves_most_sleeps_but_not_the_first_ones():
    short, long, never = (
        anomalies_replays.launch("v4.1", 1, spin_ns=spin) for spin in (600, 30_000, None)
    )
    assert short["exits"] > long["exits"] > never["exits"] == 0
    assert short["startup_us"] > long["startup_us"] > never["startup_us"]
    assert short["delay_us"] > 30 > long["delay_us"]


def test_the_start_is_replayed_on_the_machine_that_is_named():
    """Notebook 14 has a parameter for it, and without one it is the article's machine."""
    usual, same, wide = (
        anomalies_replays.launch("v4.1", 1, spin_ns=600, on=on)["startup_us"]
        for on in (None, preset("i3-7100-c6"), preset("uma8"))
    )
    assert usual == same != wide


def test_every_number_of_the_article_is_a_row_or_has_a_reason(rows):
    tables = load()
    measured = anomalies.measured(tables) + tool_costs.rows(tables, anomalies.TABLE)[0]
    compared = {i.partition(".")[2] for i in rows} | {r["id"].partition(".")[2] for r in measured}
    assert compared == set(anomalies.COMPARED)
    assert compared | set(anomalies.WHY_NOT) == set(tables.rows(anomalies.TABLE))
    assert not compared & set(anomalies.WHY_NOT)
    assert all(r["kind"] == "measured" and "ours" in r for r in measured)


def test_a_printed_range_is_compared_by_its_middle(rows):
    spread = rows["sites.completion_spread"]
    assert spread["published"] == 25
    assert "20 to 30" in spread["quantity"]
