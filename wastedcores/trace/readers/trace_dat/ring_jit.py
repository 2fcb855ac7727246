"""Finds the events in the pages of ftrace's ring buffers, of which each CPU has one, in the order of the events' times.

Formats: kernel/trace/ring_buffer.c (4.1 to 6.18), as libtraceevent's kbuffer-parse.c and trace-cmd read them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import lean
from wastedcores.trace.readers.perf_data import records_jit as rec
from wastedcores.trace.readers.perf_data.records_jit import Formats, Records
from wastedcores.trace.readers.support import ring_page_jit as rj
from wastedcores.trace.readers.support.bytes_jit import load16, load32, load64
from wastedcores.trace.readers.support.ring_page_jit import event_at

U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]

#: Columns of a buffer: its CPU; the next page and the end of all pages; the next entry and the end of its page's entries; the
#: time so far; the page whose loss is still to be stated (-1: none); whether losses are stated (in a buffer that was overwritten,
#: only those after its first event are); the time and the reference of the event that is taken next (-1: no event is left).
CPU, PAGE, END, AT, STOP, NOW, LOSS, BEGUN, TS, REF = range(10)
N_COLUMNS = 10
#: An absolute time has 59 bits; the higher bits are taken from the previous time (rb_fix_abs_ts).
_STAMP_BITS = 59
#: common_type, common_flags, common_preempt_count and common_pid: every event has them.
_COMMON_BYTES = 8


@lean
def _open_page(b: U8, buffer: I64, page_bytes: int, start: int) -> int:
    """Go to the first entry of a buffer's next page."""
    page = buffer[PAGE]
    bound = min(page + page_bytes, buffer[END])
    buffer[PAGE] = bound
    if page + start > bound:
        return rec.BAD_PAGE
    commit = np.int64(load32(b, page + 8))
    buffer[NOW] = np.int64(load64(b, page))
    buffer[AT] = page + start
    buffer[STOP] = page + start + (commit & rj.PAGE_BYTES)
    if buffer[STOP] > bound:
        return rec.BAD_PAGE
    if commit & rj.MISSED_EVENTS and buffer[BEGUN]:
        if commit & rj.MISSED_STORED and buffer[STOP] + start - 8 > bound:  # the number follows
            return rec.BAD_PAGE
        buffer[LOSS] = page
    return rec.OK


@lean
def _wanted(b: U8, data: int, end: int, code: Any, formats: Formats) -> bool:
    """Return whether an event is wanted: not a wakeup that failed, nor a step of CPU hotplug that changes nothing for tasks."""
    success = formats.success[code]
    if success and data + success + 4 <= end:
        return load32(b, data + success) != 0
    if code == rec.HOTPLUG:
        f = formats.fields[code, 1, rec.F_OFFSET]
        if data + f + 8 > end:
            return True  # decoding refuses it
        function = np.int64(load64(b, data + f))
        return function == formats.hotplug[0] or function == formats.hotplug[1]
    return True


@lean
def _advance(b: U8, buffer: I64, page_bytes: int, formats: Formats, counts: I64) -> int:
    """Find a buffer's next event of interest, or loss; return the problem."""
    while True:
        at = buffer[AT]
        if at >= buffer[STOP]:
            if buffer[PAGE] >= buffer[END]:
                buffer[REF] = -1
                return rec.OK
            problem = _open_page(b, buffer, page_bytes, formats.page_start)
            if problem != rec.OK:
                return problem
            continue
        if at + 8 > buffer[STOP]:
            # an entry has 8 bytes or more, unless it is the padding at the end of a page
            if np.int64(load32(b, at)) != rj.PADDING_TYPE:
                return rec.TOO_SHORT
            buffer[AT] = buffer[STOP]
            continue
        word = np.int64(load32(b, at))
        kind, delta = word & ((1 << rj.TYPE_BITS) - 1), word >> rj.TYPE_BITS
        more = np.int64(load32(b, at + 4))
        if kind == rj.PADDING_TYPE and delta == 0:
            buffer[AT] = buffer[STOP]
            continue
        if kind == rj.TIME_STAMP:
            old = buffer[NOW]
            stamp = (more << rj.DELTA_BITS) + delta
            stamp |= old & ~((1 << _STAMP_BITS) - 1)
            buffer[NOW] = stamp if stamp >= old else stamp + (1 << _STAMP_BITS)
            buffer[AT] = at + 8
            continue
        if kind == rj.TIME_EXTEND:
            buffer[NOW] += (more << rj.DELTA_BITS) + delta
            buffer[AT] = at + 8
            continue
        if kind == rj.PADDING_TYPE:  # an event that was discarded
            buffer[NOW] += delta
            buffer[AT] = at + 4 + max(more, 4)
            continue
        stamp = buffer[NOW] + delta
        if stamp < 0:
            return rec.BAD_TIME
        if buffer[LOSS] >= 0:
            buffer[TS], buffer[REF] = stamp, buffer[LOSS] << rec.PLACE | buffer[CPU] << 8 | rec.LOST
            buffer[LOSS] = -1
            return rec.OK
        data, size = event_at(b, at)
        if size < _COMMON_BYTES or data + size > buffer[STOP]:
            return rec.TOO_SHORT
        buffer[NOW], buffer[AT] = stamp, data + (size + 3 & ~3)
        buffer[BEGUN] = 1
        number = np.uintp(load16(b, data))
        counts[number] += 1
        code = np.int64(formats.codes[number])
        if code >= 0 and _wanted(b, data, data + size, np.uintp(code), formats):
            buffer[TS], buffer[REF] = stamp, at << rec.PLACE | buffer[CPU] << 8 | code
            return rec.OK


@lean
def _sift(heap: I64, buffers: I64, place: int, size: int) -> None:
    """Restore the order of the heap below ``place``: the earliest event comes first, and of equal times the first buffer's."""
    row = heap[place]
    ts = buffers[row, TS]
    while 2 * place + 1 < size:
        below: Any = 2 * place + 1
        if below + 1 < size:
            one, other = heap[below], heap[below + 1]
            later = buffers[other, TS] - buffers[one, TS]
            below += later < 0 or (later == 0 and other < one)
        first = heap[below]
        if buffers[first, TS] > ts or (buffers[first, TS] == ts and first > row):
            break
        heap[place] = first
        place = below
    heap[place] = row


@lean
def begin(
    b: U8, buffers: I64, heap: I64, page_bytes: int, formats: Formats, counts: I64
) -> tuple[int, int]:
    """Find the first event of every buffer."""
    live = 0
    for row in range(buffers.shape[0]):
        heap[live] = row
        problem = _advance(b, buffers[row], page_bytes, formats, counts)
        if problem != rec.OK:
            return live, problem
        if buffers[row, REF] >= 0:
            live += 1
    for place in range(live // 2 - 1, -1, -1):
        _sift(heap, buffers, place, live)
    return live, rec.OK


@lean
def merge(
    b: U8,
    buffers: I64,
    heap: I64,
    live: int,
    page_bytes: int,
    formats: Formats,
    counts: I64,
    out: Records,
) -> tuple[int, int, int]:
    """Take events in the order of their times until ``out`` is full or all are taken."""
    n = 0
    while live and n < out.ts.size:
        row = heap[0]
        buffer = buffers[row]
        out.ts[n], out.ref[n] = buffer[TS], buffer[REF]
        n += 1
        problem = _advance(b, buffer, page_bytes, formats, counts)
        if problem != rec.OK:
            return n, live, problem
        if buffer[REF] < 0:
            live -= 1
            heap[0] = heap[live]
        _sift(heap, buffers, 0, live)
    return n, live, rec.OK
