"""Groups of equal threads in a trace: the stays of each thread on CPUs, and how evenly the scheduler shared out the CPUs.

The threads of group 7 are called ``g7-0`` to ``g7-6``, as in replays of the scenarios ``groups`` and ``recorded-groups`` and in
recordings of :mod:`wastedcores.capture.thread_groups`. A group begins at a mark ``group 7 start``, or else when one of its
threads first runs.
"""

from __future__ import annotations

import polars as pl

from wastedcores.errors import MissingEventsError
from wastedcores.trace.trace import Trace

_NAME = r"^g(\d+)-(\d+)$"
_MARK = r"group (\d+) start$"


def stays(trace: Trace) -> pl.DataFrame:
    """Return every stay of a thread of a group on a CPU."""
    switches = (
        trace.only("switch")
        .select("ts_ns", "cpu", "pid", "prev_pid", pl.col("prev_comm").cast(pl.String))
        .collect()
    )
    after = [pl.col(c).shift(-1).over("cpu") for c in ("ts_ns", "prev_pid", "prev_comm")]
    marks = trace.only("mark").select("ts_ns", pl.col("text").cast(pl.String)).collect()
    begins = (
        marks.with_columns(group=pl.col("text").str.extract(_MARK, 1).cast(pl.Int64))
        .drop_nulls("group")
        .select("group", begin_ns="ts_ns")
    )
    out = (
        switches.select(
            "cpu", "pid", start_ns="ts_ns", end_ns=after[0], left=after[1], name=after[2]
        )
        .filter(pl.col("pid") == pl.col("left"))
        .select(
            pl.col("name").str.extract(_NAME, 1).cast(pl.Int64).alias("group"),
            pl.col("name").str.extract(_NAME, 2).cast(pl.Int64).alias("thread"),
            "cpu",
            "start_ns",
            "end_ns",
        )
        .drop_nulls("group")
        .join(begins, on="group", how="left")
        .with_columns(begin_ns=pl.coalesce("begin_ns", pl.col("start_ns").min().over("group")))
        .sort("group", "thread", "start_ns")
    )
    if out.is_empty():
        raise MissingEventsError(
            "no threads g1-0, g2-0, ...: replay the scenario groups, or record "
            "`python -m wastedcores.capture.thread_groups`."
        )
    return out


def evenness(trace: Trace) -> pl.DataFrame:
    """Return for each group when its first and its last thread ended, and how long threads ran without interruption.

    A row has group, first_s and last_s (counted from the start of the group), spread_percent (last_s - first_s in percent of
    last_s), quantum_ms (the commonest length of an interrupted stay, in whole ms; null if no stay was interrupted) and
    longest_ms (the longest stay).
    """
    table = stays(trace).with_columns(
        ms=(pl.col("end_ns") - pl.col("start_ns")) / 1e6,
        at_s=(pl.col("end_ns") - pl.col("begin_ns")) / 1e9,
        ends=pl.col("end_ns") == pl.col("end_ns").max().over("group", "thread"),
    )
    ended = table.filter("ends").group_by("group")
    interrupted = table.filter(~pl.col("ends")).group_by("group")
    quantum = interrupted.agg(quantum_ms=pl.col("ms").round().cast(pl.Int64).mode().min())
    return (
        ended.agg(first_s=pl.col("at_s").min(), last_s=pl.col("at_s").max())
        .with_columns(spread_percent=100 * (1 - pl.col("first_s") / pl.col("last_s")))
        .join(quantum, on="group", how="left")
        .join(table.group_by("group").agg(longest_ms=pl.col("ms").max()), on="group")
        .sort("group")
    )
