"""trace.dat goes through trace-cmd; without it, or with a damaged file, the message says what to do."""

from __future__ import annotations

import shutil

import pytest

from wastedcores.errors import TraceFormatError
from wastedcores.trace.io import open_trace, sniff
from wastedcores.trace.readers import trace_dat


def test_without_trace_cmd_the_message_says_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "t"
    path.write_bytes(trace_dat.MAGIC + bytes(100))
    assert sniff(path) == "trace.dat"
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(TraceFormatError, match="package trace-cmd"):
        open_trace(path)


@pytest.mark.skipif(shutil.which("trace-cmd") is None, reason="needs trace-cmd")
def test_damaged_file_is_refused_in_one_paragraph(tmp_path):
    path = tmp_path / "t"
    path.write_bytes(trace_dat.MAGIC + bytes(100))
    with pytest.raises(TraceFormatError) as caught:
        open_trace(path)
    assert "\n" not in str(caught.value)


def test_report_is_read_as_trace_cmd_prints_it(tmp_path, monkeypatch):
    """A program of that name that prints a report: what reaches the reader is its output, whatever the file holds."""
    folder = tmp_path / "bin"
    folder.mkdir()
    report = "cpus=2\n  a-1 [001] 5.000000007: sched_wakeup_new:     b:2 [120] CPU:000\n"
    program = folder / "trace-cmd"
    program.write_text(f"#!/bin/sh\nprintf '%s' '{report}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    path = tmp_path / "t"
    path.write_bytes(trace_dat.MAGIC + bytes(100))
    trace = open_trace(path)
    assert trace.header.source_format == "trace.dat"
    assert trace.header.cpus == 2
    assert trace.events.select("ts_ns", "cpu", "pid", "by_pid").collect().rows() == [
        (5_000_000_007, 0, 2, 1)
    ]
