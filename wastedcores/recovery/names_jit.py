"""One pass over the names in a trace's events: when each task got another one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import jit

I64 = NDArray[np.int64]

# columns of the names, of the tasks and of a change
N_PID, N_NAME, N_PREV, N_PREV_NAME = range(4)
F_PID, F_ROW, F_TASK = range(3)
C_TASK, C_ROW, C_PREV = range(3)


@jit
def changes(names: I64, first: I64, of_pid: I64, last: I64, out: I64) -> int:
    """Write each task whose name changes, the row, and whether it is the row's former task; return the number or -1 for no room.

    ``names`` has one row per event, and names are numbers, -1 for none. ``first`` has the tasks in the order of the rows that
    show them first. ``of_pid`` and ``last`` (the name of each task) begin with -1.
    """
    n = k = 0
    for row in range(len(names)):
        while k < len(first) and first[k, F_ROW] <= row:
            of_pid[first[k, F_PID]] = first[k, F_TASK]
            k += 1
        for column in (N_PID, N_PREV):
            pid, name = names[row, column], names[row, column + 1]
            if pid <= 0 or name < 0:
                continue
            task = of_pid[pid]
            if task < 0 or last[task] == name:
                continue
            if n == len(out):
                return -1
            last[task] = name
            out[n, C_TASK], out[n, C_ROW], out[n, C_PREV] = task, row, int(column == N_PREV)
            n += 1
    return n
