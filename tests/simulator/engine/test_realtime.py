"""Scheduling policies: the compiled engine and the plain-Python reference agree event for event."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import HealthCheck

import wastedcores as wc
from wastedcores.errors import WorkloadError
from wastedcores.workload import Script, Workload

CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def _stays_ms(policies: list[tuple[str, int]], kernel: str = "v4.1") -> dict[str, list[float]]:
    """The stays of threads that compute for 3 s on one CPU, each under one policy."""
    w = Workload("one CPU", random_phase=False)
    for i, (policy, priority) in enumerate(policies):
        name = f"{policy}{priority}-{i}"
        w.task(name, Script().policy(policy, priority).compute(3_000_000_000), allowed=[0])
    trace = wc.replay(w, "uma8", kernel).trace
    rows = trace.only("switch").filter(pl.col("cpu") == 0).collect().sort("ts_ns")
    out: dict[str, list[float]] = {}
    for a, b in zip(rows.iter_rows(named=True), rows[1:].iter_rows(named=True), strict=False):
        out.setdefault(str(a["comm"]), []).append((b["ts_ns"] - a["ts_ns"]) / 1e6)
    return out


def test_a_fifo_thread_leaves_50_ms_of_each_second_to_cfs():
    """The throttle takes effect at a tick, so the first stay is 950 ms and up to one tick."""
    stays = _stays_ms([("fifo", 50), ("other", 0)])
    first = [ms for ms in stays["fifo50-0"] if ms > 1][:3]
    assert first == pytest.approx([952, 948, 948], abs=6)
    cfs = [ms for ms in stays["other0-1"] if ms > 1][:2]
    assert cfs == pytest.approx([50, 50], abs=6)


def test_round_robin_takes_turns_of_100_ms():
    """The second thread sets its policy when the first one is throttled; then they take turns until the next throttling."""
    stays = _stays_ms([("rr", 10), ("rr", 10)])
    assert [ms for ms in stays["rr10-0"] if ms > 1][2:5] == pytest.approx([100] * 3, abs=0.01)


def test_a_greater_priority_runs_first():
    stays = _stays_ms([("rr", 10), ("fifo", 11)])
    assert max(stays["fifo11-1"]) == pytest.approx(950, abs=6)


def test_idle_gets_three_of_1027_parts():
    stays = _stays_ms([("idle", 0), ("other", 0)])
    whole = sum(stays["other0-1"])
    idle = sum(stays["idle0-0"])
    assert idle == pytest.approx(3000, abs=20)
    assert whole == pytest.approx(3000, abs=20)
    # until the other thread ends, the idle one has run for 3/1024 of its time
    assert sum(stays["idle0-0"][:-1]) < 40


def test_a_wrong_policy_is_refused():
    for name, priority in (("fifo", 0), ("rr", 100), ("other", 5), ("deadline", 1), ("fifo", True)):
        with pytest.raises(WorkloadError, match="policy"):
            Script().policy(name, priority)
    with pytest.raises(WorkloadError, match="only with the scheduler of"):
        _stays_ms([("fifo", 1)], "core+load_balance")
