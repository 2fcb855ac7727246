"""Small files of every text format give the events that a person checked line by line."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path

import pytest
import zstandard
from support import TRACE_GOLDEN as GOLDEN
from support.summary import golden_text, summary

from wastedcores.trace.io import import_trace, open_trace

FILES = sorted(GOLDEN.glob("*.txt"))


def expected(file: Path) -> dict:
    return json.loads(file.with_suffix(".json").read_text())


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_reader_gives_the_checked_events(file, golden):
    golden(file.with_suffix(".json"), golden_text(open_trace(file)))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
@pytest.mark.parametrize(
    "pack", [gzip.compress, lzma.compress, zstandard.ZstdCompressor().compress, None]
)
def test_compression_and_parquet_change_nothing(file, pack, tmp_path):
    # the name says nothing: the content decides
    copy = tmp_path / "some.file"
    copy.write_bytes(pack(file.read_bytes()) if pack else file.read_bytes())
    import_trace(copy, tmp_path / "out.parquet")
    again = import_trace(tmp_path / "out.parquet", tmp_path / "again.parquet")
    for trace in (open_trace(tmp_path / "out.parquet"), again):
        got, want = summary(trace), expected(file)
        assert got["events"] == want["events"]
        assert got["header"] == want["header"]


def test_two_compressed_streams_in_one_file_are_one_text(tmp_path):
    text = (GOLDEN / "perf_script.txt").read_bytes()
    cut = text.index(b"\n", 900) + 1
    for pack in (gzip.compress, lzma.compress, zstandard.ZstdCompressor().compress):
        (tmp_path / "two").write_bytes(pack(text[:cut]) + pack(text[cut:]))
        got = summary(open_trace(tmp_path / "two"))["events"]
        assert got == expected(GOLDEN / "perf_script.txt")["events"]


def test_windows_line_ends_change_nothing(tmp_path):
    for file in FILES:
        (tmp_path / file.name).write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
        assert summary(open_trace(tmp_path / file.name))["events"] == expected(file)["events"]


@pytest.mark.parametrize("space", ["", " ", "\t"], ids=["trace-cmd", "kernel", "of a program"])
def test_stacks_of_the_kernel_are_no_events(space, tmp_path):
    # libtraceevent, plugins/plugin_function.c: trace_stack_handler prints no space before the arrow
    file = GOLDEN / "trace_cmd.txt"
    names = ("trace_event_raw_event_sched_switch", "__schedule")
    stack = "".join(f"{space}=> {name} (ffffffffb4d4fc8e)\n" for name in names)
    lines = file.read_text().splitlines(keepends=True)
    text = "".join(line + stack * ("[063]" in line) for line in lines)
    assert text.count("=> __schedule") > 1
    (tmp_path / "t.txt").write_text(text)
    got = summary(open_trace(tmp_path / "t.txt"))
    assert got["events"] == expected(file)["events"]
    assert "lines of another form" not in got["notes"]


def test_a_probe_with_the_name_of_an_event_is_left_out(tmp_path):
    lines = (GOLDEN / "ftrace_4.1.txt").read_text().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if "sched_switch: " in line)
    probe = lines[at].split("prev_comm=")[0] + "(__schedule+0x4/0x10) preempt=0 prev_state=1\n"
    file = tmp_path / "probe.txt"
    file.write_text("".join([*lines[: at + 1], probe, *lines[at + 1 :]]))
    found, want = (open_trace(path) for path in (file, GOLDEN / "ftrace_4.1.txt"))
    assert found.events.collect().equals(want.events.collect())
    assert "1 sched_switch" in found.header.provenance["skipped"]
