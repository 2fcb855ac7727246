"""The figures of one or two runs, with the findings as titles, for notebooks, reports and the command line.

Where a trace cannot answer, for example because it has no episode, these functions raise
:class:`~wastedcores.errors.MissingEventsError`; :func:`wastedcores.words.figure_or_reason` turns that into a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
import polars as pl

from wastedcores.analysis.examined import Examined
from wastedcores.analysis.scene import TimeAxis
from wastedcores.errors import MissingEventsError
from wastedcores.figures.heatmaps import heatmap, load_heatmap, side_by_side
from wastedcores.figures.masks import considered, considered_events
from wastedcores.figures.theme import fit_legend, legend_entry
from wastedcores.figures.timelines import runs, timeline
from wastedcores.figures.waiting import lost_time, waiting_times
from wastedcores.units import human_ns
from wastedcores.words.findings import claim, claim_pair
from wastedcores.words.rich_text import count

#: the colour of the time outside the window that counts
_UNCOUNTED = "#c9cdd1"


def overview(
    run: Examined,
    against: Examined | None = None,
    window: tuple[int, int] | None = None,
    *,
    palette_name: str = "safe",
    reduce: str = "share",
    cols: int = 1000,
) -> go.Figure:
    """Draw the runqueues of a trace, or of a window of the trace; two traces are drawn whole. The title is the finding."""
    if against is None:
        fig = heatmap(run.scene, window, cols=cols, palette_name=palette_name, reduce=reduce,
                      title=claim(run))  # fmt: skip
        return with_window(fig, [run], window)
    fig = side_by_side(run.scene, against.scene, palette_name=palette_name, reduce=reduce,
                       title=claim_pair(run, against))  # fmt: skip
    return with_window(fig, [run, against])


def with_window(
    fig: go.Figure, traces: Sequence[Examined], window: tuple[int, int] | None = None
) -> go.Figure:
    """In a heat map, cover the row of the episodes outside the window that counts, where no episodes were looked for."""
    shown = [window or run.scene.window for run in traces]
    width = max(last - first for first, last in shown)
    covered = False
    for col, (run, (first, last)) in enumerate(zip(traces, shown, strict=True), 1):
        axis, counted = TimeAxis.of(run.scene.window[0], width), run.result
        for start, end in (
            (first, min(counted.start_ns, last)),
            (max(counted.end_ns, first), last),
        ):
            if start >= end:
                continue
            x0, x1 = (float(axis.at(t)) for t in (start, end))
            fig.add_vrect(x0=x0, x1=x1, line_width=0, fillcolor=_UNCOUNTED, row=2, col=col)
            covered = True
    if covered:
        name = "outside the window: not looked at"
        legend_entry(fig, name, {"color": _UNCOUNTED}, row=3, col=1)
    return fit_legend(fig)


def zoom(run: Examined, zoom_ms: float = 200.0, *, palette_name: str = "safe") -> go.Figure:
    """Draw the worst episode, or the worst part of a long one."""
    if run.worst is None:
        raise MissingEventsError(f"{run.label}: there is no episode to zoom into.")
    window = run.worst_window(zoom_ms)
    title = f"The worst {human_ns(window[1] - window[0])} of {run.label}"
    fig = heatmap(run.scene, window, palette_name=palette_name, title=title)
    return with_window(fig, [run], window)


def who_ran(
    run: Examined,
    window: tuple[int, int] | None = None,
    *,
    zoom_ms: float = 200.0,
    palette_name: str = "safe",
) -> go.Figure:
    """Draw which task ran on which CPU."""
    of = ""
    if window is None and run.worst is None:
        if not run.waits.height:
            raise MissingEventsError(f"{run.label}: there is no episode and no wait to look into.")
        window, of = run.longest_wait_window(zoom_ms), " around the longest wait"
    window = window or run.worst_window(zoom_ms)
    table = runs(run.trace, *window)
    title = f"Who ran where: {human_ns(window[1] - window[0])}{of} of {run.label}"
    return timeline(run.scene, table, window, palette_name=palette_name, title=title)


def who_ran_in(
    run: Examined, window: tuple[int, int] | None = None, *, palette_name: str = "safe"
) -> go.Figure:
    """Draw which task ran on which CPU in a window, or in the whole trace."""
    return who_ran(run, window or run.scene.window, palette_name=palette_name)


def waits(
    run: Examined, against: Examined | None = None, *, palette_name: str = "safe"
) -> go.Figure:
    """Draw how long threads waited for a CPU; two runs share the panels."""
    both = [run, against] if against else [run]
    names = [r.label for r in both]
    if len(set(names)) < len(names):  # files in two folders may have one name
        names = [f"{name} ({i})" for i, name in enumerate(names, 1)]
    lengths = {name: r.wait_lengths for name, r in zip(names, both, strict=True)}
    lengths = {name: w for name, w in lengths.items() if w.size}
    if not lengths:
        raise MissingEventsError(
            f"{run.label}: how long threads waited is not known, because the trace names no tasks or no thread waited."
        )
    total, *others = (human_ns(r.waited_ns) for r in (run, against) if r and r.waits.height)
    return waiting_times(
        lengths,
        ", against ".join([f"Threads waited {total} for a CPU", *others]),
        " · ".join(dict.fromkeys(r.facts for r in both)),
        persist_ns=run.persist_ns,
        palette_name=palette_name,
    )


def avoidable(run: Examined, *, most: int = 16, palette_name: str = "safe") -> go.Figure:
    """Draw the threads that waited longest while a CPU that they may use was idle."""
    found = run.avoidable
    if not found.height:
        raise MissingEventsError(
            f"{run.label}: no thread is known to have waited while a CPU that it may use was idle."
        )
    total = human_ns(float(found["avoidable_ns"].sum()))
    shown = (
        "" if found.height <= most else f"the {most} of {found.height:,} threads that lost most · "
    )
    return lost_time(
        found,
        f"{run.label}: threads waited {total} beside an idle CPU",
        shown + run.facts,
        most=most,
        palette_name=palette_name,
    )


def load(run: Examined, window: tuple[int, int] | None = None) -> go.Figure:
    """Draw the load of every runqueue (paper, Figure 2b)."""
    return load_heatmap(run.scene, window, title=f"Load of every runqueue: {run.label}")


def looked_at(
    run: Examined,
    cpu: int | None = None,
    op: str | None = None,
    *,
    window: tuple[int, int] | None = None,
    palette_name: str = "safe",
) -> go.Figure:
    """Draw the CPUs that balancing or wakeups looked at (paper, Figure 5)."""
    events = considered_events(run.trace, cpu, op)
    who = f"CPU {cpu}" if cpu is not None else "all CPUs"
    first, last = window or run.scene.window
    inside = events.filter(pl.col("ts_ns").is_between(first, last))
    if inside.is_empty():
        zero = run.scene.window[0]
        lo, hi = (human_ns(events["ts_ns"][i] - zero) for i in (0, -1))
        raise MissingEventsError(
            f"{run.label}: nothing was decided for {who} between {human_ns(first - zero)} and "
            f"{human_ns(last - zero)}. The decisions of the trace are between {lo} and {hi}; choose a window there."
        )
    many = count(inside.height, "decision")
    title = f"CPUs considered by {op or 'the scheduler'} for {who}: {many}"
    return considered(run.scene, inside, window, palette_name=palette_name, title=title)
