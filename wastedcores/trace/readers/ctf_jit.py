"""Decodes lines of babeltrace2, ``[seconds] host name: { context }, { payload }``, about as fast as babeltrace2 prints them.

Like text/scan_jit.py, this file knows only the frequent events and plain values. It returns every other line unchanged for the
patterns of ctf.py, which read such a line or say what is wrong with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import lean
from wastedcores.limits import MAX_SECONDS
from wastedcores.trace.readers.support import tracepoints as ts
from wastedcores.trace.readers.support.bytes_jit import Word as Word  # noqa: PLC0414 - in signatures
from wastedcores.trace.readers.support.bytes_jit import is_word, line_end, number, word
from wastedcores.trace.readers.support.names_jit import COMM_MAX, intern
from wastedcores.trace.readers.text import scan_jit as tj
from wastedcores.trace.readers.text.scan_jit import Slow as Slow  # noqa: PLC0414 - in signatures

U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

#: A part of a line is named by the row of the event table into which it is written. STATE, FLAGS and SUCCESS have no row of their
#: own, so they are written into rows that get their own values later.
CTX_PID, STATE, FLAGS, SUCCESS = tj.BY_PID, tj.VALUE, tj.IN_IRQ, tj.BY_COMM
#: Of the parts in _ALWAYS, the first one in a line counts; of the others, the first one in the payload (a line's last braces).
_ALWAYS = 1 << tj.CTX_CPU | 1 << CTX_PID
_NAMES = 1 << tj.COMM | 1 << tj.PREV_COMM
_TASK = 1 << tj.CTX_CPU | 1 << tj.COMM | 1 << tj.PID | 1 << tj.PRIO
#: The parts that an event must have, by its code.
_NEEDED = np.full(ts.N_CODES, _TASK)
_NEEDED[ts.SWITCH] |= 1 << tj.PREV_COMM | 1 << tj.PREV_PID | 1 << tj.PREV_PRIO | 1 << STATE
_NEEDED[[ts.WAKEUP, ts.WAKEUP_NEW, ts.WAKING]] |= 1 << tj.CPU
_NEEDED[ts.MIGRATE] |= 1 << tj.CPU | 1 << tj.SRC_CPU
_NEEDED[ts.CPU_IDLE] = 1 << tj.CTX_CPU | 1 << STATE | 1 << tj.CPU
#: The values that the parts can have; the patterns say what is wrong with other values.
_LEAST, _MOST = np.full(len(tj.FIELDS), -(2**31) + 1), np.full(len(tj.FIELDS), 2**31 - 1)
_LEAST[[tj.CTX_CPU, tj.CPU, tj.SRC_CPU]] = 0
_LEAST[[tj.PRIO, tj.PREV_PRIO]], _MOST[[tj.PRIO, tj.PREV_PRIO]] = -9999, 9999
_MOST[[STATE, FLAGS]] = 2**32 - 1, 10**9 - 1
_COMM_W, _PID_W, _TID_W, _PRIO_W, _CPU_W = (
    word("comm"),
    word("pid"),
    word("tid"),
    word("prio"),
    word("cpu_id"),
)
_NEXT, _PREV, _STATE = word("next_"), word("prev_"), word("state")
_TARGET, _ORIG, _DEST = word("target_cpu"), word("orig_cpu"), word("dest_cpu")
_PERF_TID, _COMMON_PID, _FLAGS, _SUCCESS = (
    word("perf_tid"),
    word("common_pid"),
    word("common_flags"),
    word("success"),
)
_PERF_CPU = word("perf_cpu")
_POWER_IDLE = word("power_cpu_idle: ")
#: the letters that with_letters gives, by the lowest bit of a state; 64 and 512 may be a parked thread: the patterns decide this
_LETTERS = np.frombuffer(b"SDTtXZ?I" + bytes(32), np.uint8)
_RUNS = np.frombuffer(b"R+" + bytes(32), np.uint8)
#: LTTng subtracts MAX_RT_PRIO from priorities (see ctf.py)
_PARKED_BIT, _PARKED, _PRIO_SHIFT, _MOST_PRIO = 6, 512, 100, 40


@lean
def _of_task(b: U8, i: int, n: int, first: int) -> int:
    """Return which part a field of a task is: ``first`` for its name, or the part for the pid or priority of the same task."""
    if n == 4 and is_word(b, i, _COMM_W):
        return first
    if n == 3 and (is_word(b, i, _PID_W) or is_word(b, i, _TID_W)):
        return tj.PID if first == tj.COMM else tj.PREV_PID
    if n == 4 and is_word(b, i, _PRIO_W):
        return tj.PRIO if first == tj.COMM else tj.PREV_PRIO
    return -1


@lean
def _part(b: U8, i: int, n: int) -> int:
    """Return which part of a line the field with this name is, or -1."""
    which = -1
    if is_word(b, i, _NEXT):
        which = _of_task(b, i + 5, n - 5, tj.COMM)
    elif is_word(b, i, _PREV):
        which = _of_task(b, i + 5, n - 5, tj.PREV_COMM)
        if n == 10 and is_word(b, i + 5, _STATE):
            which = STATE
    elif n <= 4:
        which = _of_task(b, i, n, tj.COMM)
    elif n == 5 and is_word(b, i, _STATE):
        which = STATE
    elif n == 6 and is_word(b, i, _CPU_W):
        which = tj.CTX_CPU
    elif n == 7 and is_word(b, i, _SUCCESS):
        which = SUCCESS
    elif n == 8 and is_word(b, i, _PERF_TID):
        which = CTX_PID
    elif n == 8 and is_word(b, i, _PERF_CPU):
        which = tj.CTX_CPU
    elif (n == 10 and is_word(b, i, _TARGET)) or (n == 8 and is_word(b, i, _DEST)):
        which = tj.CPU
    elif n == 8 and is_word(b, i, _ORIG):
        which = tj.SRC_CPU
    elif n == 10 and is_word(b, i, _COMMON_PID):
        which = CTX_PID
    elif n == 12 and is_word(b, i, _FLAGS):
        which = FLAGS
    return which


@lean
def _value(b: U8, i: int, names: U64, wanted: bool) -> tuple[int, int, bool]:
    """Read a text or a number: (its value, the place after it, whether it is a text); the place is 0 for other values."""
    v: Any = 0
    if b[i] == 34:  # "
        j = i + 1
        while b[j] != 34:
            if b[j] == 92 or b[j] < 32 or b[j] >= 127:  # the patterns undo what is escaped
                return 0, 0, True
            j += 1
        if wanted:
            v = intern(b, i + 1, j - i - 1, names) if j - i - 1 <= COMM_MAX else -1
        return v, j + 1 if v >= 0 else 0, True
    if b[i] == 48 and b[i + 1] == 120:  # 0x
        j = i + 2
        while True:
            c = b[j] if wanted else b[j] | 32
            if 48 <= c <= 57:
                v = v * 16 + c - 48
            elif 97 <= c <= 102:
                v = v * 16 + c - 87
            else:
                break
            j += 1
        return (v, j if 2 < j - i <= 17 or not wanted else 0, False)
    start = i + 1 if b[i] == 45 else i
    v, j = number(b, start)
    return (-v if start > i else v), j if j > start else 0, False


@lean
def _parts(b: U8, i: int, row: int, out: I64, names: U64) -> tuple[int, int]:
    """Read the braces from ``i`` on: (bits of the parts that were found, place of the newline; 0 if something is not known)."""
    seen = 0
    while b[i] != 10:
        if b[i] == 123 and b[i + 1] == 32:  # "{ "
            seen &= _ALWAYS
            i += 2
            continue
        if b[i] == 125:  # "}, {" or "}"
            i += 3 if b[i + 1] == 44 and b[i + 2] == 32 and b[i + 3] == 123 else 1
            if b[i] != 123 and b[i] != 10:
                return 0, 0
            continue
        j = i
        while b[j] > 32:
            j += 1
        if b[j] != 32 or b[j + 1] != 61 or b[j + 2] != 32:
            return 0, 0
        which = _part(b, i, j - i)
        v, end, is_text = _value(b, j + 3, names, which >= 0)
        if end == 0 or (which >= 0 and is_text != (_NAMES >> which & 1)):
            return 0, 0
        if which == tj.CTX_CPU and seen >> tj.CTX_CPU & 1:
            which = tj.CPU
        if which >= 0 and not seen >> which & 1:
            if not _LEAST[which] <= v <= _MOST[which]:
                return 0, 0
            seen |= 1 << which
            out[which, row] = v
        if (b[end] != 44 or b[end + 1] != 32) and (b[end] != 32 or b[end + 1] != 125):
            return 0, 0
        i = end + 2 if b[end] == 44 else end + 1
    return seen, i


@lean
def _state(bits: int, names: U64) -> int:
    """Return the number of the name of a state; -1 if the patterns must read it."""
    if bits == 0:
        return intern(_RUNS, 0, 1, names)
    for bit in range(8):
        if bits >> bit & 1:
            return -1 if bit == _PARKED_BIT else intern(_LETTERS, bit, 1, names)
    return -1 if bits == _PARKED else intern(_RUNS, 0, 2, names)


@lean
def _line(b: U8, start: int, lttng: bool, row: int, out: I64, names: U64) -> tuple[int, int, int]:
    """Read one line: (code, ns, place of its newline or 0 if this was not reached). The code of a wakeup that failed is -2."""
    sec, j = number(b, start + 1)
    if b[start] != 91 or j == start + 1 or sec > MAX_SECONDS or b[j] != 46:
        return -1, 0, 0
    frac, i = number(b, j + 1)
    if i - j != 10 or b[i] != 93 or b[i + 1] != 32:
        return -1, 0, 0
    ns = sec * 1_000_000_000 + frac
    name = i = i + 2
    # the host and the system to which an event belongs come before its name
    while b[i] > 32 or (b[i] == 32 and b[i - 1] != 58):
        if b[i] == 32 or (b[i] == 58 and b[i + 1] != 32):
            name = i + 1
        i += 1
    code, _ = tj.event_code(b, name, False)
    if is_word(b, name, _POWER_IDLE):
        code = ts.CPU_IDLE
    if code < 0 or code == ts.FORK or b[i] != 32 or b[i + 1] != 123:
        return -1, 0, 0
    if code == ts.STAT_RUNTIME:
        return code, ns, 0
    tj.blank(row, out)
    seen, end = _parts(b, i + 1, row, out, names)
    if end == 0 or seen & _NEEDED[code] != _NEEDED[code]:
        return -1, 0, 0
    if lttng:
        for which in (tj.PRIO, tj.PREV_PRIO):
            out[which, row] += _PRIO_SHIFT if tj.NO_PRIO < out[which, row] < _MOST_PRIO else 0
    flags = out[FLAGS, row] if seen >> FLAGS & 1 and not lttng else -1
    failed = seen >> SUCCESS & 1 and out[SUCCESS, row] == 0
    out[tj.IN_IRQ, row], out[tj.BY_COMM, row] = tj.NONE, tj.NO_NAME
    if code == ts.SWITCH:
        out[tj.PREV_STATE, row] = _state(out[STATE, row], names)
    elif code == ts.CPU_IDLE:
        out[tj.VALUE, row] = -1 if out[STATE, row] == 4294967295 else out[STATE, row]
    if code == ts.SWITCH or code == ts.EXIT:
        out[tj.CPU, row] = out[tj.CTX_CPU, row]
    if code == ts.SWITCH or code == ts.EXIT or code == ts.CPU_IDLE or lttng:
        out[tj.BY_PID, row] = tj.NONE
    elif not seen >> CTX_PID & 1:  # the patterns know other names for it
        return -1, 0, 0
    elif flags >= 0:
        out[tj.IN_IRQ, row] = flags & ts.IRQ_FLAGS != 0
    if code == ts.WAKEUP or code == ts.WAKEUP_NEW or code == ts.WAKING:
        out[tj.SRC_CPU, row] = out[tj.CTX_CPU, row]
        if failed:
            return -2, ns, end
    if code == ts.SWITCH and out[tj.PREV_STATE, row] < 0:
        return -1, 0, 0
    return code, ns, end


@lean
def scan(
    b: U8, size: int, lttng: bool, out: I64, slow: Slow, names: U64, counts: I64
) -> tuple[int, int, int, int]:
    """Decode a block of whole lines, as ``scan`` in text/scan_jit.py does."""
    row = n_slow = n_bytes = line = start = 0
    while start < size:
        code, ns, end = _line(b, start, lttng, row, out, names)
        if end == 0:
            end = line_end(b, start, size)
        if code == -1:
            n_bytes = tj.leave(b, start, end, line, -1, slow, n_slow, n_bytes)
            n_slow += 1
        elif code >= 0:
            counts[code] += 1
            if code != ts.STAT_RUNTIME:
                out[tj.LINE, row], out[tj.TS_NS, row], out[tj.CODE, row] = line, ns, code
                row += 1
        line += 1
        start = end + 1
    return row, n_slow, n_bytes, line
