"""Files of several events, whose samples and other records need not have the same layout."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from support.perf_file import (
    FORMATS,
    ROUND,
    SAMPLE_TYPE,
    Attribute,
    file_of,
    payload,
    record,
    sample,
)

from wastedcores.trace import Trace
from wastedcores.trace.io import open_trace

#: include/uapi/linux/perf_event.h: PERF_TYPE_SOFTWARE with PERF_COUNT_SW_DUMMY; and bits of flags
SOFTWARE, DUMMY = 1, 9
COMM, TASK, SAMPLE_ID_ALL = 1 << 9, 1 << 13, 1 << 18
#: IP, TID, TIME, ID, CPU, PERIOD, RAW
WITH_ID = 0x5C7
SWITCH = payload("sched_switch", b"a", 5, 120, 1, b"b", 6, 120)


@pytest.fixture
def opened(tmp_path: Path):
    def made(data: bytes, *attributes: Attribute) -> Trace:
        path = tmp_path / "perf.data"
        path.write_bytes(file_of(data + ROUND, 2, attributes=attributes))
        return open_trace(path)

    return made


@pytest.mark.parametrize("more", [0, 1 << 3], ids=["", "ADDR"])
def test_the_identifier_is_where_the_fields_before_it_end(opened, more):
    # perf writes an ID and no IDENTIFIER if the samples of all events are alike (tools/perf/util/record.c: evlist__config)
    tracepoint = Attribute(sample_type=WITH_ID | more)
    dummy = Attribute(SOFTWARE, DUMMY, WITH_ID | more, SAMPLE_ID_ALL | COMM | TASK, 8)
    data = b""
    for i in range(3):
        body = struct.pack("<QIIQ", 0xFFFF, 5, 5, 1000 + i) + bytes(8 * (more > 0))
        body += struct.pack("<QIIQI", tracepoint.id, i % 2, 0, 1, len(SWITCH)) + SWITCH
        data += record(9, body)
    trace = opened(data, tracepoint, dummy)
    assert trace.events.select("ts_ns", "cpu").collect().rows() == [(1000, 0), (1001, 1), (1002, 0)]


def test_other_records_end_as_their_own_event_says(opened, monkeypatch):
    monkeypatch.delitem(FORMATS, "sched_process_exit")  # so that PERF_RECORD_EXIT counts
    # without -a (here with -D), the dummy event has no CPU in its samples, and the tracepoints do
    tracepoint = Attribute()
    without_cpu = SAMPLE_TYPE & ~(1 << 7)
    dummy = Attribute(SOFTWARE, DUMMY, without_cpu, SAMPLE_ID_ALL | COMM | TASK, 8)
    data = sample(1000, 1, 5, "sched_switch", b"a", 5, 120, 1, b"b", 6, 120)
    # PERF_RECORD_EXIT, _COMM and _LOST of the dummy event, a _LOST of the tracepoint
    data += record(4, struct.pack("<IIIIQ", 5, 1, 5, 1, 2000) + struct.pack("<IIQQ", 5, 5, 2000, 8))
    data += record(
        3, struct.pack("<II", 6, 6) + b"new".ljust(8, b"\0") + struct.pack("<IIQQ", 6, 6, 2100, 8)
    )
    data += record(2, struct.pack("<QQ", 8, 3) + struct.pack("<IIQQ", 6, 6, 2200, 8))
    data += record(2, struct.pack("<QQ", 7, 4) + struct.pack("<IIQIIQ", 6, 6, 2300, 1, 0, 7))
    data += sample(3000, 1, 6, "sched_wakeup", b"c", 9, 120, 1)
    trace = opened(data, tracepoint, dummy)
    told = trace.events.select("ts_ns", "kind", "cpu", "value", "by_comm").collect().rows()
    assert [row[:4] for row in told] == [
        (1000, "switch", 1, None),
        (2000, "exit", None, None),
        (2200, "lost", None, 3),
        (2300, "lost", 1, 4),
        (3000, "wakeup", 1, None),
    ]
    assert told[-1][4] == "new"


def test_a_buffer_that_keeps_the_newest_records_makes_the_window_shorter(opened):
    data = sample(1000, 1, 5, "sched_switch", b"a", 5, 120, 1, b"b", 6, 120)
    trace = opened(data, Attribute(flags=SAMPLE_ID_ALL | 1 << 27))
    assert (trace.header.overwritten, trace.header.lost) == ({-1: -1}, {-1: -1})
