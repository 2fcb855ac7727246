"""trace.dat is read by trace-cmd. Without trace-cmd, or for a damaged file, the message says what to do."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest

from wastedcores.errors import TraceFormatError
from wastedcores.trace.io import open_trace, sniff
from wastedcores.trace.readers.text import trace_cmd, trace_dat
from wastedcores.trace.readers.text.trace_cmd import (
    Buffer,
    Dumped,
    dump_options,
    from_the_first,
    split,
)


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
    """A program called trace-cmd prints a report; the reader gets this output, whatever the file contains."""
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


@pytest.mark.parametrize(
    ("does", "signal"),
    [("while :; do :; done", "SIGXCPU"), ("exec yes", "SIGXFSZ"), ("exec yes >&2", "SIGXFSZ")],
)
def test_trace_cmd_that_never_ends(tmp_path, monkeypatch, does, signal):
    """A damaged file kept trace-cmd 3.1 busy; it is ended, and nobody waits for it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "trace-cmd"
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setattr(trace_cmd, "CPU_SECONDS", 1)
    monkeypatch.setattr(trace_cmd, "PRINTED_BYTES", 1 << 20)
    path = tmp_path / "t"
    path.write_bytes(trace_dat.MAGIC + bytes(100))
    with pytest.raises(TraceFormatError, match=signal):
        open_trace(path)


DUMPED = """		[Option TRACECLOCK, 67 bytes]
local global [mono] boot

		[Option UNAME, 32 bytes]
Linux host 6.1.0-1-amd64 x86_64

		[Option CPUSTAT, 141 bytes]
CPU: 0
entries: 0
overrun: 7
dropped events: 0

		[Option CPUSTAT, 14 bytes]

Buffer: a b


		[Option CPUSTAT, 142 bytes]
CPU: 1
overrun: 0
dropped events: 5

		[Option BUFFER, 23 bytes]
1142750 [offset]
"" [name]
"local" [clock]
		[Option BUFFER, 23 bytes]
1142750 [offset]
"c" [name]
"boot" [clock]
		[Option BUFFER, 23 bytes]
1142750 [offset]
"d" [name]
"local" [clock]
"""


def test_options_that_trace_cmd_dumps(tmp_path):
    program = tmp_path / "trace-cmd"
    program.write_text(f"#!/bin/sh\ncat <<'E'\n{DUMPED}E\n")
    program.chmod(0o755)
    (tmp_path / "t.dat").touch()
    dumped = dump_options(str(program), tmp_path / "t.dat")
    assert dumped.kernel_release == "6.1.0-1-amd64"
    assert dumped.buffers == {
        "": Buffer("mono", Counter({0: 7})),
        "a b": Buffer(None, Counter(), Counter({1: 5})),
        "c": Buffer("boot"),
        "d": Buffer(),  # trace-cmd's word where it does not know
    }
    program.write_text("#!/bin/sh\nexit 1\n")  # too old to dump
    assert dump_options(str(program), tmp_path / "t.dat") == Dumped(None, {"": Buffer()})


def test_lines_of_one_buffer(tmp_path):
    """A loss and the event after it are printed together, so the event has no name of a buffer before it."""
    event = "          a-1  [00{}] 5.00000000{}: sched_switch: {}\n"
    report = tmp_path / "report"
    report.write_text(
        "cpus=2\n"
        "long: CPU:0 [EVENTS DROPPED]\n" + event.format(0, 1, "long")
        + "      " + event.format(0, 2, "top")
        + "   s: " + event.format(0, 3, "s")
        + "long: " + event.format(1, 4, "long")
        + "long: CPU:0 [2 EVENTS DROPPED]\n" + event.format(0, 5, "long")
        + "      CPU:1 [EVENTS DROPPED]\n" + event.format(1, 6, "top")
    )  # fmt: skip
    buffers = {"": Buffer(), "s": Buffer(), "long": Buffer(overrun=Counter({0: 9}))}
    name, lines, events = split(report, buffers)
    assert (name, events) == ("long", {"long": 3, "": 2, "s": 1})
    assert from_the_first(lines, buffers[name].overrun).read_text() == (
        event.format(0, 1, "long")
        + event.format(1, 4, "long")
        + "CPU:0 [2 EVENTS DROPPED]\n"
        + event.format(0, 5, "long")
    )
