"""The registry of formats: every list is written from it, and no reader is imported to recognise a file."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest
from support import ROOT
from typer.testing import CliRunner
from write_formats import DOCUMENTS, written

from wastedcores.cli import register_verbs
from wastedcores.cli._app import app
from wastedcores.errors import WastedCoresError
from wastedcores.trace.formats import FOREIGN, listed
from wastedcores.trace.io import open_trace
from wastedcores.trace.readers.support.reading import Reading


@pytest.mark.parametrize("row", FOREIGN.values(), ids=FOREIGN)
def test_every_row_has_a_reader_and_one_way_to_be_recognised(row):
    module, name = row.reader
    assert issubclass(getattr(import_module(f"wastedcores.trace.readers.{module}"), name), Reading)
    assert row.magic or row.line or row.known
    assert row.title in listed()
    assert row.content
    assert row.tested


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_documents_have_the_list_of_the_registry(name):
    text = (ROOT / name).read_text()
    assert text == written(text, DOCUMENTS[name]()), "run python tools/write_formats.py"


def test_the_help_of_import_names_every_format():
    register_verbs()
    said = CliRunner().invoke(app, ["import", "--help"]).output
    letters = "".join(c for c in said if c.isalnum())  # whatever the width of the terminal
    for row in FOREIGN.values():
        assert "".join(c for c in row.title if c.isalnum()) in letters, row.title


def test_the_registry_imports_no_reader():
    program = (
        "import sys, wastedcores.trace.io; print(*(m for m in sys.modules if '.readers.' in m))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert all(".support" in m for m in done.stdout.split()), done.stdout


# what perf 6.1 printed about one recording
MAP = """  *A0        2551.438378 secs A0 => qemu-system-x86:12999
  *B0        2551.438534 secs B0 => qemu-system-x86:12995
   B0 *C0    2551.438562 secs C0 => qemu-system-x86:12997
"""
TIMEHIST = """           time    cpu  task name                       wait time  sch delay   run time
                        [tid/pid]                          (msec)     (msec)     (msec)
--------------- ------  ------------------------------  ---------  ---------  ---------
    2551.438378 [0000]  perf[16438]                         0.000      0.000      0.000
"""
LATENCY = """
 -----------------------------------------------------------------------------------------------------------
  Task                  |   Runtime ms  | Switches | Avg delay ms    | Max delay ms    | Max delay start           |
  sh:(7)                |      6.296 ms |       18 | avg:  23.594 ms | max: 164.829 ms | max start:  2551.464068 s |
"""
SCHEDSTAT = "version 15\ntimestamp 4295612345\ncpu0 0 0 0 0 0 0 1 2 3\ndomain0 3 1 2 3\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [("map", MAP), ("timehist", TIMEHIST), ("latency", LATENCY), ("/proc/schedstat", SCHEDSTAT)],
)
def test_a_text_that_was_made_of_a_trace_is_refused_with_the_way_to_one(tmp_path, name, text):
    path = tmp_path / "text"
    path.write_text(text)
    with pytest.raises(WastedCoresError, match="perf sched record") as caught:
        open_trace(path)
    assert f"this is the text of {'perf sched ' * (name[0] != '/')}{name}" in str(caught.value)
