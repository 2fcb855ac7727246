"""Rows, verdicts and the summary; the stored calibration; figures."""

from __future__ import annotations

import json
import re

import pytest
from support import scorecards

from wastedcores.errors import UsageError, WastedCoresError
from wastedcores.figures import scorecard as fig
from wastedcores.figures import sensitivity
from wastedcores.studies import nas, published, scorecard, tools
from wastedcores.studies.calibration import calibration
from wastedcores.studies.entries import Entry, direction_right, effect, gain, plain, ratio, verdict
from wastedcores.sweep import Run
from wastedcores.words import scorecard as tables
from wastedcores.words import scorecard_rows as rows_of


@pytest.mark.parametrize(
    ("ours", "published_", "unit", "expected"),
    [
        (10.0, 10.5, "ratio", "same"),
        (12.0, 10.0, "ratio", "close"),
        (14.0, 10.0, "ratio", "within 1.5x"),
        (20.0, 10.0, "ratio", "direction only"),
        (0.9, 10.0, "ratio", "opposite"),
        (-6.0, -13.0, "percent", "same"),
        (5.0, -13.0, "percent", "opposite"),
        (0.4, 0.0, "percent", "same"),
        (-0.2, -0.3, "percent", "same"),
        (3.0, 0.0, "percent", "opposite"),
        (100.0, 30.0, "s", "direction only"),
        ("{0};{1}", "{0};{1}", "nodes", "same"),
        ("{0}", "{1}", "nodes", "opposite"),
    ],
)
def test_verdict(ours, published_, unit, expected):
    assert verdict(ours, published_, unit) == expected
    assert direction_right(ours, published_, unit) == (expected != "opposite")


def test_ratio__of_percentages_is_that_of_times():
    assert ratio(-20.0, -36.0, "percent") == pytest.approx(0.8 / 0.64)
    assert ratio(2.0, 0.0, "s") is None


def test_effect__shows_what_a_ratio_of_times_flatters():
    assert effect(-2.0, -13.0, "percent") == pytest.approx(2 / 13)
    assert effect(0.1, 0.0, "percent") is None
    assert effect(2.0, 13.0, "ratio") is None


def entry(values, **more):
    runs = [Run.of("t:f", x=i) for i in range(len(values))]
    what = {
        "id": "table9.x",
        "source": "s",
        "place": "p",
        "quantity": "q",
        "unit": "s",
        "published": "3",
        "kind": "predicted",
        "roles": {"only": runs},
        "value": plain("only", "v"),
    } | more
    results = {r.key: {"v": v, "error": None} for r, v in zip(runs, values, strict=True)}
    return Entry(**what), results


def test_entry__median_and_range_over_seeds():
    e, results = entry([1.0, 2.0, 3.0, 4.0, 100.0])
    row = e.row(results)
    assert (row["ours"], row["published"], row["ratio"]) == (3.0, 3.0, 1.0)
    assert row["low"] == pytest.approx(1.2)
    assert row["high"] == pytest.approx(80.8)
    assert row["seeds"] == 5
    assert row["verdict"] == "same"


def test_entry__a_failed_replay_fails_the_row():
    e, results = entry([1.0, 2.0])
    results[e.roles["only"][1].key] = {"v": None, "error": "task 'a' ran out of luck"}
    row = e.row(results)
    assert row["verdict"] == "failed"
    assert row["ours"] is None
    assert "out of luck" in row["reason"]


def test_entry__other_readings_stand_beside():
    e, results = entry([2.0])
    both = {"bug": e.roles["only"], "fixed": e.roles["only"]}
    e, _ = entry([2.0], beside={"as the text": (both, gain("v"))})
    assert e.row(results)["beside"] == {"as the text": 0.0}
    assert len(e.runs()) == 3


def test_stored_calibration_is_complete_and_says_how_well_it_fits():
    stored = calibration()
    assert stored["schema"] == "wastedcores.calibration/1"
    assert stored["date"]
    assert stored["version"]
    parameters = nas.parameters_from(stored["nas"])
    assert list(parameters) == list(nas.KINDS)
    for app, p in parameters.items():
        assert p.kind == nas.KINDS[app]
        residuals = stored["nas"][app]["residuals"]
        assert set(residuals) == set(nas.SEEN)
        # ep's three numbers cannot be met by one program (see the page); all others are
        assert max(map(abs, residuals.values())) < 0.15, (app, residuals)
    assert set(stored["tpch"]) == {"q18", "full"}


def test_every_published_number_of_the_tables_has_one_row():
    made = scorecard.entries(scorecard.PARTS, published.load(), calibration(), seeds=range(1, 3))
    ids = [e.id for e in made]
    assert len(ids) == len(set(ids))
    assert sum(i.startswith("table1.") for i in ids) == 27
    assert sum(i.startswith("table3.") for i in ids) == 27
    assert sum(i.startswith("table2.") for i in ids) == 2 * (4 + 3)
    assert sum(i.startswith("walcher.") for i in ids) == 4
    kinds = {e.id: e.kind for e in made}
    assert kinds["table3.lu.bug"] == kinds["table3.lu.speedup"] == "predicted"
    assert kinds["table3.lu.fixed"] == kinds["table1.lu.bug"] == "calibrated"
    assert kinds["table2.q18.none.s"] == "calibrated"
    assert kinds["claims.lu_r_speedup"] == "predicted"
    assert kinds["claims.event_rate_nr"] == kinds["claims.profiler_rate"] == "predicted"
    predicted = {i for i, k in kinds.items() if k == "predicted"}
    assert predicted.isdisjoint(i for i in kinds if i.startswith("table1."))
    with pytest.raises(UsageError, match="table9"):
        scorecard.entries(["table9"], published.load(), calibration(), seeds=[1])


def rows():
    made = []
    for i, (ours, unit, kind) in enumerate(
        [(3.0, "ratio", "predicted"), (-10.0, "percent", "predicted"), (7.0, "s", "calibrated")]
    ):
        e, results = entry([ours], id=f"t.{i}", unit=unit, kind=kind, published=str(ours * 1.6))
        made.append(e.row(results))
    return made


def test_summary__counts_and_names_the_missed():
    s = scorecard.summary(rows())
    assert s["predicted"] == 2
    assert s["calibrated"] == 1
    assert s["direction_wrong"] == []
    assert s["predicted_within_1.5"] == 0.5
    assert s["missed"] == ["t.0"]


def test_not_tried__lists_every_claim_without_a_row_with_a_reason():
    known = published.load()
    left = scorecard.not_tried([], ["claims"], known, ["claims.event_bytes"])
    claims = sum(len(known.rows(t)) for t in tables_of_claims())
    assert len(left) == claims
    assert all(item["why"] for item in left)
    assert scorecard.not_tried([], ["table1"], known, []) == []


def tables_of_claims():
    return [t for t in published.TABLES if t.endswith("_claims")]


def test_tools__no_number_without_a_benchmark(monkeypatch, tmp_path):
    rows = [
        {"name": "bytes per event in flight", "value": 16.0, "unit": "B"},
        {
            "name": "checker, S = 1 s, 10000 threads: CPU time added to their work",
            "value": 0.9,
            "unit": "%",
        },
        {
            "name": "checker and recorder, S = 1 s, 10000 threads: CPU time added to their work",
            "value": float("nan"),
        },
        {"name": "a benchmark that got nothing", "value": "-"},
    ]
    results = {"capture": {"machine": "m", "date": "d", "rows": rows}}
    (tmp_path / "results.json").write_text(json.dumps(results))
    monkeypatch.setattr(tools, "find", lambda *parts: tmp_path / parts[-1])
    made, missing = tools.rows(published.load())
    assert [(r["id"], r["ours"], r["kind"], r["verdict"]) for r in made] == [
        ("claims.event_bytes", 16.0, "measured", "not more"),
        ("claims.checker_overhead", 0.9, "measured", "more"),
    ]
    assert "claims.profile_overhead" in missing
    assert len(missing) == len(tools.MEASURED_BY) - 2


@pytest.mark.parametrize(
    ("met", "expected"), [(True, "not more"), (False, "not more"), (None, "not judgeable")]
)
def test_tools__a_benchmark_that_could_not_judge_is_not_read_as_if_it_had(
    met, expected, monkeypatch, tmp_path
):
    name = "checker, S = 1 s, 10000 threads: CPU time added to their work"
    rows = [{"name": name, "value": -9.9, "unit": "%", "goal": "< 0.5", "met": met}]
    (tmp_path / "results.json").write_text(json.dumps({"capture": {"rows": rows}}))
    monkeypatch.setattr(tools, "find", lambda *parts: tmp_path / parts[-1])
    made, _ = tools.rows(published.load())
    assert [(r["id"], r["verdict"]) for r in made] == [("claims.checker_overhead", expected)]


def test_score_dots__one_hollow_and_one_filled_dot_a_number():
    result = scorecards.made_up()
    figure = fig.score_dots(result)
    numbers = [r for r in result["rows"] if not isinstance(r["published"], str)]
    # the axes are logarithmic: changes are drawn as speedups, a measured overhead (benchmarks/results.json) of 0 or less not
    changes = [r for r in numbers if r["unit"] in ("s", "ratio", "percent")]
    drawn = [r for r in numbers if r["ours"] > 0 or (r in changes and r["kind"] != "measured")]
    hollow = [t for t in figure.data if t.marker.symbol == "circle-open"]
    assert sum(len(t.x) for t in hollow) == len(drawn)
    filled = [t for t in figure.data if t.marker.symbol != "circle-open"]
    assert sum(len(t.x) for t in filled) == len(drawn)
    for kind in ("predicted", "calibrated", "measured"):
        mine = [t for t in filled if t.name == f"ours, {kind}"]
        assert sum(len(t.x) for t in mine) == sum(r["kind"] == kind for r in drawn)
        assert sum(t.showlegend is not False for t in mine) == 1
    # a change of -22.6 % is a speedup of 100/77.4
    assert pytest.approx(100 / 77.4) in list(hollow[0].x)
    axes = [figure.layout[a] for a in ("xaxis", "xaxis2", "xaxis3")]
    assert {a.type for a in axes} == {"log"}
    assert "98" in figure.layout.title.text or "100" in figure.layout.title.text


def test_figures_of_the_sensitivity():
    study = scorecards.study()
    bars = sensitivity.tornado(study).data
    assert [[round(x) for x in b.x] for b in bars] == [[-20, -20], [30, 30]]
    assert sorted(bars[0].y) == ["lu beside R: intervals", "table 3 cg: intervals"]
    assert list(sensitivity.size_curves(study).data[0].y) == [1, 2, 8]
    assert list(sensitivity.noise_curves(study).data[0].y) == [-2.5, -10]
    assert list(sensitivity.quiet_curve(study).data[0].y) == [9, 12]
    assert list(sensitivity.checker_curves(study).data[0].y) == [50]
    assert "100\u00a0s" in repr(tables.tick_table(study))


def test_read__absent_is_empty_and_another_file_is_refused(tmp_path):
    assert scorecard.read(tmp_path) == {}
    (tmp_path / "scorecard.json").write_text("[]")
    with pytest.raises(WastedCoresError, match="expected the scorecard"):
        scorecard.read(tmp_path)


def test_first_screen__counts_what_was_reproduced_and_links_to_the_rest():
    result = scorecards.made_up(
        1.6
    )  # seconds and ratios miss by more than 1.5, and so do most changes
    shown = tables.score_verdict(result)
    predicted = [r for r in result["rows"] if r["kind"] == "predicted"]
    right = [r for r in predicted if r["reproduced"]]
    assert 0 < len(right) < len(predicted) / 2
    assert f"<b>{len(right)} of {len(predicted)}</b>" in shown.html
    wholes = shown.html + tables.score_table(result).html + tables.score_not_tried(result).html
    wholes += tables.score_table(result, ["calibrated"]).html
    targets = re.findall(r'href="#([^"]+)"', shown.html)
    assert len(targets) > 20
    for target in targets:
        assert wholes.count(f'id="{target}"') == 1, target
    ids = re.findall(r' id="([^"]+)"', wholes)
    assert len(ids) == len(set(ids))


def test_tables__say_what_was_done():
    result = scorecards.made_up()
    assert "Table 2" in repr(tables.score_verdict(result))
    assert "measured on" in repr(tables.score_reasons(result, beyond=1.0))
    text = repr(tables.score_table(result))
    assert "lu, with the bug (predicted): 2\u202f196\u00a0s, 2\u202f416\u00a0s" in text
    assert "table1" not in text
    assert "Table 1" in repr(tables.score_table(result, ["calibrated"]))


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (-0.004, "percent", "0\u00a0%"),
        (-5.62, "percent", "\u22125.6\u00a0%"),
        (251.4, "percent", "+251.4\u00a0%"),
        (51723.6, "1/s", "51\u202f724\u00a01/s"),
        (23.76, "ratio", "23.8\u00d7"),
        ("{0};{1}", "nodes", "{0}; {1}"),
        (None, "s", "none"),
    ],
)
def test_text__of_numbers(value, unit, expected):
    assert rows_of.text(value, unit) == expected


def test_every_row_has_a_group_of_its_own_and_a_name_in_it():
    for group, mine in rows_of.grouped(scorecards.made_up()["rows"]):
        assert group in rows_of.GROUPS, [r["id"] for r in mine]
        names = [(rows_of.short(r), r["unit"]) for r in mine]
        assert len(set(names)) == len(names), names


@pytest.mark.parametrize(
    ("ours", "published_", "unit", "expected"),
    [
        (-6.0, -13.0, "percent", False),  # the times are close, the change is half
        (-9.0, -13.0, "percent", True),
        (-21.0, -13.0, "percent", False),
        (-0.001, -7.0, "percent", False),
        (0.2, -1.0, "percent", True),
        (8.0, 13.0, "ratio", False),
        (9.0, 13.0, "ratio", True),
    ],
)
def test_reproduced__is_about_the_size(ours, published_, unit, expected):
    e, results = entry([ours], unit=unit, published=str(published_))
    assert e.row(results)["reproduced"] is expected


def test_no_effect_where_one_is_published_has_no_direction():
    e, results = entry([-0.001], unit="percent", published="-7")
    row = e.row(results)
    assert row["verdict"] == "no effect"
    summary = scorecard.summary([row])
    assert summary["no_effect"] == [row["id"]]
    assert summary["direction_wrong"] == []
    assert summary["predicted_reproduced"] == 0
