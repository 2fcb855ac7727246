"""Recordings and replays in the same quantities, and when they agree."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from compare_with_recordings import far_from_median, report
from support import MODERN, RECORDINGS, ROOT

from wastedcores.errors import DatasetError, TraceFormatError, UsageError
from wastedcores.kernels import generations
from wastedcores.simulator import replay
from wastedcores.simulator.measure import cpus_wasted
from wastedcores.topology.machine import Machine
from wastedcores_studies.recordings.agreement import (
    FLOORS,
    SCHEMA,
    agrees,
    compare_recordings,
    read_agreement,
)
from wastedcores_studies.recordings.quantities import Observed, Quantity, quantities, unhelped
from wastedcores_studies.recordings.recording import KINDS, Recording

MACHINE = Machine.preset("bd-paper-16")  # 2 CPUs per node


def observed(*events, threads=(1, 2), hogs=(), end=1000):
    """Return what happened, from events (ts, cpu, pid, kind) in order."""
    ts, cpu, pid, kind = (np.array(c) for c in zip(*events, strict=True))
    return Observed(
        ts,
        cpu,
        pid,
        kind == "switch",
        kind == "exit",
        0,
        end,
        threads,
        hogs,
        Quantity(3.0, "make_s"),
    )


def test_threads_per_node_are_means_over_the_end_of_the_window_asleep_or_not():
    seen = observed(
        (0, 2, 1, "wakeup"),
        (0, 4, 2, "wakeup"),
        (10, 2, 1, "switch"),
        (500, 2, 0, "switch"),  # asleep on CPU 2, which is node 1
        (875, 6, 1, "migrate"),  # node 3 for the second half of the last quarter
    )
    at = seen.threads_per_node(np.asarray(MACHINE.node_of_cpu))
    assert at.tolist() == [0, 0.5, 1, 0.5, 0, 0, 0, 0]


def test_a_thread_that_exits_is_gone_though_it_is_switched_to_again():
    seen = observed(
        (0, 2, 1, "wakeup"),
        (0, 4, 2, "wakeup"),
        (800, 2, 1, "exit"),
        (810, 0, 1, "migrate"),
        (820, 0, 1, "switch"),
    )
    at = seen.threads_per_node(np.asarray(MACHINE.node_of_cpu))
    assert at.tolist() == pytest.approx([0, 50 / 250, 1, 0, 0, 0, 0, 0])


def test_quantities_by_type_of_node_and_without_names_of_nodes():
    seen = observed(
        (0, 0, 9, "switch"),  # the hog: node 0
        (0, 4, 1, "switch"),
        (0, 5, 2, "switch"),
        (500, 5, 0, "switch"),
        hogs=(9,),
    )
    found = {name: q.value for name, q in quantities(seen, "gi", MACHINE).items()}
    assert found == pytest.approx(
        {
            "make_s": 3.0,
            "busy CPUs": 2.5,
            "busy CPUs, hog nodes": 1.0,
            "threads, hog nodes": 0.0,
            "threads, fullest node": 2.0,
            "threads, emptiest node": 0.0,
        }
    )
    pinned = quantities(seen, "gc", MACHINE)
    assert "threads, hog nodes" in pinned  # a hog decides, whatever the kind
    assert pinned["busy CPUs"].unit == "busy CPUs"


@pytest.mark.parametrize(
    ("kind", "unit", "names"),
    [
        ("gc", "cpus_of_work", {"busy CPUs, node 1", "threads, node 1"}),
        ("lu", "s_per_iter", {"busy CPUs", "busy CPUs, node 1", "threads, node 1"}),
        ("db", "db_s", {"busy CPUs", "threads, fullest node", "threads, emptiest node"}),
        (
            "ms",
            "cpus_of_work",
            {"busy CPUs, start node", "threads, start node", "threads, emptiest node"},
        ),
    ],
)
def test_no_quantity_follows_from_the_others(kind, unit, names):
    seen = replace(observed((0, 4, 1, "switch")), result=Quantity(1.0, unit))
    assert set(quantities(seen, kind, MACHINE)) == {unit, *names}


def test_how_long_a_cpu_is_idle_beside_a_waiting_thread():
    """Three CPUs: two threads on CPU 0 from 100 to 700, CPU 1 idle until 300, CPU 2 until 600."""
    changes = [(100, 0, 2), (300, 1, 1), (600, 2, 1), (700, 0, 1)]
    ts, cpu, nr = (np.array(c) for c in zip(*changes, strict=True))
    found = unhelped(ts, cpu, nr, 3, 0, 1000)
    assert {name: q.value for name, q in found.items()} == pytest.approx(
        {"CPUs wasted": 0.5, "idle beside waiting": 0.5}
    )
    assert unhelped(ts, cpu, nr, 3, 550, 650)["idle beside waiting"].value == pytest.approx(0.5)


def test_a_guest_without_autogroups_is_replayed_without():
    assert Recording.read(RECORDINGS / "gi-6.1-64cpu").model.name == "v6.1.192+noautogroup"
    assert Recording.read(MODERN / "gi-6.12-64cpu").model.name == "v6.12.107"
    recording = Recording.read(RECORDINGS / "gi-6.1-64cpu")
    grouped = Recording.read(RECORDINGS / "gi-6.1-64cpu")
    grouped.__dict__["model"] = grouped.kernel
    without, with_groups = (r.replayed(1).quantities for r in (recording, grouped))
    assert without != with_groups


def test_a_node_that_a_hog_only_passed_through_is_no_hog_node():
    seen = observed((0, 0, 9, "switch"), (100, 0, 0, "switch"), (100, 2, 9, "switch"), hogs=(9,))
    found = quantities(seen, "lu", MACHINE)
    assert found["busy CPUs, hog nodes"].value == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("recorded", "replays", "agree"),
    [
        (1.09, [1.0] * 20, True),  # within 10 %
        (1.11, [1.0] * 20, False),
        (0.04, [0.0] * 20, True),  # below the floor
        (0.06, [0.0] * 20, False),
        (1.9, [1.0] * 17 + [2.0] * 3, True),  # inside the range
        (1.9, [1.0] * 19 + [2.0], False),  # one seed of 20 does not make a range
    ],
)
def test_when_a_quantity_agrees(recorded, replays, agree):
    assert agrees(recorded, replays, floor=0.05) is agree


def test_times_have_no_floor():
    assert not agrees(0.0012, [0.001] * 20, floor=0.0)


def test_the_repositorys_table_agrees_with_its_own_numbers():
    table = read_agreement()
    assert table.columns == list(SCHEMA)
    assert table["seeds"].min() >= 20
    for r in table.iter_rows(named=True):
        floor = FLOORS.get(r["unit"], 0.0)
        close = abs(r["recorded"] - r["median"]) <= max(0.1 * r["median"], floor)
        # the file has 6 digits
        inside = r["low"] - 1e-6 <= r["recorded"] <= r["high"] + 1e-6
        assert r["agrees"] == (close or inside), r
    # every kind of run is there; the first two letters of lu10ms, lu1ms, lu60R4, db16 and db64 are the kind
    assert {run[:2] for run in table["run"]} == set(KINDS)


def test_page_shows_what_the_table_says():
    page = (ROOT / "docs" / "recorded-vs-replayed.md").read_text()
    table = read_agreement()
    assert f"the {table['run'].n_unique()} recordings of Linux 4.1.3" in page
    assert report(table) in page


def test_rows_far_from_the_median_agree_only_by_their_range():
    table = read_agreement()
    far = far_from_median(table)
    for r in table.iter_rows(named=True):
        floor = FLOORS.get(r["unit"], 0.0)
        close = agrees(r["recorded"], [r["median"]] * 20, floor)
        assert close == far.filter(run=r["run"], quantity=r["quantity"]).is_empty(), r


def test_a_file_that_is_no_table_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text("run,figure\ngi,1\n")
    with pytest.raises(DatasetError, match=r"x\.csv: expected the table"):
        read_agreement(tmp_path / "x.csv")
    with pytest.raises(DatasetError, match="expected the table"):
        read_agreement(tmp_path / "absent.csv")


def test_a_folder_that_is_no_recording_is_refused(tmp_path):
    with pytest.raises(TraceFormatError, match="expected a recording"):
        Recording.read(tmp_path)
    (tmp_path / "meta.json").write_text(json.dumps({"scenario": "xx"}))
    with pytest.raises(TraceFormatError, match="expected a run of the kind gi, gc"):
        Recording.read(tmp_path)


def test_parameters_have_the_names_of_the_scenarios(tmp_path):
    def of(kind, **params):
        (tmp_path / "meta.json").write_text(json.dumps({"scenario": kind, "params": params}))
        return Recording.read(tmp_path).parameters

    assert of("gi", jobs="1000", mips="1000") == {"jobs": 1000}
    assert of("ms", hp="20", start="16") == {"hotplug": "20"}
    assert of("lu", us="1000", k="500", limit="4", na="-1", n="60", hogs="4") == {
        "work_us": 1000,
        "iterations": 500,
        "limit_s": 4.0,
        "pinned": False,
        "n": 60,
        "hogs": 4,
    }
    assert of("db", k="400") == {
        "iterations": 400,
        "group": 8,
        "lo_us": 1000,
        "hi_us": 3000,
        "noise_period_ms": 10.0,
    }


def test_recorded_runs_on_16_cpus():
    guest = RECORDINGS
    found = [Recording.read(guest / f"{n}-16cpu") for n in ("gc-buggy", "gc-sgclit", "ms-buggy")]
    table = compare_recordings(found, range(1, 4), date="today", version="this")
    assert table.schema == pl.Schema(SCHEMA)
    assert table["agrees"].all(), table.filter(~pl.col("agrees"))
    at = {(r["run"], r["quantity"]): r["recorded"] for r in table.iter_rows(named=True)}
    assert at["gc-buggy-16cpu", "threads, node 1"] == 4
    assert at["gc-sgclit-16cpu", "threads, node 1"] == pytest.approx(2, abs=0.01)
    assert at["ms-buggy-16cpu", "threads, start node"] == 16


def test_a_kernel_that_is_not_modelled_is_recorded_but_not_replayed(monkeypatch):
    monkeypatch.setattr(generations, "REPLAYED", generations.REPLAYED - {(7, 2, 13)})
    recording = Recording.read(MODERN / "gc-7.2-64cpu")
    assert recording.quantities()["threads, node 1"].value == pytest.approx(8, abs=0.1)
    with pytest.raises(UsageError, match="which the replay does not model"):
        recording.replayed(1)


def _placed(recording, seed, until_ns):
    """CPUs of the new tasks of a recording, and of a replay's, in order."""
    recorded = recording.trace.only("wakeup_new").select("cpu").collect()["cpu"].to_list()
    r = replay(recording.workload(seed), recording.machine, recording.kernel, seed, until_ns)
    names = pl.col("comm").cast(pl.String).str.contains("^(R-|lu|cc1|make)")
    new = r.trace.only("wakeup_new").filter(names).select("cpu").collect()["cpu"].to_list()
    return recorded, new


def test_a_guest_with_the_wakeup_patch_forks_to_the_cpus_that_were_idle_for_longest():
    recording = Recording.read(RECORDINGS / "lu60R4-alllit-64cpu")
    recorded, new = _placed(recording, 3, 600_000_000)
    assert new[:44] == recorded[:44]  # the four hogs and 40 threads
    # the last thread finds no idle CPU: the creator sits on the last one
    assert new[63] == recorded[63] == 27
    recorded, new = _placed(Recording.read(RECORDINGS / "gi-all-64cpu"), 1, 400_000_000)
    assert new[:18] == recorded[:18]


def test_whether_all_fixes_leave_a_cpu_idle_for_ever_depends_on_the_start():
    own = Recording.read(RECORDINGS / "lu60R4-alllit-64cpu")
    all_fixes = Recording(own.folder, own.meta | {"variant": "all"})
    # with the hogs on node 6 the free CPU moves there, where every level asks a group without the two that share a CPU
    stuck, healed = (all_fixes.replayed(seed).quantities for seed in (5, 3))
    # a real kernel took 15.2 ms, and one CPU was idle for 4 s
    assert stuck["s_per_iter"].value == pytest.approx(0.0152, rel=0.1)
    assert stuck["busy CPUs"].value == pytest.approx(63, abs=0.05)
    assert healed["s_per_iter"].value == pytest.approx(0.001, rel=0.05)


def test_cpus_wasted_are_idle_cpus_for_each_of_which_a_thread_waits():
    """Three CPUs: two threads too many on CPU 0 from 100 on, CPU 1 idle until 300, CPU 2 until 600."""
    changes = [(100, 0, 3), (300, 1, 1), (600, 2, 1), (700, 0, 2)]
    ts, cpu, nr = (np.array(c) for c in zip(*changes, strict=True))
    assert cpus_wasted(ts, cpu, nr, 3, 0, 1000) == pytest.approx((200 * 2 + 300 * 1) / 1000)
    assert cpus_wasted(ts, cpu, nr, 3, 200, 400) == pytest.approx((100 * 2 + 100) / 200)


def test_a_recording_and_its_replay_waste_cpus():
    recording = Recording.read(RECORDINGS / "ms-buggy-16cpu")
    recorded = recording.quantities()["CPUs wasted"].value
    # the recording has 13.999, and the replay is compared with it
    assert recorded == pytest.approx(14, abs=0.05)
    assert recording.replayed(1).quantities["CPUs wasted"].value == pytest.approx(recorded, 0.01)


@pytest.mark.parametrize("name", ["gi-buggy-64cpu", "db16-buggy-16cpu", "lu10ms-sgclit-64cpu"])
def test_the_wasted_cpus_are_those_that_the_recorders_own_check_counted(name):
    recording = Recording.read(RECORDINGS / name)
    counted = recording.meta["sanity"]["mean_wasted_cpus"]  # printed with two decimals
    assert recording.quantities()["CPUs wasted"].value == pytest.approx(counted, abs=0.01)
