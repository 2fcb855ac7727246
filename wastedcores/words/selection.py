"""A selected part of a trace in words: who waited, behind whom, and why."""

from __future__ import annotations

import polars as pl

from wastedcores.analysis.selection import MOST, Span
from wastedcores.cpulist import format_cpulist
from wastedcores.units import human_ns
from wastedcores.words.cause import NAMES
from wastedcores.words.rich_text import RichText, count, sentence, table


def who_waited(span: Span, zero_ns: int) -> RichText:
    """Say who waited in a part of a trace, behind whom, and why."""
    r, rows = span.result, span.waiting
    start, end = ((t - zero_ns) / 1e6 for t in (r.start_ns, r.end_ns))
    cpus = f"CPU{'s' if len(span.cpus) > 1 else ''} {format_cpulist(span.cpus)}"
    where = f"Between {start:,.3f} and {end:,.3f} ms"
    if not rows.height:
        return sentence(
            f"{where} no thread is known to have waited on {cpus}. {_unknown(span)}".strip()
        )
    total = human_ns(float(rows["waited_ns"].sum()))
    said = f"{where} {count(rows.height, 'thread')} waited {total} on {cpus}. {_why(span)} {_unknown(span)}"
    shown = rows.head(MOST)
    frame = pl.DataFrame(
        {
            "thread": [f"{c}:{p}" for c, p in zip(shown["comm"], shown["pid"], strict=True)],
            "waited": [human_ns(ns) for ns in shown["waited_ns"]],
            "on CPU": [format_cpulist(c) for c in shown["cpus"]],
            "while these ran there": [", ".join(b) or "not known" for b in shown["behind"]],
            "beside an idle CPU that it may use": [
                human_ns(ns) if ns else "-" for ns in shown["avoidable_ns"]
            ],
        }
    )
    rest = rows.height - shown.height
    more = sentence(f"{count(rest, 'more thread')} waited less.") if rest else RichText("", "")
    parts = (sentence(said.strip()), table(frame), more)
    return RichText("\n".join(p.text for p in parts if p.text), "".join(p.html for p in parts))


def _why(span: Span) -> str:
    """Say whether the waiting was avoidable, and what kept the threads from the idle CPUs."""
    if span.waiting["avoidable_ns"].sum() == 0:
        return "No CPU that they may use is known to have been idle meanwhile."
    if isinstance(span.cause, str):
        return f"CPUs that they may use were idle meanwhile; the cause cannot be determined: {span.cause}"
    return (
        "CPUs that they may use were idle meanwhile. The trace as a whole looks like "
        f"{NAMES[span.cause.looks_like]}."
    )


def _unknown(span: Span) -> str:
    """Say whether parts of the window are not known."""
    if span.result.unknown_cpus or span.result.unknown_spans:
        return "Parts of the window are not known, because events were lost or CPUs are silent."
    return ""
