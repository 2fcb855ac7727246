"""How long every task ran, from the switches alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import jit

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


@jit
def add_switches(
    ts_ns: I64, cpu: I32, pid: I32, start_ns: int, end_ns: int, since: I64, runs: I32, ran_ns: I64
) -> None:
    """Take switches in order of time.

    ``runs`` and ``since`` (cpus,) carry over: what each CPU runs (-1 unknown) and since when. The time that a
    task ran between ``start_ns`` and ``end_ns`` is added to ``ran_ns`` (tasks,).
    """
    for i in range(ts_ns.size):
        c = cpu[i]
        if runs[c] > 0:
            ran_ns[runs[c]] += max(min(ts_ns[i], end_ns) - max(since[c], start_ns), 0)
        runs[c] = pid[i]
        since[c] = ts_ns[i]
