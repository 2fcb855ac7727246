"""Every run is executed once, whichever process dies, in pools of processes and on a real Dask cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import polars as pl
import pytest
from support.waiting import wait_for

from wastedcores.errors import UsageError
from wastedcores.sweep import Run, grid, run, sweep
from wastedcores.topology.machine import Machine


def quiet(runs, out, **options):
    notes = []
    table = sweep(runs, out, progress=False, note=notes.append, **options)
    return table, notes


def test_grid__is_the_product_in_order():
    runs = grid("m:f", {"a": [1, 2], "b": ["x", "y"]}, fixed={"c": 0})
    assert [dict(r.arguments) for r in runs] == [
        {"a": a, "b": b, "c": 0} for a in (1, 2) for b in "xy"
    ]
    assert len({r.key for r in runs}) == 4
    assert Run.of("m:f", a=1, b=2).key == Run.of("m:f", b=2, a=1).key
    with pytest.raises(UsageError, match="b has no value"):
        grid("m:f", {"a": [1], "b": []})


@pytest.mark.slow
def test_sweep__each_run_once_in_order_and_not_again(tmp_path):
    log, out = tmp_path / "log", tmp_path / "t.parquet"
    runs = grid(
        "support.sweep_tasks:double", {"x": range(5), "seed": [1, 2]}, fixed={"log": str(log)}
    )
    table, notes = quiet(runs, out, workers=2)
    assert notes == []
    assert table["twice"].to_list() == [2 * x + s for x in range(5) for s in (1, 2)]
    assert table["run"].to_list() == [r.key for r in runs]
    assert len(log.read_text().splitlines()) == 10
    assert pl.read_parquet(out).equals(table)
    assert not out.with_name("t.parquet.runs").exists()
    more = grid(
        "support.sweep_tasks:double", {"x": range(6), "seed": [1, 2]}, fixed={"log": str(log)}
    )
    again, notes = quiet(more, out, workers=2)
    assert notes == ["10 of 12 runs were done earlier"]
    assert again["twice"].to_list()[:10] == table["twice"].to_list()
    assert len(log.read_text().splitlines()) == 12


def test_sweep__results_of_other_code_are_not_reused(tmp_path, monkeypatch):
    """Runs of an engine that has changed since are neither counted as done nor kept in the table."""
    log, out = tmp_path / "log", tmp_path / "t.parquet"
    runs = grid("support.sweep_tasks:double", {"x": range(3)}, fixed={"log": str(log)})
    old, _ = quiet(runs, out, workers=1)
    keys = [r.key for r in runs]
    with monkeypatch.context() as patch:
        patch.setattr("wastedcores.sweep.run.digest", lambda module: "other")
        assert not {r.key for r in runs} & set(keys)
        store = out.with_name("t.parquet.runs")
        store.mkdir()
        # a run that the old code had finished when it was interrupted
        (store / f"{keys[0]}.json").write_text('{"twice": -1, "error": null}')
        new, notes = quiet(runs, out, workers=1, keep=True)
    assert notes == []
    assert len(log.read_text().splitlines()) == 6
    assert new["twice"].to_list() == old["twice"].to_list() == [0, 2, 4]
    assert set(new["code"]) == {"other"}
    assert pl.read_parquet(out).height == 3
    assert not store.exists()


def test_run__a_file_counts_by_its_content(tmp_path):
    workload = tmp_path / "w.json"
    run = Run.of("m:f", scenario=str(workload), seed=1)
    absent = run.key
    workload.write_text("{}")
    before = run.key
    assert before != absent
    assert run.key == before
    workload.write_text("{ }")
    assert run.key != before
    # a file that a task writes is no input
    other = Run.of("m:f", log=str(workload))
    key = other.key
    workload.write_text("{  }")
    assert other.key == key


def test_run__a_machine_counts_by_what_it_is(tmp_path, monkeypatch):
    live = Run.of("m:f", machine="live")
    keys = []
    for name in ("uma8", "ring4"):
        monkeypatch.setattr(Machine, "live", lambda name=name: Machine.preset(name))
        run.live_machine.cache_clear()
        keys += [live.key, Run.of("m:f", scenario="live").key]
    run.live_machine.cache_clear()
    assert keys[0] != keys[2]
    assert keys[1] == keys[3]
    folder = Run.of("m:f", machine=str(tmp_path))
    absent = folder.key
    (tmp_path / "meta.json").write_text('{"cpus": 2}')
    before = folder.key
    (tmp_path / "meta.json").write_text('{"cpus": 4}')
    assert len({absent, before, folder.key}) == 3


def test_sweep__each_worker_of_a_cluster_would_take_another_machine_for_live(tmp_path):
    pytest.importorskip("distributed", reason="wastedcores[dask] is not installed")
    with pytest.raises(UsageError, match="live would be another machine on each worker"):
        quiet([Run.of("m:f", machine="live")], tmp_path / "t", scheduler="tcp://127.0.0.1:1")


def test_sweep__keeps_other_runs_of_the_same_code_if_asked(tmp_path):
    log, out = tmp_path / "log", tmp_path / "t.parquet"
    first = grid("support.sweep_tasks:double", {"x": range(3)}, fixed={"log": str(log)})
    second = grid("support.sweep_tasks:double", {"x": range(2, 6)}, fixed={"log": str(log)})
    quiet(first, out, workers=1)
    table, notes = quiet(second, out, workers=1, keep=True)
    assert notes == ["1 of 4 runs were done earlier"]
    assert table["x"].to_list() == [2, 3, 4, 5]
    assert sorted(pl.read_parquet(out)["x"].to_list()) == [0, 1, 2, 3, 4, 5]
    quiet(first, out, workers=1, keep=True)
    assert len(log.read_text().splitlines()) == 6
    quiet(first, out, workers=1)
    assert pl.read_parquet(out).height == 3


def test_sweep__needs_no_cluster_when_everything_is_done(tmp_path):
    runs = [Run.of("support.sweep_tasks:picky", x=2)]
    quiet(runs, tmp_path / "t.parquet", workers=1)
    table, notes = quiet(runs, tmp_path / "t.parquet", scheduler="tcp://127.0.0.1:9")
    assert notes == ["1 of 1 runs were done earlier"]
    assert table["half"].to_list() == [1]


def test_sweep__lists_are_arguments_too(tmp_path):
    runs = [Run.of("support.sweep_tasks:total", numbers=[1, 2, n]) for n in (3, 4)]
    table, _ = quiet(runs, tmp_path / "t.parquet", workers=1)
    assert table["total"].to_list() == [6, 7]


def test_sweep__an_error_is_a_row_and_is_tried_again(tmp_path):
    out = tmp_path / "t.parquet"
    table, _ = quiet(grid("support.sweep_tasks:picky", {"x": [1, 2]}), out, workers=1)
    assert table["error"].to_list() == ["task 'a' at 0.5 s: 1 is odd", None]
    assert table["half"].to_list() == [None, 1]
    _, notes = quiet(grid("support.sweep_tasks:picky", {"x": [1, 2]}), out, workers=1)
    assert notes == ["1 of 2 runs were done earlier"]


def test_sweep__unknown_task_says_so(tmp_path):
    table, _ = quiet(
        [Run.of("support.sweep_tasks:nothing", x=1)], tmp_path / "t.parquet", workers=1
    )
    assert "has no attribute 'nothing'" in table["error"][0]


@pytest.mark.slow
def test_sweep__a_dead_process_costs_nothing_but_time(tmp_path):
    runs = grid(
        "support.sweep_tasks:crash_once", {"x": range(6)}, fixed={"flag": str(tmp_path / "flag")}
    )
    table, _ = quiet(runs, tmp_path / "t.parquet", workers=2)
    assert table["twice"].to_list() == [0, 2, 4, 6, 8, 10]
    assert (tmp_path / "flag").exists()


@pytest.mark.slow
def test_sweep__a_run_that_always_kills_its_process_is_an_error_row(tmp_path):
    runs = [
        Run.of("support.sweep_tasks:always_crash", x=1),
        Run.of("support.sweep_tasks:picky", x=2),
    ]
    table, _ = quiet(runs, tmp_path / "t.parquet", workers=1)
    assert "died 3 times" in table["error"][0]
    assert table["half"].to_list() == [None, 1]


@pytest.mark.slow
def test_sweep__a_run_beside_one_that_kills_its_process_is_no_error(tmp_path):
    runs = [
        Run.of("support.sweep_tasks:picky", x=2),  # executed alone
        Run.of("support.sweep_tasks:always_crash", x=1),
        Run.of("support.sweep_tasks:double", x=3, sleep_s=1.0),
    ]
    table, _ = quiet(runs, tmp_path / "t.parquet", workers=2)
    assert table["error"].is_null().to_list() == [True, False, True]
    assert table["twice"].to_list() == [None, None, 6]


def test_sweep__refuses_bad_use(tmp_path, monkeypatch):
    monkeypatch.setattr("wastedcores.sweep.driver.CONNECT_S", 1)
    run = Run.of("support.sweep_tasks:picky", x=2)
    with pytest.raises(UsageError, match="two runs are equal"):
        quiet([run, run], tmp_path / "t.parquet")
    with pytest.raises(UsageError, match="no run"):
        quiet([], tmp_path / "t.parquet")
    (tmp_path / "t.parquet").write_text("not a table")
    with pytest.raises(UsageError, match="does not read as Parquet"):
        quiet([run], tmp_path / "t.parquet")
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "other.parquet")
    with pytest.raises(UsageError, match="columns run, error"):
        quiet([run], tmp_path / "other.parquet")
    with pytest.raises(UsageError, match="No Dask scheduler"):
        quiet([run], tmp_path / "u.parquet", scheduler="tcp://127.0.0.1:9")
    assert not (tmp_path / "u.parquet").exists()


@pytest.mark.slow
def test_sweep__ctrl_c_keeps_what_is_done(tmp_path):
    log, out = tmp_path / "log", tmp_path / "t.parquet"
    script = tmp_path / "go.py"
    script.write_text(
        "from wastedcores.sweep import grid, sweep\n"
        "if __name__ == '__main__':\n"
        f"    runs = grid('support.sweep_tasks:double', {{'x': range(40)}}, fixed={{'log': {str(log)!r}, 'sleep_s': 0.1}})\n"
        f"    print(len(sweep(runs, {str(out)!r}, workers=2, progress=False)))\n"
    )
    first = subprocess.Popen(
        [sys.executable, script], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    runs = out.with_name("t.parquet.runs")
    wait_for(lambda: runs.is_dir() and len(list(runs.glob("*.json"))) >= 6)
    os.killpg(first.pid, signal.SIGINT)  # as a terminal does: to everybody
    _, said = first.communicate(timeout=60)
    kept = len(list(runs.glob("*.json")))
    assert not out.exists()
    assert 6 <= kept < 40
    assert f"{kept} of 40 runs are kept" in said
    assert said.count("Traceback") == 1  # the script's own KeyboardInterrupt
    second = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=120, check=True
    )
    assert second.stdout == "40\n"
    assert f"{kept} of 40 runs were done earlier" in second.stderr
    assert pl.read_parquet(out)["twice"].to_list() == [2 * x for x in range(40)]
    # only the two runs that were under way were executed twice
    assert len(log.read_text().splitlines()) <= 42


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_sweep__on_a_cluster_that_loses_a_worker(tmp_path, cluster):
    address, (_, doomed, _) = cluster
    log, out = tmp_path / "log", tmp_path / "t.parquet"
    runs = grid(
        "support.sweep_tasks:double", {"x": range(40)}, fixed={"log": str(log), "sleep_s": 0.15}
    )

    def kill_in_the_middle():
        wait_for(lambda: log.exists() and f",{doomed.pid}\n" in log.read_text())
        time.sleep(0.5)
        doomed.kill()

    from threading import Thread

    killer = Thread(target=kill_in_the_middle)
    killer.start()
    table, _ = quiet(runs, out, scheduler=address)
    killer.join()
    assert doomed.wait(timeout=5) == -signal.SIGKILL
    assert table["twice"].to_list() == [2 * x for x in range(40)]
    assert table["error"].null_count() == 40
    assert table["run"].n_unique() == 40
    pids = {line.split(",")[2] for line in log.read_text().splitlines()}
    assert len(pids) == 2
    # the run that was under way when its worker died was executed again; so may be runs whose result was still with
    # the dead worker, but no others
    assert 40 <= len(log.read_text().splitlines()) <= 44
