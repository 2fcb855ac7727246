"""Losses that perf.data states in PERF_RECORD_LOST and, since perf 6.1, in PERF_RECORD_LOST_SAMPLES at its end."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.perf_file import build, lost_samples

from wastedcores.errors import TraceContentError
from wastedcores.invariant import check
from wastedcores.trace import Trace
from wastedcores.trace.io import open_trace


@pytest.fixture
def opened(tmp_path: Path):
    def made(at_the_end: bytes = b"", lost: int = 5) -> Trace:
        path = tmp_path / "perf.data"
        path.write_bytes(build(lost=lost, at_the_end=at_the_end))
        return open_trace(path)

    return made


def test_a_trace_whose_losses_only_the_last_records_state_is_not_called_clean(opened):
    assert opened(lost=0).header.lost_total == 0
    trace = opened(lost_samples(7) + lost_samples(3), lost=0)
    assert trace.header.lost == {-1: 10}
    event = trace.only("lost").collect().row(0, named=True)
    assert (event["cpu"], event["value"]) == (None, 10)
    assert event["ts_ns"] == trace.header.end_ns
    assert check(trace).verdict == "unknown"


def test_losses_that_were_stated_before_are_not_counted_twice(opened):
    before = opened().header
    assert before.lost_total == 30
    assert opened(lost_samples(20) + lost_samples(10)).header.lost == before.lost
    more = opened(lost_samples(20) + lost_samples(25)).header
    assert more.lost == before.lost | {-1: 15}


def test_samples_that_a_filter_dropped_are_not_lost(opened):
    assert opened(lost_samples(7, misc=1 << 15), lost=0).header.lost_total == 0


def test_an_impossible_loss_is_refused(opened):
    with pytest.raises(TraceContentError, match="events were lost"):
        opened(lost_samples(1 << 50))
