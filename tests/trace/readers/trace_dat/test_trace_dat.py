"""trace.dat is decoded without trace-cmd; a damaged or unknown file is refused in one paragraph."""

from __future__ import annotations

import shutil
import struct
import subprocess

import polars as pl
import pytest
from support import perf_file, recorders, trace_dat_file

from wastedcores.errors import WastedCoresError
from wastedcores.trace.io import import_trace, open_trace, sniff
from wastedcores.trace.readers.perf_data import decoding
from wastedcores.trace.recognisers import TRACE_DAT

RUN = recorders.random_run(3)


def events(path):
    return open_trace(path).events.collect()


def file_of(tmp_path, data, name="t.dat"):
    path = tmp_path / name
    path.write_bytes(data)
    return path


@pytest.fixture(params=[6, 7])
def version(request):
    return request.param


def test_what_the_file_says_about_itself(tmp_path):
    path = file_of(tmp_path, trace_dat_file.as_trace_dat(RUN, 7))
    header = open_trace(path).header
    assert sniff(path) == header.source_format == "trace.dat"
    assert (header.host, header.kernel_release, header.clock) == ("host", "6.1.0", "mono")
    assert header.cpus == RUN.cpus
    assert header.every_switch
    assert header.lost == {}


def test_both_versions_hold_the_same(tmp_path):
    old, new = (events(file_of(tmp_path, trace_dat_file.as_trace_dat(RUN, v))) for v in (6, 7))
    assert old.height > 20
    assert old.equals(new)


def collectors_file(counts=""):
    """Pages of two CPUs as collectors/tracefs.py writes them, several of each."""
    data = [
        b"".join(page(1000 * i + c, entry(5, switch(i))) for i in range(1, 6)) for c in range(2)
    ]
    return trace_dat_file.collectors_file(b"", data, counts)


def test_pages_in_the_order_in_which_they_came_hold_the_same(tmp_path):
    path = file_of(tmp_path, trace_dat_file.as_trace_dat(RUN, trace_dat_file.COLLECTOR))
    assert events(path).equals(events(file_of(tmp_path, trace_dat_file.as_trace_dat(RUN), "6.dat")))
    header = open_trace(path).header
    assert header.source_format == "tracefs"
    assert (header.lost, header.truncated_last_line) == ({}, None)


def test_events_that_the_kernel_overwrote_while_the_collector_read_are_lost(tmp_path):
    counts = "CPU: 1\nentries: 0\noverrun: 7\ndropped events: 2\n"
    header = open_trace(file_of(tmp_path, collectors_file(counts))).header
    assert (header.lost, header.overwritten) == ({1: 9}, {})


def test_events_that_interrupts_dropped_within_a_full_buffer_are_lost(tmp_path):
    """The kernel counts them as commit overrun (ring_buffer.c: rb_move_tail(), 6.12)."""
    counts = "CPU: 1\nentries: 0\noverrun: 0\ncommit overrun: 7\ndropped events: 0\n"
    header = open_trace(file_of(tmp_path, collectors_file(counts))).header
    assert (header.lost, header.overwritten) == ({1: 7}, {})


def test_what_a_killed_collector_wrote_is_read_up_to_its_last_whole_page(tmp_path):
    data = collectors_file("CPU: 0\n")
    first = data.index(b"pages    \0") + 10
    whole = events(file_of(tmp_path, data))
    assert whole.height == 10
    for size in (len(data) - 1, len(data) - 20, first + 3 * 4104 + 5, first + 4 * 4104 - 1):
        trace = open_trace(file_of(tmp_path, data[:size]))
        read = trace.events.collect()
        assert read.height == min(10, (size - first) // 4104)
        assert set(read["ts_ns"]) <= set(whole["ts_ns"])
        assert "missing" in trace.header.truncated_last_line
    damaged = data[: first + 4] + struct.pack("<I", 4095) + data[first + 8 :]
    with pytest.raises(WastedCoresError, match="a block of 4095 bytes of CPU 0"):
        open_trace(file_of(tmp_path, damaged))


@pytest.mark.skipif(shutil.which("trace-cmd") is None, reason="needs trace-cmd")
def test_same_events_as_trace_cmd_reports(tmp_path, version):
    path = file_of(tmp_path, trace_dat_file.as_trace_dat(RUN, version))
    report = tmp_path / "report.txt"
    with report.open("wb") as out:
        subprocess.run(["trace-cmd", "report", "-t", "-N", "-i", path], stdout=out, check=True)
    # the report does not print whether an interrupt ran
    assert events(path).drop("in_irq").equals(events(report).drop("in_irq"))


def test_chunks_change_nothing(tmp_path, monkeypatch, version):
    path = file_of(tmp_path, trace_dat_file.as_trace_dat(RUN, version))
    whole = events(path)
    monkeypatch.setattr(decoding, "CHUNK_RECORDS", 7)
    monkeypatch.setattr(decoding, "CHUNK_ROWS", 3)
    monkeypatch.setattr(decoding, "TABLE_ROWS", 5)
    assert events(path).equals(whole)


def switch(to, state=0):
    return perf_file.payload("sched_switch", b"a", 7, 120, state, b"b", to, 120, by=7)


def entry(delta, payload, long=False):
    """Return an event as the ring buffer holds it, its length in a word of its own if ``long``."""
    payload = payload.ljust(-(-len(payload) // 4) * 4, b"\0")
    if long:
        return struct.pack("<II", delta << 5, len(payload) + 4) + payload
    return struct.pack("<I", len(payload) // 4 | delta << 5) + payload


def page(ts, content, missed=None):
    flags = 0 if missed is None else 1 << 31 | (missed >= 0) << 30
    tail = struct.pack("<Q", missed) if missed is not None and missed >= 0 else b""
    head = struct.pack("<QQ", ts, len(content) | flags)
    return (head + content + tail).ljust(trace_dat_file.PAGE, b"\0")


def file_with(tmp_path, *cpus, **options):
    return file_of(tmp_path, trace_dat_file.version_7(b"7 a\n", list(cpus), **options))


def test_all_kinds_of_entries(tmp_path):
    extend = struct.pack("<II", 30 | 5 << 5, 2)  # (2 << 27) + 5
    stamp = struct.pack("<II", 31 | 1 << 5, 4)  # (4 << 27) + 1, absolute
    discarded = struct.pack("<II", 29 | 40 << 5, 12) + bytes(8)
    content = (
        entry(10, switch(1)) + extend + entry(3, switch(2), long=True) + discarded
        + entry(1, switch(3)) + stamp + entry(0, switch(4)) + struct.pack("<I", 29)
    )  # fmt: skip
    got = events(file_with(tmp_path, page(1000, content)))
    after = 1010 + (2 << 27) + 5 + 3
    assert got["ts_ns"].to_list() == [1010, after, after + 41, (4 << 27) + 1]
    assert got["pid"].to_list() == [1, 2, 3, 4]


def test_an_absolute_time_keeps_the_highest_bits_of_the_time_before(tmp_path):
    """kernel/trace/ring_buffer.c: rb_fix_abs_ts."""
    stamp = struct.pack("<II", 31 | 7 << 5, 0)
    high = 3 << 59
    got = events(file_with(tmp_path, page(high, stamp + entry(0, switch(1)))))
    assert got["ts_ns"].to_list() == [high + 7]
    got = events(file_with(tmp_path, page(high + 9, stamp + entry(0, switch(1)))))
    assert got["ts_ns"].to_list() == [high + 7 + (1 << 59)]


def test_losses_come_with_the_first_event_of_the_page(tmp_path):
    first = page(1000, entry(0, switch(1)))
    lost = page(2000, entry(5, switch(2)), missed=12)
    unknown = page(3000, entry(6, switch(3)), missed=-1)
    trace = open_trace(file_with(tmp_path, first + lost, page(1, entry(0, switch(9))) + unknown))
    rows = trace.only("lost").collect().select("ts_ns", "cpu", "value").rows()
    assert rows == [(2005, 0, 12), (3006, 1, -1)]
    assert trace.header.lost == {0: 12, 1: -1}
    kinds = trace.events.collect()["kind"].cast(pl.String).to_list()
    assert kinds == ["switch", "switch", "lost", "switch", "lost", "switch"]


def test_what_was_overwritten_is_no_loss_after_the_beginning(tmp_path):
    stats = trace_dat_file.option(2, b"CPU: 0\nentries: 1\noverrun: 30\ndropped events: 4\n\0")
    pages = page(1000, entry(0, switch(1)), missed=30) + page(2000, entry(0, switch(2)), missed=4)
    trace = open_trace(file_with(tmp_path, pages, options=stats))
    assert trace.header.overwritten == {0: 30}
    assert trace.header.lost == {0: 34}
    rows = trace.only("lost").collect().select("ts_ns", "value").rows()
    assert rows == [(2000, 4)]


def test_dates_are_added_to_all_times(tmp_path):
    pages = page(1000, entry(0, switch(1)))
    options = trace_dat_file.option(1, b"0x10\0") + trace_dat_file.option(7, b"-300\0")
    got = events(file_with(tmp_path, pages, options=options))
    assert got["ts_ns"].to_list() == [1000 + 16_000 - 300]


def test_equal_times_come_in_the_order_of_the_cpus(tmp_path):
    one = page(5, entry(0, switch(1)) + entry(0, switch(2)))
    got = events(file_with(tmp_path, one, page(5, entry(0, switch(3))), one))
    assert got["cpu"].to_list() == [0, 0, 1, 2, 2]


def test_times_that_step_back_between_pages_are_sorted(tmp_path):
    pages = page(900, entry(0, switch(1))) + page(500, entry(0, switch(2)))
    assert events(file_with(tmp_path, pages))["pid"].to_list() == [2, 1]


GOOD = trace_dat_file.as_trace_dat(RUN, 6)
PACKED = trace_dat_file.as_trace_dat(RUN, 7)


def refused(tmp_path, data):
    path = file_of(tmp_path, data)
    with pytest.raises(WastedCoresError) as caught:
        open_trace(path)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(str(path))
    return text


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (TRACE_DAT + bytes(100), "version ''"),
        (GOOD.replace(b"tracing6", b"tracing8", 1), "expected 6 or 7"),
        (GOOD[:12] + b"\1" + GOOD[13:], "cut short or damaged"),
        (GOOD[: len(GOOD) // 3], "cut short or damaged"),
        (PACKED[:-20], "cut short or damaged"),
        (GOOD.replace(b"header_page", b"header_cage"), "expected 'header_page'"),
        (GOOD.replace(b"flyrecord", b"latency  "), "latency"),
        (GOOD.replace(b"size:4080", b"size:9999"), "pages of 10015 bytes"),
        (GOOD.replace(b"offset:16;", b"offset:18;"), "a format of its own"),
        (PACKED.replace(b"zstd", b"zlib"), "is damaged"),
        (PACKED.replace(b"zstd", b"z\nd" + b"x" * 50), "only zstd and zlib are known"),
        (PACKED.replace(b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfe"), "damaged"),
    ],
)
def test_damaged_and_unknown_files_are_refused(tmp_path, data, said):
    assert said in refused(tmp_path, data)


def test_a_clock_of_the_processor_is_refused(tmp_path):
    data = trace_dat_file.version_7(b"", [page(1, entry(0, switch(1)))], clock=b"x86-tsc")
    assert "trace-cmd report -t -N" in refused(tmp_path, data)
    option = trace_dat_file.option(14, bytes(16))
    data = trace_dat_file.version_7(b"", [page(1, entry(0, switch(1)))], options=option)
    assert "counts of the processor" in refused(tmp_path, data)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (struct.pack("<QQ", 1, 5000).ljust(4096, b"\0"), "more than a page"),
        (page(1, struct.pack("<I", 20) + bytes(8)), "shorter than its head"),
        (page(1, struct.pack("<I", 1) + bytes(4)), "shorter than its head"),
        (page(1 << 63, entry(0, switch(1))), "63 bits"),
        (page(1, entry(0, switch(1)[:20])), "shorter than the fields"),
        (page(1, entry(0, switch(1)), missed=1 << 60), "events were lost"),
        (page(1, struct.pack("<II", 0, 1 << 31) + bytes(8)), "shorter than its head"),
    ],
)
def test_damaged_pages_are_refused(tmp_path, content, said):
    text = refused(tmp_path, trace_dat_file.version_7(b"", [content]))
    assert said in text
    assert "byte" in text


def test_pages_that_overlap_are_refused(tmp_path):
    """A small file must not become many events because all CPUs share its pages."""
    at = GOOD.index(b"flyrecord\0") + 10
    first = GOOD[at : at + 16]
    assert "damaged" in refused(tmp_path, GOOD[:at] + first * RUN.cpus + GOOD[at + 16 * RUN.cpus :])


def test_an_import_notes_the_hash(tmp_path):
    path = file_of(tmp_path, PACKED)
    kept = import_trace(path, tmp_path / "t.parquet")
    assert len(kept.header.provenance["source_sha256"]) == 64
    assert kept.events.collect().equals(events(path))
