"""A person at a terminal sees that a long trace is being read; nobody else does."""

from __future__ import annotations

import sys
from io import StringIO

import polars as pl
import pytest

from wastedcores.trace import io

FRAMES = [pl.DataFrame({"ts_ns": [1, 2]}), pl.DataFrame({"ts_ns": [3]})]


class Terminal(StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "silent_s", "expected"),
    [
        (Terminal, 0.0, ["reading t.txt: 2 events", "reading t.txt: 3 events"]),
        (Terminal, 60.0, []),
        (StringIO, 0.0, []),
    ],
)
def test_only_a_terminal_is_told_and_only_after_a_while(monkeypatch, stream, silent_s, expected):
    monkeypatch.setattr(sys, "stderr", stream())
    monkeypatch.setattr(io, "SILENT_S", silent_s)
    assert [f.height for f in io.told(iter(FRAMES), "t.txt")] == [2, 1]
    said = sys.stderr.getvalue()
    assert [line for line in said.split("\r") if line.strip()] == expected
    if expected:
        assert said.endswith(" \r")


def test_readers_tell(monkeypatch, tmp_path):
    from wastedcores.trace.io import open_trace

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(io, "SILENT_S", 0.0)
    path = tmp_path / "t.txt"
    path.write_text(
        "# tracer: nop\n a-7 [000] d... 1.000001: sched_wakeup: comm=a pid=7 prio=120 target_cpu=000\n"
        " <idle>-0 [000] d... 1.000002: sched_switch: prev_comm=x prev_pid=0 prev_prio=120 prev_state=R ==> "
        "next_comm=a next_pid=7 next_prio=120\n"
    )
    open_trace(path)
    assert "reading t.txt: 2 events" in sys.stderr.getvalue()
