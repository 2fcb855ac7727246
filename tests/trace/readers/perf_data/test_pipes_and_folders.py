"""What perf writes to a pipe or into a folder, and every choice of fields of perf script, give the events of the file.

The pipe and the folder are made of a real recording as perf makes them; if perf is installed, it must read them, too.
"""

from __future__ import annotations

import lzma
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support import ROOT
from support.perf_pipes import folder_of, piped, record

from wastedcores.errors import TraceFormatError
from wastedcores.trace.io import import_trace, open_trace, sniff

RECORDED = ROOT / "tests" / "invariant" / "guest" / "perf-make.perf.xz"
needs_perf = pytest.mark.skipif(not shutil.which("perf"), reason="perf is not installed")


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("perf") / "perf.data"
    path.write_bytes(lzma.decompress(RECORDED.read_bytes()))
    return path


def switches_of_perf(path: Path) -> int:
    done = subprocess.run(
        ["perf", "script", "-f", "-i", path], capture_output=True, text=True, check=False
    )
    return done.stdout.count("sched:sched_switch:")


def same(path: Path, recording: Path) -> None:
    assert sniff(path) == "perf.data"
    got, want = open_trace(path), open_trace(recording)
    columns = ["ts_ns", "cpu", "pid", "kind"]
    assert got.kinds() == want.kinds()
    assert got.events.collect().sort(columns).equals(want.events.collect().sort(columns))
    assert got.header.kernel_release == want.header.kernel_release
    assert got.header.cpus == want.header.cpus


def test_what_went_through_a_pipe_has_the_events_of_the_file(recording, tmp_path):
    path = tmp_path / "piped.data"
    path.write_bytes(piped(recording.read_bytes()))
    same(path, recording)
    if shutil.which("perf"):
        assert switches_of_perf(path) == open_trace(path).kinds()["switch"]


@pytest.mark.parametrize("packed", [False, True])
def test_a_folder_has_the_events_of_the_file(recording, tmp_path, packed):
    path = folder_of(recording.read_bytes(), tmp_path / "dir.data", packed=packed)
    same(path, recording)
    kept = import_trace(path, tmp_path / "kept.parquet")
    assert re.fullmatch(r"[0-9a-f]{64}", kept.header.provenance["source_sha256"])


def test_a_cut_pipe_is_refused_or_noted(recording, tmp_path):
    whole = piped(recording.read_bytes())
    path = tmp_path / "piped.data"
    path.write_bytes(whole[:-30])
    assert "cut short" in open_trace(path).header.truncated_last_line
    path.write_bytes(whole[:20_000])
    with pytest.raises(TraceFormatError, match="cut short: record it again"):
        open_trace(path)
    path.write_bytes(whole[:16] + record(80, bytes(16)) + whole[16:][:0])
    with pytest.raises(TraceFormatError, match="0 ways"):
        open_trace(path)


FIELDS = {
    "comm,tid,cpu,time,event,trace": (),
    "comm,pid,tid,cpu,time,event,trace": (),
    "comm,tid,cpu,time,event,trace,period": (),
    "comm,tid,cpu,time,event,trace,ip,sym": (),
    "comm,tid,cpu,time,event,trace,misc": (),
    "trace:comm,tid,cpu,time,event,trace,flags": (),
    "tid,cpu,time,event,trace": ("by_comm",),
    "pid,tid,cpu,time,event,trace": ("by_comm",),
    "comm,cpu,time,event,trace": ("by_pid",),
    "cpu,time,event,trace": ("by_comm", "by_pid"),
}
REFUSED = {
    "comm,tid,time,event,trace": r"-F \+cpu",
    "comm,tid,cpu,time,trace": r"-F \+event",
    "comm,tid,cpu,time,event": r"-F \+trace",
}


def script(recording: Path, into: Path, *words: str) -> Path:
    with into.open("wb") as out:
        subprocess.run(
            ["perf", "script", *words, "-f", "-i", recording],
            stdout=out,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    return into


@pytest.fixture(scope="module")
def want(recording):
    """Return the events in the text with the usual fields."""
    return open_trace(script(recording, recording.with_name("usual"))).events.collect()


@pytest.mark.slow
@needs_perf
@pytest.mark.parametrize("fields", FIELDS)
def test_perf_script_prints_the_events_whatever_its_fields(recording, want, tmp_path, fields):
    got = open_trace(script(recording, tmp_path / "text", "-F", fields)).events.collect()
    unknown = FIELDS[fields]
    assert got.drop(unknown).equals(want.drop(unknown))
    # a fork names the parent in its own fields
    others = got.filter(got["kind"] != "fork")
    assert all(others[c].null_count() == others.height for c in unknown)


@needs_perf
@pytest.mark.parametrize("fields", REFUSED)
def test_perf_script_without_a_needed_field_is_refused_with_the_option(recording, tmp_path, fields):
    with pytest.raises(TraceFormatError, match=REFUSED[fields]):
        open_trace(script(recording, tmp_path / "text", "-F", fields))


@needs_perf
def test_differences_of_times_are_refused(recording, tmp_path):
    with pytest.raises(TraceFormatError, match="--deltatime"):
        open_trace(script(recording, tmp_path / "text", "--deltatime"))
