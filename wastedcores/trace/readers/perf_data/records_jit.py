"""Records of a ``perf.data`` file: find them, and learn from those that tell names of threads.

The events are left to perffields_jit. Formats: include/uapi/linux/perf_event.h (enum perf_event_type,
PERF_SAMPLE_*), tools/perf/util/event.h and tools/perf/Documentation/perf.data-file-format.txt (6.1).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import lean
from wastedcores.limits import PID_MAX_LIMIT
from wastedcores.trace.readers.support.bytes_jit import load16, load32, load64, prefetch
from wastedcores.trace.readers.support.names_jit import intern_words
from wastedcores.trace.readers.support.tracepoints import WAKING
from wastedcores.trace.readers.support.wakings_jit import PLACED_WITHIN_NS

U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U32 = NDArray[np.uint32]

# enum perf_event_type, include/uapi/linux/perf_event.h; 64 and above: tools/perf/util/event.h
R_LOST, R_COMM, R_FORK, R_SAMPLE, R_LOST_SAMPLES = 2, 3, 7, 9, 13
R_AUXTRACE, R_FINISHED_ROUND, R_COMPRESSED, R_COMPRESSED2 = 71, 68, 81, 83

# event codes beyond those of tracepoints.py
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

#: more lost events in one record than any machine makes
MAX_LOST = 1 << 48

#: so far ahead is memory asked for: the processor by itself stops at the end of a page
AHEAD_BYTES, AHEAD = 2048, 12

# what is wrong with a record
OK, TOO_SHORT, COMPRESSED, CUT, BAD_TIME, BAD_FIELDS, BAD_CPU, BAD_PRIO, BAD_LOST = range(9)
#: what is no fault of the record's: the table of names is full, or it has a name that was not known
NAMES_FULL, NAMES_NEW = 9, 10
#: what the clock of a file keeps: newest stamp, newest at the last end of a round, at the one before
NEWEST, ROUND, SAFE = range(3)


@lean
def raw_at(b: U8, at: Any, size: Any, layouts: I64, layout: Any) -> Any:
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


#: what the kernel maps at a page fault of a file (fault_around_bytes, mm/memory.c)
_FAULT_AROUND = 1 << 16


@lean
def touch(b: U8, at: int, end: int) -> int:
    """Have the bytes from ``at`` on mapped; a sum of some of them, so that they are really looked at."""
    total = 0
    for i in range(at, min(end, b.size), _FAULT_AROUND):
        total += b[i]
    return total


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
    success: I64,
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
    success
        (16,) by event code: where in its data stands whether a task was put on a runqueue (4.1: success=0, not put,
        then there was no event); 0: it does not say.
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
                raw = raw_at(b, at, size, layouts, layout)
            if raw >= 0:
                number = np.uintp(load16(b, raw + 4))
                counts[number] += 1
                code = np.int64(codes[number])
                # written in any case, kept if wanted: which is which cannot be foretold, and a wrong guess costs more
                stamp = np.int64(load64(b, at + layouts[layout, L_TIME]))
                wanted = code >= 0
                newest = max(newest, stamp if wanted else 0)
                told = success[np.uintp(code & 15)]
                if told and wanted and raw + 8 + told <= at + size:
                    wanted = load32(b, raw + 4 + told) != 0
                row = np.uintp(n)
                ts[row] = stamp
                ref[row] = at << 16 | layout << 8 | (code & 255)
                n += wanted
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


class Comms(NamedTuple):
    """What threads are called, at every event of a batch.

    Names are polars' numbers plus 1; 0: not known.
    """

    #: (PID_MAX_LIMIT + 1,) before the batch
    before: U32
    #: (PID_MAX_LIMIT + 1,) the latest change of a thread's name within the batch plus 1; 0: none
    latest: I32
    #: (changes,) the record since which it holds, the thread, the name, the change of that thread before plus 1
    since: I64
    tid: I32
    name: U32
    earlier: I32


@lean
def comm_at(comms: Comms, tid: Any, record: int) -> Any:
    """What thread ``tid`` is called at a record, plus 1; 0: not known."""
    if tid < 0 or tid > PID_MAX_LIMIT:
        return np.uint32(0)
    if comms.since.size:
        change = comms.latest[tid]
        while change:
            if comms.since[change - 1] <= record:
                return comms.name[change - 1]
            change = comms.earlier[change - 1]
    return comms.before[np.uintp(tid)]


@lean
def comm_records(ref: I64, i: int, n: int) -> int:
    """How many of the records from ``i`` to ``n`` tell names."""
    count = 0
    for k in range(
        i, n
    ):  # no other code is as high: one comparison, which the processor does for several at once
        count += (ref[k] & 255) >= C_COMM
    return count


@lean
def learn_comms(
    b: U8, ref: I64, i: int, n: int, now: U32, names: U64, found: int, out: Comms
) -> tuple[int, int, int]:
    """Note what the records of a batch tell about names.

    Parameters
    ----------
    ref, i, n
        Records in order; those from ``i`` to ``n`` are looked at.
    now
        (PID_MAX_LIMIT + 1,) number of each thread's name plus 1; 0: not known. Kept up to date.
    names
        The table of names.
    found, out
        Changes so far; filled, but for ``before``, with the numbers of ``names`` plus 1.

    Returns
    -------
    i, found, problem
        Where it stopped, and why: OK or NAMES_FULL.
    """
    while i < n:
        what = ref[i] & 255
        if what != C_COMM and what != C_FORK:
            i += 1
            continue
        at = ref[i] >> 16
        if what == C_COMM:
            tid = np.int64(load32(b, at + 12))
            size = np.int64(load16(b, at + 6))
            number = comm_number(b, at + 16, size - 16, names)
            if number < 0:
                return i, found, NAMES_FULL
            name = np.uint32(number + 1)
        else:
            tid, parent = np.int64(load32(b, at + 16)), np.int64(load32(b, at + 20))
            name = now[parent] if parent <= PID_MAX_LIMIT else np.uint32(0)
            tid = max(tid, parent) if parent > PID_MAX_LIMIT else tid
        if tid <= PID_MAX_LIMIT:
            now[tid] = name
            out.since[found], out.tid[found], out.name[found] = i, tid, name
            out.earlier[found] = out.latest[tid]
            found += 1
            out.latest[tid] = found
        i += 1
    return i, found, OK


@lean
def forget_comms(comms: Comms) -> None:
    """The batch is done: what its records told holds from here on."""
    for change in range(comms.since.size):
        comms.before[comms.tid[change]] = comms.name[change]
        comms.latest[comms.tid[change]] = 0
