"""Events of ``perf.data``, written into event columns.

Formats: include/trace/events/sched.h and power.h (4.1 to 6.18), by the offsets that the file itself gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import lean
from wastedcores.limits import MAX_CPUS
from wastedcores.trace.readers.perf_data.records_jit import (
    AHEAD,
    BAD_CPU,
    BAD_FIELDS,
    BAD_LOST,
    BAD_PRIO,
    EXEC,
    F_OFFSET,
    F_SIZE,
    F_TYPE,
    FREQUENCY,
    L_CPU,
    L_ID_CPU,
    L_TID,
    LOST,
    MARK,
    MAX_LOST,
    MIGRATE_DEST,
    NAMES_FULL,
    NAMES_NEW,
    OK,
    T_COMM,
    T_TAIL,
    TASK_COMM,
    TASK_CPU,
    TASK_PID,
    TASK_PRIO,
    comm_at,
    comm_number,
    raw_at,
)
from wastedcores.trace.readers.perf_data.records_jit import Comms as Comms  # noqa: PLC0414 - in signatures
from wastedcores.trace.readers.support.bytes_jit import load16, load32, load64, prefetch
from wastedcores.trace.readers.support.columns_jit import (
    HAS_BY_COMM,
    HAS_BY_PID,
    HAS_COMM,
    HAS_CPU,
    HAS_PID,
    HAS_PREV_COMM,
    HAS_PREV_PID,
    HAS_PREV_PRIO,
    HAS_PREV_STATE,
    HAS_PRIO,
    HAS_SRC_CPU,
    HAS_VALUE,
)
from wastedcores.trace.readers.support.columns_jit import Columns as Columns  # noqa: PLC0414 - in signatures
from wastedcores.trace.readers.support.tracepoints import (
    CPU_IDLE,
    EXIT,
    FORK,
    MIGRATE,
    SWITCH,
    WAKEUP,
    WAKEUP_NEW,
    WAKING,
)
from wastedcores.trace.readers.support.wakings_jit import PLACED_WITHIN_NS

U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

_SWITCHED = np.uint8(
    HAS_CPU
    | HAS_PID
    | HAS_COMM
    | HAS_PRIO
    | HAS_PREV_PID
    | HAS_PREV_COMM
    | HAS_PREV_PRIO
    | HAS_PREV_STATE
)
_TASK = np.uint8(HAS_CPU | HAS_PID | HAS_COMM | HAS_PRIO)
_MOST_PRIO, _LEAST_PRIO = 2**15 - 1, -(2**15)


@lean
def _int(b: U8, data: int, f: I64) -> Any:
    return np.int64(np.int32(load32(b, data + f[F_OFFSET])))


@lean
def _string(b: U8, data: int, f: I64) -> tuple[Any, Any]:
    """Where a string lies and how long it may be; length -1 if that is outside of the event's data."""
    room = np.int64(load32(b, data - 4))
    if f[F_TYPE] == T_COMM:
        return data + f[F_OFFSET], f[F_SIZE]
    if f[F_TYPE] == T_TAIL:  # all that follows
        return data + f[F_OFFSET], room - f[F_OFFSET]
    word = load32(b, data + f[F_OFFSET])  # __data_loc: offset and length
    where, length = np.int64(word & 0xFFFF), np.int64(word >> 16)
    return data + where, (length if where + length <= room else -1)


@lean
def _name(b: U8, data: int, f: I64, names: U64) -> int:
    """Number of the name; -1: it lies outside of the data; -2: the table is full."""
    at, length = _string(b, data, f)
    if length < 0:
        return -1
    return comm_number(b, at, length, names)


@lean
def decode(
    b: U8,
    ts: I64,
    ref: I64,
    i: int,
    end: int,
    row: int,
    layouts: I64,
    fields: I64,
    needed: I64,
    kinds: U8,
    place: bool,
    last: I64,
    comms: Comms,
    names: U64,
    known: U32,
    states: U32,
    out: Columns,
    texts: I64,
) -> tuple[int, int, int, int]:
    """Write the events among the records ``i`` to ``end`` into the rows from ``row`` on.

    Parameters
    ----------
    ts, ref
        Records in order of time, as :func:`~wastedcores.trace.readers.perf_data.records_jit.index` found them.
    layouts, fields, needed, kinds
        (layouts, N_LAYOUT); by code: (N_CODES, MAX_FIELDS, 3), the bytes of raw data that the fields take, and the
        physical value of the kind.
    place, last
        Give sched_waking the CPU of the sched_migrate_task that follows (_wakings.py); ```last`` (2, CPUs) has
        the record and the row of each CPU's last event, or -1.
    names, known
        The table of names of events, grows; polars' numbers of them, where they are known.
    states
        What a prev_state becomes; a power of two of them.
    texts
        (rows,) filled for EXEC and MARK: ``place << 16 | length`` of their text.

    Returns
    -------
    i, row, wakings, problem
        Where it stopped, and why; how many sched_waking there were.
    """
    wakings = 0
    mask = np.uint32(states.size - 1)
    while i < end:
        r, k = (
            np.uintp(row),
            np.uintp(i),
        )  # no sign: numba need not ask whether to count from the end
        if i + AHEAD < end:
            prefetch(b, ref[k + np.uintp(AHEAD)] >> 16)
            prefetch(b, (ref[k + np.uintp(AHEAD)] >> 16) + 64)
            prefetch(b, (ref[k + np.uintp(AHEAD)] >> 16) + 128)
        at, layout, what = ref[k] >> 16, np.uintp(ref[k] >> 8 & 255), np.uintp(ref[k] & 255)
        if what > LOST:  # no event; it told a name
            i += 1
            continue
        size = np.int64(load16(b, at + 6))
        out.ts_ns[r] = ts[k]
        out.kind[r] = kinds[what]
        low = np.uint8(0)
        high = np.uint8(0)
        if what == LOST:
            id_cpu = layouts[0, L_ID_CPU]
            if id_cpu:
                cpu = np.int64(load32(b, at + size + id_cpu))
                if cpu >= MAX_CPUS:
                    return i, row, wakings, BAD_CPU
                out.cpu[r] = cpu
                low = np.uint8(HAS_CPU)
            if load64(b, at + 16) > np.uint64(MAX_LOST):
                return i, row, wakings, BAD_LOST
            out.value[r] = np.int64(load64(b, at + 16))
            out.low[r], out.high[r] = low, np.uint8(HAS_VALUE)
            row += 1
            i += 1
            continue
        raw = raw_at(b, at, size, layouts, layout)
        data = raw + 4
        room = np.int64(load32(b, raw))
        if room > at + size - data or needed[what] > room:
            return i, row, wakings, BAD_FIELDS
        cpu = np.int64(load32(b, at + layouts[layout, L_CPU]))
        if cpu >= MAX_CPUS:
            return i, row, wakings, BAD_CPU
        tid = np.int64(np.int32(load32(b, at + layouts[layout, L_TID] + 4)))
        f = fields[what]
        if what == SWITCH:
            name, prev = _name(b, data, f[4], names), _name(b, data, f[0], names)
            if max(name, prev) >= known.size or min(name, prev) < 0:
                return i, row, wakings, _unknown(min(name, prev))
            prio, prev_prio = _int(b, data, f[6]), _int(b, data, f[2])
            if min(prio, prev_prio) < _LEAST_PRIO or max(prio, prev_prio) > _MOST_PRIO:
                return i, row, wakings, BAD_PRIO
            out.cpu[r] = cpu
            out.comm[r], out.prev_comm[r] = known[np.uintp(name)], known[np.uintp(prev)]
            out.prio[r], out.prev_prio[r] = prio, prev_prio
            out.pid[r], out.prev_pid[r] = _int(b, data, f[5]), _int(b, data, f[1])
            out.prev_state[r] = states[np.uintp(load32(b, data + f[3, F_OFFSET]) & mask)]
            low = _SWITCHED
        elif (
            what == WAKEUP
            or what == WAKEUP_NEW
            or what == WAKING
            or what == MIGRATE
            or what == EXIT
        ):
            name = _name(b, data, f[TASK_COMM], names)
            if name < 0 or name >= known.size:
                return i, row, wakings, _unknown(name)
            prio = _int(b, data, f[TASK_PRIO])
            if prio < _LEAST_PRIO or prio > _MOST_PRIO:
                return i, row, wakings, BAD_PRIO
            pid = _int(b, data, f[TASK_PID])
            out.comm[r], out.prio[r], out.pid[r] = known[np.uintp(name)], prio, pid
            low = _TASK
            to = cpu
            if what != EXIT:
                source = cpu
                to = _int(b, data, f[TASK_CPU])
                if to < 0 or to >= MAX_CPUS:
                    return i, row, wakings, BAD_CPU
                if what == MIGRATE:
                    source = to
                    to = _int(b, data, f[MIGRATE_DEST])
                    if to < 0 or to >= MAX_CPUS:
                        return i, row, wakings, BAD_CPU
                    if place:
                        before, its_row = last[0, cpu], last[1, cpu]
                        if (
                            before >= 0
                            and ref[before] & 255 == WAKING
                            and out.pid[its_row] == pid
                            and ts[k] - ts[before] <= PLACED_WITHIN_NS
                        ):
                            out.cpu[its_row] = to
                elif what == WAKING:
                    wakings += 1
                out.src_cpu[r], out.by_pid[r] = source, tid
                high = np.uint8(HAS_SRC_CPU | HAS_BY_PID)
                by = comm_at(comms, tid, i)
                if by:
                    out.by_comm[r] = by - np.uint32(1)
                    high = np.uint8(HAS_SRC_CPU | HAS_BY_PID | HAS_BY_COMM)
            out.cpu[r] = to
        elif what == FORK:
            name, parent = _name(b, data, f[2], names), _name(b, data, f[0], names)
            if max(name, parent) >= known.size or min(name, parent) < 0:
                return i, row, wakings, _unknown(min(name, parent))
            out.cpu[r] = cpu
            out.comm[r], out.by_comm[r] = known[name], known[parent]
            out.pid[r], out.by_pid[r] = _int(b, data, f[3]), _int(b, data, f[1])
            low = np.uint8(HAS_CPU | HAS_PID | HAS_COMM)
            high = np.uint8(HAS_BY_PID | HAS_BY_COMM)
        elif what == CPU_IDLE or what == FREQUENCY:
            of = _int(b, data, f[1]) & 0xFFFFFFFF
            if of >= MAX_CPUS:
                return i, row, wakings, BAD_CPU
            value = _int(b, data, f[0]) & 0xFFFFFFFF
            if what == CPU_IDLE and value == 0xFFFFFFFF:  # u32 -1: the CPU left its idle state
                value = -1
            out.cpu[r], out.value[r] = of, value
            low, high = np.uint8(HAS_CPU), np.uint8(HAS_VALUE)
        elif what == EXEC or what == MARK:
            where, length = _string(b, data, f[0])
            if length < 0:
                return i, row, wakings, BAD_FIELDS
            texts[r] = where << 16 | length
            out.cpu[r], out.pid[r] = cpu, tid
            low = np.uint8(HAS_CPU | HAS_PID)
            if what == EXEC:
                pid, old = _int(b, data, f[1]), _int(b, data, f[2])
                out.pid[r] = pid
                if old != pid:
                    out.by_pid[r] = old
                    high = np.uint8(HAS_BY_PID)
            by = comm_at(comms, tid, i)
            if by:
                out.comm[r] = by - np.uint32(1)
                low = np.uint8(HAS_CPU | HAS_PID | HAS_COMM)
        if place:
            last[0, cpu], last[1, cpu] = i, row
        out.low[r], out.high[r] = low, high
        row += 1
        i += 1
    return i, row, wakings, OK


@lean
def _unknown(name: int) -> int:
    """Why a name has no number of polars."""
    if name == -2:
        return NAMES_FULL
    return NAMES_NEW if name >= 0 else BAD_FIELDS
