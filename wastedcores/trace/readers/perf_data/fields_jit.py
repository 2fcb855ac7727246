"""Decodes the tracepoints in a ``perf.data`` file or in pages of ftrace's ring buffer into event columns.

Formats: include/trace/events/sched.h and power.h (4.1 to 6.18), at the offsets that the file itself states.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import lean
from wastedcores.limits import MAX_CPUS
from wastedcores.trace.readers.perf_data import records_jit as rj
from wastedcores.trace.readers.perf_data.records_jit import (
    Comms,
    Formats,
    Records,
    comm_at,
    comm_number,
    raw_at,
)
from wastedcores.trace.readers.support import event_columns_jit as ej
from wastedcores.trace.readers.support import tracepoints as t
from wastedcores.trace.readers.support.bytes_jit import load16, load32, load64
from wastedcores.trace.readers.support.event_columns_jit import Columns
from wastedcores.trace.readers.support.ring_page_jit import MISSED_STORED, PAGE_BYTES, event_at
from wastedcores.trace.readers.support.sched_waking_jit import PLACED_WITHIN_NS

U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

_SWITCHED = np.uint8(
    ej.HAS_CPU
    | ej.HAS_PID
    | ej.HAS_COMM
    | ej.HAS_PRIO
    | ej.HAS_PREV_PID
    | ej.HAS_PREV_COMM
    | ej.HAS_PREV_PRIO
    | ej.HAS_PREV_STATE
)
_TASK = np.uint8(ej.HAS_CPU | ej.HAS_PID | ej.HAS_COMM | ej.HAS_PRIO)
_MOST_PRIO, _LEAST_PRIO = 2**15 - 1, -(2**15)


class Names(NamedTuple):
    """Names of tasks: the hash table, which grows, and the codes of polars, which the newest names may not have yet."""

    table: U64
    codes: U32


@lean
def _int(b: U8, data: int, f: I64) -> Any:
    return np.int64(np.int32(load32(b, data + f[rj.F_OFFSET])))


@lean
def _string(b: U8, data: int, room: Any, f: I64) -> tuple[Any, Any]:
    """Return the place of a string and its largest possible length; the length is -1 if the string lies outside of the data."""
    if f[rj.F_TYPE] == rj.T_COMM:
        return data + f[rj.F_OFFSET], f[rj.F_SIZE]
    if f[rj.F_TYPE] == rj.T_TAIL:  # the string is the rest of the data
        return data + f[rj.F_OFFSET], room - f[rj.F_OFFSET]
    word = load32(b, data + f[rj.F_OFFSET])  # __data_loc: offset and length
    where, length = np.int64(word & 0xFFFF), np.int64(word >> 16)
    return data + where, (length if where + length <= room else -1)


@lean
def _name(b: U8, data: int, room: Any, f: I64, table: U64) -> int:
    """Return the number of a name; -1 if the name lies outside of the data, -2 if the table of names is full."""
    at, length = _string(b, data, room, f)
    if length < 0:
        return -1
    return comm_number(b, at, length, table)


@lean
def _unknown(name: int) -> int:
    """Return the reason why the name with this number has no code of polars."""
    if name == -2:
        return rj.NAMES_FULL
    return rj.NAMES_NEW if name >= 0 else rj.BAD_FIELDS


@lean
def _lost(b: U8, at: int, which: Any, formats: Formats, r: np.uintp, out: Columns) -> int:
    """Decode a PERF_RECORD_LOST, or what a page of the ring buffer says about the events that were lost before this page."""
    low = np.uint8(0)
    start = formats.page_start
    if start:
        cpu, lost = np.int64(which), np.uint64(0)
        low = np.uint8(ej.HAS_CPU)
        commit = np.int64(load32(b, at + 8))
        end = at + start + (commit & PAGE_BYTES)
        if commit & MISSED_STORED:
            lost = load64(b, end) if start == 16 else np.uint64(load32(b, end))
        out.value[r] = np.int64(lost) if commit & MISSED_STORED else -1
    else:
        cpu, lost = np.int64(0), load64(b, at + 16)
        id_cpu = formats.layouts[which, rj.L_ID_CPU]
        if id_cpu:
            cpu = np.int64(load32(b, at + np.int64(load16(b, at + 6)) + id_cpu))
            low = np.uint8(ej.HAS_CPU)
        out.value[r] = np.int64(lost)
    if cpu >= MAX_CPUS:
        return rj.BAD_CPU
    if lost > np.uint64(rj.MAX_LOST):
        return rj.BAD_LOST
    out.cpu[r] = cpu
    out.low[r], out.high[r] = low, np.uint8(ej.HAS_VALUE)
    return rj.OK


@lean
def _ended(
    b: U8, at: int, which: Any, formats: Formats, name: Any, r: np.uintp, out: Columns
) -> int:
    """Decode a PERF_RECORD_EXIT of a thread whose name has the code ``name`` minus 1.

    The record has pid, ppid, tid, ptid, time, and the sample's identity.
    """
    out.pid[r] = np.int64(np.int32(load32(b, at + 16)))
    low = np.uint8(ej.HAS_PID)
    id_cpu = formats.layouts[which, rj.L_ID_CPU]
    if id_cpu:
        cpu = np.int64(load32(b, at + np.int64(load16(b, at + 6)) + id_cpu))
        if cpu >= MAX_CPUS:
            return rj.BAD_CPU
        out.cpu[r] = cpu
        low = np.uint8(ej.HAS_PID | ej.HAS_CPU)
    if name:
        out.comm[r] = name - np.uint32(1)
        low |= np.uint8(ej.HAS_COMM)
    out.low[r], out.high[r] = low, np.uint8(0)
    return rj.OK


@lean
def _switch(
    b: U8,
    data: int,
    room: Any,
    f: I64,
    cpu: Any,
    states: U32,
    names: Names,
    r: np.uintp,
    out: Columns,
) -> int:
    """Decode a sched_switch."""
    known = names.codes
    name = _name(b, data, room, f[4], names.table)
    prev = _name(b, data, room, f[0], names.table)
    if max(name, prev) >= known.size or min(name, prev) < 0:
        return _unknown(min(name, prev))
    prio, prev_prio = _int(b, data, f[6]), _int(b, data, f[2])
    if min(prio, prev_prio) < _LEAST_PRIO or max(prio, prev_prio) > _MOST_PRIO:
        return rj.BAD_PRIO
    out.cpu[r] = cpu
    out.comm[r], out.prev_comm[r] = known[np.uintp(name)], known[np.uintp(prev)]
    out.prio[r], out.prev_prio[r] = prio, prev_prio
    out.pid[r], out.prev_pid[r] = _int(b, data, f[5]), _int(b, data, f[1])
    state = load32(b, data + f[3, rj.F_OFFSET]) & np.uint32(states.size - 1)
    out.prev_state[r] = states[np.uintp(state)]
    out.low[r], out.high[r] = _SWITCHED, np.uint8(0)
    return rj.OK


@lean
def _fork(
    b: U8, data: int, room: Any, f: I64, cpu: Any, names: Names, r: np.uintp, out: Columns
) -> int:
    """Decode a sched_process_fork."""
    known = names.codes
    name = _name(b, data, room, f[2], names.table)
    parent = _name(b, data, room, f[0], names.table)
    if max(name, parent) >= known.size or min(name, parent) < 0:
        return _unknown(min(name, parent))
    out.cpu[r] = cpu
    out.comm[r], out.by_comm[r] = known[name], known[parent]
    out.pid[r], out.by_pid[r] = _int(b, data, f[3]), _int(b, data, f[1])
    out.low[r], out.high[r] = (
        np.uint8(ej.HAS_CPU | ej.HAS_PID | ej.HAS_COMM),
        np.uint8(ej.HAS_BY_PID | ej.HAS_BY_COMM),
    )
    return rj.OK


@lean
def _cpu_value(b: U8, data: int, f: I64, what: Any, r: np.uintp, out: Columns) -> int:
    """Decode a cpu_idle or cpu_frequency."""
    cpu = _int(b, data, f[1]) & 0xFFFFFFFF
    if cpu >= MAX_CPUS:
        return rj.BAD_CPU
    value = _int(b, data, f[0]) & 0xFFFFFFFF
    if what == t.CPU_IDLE and value == 0xFFFFFFFF:  # u32 -1: the CPU left its idle state
        value = -1
    out.cpu[r], out.value[r] = cpu, value
    out.low[r], out.high[r] = np.uint8(ej.HAS_CPU), np.uint8(ej.HAS_VALUE)
    return rj.OK


@lean
def _cpu_online(b: U8, data: int, f: I64, hotplug: Any, r: np.uintp, out: Columns) -> int:
    """Decode a cpuhp_enter that begins sched_cpu_activate() or sched_cpu_deactivate() (kernel/sched/core.c)."""
    cpu = _int(b, data, f[0]) & 0xFFFFFFFF
    if cpu >= MAX_CPUS:
        return rj.BAD_CPU
    out.cpu[r] = cpu
    out.value[r] = np.int64(load64(b, data + f[1, rj.F_OFFSET])) == hotplug[0]
    out.low[r], out.high[r] = np.uint8(ej.HAS_CPU), np.uint8(ej.HAS_VALUE)
    return rj.OK


@lean
def _text(
    b: U8,
    data: int,
    room: Any,
    f: I64,
    what: Any,
    cpu: Any,
    tid: Any,
    by: Any,
    r: np.uintp,
    out: Columns,
) -> int:
    """Decode a sched_process_exec or a mark by thread ``tid``, whose name has the code ``by`` minus 1."""
    where, length = _string(b, data, room, f[0])
    if length < 0:
        return rj.BAD_FIELDS
    out.text[r] = where << 16 | length
    out.cpu[r], out.pid[r] = cpu, tid
    low, high = np.uint8(ej.HAS_CPU | ej.HAS_PID), np.uint8(0)
    if what == rj.EXEC:
        pid, old = _int(b, data, f[1]), _int(b, data, f[2])
        out.pid[r] = pid
        if old != pid:
            out.by_pid[r] = old
            high = np.uint8(ej.HAS_BY_PID)
    if by:
        out.comm[r] = by - np.uint32(1)
        low = np.uint8(ej.HAS_CPU | ej.HAS_PID | ej.HAS_COMM)
    out.low[r], out.high[r] = low, high
    return rj.OK


@lean
def _task_event(
    b: U8,
    data: int,
    room: Any,
    f: I64,
    what: Any,
    cpu: Any,
    tid: Any,
    by: Any,
    names: Names,
    r: np.uintp,
    out: Columns,
) -> int:
    """Decode a wakeup, migration or exit. Thread ``tid`` caused it; the code of this thread's name is ``by`` minus 1."""
    name = _name(b, data, room, f[rj.TASK_COMM], names.table)
    if name < 0 or name >= names.codes.size:
        return _unknown(name)
    prio = _int(b, data, f[rj.TASK_PRIO])
    if prio < _LEAST_PRIO or prio > _MOST_PRIO:
        return rj.BAD_PRIO
    out.comm[r], out.prio[r] = names.codes[np.uintp(name)], prio
    out.pid[r] = _int(b, data, f[rj.TASK_PID])
    high = np.uint8(0)
    source = to = cpu
    if what != t.EXIT:
        to = _int(b, data, f[rj.TASK_CPU])
        if what == t.MIGRATE:
            source = to
            to = _int(b, data, f[rj.MIGRATE_DEST])
        if min(source, to) < 0 or max(source, to) >= MAX_CPUS:
            return rj.BAD_CPU
        out.src_cpu[r], out.by_pid[r] = source, tid
        out.in_irq[r] = b[data + 2] & t.IRQ_FLAGS != 0  # common_flags
        high = np.uint8(ej.HAS_SRC_CPU | ej.HAS_BY_PID | ej.HAS_IN_IRQ)
        if by:
            out.by_comm[r] = by - np.uint32(1)
            high = np.uint8(ej.HAS_SRC_CPU | ej.HAS_BY_PID | ej.HAS_BY_COMM | ej.HAS_IN_IRQ)
    out.cpu[r] = to
    out.low[r], out.high[r] = _TASK, high
    return rj.OK


@lean
def _place_waking(
    ts: I64, ref: I64, k: np.uintp, r: np.uintp, before: Any, its_row: Any, out: Columns
) -> None:
    """If the event before a migration on the same CPU is the sched_waking of the same task, give that event the new CPU."""
    if (
        before >= 0
        and ref[before] & 255 == t.WAKING
        and out.pid[its_row] == out.pid[r]
        and ts[k] - ts[before] <= PLACED_WITHIN_NS
    ):
        out.cpu[its_row] = out.cpu[r]


@lean
def decode(
    b: U8,
    records: Records,
    i: int,
    end: int,
    row: int,
    formats: Formats,
    comms: Comms,
    names: Names,
    last: I64,
    out: Columns,
) -> tuple[int, int, int, int]:
    """Write the events among the records ``i`` to ``end`` into the rows from ``row`` on."""
    ts, ref, layouts = records.ts, records.ref, formats.layouts
    wakings = 0
    problem = rj.OK
    while i < end:
        # With unsigned indices, numba does not check whether an index is negative and counts from the end.
        r, k = np.uintp(row), np.uintp(i)
        at, which, what = (
            ref[k] >> rj.PLACE,
            np.uintp(ref[k] >> 8 & rj.WHICH),
            np.uintp(ref[k] & 255),
        )
        if what >= rj.C_COMM:  # this record is not an event; it only names a thread
            i += 1
            continue
        out.ts_ns[r] = ts[k]
        out.kind[r] = formats.kinds[what]
        if what == rj.LOST:
            problem = _lost(b, at, which, formats, r, out)
            if problem != rj.OK:
                break
            row += 1
            i += 1
            continue
        if what == rj.ENDED:
            name = comm_at(comms, np.int64(load32(b, at + 16)), i)
            problem = _ended(b, at, which, formats, name, r, out)
            if problem != rj.OK:
                break
            row += 1
            i += 1
            continue
        if formats.page_start:
            data, room = event_at(b, at)
            cpu = np.int64(which)
        else:
            size = np.int64(load16(b, at + 6))
            data = raw_at(b, at, size, layouts, which) + 4
            room = np.int64(load32(b, data - 4))
            room = -1 if room > at + size - data else room
            cpu = np.int64(load32(b, at + layouts[which, rj.L_CPU]))
        if formats.needed[what] > room:
            problem = rj.BAD_FIELDS
            break
        # common_pid, because perf in a container gives the threads outside of the container the number 0
        tid = np.int64(np.int32(load32(b, data + 4)))
        if cpu >= MAX_CPUS:
            problem = rj.BAD_CPU
            break
        f = formats.fields[what]
        if what == t.SWITCH:
            problem = _switch(b, data, room, f, cpu, formats.states, names, r, out)
        elif what == t.FORK:
            problem = _fork(b, data, room, f, cpu, names, r, out)
        elif what == t.CPU_IDLE or what == rj.FREQUENCY:
            problem = _cpu_value(b, data, f, what, r, out)
        elif what == rj.EXEC or what == rj.MARK:
            problem = _text(b, data, room, f, what, cpu, tid, comm_at(comms, tid, i), r, out)
        elif what == rj.HOTPLUG:
            problem = _cpu_online(b, data, f, formats.hotplug, r, out)
        else:  # a wakeup, migration or exit
            by = comm_at(comms, tid, i) if what != t.EXIT else np.uint32(0)
            problem = _task_event(b, data, room, f, what, cpu, tid, by, names, r, out)
            wakings += formats.place and what == t.WAKING
            if what == t.MIGRATE and formats.place and problem == rj.OK:
                _place_waking(ts, ref, k, r, last[0, cpu], last[1, cpu], out)
        if problem != rj.OK:
            break
        if formats.place:
            last[0, cpu], last[1, cpu] = i, row
        row += 1
        i += 1
    return i, row, wakings, problem
