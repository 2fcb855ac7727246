"""The figures of one or two runs, with the findings as titles, for notebooks, reports and the command line.

Where a trace cannot answer, for example because it has no episode, these functions raise
:class:`~wastedcores.errors.MissingEventsError`; :func:`wastedcores.words.figure_or_reason` turns that into a sentence.
"""

from __future__ import annotations

import plotly.graph_objects as go

from wastedcores.analysis.examined import Examined
from wastedcores.errors import MissingEventsError
from wastedcores.figures.heatmaps import heatmap, load_heatmap, side_by_side
from wastedcores.figures.masks import considered, considered_events
from wastedcores.figures.timelines import runs, timeline
from wastedcores.figures.waiting import waiting_times
from wastedcores.units import human_ns
from wastedcores.words.findings import claim, claim_pair


def overview(
    run: Examined, against: Examined | None = None, *, palette_name: str = "safe"
) -> go.Figure:
    """The whole trace; with a second run, the two side by side on one time axis."""
    if against is None:
        return heatmap(run.scene, palette_name=palette_name, title=claim(run))
    return side_by_side(
        run.scene, against.scene, palette_name=palette_name, title=claim_pair(run, against)
    )


def zoom(run: Examined, zoom_ms: float = 200.0, *, palette_name: str = "safe") -> go.Figure:
    """The worst episode, or of a long one its worst part."""
    if run.worst is None:
        raise MissingEventsError(f"{run.label}: there is no episode to zoom into.")
    window = run.worst_window(zoom_ms)
    title = f"The worst {human_ns(window[1] - window[0])} of {run.label}"
    return heatmap(run.scene, window, palette_name=palette_name, title=title)


def who_ran(
    run: Examined,
    window: tuple[int, int] | None = None,
    *,
    zoom_ms: float = 200.0,
    palette_name: str = "safe",
) -> go.Figure:
    """Who ran where in a window; default: the worst part of the worst episode."""
    if window is None and run.worst is None:
        raise MissingEventsError(f"{run.label}: there is no episode to look into.")
    window = window or run.worst_window(zoom_ms)
    table = runs(run.trace, *window)
    title = f"Who ran where: {human_ns(window[1] - window[0])} of {run.label}"
    return timeline(run.scene, table, window, palette_name=palette_name, title=title)


def waits(
    run: Examined, against: Examined | None = None, *, palette_name: str = "safe"
) -> go.Figure:
    """How long threads waited for a CPU."""
    lengths = {r.label: r.wait_lengths for r in ([run, against] if against else [run])}
    lengths = {name: w for name, w in lengths.items() if w.size}
    if not lengths:
        raise MissingEventsError(
            f"{run.label}: how long threads waited is not known, because the trace names no tasks or nobody waited."
        )
    total = " against ".join(human_ns(float(w.sum())) for w in lengths.values())
    return waiting_times(
        lengths,
        f"Threads waited {total} for a CPU",
        " · ".join(dict.fromkeys(r.facts for r in ([run, against] if against else [run]))),
        persist_ns=run.persist_ns,
        palette_name=palette_name,
    )


def load(run: Examined, window: tuple[int, int] | None = None) -> go.Figure:
    """Load of every runqueue (paper, Figure 2b).

    Raises
    ------
    MissingEventsError
        The trace has no load events.
    """
    return load_heatmap(run.scene, window, title=f"Load of every runqueue: {run.label}")


def looked_at(
    run: Examined,
    cpu: int | None = None,
    op: str | None = None,
    *,
    window: tuple[int, int] | None = None,
    palette_name: str = "safe",
) -> go.Figure:
    """CPUs that balancing or wakeups looked at (paper, Figure 5).

    Raises
    ------
    MissingEventsError
        No considered events, or none of that CPU and function.
    """
    events = considered_events(run.trace, cpu, op)
    who = f"CPU {cpu}" if cpu is not None else "all CPUs"
    title = f"CPUs considered by {op or 'the scheduler'} on behalf of {who}: {events.height:,} decisions"
    return considered(run.scene, events, window, palette_name=palette_name, title=title)
