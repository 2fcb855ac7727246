"""Whether moving a thread to an idle CPU would have paid: the wait that the move would have ended, against its price.

A wait *beside an idle CPU* is one during which a CPU that the thread may use is idle.

A thread that moves leaves the caches that it has filled. The kernel's own estimate of this cost is 0.5 ms, whatever the
distance (``sysctl_sched_migration_cost``, kernel/sched/fair.c: task_hot(), v4.1 to v6.12). No trace tells the cost for a given
thread, so a range is taken: for a move within a last-level cache, from nothing to the kernel's estimate; for a move to another
one, from half of the estimate to twice the estimate. An answer is given if it is the same at both ends of the range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from wastedcores.invariant import CheckResult
from wastedcores.invariant.avoidable import IdleTime
from wastedcores.runqueues.runqueues import Batch, Runqueues, runqueues
from wastedcores.topology.machine import Machine
from wastedcores.trace.header import TaskFacts

#: sysctl_sched_migration_cost (kernel/sched/fair.c, v4.1 to v6.12), in ns
MIGRATION_COST = 500_000
#: the lowest, the usual and the highest price of a move in ns: within a last-level cache, and to another one
LEAST, USUAL, MOST = (
    (0, MIGRATION_COST // 2),
    (0, MIGRATION_COST),
    (MIGRATION_COST, 2 * MIGRATION_COST),
)
PAYS, RIGHTLY_IDLE, CANNOT_TELL = "pays", "rightly_idle", "cannot_tell"


@dataclass(frozen=True)
class Price:
    """Whether moving threads would have paid, judged by their waits beside an idle CPU."""

    #: ``pays`` (at least half of the waiting time was in waits longer than the highest price of a move), ``rightly_idle`` (more
    #: than half of it was in waits that are not longer than the lowest price, or that a move does not shorten) or
    #: ``cannot_tell``
    judgement: str
    #: the number of waits beside an idle CPU that the thread may use, and the time in them for which such a CPU was idle
    waits: int
    waited_ns: int
    #: The part of ``waited_ns`` in which the thread was next on its own CPU, which was idle and had only to wake up.
    #: Moving does not shorten this part.
    waking_ns: int
    #: the remaining time, by the place of the nearest idle CPU: behind the same last-level cache, behind another one on the
    #: same node, or on another node
    cache_ns: int
    node_ns: int
    far_ns: int
    #: the time of which the shares below are taken: ``waited_ns``. If the verdict of the check is ``violations``, ``waking_ns``
    #: is subtracted, so that many wakings do not hide the waits that lost time.
    judged_ns: int
    #: the share of ``judged_ns`` in waits longer than the price of a move, at three prices: the usual one (the kernel's
    #: estimate across last-level caches, nothing within one), the highest and the lowest
    share: float
    share_least: float
    share_most: float
    #: If every move cost this much, half of ``judged_ns`` would be in longer waits. 0 if no price is low enough.
    turns_at_ns: int
    #: whether the trace or the user named the machine, and whether the verdict of the check is certain; if the verdict is not
    #: certain, ``judgement`` is never ``pays``
    topology_known: bool = True
    verdict_known: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return the object under ``price`` in ``wastedcores explain --json``."""
        return asdict(self)


def weigh_waits(
    waits: pl.DataFrame, topology_known: bool = True, waking_counts: bool = True
) -> Price | None:
    """Weigh waits beside idle CPUs against the price of a move; None if no thread waited beside an idle CPU.

    A row of ``waits`` says for how long there was an idle CPU that the thread may use: anywhere (any_ns), on the node where it
    waited (node_ns) and behind the same last-level cache (cache_ns), and whether no other thread was before it (alone). If the
    topology is not known, every idle CPU is taken to be far away for the upper limit of the price, and nearby for the lower
    limit. ``waking_counts`` says whether the time in which only the thread's own CPU had to wake up is counted, too.
    """
    anywhere, node, cache = (waits[c].to_numpy() for c in ("any_ns", "node_ns", "cache_ns"))
    behind = ~waits["alone"].to_numpy()
    total = int(anywhere.sum())
    if not total:
        return None

    queued = int(anywhere[behind].sum())
    judged = total if waking_counts or not queued else queued

    def share(price: tuple[int, int], near: np.ndarray) -> float:
        longer = behind & ((near > price[0]) | (anywhere > price[1]))
        return float(anywhere[longer].sum()) / judged

    near = cache if topology_known else np.zeros_like(cache)
    at_most = share(LEAST, cache if topology_known else anywhere)
    at_least = share(MOST, near)
    lengths = np.sort(np.where(behind, anywhere, 0))[::-1]
    # the index at which the longest waits, added up, reach half of the time; past the end if they never reach it
    half = np.searchsorted(np.cumsum(lengths), judged / 2)
    judgement = PAYS if at_least >= 0.5 else RIGHTLY_IDLE if at_most < 0.5 else CANNOT_TELL
    return Price(
        judgement,
        int((anywhere > 0).sum()),
        total,
        total - queued,
        int(cache[behind].sum()),
        int((node - cache)[behind].sum()),
        int((anywhere - node)[behind].sum()),
        judged,
        share(USUAL, near),
        at_least,
        at_most,
        int(lengths[half]) if half < lengths.size else 0,
        topology_known,
    )


def price(
    result: CheckResult,
    machine: Machine,
    tasks: Sequence[TaskFacts] | None = None,
    topology_known: bool = True,
    rq: Runqueues | None = None,
) -> Price | None:
    """Weigh the waits of a checked trace against the price of a move; None if no wait beside an idle CPU is known.

    ``tasks`` is what a snapshot tells, if the trace's header does not have it. ``topology_known`` says that ``machine`` is
    not an assumption. If ``rq``, the runqueues of the trace, is given, the trace is not read again.
    """
    if not result.avoidable.height:
        return None
    if tasks and result.trace.header.tasks is None:
        trace, rq = result.trace.with_header(tasks=list(tasks)), None
    else:
        trace = result.trace
    rq = rq or runqueues(trace, silent=result.silent, affinity=result.affinity != "ignored")
    waits = _waits_beside_idle(result, rq, machine)
    wasted = result.verdict == "violations"
    found = weigh_waits(waits, topology_known, not wasted) if waits.height else None
    if found is None or result.verdict != "unknown":
        return found
    # if threads are pinned, they waited beside a CPU that they may use for less time than this, so this judgement holds anyway
    firm = found.judgement == RIGHTLY_IDLE and result.rests_on_affinity
    return replace(found, judgement=RIGHTLY_IDLE if firm else CANNOT_TELL, verdict_known=False)


def _waits_beside_idle(result: CheckResult, rq: Runqueues, machine: Machine) -> pl.DataFrame:
    """Return a row per wait in the window, with the columns of :func:`weigh_waits`, task and start_ns."""
    counted = np.zeros(rq.cpus, np.uint8)
    counted[result.counted_cpus] = 1
    numbers = {"node_ns": machine.node_of_cpu, "cache_ns": machine.llc_of_cpu}
    idle = {"any_ns": IdleTime(rq, counted)} | {
        name: IdleTime(rq, counted, of_cpu[: rq.cpus]) for name, of_cpu in numbers.items()
    }
    parts = []
    for batch in rq.batches(waits=True):
        for times in idle.values():
            times.add(batch)
        if batch.waits is not None and batch.waits.height:
            window = result.start_ns, result.end_ns
            parts.append(_pieces(batch, batch.waits, idle, counted, window))
        for times in idle.values():
            times.forget(batch.oldest_wait_ns)
    if not parts:
        return pl.DataFrame()
    # a thread that is moved while it waits goes on waiting, so its pieces are one wait
    table = pl.concat(parts).sort("task", "start_ns")
    begins = (pl.col("task") != pl.col("task").shift(1)) | (
        pl.col("start_ns") != pl.col("end_ns").shift(1)
    )
    return (
        table.group_by(begins.fill_null(True).cum_sum().alias("wait"), maintain_order=True)
        .agg(pl.col("task", "start_ns").first(), pl.col(*idle).sum(), pl.col("alone").all())
        .filter(pl.col("any_ns") > 0)
    )


def _pieces(
    batch: Batch,
    waits: pl.DataFrame,
    idle: dict[str, IdleTime],
    counted: np.ndarray,
    window: tuple[int, int],
) -> pl.DataFrame:
    """Return the pieces of waits that ended in a batch, with the time in which there was an idle CPU at each distance."""
    changes = pl.DataFrame(dict(zip(("start_ns", "cpu", "nr"), batch.runqueues(), strict=True)))
    # the length of the queue when the wait begins, the thread included; null if the wait began in an earlier batch
    waits = waits.sort("start_ns").join_asof(
        changes, on="start_ns", by="cpu", check_sortedness=False
    )
    start, end = (np.clip(waits[c].to_numpy(), *window) for c in ("start_ns", "end_ns"))
    cpu, mask = waits["cpu"].to_numpy(), waits["mask"].to_numpy()
    beside = {}
    for name, times in idle.items():
        part = np.where(mask < 0, -1, mask * times.parts + times.part[cpu])
        beside[name] = times.until(part, end) - times.until(part, start)
    return (
        waits.select("task", "start_ns", "end_ns", alone=(pl.col("nr") == 1).fill_null(False))
        .with_columns(**{name: pl.Series(ns) for name, ns in beside.items()})
        .filter(pl.Series((counted[cpu] > 0) & (end > start)))
    )
