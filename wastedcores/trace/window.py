"""The window and the CPUs that a question about a trace is limited to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import polars as pl

from wastedcores.cpulist import parse_cpulist
from wastedcores.errors import UsageError
from wastedcores.trace.header import Window
from wastedcores.trace.trace import Trace

#: kinds of which an event tells the state of its CPU until the CPU's next event of the same kind
_STATES = ("switch", "nr_running")
#: length of the first stretch before the window that is searched for the state of a CPU; each further stretch is longer
_STRETCH_NS = 1_000_000_000


def cut(trace: Trace, between: Sequence[Moment]) -> Trace:
    """Return the part of a trace between two moments, as if it had been recorded alone.

    A CPU without an event in the window gets its last event before the window, moved to the window's beginning, because a CPU
    that runs one task all the time is not idle. CPUs that were offline stay offline. If the window begins after the trace, the
    facts from the snapshot of the tasks are left out, since they may not hold any more. ``check(trace, between=...)`` also reads
    the trace before the window, and therefore knows more.
    """
    return cut_and_left(trace, between)[0]


def cut_and_left(trace: Trace, between: Sequence[Moment]) -> tuple[Trace, list[int]]:
    """Return the part that :func:`cut` returns, and the threads preempted before the window that no later event in it names."""
    window = find_window(trace, between)
    header, time = trace.header, pl.col("ts_ns")
    start = max(window.start_ns, window.start_ns if header.start_ns is None else header.start_ns)
    end = min(window.end_ns, window.end_ns if header.end_ns is None else header.end_ns + 1)
    inside = trace.events.filter(time >= start, time < end)
    seen = _counted(inside)
    carried = _carried(trace, start, end, seen)
    if carried.height:
        carried = _going_on(trace, carried, end).with_columns(ts_ns=pl.lit(start, pl.Int64))
    counts = pl.concat([seen, _counted(carried.lazy())])
    by_kind = counts.group_by("kind").agg(pl.col("len").sum()).iter_rows()
    kinds = dict(sorted((str(kind), int(n)) for kind, n in by_kind))
    rows = pl.concat([carried.lazy(), inside]) if carried.height else inside
    part = Trace(rows, header, trace.path).with_header(
        start_ns=start,
        end_ns=min(end, window.end_ns),
        events=sum(kinds.values()),
        kinds=kinds,
        highest_cpu=_highest(counts["cpu"], counts["src_cpu"]),
        highest_pid=_highest(counts["pid"]),
        window=None,
        tasks=header.tasks if start == header.start_ns else None,
        later_tasks=header.later_tasks if start == header.start_ns else None,
        provenance=header.provenance | {"cut": f"{start} to {end} ns of {trace.name}"},
    )
    stopped = carried.filter(pl.col("prev_pid") != pl.col("pid"))
    return part, stopped.filter(~parks())["prev_pid"].to_list()


def parks() -> pl.Expr:
    """Whether a switch stops a thread that parks. Until 2023 libtraceevent wrote x for parked; elsewhere x means dead.

    The threads that take a CPU down do not die, so an x of theirs means parked. (The letters of perf and of scripts are
    "SDTtZXxW": tools/lib/traceevent, 6.1.)
    """
    state, comm = pl.col("prev_state").cat, pl.col("prev_comm").cat
    hotplug = (comm.starts_with("migration/") | comm.starts_with("cpuhp/")).fill_null(False)
    return (state.starts_with("P") | (state.starts_with("x") & hotplug)).fill_null(False)


def _going_on(trace: Trace, carried: pl.DataFrame, end: int) -> pl.DataFrame:
    """Return the events before a window, changed so that they tell only what still goes on in the window.

    A switch tells what the CPU runs. The thread that the switch stopped still waits if it was preempted and no later event names
    it. A thread that parked stays in its switch, because it may be the last thread of a CPU that went offline.
    """
    state, thread = pl.col("prev_state").cast(pl.String), pl.col("prev_pid")
    stays = (state.str.starts_with("R") | state.str.ends_with("+")).fill_null(False)
    left = carried.filter(pl.col("kind") == "switch", stays, thread > 0)
    last = {0: 0}
    if left.height:
        later = trace.events.filter(pl.col("ts_ns") > left["ts_ns"].min(), pl.col("ts_ns") < end)
        seen = pl.concat([later.select("ts_ns", pid=p) for p in ("pid", "prev_pid", "by_pid")])
        found = seen.filter(pl.col("pid").is_in(left["prev_pid"].to_list())).group_by("pid")
        last |= dict(found.agg(pl.col("ts_ns").max()).collect(engine="streaming").iter_rows())
    seen_ns = thread.replace_strict(last, default=-1, return_dtype=pl.Int64)
    waits_on = stays & (thread > 0) & (seen_ns <= pl.col("ts_ns"))
    only_runs = (pl.col("kind") == "switch") & ~waits_on & ~parks()
    same = {f"prev_{c}": pl.col(c) for c in ("pid", "comm", "prio")}
    same["prev_state"] = pl.lit("R", carried.schema["prev_state"])
    return carried.with_columns(
        pl.when(only_runs).then(now).otherwise(before).alias(before) for before, now in same.items()
    )


def _counted(events: pl.LazyFrame) -> pl.DataFrame:
    """Return the number of events of each kind on each CPU, and the highest ``src_cpu`` and the highest pid in these events."""
    pids = pl.max_horizontal(*(pl.col(p).max() for p in ("pid", "prev_pid", "by_pid")))
    groups = events.group_by("kind", "cpu")
    return groups.agg(pl.len(), pl.col("src_cpu").max(), pid=pids).collect(engine="streaming")


def _highest(*columns: pl.Series) -> int:
    return max((int(c.max()) for c in columns if c.max() is not None), default=-1)  # type: ignore[arg-type]


def _carried(trace: Trace, start: int, end: int, seen: pl.DataFrame) -> pl.DataFrame:
    """Return the last events before the window that tell what its CPUs do."""
    first = trace.header.start_ns
    kinds = trace.header.kinds or {}
    cpus = max(trace.header.cpus or 0, (trace.header.highest_cpu or 0) + 1)
    before: list[pl.DataFrame] = [trace.events.clear().collect()]
    if first is not None and first < start:
        if not kinds or "cpu_online" in kinds:
            state = trace.only("cpu_online").filter(pl.col("ts_ns") < start)
            before.append(state.collect().unique("cpu", keep="last", maintain_order=True))
        for kind in _STATES:
            if not kinds or kind in kinds:
                told = seen.filter(pl.col("kind") == kind)["cpu"]
                silent = set(range(cpus)) - set(told)
                before.append(_last(trace, kind, silent, (first, start), end - start))
    return pl.concat(before).sort("ts_ns", maintain_order=True)


def _last(
    trace: Trace, kind: str, cpus: Iterable[int], span: tuple[int, int], length_ns: int
) -> pl.DataFrame:
    """Return the last event of a kind on each of some CPUs; read backwards from the span's end, and no more than necessary."""
    missing = set(cpus)
    found = [trace.events.clear().collect()]
    first, end = span
    stretch = max(length_ns, _STRETCH_NS)
    while missing and end > first:
        begin = end - stretch
        rows = trace.events.filter(
            pl.col("ts_ns") >= begin,
            pl.col("ts_ns") < end,
            pl.col("kind") == kind,
            pl.col("cpu").is_in(list(missing)),
        )
        found.append(rows.collect().unique("cpu", keep="last", maintain_order=True))
        missing -= set(found[-1]["cpu"])
        end, stretch = begin, 4 * stretch
    return pl.concat(found)


#: A moment of a trace: whole ns of its clock, the beginning of a mark's text, or a time in seconds as text or with a fraction.
Moment: TypeAlias = int | float | str


def moment_ns(trace: Trace, moment: Moment) -> int:
    """Find the time of a moment."""
    if isinstance(moment, int):
        return moment
    moment = moment if isinstance(moment, str) else f"{moment:.9f}"
    kinds = trace.header.kinds
    has_marks = kinds is None or "mark" in kinds
    told = trace.only("mark") if has_marks else trace.events.clear()
    marks = told.select("ts_ns", "text").collect()
    hit = marks.filter(pl.col("text").str.starts_with(moment))
    if hit.height:
        return int(hit["ts_ns"][0])
    try:
        whole, _, fraction = moment.strip().partition(".")
        return int(whole) * 1_000_000_000 + int(fraction[:9].ljust(9, "0") or 0)
    except ValueError:
        pass
    known = ", ".join(repr(t) for t in marks["text"].head(8)) or "no marks at all"
    raise UsageError(
        f"{trace.name}: no mark begins with {moment!r} (the trace has {known}), and it is not a time in seconds either."
    )


def find_window(trace: Trace, between: Sequence[Moment]) -> Window:
    """Find the window between two moments."""
    if len(between) != 2:
        raise UsageError(
            f"between={list(between)!r}: expected two marks or times in seconds, start and end, or an empty list."
        )
    start, end = (moment_ns(trace, m) for m in between)
    if end <= start:
        raise UsageError(
            f"--between {between[0]!r} {between[1]!r}: the window ends at {end / 1e9:.9g} s, not after its start "
            f"at {start / 1e9:.9g} s."
        )
    first, last = trace.header.start_ns, trace.header.end_ns
    if first is not None and last is not None and (end <= first or start > last):
        raise UsageError(
            f"--between {between[0]!r} {between[1]!r}: the window lies outside of the trace. {trace.name} has events from "
            f"{first / 1e9:.9g} to {last / 1e9:.9g} s, and the window is {start / 1e9:.9g} to {end / 1e9:.9g} s."
        )
    named = None if any(isinstance(m, int) for m in between) else (str(between[0]), str(between[1]))
    return Window(start_ns=start, end_ns=end, names=named)


def asked(
    trace: Trace,
    between: Sequence[Moment] | None,
    cpus: str | Sequence[int] | None,
    *,
    whole: bool = False,
) -> tuple[Window | None, list[int] | None]:
    """Return the window and the CPUs to look at."""
    window = None if whole else trace.header.window
    counted = None if whole else trace.header.counted_cpus
    if between:
        window = find_window(trace, between)
    if isinstance(cpus, str):
        cpus = sorted(parse_cpulist(cpus)) if cpus else None
    return window, counted if cpus is None else list(cpus)
