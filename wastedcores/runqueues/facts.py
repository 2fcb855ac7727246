"""Facts about a whole trace, found before its runqueues are streamed: its extent, and lost events."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from wastedcores.errors import TraceContentError
from wastedcores.limits import MAX_CPUS, PID_MAX_LIMIT
from wastedcores.trace.schema import UNCOUNTED
from wastedcores.trace.trace import Trace
from wastedcores.trace.window import cut_and_left


def extent(trace: Trace) -> tuple[int, int, int, int]:
    """Return the first and last time in ns, the highest CPU and the highest pid.

    The header of a Parquet trace has these numbers; for other traces, the events are scanned.
    """
    header = trace.header
    if header.kinds is not None and header.start_ns is not None:
        first, last = header.start_ns, header.end_ns or header.start_ns
        top_cpu, top_pid = header.highest_cpu or 0, header.highest_pid or 0
        low = 0  # the stream of events checks every CPU and pid again
    else:
        found = trace.ranges.filter(~pl.col("kind").is_in(UNCOUNTED))
        columns = "low_cpu", "low_pid", "first_ns", "last_ns", "top_cpu", "top_pid"
        lowest, highest = (
            found.select(columns[:3]).min().row(0),
            found.select(columns[3:]).max().row(0),
        )
        low_cpu, low_pid, first = (v or 0 for v in lowest)
        last, top_cpu, top_pid = (v or 0 for v in highest)
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
    if first < 0:
        raise TraceContentError(
            f"{trace.name}: begins at {first / 1e9:.9g} s, and times must not be below 0; shift them all by as much."
        )
    return first, last, max(top_cpu, 0), max(top_pid, 0)


def _recorded_on() -> pl.Expr:
    """The CPU into whose buffer an event was written; null if the event does not tell.

    A waker moves the thread that it wakes, so a move can be written on a CPU that is neither its source nor its target.
    """
    return (
        pl.when(pl.col("kind").is_in(["wakeup", "wakeup_new"]))
        .then("src_cpu")
        .when(~pl.col("kind").is_in(["migrate", "frequency"]))
        .then("cpu")
    )


def _left_waiting(trace: Trace, begin_ns: int) -> set[int]:
    """Return the threads that were preempted before ``begin_ns`` and that no later event names."""
    time, state = pl.col("ts_ns"), pl.col("prev_state").cat
    stays = state.starts_with("R") | state.ends_with("+")
    stopped = trace.events.filter(
        time < begin_ns, pl.col("kind") == "switch", stays, pl.col("prev_pid") > 0
    )
    left = stopped.group_by(pid="prev_pid").agg(left_ns=time.max()).collect(engine="streaming")
    if not left.height:
        return set()
    later = trace.events.filter(time >= left["left_ns"].min())
    named = pl.concat([later.select(time, pid=p) for p in ("pid", "prev_pid", "by_pid")])
    named = named.filter(pl.col("pid").is_in(left["pid"].to_list()))
    last = named.group_by("pid").agg(time.max()).collect(engine="streaming")
    return set(left.join(last, on="pid").filter(time <= pl.col("left_ns"))["pid"])


def complete(trace: Trace, kinds: Collection[str]) -> tuple[Trace, list[int], int]:
    """Return the part of a trace from which no ring buffer has overwritten events.

    Also return the threads that do not appear in this part and were preempted before it, on a CPU that does not switch in it. The
    third result is the number of threads that do not appear and were preempted on other CPUs. An overwritten event may have told
    that these threads no longer wait. A trace that records changes of affinity is returned as it is, because a change may be
    among the overwritten events.
    """
    header = trace.header
    over = header.overwritten
    if not over or "affinity" in kinds:
        return trace, [], 0
    firsts = (
        trace.without("lost", *UNCOUNTED)
        .select("ts_ns", cpu=_recorded_on())
        .filter(pl.col("cpu").is_not_null(), pl.lit(-1 in over) | pl.col("cpu").is_in(list(over)))
        .group_by("cpu")
        .agg(pl.col("ts_ns").min())
        .collect(engine="streaming")
    )
    if not firsts.height:
        return trace, [], 0
    begin_ns = int(firsts["ts_ns"].max())  # type: ignore[arg-type]
    end_ns = int(trace.events.select(pl.col("ts_ns").max()).collect(engine="streaming").item())
    left = {c: n - over.get(c, 0) for c, n in header.lost.items() if n != over.get(c, 0)}
    if "lost" in kinds:  # what a CPU lost before the beginning does not count
        told = trace.only("lost").select("ts_ns", "cpu").collect()
        after = told.filter(pl.col("ts_ns") > begin_ns)["cpu"]
        only_before = set(told["cpu"].drop_nulls()) - set(after) if after.null_count() == 0 else ()
        left = {c: n for c, n in left.items() if c not in only_before}
    # if the part begins with the first event of a CPU, all earlier ones are gone, so a loss at that time tells nothing new
    late = firsts.filter(pl.col("ts_ns") == begin_ns)["cpu"].to_list()
    told_already = (pl.col("kind") == "lost") & (pl.col("ts_ns") == begin_ns)
    kept = trace.events.filter(~(told_already & pl.col("cpu").is_in(late)).fill_null(False))
    whole = Trace(kept, header, trace.path)
    part, preempted = cut_and_left(whole, (begin_ns, end_ns + 1))
    facts = {name: getattr(header, name) for name in ("tasks", "later_tasks", "window")}
    others = _left_waiting(trace, begin_ns) - set(preempted)
    return part.with_header(**facts, overwritten={}, lost=left), preempted, len(others)


def with_losses(trace: Trace, spans: list[tuple[int, int, int]]) -> Trace:
    """Return a trace with one more event per loss, placed where the loss begins: just after the CPU's last event before it."""
    named = [
        (start_ns + 1, cpu) for start_ns, end_ns, cpu in spans if cpu >= 0 and start_ns < end_ns
    ]
    if not named:
        return trace
    told = pl.LazyFrame(named, schema={"ts_ns": pl.Int64, "cpu": pl.Int32}, orient="row")
    first = trace.only("lost").first().drop("ts_ns", "cpu")
    columns = trace.events.collect_schema().names()
    begins = told.join(first, how="cross").select(columns).sort("ts_ns")
    return Trace(trace.events.merge_sorted(begins, key="ts_ns"), trace.header, trace.path)


def lost_spans(trace: Trace, kinds: Collection[str], start_ns: int) -> list[tuple[int, int, int]]:
    """Find the spans in which events are missing after ``start_ns``."""
    if "lost" not in kinds:
        return []
    # what was lost before the first event does not matter; many formats give a loss the time of the event after it
    lost = trace.only("lost").select("ts_ns", "cpu").filter(pl.col("ts_ns") > start_ns)
    seen = trace.without("lost", *UNCOUNTED).select("ts_ns", start_ns="ts_ns", cpu=_recorded_on())
    named = lost.filter(pl.col("cpu").is_not_null()).join_asof(
        seen, on="ts_ns", by="cpu", check_sortedness=False, allow_exact_matches=False
    )
    unnamed = lost.filter(pl.col("cpu").is_null()).join_asof(
        seen.drop("cpu"), on="ts_ns", check_sortedness=False, allow_exact_matches=False
    )
    spans: list[tuple[int, int, int]] = []
    for part in pl.collect_all([named, unnamed]):
        # all events before the first one of a CPU may be lost
        found = part.select(pl.col("start_ns").fill_null(start_ns), "ts_ns", "cpu")
        spans += found.with_columns(pl.col("cpu").fill_null(-1)).rows()
    return sorted(spans)


def offline_spans(trace: Trace, start_ns: int, end_ns: int) -> pl.DataFrame:
    """Return in which spans (cpu, start_ns, end_ns) CPUs are offline, as far as events tell it.

    Without any event, a CPU that is offline at the start may have come online at any time.
    """
    spans = pl.DataFrame(schema={"cpu": pl.Int32, "start_ns": pl.Int64, "end_ns": pl.Int64})
    if "cpu_online" not in trace.kinds():
        return spans
    events = trace.only("cpu_online").select("ts_ns", "cpu", "value").drop_nulls().collect()
    rows = []
    for (cpu,), table in events.group_by("cpu", maintain_order=True):
        online = trace.header.cpus_online
        since_ns = None if online is None or cpu in online else start_ns
        for ts_ns, value in table.select("ts_ns", "value").iter_rows():
            if value == 0 and since_ns is None:
                since_ns = ts_ns
            elif value != 0 and since_ns is not None:
                rows.append((cpu, since_ns, ts_ns))
                since_ns = None
        if since_ns is not None:
            rows.append((cpu, since_ns, end_ns))
    return pl.DataFrame(rows, spans.schema, orient="row")
