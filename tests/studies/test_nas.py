"""The NAS model: its formulas by hand, its calibration, and the numbers that the calibration never sees."""

from __future__ import annotations

import polars as pl
import pytest

from wastedcores.errors import UsageError, WorkloadError
from wastedcores.workload import spmd
from wastedcores_studies import nas, nas_fit, published, replays
from wastedcores_studies.replays import machine_named

MS = 1_000_000


def by_hand(todo):
    """Return times computed by hand: shares of the work, and what m threads on a CPU lose at each barrier."""
    rows = []
    for run in todo:
        a = dict(run.arguments)
        bug = a["kernel"] == "v4.1"
        cpus = 8 if bug else a["threads"]
        m = a["threads"] // cpus
        interval = a["grain_ns"] / 1e9 * m
        if a["kind"] == "pipeline":
            row = a["grain_ns"] / 1e9 * a["threads"] / a["rows"]
            most = -(-a["rows"] // cpus)
            interval = row * (a["planes"] * most + a["rows"] - most)
            interval = 2 * (interval + a["planes"] * (m - 1) * 0.016)
        elif a["kind"] != "none":
            interval += (m - 1) * 0.001
        rows.append({"interval_s": interval})
    return rows


@pytest.fixture(scope="module")
def calibrated():
    return nas_fit.calibrate(published.blanked(published.load()), by_hand, seeds=(1,))


def test_calibrate__does_not_need_what_it_predicts(calibrated):
    """Reading a blank cell raises, so the calibration has not read one; and the full tables change nothing."""
    assert nas_fit.calibrate(published.load(), by_hand, seeds=(1,)) == calibrated
    assert set(calibrated) == set(nas.KINDS)


def test_calibrate__uses_the_columns_that_it_may_see(calibrated):
    tables = published.load()
    other = dict(tables.cells)
    other["lozi2016_table1", "cg", "bug_s"] = "60"
    assert nas_fit.calibrate(published.Tables(other), by_hand, seeds=(1,))["cg"] != calibrated["cg"]


def test_scorecard_calibrates_on_blanked_tables(monkeypatch, tmp_path):
    """The command line calibrates on tables without the predicted cells."""
    from wastedcores.errors import DatasetError
    from wastedcores_studies import calibration

    seen = []
    monkeypatch.setattr(calibration.nas_fit, "calibrate", lambda t, *a, **k: seen.append(t) or {})
    monkeypatch.setattr(calibration.tpch, "calibrate", lambda t, *a, **k: seen.append(t) or {})
    calibration.calibrate(tmp_path)
    assert calibration.read_calibration(tmp_path / "calibration.json")["nas"] == {}
    assert len(seen) == 2
    for tables in seen:
        for table, row, column in (
            ("lozi2016_table3", "lu", "bug_s"),
            ("lozi2016_table2", "both", "q18_s"),
            ("lozi2016_claims", "lu_r_speedup", "value"),
        ):
            with pytest.raises(DatasetError, match="blank"):
                tables.number(table, row, column)


def test_a_replay_of_the_database_that_fails_ends_the_calibration_with_its_error(
    monkeypatch, tmp_path
):
    from wastedcores_studies import calibration

    monkeypatch.setattr(calibration.nas_fit, "calibrate", lambda *a, **k: {})
    failed = pl.DataFrame({"kernel": ["v4.1"], "error": ["no memory"]})
    monkeypatch.setattr(calibration, "sweep", lambda *a, **k: failed)
    with pytest.raises(UsageError, match="a replay failed: no memory"):
        calibration.calibrate(tmp_path, note=lambda _: None)


def test_calibrate__recovers_the_parameters_of_a_known_program():
    """Tables that a known program would print lead back to that program."""
    truth = nas.Parameters("cg", "barrier", work_s=200.0, serial_s=2.0, intervals=15_000)
    cells = dict(published.blanked(published.load()).cells)
    for place, (table, column) in nas_fit.SEEN.items():
        (row,) = by_hand([nas.run(truth, nas.PLACES[place], 1)])
        cells[table, "cg", column] = str(truth.total_s(row["interval_s"]))
    found = nas_fit.calibrate(published.Tables(cells), by_hand, seeds=(1,))["cg"]["parameters"]
    assert found["work_s"] == pytest.approx(200, rel=0.01)
    assert found["serial_s"] == pytest.approx(2, rel=0.02)
    assert found["intervals"] == pytest.approx(15_000, rel=0.01)
    assert found["remote"] == 0


def test_calibrate__finds_the_problem_class_of_lu():
    """The planes and intervals of a pipeline are those of a class of NPB, and the right class fits best."""
    for letter, edge in nas_fit.LU_GRIDS.items():
        planes = edge - 2
        truth = nas.Parameters(
            "lu",
            "pipeline",
            work_s=300.0,
            intervals=2.0 * nas_fit.LU_ITERATIONS * planes,
            planes=planes,
        )
        cells = dict(published.blanked(published.load()).cells)
        for place, (table, column) in nas_fit.SEEN.items():
            (row,) = by_hand([nas.run(truth, nas.PLACES[place], 1)])
            cells[table, "lu", column] = str(truth.total_s(row["interval_s"]))
        found = nas_fit.calibrate(published.Tables(cells), by_hand, seeds=(1,))["lu"]["parameters"]
        assert found["planes"] == planes, letter
        assert found["work_s"] == pytest.approx(300, rel=0.02)
        assert found["intervals"] == truth.intervals
        assert found["remote"] == 0


def test_run__a_whole_run_of_lu_has_npbs_iterations():
    p = nas.Parameters("lu", "pipeline", work_s=300.0, intervals=50_000, planes=100)
    given = dict(nas.run(p, nas.PLACES["lu_r_bug"], 1, whole=True).arguments)
    assert given["intervals"] == nas_fit.LU_ITERATIONS
    assert given["rows"] == given["planes"] == 100
    assert dict(nas.run(p, nas.PLACES["lu_r_bug"], 1).arguments)["intervals"] is None


def test_distance__of_the_papers_nodes():
    machine = machine_named("bulldozer8x8")
    assert nas.distance(machine, (1,)) == 0
    assert nas.distance(machine, (1, 2)) == 6  # two hops: 22 - 10, for half of the pairs


def test_parameters__work_is_shared_and_sums_up():
    machine = machine_named("bulldozer8x8")
    p = nas.Parameters("x", "pipeline", work_s=64.0, serial_s=1.0, intervals=1000, planes=50)
    place = nas.PLACES["table3_fixed"]
    assert p.grain_ns(place, machine) == MS
    assert p.per_mark == 100
    assert p.total_s(0.5) == 1 + 10 * 0.5


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ({"kind": "magic"}, "kind 'magic'"),
        ({"threads": 0}, "at least one thread"),
        ({"grain_ns": 0}, "at least one thread"),
        ({"kind": "pipeline"}, "for a pipeline, one plane"),
        ({"start_node": 9}, "has no node 9"),
        ({"nodes": (9,)}, "has no node"),
    ],
)
def test_program__refuses_what_cannot_run(what, message):
    spec = spmd.Spmd(**({"threads": 4, "kind": "barrier", "grain_ns": 1000} | what))
    with pytest.raises(WorkloadError, match=message):
        spmd.program(spec, machine_named("bulldozer8x8"))


def place_of(name, *, seed=2, until_ms=1_500, **spec):
    place = nas.PLACES[name]
    return replays.spmd(
        place.kernel,
        "bulldozer8x8",
        seed,
        threads=place.threads,
        nodes=place.bound,
        reonline=place.reonline,
        until_ns=until_ms * MS,
        **spec,
    )


@pytest.mark.slow
@pytest.mark.timeout(900)  # the first one compiles the engine
@pytest.mark.parametrize(
    ("place", "kind", "grain_ns", "expected_ms"),
    [
        # m threads on a CPU do m pieces of work, and all but the last spin for their millisecond
        ("table1_bug", "barrier", MS, 2 * 1 + 1),
        ("table1_fixed", "barrier", MS, 1),
        ("table3_bug", "barrier", MS // 4, 8 * 0.25 + 7),
        ("table3_bug", "lock", MS // 4, 8 * 0.25 + 7),
        ("table3_fixed", "barrier", MS // 4, 0.25),
    ],
)
def test_replay__loses_the_time_that_threads_spin(place, kind, grain_ns, expected_ms):
    rows = [
        place_of(place, seed=s, until_ms=3_000, kind=kind, grain_ns=grain_ns) for s in (1, 2, 3)
    ]
    row = sorted(rows, key=lambda r: r["interval_s"])[1]
    assert row["interval_s"] * 1e3 == pytest.approx(expected_ms, rel=0.06)
    assert row["busy_cpus"] == pytest.approx(
        8 if "bug" in place else nas.PLACES[place].threads, rel=0.05
    )


@pytest.mark.slow
@pytest.mark.timeout(900)  # the first one compiles the engine
@pytest.mark.parametrize("place", ["table1_bug", "table1_fixed", "table3_bug", "table3_fixed"])
def test_replay__the_window_represents_the_whole_run(place):
    """The rate over the first seconds equals the rate over a window that is ten times as long: the state is steady."""
    spec = {"kind": "barrier", "grain_ns": MS, "seed": 3}
    short, long = (place_of(place, until_ms=ms, **spec) for ms in (2_500, 20_000))
    assert short["interval_s"] == pytest.approx(long["interval_s"], rel=0.03)


@pytest.mark.slow
@pytest.mark.timeout(900)  # the first one compiles the engine
def test_replay__of_a_whole_run_counts_from_its_start_to_its_last_interval():
    row = replays.spmd(
        "v4.1", "desktop:4", 1, threads=4, kind="pipeline", grain_ns=MS, planes=10, rows=10,
        start_node=0, intervals=20,
    )  # fmt: skip
    # rows take 0.4 ms; the first two threads have three, the others two, and the pipeline fills and drains
    sweep_ms = 0.4 * (10 * 3 + 10 - 3)
    assert row["interval_s"] * 1e3 == pytest.approx(2 * sweep_ms, rel=0.03)


@pytest.mark.slow
@pytest.mark.timeout(900)  # the first one compiles the engine
def test_replay__a_pipeline_on_all_its_cpus_takes_fill_and_work():
    row = place_of("table3_fixed", kind="pipeline", grain_ns=MS // 10, planes=40)
    assert row["interval_s"] * 1e3 == pytest.approx(2 * (40 + 63) * 0.1, rel=0.08)


@pytest.mark.slow
@pytest.mark.timeout(900)  # the first one compiles the engine
def test_replay__a_pipeline_with_two_threads_per_cpu_advances_about_one_plane_per_round():
    """Flags are polled without limit, so a plane costs between one slice (16 ms) and the slices of both (32 ms)."""
    row = replays.spmd(
        "v4.1", "bulldozer8x8", 1, threads=16, nodes=(1, 2), kind="pipeline",
        grain_ns=MS // 2, planes=100, until_ns=40_000 * MS,
    )  # fmt: skip
    assert 16 <= row["interval_s"] * 1e3 / 200 <= 34
