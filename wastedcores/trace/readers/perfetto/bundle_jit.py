"""Decodes the events in bundles of ftrace events, whether as messages or as columns (compact_sched).

Formats: protos/perfetto/trace/ftrace/{ftrace_event,ftrace_event_bundle,sched,power,task}.proto (v58).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import lean
from wastedcores.limits import MAX_CPUS
from wastedcores.trace.readers.perfetto import wire_jit as wj
from wastedcores.trace.readers.perfetto.wire_jit import field, varint
from wastedcores.trace.readers.support import tracepoints as ts
from wastedcores.trace.readers.support.names_jit import COMM_MAX, intern

U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

#: Codes beside those of tracepoints.py.
FREQUENCY, LOSS = 9, 10
#: A number or a name that an event does not have.
NONE = -(2**31)

#: Rows of the event table, which has one column per event. A name is stored as its number in the table of names_jit.py.
FIELDS = (
    "ts_ns", "code", "ctx_cpu", "cpu", "pid", "comm", "prio", "prev_pid", "prev_comm", "prev_prio", "state", "src_cpu", "by_pid",
    "by_comm", "value", "in_irq",
)  # fmt: skip
(
    TS_NS, CODE, CTX_CPU, CPU_OF, PID, COMM, PRIO, PREV_PID, PREV_COMM, PREV_PRIO, STATE, SRC_CPU, BY_PID, BY_COMM, VALUE, IN_IRQ,
) = range(len(FIELDS))  # fmt: skip

#: Numbers of FtraceEvent's fields.
E_SWITCH, E_FREQUENCY, E_IDLE, E_WAKEUP, E_WAKING, E_WAKEUP_NEW, E_NEWTASK, E_EXIT, E_FORK, E_MIGRATE = (
    4, 11, 13, 17, 20, 114, 235, 238, 239, 491,
)  # fmt: skip
#: Events are counted if the number of their field is below this.
N_EVENTS = 1024
#: Columns of what is known of a CPU: the running thread (pid, name, priority), and the last new task.
RUNS, RUNS_COMM, RUNS_PRIO, NEWTASK = range(4)
N_KNOWN = 4
_PARTS = 8


class Scratch(NamedTuple):
    """Memory for the parts of one message."""

    parts: I64  # (2, fields): values and sizes
    places: I64  # (fields, 2): where the columns of compact_sched begin and end
    comms: I64  # the names in the table of compact_sched


def new_scratch(size: int) -> Scratch:
    """Return memory for bundles of up to ``size`` bytes."""
    return Scratch(
        np.empty((2, _PARTS), np.int64),
        np.empty((13, 2), np.int64),
        np.empty(size // 2 + 1, np.int64),
    )


@lean
def _name(b: U8, at: int, size: int, names: U64) -> int:
    """Return the number of a name; -2 if the table is full."""
    n = 0
    while n < size and n < COMM_MAX and b[at + n] != 0:
        n += 1
    return intern(b, at, n, names)


@lean
def _blank(out: I64, r: int) -> None:
    for i in range(out.shape[0]):
        out[i, r] = NONE


@lean
def _cpu_ok(cpu: int) -> bool:
    return 0 <= cpu < MAX_CPUS


@lean
def _parts_of(b: U8, at: int, end: int, values: I64, sizes: I64) -> tuple[int, int, int]:
    """Take a message apart; return (number, place, size) of the last field with bytes whose number is 3 or more.

    The number is 0 if no field is like this, and -1 if this is not a message. In ``sizes``, -1 stands for a field that is a
    number, and -2 for an absent field.
    """
    values[:] = 0
    sizes[:] = -2
    last = place = length = 0
    while at < end:
        number, value, size, at = field(b, at, end)
        if at < 0:
            return -1, 0, 0
        if number < _PARTS:
            values[number], sizes[number] = value, size
        if number > 2 and size >= 0:
            last, place, length = number, value, size
    return last, place, length


@lean
def _event(
    b: U8,
    at: int,
    end: int,
    cpu: int,
    out: I64,
    r: int,
    names: U64,
    known: I64,
    counts: I64,
    parts: I64,
) -> tuple[int, int]:
    """Decode a message of an event: (number of events that were written, problem)."""
    values, sizes = parts[0], parts[1]
    kind, begin, length = _parts_of(b, at, end, values, sizes)
    ns = values[1] if sizes[1] < 0 else 0
    pid = values[2] if sizes[2] < 0 else 0
    in_irq = int(values[5] & ts.IRQ_FLAGS != 0) if sizes[5] == -1 else NONE
    if kind < 0:
        return 0, wj.BAD
    if kind == 0:
        return 0, wj.OK
    if kind < N_EVENTS:
        counts[kind] += 1
    code = -1
    if kind == E_SWITCH:
        code = ts.SWITCH
    elif kind == E_WAKEUP:
        code = ts.WAKEUP
    elif kind == E_WAKEUP_NEW:
        code = ts.WAKEUP_NEW
    elif kind == E_WAKING:
        code = ts.WAKING
    elif kind == E_MIGRATE:
        code = ts.MIGRATE
    elif kind == E_EXIT:
        code = ts.EXIT
    elif kind == E_FORK or kind == E_NEWTASK:
        code = ts.FORK
    elif kind == E_IDLE:
        code = ts.CPU_IDLE
    elif kind == E_FREQUENCY:
        code = FREQUENCY
    if code < 0:
        return 0, wj.OK
    if _parts_of(b, begin, begin + length, values, sizes)[0] < 0:
        return 0, wj.BAD
    if ns < 0:
        return 0, wj.BAD
    _blank(out, r)
    out[TS_NS, r], out[CODE, r], out[CTX_CPU, r], out[CPU_OF, r] = ns, code, cpu, cpu
    name_at = 3 if kind == E_FORK else 2 if kind == E_NEWTASK else 5 if kind == E_SWITCH else 1
    if code != ts.CPU_IDLE and code != FREQUENCY and sizes[name_at] >= 0:
        out[COMM, r] = _name(b, values[name_at], sizes[name_at], names)
        if out[COMM, r] == -2:
            return 0, wj.FULL
    if code == ts.SWITCH:
        if sizes[1] >= 0:
            out[PREV_COMM, r] = _name(b, values[1], sizes[1], names)
            if out[PREV_COMM, r] == -2:
                return 0, wj.FULL
        out[PREV_PID, r], out[PREV_PRIO, r], out[STATE, r] = values[2], values[3], values[4]
        out[PID, r], out[PRIO, r] = values[6], values[7]
        known[RUNS], known[RUNS_COMM], known[RUNS_PRIO] = values[6], out[COMM, r], values[7]
    elif code == ts.FORK:
        out[PID, r] = values[4] if kind == E_FORK else values[1]
        out[BY_PID, r] = values[2] if kind == E_FORK else pid
        if kind == E_NEWTASK:
            known[NEWTASK] = values[1]
        elif known[NEWTASK] == values[4]:
            return 0, wj.OK  # task_newtask has stated it
    elif code == ts.EXIT:
        out[PID, r], out[PRIO, r] = values[2], values[4]
    elif code == ts.CPU_IDLE or code == FREQUENCY:
        out[CPU_OF, r] = values[2]
        idles = values[1] & 0xFFFFFFFF
        out[VALUE, r] = -1 if code == ts.CPU_IDLE and idles == 0xFFFFFFFF else idles
        if not _cpu_ok(values[2]):
            return 0, wj.BAD
    else:
        out[PID, r], out[PRIO, r], out[BY_PID, r] = values[2], values[3], pid
        out[CPU_OF, r], out[SRC_CPU, r], out[IN_IRQ, r] = values[5], cpu, in_irq
        if code == ts.MIGRATE:
            out[SRC_CPU, r] = values[4]
        if known[RUNS] == pid:
            out[BY_COMM, r] = known[RUNS_COMM]
        if not _cpu_ok(out[CPU_OF, r]) or not _cpu_ok(out[SRC_CPU, r]):
            return 0, wj.BAD
    return 1, wj.OK


@lean
def _compact(
    b: U8,
    at: int,
    end: int,
    cpu: int,
    out: I64,
    r: int,
    names: U64,
    known: I64,
    counts: I64,
    wakes: int,
    places: I64,
    comms: I64,
) -> tuple[int, int]:
    """Decode compact_sched: (number of events that were written, problem). ``wakes`` is the event code for its wakings."""
    places[:] = 0
    strings = 0
    while at < end:
        number, value, size, at = field(b, at, end)
        if at < 0:
            return 0, wj.BAD
        if number == 5:
            if size < 0 or strings == comms.shape[0]:
                return 0, wj.BAD
            comms[strings] = _name(b, value, size, names)
            if comms[strings] == -2:
                return 0, wj.FULL
            strings += 1
        elif number <= 12 and size >= 0:
            if places[number, 1]:
                return 0, wj.BAD
            places[number, 0], places[number, 1] = value, value + size
    n = 0
    switch_ns = waking_ns = 0
    switches, wakings = places[1, 0], places[7, 0]
    next_switch = next_waking = -1
    flagged = places[12, 1] > 0
    while True:
        if next_switch < 0 and switches < places[1, 1]:
            delta, switches = varint(b, switches, places[1, 1])
            if switches < 0:
                return 0, wj.BAD
            switch_ns += delta
            next_switch = switch_ns
        if next_waking < 0 and wakings < places[7, 1]:
            delta, wakings = varint(b, wakings, places[7, 1])
            if wakings < 0:
                return 0, wj.BAD
            waking_ns += delta
            next_waking = waking_ns
        if next_switch < 0 and next_waking < 0:
            return n, wj.OK
        is_switch = next_waking < 0 or (next_switch >= 0 and next_switch <= next_waking)
        _blank(out, r + n)
        out[TS_NS, r + n] = next_switch if is_switch else next_waking
        out[CTX_CPU, r + n] = out[CPU_OF, r + n] = cpu
        first, last = (2, 6) if is_switch else (8, 12 if flagged else 11)
        for which in range(first, last + 1):
            if which == 5:
                continue
            value, places[which, 0] = varint(b, places[which, 0], places[which, 1])
            if places[which, 0] < 0:
                return 0, wj.BAD
            if which == 2:
                out[STATE, r + n] = value
            elif which == 3 or which == 8:
                out[PID, r + n] = value
            elif which == 4 or which == 10:
                out[PRIO, r + n] = value
            elif which == 9:
                out[CPU_OF, r + n] = value
                if not _cpu_ok(value):
                    return 0, wj.BAD
            elif which == 12:
                out[IN_IRQ, r + n] = int(value & ts.IRQ_FLAGS != 0)
            else:
                if value < 0 or value >= strings:
                    return 0, wj.BAD
                out[COMM, r + n] = comms[value]
        if is_switch:
            out[CODE, r + n] = ts.SWITCH
            counts[E_SWITCH] += 1
            out[PREV_PID, r + n] = known[RUNS] if known[RUNS] != NONE else -1
            out[PREV_COMM, r + n], out[PREV_PRIO, r + n] = known[RUNS_COMM], known[RUNS_PRIO]
            known[RUNS], known[RUNS_COMM] = out[PID, r + n], out[COMM, r + n]
            known[RUNS_PRIO] = out[PRIO, r + n]
            next_switch = -1
        else:
            out[CODE, r + n] = wakes
            counts[E_WAKING] += 1
            out[SRC_CPU, r + n] = cpu
            out[BY_PID, r + n], out[BY_COMM, r + n] = known[RUNS], known[RUNS_COMM]
            next_waking = -1
        n += 1


@lean
def bundles(
    b: U8,
    table: I64,
    i: int,
    n: int,
    out: I64,
    names: U64,
    known: I64,
    counts: I64,
    wakes: int,
    scratch: Scratch,
) -> tuple[int, int, int]:
    """Decode bundles."""
    r = 0
    for row in range(i, n):
        cpu = table[row, wj.CPU]
        if not _cpu_ok(cpu):
            return r, wj.BAD, row
        at, end = table[row, wj.BUNDLE], table[row, wj.BUNDLE] + table[row, wj.BUNDLE_SIZE]
        mine = known[cpu]
        if table[row, wj.WHAT] & wj.LOST:
            mine[RUNS] = mine[RUNS_COMM] = mine[RUNS_PRIO] = NONE
        while at < end:
            number, value, size, at = field(b, at, end)
            if at < 0:
                return r, wj.BAD, row
            if size < 0 or (number != 2 and number != 4):
                continue
            if number == 2:
                more, problem = _event(
                    b, value, value + size, cpu, out, r, names, mine, counts, scratch.parts
                )
            else:
                more, problem = _compact(
                    b,
                    value,
                    value + size,
                    cpu,
                    out,
                    r,
                    names,
                    mine,
                    counts,
                    wakes,
                    scratch.places,
                    scratch.comms,
                )
            if problem != wj.OK:
                return r, problem, row
            r += more
    return r, wj.OK, n
