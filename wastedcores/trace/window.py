"""The window and the CPUs that a question about a trace is limited to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import polars as pl

from wastedcores.cpulist import parse_cpulist
from wastedcores.errors import UsageError
from wastedcores.trace.header import Window
from wastedcores.trace.trace import Trace

#: A moment of a trace: ns of its clock, the beginning of a mark's text, or a time in seconds as text.
Moment: TypeAlias = int | str


def moment_ns(trace: Trace, moment: Moment) -> int:
    """Find the time of a moment."""
    if isinstance(moment, int):
        return moment
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
            f"--between {between[0]!r} {between[1]!r}: the window ends at {end} ns, not after its start {start} ns."
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
