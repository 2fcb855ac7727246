"""``wastedcores measure``: settings take turns, medians have intervals, and the machine is described."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
import textwrap

import numpy as np
import pytest
from support import ROOT
from typer.testing import CliRunner

from wastedcores.capture.measure import measure, median, read_settings
from wastedcores.cli import app, register_verbs
from wastedcores.errors import UsageError, WastedCoresError

LOOP = "import os, time; time.sleep(float(os.environ.get('PAUSE', '0')))"


def test_settings_take_turns_and_the_slower_one_is_found_slower(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text('[plain]\n[slow]\nprefix = ["env", "OTHER=1"]\nenv = {PAUSE = "0.4"}\n')
    found = measure([sys.executable, "-I", "-S", "-c", LOOP], runs=4, settings=read_settings(file))
    assert [r["turn"] for r in found["runs"]] == [0, 0, 1, 1, 2, 2, 3, 3]
    orders = [tuple(r["setting"] for r in found["runs"][i : i + 2]) for i in range(0, 8, 2)]
    assert set(orders) == {("plain", "slow"), ("slow", "plain")}
    slow = found["settings"]["slow"]
    assert slow["wall_s"]["low"] >= 0.4
    assert slow["wall_s"]["low"] <= slow["wall_s"]["median"] <= slow["wall_s"]["high"]
    assert slow["ratio"]["low"] > 1
    assert found["settings"]["plain"]["ratio"] == {
        "median": 1.0,
        "low": 1.0,
        "high": 1.0,
        "level": 0.875,
    }
    about = found["environment"]
    assert about["kernel"] == platform.release()
    assert about["parameters"] == ["-I", "-S", "-c", LOOP]
    assert {
        "disk",
        "distribution",
        "mitigations",
        "compiler",
        "program_sha256",
        "not_known",
    } <= about.keys()


def test_a_program_that_cannot_be_read_is_measured(tmp_path, monkeypatch):
    program = shutil.copy(shutil.which("true"), tmp_path / "mine")

    def refused(path):
        raise WastedCoresError(f"{path}: cannot be read (Permission denied).")

    # root may read everything
    monkeypatch.setattr("wastedcores.capture.measure.file_digest", refused)
    assert measure([str(program)], runs=2)["environment"]["program_sha256"] is None


@pytest.mark.parametrize("runs", [2, 3, 5, 6, 10, 25])
def test_an_interval_contains_the_true_median_as_often_as_it_says(runs):
    """Draws of a lopsided distribution whose median is 1."""
    drawn = np.random.default_rng(runs).lognormal(size=(4000, runs))
    found = [median(row) for row in drawn]
    inside = np.mean([f["low"] <= 1 <= f["high"] for f in found])
    level = found[0]["level"]
    assert inside == pytest.approx(level, abs=0.025)  # three standard deviations of 4,000 draws
    assert (level >= 0.95) == (runs >= 6)


@pytest.mark.parametrize("runs", [6, 62, 63, 64, 65, 66, 67, 68, 200])
def test_an_interval_of_any_number_of_runs_has_its_median_inside(runs):
    found = median(np.arange(runs))
    assert found["low"] <= found["median"] <= found["high"]
    assert 0.95 <= found["level"] < 1


def test_the_command_says_what_failed_and_keeps_the_runs(tmp_path):
    out = tmp_path / "runs.json"
    register_verbs(["measure"])
    done = CliRunner().invoke(app, ["measure", "-n", "2", "-o", str(out), "--", "false"])
    assert done.exit_code == 3
    assert "2 runs FAILED" in done.output
    assert len(json.loads(out.read_text())["runs"]) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[a]\nprefx = []\n", "prefx"),
        ("[a]\nprefix = [1]\n", "not text"),
        ("", "no settings"),
        ("a = 1\n", "no table"),
        ("[", "cannot be read"),
    ],
)
def test_bad_settings_get_one_sentence(tmp_path, text, says):
    file = tmp_path / "s.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=says):
        read_settings(file)


def test_one_run_and_an_absent_command_are_refused():
    with pytest.raises(UsageError, match="2 or more"):
        measure(["true"], runs=1)
    with pytest.raises(UsageError, match="cannot run"):
        measure([f"/nowhere/{os.getpid()}"], runs=2)


def test_the_file_of_settings_in_the_guide_can_be_read_and_used(tmp_path):
    page = (ROOT / "docs/how-to/measure.md").read_text()
    block = re.search(r"Write the settings into a file\.(?s:.*?)\n\n((?:       .*\n|\n)+)", page)
    file = tmp_path / "settings.toml"
    file.write_text(textwrap.dedent(block[1]))
    settings = read_settings(file)
    assert list(settings) == ["as it is", "two CPUs"]
    assert settings["two CPUs"]["env"] == {"OMP_NUM_THREADS": "2"}
    found = measure([sys.executable, "-I", "-S", "-c", "0"], runs=2, settings=settings)
    assert list(found["settings"]) == ["as it is", "two CPUs"]
