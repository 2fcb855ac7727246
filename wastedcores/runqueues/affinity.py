"""Which CPUs each task may run on, as far as a trace tells.

The sources are affinity events, the snapshot at the start of a capture, and the names of bound kernel threads.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.runqueues import tasks_jit as tj
from wastedcores.trace.trace import Trace

#: kernel threads bound to the CPU in their name (kernel/smpboot.c, workqueue.c, stop_machine.c, rcu/tree.c)
BOUND_KTHREADS = (
    r"^(?:migration|ksoftirqd|cpuhp|watchdog|rcuc|ktimers|irq_work|idle_inject|backlog_napi|kworker|stopper)"
    r"/(\d+)(?::.*)?$"
)


class Affinity(NamedTuple):
    """The distinct affinity masks of a trace and the mask of every task at its start."""

    masks: NDArray[np.uint64]  # (masks, words) allowed CPUs by mask id; id 0 stands for "anywhere"
    mask_ids: dict[bytes, int]  # the id of a mask as the events write it
    of_pid: NDArray[np.int32]  # (pids,) mask id of each task at the start, see tasks_jit
    sources: tuple[str, ...]  # where it comes from: "bound kernel threads", "events", or nothing


def unrestricted(cpus: int, pids: int) -> Affinity:
    """Return the affinity of a trace in which every task may run anywhere.

    Parameters
    ----------
    cpus, pids
        CPU numbers and pids are below these.

    Returns
    -------
    Affinity
        It has no mask but the one for "anywhere".
    """
    return Affinity(np.zeros((1, (cpus + 63) // 64), np.uint64), {}, np.zeros(pids, np.int32), ())


def find_affinity(trace: Trace, kinds: Collection[str], cpus: int, pids: int) -> Affinity:
    """Collect the affinity masks of a trace.

    Parameters
    ----------
    trace
        The trace.
    kinds
        The kinds of its events.
    cpus, pids
        CPU numbers and pids are below these.

    Returns
    -------
    Affinity
        The masks, and the mask of every task at the start.
    """
    masks, mask_ids, of_pid, _ = unrestricted(cpus, pids)
    sources = []
    comms = pl.concat(
        [
            trace.events.select(pid=pl.col(p), comm=pl.col(c).cast(pl.String))
            for p, c in (("pid", "comm"), ("prev_pid", "prev_comm"))
        ]
    )
    bound = (
        comms.filter(pl.col("pid") > 0, pl.col("comm").str.contains(BOUND_KTHREADS))
        .unique()
        .collect(engine="streaming")
    )
    if bound.height:
        of_pid[bound["pid"].to_numpy()] = tj.BOUND
        sources.append("bound kernel threads")
    if "affinity" in kinds or "task_state" in kinds:
        told = trace.only("affinity", "task_state").select("kind", "pid", "cpu_mask")
        table = told.filter(pl.col("cpu_mask").is_not_null()).collect()
        rows = [masks[0]]
        for raw in table["cpu_mask"].unique(maintain_order=True):
            bits = np.zeros(masks.shape[1] * 8, np.uint8)
            data = np.frombuffer(raw, np.uint8)[: bits.size]
            bits[: data.size] = data
            everywhere = int(np.unpackbits(bits).sum()) >= cpus
            mask_ids[raw] = tj.FREE if everywhere else len(rows)
            if not everywhere:
                rows.append(bits.view(np.uint64))
        masks = np.stack(rows)
        if table.height:
            sources.append("events")
        snapshot = table.filter(pl.col("kind") == "task_state").unique("pid", keep="first")
        for _, pid, raw in snapshot.iter_rows():
            if of_pid[pid] != tj.BOUND:
                of_pid[pid] = mask_ids[raw]
    return Affinity(masks, mask_ids, of_pid, tuple(sources))
