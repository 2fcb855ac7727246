"""Removes from the changes of runqueues the overloads that end before a thread could be moved."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import jit

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


class Overloads(NamedTuple):
    """The overload that each CPU is in, (cpus,) each."""

    begin_ns: I64  # -1: the CPU is not overloaded
    row: I64  # the last row about the CPU in the present batch, -1: none


def new_overloads(cpus: int) -> Overloads:
    """No CPU is overloaded."""
    return Overloads(np.full(cpus, -1, np.int64), np.full(cpus, -1, np.int64))


@jit
def _end(o: Overloads, nr: I32, before: I64, c: int, t: int, floor_ns: int, rows: int) -> None:
    """End the overload of CPU ``c`` at ``t``; if it was brief, let its rows below ``rows`` show one task."""
    if t - o.begin_ns[c] < floor_ns:
        k = o.row[c]
        while k >= 0:
            if k < rows:
                if nr[k] < 2:
                    break
                nr[k] = 1
            k = before[k]
    o.begin_ns[c] = -1


@jit
def drop_brief(
    ts_ns: I64, cpu: I32, nr: I32, mask: I32, rows: int, floor_ns: int, o: Overloads
) -> None:
    """Set ``nr`` to 1 in the first ``rows`` changes wherever a CPU is overloaded for less than ``floor_ns``.

    The changes after these rows are only read; they must reach ``floor_ns`` beyond these rows.
    """
    o.row[:] = -1
    before = np.full(ts_ns.size, -1, np.int64)  # the previous row about the same CPU
    for i in range(rows):
        c = cpu[i]
        if mask[i] > 0:
            continue
        if nr[i] >= 2:
            if o.begin_ns[c] < 0:
                o.begin_ns[c] = ts_ns[i]
                o.row[c] = -1
            before[i] = o.row[c]
            o.row[c] = i
        elif o.begin_ns[c] >= 0:
            _end(o, nr, before, c, ts_ns[i], floor_ns, rows)
    ahead = Overloads(o.begin_ns.copy(), o.row.copy())
    for i in range(rows, ts_ns.size):
        c = cpu[i]
        if mask[i] == 0 and nr[i] < 2 and ahead.begin_ns[c] >= 0:
            _end(ahead, nr, before, c, ts_ns[i], floor_ns, rows)
