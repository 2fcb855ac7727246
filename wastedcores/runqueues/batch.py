"""Changes of runqueues, batch by batch: what :mod:`wastedcores.runqueues.stream` yields."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.runqueues import state as st
from wastedcores.runqueues import task_row

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


@dataclass
class Batch:
    """Changes of runqueues, ordered by time; all arrays have the shape (changes,)."""

    #: when and where the runqueue changed
    ts_ns: I64
    cpu: I32
    nr: I32  #: tasks on the runqueue afterwards; -1 is unknown
    #: waiting tasks that may run anywhere; in a row with ``mask`` > 0, waiting tasks of that mask id
    free: I32
    mask: I32  #: 0, or a mask id; a row with a mask id is about affinity only
    #: the code of the event that caused the row, see :mod:`wastedcores.runqueues.state`; -1 is unknown
    code: NDArray[np.int8]
    #: the waits that ended in this batch, if they were asked for, with columns task (a row of Runqueues.tasks), cpu, mask (the
    #: thread's mask id), evidence, start_ns, end_ns. Where a waiting thread is moved to another runqueue, or gets another
    #: affinity, one wait ends and the next one begins.
    waits: pl.DataFrame | None = None
    oldest_wait_ns: int = 0  #: every wait that ends in a later batch began at this time or later

    def runqueues(self) -> tuple[I64, I32, I32]:
        """Return (ts_ns, cpu, nr) of the rows that are about runqueues."""
        return self.with_causes()[:3]

    def with_causes(self) -> tuple[I64, I32, I32, NDArray[np.int8]]:
        """Return (ts_ns, cpu, nr, code) of the rows that are about runqueues."""
        if not self.mask.any():
            return self.ts_ns, self.cpu, self.nr, self.code
        keep = self.mask == 0
        return self.ts_ns[keep], self.cpu[keep], self.nr[keep], self.code[keep]


def no_changes() -> Batch:
    """Return a batch without any change."""
    none = np.zeros(0, np.int32)
    return Batch(np.zeros(0, np.int64), none, none, none, none, np.zeros(0, np.int8))


def batch_of(out: st.Output, state: st.State, waits: bool, end_ns: int) -> Batch:
    """Copy what one call of the state machine wrote about events until ``end_ns``."""
    n = int(state.numbers[st.N_CHANGES])
    cpu, nr, free, mask, code = out.change[:, :n].copy()
    table, oldest_ns = None, 0
    if waits:
        table = wait_table(out, int(state.numbers[st.N_WAITS]))
        waiting = state.since[state.task[:, task_row.STATE] == task_row.WAITING]
        oldest_ns = int(waiting.min(initial=end_ns))
    changes = (out.change_ns[:n].copy(), cpu, nr, free, mask, code.astype(np.int8))
    return Batch(*changes, table, oldest_ns)


def wait_table(out: st.Output, n: int) -> pl.DataFrame:
    """Return the first ``n`` finished waits as a table."""
    return pl.DataFrame(
        {
            "task": out.wait[st.TASK, :n].copy(),
            "cpu": out.wait[st.CPU, :n].copy(),
            "mask": out.wait[st.WAIT_MASK, :n].copy(),
            "evidence": out.wait[st.WAIT_EVIDENCE, :n].copy(),
            "start_ns": out.wait_ns[st.START, :n].copy(),
            "end_ns": out.wait_ns[st.END, :n].copy(),
        }
    )
