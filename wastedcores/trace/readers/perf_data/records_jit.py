"""Finds the records of a ``perf.data`` file, and learns the names of threads from the records that state names.

The events themselves are decoded by ``fields_jit``. Formats: include/uapi/linux/perf_event.h (enum perf_event_type,
PERF_SAMPLE_*), tools/perf/util/event.h and tools/perf/Documentation/perf.data-file-format.txt (6.1).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import lean
from wastedcores.limits import PID_MAX_LIMIT
from wastedcores.trace.readers.support.bytes_jit import load16, load32, load64
from wastedcores.trace.readers.support.names_jit import intern_words
from wastedcores.trace.readers.support.sched_waking_jit import PLACED_WITHIN_NS
from wastedcores.trace.readers.support.tracepoints import WAKING

U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U32 = NDArray[np.uint32]

# enum perf_event_type, include/uapi/linux/perf_event.h; 64 and above: tools/perf/util/event.h
R_LOST, R_COMM, R_EXIT, R_FORK, R_SAMPLE, R_LOST_SAMPLES = 2, 3, 4, 7, 9, 13
R_AUXTRACE, R_FINISHED_ROUND, R_COMPRESSED, R_COMPRESSED2 = 71, 68, 81, 83
#: PERF_RECORD_MISC_LOST_SAMPLES_BPF, tools/lib/perf/include/perf/event.h: a filter dropped the samples on purpose.
DROPPED_BY_FILTER = 1 << 15

# Codes of events beyond those of tracepoints.py.
EXEC, MARK, FREQUENCY = 9, 10, 11
IGNORED = -1
#: Codes of records that are not samples: lost events, and two kinds of records that only state names of threads.
LOST, C_COMM, C_FORK = 12, 20, 21
#: A step of CPU hotplug (cpuhp_enter) that decides whether the CPU may run tasks. Only trace.dat has the symbols to recognise it.
HOTPLUG = 13
#: A PERF_RECORD_EXIT. It becomes an event if the file has no sched_process_exit; only then does ``kinds`` have a kind for it.
ENDED = 14
N_CODES = 15

#: Columns of a layout. Most are offsets from the beginning of a sample (-1: absent). L_RAW is -1 if a call chain at L_CHAIN comes
#: before the raw data. L_ID_TIME and L_ID_CPU are offsets from the end of a record that is not a sample (0: absent).
L_TIME, L_CPU, L_TID, L_RAW, L_CHAIN, L_ID_TIME, L_ID_CPU = range(7)
N_LAYOUT = 7
#: A reference to a record is ``place << PLACE | which << 8 | code``. Here ``which`` is the layout or, in the pages of a ring
#: buffer, the CPU.
PLACE, WHICH = 21, (1 << 13) - 1
#: The most layouts of a file; perf makes only a few.
MAX_LAYOUTS = 255

#: Columns of a field: offset in the raw data, number of bytes (0: the field is absent), type.
F_OFFSET, F_SIZE, F_TYPE = range(3)
T_INT, T_COMM, T_DYNAMIC, T_TAIL = range(4)
MAX_FIELDS = 8
# Places of the fields of events about one task (events.py: EVENTS).
TASK_COMM, TASK_PID, TASK_PRIO, TASK_CPU = range(4)
MIGRATE_DEST = 4

#: No machine loses this many events between two records.
MAX_LOST = 1 << 48

# Problems of a record.
OK, TOO_SHORT, COMPRESSED, CUT, BAD_TIME, BAD_FIELDS, BAD_CPU, BAD_PRIO, BAD_LOST = range(9)
# These are not problems of the record: the table of names is full, or the record has a name that has no code of polars yet.
NAMES_FULL, NAMES_NEW = 9, 10
#: A page of the ring buffer is damaged.
BAD_PAGE = 11
#: Indices of a scan's state: the newest time now, at the end of the last round, and at the end of the round before; and the sum
#: of all PERF_RECORD_LOST_SAMPLES.
NEWEST, ROUND, SAFE, LOST_SAMPLES = range(4)


class Formats(NamedTuple):
    """The layout of the samples and the tracepoints of one file."""

    #: (layouts, N_LAYOUT): see L_TIME and following
    layouts: I64
    #: sorted identifiers of samples, or only the lowest identifier if ``dense``; empty if there is only one layout
    ids: U64
    #: layout of each identifier; if ``dense``, indexed by the distance from the lowest identifier (-1: no such identifier)
    which: I32
    dense: bool
    #: place of the identifier in a sample: PERF_SAMPLE_IDENTIFIER comes first, PERF_SAMPLE_ID after IP, TID, TIME and ADDR
    id_at: int
    #: whether a PERF_SAMPLE_IDENTIFIER is the last word of each record that is not a sample
    id_last: bool
    #: layout of the event to which the records about names and ends of threads belong
    tracking: int
    #: (65536,) number of a tracepoint -> event code; IGNORED: the event is only counted
    codes: NDArray[np.int8]
    #: (16,) by event code: the offset of the field ``success``; 0: there is no such field. If the field's value is 0 (in 4.1),
    #: the task was not put on a runqueue, and the event does not count.
    success: I64
    #: (N_CODES, MAX_FIELDS, 3) by event code: see F_OFFSET and following
    fields: I64
    #: (N_CODES,) number of bytes of raw data up to the end of the last field
    needed: I64
    #: (N_CODES,) numbers of the kinds in the schema
    kinds: U8
    #: polars' code of the text for each value of prev_state; the length is a power of two
    states: U32
    #: whether sched_waking events get the CPU of the sched_migrate_task that follows (support/sched_waking.py)
    place: bool
    #: 0 if the records are perf's samples; in pages of ftrace's ring buffer, the place in a page at which its events begin
    page_start: int
    #: the addresses of sched_cpu_activate() and sched_cpu_deactivate()
    hotplug: tuple[int, int]


class Records(NamedTuple):
    """Times of records, and references to them (:data:`PLACE`): (records,) each."""

    ts: I64
    ref: I64


@lean
def raw_at(b: U8, at: Any, size: Any, layouts: I64, layout: Any) -> Any:
    """Return the place in the sample at ``at`` where the size of its raw data stands, or -1."""
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
    """Return the layout of the samples with an identifier, or -1 (see :class:`Formats`)."""
    if dense:
        k = np.int64(identifier - ids[0])
        return which[k] if 0 <= k < which.size else -1
    k = np.searchsorted(ids, identifier)
    return which[k] if k < ids.size and ids[k] == identifier else -1


@lean
def _tail_layout(b: U8, at: Any, size: Any, formats: Formats) -> Any:
    """Return the layout of the end of a record that is not a sample; this is the layout of the event to which it belongs."""
    if formats.ids.size and formats.id_last and size >= 16:
        last = load64(b, at + size - 8)
        layout = _layout_of(last, formats.ids, formats.which, formats.dense)
        if layout >= 0:
            return layout
    return np.int64(formats.tracking)  # perf makes some records itself, which end with zeros


@lean
def index(
    b: U8, at: int, end: int, formats: Formats, out: Records, state: I64, counts: I64
) -> tuple[int, int, int]:
    """Find the records of interest from ``at`` on, until ``out`` is full or the data end at ``end``."""
    size: Any
    stamp: Any
    raw: Any
    layouts, ids, codes, ts, ref = formats.layouts, formats.ids, formats.codes, out.ts, out.ref
    newest = state[NEWEST]
    n: Any = 0
    problem = OK
    while at < end and n < ts.size:
        if at + 8 > end:
            problem = CUT
            break
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
            layout: Any = 0
            if ids.size:
                layout = -1
                if size >= formats.id_at + 8:
                    identifier = load64(b, at + formats.id_at)
                    layout = _layout_of(identifier, ids, formats.which, formats.dense)
            raw = -1
            if layout >= 0 and layouts[layout, L_TIME] >= 0:
                raw = raw_at(b, at, size, layouts, layout)
            if raw >= 0:
                number = np.uintp(load16(b, raw + 4))
                counts[number] += 1
                code = np.int64(codes[number])
                # Every record is written, but only a wanted one is kept, because a branch would often be mispredicted.
                stamp = np.int64(load64(b, at + layouts[layout, L_TIME]))
                wanted = code >= 0
                newest = max(newest, stamp if wanted else 0)
                success = formats.success[np.uintp(code & 15)]
                if success and wanted and raw + 8 + success <= at + size:
                    wanted = load32(b, raw + 4 + success) != 0
                row = np.uintp(n)
                ts[row] = stamp
                ref[row] = at << PLACE | layout << 8 | (code & 255)
                n += wanted
                if wanted and stamp < 0:
                    problem = BAD_TIME
                    break
        elif kind == R_COMM or kind == R_FORK or kind == R_LOST or kind == R_EXIT:
            layout = _tail_layout(b, at, size, formats)
            tail = layouts[layout, L_ID_TIME]
            ended = kind == R_EXIT
            if size < 24 - tail or (ended and not (tail and formats.kinds[ENDED])):
                at += size
                continue
            stamp = np.int64(load64(b, at + size + tail)) if tail else 0
            if stamp < 0:
                problem = BAD_TIME
                break
            newest = max(newest, stamp)
            ts[n] = stamp
            what = C_COMM if kind == R_COMM else (C_FORK if kind == R_FORK else LOST)
            ref[n] = at << PLACE | layout << 8 | (ENDED if ended else what)
            n += 1
        elif kind == R_LOST_SAMPLES and size >= 16:
            if load64(b, at + 8) > np.uint64(MAX_LOST):
                problem = BAD_LOST
                break
            if load16(b, at + 4) & DROPPED_BY_FILTER == 0:
                state[LOST_SAMPLES] += np.int64(load64(b, at + 8))
        elif kind == R_FINISHED_ROUND:
            state[SAFE] = state[ROUND]
            state[ROUND] = newest
        elif kind == R_COMPRESSED or kind == R_COMPRESSED2:
            problem = COMPRESSED
            break
        elif kind == R_AUXTRACE:  # the record's data follow after the record
            more = np.int64(load64(b, at + 8))
            if size < 16 or more < 0 or more > end - at - size:
                problem = CUT
                break
            size += more
        at += size
    state[NEWEST] = newest
    return n, at, problem


#: Number of bytes to keep -> mask of a load.
_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(9)], np.uint64)


@lean
def _until_zero(x: np.uint64) -> np.uint64:
    """Return the bytes of ``x`` below its first zero byte."""
    zero = (x - np.uint64(0x0101010101010101)) & ~x & np.uint64(0x8080808080808080)
    if zero == 0:
        return x
    return x & (((zero & (~zero + np.uint64(1))) >> np.uint64(7)) - np.uint64(1))


@lean
def _last_comm_number(b: U8, at: int, room: Any, names: U64) -> int:
    """Do what :func:`comm_number` does for a string in the last bytes of the file, where 16 bytes cannot be loaded at once."""
    low = high = np.uint64(0)
    for i in range(min(room, 16, b.size - at)):
        if b[at + i] == 0:
            break
        if i < 8:
            low |= np.uint64(b[at + i]) << np.uint64(8 * i)
        else:
            high |= np.uint64(b[at + i]) << np.uint64(8 * i - 64)
    return intern_words(low, high, names)


@lean
def comm_number(b: U8, at: int, room: Any, names: U64) -> int:
    """Return the number of the zero-terminated string at ``at``, of at most ``room`` and 16 bytes; -2 if the table is full."""
    if at + 16 > b.size:
        return _last_comm_number(b, at, room, names)
    low = _until_zero(load64(b, at) & _MASKS[min(room, 8)])
    high = np.uint64(0)
    if room > 8 and (low >> np.uint64(56)) != 0:
        high = _until_zero(load64(b, at + 8) & _MASKS[min(room - 8, 8)])
    return intern_words(low, high, names)


@lean
def whole_until(
    b: U8, records: Records, i: int, n: int, formats: Formats, seen: NDArray[np.bool_]
) -> int:
    """Return the place, at ``n`` or before, up to which the records from ``i`` on can be taken.

    A cut there separates no sched_waking from its sched_migrate_task. ``seen`` is scratch memory with a flag per CPU.
    """
    ts, ref = records.ts, records.ref
    seen[:] = False
    keep = n
    k = n - 1
    while k >= i and ts[n - 1] - ts[k] <= PLACED_WITHIN_NS:
        code = ref[k] & 255
        if code < LOST:
            cpu = ref[k] >> 8 & WHICH
            if formats.page_start == 0:
                cpu = np.int64(load32(b, (ref[k] >> PLACE) + formats.layouts[cpu, L_CPU]))
            if cpu < seen.size and not seen[cpu]:
                seen[cpu] = True
                if code == WAKING:
                    keep = k
        k -= 1
    return keep


class Comms(NamedTuple):
    """The names that threads have at every record of a batch, as polars' codes plus 1; 0 if a name is not known."""

    #: (PID_MAX_LIMIT + 1,) names before the batch
    before: U32
    #: (PID_MAX_LIMIT + 1,) 1 + the number of a thread's latest change of name within the batch; 0: none
    latest: I32
    #: (changes,) the record of each change, its thread, its name, and 1 + the number of that thread's previous change
    since: I64
    tid: I32
    name: U32
    earlier: I32


@lean
def comm_at(comms: Comms, tid: Any, record: int) -> Any:
    """Return the name that a thread has at a record, in the form of :class:`Comms`."""
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
    """Count the records from ``i`` to ``n`` that state names of threads."""
    count = 0
    # all other codes are lower, so one comparison is enough, and the compiler can vectorise the loop
    for k in range(i, n):
        count += (ref[k] & 255) >= C_COMM
    return count


@lean
def learn_comms(
    b: U8, ref: I64, i: int, now: U32, names: U64, found: int, out: Comms
) -> tuple[int, int, int]:
    """Collect the changes of names in the records of a batch from ``i`` on."""
    while i < ref.size:
        what = ref[i] & 255
        if what != C_COMM and what != C_FORK:
            i += 1
            continue
        at = ref[i] >> PLACE
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
def end_batch(comms: Comms) -> None:
    """Make the last names of a batch the names before the next batch."""
    for change in range(comms.since.size):
        comms.before[comms.tid[change]] = comms.name[change]
        comms.latest[comms.tid[change]] = 0
