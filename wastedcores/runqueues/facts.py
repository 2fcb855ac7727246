"""What is true of all of a trace before its runqueues are streamed: its extent, silent CPUs, where events are lost."""

from __future__ import annotations

import polars as pl

from wastedcores.errors import TraceContentError
from wastedcores.limits import MAX_CPUS, PID_MAX_LIMIT
from wastedcores.runqueues.stream import CODES
from wastedcores.trace.trace import Trace


def extent(trace: Trace) -> tuple[int, int, int, int]:
    """First and last time, highest CPU and pid; from the header where our own writer counted them.

    Raises
    ------
    TraceContentError
        A CPU or pid that no Linux can have.
    """
    header = trace.header
    if header.kinds is not None and header.start_ns is not None:
        first, last = header.start_ns, header.end_ns or header.start_ns
        top_cpu, top_pid = header.highest_cpu or 0, header.highest_pid or 0
        low = 0  # _batches look at every CPU again
    else:
        pids = [pl.col(p) for p in ("pid", "prev_pid", "by_pid")]
        first, last, top_cpu, low_cpu, top_pid, low_pid = (
            v or 0
            for v in trace.events.select(
                first=pl.col("ts_ns").min(),
                last=pl.col("ts_ns").max(),
                top_cpu=pl.max_horizontal(pl.col("cpu").max(), pl.col("src_cpu").max()),
                low_cpu=pl.min_horizontal(pl.col("cpu").min(), pl.col("src_cpu").min()),
                top_pid=pl.max_horizontal(*(p.max() for p in pids)),
                low_pid=pl.min_horizontal(*(p.min() for p in pids)),
            )
            .collect(engine="streaming")
            .row(0)
        )
        low = min(low_cpu, low_pid)
    if top_cpu >= MAX_CPUS:
        raise TraceContentError(
            f"{trace.name}: CPU {top_cpu} is more than any Linux has; the file is damaged."
        )
    if top_pid > PID_MAX_LIMIT or low < -1:
        bad = top_pid if top_pid > PID_MAX_LIMIT else low
        raise TraceContentError(
            f"{trace.name}: pid {bad} cannot be (they go to {PID_MAX_LIMIT}); the file is damaged."
        )
    return first, last, max(top_cpu, 0), max(top_pid, 0)


def silent_cpus(trace: Trace, online: list[int] | None) -> list[int]:
    """Online CPUs on which and to which nothing happened (one a sleeping task was moved away from may be silent)."""
    if not online or not trace.header.every_switch:
        return []
    happened_on = pl.when(pl.col("kind") != "migrate").then(pl.col("src_cpu"))
    seen = (
        trace.only(*CODES)
        .select(pl.concat([pl.col("cpu"), happened_on]).drop_nulls().unique())
        .collect(engine="streaming")["cpu"]
    )
    return sorted(set(online) - set(seen.to_list()))


def lost_spans(trace: Trace, kinds: dict[str, int]) -> list[tuple[int, int, int]]:
    """Where events are missing: from the CPU's last event before the loss to the loss itself."""
    spans: list[tuple[int, int, int]] = []
    if "lost" in kinds:
        remote = pl.col("kind").is_in(["wakeup", "wakeup_new", "migrate"])
        happened_on = (
            pl.when(remote & pl.col("src_cpu").is_not_null())
            .then(pl.col("src_cpu"))
            .otherwise(pl.col("cpu"))
        )
        lost = trace.only("lost").select("ts_ns", "cpu").collect()
        seen = trace.events.filter(pl.col("kind") != "lost").select("ts_ns", on=happened_on)
        for ts_ns, cpu in lost.iter_rows():
            before = seen.filter(pl.col("ts_ns") <= ts_ns)
            if cpu is not None:
                before = before.filter(pl.col("on") == cpu)
            start = before.select(pl.col("ts_ns").max()).collect(engine="streaming").item()
            spans.append((ts_ns if start is None else start, ts_ns, -1 if cpu is None else cpu))
    if trace.header.overwritten:
        # a ring buffer drops its oldest events CPU by CPU: complete is only what follows the latest first event
        firsts = (
            trace.events.filter(pl.col("cpu").is_not_null())
            .group_by("cpu")
            .agg(pl.col("ts_ns").min())
            .collect()
        )
        if firsts.height:
            spans.append((int(firsts["ts_ns"].min()), int(firsts["ts_ns"].max()), -1))  # type: ignore[arg-type]
    return sorted(spans)
