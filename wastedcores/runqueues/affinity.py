"""Where a trace tells which CPUs a task may run on: affinity events, the snapshot, names of bound kernel threads."""

from __future__ import annotations

import numpy as np
import polars as pl

from wastedcores.runqueues import tasks_jit as tj
from wastedcores.runqueues.stream import Runqueues

#: kernel threads bound to the CPU in their name (kernel/smpboot.c, workqueue.c, stop_machine.c, rcu/tree.c)
BOUND_KTHREADS = (
    r"^(?:migration|ksoftirqd|cpuhp|watchdog|rcuc|ktimers|irq_work|idle_inject|backlog_napi|kworker|stopper)"
    r"/(\d+)(?::.*)?$"
)


def find_affinity(rq: Runqueues, kinds: dict[str, int]) -> None:
    """Fill ``affinity``, ``masks`` and the mask of every task at the start."""
    mask_of_pid = np.zeros(rq.pids, np.int32)
    comms = pl.concat(
        [
            rq.trace.events.select(pid=pl.col(p), comm=pl.col(c).cast(pl.String))
            for p, c in (("pid", "comm"), ("prev_pid", "prev_comm"))
        ]
    )
    bound = (
        comms.filter(pl.col("pid") > 0, pl.col("comm").str.contains(BOUND_KTHREADS))
        .unique()
        .collect(engine="streaming")
    )
    if bound.height:
        mask_of_pid[bound["pid"].to_numpy()] = tj.BOUND
        rq.affinity.append("bound kernel threads")
    if "affinity" in kinds or "task_state" in kinds:
        distinct = (
            rq.trace.only("affinity", "task_state")
            .select(pl.col("cpu_mask").drop_nulls().unique(maintain_order=True))
            .collect()["cpu_mask"]
        )
        words = rq.masks.shape[1]
        rows = [np.zeros(words, np.uint64)]
        for raw in distinct.to_list():
            bits = np.zeros(words * 8, np.uint8)
            data = np.frombuffer(raw, np.uint8)[: words * 8]
            bits[: data.size] = data
            if int(np.unpackbits(bits).sum()) >= rq.cpus:
                rq.mask_ids[raw] = tj.FREE
                continue
            rq.mask_ids[raw] = len(rows)
            rows.append(bits.view(np.uint64))
        rq.masks = np.stack(rows)
        if distinct.len():
            rq.affinity.append("events")
        first = (
            rq.trace.only("task_state")
            .select("pid", "cpu_mask")
            .drop_nulls()
            .unique("pid", keep="first")
            .collect()
        )
        for pid, raw in first.iter_rows():
            if mask_of_pid[pid] != tj.BOUND:
                mask_of_pid[pid] = rq.mask_ids[raw]
    rq.mask_of_pid = mask_of_pid
