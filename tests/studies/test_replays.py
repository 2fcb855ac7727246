"""The tasks of the scorecard's sweeps, the bars of its sensitivity study, and the checker's S and M."""

from __future__ import annotations

import pytest
from support.builders import nr, trace_of

from wastedcores.errors import TopologyError, WorkloadError
from wastedcores.sweep import Run, execute
from wastedcores.workload.database import POOLS, resident_pools
from wastedcores_studies import nas, published, replays, sensitivity, tornado
from wastedcores_studies.attempts import Reading
from wastedcores_studies.calibration import read_calibration


@pytest.mark.parametrize(
    ("name", "cpus", "nodes"),
    [
        ("bulldozer:2", 2, 1),
        ("bulldozer:8", 8, 1),
        ("bulldozer:16", 16, 2),
        ("bulldozer:32", 32, 4),
        ("bulldozer:64", 64, 8),
        ("desktop:4", 4, 1),
        ("bulldozer8x8", 64, 8),
    ],
)
def test_machine_named(name, cpus, nodes):
    machine = replays.machine_named(name)
    assert (machine.cpus, machine.nodes) == (cpus, nodes)


@pytest.mark.parametrize("name", ["bulldozer:7", "desktop:x", "desktop:0", "toaster:4"])
def test_machine_named__refuses(name):
    with pytest.raises(TopologyError, match="expected bulldozer:2"):
        replays.machine_named(name)


def test_a_machine_of_64_cpus_cut_from_the_papers_is_the_papers():
    whole, cut = replays.machine_named("bulldozer8x8"), replays.machine_named("bulldozer:64")
    assert [list(r) for r in whole.distance] == [list(r) for r in cut.distance]
    assert list(whole.node_of_cpu) == list(cut.node_of_cpu)


def test_groups_of_core_0_are_those_printed():
    row = replays.machine_groups("v4.1", "bulldozer8x8", 0)
    assert row["groups"] == published.load().text("lozi2016_claims", "groups_buggy", "value")
    fixed = replays.machine_groups("v4.1+missing_domains:patch", "bulldozer8x8", 0)
    assert fixed == row


def test_database__has_one_barrier_or_one_per_pool():
    machine = replays.machine_named("bulldozer8x8")
    one = resident_pools(machine, 1, pools=POOLS, together=True, stages=3)
    assert one.barriers == (64,)
    assert sum(t.comm.startswith("noise/") for t in one.tasks) == 64
    three = resident_pools(machine, 1, pools=POOLS, together=False, stages=3, autogroups=True)
    assert three.barriers == POOLS
    assert len(three.shares) == len(one.shares) + 3
    assert sum(f"query start {i}" in three.texts for i in range(3)) == 3
    for pools, stages in (((), 1), ((0, 2), 1), ((2,), 0)):
        with pytest.raises(WorkloadError, match="expected pools"):
            resident_pools(machine, 1, pools=pools, together=True, stages=stages)


def test_pinned_workers_stay_and_only_the_balancer_of_unpinned_ones_moves_them():
    machine = replays.machine_named("bulldozer8x8")
    pinned = resident_pools(machine, 1, pools=(3, 2), together=True, stages=2, pin=True)
    workers = [t for t in pinned.templates if t.comm == "worker"]
    assert [t.allowed for t in workers] == [frozenset([cpu]) for cpu in range(5)]
    how = {"machine": "bulldozer8x8", "seed": 1, "pools": list(POOLS), "together": True}
    free, bound = (replays.tpch("v4.1", stages=100, pin=pin, **how) for pin in (False, True))
    assert bound["moves_per_s"] == 0 < free["moves_per_s"]
    assert bound["stage_s"] < free["stage_s"]


def test_tornado__has_a_bar_for_every_number_that_depends_on_parameters():
    parameters = nas.parameters_from(read_calibration()["nas"])
    bars = tornado.bars(parameters, seeds=[1])
    assert {b.labels["id"] for b in bars} == {
        *(f"table3.{app}.bug" for app in nas.KINDS),
        *(
            f"table2.{w}.{f}.change"
            for w in ("q18", "full")
            for f in ("group_imbalance", "overload_on_wakeup", "both")
        ),
        "claims.lu_r_speedup",
        "claims.make_r_gain",
    }
    for bar in bars:
        keys = [frozenset(r.key for r in reading.runs()) for reading in bar.readings.values()]
        # the serial part is added to the result of the replay, and on one node no memory is remote
        unseen = {"serial_s", "remote"}
        assert len(set(keys)) == 3 or bar.labels["parameter"] in unseen, bar.labels


def test_point__makes_a_row_only_if_it_has_all_its_numbers():
    run = Run.of("t:f", x=1)
    readings = {
        name: Reading({"a": [run]}, lambda rows, f=f: f * rows["a"]["v"])
        for name, f in (("low", 1), ("base", 2), ("high", 3))
    }
    point = tornado.Point({"id": "table9.x", "parameter": "knob"}, readings)
    assert point.row({run.key: {"v": 10.0, "error": None}}) == {
        "id": "table9.x",
        "parameter": "knob",
        "low": 10,
        "base": 20,
        "high": 30,
    }
    assert point.row({run.key: {"v": None, "error": "lost"}}) is None


@pytest.mark.slow
@pytest.mark.timeout(900)  # the first one compiles the engine
def test_tpch__an_undisturbed_stage_takes_as_long_as_its_slowest_worker():
    row = replays.tpch("v4.1", "desktop:4", 1, pools=[2, 1, 1], together=True, stages=50)
    # the longest of four workers of 1.8-2.2 ms, and some noise
    assert 2.0e-3 < row["stage_s"] < 2.6e-3
    again = replays.tpch("v4.1", "desktop:4", 1, pools=[2, 1, 1], together=True, stages=50)
    assert {k: v for k, v in row.items() if k != "wall_s"} == {
        k: v for k, v in again.items() if k != "wall_s"
    }


@pytest.mark.slow
@pytest.mark.timeout(900)  # the first one compiles the engine
def test_tpch__undisturbed_workers_stay_spread():
    row = replays.tpch(
        "v4.1", "bulldozer8x8", 1, pools=[28, 20, 16], together=True, stages=50,
        noise_period_ns=100_000_000_000,
    )  # fmt: skip
    # the longest of 64 workers of 1.8-2.2 ms, and the time to wake 63 others one after the other
    assert 2.15e-3 < row["stage_s"] < 2.4e-3


@pytest.mark.slow
@pytest.mark.timeout(900)  # the first one compiles the engine
def test_profiler_events__are_two_for_each_sleep():
    given = {"pools": [28, 20, 16], "together": True, "stages": 50}
    rates = replays.profiler_events("v4.1", "bulldozer8x8", 1, **given)
    stage_s = replays.tpch("v4.1", "bulldozer8x8", 1, **given)["stage_s"]
    assert rates["nr_running"] == pytest.approx(2 * 64 / stage_s, rel=0.05)
    assert rates["considered"] > 0


@pytest.mark.slow
@pytest.mark.timeout(900)  # the first one compiles the engine
def test_make_r__the_two_nodes_of_r_stay_under_used():
    row = replays.make_r("v4.1", "bulldozer8x8", 1, jobs=1500)
    assert row["idle_nodes"] == 2
    assert row["r_share"] == pytest.approx(1, abs=0.01)
    fixed = replays.make_r("v4.1+all_fixes:patch", "bulldozer8x8", 1, jobs=1500)
    assert fixed["make_s"] < row["make_s"]


@pytest.mark.slow
@pytest.mark.timeout(900)  # the first one compiles the engine
def test_figure_5__core_0_looks_every_tick():
    assert replays.looks_of_core0("v4.1", "bulldozer8x8", 1)["period_ms"] == pytest.approx(
        4, rel=0.05
    )


def test_execute__of_a_bad_machine_is_an_error_row():
    given = (("kernel", "v4.1"), ("machine", "toaster:4"), ("seed", 1), ("jobs", 5))
    row = execute("wastedcores_studies.replays:make_r", given)
    assert "toaster:4" in row["error"]


def test_checker__a_longer_m_sees_less_and_no_episode_shorter_than_itself():
    rows = sensitivity.checker(["group-construction-buggy", "overload-on-wakeup-buggy"])
    for name in ("group-construction-buggy", "overload-on-wakeup-buggy"):
        caught = [r["caught"] for r in rows if r["recording"] == name]
        assert caught == sorted(caught, reverse=True)
    lasting = {r["m_ms"]: r for r in rows if r["recording"] == "group-construction-buggy"}
    # one episode lasts for the whole three seconds, so any shorter M sees all of it
    assert lasting[1000]["caught"] == pytest.approx(1)
    assert lasting[100]["checks"] == pytest.approx(3 / 2.9, rel=0.01)
    short = {r["m_ms"]: r for r in rows if r["recording"] == "overload-on-wakeup-buggy"}
    assert short[100]["caught"] == 0
    assert short[100]["checks"] is None
    assert short[1]["caught"] > 0.2


def test_checker__a_check_may_come_while_nothing_is_wasted(monkeypatch):
    s = 1_000_000_000
    rows = [nr(0, 0, 1), nr(0, 1, 1), nr(s, 0, 2), nr(s, 1, 0), nr(2 * s, 0, 1), nr(2 * s, 1, 1)]
    trace = trace_of([*rows, nr(3 * s, 0, 1)], cpus=2)
    monkeypatch.setattr(sensitivity, "fetch", lambda name: name)
    monkeypatch.setattr(sensitivity, "open_trace", lambda name: trace)
    (found,) = (r for r in sensitivity.checker(["one"]) if r["m_ms"] == 100)
    assert found["checks"] == pytest.approx(3 / 0.9)


def test_checker__a_recording_without_waste_shows_it_nothing(monkeypatch):
    calm = trace_of([nr(0, 0, 1), nr(0, 1, 1), nr(1_000_000_000, 0, 1)], cpus=2)
    monkeypatch.setattr(sensitivity, "fetch", lambda name: name)
    monkeypatch.setattr(sensitivity, "open_trace", lambda name: calm)
    rows = sensitivity.checker(["calm"])
    assert {(r["caught"], r["checks"]) for r in rows} == {(0.0, None)}
