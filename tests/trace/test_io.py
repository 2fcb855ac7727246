"""Opening and importing traces, and the messages about files that cannot be read."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
import zstandard

from wastedcores.errors import (
    TraceContentError,
    TraceFormatError,
    UsageError,
    WastedCoresError,
)
from wastedcores.invariant import check
from wastedcores.trace import io, parquet
from wastedcores.trace.header import Header, TaskFacts
from wastedcores.trace.io import import_trace, open_trace, sniff
from wastedcores.trace.readers.support import text_reading

GOLDEN = Path(__file__).parent / "golden"
FTRACE = (GOLDEN / "ftrace_4.1.txt").read_text()
SWITCH = (
    "  a-1  [{cpu:03d}] d... {sec}.{us:06d}: sched_switch: "
    "prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120\n"
)
PERF_LINE = "            bash  7190 [003]   980.240602: sched:sched_wakeup: comm=a pid=1 prio=120 target_cpu=001\n"


def switches(n: int, step_us: int = 7, cpus: int = 4) -> str:
    return "".join(
        SWITCH.format(cpu=i % cpus, sec=1 + i * step_us // 10**6, us=i * step_us % 10**6)
        for i in range(n)
    )


def refused(path: Path, *words: str, error: type = WastedCoresError, **options) -> str:
    """Return the message after checking that it names the file, is one paragraph, and has each of ``words``."""
    with pytest.raises(error) as caught:
        open_trace(path, **options)
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    for word in words:
        assert word in text, text
    return text


def write(tmp_path: Path, content: str | bytes, name: str = "trace.txt") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_empty_file(tmp_path):
    refused(write(tmp_path, ""), "empty")
    refused(write(tmp_path, gzip.compress(b""), "e.gz"), "empty")


def test_binary_garbage(tmp_path):
    refused(write(tmp_path, os.urandom(5000)), "not a trace", error=TraceFormatError)
    refused(write(tmp_path, bytes(10_000_000)), "not a trace", error=TraceFormatError)
    # text at first, garbage later
    refused(write(tmp_path, FTRACE.encode() + bytes(2 << 20)), "line", error=TraceFormatError)


def test_header_without_events(tmp_path):
    head = "".join(x for x in FTRACE.splitlines(True) if x.startswith("#"))
    refused(write(tmp_path, head), "no event", "perf sched record")


def test_only_events_of_no_use(tmp_path):
    line = "  a-1  [000] d... 1.000001: sched_stat_runtime: comm=a pid=1 runtime=1 [ns]\n"
    refused(write(tmp_path, line * 3), "3 sched_stat_runtime")


def test_wrong_format_named(tmp_path):
    said = (
        "It was read as perf-script, because that format was named; its content looks like ftrace."
    )
    refused(write(tmp_path, FTRACE), "line 1", said, format="perf-script")
    refused(GOLDEN / "perf_script.txt", "ftrace", "perf-script", format="ftrace")
    refused(GOLDEN / "perf_script.txt", "begins with b'PERFILE2'", format="perf.data")
    refused(GOLDEN / "perf_script.txt", "begins with b'PAR1'", format="parquet")
    refused(GOLDEN / "perf_script.txt", "not a trace of systing", format="systing")
    refused(tmp_path, "is a folder", format="ftrace")
    with pytest.raises(UsageError, match="sched_profiler"):
        open_trace(GOLDEN / "perf_script.txt", format="pref-script")


def test_a_named_format_overrides_what_the_content_looks_like(tmp_path):
    notes = "".join(f"{i} what perf script never prints: 1\n" for i in range(5))
    path = write(tmp_path, "# tracer: nop\n" * 300 + PERF_LINE)
    assert sniff(path) == "ftrace"
    assert open_trace(path, format="perf-script").header.source_format == "perf-script"
    refused(path, "not a line of ftrace output")
    refused(write(tmp_path, notes), "not a trace that this package reads")


def test_line_in_the_middle_that_is_none(tmp_path):
    lines = FTRACE.splitlines(True)
    lines.insert(14, "what is this\n")
    notes = open_trace(write(tmp_path, "".join(lines))).header.provenance
    assert "1 (lines of another form)" in notes["skipped"]
    assert "the first is line 15: 'what is this'" in notes["lines of another form"]


@pytest.mark.parametrize("bad", ["a sched_switch of b\n", "a\0b\n", "a\xffb\n"])
def test_a_line_that_was_an_event_or_is_damaged_is_not_skipped(tmp_path, bad):
    lines = [line.encode() for line in FTRACE.splitlines(True)]
    lines.insert(14, bad.encode("latin-1"))
    refused(write(tmp_path, b"".join(lines)), "line 15", "not a line of ftrace output")


def test_the_damaged_line_with_fields_is_shown_and_not_one_that_ends_behind_its_name(tmp_path):
    lines = FTRACE.splitlines(True)
    at = next(i for i, line in enumerate(lines) if "sched_switch: " in line)
    head = lines[at].partition("sched_switch")[0]
    lines[at:at] = [f"{head}sched_switch\n", f"{head}sched_switch: nexprio=120\n"]
    path = write(tmp_path, "".join(lines))
    refused(path, f"line {at + 2}", "'nexprio=120'")


def test_known_event_in_no_known_spelling(tmp_path):
    refused(
        write(tmp_path, "  a-1  [000] d... 1.000001: sched_switch: a to b\n"), "line 1", "a to b"
    )


def test_unknown_event_is_counted_and_skipped(tmp_path):
    text = switches(2) + "  a-1  [000] d... 2.000001: my_event: x=1\n" * 3
    assert open_trace(write(tmp_path, text)).header.provenance["skipped"] == "3 my_event"


def test_unknown_record_of_sched_profiler(tmp_path):
    refused(
        write(tmp_path, "   1\t 10 nsecs RQ    0    1\n\t 11 nsecs ZZ    1\n"), "line 2", "'ZZ'"
    )
    refused(
        write(tmp_path, "   1\t 10 nsecs RQ    0    1\n   1\t 11 nsecs RQ    0\n"),
        "line 2",
        "cpu, nr_running",
    )


def test_time_back_by_hours(tmp_path):
    text = switches(5) + SWITCH.format(cpu=0, sec=9000, us=5) + SWITCH.format(cpu=1, sec=2, us=5)
    message = refused(
        write(tmp_path, text), "line 7", "9000.000005", "2.000005", error=TraceContentError
    )
    assert "8998.000000 s" in message


def test_time_back_by_microseconds_is_put_in_order(tmp_path):
    lines = switches(50_000).splitlines(True)
    shuffled = [*lines[:10], *lines[20_000:20_010], *lines[10:20_000], *lines[20_010:]]
    want = open_trace(write(tmp_path, "".join(lines))).events.collect()
    got = open_trace(write(tmp_path, "".join(shuffled))).events.collect()
    assert got["ts_ns"].equals(want["ts_ns"])


@pytest.mark.parametrize("back_us", [500, 400_000])
def test_an_import_puts_events_in_order_that_come_late(tmp_path, monkeypatch, back_us):
    """Events are written when later ones were read; a file in which time steps back by more than is usual is read again."""
    lines = switches(50_000, step_us=100).splitlines(True)
    at, late = 30_000, 30_000 + back_us // 100
    moved = [*lines[:at], *lines[at + 1 : late], lines[at], *lines[late:]]
    monkeypatch.setattr(text_reading, "BLOCK_BYTES", 20_000)
    monkeypatch.setattr(parquet, "FIRST_ROWS", 1000)
    want = open_trace(write(tmp_path, "".join(lines))).events.collect()
    file = write(tmp_path, "".join(moved))
    got = import_trace(file, tmp_path / "o.parquet")
    assert got.events.collect().equals(want)
    assert got.header.events == want.height
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert got.header.provenance["source_sha256"] == digest


def test_equal_stamps_keep_the_order_of_the_file(tmp_path, monkeypatch):
    text = switches(4000, step_us=0, cpus=1000)
    monkeypatch.setattr(text_reading, "BLOCK_BYTES", 10_000)
    got = open_trace(write(tmp_path, text)).events.collect()
    assert got["cpu"].to_list() == [i % 1000 for i in range(4000)]


def test_forward_jump_is_noted(tmp_path):
    text = switches(3) + SWITCH.format(cpu=0, sec=90_000, us=5)
    assert "89999.000 s" in open_trace(write(tmp_path, text)).header.provenance["clock jump"]


def test_cpu_beyond_the_topology(tmp_path):
    path = write(tmp_path, switches(8))
    out = tmp_path / "o.parquet"
    with pytest.raises(
        TraceContentError, match=r"line 3: .*CPU 2, but the given topology has 2 CPUs, 0 to 1"
    ):
        import_trace(path, out, cpus=range(2))
    assert not out.exists()
    assert import_trace(path, out, cpus=range(4)).header.cpus == 4


def test_cpu_no_kernel_has(tmp_path):
    refused(write(tmp_path, SWITCH.format(cpu=99999, sec=1, us=1)), "line 1", "CPU 99999")
    refused(write(tmp_path, "   1\t 10 nsecs RQ 9999999    1\n"), "CPU 9999999")


def test_pid_that_does_not_fit(tmp_path):
    text = SWITCH.format(cpu=0, sec=1, us=1).replace("next_pid=2", "next_pid=22222222222")
    refused(write(tmp_path, text), "line 1", "22222222222")
    refused(write(tmp_path, text.replace("22222222222", "2" * 30)), "line 1")


def test_stamp_that_does_not_fit(tmp_path):
    for sec in (10**25, 9_999_999_999, 9_223_372_036):
        refused(write(tmp_path, switches(3) + SWITCH.format(cpu=0, sec=sec, us=1)), "line 4")
    open_trace(
        write(tmp_path, SWITCH.format(cpu=0, sec=1_763_000_000, us=1))
    )  # the clock of the day
    refused(write(tmp_path, f"   1\t {10**25} nsecs RQ    0    1\n"), "line 1")


def test_truncated_last_line_is_left_out_and_noted(tmp_path):
    text = switches(100)
    header = open_trace(write(tmp_path, text[:-60])).header
    assert header.events == 99
    assert "line 100" in header.truncated_last_line
    # a stamp or pid cut short would read as another number
    assert open_trace(write(tmp_path, text[:-2])).header.events == 99
    assert (
        open_trace(write(tmp_path, text[:-1])).header.events == 100
    )  # only the newline is missing


@pytest.mark.parametrize(
    "pack", [gzip.compress, lzma.compress, zstandard.ZstdCompressor().compress]
)
def test_compressed_stream_cut_short_or_damaged(tmp_path, pack):
    whole = pack(switches(3000).encode())
    out = tmp_path / "o.parquet"
    for broken in (whole[: len(whole) // 2], whole[:12]):
        path = write(tmp_path, broken, "t.packed")
        refused(path, "cut short or damaged", error=TraceFormatError)
        with pytest.raises(TraceFormatError):
            import_trace(path, out)
    damaged = bytearray(whole)
    damaged[len(damaged) // 2] ^= 0xFF
    refused(write(tmp_path, bytes(damaged), "t.packed"))
    assert not out.exists()


def test_parquet_of_a_newer_schema_or_of_somebody_else(tmp_path):
    trace = open_trace(write(tmp_path, switches(3)))
    newer = tmp_path / "newer.parquet"
    parquet.write_parquet(trace.with_header(schema_version=99), newer)
    refused(newer, "schema 99", "pip install -U")
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "other.parquet")
    refused(tmp_path / "other.parquet", "wastedcores did not write")
    cut = write(tmp_path, newer.read_bytes()[:-100], "cut.parquet")
    refused(cut, "cut short")


def test_file_that_is_not_there_or_a_folder(tmp_path):
    refused(tmp_path / "no", "No such file")
    refused(tmp_path, "folder")


def test_file_that_vanishes_while_read(tmp_path, monkeypatch):
    path = write(tmp_path, switches(3))
    monkeypatch.setattr(io, "sniff", lambda p: p.unlink() or "ftrace")
    refused(path, "No such file")


def test_unreadable_file(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    path = write(tmp_path, switches(3))
    path.chmod(0)
    refused(path, "Permission denied")


def test_place_that_cannot_be_written(tmp_path):
    path = write(tmp_path, switches(3))
    with pytest.raises(WastedCoresError, match="cannot write there"):
        import_trace(path, tmp_path / "no" / "o.parquet")
    with pytest.raises(UsageError, match="itself"):
        import_trace(path, path)
    assert path.read_text() == switches(3)


def test_disk_full_leaves_nothing(tmp_path):
    path = write(
        tmp_path,
        "".join(SWITCH.format(cpu=i % 7, sec=i * i, us=i * 7919 % 10**6) for i in range(30_000)),
    )
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, limit[1]))
        with pytest.raises(WastedCoresError, match="disk full"):
            import_trace(path, tmp_path / "o.parquet")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, ignored)
    assert [p.name for p in tmp_path.iterdir()] == ["trace.txt"]


@pytest.mark.slow
def test_interrupted_import_leaves_nothing(tmp_path):
    path = write(tmp_path, switches(400_000))
    run = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from wastedcores.cli import main; main()",
            "import",
            str(path),
            "-o",
            str(tmp_path / "o.parquet"),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".o.*")) and run.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    run.send_signal(signal.SIGINT)
    _, error = run.communicate(timeout=60)
    assert run.returncode == 130, error
    assert "Traceback" not in error
    assert [p.name for p in tmp_path.iterdir()] == ["trace.txt"]


def test_large_text_goes_through_a_temporary_file(tmp_path, monkeypatch, capsys):
    path = write(tmp_path, switches(3000))
    small = open_trace(path)
    monkeypatch.setattr(io, "MEMORY_EVENTS", 1000)
    large = open_trace(path)
    assert "temporary file" in capsys.readouterr().err
    assert large.path is not None
    assert large.path.suffix == ".parquet"
    assert large.events.collect().equals(small.events.collect())
    counted = {"kinds": None, "highest_cpu": None, "highest_pid": None}  # known once written
    assert large.header.model_copy(update=counted) == small.header


def test_header_tells_where_it_came_from(tmp_path):
    import hashlib

    path = write(tmp_path, gzip.compress(switches(5).encode()), "t.gz")
    header = import_trace(path, tmp_path / "o.parquet", machine={"name": "m"}).header
    assert isinstance(header, Header)
    assert header.provenance["source_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert header.provenance["source"] == "t.gz"
    assert header.machine == {"name": "m"}
    assert (header.start_ns, header.end_ns, header.events) == (10**9, 10**9 + 28_000, 5)


def test_sniff_goes_by_content(tmp_path):
    for file in GOLDEN.glob("*.txt"):
        want = "sched_profiler" if file.stem.startswith("sched") else file.stem.replace("_", "-")
        want = "ftrace" if file.stem.startswith(("ftrace", "trace_cmd")) else want
        assert sniff(file) == want


def test_perf_text_without_cpu_says_what_to_do(tmp_path):
    line = "  perf  7190   980.240581: sched:sched_wakeup: comm=a pid=1 prio=120 target_cpu=001\n"
    refused(write(tmp_path, line * 3), "line 1", "perf script -F +cpu")


def test_runqueue_sizes_no_machine_has(tmp_path):
    refused(write(tmp_path, "   1\t 10 nsecs RQ    0 9999999999\n"), "line 1", "9999999999")
    refused(write(tmp_path, "   1\t 10 nsecs RQ    0   -3\n"), "line 1", "-3")


def open_files(folder: Path) -> list[str]:
    """Return the files below a folder that this process has open."""
    return [
        str(f) for f in map(Path.resolve, Path("/proc/self/fd").iterdir()) if folder in f.parents
    ]


@pytest.mark.parametrize("name", ["trace.txt", "trace.txt.gz"])
@pytest.mark.parametrize("how", ["open", "import"])
def test_a_file_is_closed_though_the_error_that_ended_it_is_still_held(tmp_path, name, how):
    # else it stays open until the error is forgotten, and its finalizer may complain then
    file = tmp_path / name
    text = b"   1\t 10 nsecs RQ    0   2\n" * 50 + b"   1\t 20 nsecs RQ    0   -3\n"
    file.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    with pytest.raises(WastedCoresError) as held:
        open_trace(file) if how == "open" else import_trace(file, tmp_path / "o.parquet")
    assert held.value.__traceback__ is not None
    assert str(file) not in open_files(tmp_path)


def test_nobody_knows_what_happened_in_a_gap(tmp_path):
    """A machine does not keep silent for a minute: what seems to wait all that time does not decide."""
    preempted = SWITCH.format(cpu=0, sec=1, us=1).replace("prev_state=S", "prev_state=R")
    idle = (
        SWITCH.format(cpu=1, sec=1, us=2)
        .replace("_pid=1 ", "_pid=3 ")
        .replace("_pid=2 ", "_pid=0 ")
    )
    known = {"tasks": [TaskFacts(pid=p, allowed="0-1") for p in (1, 2, 3)], "quotas": {}}
    for seconds, verdict in ((50, "violations"), (70, "unknown")):
        back = SWITCH.format(cpu=0, sec=seconds, us=1)
        back = (
            back.replace("_pid=2 ", "_pid=4 ")
            .replace("_pid=1 ", "_pid=2 ")
            .replace("_pid=4 ", "_pid=1 ")
        )
        trace = open_trace(write(tmp_path, preempted + idle + back))
        assert check(trace.with_header(**known)).verdict == verdict
    whole = trace.events.collect()
    assert whole.filter(pl.col("kind") == "lost")["ts_ns"].to_list() == [70_000_000_999]
    assert trace.header.events == whole.height


def test_opening_a_parquet_file_imports_no_reader_of_another_format(tmp_path):
    path = tmp_path / "trace.parquet"
    import_trace(GOLDEN / "ftrace_4.1.txt", path)
    code = (
        "import sys; from wastedcores.trace.io import open_trace; open_trace(sys.argv[1]); "
        "print(*(m for m in sys.modules if 'readers.text' in m or 'perf_data' in m))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
