"""Records of a ``perf.data`` file: find them, put them in order of time, take what stands around the fields.

The fields of the events are left to perffields_jit. Formats: include/uapi/linux/perf_event.h (enum perf_event_type,
PERF_SAMPLE_*), tools/perf/util/event.h and tools/perf/Documentation/perf.data-file-format.txt (6.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wastedcores.engine._jit import lean
from wastedcores.engine.bytes_jit import load16, load32, load64, prefetch
from wastedcores.engine.columns_jit import Columns as Columns  # noqa: PLC0414 - in signatures
from wastedcores.engine.text_jit import (
    MIGRATE,
    PLACED_WITHIN_NS,
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
#: a record that is lost events; and records that are no events of the trace
LOST, C_COMM, C_FORK = 12, 20, 21
N_CODES = 13

#: columns of a layout, offsets from the record's begin (-1: not there); RAW -1: after a call chain at CHAIN
L_TIME, L_CPU, L_TID, L_RAW, L_CHAIN, L_ID_TIME, L_ID_CPU = range(7)
N_LAYOUT = 7
#: more layouts than this do not fit a reference
MAX_LAYOUTS = 255

#: columns of a field: offset in the raw data, bytes (0: there is no such field), type
F_OFFSET, F_SIZE, F_TYPE = range(3)
T_INT, T_COMM, T_DYNAMIC, T_TEXT, T_TAIL = range(5)
MAX_FIELDS = 8
# places of the fields of a task's events (perf_data.py: _EVENTS)
TASK_COMM, TASK_PID, TASK_PRIO, TASK_CPU, TASK_SUCCESS = range(5)
MIGRATE_DEST = 4

#: PID_MAX_LIMIT, include/linux/threads.h
MAX_PID = 4 * 1024 * 1024
#: The largest CONFIG_NR_CPUS of x86 and powerpc (arch/x86/Kconfig, 6.12): a record that says more is damaged
MAX_CPUS = 8192
#: more lost events in one record than any machine makes
MAX_LOST = 1 << 48

#: so far ahead is memory asked for: the processor by itself stops at the end of a page
AHEAD_BYTES, AHEAD = 2048, 12

# what is wrong with a record
OK, TOO_SHORT, COMPRESSED, CUT, BAD_TIME, BAD_FIELDS, BAD_CPU, BAD_PRIO, BAD_LOST, NAMES_FULL = (
    range(10)
)
#: what the clock of a file keeps: newest stamp, newest at the last end of a round, at the one before
NEWEST, ROUND, SAFE = range(3)


@lean
def _raw(b: U8, at: Any, size: Any, layouts: I64, layout: Any) -> Any:
    """Place of the raw data's size in the sample at ``at``, or -1."""
    raw = layouts[layout, L_RAW]
    if raw < 0:
        chain = layouts[layout, L_CHAIN]
        if chain < 0 or chain + 8 > size:
            return -1
        length = np.int64(load64(b, at + chain))
        if length < 0 or length > size:
            return -1
        raw = chain + 8 + 8 * length
    if raw + 12 > size:
        return -1
    return at + raw


@lean
def _layout_of(identifier: np.uint64, ids: U64, which: I32, dense: bool) -> Any:
    """Layout of a sample by its identifier.

    ``ids`` are sorted, with ``which`` the layout of each; dense: the lowest only, and ``which`` by distance from it.
    """
    if dense:
        k = np.int64(identifier - ids[0])
        return which[k] if 0 <= k < which.size else -1
    k = np.searchsorted(ids, identifier)
    return which[k] if k < ids.size and ids[k] == identifier else -1


@lean
def index(
    b: U8,
    at: int,
    end: int,
    layouts: I64,
    ids: U64,
    which: I32,
    dense: bool,
    codes: NDArray[np.int8],
    ts: I64,
    ref: I64,
    n: Any,
    clock: I64,
    counts: I64,
) -> tuple[int, int, int]:
    """Find the records of interest.

    Parameters
    ----------
    at, end
        Where to begin, where the data end.
    layouts, ids, which, dense
        (layouts, N_LAYOUT); and as in :func:`_layout_of`, empty if there is only one layout.
    codes
        (65536,) tracepoint number -> event code, IGNORED: only counted.
    ts, ref
        Filled from ``n`` on: time, and ``place << 16 | layout << 8 | code``; stops when they are full.
    clock
        NEWEST, ROUND, SAFE: nothing yet to come is older than SAFE (tools/perf/util/ordered-events.c: OE_FLUSH__ROUND).
    counts
        (65536,) samples by tracepoint number, added to.

    Returns
    -------
    n, at, problem
        How many now; where to go on, or the record with the problem.
    """
    size: Any
    stamp: Any
    raw: Any
    newest = clock[NEWEST]
    tail = layouts[0, L_ID_TIME]
    problem = OK
    while at < end and n < ts.size:
        if at + 8 > end:
            problem = CUT
            break
        prefetch(b, at + AHEAD_BYTES)
        head = load64(b, at)
        kind = head & np.uint64(0xFFFFFFFF)
        size = np.int64(head >> np.uint64(48))
        if size < 8:
            problem = TOO_SHORT
            break
        if at + size > end:
            problem = CUT
            break
        if kind == R_SAMPLE:
            layout: Any = 0 if ids.size == 0 else _layout_of(load64(b, at + 8), ids, which, dense)
            raw = -1
            if layout >= 0 and layouts[layout, L_TIME] >= 0:
                raw = _raw(b, at, size, layouts, layout)
            if raw >= 0:
                number = np.uintp(load16(b, raw + 4))
                counts[number] += 1
                code = np.int64(codes[number])
                # written in any case, kept if wanted: which is which cannot be foretold, and a wrong guess costs more
                stamp = np.int64(load64(b, at + layouts[layout, L_TIME]))
                wanted = code >= 0
                row = np.uintp(n)
                ts[row] = stamp
                ref[row] = at << 16 | layout << 8 | (code & 255)
                n += wanted
                newest = max(newest, stamp if wanted else 0)
                if wanted and stamp < 0:
                    problem = BAD_TIME
                    break
        elif (kind == R_COMM or kind == R_FORK or kind == R_LOST) and size >= 24 - tail:
            stamp = np.int64(load64(b, at + size + tail)) if tail else 0
            if stamp < 0:
                problem = BAD_TIME
                break
            newest = max(newest, stamp)
            ts[n] = stamp
            ref[n] = at << 16 | (C_COMM if kind == R_COMM else (C_FORK if kind == R_FORK else LOST))
            n += 1
        elif kind == R_FINISHED_ROUND:
            clock[SAFE] = clock[ROUND]
            clock[ROUND] = newest
        elif kind == R_COMPRESSED or kind == R_COMPRESSED2:
            problem = COMPRESSED
            break
        elif kind == R_AUXTRACE:  # its data follow the record
            more = np.int64(load64(b, at + 8))
            if size < 16 or more < 0 or more > end - at - size:
                problem = CUT
                break
            size += more
        at += size
    clock[NEWEST] = newest
    return n, at, problem


#: (number of bytes that count) -> mask of a load
_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(9)], np.uint64)


@lean
def _until_zero(x: np.uint64) -> np.uint64:
    """The bytes of ``x`` below its first zero byte."""
    zero = (x - np.uint64(0x0101010101010101)) & ~x & np.uint64(0x8080808080808080)
    if zero == 0:
        return x
    return x & (((zero & (~zero + np.uint64(1))) >> np.uint64(7)) - np.uint64(1))


@lean
def comm_number(b: U8, at: int, room: Any, names: U64) -> int:
    """Number of the zero-terminated string of at most ``room`` and 16 bytes; -2 if the table of names is full."""
    low = _until_zero(load64(b, at) & _MASKS[min(room, 8)])
    high = np.uint64(0)
    if room > 8 and (low >> np.uint64(56)) != 0:
        high = _until_zero(load64(b, at + 8) & _MASKS[min(room - 8, 8)])
    return intern_words(low, high, names)


@lean
def whole_until(b: U8, ts: I64, ref: I64, n: int, layouts: I64, seen: NDArray[np.bool_]) -> int:
    """How many of the first ``n`` can be had without tearing a sched_waking from its sched_migrate_task.

    ``seen`` has room for every CPU. Records are in order.
    """
    seen[:] = False
    keep = n
    i = n - 1
    while i >= 0 and ts[n - 1] - ts[i] <= PLACED_WITHIN_NS:
        code = ref[i] & 255
        if code < LOST:
            cpu = np.int64(load32(b, (ref[i] >> 16) + layouts[ref[i] >> 8 & 255, L_CPU]))
            if cpu < seen.size and not seen[cpu]:
                seen[cpu] = True
                if code == WAKING:
                    keep = i
        i -= 1
    return keep


@lean
def int_at(b: U8, at: int) -> Any:
    """The signed number of 4 bytes at ``at``."""
    return np.int64(np.int32(load32(b, at)))


@lean
def arrange(
    b: U8,
    ts: I64,
    ref: I64,
    i: int,
    n: int,
    row: int,
    layouts: I64,
    fields: I64,
    needed: I64,
    place: bool,
    last: I64,
    comm_of: I32,
    names: U64,
    out: Columns,
    refs: I64,
    by: I32,
) -> tuple[int, int, int, int]:
    """Give every event its row, and fill what does not stand in its fields: time, CPU, who caused it.

    Parameters
    ----------
    ts, ref, i, n
        Records in order; those from ``i`` to ``n`` are taken.
    row
        The first free row.
    fields, needed
        (N_CODES, MAX_FIELDS, 3), and the bytes of raw data that each event's fields take.
    place, last
        Give sched_waking the CPU of the sched_migrate_task that follows (_wakings.py); ``last`` has room for every CPU.
    comm_of
        (MAX_PID + 1,) number of each thread's name plus 1; 0: not known.
    names
        The table of names of COMM records.
    refs, by
        (rows,) filled: ``place << 16 | code`` of each event's data; number of the name of the thread it happened in,
        plus 1. The place of a LOST is that of its record.

    Returns
    -------
    i, row, wakings, problem
        Where it stopped; after the last row; how many sched_waking there were; OK or what is wrong with record ``i``.
    """
    wakings = 0
    if place:
        last[:] = -1
    while i < n:
        r, k = (
            np.uintp(row),
            np.uintp(i),
        )  # no sign: numba need not ask whether to count from the end
        if i + AHEAD < n:
            prefetch(b, ref[k + np.uintp(AHEAD)] >> 16)
            prefetch(b, (ref[k + np.uintp(AHEAD)] >> 16) + 64)
        at, layout, what = ref[k] >> 16, np.uintp(ref[k] >> 8 & 255), np.uintp(ref[k] & 255)
        size = np.int64(load16(b, at + 6))
        if what == C_COMM:
            tid = np.int64(load32(b, at + 12))
            name = comm_number(b, at + 16, size - 16, names)
            if name < 0:
                return i, row, wakings, NAMES_FULL
            if tid <= MAX_PID:
                comm_of[tid] = name + 1
            i += 1
            continue
        if what == C_FORK:
            tid, parent = np.int64(load32(b, at + 16)), np.int64(load32(b, at + 20))
            if tid <= MAX_PID and parent <= MAX_PID:
                comm_of[tid] = comm_of[parent]
            i += 1
            continue
        if what == LOST:
            id_cpu = layouts[0, L_ID_CPU]
            if id_cpu:
                cpu = np.int64(load32(b, at + size + id_cpu))
                if cpu >= MAX_CPUS:
                    return i, row, wakings, BAD_CPU
                out.cpu[r] = cpu + 1
            if load64(b, at + 16) > np.uint64(MAX_LOST):
                return i, row, wakings, BAD_LOST
            out.ts_ns[r], refs[r] = ts[k], at << 16 | LOST
            row += 1
            i += 1
            continue
        raw = _raw(b, at, size, layouts, layout)
        data = raw + 4
        room = np.int64(load32(b, raw))
        if room > at + size - data or needed[what] > room:
            return i, row, wakings, BAD_FIELDS
        cpu = np.int64(load32(b, at + layouts[layout, L_CPU]))
        if cpu >= MAX_CPUS:
            return i, row, wakings, BAD_CPU
        tid = np.int64(np.int32(load32(b, at + layouts[layout, L_TID] + 4)))
        by[r] = comm_of[tid] if 0 <= tid <= MAX_PID else 0
        if what == WAKEUP or what == WAKEUP_NEW or what == WAKING or what == MIGRATE:
            out.by_pid[r] = tid
            f = fields[what]
            if what != MIGRATE:
                if (
                    f[TASK_SUCCESS, F_SIZE] and int_at(b, data + f[TASK_SUCCESS, F_OFFSET]) == 0
                ):  # 4.1: success=0, not put on a runqueue
                    i += 1
                    continue
                out.src_cpu[r] = cpu
            if place:
                pid = int_at(b, data + f[TASK_PID, F_OFFSET])
                out.pid[r] = pid
                before = last[cpu]
                if what == WAKING:
                    wakings += 1
                elif (
                    what == MIGRATE
                    and before >= 0
                    and refs[before] & 255 == WAKING
                    and out.pid[before] == pid
                    and ts[k] - out.ts_ns[before] <= PLACED_WITHIN_NS
                ):
                    to = int_at(b, data + f[MIGRATE_DEST, F_OFFSET])
                    if to < 0 or to >= MAX_CPUS:
                        return i, row, wakings, BAD_CPU
                    out.cpu[before] = to + 1
        else:
            out.cpu[r] = cpu
            if what == MARK:
                out.pid[r] = tid
        if place:
            last[cpu] = row
        out.ts_ns[r], refs[r] = ts[k], data << 16 | np.int64(what)
        row += 1
        i += 1
    return i, row, wakings, OK
