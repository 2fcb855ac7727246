"""A short soak on this machine finds what it provokes, and ends with a summary whenever it is asked to."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest
from support.schemas import fits

from wastedcores.capture.soak import SOAK_SCHEMA, SoakOptions, soak

#: it needs a machine on which nothing else runs
pytestmark = pytest.mark.slow

ARGV = [sys.executable, "-c", "from wastedcores.cli import main; main()", "soak"]


def test_a_minute_of_soak_has_no_false_alarm_and_misses_nothing(bpf, balancing, tmp_path):
    found = soak(tmp_path, SoakOptions(seconds=60, provoke_every_s=18))
    assert found["complete"]
    assert found["schema"] == SOAK_SCHEMA
    assert found["alarms"]["false"] == 0
    assert found["provocations"]["missed"] == 0
    if not found["provocations"]["established"] and not found["provocations"]["found"]:
        pytest.skip("other work of this machine left no CPU idle")
    assert found["alarms"]["true"]
    assert found["cost"]
    assert max(c["collector_cpu"] for c in found["cost"]) < 0.1
    assert json.loads((tmp_path / "soak.json").read_text())["each_alarm"] == found["each_alarm"]
    fits("soak", found)
    for alarm in found["each_alarm"]:
        if alarm["evidence"] is not None:
            assert (tmp_path / alarm["evidence"].rpartition("/")[2]).exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_ended_soak_leaves_its_results(bpf, balancing, tmp_path, number):
    run = subprocess.Popen(
        [*ARGV, "--hours", "1", "-o", str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    end = time.monotonic() + 120
    while not (tmp_path / "soak.json").exists():
        assert time.monotonic() < end
        time.sleep(0.1)
    run.send_signal(number)
    out, _ = run.communicate(timeout=120)
    found = json.loads((tmp_path / "soak.json").read_text())
    assert not found["complete"]
    assert found["load_seconds"] or number == signal.SIGKILL
    if number != signal.SIGKILL:
        assert run.returncode in (0, 3)
        assert "(not complete)" in out
