"""Files of big-endian machines, and files that zlib packed, have the events of the same recording in the usual form.

The big-endian files are real recordings with the bytes of their numbers turned; trace-cmd must read them alike.
"""

from __future__ import annotations

import lzma
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
from support import ROOT, perf_file, recorders, trace_dat_file
from support.big_endian import big_endian

from wastedcores.errors import WastedCoresError
from wastedcores.trace.io import open_trace

FILES = ROOT / "tests" / "trace" / "foreign" / "files"
REAL = ("lisa-rtapp", "trappy-raw")


def lines_of(path: Path) -> list[str]:
    done = subprocess.run(
        ["trace-cmd", "report", "-t", "-N", "-i", path],
        capture_output=True,
        text=True,
        check=False,
        errors="replace",
    )
    return [line for line in done.stdout.splitlines() if "sched_" in line]


@pytest.mark.parametrize("name", REAL)
def test_a_recording_of_a_big_endian_machine_has_its_events(name, tmp_path):
    little, big = tmp_path / "little.dat", tmp_path / "big.dat"
    little.write_bytes(lzma.decompress((FILES / f"trace.dat--{name}.dat.xz").read_bytes()))
    big.write_bytes(big_endian(little.read_bytes()))
    assert big.read_bytes() != little.read_bytes()
    want, got = open_trace(little), open_trace(big)
    assert got.events.collect().equals(want.events.collect())
    assert got.header.lost == want.header.lost
    assert got.kinds()["switch"] > 500
    if shutil.which("trace-cmd") and (said := lines_of(big)):
        assert said == lines_of(little)


def test_texts_of_any_length_are_found_in_a_file_of_a_big_endian_machine(tmp_path, monkeypatch):
    monkeypatch.setitem(trace_dat_file.PRINT, "sched_process_exec", '"..."')
    events = [
        (1000, perf_file.payload("sched_switch", b"a", 4, 120, 1, b"sh", 5, 120, by=4)),
        (2000, perf_file.payload("sched_process_exec", b"/bin/true", 5, 5, by=5)),
        (3000, perf_file.payload("sched_switch", b"true", 5, 120, 1, b"a", 4, 120, by=5)),
    ]
    path = tmp_path / "t.dat"
    little = trace_dat_file.version_6(b"4 a\n5 sh\n", [trace_dat_file.pages_of(events)])
    read = []
    for data in (little, big_endian(little)):
        path.write_bytes(data)
        read.append(open_trace(path).events.collect())
    assert read[0]["text"].to_list() == [None, "/bin/true", None]
    assert read[1].equals(read[0])


def pages_of_32_bits(events: list[tuple[int, bytes]]) -> bytes:
    """The page of one CPU: a counter of 4 bytes follows its time."""
    data, last = b"", events[0][0] if events else 0
    for ts, payload in events:
        words = -(-len(payload) // 4)
        data += struct.pack("<I", words | (ts - last) << 5) + payload.ljust(4 * words, b"\0")
        last = ts
    assert len(data) <= 65536 - 12
    first = events[0][0] if events else 0
    return (struct.pack("<QI", first, len(data)) + data).ljust(65536, b"\0")


@pytest.mark.parametrize("turned", [False, True])
def test_a_file_of_a_machine_of_32_bits_has_its_events(tmp_path, monkeypatch, turned):
    run = recorders.random_run(3)
    path = tmp_path / "t.dat"
    path.write_bytes(trace_dat_file.as_trace_dat(run, 6))
    want = open_trace(path).events.collect()
    head = trace_dat_file.HEADER_PAGE.replace("offset:8;	size:8;", "offset:8;	size:4;")
    head = head.replace("offset:16;	size:4080;", "offset:12;	size:65524;")
    monkeypatch.setattr(trace_dat_file, "HEADER_PAGE", head)
    monkeypatch.setattr(trace_dat_file, "PAGE", 65536)
    monkeypatch.setattr(trace_dat_file, "pages_of", pages_of_32_bits)
    data = trace_dat_file.as_trace_dat(run, 6)
    path.write_bytes(big_endian(data) if turned else data)
    assert open_trace(path).events.collect().equals(want)


@pytest.mark.parametrize("turned", [False, True])
def test_a_machine_of_32_bits_counts_lost_events_in_four_bytes(tmp_path, monkeypatch, turned):
    # kernel/trace/ring_buffer.c: the number is an unsigned long, which is stored if there is room for it
    head = trace_dat_file.HEADER_PAGE.replace("offset:8;	size:8;", "offset:8;	size:4;")
    head = head.replace("offset:16;	size:4080;", "offset:12;	size:4084;")
    monkeypatch.setattr(trace_dat_file, "HEADER_PAGE", head)
    switch = perf_file.payload("sched_switch", b"a", 4, 120, 1, b"b", 5, 120, by=4)
    event = struct.pack("<I", len(switch) // 4) + switch
    first = (struct.pack("<QI", 1000, len(event)) + event).ljust(4096, b"\0")
    # a discarded event fills the page up to its last four bytes
    filled = event + struct.pack("<II", 29 | 1 << 5, 4080 - len(event) - 4)
    second = struct.pack("<QI", 2000, 4080 | 1 << 30 | 1 << 31) + filled
    second = second.ljust(4092, b"\0") + struct.pack("<I", 7)
    data = trace_dat_file.version_6(b"4 a\n5 b\n", [first + second])
    path = tmp_path / "t.dat"
    path.write_bytes(big_endian(data) if turned else data)
    trace = open_trace(path)
    rows = trace.events.select("ts_ns", "kind", "cpu", "value").collect().rows()
    assert rows == [(1000, "switch", 0, None), (2000, "lost", 0, 7), (2000, "switch", 0, None)]
    assert trace.header.lost == {0: 7}


def test_a_damaged_file_of_a_big_endian_machine_is_refused_or_noted(tmp_path):
    data = bytearray(
        big_endian(lzma.decompress((FILES / "trace.dat--trappy-raw.dat.xz").read_bytes()))
    )
    path = tmp_path / "t.dat"
    said = []
    for at in range(len(data) - 40_000, len(data), 997):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        try:
            open_trace(path)
        except WastedCoresError as e:
            said.append(str(e))
    assert all(str(path) in text and "\n" not in text for text in said)
    assert len(said) < 41


def test_what_zlib_packed_is_unpacked(tmp_path, monkeypatch):
    run = recorders.random_run(3)
    path = tmp_path / "t.dat"
    path.write_bytes(trace_dat_file.as_trace_dat(run, 7))
    want = open_trace(path).events.collect()

    def packed(content: bytes) -> bytes:
        small = zlib.compress(content)
        return struct.pack("<II", len(small), len(content)) + small

    monkeypatch.setattr(trace_dat_file, "packed", packed)
    data = trace_dat_file.as_trace_dat(run, 7).replace(b"zstd\x001.5.4", b"zlib\x001.2.1", 1)
    assert data != path.read_bytes()
    path.write_bytes(data)
    assert open_trace(path).events.collect().equals(want)
