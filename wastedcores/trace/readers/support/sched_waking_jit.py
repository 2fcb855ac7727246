"""Gives sched_waking events the CPU of the sched_migrate_task event that follows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import jit

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

#: The longest time from a sched_waking to the sched_migrate_task of the same call of try_to_wake_up() (kernel/sched/core.c).
PLACED_WITHIN_NS = 50_000


@jit
def place_wakings(
    ts_ns: I64,
    ctx_cpu: I32,
    pid: I32,
    waking: NDArray[np.bool_],
    migrate: NDArray[np.bool_],
    cpu: I32,
    cpus: int,
) -> int:
    """Give sched_waking events the CPU on which the task was queued; ``cpu`` changes in place.

    sched_waking names the previous CPU. When try_to_wake_up chooses another CPU, sched_migrate_task is the next event
    of the waker's CPU.
    """
    last = np.full(cpus, -1, np.int64)
    placed = 0
    for i in range(ts_ns.size):
        where = ctx_cpu[i]
        if where < 0 or where >= cpus:
            continue
        k = last[where]
        if (
            migrate[i]
            and k >= 0
            and waking[k]
            and pid[k] == pid[i]
            and ts_ns[i] - ts_ns[k] <= PLACED_WITHIN_NS
        ):
            cpu[k] = cpu[i]
            placed += 1
        last[where] = i
    return placed
