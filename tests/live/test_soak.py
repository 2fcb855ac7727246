"""A soak of a minute on this machine finds what it provokes, and leaves its results whenever it is ended."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
from soak.__main__ import Plan, soak
from soak.summary import SCHEMA
from soak.systemd import absent
from support import ROOT
from support.waiting import wait_for

#: it needs a machine on which nothing else runs
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _systemd(root):
    if why := absent():
        pytest.skip(why)


def test_a_minute_of_soak_has_no_false_alarm_and_misses_nothing(bpf, balancing, tmp_path):
    plan = Plan(idle_s=10, load_s=12, violations=2, kill_s=25, turn_s=30)
    found = soak(tmp_path, plan, (39971, 39972), print)
    told = found["summary"]["watchers"]
    assert found["complete"]
    assert found["schema"] == SCHEMA
    assert {w["false"] for w in told.values()} == {0}
    assert {w["missed"] for w in told.values()} == {0}
    assert told["killed"]["kills"]
    assert len(found["watchers"]["killed"]["spans"]) > 1
    assert {w["cost"]["memory_mb"].keys() >= {"collector", "server"} for w in told.values()} == {
        True
    }
    assert found["summary"]["scrapes"]["all"]["number"] > 30
    assert json.loads((tmp_path / "soak.json").read_text())["provocations"] == found["provocations"]
    if not any(p["established"] for p in found["provocations"]):
        pytest.skip("other work of this machine left no CPU idle")
    assert told["service"]["true"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_ended_soak_leaves_its_results(bpf, balancing, tmp_path, number):
    argv = [sys.executable, str(ROOT / "tools/soak"), "-o", str(tmp_path / "soak")]
    told = tmp_path / "told"
    with told.open("w") as out:
        run = subprocess.Popen(
            [*argv, "--ports", "39971", "39972"], stdout=out, stderr=subprocess.DEVNULL
        )
    wait_for((tmp_path / "soak/soak.json").exists, 120)
    run.send_signal(number)
    run.wait(timeout=120)
    found = json.loads((tmp_path / "soak/soak.json").read_text())
    assert not found["complete"]
    assert found["watchers"]["service"]["spans"]
    if number != signal.SIGKILL:
        assert run.returncode in (0, 3)
        assert "(not complete)" in told.read_text()
    started = f"{tmp_path}|--backend tracefs|1 / 30"
    left = ("pgrep", "-f", "--", started)
    wait_for(lambda: subprocess.run(left, check=False, capture_output=True).returncode, 30)
