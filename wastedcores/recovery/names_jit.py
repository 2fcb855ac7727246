"""One pass over the names in a trace's events: when each task got another one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import jit
from wastedcores.recovery.stretches_jit import E_PID, E_PREV

I64 = NDArray[np.int64]

# columns of the tasks and of a change
F_PID, F_ROW, F_TASK = range(3)
C_TASK, C_ROW, C_PREV = range(3)


@jit
def changes(
    events: I64, comm: I64, prev_comm: I64, first: I64, of_pid: I64, last: I64, out: I64
) -> int:
    """Write each task whose name changes, the row, and whether it is the row's former task; return the number or -1 for no room.

    ``comm`` and ``prev_comm`` have a number for each event's name, -1 for none. ``first`` has the tasks in the order of the rows
    that show them first. ``of_pid`` and ``last`` (the name of each task) begin with -1.
    """
    n = k = 0
    for row in range(len(events)):
        while k < len(first) and first[k, F_ROW] <= row:
            of_pid[first[k, F_PID]] = first[k, F_TASK]
            k += 1
        for former in range(2):
            pid = events[row, E_PREV] if former else events[row, E_PID]
            name = prev_comm[row] if former else comm[row]
            if pid <= 0 or name < 0 or pid >= len(of_pid):
                continue
            task = of_pid[pid]
            if task < 0 or last[task] == name:
                continue
            if n == len(out):
                return -1
            last[task] = name
            out[n, C_TASK], out[n, C_ROW], out[n, C_PREV] = task, row, former
            n += 1
    return n
