"""How long threads waited for a CPU: the one definition that the check, comparisons and figures share."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.runqueues.batch import wait_table
from wastedcores.runqueues.run_time_jit import add_switches
from wastedcores.runqueues.state import new_output
from wastedcores.runqueues.stream import Runqueues


def run_times(rq: Runqueues, start_ns: int, end_ns: int) -> NDArray[np.int64]:
    """Return the time that every task of ``rq.tasks`` was on a CPU."""
    since = np.zeros(rq.cpus, np.int64)
    runs = np.full(rq.cpus, -1, np.int32)
    ran_ns = np.zeros(rq.tasks.count, np.int64)
    for batch in rq.tasks.trace.batches(["ts_ns", "cpu", "pid"], "switch"):
        ts_ns, cpu, pid = (batch[c].to_numpy() for c in ("ts_ns", "cpu", "pid"))
        add_switches(ts_ns, cpu, pid, start_ns, end_ns, since, runs, ran_ns)
    end = np.full(rq.cpus, rq.end_ns)
    idle = np.zeros(rq.cpus, np.int32)
    cpus = np.arange(rq.cpus, dtype=np.int32)
    add_switches(end, cpus, idle, start_ns, end_ns, since, runs, ran_ns)
    return ran_ns


def waits(rq: Runqueues, start_ns: int, end_ns: int, cpus: Collection[int]) -> pl.DataFrame:
    """Return every wait for a CPU that overlaps a window.

    A thread waits from the moment at which it becomes runnable or is preempted until it runs. If it is moved to another
    runqueue in the meantime, this is still one wait, on the CPU where it ends. Waits are found from task events even in a
    trace whose runqueue lengths come from nr_running events.

    * ``rq``: the runqueues of the trace.
    * ``start_ns``, ``end_ns``: the window in ns; waits keep their full length.
    * ``cpus``: waits that end on one of these CPUs count.
    * Returns columns pid, cpu, start_ns, end_ns, ordered by pid and start; empty if the trace has no switch events.
    """
    parts = [b.waits for b in rq.batches(waits=True) if b.waits is not None]
    if not parts:
        parts = [wait_table(new_output(0, 0, 0), 0)]
    table = pl.concat(parts).sort("task", "start_ns")
    begins = (pl.col("task") != pl.col("task").shift(1)) | (
        pl.col("start_ns") != pl.col("end_ns").shift(1)
    )
    whole = table.group_by(begins.fill_null(True).cum_sum().alias("wait"), maintain_order=True).agg(
        pl.col("task", "cpu", "end_ns").last(), pl.col("start_ns").first()
    )
    pid = pl.Series("pid", rq.tasks.pids(whole["task"].to_numpy()))
    return whole.select(pid, "cpu", "start_ns", "end_ns").filter(
        pl.col("end_ns") > start_ns, pl.col("start_ns") < end_ns, pl.col("cpu").is_in(list(cpus))
    )
