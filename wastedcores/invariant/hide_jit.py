"""Changes of runqueues with some spans replaced: a CPU whose state is in doubt counts as unknown, or as overloaded."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import jit

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


class Borders(NamedTuple):
    """The moments at which hidden spans begin (``into`` 1) and end (0), in order; ``next[0]`` is the index of the next one."""

    ts_ns: I64
    cpu: I32
    into: NDArray[np.int8]
    next: I64  # (1,)


class Shadow(NamedTuple):
    """The state that each CPU would show if it were not hidden, (cpus,)."""

    hidden: NDArray[np.int8]
    nr: I32
    free: I32


def new_shadow(cpus: int) -> Shadow:
    """Nothing hidden, nothing known."""
    return Shadow(np.zeros(cpus, np.int8), np.full(cpus, -1, np.int32), np.zeros(cpus, np.int32))


@jit
def hide(
    ts_ns: I64,
    cpu: I32,
    nr: I32,
    free: I32,
    mask: I32,
    b: Borders,
    hidden_nr: int,
    s: Shadow,
    out_ts_ns: I64,
    out_cpu: I32,
    out_nr: I32,
    out_free: I32,
    out_mask: I32,
) -> int:
    """Write the changes that remain visible, and the changes that hide and show a CPU; returns how many.

    A hidden CPU has ``hidden_nr`` tasks, which may run anywhere; -1: nobody knows how many.
    """
    n = 0
    at = b.next[0]
    for i in range(ts_ns.size + 1):
        while at < b.ts_ns.size and i < ts_ns.size and b.ts_ns[at] <= ts_ns[i]:
            c = b.cpu[at]
            s.hidden[c] = b.into[at]
            out_ts_ns[n], out_cpu[n], out_mask[n] = b.ts_ns[at], c, 0
            out_nr[n] = hidden_nr if b.into[at] != 0 else s.nr[c]
            out_free[n] = max(hidden_nr, 0) if b.into[at] != 0 else s.free[c]
            n += 1
            at += 1
        if i == ts_ns.size:
            break
        c = cpu[i]
        if mask[i] == 0:
            s.nr[c] = nr[i]
            s.free[c] = free[i]
            if s.hidden[c] != 0:
                continue
        out_ts_ns[n], out_cpu[n], out_mask[n] = ts_ns[i], c, mask[i]
        out_nr[n], out_free[n] = nr[i], free[i]
        n += 1
    b.next[0] = at
    return n
