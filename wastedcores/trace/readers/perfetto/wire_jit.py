"""Reads protobuf's wire format, and finds the packets of a Perfetto trace.

Formats: protobuf.dev/programming-guides/encoding; protos/perfetto/trace/trace_packet.proto and
ftrace/ftrace_event_bundle.proto (v58).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import lean

U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]

#: Columns of the table of packets. BEFORE_NS is the end of the CPU's previous bundle, which need not be in the file; 0: unknown.
AT, SIZE, WHAT, BUNDLE, BUNDLE_SIZE, SEQUENCE, CPU, FIRST_NS, CLOCK, BEFORE_NS = range(10)
N_COLUMNS = 10
#: Bits of WHAT: the packet has ftrace events; has facts; has packed packets; packets before it were dropped; events of its CPU
#: were lost before it; in it, the rest of a page of the kernel's buffer was skipped; it has statistics of ftrace or of the
#: service; it comes from another machine than the service, such as a guest (then no other bit is set).
EVENTS, FACTS, PACKED, DROPPED, LOST, SKIPPED, STATS, FOREIGN = 1, 2, 4, 8, 16, 32, 64, 128
OK, CUT, BAD, FULL = 0, 1, 2, 3

#: Fields of a packet: ftrace_events; sequence; dropped; compressed_packets, zstd_compressed_packets; machine_id. The fields with
#: facts are trace_config, system_info and clock_snapshot; those with statistics are ftrace_stats and trace_stats.
_BUNDLE, _SEQ, _DROP, _ZLIB, _ZSTD, _MACHINE = 1, 10, 42, 50, 133, 98
_CONFIG, _SYSTEM, _CLOCKS, _FTRACE_STATS, _TRACE_STATS = 33, 45, 6, 34, 35


@lean
def varint(b: U8, at: int, end: int) -> tuple[Any, int]:
    """Read a number: (value, place after it); the place is -1 if it is cut or too long."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while at < end and shift < np.uint64(70):
        byte = np.uint64(b[at])
        at += 1
        if shift < np.uint64(64):
            value |= (byte & np.uint64(127)) << shift
        if byte < np.uint64(128):
            return np.int64(value), at
        shift += np.uint64(7)
    return 0, -1


@lean
def field(b: U8, at: int, end: int) -> tuple[int, int, int, int]:
    """Read a field: (number, its value or the place of its bytes, number of its bytes or -1, place after it).

    The place after it is -1 if there is no field.
    """
    tag, at = varint(b, at, end)
    if at < 0 or tag < 8:
        return 0, 0, 0, -1
    kind, number = tag & 7, tag >> 3
    if kind == 0:
        value, at = varint(b, at, end)
        return number, value, -1, at
    if kind == 2:
        size, at = varint(b, at, end)
        if at < 0 or size < 0 or size > end - at:
            return number, 0, 0, -1
        return number, at, size, at + size
    skip = 8 if kind == 1 else 4
    if (kind != 1 and kind != 5) or skip > end - at:
        return number, 0, 0, -1
    return number, at, -1, at + skip


@lean
def _first(b: U8, at: int, size: int, inner: int) -> int:
    """Return the number in field ``inner`` of a message or, if ``inner`` is 0, the first of a packed field; -1: there is none."""
    end = at + size
    if inner == 0:
        value, after = varint(b, at, end)
        return value if after >= 0 else -1
    while at < end:
        number, value, length, at = field(b, at, end)
        if at < 0:
            return -1
        if number == inner and length < 0:
            return value
    return -1


@lean
def _bundle(b: U8, row: I64) -> bool:
    """Learn the CPU, the first time and the clock of a bundle."""
    at, end = row[BUNDLE], row[BUNDLE] + row[BUNDLE_SIZE]
    first = -1
    while at < end:
        number, value, size, at = field(b, at, end)
        if at < 0:
            return False
        if number == 1 and size < 0:
            row[CPU] = value
        elif number == 3 and size < 0:
            row[WHAT] |= LOST if value else 0
        elif number == 5 and size < 0:
            row[CLOCK] = value
        elif number == 2 and size >= 0 and first < 0:
            first = _first(b, value, size, 1)
        elif number == 4 and size >= 0:
            inner_at, inner_end = value, value + size
            while inner_at < inner_end:
                which, place, length, inner_at = field(b, inner_at, inner_end)
                if inner_at < 0:
                    return False
                if which in (1, 7) and length > 0:
                    ns = _first(b, place, length, 0)
                    if ns >= 0 and (first < 0 or ns < first):
                        first = ns
        elif number == 8:
            row[WHAT] |= SKIPPED
        elif (number == 9 or number == 10) and size < 0:
            row[BEFORE_NS] = value
    row[FIRST_NS] = first
    return True


@lean
def packets(b: U8, at: int, end: int, table: I64) -> tuple[int, int, int]:
    """Find packets."""
    n = 0
    while at < end:
        if n == table.shape[0]:
            return n, at, FULL
        begin = at
        if b[at] != 0x0A:
            return n, begin, BAD
        size, at = varint(b, at + 1, end)
        if at < 0 or size < 0 or size > end - at:
            return n, begin, CUT
        row = table[n]
        row[:] = 0
        row[AT], row[SIZE], row[FIRST_NS] = at, size, -1
        stop, foreign = at + size, False
        while at < stop:
            number, value, length, at = field(b, at, stop)
            if at < 0:
                return n, begin, BAD
            if number == _BUNDLE and length >= 0:
                row[WHAT] |= EVENTS
                row[BUNDLE], row[BUNDLE_SIZE] = value, length
            elif number == _SEQ and length < 0:
                row[SEQUENCE] = value
            elif number == _DROP and length < 0:
                row[WHAT] |= DROPPED if value else 0
            elif (number == _ZLIB or number == _ZSTD) and length >= 0:
                row[WHAT] |= PACKED
            elif number == _CONFIG or number == _SYSTEM or number == _CLOCKS:
                row[WHAT] |= FACTS
            elif number == _FTRACE_STATS or number == _TRACE_STATS:
                row[WHAT] |= STATS
            elif number == _MACHINE and length < 0:
                foreign = value != 0
        if foreign:
            row[WHAT] = FOREIGN
        if row[WHAT] & EVENTS and not _bundle(b, row):
            return n, begin, BAD
        n += 1
    return n, at, OK
