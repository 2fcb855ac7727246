"""A part of a trace, looked at closely: who waited in it, behind whom, and whether a CPU was idle meanwhile."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from wastedcores.analysis.examined import Examined
from wastedcores.analysis.explain import Explanation
from wastedcores.errors import TopologyError, UnknownKernelError
from wastedcores.invariant.result import CheckResult
from wastedcores.runqueues.runqueues import comms
from wastedcores.trace.header import Window

#: at most this many threads are listed: those that waited longest
MOST = 12


@dataclass(frozen=True)
class Span:
    """What happened in a window on some CPUs."""

    result: CheckResult  #: the check of the window, on all CPUs that count in the trace
    cpus: tuple[int, ...]  #: the CPUs that were selected
    #: one row per thread that waited on one of these CPUs, longest waiting time first: pid, comm, cpus (where it waited),
    #: waited_ns (inside the window), behind (the tasks that ran there meanwhile, with their time), and avoidable_ns: how long it
    #: waited in the window, on whatever CPU, while a CPU that it may use was idle
    waiting: pl.DataFrame
    #: why CPUs stayed idle in the whole trace, or the reason why that cannot be determined. A short window alone tells too
    #: little: part of a persistent episode looks like an imbalance that passes.
    cause: Explanation | str


def span(
    run: Examined, start_ns: int, end_ns: int, cpus: Collection[int], stays: pl.DataFrame
) -> Span:
    """Look closely at a part of a trace."""
    part = replace(run, window=Window(start_ns=start_ns, end_ns=end_ns))
    # the runqueues of the trace do not depend on the window
    part.__dict__["runqueues"] = run.runqueues
    try:
        cause: Explanation | str = run.explanation
    except (TopologyError, UnknownKernelError) as e:
        cause = str(e)
    waits = part.waits.filter(pl.col("cpu").is_in(list(cpus))).with_columns(
        pl.col("start_ns").clip(lower_bound=start_ns), pl.col("end_ns").clip(upper_bound=end_ns)
    )
    threads = (
        waits.group_by("pid")
        .agg(
            cpus=pl.col("cpu").unique().sort(),
            waited_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(),
        )
        .sort("waited_ns", "pid", descending=[True, False])
    )
    lost = part.result.avoidable.select("pid", "avoidable_ns")
    table = (
        threads.join(comms(run.trace), on="pid", how="left", maintain_order="left")
        .join(lost, on="pid", how="left", maintain_order="left")
        .with_columns(pl.col("comm").fill_null("?"), pl.col("avoidable_ns").fill_null(0))
    )
    behind = [_behind(waits, stays, pid) for pid in table["pid"].head(MOST)]
    behind += [[]] * (table.height - len(behind))
    told = pl.Series("behind", behind, dtype=pl.List(pl.String))
    return Span(part.result, tuple(sorted(cpus)), table.with_columns(told), cause)


def _behind(waits: pl.DataFrame, stays: pl.DataFrame, pid: int) -> list[str]:
    """Name the tasks that ran on a thread's CPU while it waited there, the longest first; ``no task``: the CPU was idle."""
    from wastedcores.analysis.binning_jit import bin_cover
    from wastedcores.units import human_ns

    mine = waits.filter(pl.col("pid") == pid)
    on = stays.filter(
        pl.col("cpu").is_in(mine["cpu"].unique().to_list()),
        pl.col("end_ns") > mine["start_ns"].min(),
        pl.col("start_ns") < mine["end_ns"].max(),
        pl.col("pid") != pid,
    )
    parts = [on.with_columns(ran=pl.lit(0, pl.Int64)).clear()]
    for part in on.partition_by("cpu"):
        there = mine.filter(pl.col("cpu") == part["cpu"][0])
        start, end, since, until = (
            frame[name].to_numpy().astype(np.int64)
            for frame in (part, there)
            for name in ("start_ns", "end_ns")
        )
        edges = np.unique(np.concatenate([start, end]))
        # stays on a CPU do not overlap, so each stay lies between two neighbouring edges
        ran = bin_cover(since, until, edges)[np.searchsorted(edges, start)]
        parts.append(part.with_columns(ran=pl.Series(ran)))
    told = (
        pl.concat(parts)
        .filter(pl.col("ran") > 0)
        .group_by("pid")
        .agg(pl.col("comm").last(), pl.col("ran").sum())
        .sort("ran", "pid", descending=[True, False])
    )
    return [
        (f"{comm or '?'}:{p}" if p else "no task") + f" ({human_ns(ns)})"
        for p, comm, ns in told.head(3).iter_rows()
    ]
