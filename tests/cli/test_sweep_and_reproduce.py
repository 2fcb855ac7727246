"""The verbs sweep and reproduce: refusals in a sentence, and one small sweep to the end."""

from __future__ import annotations

import json
import subprocess
import sys

import polars as pl
import pytest


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
        (("sweep", "recorded-lu", "-o", "t.parquet", "--set", "n"), "expected NAME=VALUE"),
        (("sweep", "recorded-lu", "-o", "t.parquet", "--set", "seed=1"), "--set 'seed=1'"),
        (("sweep", "recorded-lu", "-o", "t.parquet", "--seeds", "x-y"), "--seeds"),
        (
            ("sweep", "recorded-lu", "-o", "t.parquet", "--scheduler", "nowhere"),
            "no Dask scheduler",
        ),
    ],
)
def test_bad_use__is_a_sentence_and_exit_code_2(args, says, tmp_path):
    done = wastedcores(*args, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*.parquet"))


@pytest.mark.parametrize("verb", ["sweep", "reproduce"])
def test_help__ends_with_examples(verb, tmp_path):
    text = wastedcores(verb, "--help", cwd=tmp_path).stdout
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
    # seen before anything runs
    assert not (tmp_path / "u.parquet").exists()
