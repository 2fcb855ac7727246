"""Wakeups on this machine: what can be said on every Linux, and descriptions of idle states."""

from __future__ import annotations

import os

import pytest

from wastedcores.errors import UsageError
from wastedcores_studies.probes import wakeups
from wastedcores_studies.probes.wakeups import idle_states, wake_latencies


def test_idle_states_are_read_and_a_guest_may_have_none(tmp_path):
    state = tmp_path / "cpu0" / "cpuidle" / "state0"
    state.mkdir(parents=True)
    for name, text in {"name": "C6", "latency": "30", "residency": "100", "usage": "7"}.items():
        (state / name).write_text(f"{text}\n")
    assert idle_states(0, tmp_path).rows() == [("C6", 30, 100, 7)]
    assert idle_states(1, tmp_path).is_empty()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_a_woken_thread_runs_later_and_this_process_keeps_its_cpus():
    before = os.sched_getaffinity(0)
    table = wake_latencies((100_000,), runs=3)
    assert table["gap_us"].to_list() == [100]
    assert 0 < table["low_us"][0] <= table["median_us"][0] <= table["high_us"][0]
    assert os.sched_getaffinity(0) == before


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_a_woken_process_that_ends_is_said_to_have_ended(monkeypatch):
    monkeypatch.setattr(wakeups, "_CHILD", wakeups._CHILD.partition("while True")[0])
    with pytest.raises(UsageError, match="The woken process has ended"):
        wake_latencies((100_000,), runs=1)


def test_impossible_measurements_are_refused():
    with pytest.raises(UsageError, match="two CPUs"):
        wake_latencies(cpus=(0, 0))
    with pytest.raises(UsageError, match="at least 1 run"):
        wake_latencies(runs=0)
