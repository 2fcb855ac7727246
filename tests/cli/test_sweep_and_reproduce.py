"""The verbs ``sweep`` and ``reproduce``: bad use is refused with a sentence, and one small sweep runs to its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import polars as pl
import pytest
from support.typed import typed


def wastedcores(*args, cwd):
    return subprocess.run(
        [sys.executable, "-c", "from wastedcores.cli import main; main()", *args],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=280,
        check=False,
    )


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("reproduce", "table9"), "part 'table9'"),
        (("reproduce", "-o", "/dev/null/x"), "the folder cannot be made"),
        (("reproduce", "walcher", "--seeds", "0"), "greater than or equal to 1"),
        (("sweep", "recorded-lu", "-o", "t.parquet", "--set", "n"), "expected NAME=VALUE"),
        (("sweep", "recorded-lu", "-o", "t.parquet", "--set", "seed=1"), "--set 'seed=1'"),
        (("sweep", "recorded-lu", "-o", "t.parquet", "--seeds", "x-y"), "--seeds"),
        (
            ("sweep", "recorded-lu", "-o", "t.parquet", "--scheduler", "nowhere"),
            "No Dask scheduler",
        ),
    ],
)
def test_bad_use__is_a_sentence_and_exit_code_2(args, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = typed(*args)
    assert done.code == 2, done.err
    assert says in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "reports").exists()
    assert not list(tmp_path.glob("*.parquet"))


@pytest.mark.parametrize("verb", ["sweep", "reproduce"])
def test_help__ends_with_examples(verb):
    text = typed(verb, "--help").out
    assert f"wastedcores {verb}" in text.split("Examples:")[1]


@pytest.mark.slow
def test_sweep__of_a_scenario(tmp_path):
    args = ("sweep", "recorded-lu", "--machine", "bd-paper-16", "--kernel", "v4.1", "--kernel")
    args += ("v4.1+group_construction:patch", "--set", "limit_s=0.2", "--set", "work_us=500,1000")
    args += ("--seeds", "1-2", "-o", "t.parquet", "-q", "--workers", "1", "--json")
    done = wastedcores(*args, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runs"] == 8
    table = pl.read_parquet(tmp_path / "t.parquet")
    assert table["run"].n_unique() == 8
    assert table["error"].null_count() == 8
    assert set(table["result_name"]) == {"s_per_iter"}
    slow, fast = (
        table.filter(pl.col("kernel") == k)["result"].median()
        for k in ("v4.1", "v4.1+group_construction:patch")
    )
    assert slow > 5 * fast
    misspelt = wastedcores(
        "sweep", "recorded-lu", "--set", "wrok_us=1", "--seeds", "1", "-o", "u.parquet", "-q", cwd=tmp_path
    )  # fmt: skip
    assert misspelt.returncode == 2
    assert "did you mean work_us" in misspelt.stderr
    # it is refused before anything runs
    assert not (tmp_path / "u.parquet").exists()


@pytest.mark.slow
@pytest.mark.timeout(600)  # the first run compiles the engine
def test_reproduce__continues_after_an_interrupt_and_runs_each_replay_once(tmp_path):
    command = [sys.executable, "-m", "wastedcores", "reproduce", "walcher", "-o", "f", "--seeds"]
    first = subprocess.Popen(
        [*command, "12"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        start_new_session=True,
    )  # fmt: skip
    store = tmp_path / "f" / "runs.parquet.runs"
    finished = "[!.]*.json"  # a file that is being written begins with a dot
    while not store.is_dir() or len(list(store.glob(finished))) < 5:
        assert first.poll() is None, first.communicate()
        time.sleep(0.01)
    os.killpg(first.pid, signal.SIGINT)
    errors = first.communicate(timeout=60)[1]
    assert first.returncode == 130
    assert "Traceback" not in errors
    kept = {p.name: p.stat().st_mtime_ns for p in store.glob(finished)}
    assert 5 <= len(kept) < 96
    assert f"{len(kept)} of 96 runs are kept" in errors

    def again(option: str) -> subprocess.CompletedProcess[str]:
        argv = [*command, "12", option]
        return subprocess.run(
            argv, capture_output=True, text=True, cwd=tmp_path, timeout=280, check=True
        )

    second = again("--json")
    assert f"{len(kept)} of 96 runs were done earlier" in second.stderr
    assert "96/96" in second.stderr
    rows = json.loads(second.stdout)["rows"]
    assert [r["seeds"] for r in rows] == [12] * 12
    table = pl.read_parquet(tmp_path / "f" / "runs.parquet")
    assert table["run"].n_unique() == table.height == 96
    assert table["code"].n_unique() == 1
    assert {name.removesuffix(".json") for name in kept} <= set(table["run"])
    third = again("-q")
    assert third.stderr == "96 of 96 runs were done earlier\n"
    assert "p walcher.4.q18.change" in third.stdout
