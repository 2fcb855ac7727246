"""The recorded build of kernel/sched: what is recovered from it, and how the strategies place it on the paper's machine."""

from __future__ import annotations

import pytest

from wastedcores.recovery import recover
from wastedcores.recovery.facts import family_of
from wastedcores.trace.named import open as opened
from wastedcores_studies.fork_wait_replays import ROOT, TRACE, recorded


@pytest.fixture(scope="module")
def builds():
    return {k: recorded(f"v4.19{k}", 1) for k in ("", "+fork_wait:1", "+fork_wait:2")}


def test_the_recording_has_the_processes_of_a_build():
    recovered = recover(family_of(opened(TRACE), ROOT))
    assert recovered.tasks > 1000
    assert recovered.ends
    assert recovered.classes["exit of a child"] > 800
    assert recovered.unknown == 0


def test_the_strategies_use_fewer_cpus_and_fewer_slow_ones(builds):
    cfs, first, second = builds.values()
    assert cfs["cpus"] > first["cpus"] > second["cpus"]
    assert cfs["slow"] > first["slow"] > second["slow"]
    assert cfs["khz"] < min(first["khz"], second["khz"])


def test_the_work_is_the_same_under_all_strategies(builds):
    """The longest compiler takes most of the time, so no strategy changes it much."""
    times = [b["build_s"] for b in builds.values()]
    assert max(times) < 1.1 * min(times)
    assert all(b["most"] > 8 for b in builds.values())
