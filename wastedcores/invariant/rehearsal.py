"""A check of two made-up runqueues, in a second process that compiles the sweep while the first rebuilds the real runqueues."""

from __future__ import annotations

import numpy as np
import polars as pl

from wastedcores.invariant import sweep_jit
from wastedcores.invariant.details import details
from wastedcores.invariant.sweep import episode_table, sweep
from wastedcores.runqueues.affinity import unrestricted
from wastedcores.runqueues.runqueues import Batch, Runqueues
from wastedcores.runqueues.task_rows import TaskRows
from wastedcores.trace.header import Header
from wastedcores.trace.schema import SCHEMA
from wastedcores.trace.trace import Trace


def rehearse(pairs: bool) -> None:
    """Sweep over an episode of two nanoseconds, and over its details.

    ``pairs`` tells which of the two sweeps the real check needs, see :func:`wastedcores.invariant.sweep.sweep`.
    """
    cpus, end_ns = 2, 3
    trace = Trace(pl.DataFrame(schema=SCHEMA).lazy(), Header(source_format="rehearsal"))
    tasks = TaskRows(trace, 3)
    rq = Runqueues(
        *(trace, "tasks", cpus, tasks, 0, end_ns, [], "idle", unrestricted(cpus, 3), []),
        keep=True,
        counted=pairs,
    )
    ts_ns, cpu, nr = (
        np.array([0, 0, 2]),
        np.array([0, 1, 0], np.int32),
        np.array([2, 0, 1], np.int32),
    )
    free, mask = np.array([1, 0, 0], np.int32), np.zeros(3, np.int32)
    one = {"task": 2, "cpu": 0, "start_ns": 0, "end_ns": 2, "mask": 0, "evidence": 0}
    waits = (
        pl.DataFrame([one])
        .cast({pl.Int64: pl.Int32})
        .cast({"start_ns": pl.Int64, "end_ns": pl.Int64})
    )
    rq._kept = [Batch(ts_ns, cpu, nr, free, mask, np.zeros(3, np.int8), waits)]
    state = sweep_jit.new_state(cpus, np.ones(cpus, np.uint8), 0, end_ns, 1)
    collected = sweep(rq, state, end_ns).episodes
    details(rq, episode_table(collected, cpus, 1), np.ones(cpus, np.uint8), (0, end_ns))
