"""Files of several events, whose samples and other records need not have the same layout."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from support.perf_file import ROUND, Attribute, file_of, payload, record

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
