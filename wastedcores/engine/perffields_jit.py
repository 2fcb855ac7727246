"""The fields of the scheduler's tracepoints in ``perf.data``, written into event columns.

Formats: include/trace/events/sched.h and power.h (4.1 to 6.18), by the offsets that the file itself gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wastedcores.engine._jit import lean
from wastedcores.engine.bytes_jit import load32, load64, prefetch
from wastedcores.engine.columns_jit import (
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
from wastedcores.engine.columns_jit import Columns as Columns  # noqa: PLC0414 - in signatures
from wastedcores.engine.perfdata_jit import (
    AHEAD,
    BAD_CPU,
    BAD_FIELDS,
    BAD_PRIO,
    EXEC,
    F_OFFSET,
    F_SIZE,
    F_TYPE,
    FREQUENCY,
    LOST,
    MARK,
    MAX_CPUS,
    MIGRATE_DEST,
    NAMES_FULL,
    OK,
    T_COMM,
    T_TAIL,
    TASK_COMM,
    TASK_CPU,
    TASK_PID,
    TASK_PRIO,
    comm_number,
    int_at,
)
from wastedcores.engine.text_jit import (
    CPU_IDLE,
    EXIT,
    FORK,
    MIGRATE,
    SWITCH,
    WAKEUP,
    WAKEUP_NEW,
    WAKING,
)

U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

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
    return int_at(b, data + f[F_OFFSET])


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
    refs: I64,
    row: int,
    end: int,
    fields: I64,
    kinds: U8,
    names: U64,
    out: Columns,
    texts: I64,
) -> tuple[int, int]:
    """Take the fields of rows ``row`` to ``end`` apart.

    Parameters
    ----------
    refs
        As :func:`~wastedcores.engine.perfdata_jit.arrange` made them.
    fields
        (N_CODES, MAX_FIELDS, 3).
    kinds
        (N_CODES,) physical value of each code's kind.
    names
        Grows. Name columns get its numbers; see :func:`rename`.
    out
        What ``arrange`` left open.
    texts
        (rows,) filled for EXEC and MARK: ``place << 16 | length`` of their text.

    Returns
    -------
    row, problem
        Where it stopped, and why.
    """
    while row < end:
        r = np.uintp(row)  # no sign: numba need not ask whether to count from the end
        if row + AHEAD < end:
            prefetch(b, refs[r + np.uintp(AHEAD)] >> 16)
            prefetch(b, (refs[r + np.uintp(AHEAD)] >> 16) + 64)
        data, what = refs[r] >> 16, np.uintp(refs[r] & 255)
        f = fields[what]
        low = np.uint8(0)
        high = np.uint8(0)
        if what == SWITCH:
            name, prev = _name(b, data, f[4], names), _name(b, data, f[0], names)
            if name < 0 or prev < 0:
                return row, (NAMES_FULL if min(name, prev) == -2 else BAD_FIELDS)
            prio, prev_prio = _int(b, data, f[6]), _int(b, data, f[2])
            if min(prio, prev_prio) < _LEAST_PRIO or max(prio, prev_prio) > _MOST_PRIO:
                return row, BAD_PRIO
            out.comm[r], out.prev_comm[r] = name, prev
            out.prio[r], out.prev_prio[r] = prio, prev_prio
            out.pid[r], out.prev_pid[r] = _int(b, data, f[5]), _int(b, data, f[1])
            out.prev_state[r] = load32(b, data + f[3, F_OFFSET])
            low = _SWITCHED
        elif (
            what == WAKEUP
            or what == WAKEUP_NEW
            or what == WAKING
            or what == MIGRATE
            or what == EXIT
        ):
            name = _name(b, data, f[TASK_COMM], names)
            if name < 0:
                return row, (NAMES_FULL if name == -2 else BAD_FIELDS)
            prio = _int(b, data, f[TASK_PRIO])
            if prio < _LEAST_PRIO or prio > _MOST_PRIO:
                return row, BAD_PRIO
            out.comm[r], out.prio[r] = name, prio
            out.pid[r] = _int(b, data, f[TASK_PID])
            low = _TASK
            if what != EXIT:
                cpu = _int(b, data, f[TASK_CPU])
                if cpu < 0 or cpu >= MAX_CPUS:
                    return row, BAD_CPU
                if what == MIGRATE:
                    out.src_cpu[r] = cpu
                    cpu = _int(b, data, f[MIGRATE_DEST])
                    if cpu < 0 or cpu >= MAX_CPUS:
                        return row, BAD_CPU
                    out.cpu[r] = cpu
                else:
                    moved = out.cpu[r]
                    out.cpu[r] = moved - 1 if moved > 0 else cpu
                high = np.uint8(HAS_SRC_CPU | HAS_BY_PID)
        elif what == FORK:
            name, by = _name(b, data, f[2], names), _name(b, data, f[0], names)
            if name < 0 or by < 0:
                return row, (NAMES_FULL if min(name, by) == -2 else BAD_FIELDS)
            out.comm[r], out.by_comm[r] = name, by
            out.pid[r], out.by_pid[r] = _int(b, data, f[3]), _int(b, data, f[1])
            low = np.uint8(HAS_CPU | HAS_PID | HAS_COMM)
            high = np.uint8(HAS_BY_PID | HAS_BY_COMM)
        elif what == CPU_IDLE or what == FREQUENCY:
            cpu = _int(b, data, f[1]) & 0xFFFFFFFF
            if cpu >= MAX_CPUS:
                return row, BAD_CPU
            value = _int(b, data, f[0]) & 0xFFFFFFFF
            if what == CPU_IDLE and value == 0xFFFFFFFF:  # u32 -1: the CPU left its idle state
                value = -1
            out.cpu[r], out.value[r] = cpu, value
            low, high = np.uint8(HAS_CPU), np.uint8(HAS_VALUE)
        elif what == EXEC:
            at, length = _string(b, data, f[0])
            if length < 0:
                return row, BAD_FIELDS
            texts[r] = at << 16 | length
            pid, old = _int(b, data, f[1]), _int(b, data, f[2])
            out.pid[r] = pid
            low = np.uint8(HAS_CPU | HAS_PID)
            if old != pid:
                out.by_pid[r] = old
                high = np.uint8(HAS_BY_PID)
        elif what == MARK:
            at, length = _string(b, data, f[0])
            if length < 0:
                return row, BAD_FIELDS
            texts[r] = at << 16 | length
            low = np.uint8(HAS_CPU | HAS_PID)
        elif what == LOST:
            if out.cpu[r] > 0:
                out.cpu[r] -= 1
                low = np.uint8(HAS_CPU)
            out.value[r] = np.int64(load64(b, data + 16))
            high = np.uint8(HAS_VALUE)
        out.kind[r] = kinds[what]
        out.low[r], out.high[r] = low, high
        row += 1
    return row, OK


@lean
def rename(
    refs: I64, by: I32, row: int, end: int, names: U32, by_names: U32, states: U32, out: Columns
) -> None:
    """Put polars' numbers in the place of this reader's.

    Parameters
    ----------
    by, by_names
        (rows,) as :func:`~wastedcores.engine.perfdata_jit.arrange` made them, and what they become.
    names
        What the numbers in the name columns become.
    states
        What a prev_state becomes; a power of two of them.
    """
    mask = np.uint32(states.size - 1)
    for k in range(row, end):
        i = np.uintp(k)
        what = refs[i] & 255
        if what == SWITCH:
            out.comm[i] = names[out.comm[i]]
            out.prev_comm[i] = names[out.prev_comm[i]]
            out.prev_state[i] = states[out.prev_state[i] & mask]
        elif what == FORK:
            out.comm[i] = names[out.comm[i]]
            out.by_comm[i] = names[out.by_comm[i]]
        elif what == EXEC or what == MARK:
            if by[i] > 0:
                out.comm[i] = by_names[by[i] - 1]
                out.low[i] |= np.uint8(HAS_COMM)
        elif what == EXIT:
            out.comm[i] = names[out.comm[i]]
        elif what != CPU_IDLE and what != FREQUENCY and what != LOST:
            out.comm[i] = names[out.comm[i]]
            if by[i] > 0:
                out.by_comm[i] = by_names[by[i] - 1]
                out.high[i] |= np.uint8(HAS_BY_COMM)
