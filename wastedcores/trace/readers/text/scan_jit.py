"""Decodes lines of ftrace text and perf script about as fast as memory delivers them.

This file knows only the common spelling of the frequent events. It returns every other line unchanged for the regular
expressions of lines.py. Those know all spellings and say what is wrong with a line, so this file can be strict.

Formats: kernel/trace/trace_output.c:trace_print_context, include/trace/events/sched.h (4.1 ... 6.18),
tools/perf/builtin-script.c:perf_sample__fprintf_start.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import lean
from wastedcores.trace.readers.support import tracepoints as ts
from wastedcores.trace.readers.support.bytes_jit import Word as Word  # noqa: PLC0414 - in signatures
from wastedcores.trace.readers.support.bytes_jit import is_word, line_end, number, signed31, word
from wastedcores.trace.readers.support.names_jit import COMM_MAX, intern
from wastedcores.trace.readers.text.envelope_jit import envelope, in_interrupt, spaces

U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

#: This kind of event has no such number.
NONE = -(2**31)
NO_PRIO = -(2**15)
#: This kind of event has no such name.
NO_NAME = -1

#: Rows of the event table, which has one column per event. It is one table instead of an array per field, because passing
#: one array per field from function to function took longer than the parsing. A name is stored as its number in the table of
#: names_jit.py; LINE counts from 0 within the block.
FIELDS = (
    "line", "ts_ns", "code", "ctx_cpu", "cpu", "pid", "comm", "prio", "prev_pid", "prev_comm", "prev_prio", "prev_state",
    "src_cpu", "by_pid", "by_comm", "value", "in_irq",
)  # fmt: skip
(
    LINE, TS_NS, CODE, CTX_CPU, CPU, PID, COMM, PRIO, PREV_PID, PREV_COMM, PREV_PRIO, PREV_STATE, SRC_CPU, BY_PID, BY_COMM,
    VALUE, IN_IRQ,
) = range(len(FIELDS))  # fmt: skip


class Slow(NamedTuple):
    """The lines that are returned unchanged: their bytes one after the other, and the decoded lines around each of them."""

    text: U8
    line: I64  # from 0
    next_ts: I64  # time of the next line that is decoded here, or -1
    before: I64  # the last line before it that is decoded here, or -1


def new_events(lines: int) -> I64:
    """Return memory for ``lines`` events: (FIELDS, lines)."""
    return np.empty((len(FIELDS), lines), np.int64)


def new_slow(size: int, lines: int) -> Slow:
    """Return memory for ``lines`` unchanged lines that have ``size`` bytes in all."""
    return Slow(
        np.empty(size, np.uint8),
        np.empty(lines, np.int64),
        np.empty(lines, np.int64),
        np.empty(lines, np.int64),
    )


_PREV_COMM = word("prev_comm=")
_PREV_PID = word(" prev_pid=")
_PREV_PRIO = word(" prev_prio=")
_PREV_STATE = word(" prev_state=")
_NEXT_COMM = word(" ==> next_comm=")
_NEXT_PID = word(" next_pid=")
_NEXT_PRIO = word(" next_prio=")
_COMM = word("comm=")
_PID = word(" pid=")
_PRIO = word(" prio=")
_SUCCESS = word(" success=1")
_TARGET = word(" target_cpu=")
_ORIG = word(" orig_cpu=")
_DEST = word(" dest_cpu=")
_CHILD_COMM = word(" child_comm=")
_CHILD_PID = word(" child_pid=")
_GROUP_DEAD_TRUE = word(" group_dead=true")
_GROUP_DEAD_FALSE = word(" group_dead=false")
_STATE = word("state=")
_CPU_ID = word(" cpu_id=")
_SCHED = word("sched:")
_POWER = word("power:")
_N_SWITCH = word("sched_switch: ")
_N_WAKEUP = word("sched_wakeup: ")
_N_WAKEUP_NEW = word("sched_wakeup_new: ")
_N_WAKING = word("sched_waking: ")
_N_MIGRATE = word("sched_migrate_task: ")
_N_FORK = word("sched_process_fork: ")
_N_EXIT = word("sched_process_exit: ")
_N_RUNTIME = word("sched_stat_runtime: ")
_N_IDLE = word("cpu_idle: ")

_FORGOTTEN = word("<...>")


@lean
def _comm_then(b: U8, i: int, w: Word, names: U64) -> tuple[int, int, int]:
    """Read a name, ``w`` and a number at ``i``: (name, number, end); end is 0 if they are not there.

    The name can contain ``w``, too. The last ``w`` after at most 15 bytes counts, as in the greedy patterns of payload.py.
    """
    for n in range(COMM_MAX, -1, -1):
        if b[i + n] == 32 and is_word(b, i + n, w):
            v, j = signed31(b, i + n + w[6])
            if j > i + n + w[6]:
                return intern(b, i, n, names), v, j
    return NO_NAME, 0, 0


@lean
def _field(b: U8, i: int, w: Word) -> tuple[int, int]:
    """Read ``w`` and a number at ``i``: (number, end); end is 0 if they are not there."""
    if i == 0 or not is_word(b, i, w):
        return 0, 0
    v, j = signed31(b, i + w[6])
    if j == i + w[6]:
        return 0, 0
    return v, j


@lean
def event_code(b: U8, i: int, perf: bool) -> tuple[int, int]:
    """Return the code of the event that is named at ``i`` and the place of its fields; the code is -1 if it is not read here."""
    if perf:
        if is_word(b, i, _SCHED):
            i += _SCHED[6]
        elif is_word(b, i, _POWER):
            i += _POWER[6]
        else:
            return -1, 0
    third = b[i + 7]
    code = -1
    n = 0
    if third == 119:  # sWitch
        if is_word(b, i, _N_SWITCH):
            code, n = ts.SWITCH, _N_SWITCH[6]
    elif third == 116:  # sTat
        if is_word(b, i, _N_RUNTIME):
            code, n = ts.STAT_RUNTIME, _N_RUNTIME[6]
    elif third == 97:  # wAk
        if is_word(b, i, _N_WAKEUP):
            code, n = ts.WAKEUP, _N_WAKEUP[6]
        elif is_word(b, i, _N_WAKING):
            code, n = ts.WAKING, _N_WAKING[6]
        elif is_word(b, i, _N_WAKEUP_NEW):
            code, n = ts.WAKEUP_NEW, _N_WAKEUP_NEW[6]
    elif third == 105:  # mIgrate
        if is_word(b, i, _N_MIGRATE):
            code, n = ts.MIGRATE, _N_MIGRATE[6]
    elif third == 114:  # pRocess
        if is_word(b, i, _N_FORK):
            code, n = ts.FORK, _N_FORK[6]
        elif is_word(b, i, _N_EXIT):
            code, n = ts.EXIT, _N_EXIT[6]
    elif is_word(b, i, _N_IDLE):
        code, n = ts.CPU_IDLE, _N_IDLE[6]
    return code, i + n


@lean
def _switch(b: U8, i: int, row: int, out: I64, names: U64) -> int:
    if not is_word(b, i, _PREV_COMM):
        return 0
    name, pid, j = _comm_then(b, i + _PREV_COMM[6], _PREV_PID, names)
    if j == 0 or name < 0:
        return 0
    out[PREV_COMM, row], out[PREV_PID, row] = name, pid
    prio, j = _field(b, j, _PREV_PRIO)
    if j == 0 or abs(prio) > 9999 or not is_word(b, j, _PREV_STATE):
        return 0
    out[PREV_PRIO, row] = prio
    i = j + _PREV_STATE[6]
    j = i
    while b[j] > 32 and j - i < 16:
        j += 1
    if j == i or not is_word(b, j, _NEXT_COMM):
        return 0
    state = intern(b, i, j - i, names)
    name, pid, j = _comm_then(b, j + _NEXT_COMM[6], _NEXT_PID, names)
    if j == 0 or name < 0 or state < 0:
        return 0
    out[PREV_STATE, row], out[COMM, row], out[PID, row] = state, name, pid
    prio, j = _field(b, j, _NEXT_PRIO)
    if abs(prio) > 9999:
        return 0
    out[PRIO, row] = prio
    return j


@lean
def _task(b: U8, i: int, row: int, out: I64, names: U64) -> int:
    """Read ``comm=... pid=... prio=...`` and return where it ends; 0 if it is not there."""
    if not is_word(b, i, _COMM):
        return 0
    name, pid, j = _comm_then(b, i + _COMM[6], _PID, names)
    if j == 0 or name < 0:
        return 0
    out[COMM, row], out[PID, row] = name, pid
    prio, j = _field(b, j, _PRIO)
    if abs(prio) > 9999:
        return 0
    out[PRIO, row] = prio
    return j


@lean
def _fork(b: U8, i: int, row: int, out: I64, names: U64) -> int:
    if not is_word(b, i, _COMM):
        return 0
    name, pid, j = _comm_then(b, i + _COMM[6], _PID, names)
    if j == 0 or name < 0 or not is_word(b, j, _CHILD_COMM):
        return 0
    out[BY_COMM, row], out[BY_PID, row] = name, pid
    name, pid, j = _comm_then(b, j + _CHILD_COMM[6], _CHILD_PID, names)
    if name < 0:
        return 0
    out[COMM, row], out[PID, row] = name, pid
    return j


@lean
def _idle(b: U8, i: int, row: int, out: I64) -> int:
    if not is_word(b, i, _STATE):
        return 0
    state, j = number(b, i + _STATE[6])
    if j == i + _STATE[6]:
        return 0
    cpu, j = _field(b, j, _CPU_ID)
    # u32 -1 printed without a sign: the CPU left its idle state
    out[VALUE, row] = -1 if state == 4294967295 else state
    out[CPU, row] = cpu
    return j


@lean
def _fields(b: U8, i: int, code: int, row: int, out: I64, names: U64) -> int:
    """Read the fields of an event and return where they end; 0 if they are not in the common spelling."""
    if code == ts.SWITCH:
        return _switch(b, i, row, out, names)
    if code == ts.FORK:
        return _fork(b, i, row, out, names)
    if code == ts.CPU_IDLE:
        return _idle(b, i, row, out)
    j = _task(b, i, row, out, names)
    if j == 0:
        return 0
    if code == ts.EXIT:
        if is_word(b, j, _GROUP_DEAD_TRUE):
            return j + _GROUP_DEAD_TRUE[6]
        if is_word(b, j, _GROUP_DEAD_FALSE):
            return j + _GROUP_DEAD_FALSE[6]
        return j
    if code == ts.MIGRATE:
        out[SRC_CPU, row], j = _field(b, j, _ORIG)
        out[CPU, row], j = _field(b, j, _DEST)
        return j
    if is_word(b, j, _SUCCESS):
        j += _SUCCESS[6]
    out[SRC_CPU, row] = out[CPU, row]
    out[CPU, row], j = _field(b, j, _TARGET)
    return j


@lean
def blank(row: int, out: I64) -> None:
    """Mark as absent all numbers and names of an event that only some kinds of events have."""
    out[PID, row] = NONE
    out[COMM, row] = NO_NAME
    out[PRIO, row] = NO_PRIO
    out[PREV_PID, row] = NONE
    out[PREV_COMM, row] = NO_NAME
    out[PREV_PRIO, row] = NO_PRIO
    out[PREV_STATE, row] = NO_NAME
    out[SRC_CPU, row] = NONE
    out[BY_PID, row] = NONE
    out[BY_COMM, row] = NO_NAME
    out[VALUE, row] = NONE
    out[IN_IRQ, row] = NONE


@lean
def _line(
    b: U8, start: int, size: int, perf: bool, row: int, out: I64, names: U64
) -> tuple[int, int, int]:
    """Read one line: (code, ns, place of its newline); code is -1 if the patterns must read it."""
    c0, c1, pid, cpu, ns, at, flags = envelope(b, start, perf)
    if at == 0:
        return -1, 0, line_end(b, start, size)
    code, i = event_code(b, at, perf)
    if code < 0 or code == ts.STAT_RUNTIME:
        return code, ns, line_end(b, at, size)
    blank(row, out)
    out[CTX_CPU, row] = out[CPU, row] = cpu
    i = spaces(b, i)  # trace-cmd pads the name
    j = _fields(b, i, code, row, out, names)
    if b[j] == 13:
        j += 1
    if j < i or b[j] != 10:
        return -1, 0, line_end(b, start, size)
    if perf and code == ts.SWITCH and pid == 0 and out[PREV_PID, row] > 0:
        return -1, 0, j  # perf was in a pid namespace
    if code in (ts.WAKEUP, ts.WAKEUP_NEW, ts.WAKING, ts.MIGRATE):
        out[BY_PID, row] = pid
        if flags:
            out[IN_IRQ, row] = in_interrupt(b, flags)
        if b[c0] == 58:  # ":PID": perf may not have known the name
            return -1, 0, j
        if c1 > c0 and not (c1 - c0 == 5 and is_word(b, c0, _FORGOTTEN)):
            name = intern(b, c0, c1 - c0, names)
            if name < 0:
                return -1, 0, j
            out[BY_COMM, row] = name
    return code, ns, j


@lean
def leave(
    b: U8, start: int, end: int, line: int, before: int, slow: Slow, n_slow: int, n_bytes: int
) -> int:
    """Hand a line over to the patterns; return the number of bytes that have been handed over so far."""
    slow.line[n_slow], slow.before[n_slow], slow.next_ts[n_slow] = line, before, -1
    for i in range(start, end + 1):
        slow.text[n_bytes] = b[i]
        n_bytes += 1
    return n_bytes


@lean
def scan(
    b: U8, size: int, perf: bool, out: I64, slow: Slow, names: U64, counts: I64
) -> tuple[int, int, int, int]:
    """Decode a block of whole lines."""
    row = n_slow = n_bytes = line = pending = start = 0
    before = -1
    while start < size:
        code, ns, end = _line(b, start, size, perf, row, out, names)
        if code < 0:
            n_bytes = leave(b, start, end, line, before, slow, n_slow, n_bytes)
            n_slow += 1
        else:
            while pending < n_slow:
                slow.next_ts[pending] = ns
                pending += 1
            before = line
            counts[code] += 1
            if code != ts.STAT_RUNTIME:
                out[LINE, row], out[TS_NS, row], out[CODE, row] = line, ns, code
                row += 1
        line += 1
        start = end + 1
    return row, n_slow, n_bytes, line
