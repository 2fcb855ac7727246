"""The flight recorder's rings, without a kernel."""

from __future__ import annotations

import importlib
import struct
import sys

import pytest
from support import ROOT

S = 10**9


@pytest.fixture
def recorder(monkeypatch):
    """A recorder of one CPU whose clock the test moves; nothing is loaded."""
    monkeypatch.syspath_prepend(str(ROOT / "collectors"))
    module = importlib.import_module("_recorder")
    r = module.Recorder.__new__(module.Recorder)
    r.cpus, r.records, r.irq_records, r.rounds, r.t0 = 1, 16, 16, 0, 0
    r.cpu_state = bytearray(128)
    r.rings = {irq: memoryview(bytearray(16 * module.RECORD)) for irq in (False, True)}
    r.now, r.links = 0, [1]
    monkeypatch.setattr(module.time, "monotonic_ns", lambda: r.now)
    r.record(True)
    yield r
    own = str(ROOT / "collectors")
    for name in [
        n for n, m in sys.modules.items() if str(getattr(m, "__file__", "")).startswith(own)
    ]:
        del sys.modules[name]


def happen(r, *seconds):
    """Write a record at each of these times."""
    for at in seconds:
        (head,) = struct.unpack_from("<Q", r.cpu_state, 0)
        struct.pack_into("<Q", r.rings[False], head % r.records * 16, at * S)
        struct.pack_into("<Q", r.cpu_state, 0, head + 1)


def dumped(r, seconds, takes_s=0):
    """Return from when a dump is complete, and the times of its records, in seconds; writing takes so long."""
    times = []

    def write(buffers):
        _, *records = map(bytes, buffers)
        times.extend(
            struct.unpack_from("<Q", b"".join(records), at)[0] / S
            for at in range(0, sum(map(len, records)), 16)
        )
        r.now += takes_s * S

    return r.dump(write, seconds) / S, times


def test_a_recording_does_not_reach_back_over_the_pause_of_the_one_before(recorder):
    happen(recorder, 1, 2, 5)
    recorder.now = 6 * S
    assert dumped(recorder, 20, takes_s=3) == (0, [1, 2, 5])
    happen(recorder, 10, 11)  # what happened from 6 s to 9 s is nowhere
    recorder.now = 12 * S
    assert dumped(recorder, 20) == (9, [10, 11])
    happen(recorder, 13)
    recorder.now = 20 * S
    assert dumped(recorder, 5) == (15, [])
