"""CTF 2: babeltrace2 reads it since 2.1, and its metadata are JSON."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from wastedcores.errors import TraceFormatError
from wastedcores.trace.io import open_trace

METADATA = """\x1e{
  "type": "preamble",
  "version": 2
}
\x1e{
  "type": "trace-class",
  "environment": {
    "hostname": "quark",
    "kernel_release": "6.12.9",
    "tracer_name": "lttng-modules",
    "tracer_major": 2,
    "tracer_minor": 15
  }
}
"""
#: the lines are those of LTTng 2.13 as babeltrace2 2.0.4 prints them
PROGRAM = """#!/bin/sh
case "$*" in
*--version*) echo 'Babeltrace 2.1.1 "Brossard"' ;;
*ctf-metadata*) cat "$3/metadata" ;;
*) echo '[1.000000005] quark sched_switch: { cpu_id = 1 }, { prev_comm = "swapper/1", prev_tid = 0, prev_prio = 20, \
prev_state = ( "TASK_RUNNING" : container = 0 ), next_comm = "a", next_tid = 7, next_prio = 20 }' ;;
esac
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "metadata").write_text(METADATA)
    return tmp_path / "kernel"


def test_an_old_babeltrace2_is_named_with_what_it_needs(folder):
    if shutil.which("babeltrace2") is None:
        pytest.skip("babeltrace2 is not installed: sudo apt-get install babeltrace2")
    told = subprocess.run(["babeltrace2", "--version"], capture_output=True, text=True, check=True)
    version = re.search(r"(\d+)\.(\d+)\S*", told.stdout)
    if (int(version[1]), int(version[2])) >= (2, 1):
        pytest.skip(f"babeltrace2 {version[0]} reads CTF 2")
    said = f"this is CTF 2, which babeltrace2 reads since version 2.1; {version[0]} is installed"
    with pytest.raises(TraceFormatError, match=re.escape(said)):
        open_trace(folder)


def test_what_its_metadata_state_is_learned(folder, tmp_path, monkeypatch):
    """The program is a stand-in, because Debian 12 has no babeltrace2 that reads CTF 2."""
    program = tmp_path / "babeltrace2"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    trace = open_trace(folder)
    assert (trace.header.kernel_release, trace.header.host) == ("6.12.9", "quark")
    assert trace.header.provenance["tracer"] == "lttng-modules 2.15"
    assert trace.only("switch").collect().select("ts_ns", "cpu", "pid", "prio").rows() == [
        (1_000_000_005, 1, 7, 120)
    ]
