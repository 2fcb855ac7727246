"""Records of a ``perf.data`` file: find them, then take the scheduler's samples apart, in order of time.

Formats: include/uapi/linux/perf_event.h (enum perf_event_type, PERF_SAMPLE_*), tools/perf/util/event.h and
tools/perf/Documentation/perf.data-file-format.txt (6.1). Rows are those of :data:`wastedcores.engine.text_jit.FIELDS`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wastedcores.engine._jit import jit
from wastedcores.engine.bytes_jit import load16, load32, load64
from wastedcores.engine.text_jit import (
    BY_COMM,
    BY_PID,
    CODE,
    COMM,
    CPU,
    CTX_CPU,
    LINE,
    MIGRATE,
    NO_NAME,
    NO_PRIO,
    NONE,
    PID,
    PREV_COMM,
    PREV_PRIO,
    PREV_STATE,
    PRIO,
    SRC_CPU,
    TS_NS,
    VALUE,
    WAKEUP,
    WAKEUP_NEW,
    WAKING,
    intern_words,
)

U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

# enum perf_event_type, include/uapi/linux/perf_event.h; 64 and above: tools/perf/util/event.h
R_LOST, R_COMM, R_FORK, R_SAMPLE, R_LOST_SAMPLES = 2, 3, 7, 9, 13
R_AUXTRACE, R_FINISHED_ROUND, R_COMPRESSED, R_COMPRESSED2 = 71, 68, 81, 83

# event codes beyond those of text_jit
EXEC, MARK, FREQUENCY = 9, 10, 11
IGNORED = -1
#: rows that are no events of the trace
C_COMM, C_FORK, C_LOST = 20, 21, 22

#: columns of a layout, offsets from the record's begin (-1: not there); RAW -1: after a call chain at CHAIN
L_TIME, L_CPU, L_TID, L_RAW, L_CHAIN, L_ID_TIME, L_ID_CPU = range(7)
N_LAYOUT = 7

#: columns of a field: where it goes (a column of FIELDS, -1: end), offset in the raw data, bytes, type
F_COLUMN, F_OFFSET, F_SIZE, F_TYPE = range(4)
T_INT, T_COMM, T_DYNAMIC, T_TEXT, T_TAIL = range(5)
MAX_FIELDS = 10
#: PID_MAX_LIMIT, include/linux/threads.h
MAX_PID = 4 * 1024 * 1024
#: beyond CONFIG_NR_CPUS of any architecture (8192 on x86): a sample that says more is damaged
MAX_CPU = 65535


@jit
def _raw(b: U8, at: int, layout: I64) -> int:
    """Place of the raw data's size in the sample at ``at``, or -1."""
    if layout[L_RAW] >= 0:
        return at + layout[L_RAW]
    if layout[L_CHAIN] < 0:
        return -1
    return at + layout[L_CHAIN] + 8 + 8 * np.int64(load64(b, at + layout[L_CHAIN]))


@jit
def _layout_of(b: U8, at: int, ids: U64, which: I32) -> int:
    """Layout of a sample by its identifier, which comes first when there are several layouts."""
    if ids.size == 0:
        return 0
    k = np.searchsorted(ids, load64(b, at + 8))
    if k < ids.size and ids[k] == load64(b, at + 8):
        return which[k]
    return -1


@jit
def index(
    b: U8,
    at: int,
    end: int,
    layouts: I64,
    ids: U64,
    which: I32,
    codes: NDArray[np.int8],
    place: I64,
    ts: I64,
    code: NDArray[np.int8],
    counts: I64,
) -> tuple[int, int, int, int]:
    """Find the records of interest.

    Parameters
    ----------
    at, end
        Where to begin, where the data end.
    layouts, ids, which
        (layouts, N_LAYOUT); sorted identifiers and the layout of each, empty if there is only one layout.
    codes
        (65536,) tracepoint number -> event code, IGNORED: only counted.
    place, ts, code
        Filled: offset, time and event code of each; stops when they are full.
    counts
        (65536,) samples by tracepoint number, added to.

    Returns
    -------
    n, at, rounds_n, problem
        How many; where to go on; how many of them lay before the last end of a round (0: none ended); 0, or
        1: a record that cannot be, at ``at``; 2: a compressed record; 3: cut short.
    """
    n = rounds = 0
    size: Any
    while at < end and n < place.size:
        if at + 8 > end:
            return n, at, rounds, 3
        kind = load32(b, at)
        size = np.int64(load16(b, at + 6))
        if size < 8:
            return n, at, rounds, 1
        if at + size > end:
            return n, at, rounds, 3
        if kind == R_SAMPLE:
            layout = _layout_of(b, at, ids, which)
            if (
                layout >= 0
                and layouts[layout, L_TIME] >= 0
                and max(layouts[layout, L_RAW], layouts[layout, L_CHAIN]) + 8 <= size
            ):
                raw = _raw(b, at, layouts[layout])
                if raw > 0 and raw + 12 <= at + size:
                    number = np.int64(load16(b, raw + 4))
                    counts[number] += 1
                    if codes[number] != IGNORED:
                        place[n], code[n] = at, codes[number]
                        ts[n] = load64(b, at + layouts[layout, L_TIME])
                        n += 1
        elif (kind == R_COMM or kind == R_FORK or kind == R_LOST) and size >= 24 - layouts[
            0, L_ID_TIME
        ]:
            place[n] = at
            ts[n] = load64(b, at + size + layouts[0, L_ID_TIME]) if layouts[0, L_ID_TIME] else 0
            code[n] = C_COMM if kind == R_COMM else (C_FORK if kind == R_FORK else C_LOST)
            n += 1
        elif kind == R_FINISHED_ROUND:
            rounds = n
        elif kind == R_COMPRESSED or kind == R_COMPRESSED2:
            return n, at, rounds, 2
        elif kind == R_AUXTRACE:  # its data follow the record
            more = np.int64(load64(b, at + 8))
            if more < 0 or more > end - at - size:
                return n, at, rounds, 3
            size += more
        at += size
    return n, at, rounds, 0


#: (number of bytes that count) -> mask of a load
_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(9)], np.uint64)


@jit
def _until_zero(x: np.uint64) -> np.uint64:
    """The bytes of ``x`` below its first zero byte."""
    zero = (x - np.uint64(0x0101010101010101)) & ~x & np.uint64(0x8080808080808080)
    if zero == 0:
        return x
    return x & (((zero & (~zero + np.uint64(1))) >> np.uint64(7)) - np.uint64(1))


@jit
def _comm(b: U8, at: int, room: Any, names: U64) -> int:
    """Number of the zero-terminated string of at most ``room`` and 16 bytes."""
    low = _until_zero(load64(b, at) & _MASKS[min(room, 8)])
    high = np.uint64(0)
    if room > 8 and (low >> np.uint64(56)) != 0:
        high = _until_zero(load64(b, at + 8) & _MASKS[min(room - 8, 8)])
    return intern_words(low, high, names)


@jit
def _int(b: U8, at: int, size: int) -> Any:
    if size == 4:
        return np.int64(np.int32(load32(b, at)))
    if size == 8:
        return np.int64(load64(b, at))
    if size == 2:
        return np.int64(np.int16(load16(b, at)))
    return np.int64(b[at])


@jit
def _take(b: U8, data: int, size: int, fields: I64, row: int, out: I64, names: U64) -> bool:
    """The fields of one event; False if they lie outside of its data."""
    for f in range(fields.shape[0]):
        column = fields[f, F_COLUMN]
        if column < 0:
            break
        at, room, kind = fields[f, F_OFFSET], fields[f, F_SIZE], fields[f, F_TYPE]
        if at + room > size:
            return False
        if kind == T_INT:
            out[column, row] = _int(b, data + at, room)
        elif kind == T_COMM:
            out[column, row] = _comm(b, data + at, room, names)
        else:  # a string elsewhere in the data: its offset and length, or all that follows
            if kind == T_TAIL:
                where, room = at, size - at
            else:
                word = load32(b, data + at)
                where, room = np.int64(word & 0xFFFF), np.int64(word >> 16)
            if where + room > size:
                return False
            if kind == T_DYNAMIC:
                out[column, row] = _comm(b, data + where, room, names)
            else:
                out[column, row] = ((data + where) << 16) | room
    return True


@jit
def decode(
    b: U8,
    order: I64,
    place: I64,
    ts: I64,
    code: NDArray[np.int8],
    layouts: I64,
    ids: U64,
    which: I32,
    fields: I64,
    comm_of: I32,
    names: U64,
    out: I64,
) -> tuple[int, int]:
    """Take records apart in the given order.

    Parameters
    ----------
    order
        (records,) which of ``place``, ``ts``, ``code``, by time.
    fields
        (codes, MAX_FIELDS, 4) of each event code.
    comm_of
        (MAX_PID + 1,) name of each thread, NO_NAME: not known yet; carried from call to call.
    names, out
        As in :func:`wastedcores.engine.text_jit.scan`; lost records have code C_LOST and their number in VALUE.

    Returns
    -------
    rows, bad
        ``bad`` is the place of a record that is damaged (fields outside of it, or a CPU that cannot be), or -1.
    """
    row = 0
    for i in range(order.size):
        k = order[i]
        at = place[k]
        what = code[k]
        size = np.int64(load16(b, at + 6))
        if what == C_COMM:
            tid = np.int64(load32(b, at + 12))
            if tid <= MAX_PID:
                comm_of[tid] = _comm(b, at + 16, size - 16, names)
            continue
        if what == C_FORK:
            tid, parent = np.int64(load32(b, at + 16)), np.int64(load32(b, at + 20))
            if tid <= MAX_PID and parent <= MAX_PID:
                comm_of[tid] = comm_of[parent]
            continue
        for c in range(out.shape[0]):
            out[c, row] = NONE
        out[COMM, row] = out[PREV_COMM, row] = out[BY_COMM, row] = out[PREV_STATE, row] = NO_NAME
        out[PRIO, row] = out[PREV_PRIO, row] = NO_PRIO
        out[LINE, row], out[TS_NS, row], out[CODE, row] = row, ts[k], what
        if what == C_LOST:
            id_cpu = layouts[0, L_ID_CPU]
            out[CPU, row] = np.int64(load32(b, at + size + id_cpu)) if id_cpu else -1
            if out[CPU, row] > MAX_CPU:
                return row, at
            out[CTX_CPU, row] = -1
            out[VALUE, row] = load64(b, at + 16)
            row += 1
            continue
        layout = layouts[_layout_of(b, at, ids, which)]
        raw = _raw(b, at, layout)
        cpu = np.int64(load32(b, at + layout[L_CPU]))
        tid = np.int64(np.int32(load32(b, at + layout[L_TID] + 4)))
        if cpu > MAX_CPU:
            return row, at
        out[CTX_CPU, row] = out[CPU, row] = cpu
        room = min(np.int64(load32(b, raw)), at + size - raw - 4)
        if not _take(b, raw + 4, room, fields[what], row, out, names):
            return row, at
        name = comm_of[tid] if 0 <= tid <= MAX_PID else NO_NAME
        if what == WAKEUP or what == WAKEUP_NEW or what == WAKING or what == MIGRATE:
            out[BY_PID, row], out[BY_COMM, row] = tid, name
            if what != MIGRATE:
                out[SRC_CPU, row] = cpu
                if out[VALUE, row] == 0:  # 4.1: success=0, not put on a runqueue
                    continue
        elif what == EXEC:
            out[COMM, row] = name
            if out[BY_PID, row] == out[PID, row]:
                out[BY_PID, row] = NONE
        elif what == MARK:
            out[PID, row], out[COMM, row] = tid, name
        row += 1
    return row, -1
