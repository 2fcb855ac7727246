"""The work of the bundled live recordings can be replayed under any kernel."""

from __future__ import annotations

import pytest

from wastedcores.kernels import KernelModel
from wastedcores.prediction.machines_and_kernels import place_of, task_of
from wastedcores.prediction.one_replay import run, window_of
from wastedcores.recovery import recover
from wastedcores.trace.io import open_trace
from wastedcores.trace.named import fetch

KERNELS = ("v4.1", "v4.1+all_fixes:patch", "core")


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ["live-balancing-off", "live-balancing-on"])
def test_the_work_of_a_live_recording_never_waits_for_ever(name, kernel):
    trace = open_trace(fetch(name))
    found = recover(trace)
    task = task_of(found, place_of(trace, None, "v4.1")[0], None)
    start, end = window_of(task, run(task, KernelModel.named(kernel), 1))
    assert 0 < end - start <= found.window_ns[1]


def test_the_window_ends_with_the_work_and_not_with_the_tool_that_recorded_it():
    """Four tasks of 300 ms shared one of two CPUs, so with balancing they need half of the time."""
    trace = open_trace(fetch("live-balancing-off"))
    found = recover(trace)
    task = task_of(found, place_of(trace, None, "v4.1")[0], None)
    start, end = window_of(task, run(task, KernelModel.named("core"), 1))
    recorded = found.window_ns[1] - found.window_ns[0]
    assert end - start == pytest.approx(recorded / 2, rel=0.05)
