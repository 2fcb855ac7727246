"""Compares two recorded traces in words: whether a comparison means something, and how many cores each trace wasted."""

from __future__ import annotations

import numpy as np
import polars as pl

from wastedcores.analysis.alignment import Pair, differences, not_known_same
from wastedcores.units import human_ns, number
from wastedcores.words.rich_text import RichText, enumerated, sentence, table

#: two values that differ by at most this share of the larger one are called the same
SAME = 0.02


def rows(pair: Pair) -> list[dict[str, float | str | None]]:
    """Return the numbers of both traces side by side."""
    a, b = (r.result for r in pair.runs)
    certain = all(r.verdict != "unknown" for r in (a, b)) and not _apart(pair)
    out: list[dict[str, float | str | None]] = []

    def add(name: str, unit: str, first: float | None, second: float | None) -> None:
        change = None
        if certain and first is not None and second is not None:
            near = abs(second - first) <= SAME * max(abs(first), abs(second))
            change = "same" if near else "better" if second < first else "worse"
        out.append({"name": name, "unit": unit, "first": first, "second": second, "change": change})

    add("core time wasted", "s", a.thread_ns / 1e9, b.thread_ns / 1e9)
    add("CPUs wasted, mean", "", a.mean(a.thread_ns), b.mean(b.thread_ns))
    add("idle while a thread waited", "s", a.wall_ns / 1e9, b.wall_ns / 1e9)
    counts = [float(r.episodes["persistent"].sum()) for r in (a, b)]
    add("persistent episodes", "", *counts)
    waits = [r.wait_lengths for r in pair.runs]
    for name, share in (("wait, median", 50), ("wait, 99 %", 99)):
        add(name, "ms", *(float(np.percentile(w, share)) / 1e6 if w.size else None for w in waits))
    if all(r.between_marks for r in pair.runs):
        add("time of the work", "s", a.duration_ns / 1e9, b.duration_ns / 1e9)
    return out


def compared(pair: Pair) -> RichText:
    """Compare two recorded traces in a sentence and a table, which says better or worse only if a comparison means something."""
    run, against = pair.runs
    other, found = _apart(pair), rows(pair)
    verdicts = f"{run.label}: {run.result.verdict}. {against.label}: {against.result.verdict}. "
    if other:
        said = f"{verdicts}Better or worse cannot be said: {enumerated(other)}."
    elif "unknown" in (run.result.verdict, against.result.verdict):
        said = f"{verdicts}Better or worse cannot be said, because parts of a trace are not known."
    else:
        a, b = run.result, against.result
        said = (
            f"{verdicts}Both ran the same work on such a machine, as far as they tell. {against.label} wasted "
            f"{human_ns(b.thread_ns)} of core time, {run.label} {human_ns(a.thread_ns)}."
        )
    # two spaces separate columns, so labels must not contain them
    first, second = (" ".join(r.label.split()) for r in pair.runs)
    cells = {
        "": [r["name"] for r in found],
        f"(1) {first}": [_cell(r["first"], r["unit"]) for r in found],
        f"(2) {second}": [_cell(r["second"], r["unit"]) for r in found],
    }
    if any(r["change"] for r in found):
        cells["the second is"] = [r["change"] or "-" for r in found]
    parts = (sentence(said), table(pl.DataFrame(cells)))
    return RichText("\n".join(p.text for p in parts), "".join(p.html for p in parts))


def _apart(pair: Pair) -> list[str]:
    """Return what differs between the traces besides the scheduler; if nothing does, return what is not known to be the same."""
    return differences(*pair.runs) or not_known_same(*pair.runs)


def _cell(value: float | str | None, unit: float | str | None) -> str:
    return "-" if value is None else f"{number(float(value))} {unit or ''}".rstrip()
