"""``wastedcores figure``: one figure of a trace, as a page, JSON or a picture."""

from __future__ import annotations

from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import Between, Cpus, Persist, TraceInput, Whole
from wastedcores.cli._output import check_writable, parquet_name
from wastedcores.errors import UsageError
from wastedcores.units import duration_ns

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from wastedcores.analysis.examined import Examined
    from wastedcores.figures.event_layers import EventLayer
    from wastedcores.queries.spans import Span


class Kind(StrEnum):
    """The figures that can be drawn."""

    heatmap = "heatmap"
    tasks = "tasks"
    waits = "waits"
    avoidable = "avoidable"
    load = "load"
    considered = "considered"
    worst = "worst"
    events = "events"
    frequency = "frequency"
    transitions = "transitions"
    nodes = "nodes"


class Reduce(StrEnum):
    """Which runqueue length stands for all those that fall into one pixel."""

    share = "share"
    longest = "longest"
    last = "last"
    peak = "peak"


_NOTES = """\b
Kinds of figures:
  heatmap     threads per runqueue, with episodes, idle CPUs and waiting threads
  tasks       which task ran on which CPU
  waits       how long threads waited
  avoidable   the threads that waited longest while a CPU that they may use was idle
  load        load per runqueue
  considered  CPUs that load balancing and wakeups looked at
  worst       the worst episode
  events      events that --query chooses, as strokes, spans and arrows; without a query who ran and how tasks moved
  frequency   how fast every CPU was, and how many were slow while they were busy
  transitions idle, user and kernel time of every CPU, wakeups, and why threads waited (capture --transitions)
  nodes       how many threads run or wait on every node, beside the number of its CPUs

A query: kind == "switch" and not comm in ("cc1", "as") and cpu < 8. A style: draw=strokes, draw=spans:run_ns (a length),
draw=arrows (src_cpu to cpu) or draw=mask; colour=#d62728, colour=by:comm or colour=scale:COLUMN; width=2; label="my label".
A file of layers has tables [[layer]] with query, draw, colour, width and label (docs/events.md).

The ending of the file decides what is written: .html works offline, .json is Plotly's, .png needs Chromium. A recording
may name the window and the CPUs of its workload; only these are counted unless --cpus is given."""


@app.command(
    epilog=epilog(
        "figure group-imbalance-buggy -o gi.html",
        "figure trace.txt --kind tasks --from 340ms --to 540ms -o who.html",
        "figure a.parquet --against b.parquet --palette paper -o pair.png",
        "figure trace.txt --kind events --query 'run_ns > 4 * ms' --style 'draw=spans:run_ns colour=by:comm'",
        notes=_NOTES,
    )
)
def figure(
    trace: TraceInput,
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The file to write: .html, .json or .png. Default: the name of the trace and the kind, as .html.",
        ),
    ] = None,
    kind: Annotated[Kind, Option(help="What to draw.")] = Kind.heatmap,
    against: Annotated[
        Path | None,
        Option(
            metavar="TRACE", help="A second trace to draw next to the first (heatmap and waits)."
        ),
    ] = None,
    start: Annotated[
        str | None,
        Option(
            "--from",
            metavar="TIME",
            help="Draw from this time on, as the axis shows it: since the beginning of the trace, such as 4.2s or 651ms.",
        ),
    ] = None,
    end: Annotated[
        str | None, Option("--to", metavar="TIME", help="Draw up to this time, also on the axis.")
    ] = None,
    between: Between = None,
    cpus: Cpus = None,
    whole: Whole = False,
    persist: Persist = "100ms",
    palette: Annotated[
        str, Option(metavar="safe|paper", help="The colours; `paper` has those of the paper.")
    ] = "safe",
    reduce: Annotated[
        Reduce,
        Option(
            help="heatmap: which of the runqueue lengths in a pixel it shows; `share` paints each for its share of the time."
        ),
    ] = Reduce.share,
    cpu: Annotated[
        int | None,
        Option(metavar="N", help="considered: only what was done on behalf of this CPU."),
    ] = None,
    op: Annotated[
        str | None,
        Option(metavar="NAME", help="considered: only what this kernel function looked at."),
    ] = None,
    query: Annotated[
        list[str] | None,
        Option(
            metavar="QUERY", help="events: draw the events that it chooses; repeat it for layers."
        ),
    ] = None,
    look: Annotated[
        list[str] | None,
        Option("--style", metavar="STYLE", help="events: how they are drawn, one per --query."),
    ] = None,
    layers: Annotated[
        Path | None,
        Option(metavar="FILE.toml", help="events: a file with queries, styles and spans."),
    ] = None,
    width: Annotated[
        int, Option(metavar="N", min=200, max=10_000, help="png: the width in pixels.")
    ] = 1280,
) -> None:
    """Draw a trace."""
    from wastedcores.analysis.examined import examine
    from wastedcores.cli._input import open_input
    from wastedcores.figures.theme import palette as known_palette
    from wastedcores.reports.html import write_figure

    known_palette(palette)
    output = output or Path(f"{parquet_name(trace).stem}-{kind.value}.html")
    _refuse_early(kind, against, cpu, op, output)
    window = (_axis_ns("--from", start), _axis_ns("--to", end))
    wanted = _event_layers(kind, query or [], look or [], layers)
    persist_ns = duration_ns(persist, "--persist")
    run, *others = (
        examine(open_input(path), persist_ns=persist_ns, between=between, cpus=cpus, whole=whole)
        for path in ([trace, against] if against else [trace])
    )
    if kind is Kind.events:
        from wastedcores.figures.event_views import EventView

        view = EventView(run, wanted[0], spans=wanted[1])
        drawn = view.figure(_within(view.scene.window, *window))
    elif kind is Kind.heatmap:
        drawn = _heatmap(run, others, _window(run, *window), palette, reduce.value)
    else:
        drawn = _view(run, others, kind, _window(run, *window), palette, cpu, op)
    write_figure(drawn, output, width=width)
    print(output)


def _refuse_early(
    kind: Kind,
    against: Path | None,
    cpu: int | None,
    op: str | None,
    output: Path,
) -> None:
    """Refuse what can be refused before a large trace is read."""
    if against and kind not in (Kind.heatmap, Kind.waits):
        raise UsageError(f"--against is for heatmap and waits; got --kind {kind.value}.")
    if kind is not Kind.considered and (cpu is not None or op):
        raise UsageError(f"--cpu and --op are for considered; got --kind {kind.value}.")
    if output.suffix not in (".html", ".json", ".png"):
        raise UsageError(
            f"-o {output}: a figure is written as .html, .json or .png; give such a name."
        )
    check_writable(output)


def _event_layers(
    kind: Kind, queries: list[str], styles: list[str], file: Path | None
) -> tuple[list[EventLayer], list[Span]]:
    """Read the layers of an events figure, before a large trace is read."""
    from wastedcores.figures.event_layers import read_layers, styled

    if kind is not Kind.events and (queries or styles or file):
        raise UsageError(f"--query, --style and --layers are for events; got --kind {kind.value}.")
    if len(styles) > len(queries):
        raise UsageError(
            f"there are {len(styles)} --style and {len(queries)} --query; each style is for the query at its place."
        )
    layers, spans = read_layers(file) if file else ([], [])
    for query, style in zip_longest(queries, styles, fillvalue=""):
        layers.append(styled(query, style))
    return layers, spans


def _axis_ns(option: str, text: str | None) -> int | None:
    """Read a place on the axis, which a plain number gives in seconds."""
    if text is None:
        return None
    return duration_ns(f"{text}s" if text[-1:].isdigit() else text, option)


def _window(run: Examined, start: int | None, end: int | None) -> tuple[int, int] | None:
    if start is None and end is None:
        return None
    return _within(run.scene.window, start, end)


def _within(whole: tuple[int, int], start: int | None, end: int | None) -> tuple[int, int]:
    """Return the window between two places on the axis, whose zero is the beginning of the trace."""
    first, last = whole
    begin = first + (start or 0)
    stop = last if end is None else min(last, first + end)
    if begin >= stop:
        raise UsageError(
            "a window must end after it starts: --from and --to leave nothing of what is drawn, which lasts from 0 to "
            f"{(last - first) / 1e6:,.3f} ms. Give times within that, as the axis shows them."
        )
    return begin, stop


def _heatmap(
    run: Examined, others: list[Examined], window: tuple[int, int] | None, palette: str, reduce: str
) -> go.Figure:
    from wastedcores.figures.heatmaps import heatmap, side_by_side
    from wastedcores.words.findings import claim, claim_pair

    if others:
        title = claim_pair(run, others[0])
        return side_by_side(
            run.scene, others[0].scene, palette_name=palette, reduce=reduce, title=title
        )
    return heatmap(run.scene, window, palette_name=palette, reduce=reduce, title=claim(run))


def _view(
    run: Examined,
    others: list[Examined],
    kind: Kind,
    window: tuple[int, int] | None,
    palette: str,
    cpu: int | None,
    op: str | None,
) -> go.Figure:
    from wastedcores.figures import views

    if kind is Kind.tasks:
        return views.who_ran(run, window or run.scene.window, palette_name=palette)
    if kind is Kind.waits:
        return views.waits(run, others[0] if others else None, palette_name=palette)
    if kind is Kind.avoidable:
        return views.avoidable(run, palette_name=palette)
    if kind is Kind.frequency:
        from wastedcores.figures.frequencies import frequency

        return frequency(run, window, palette_name=palette)
    if kind is Kind.transitions:
        from wastedcores.figures.kernel_user import transitions

        return transitions(run, window, palette_name=palette)
    if kind is Kind.nodes:
        from wastedcores.figures.nodes import threads_per_node

        return threads_per_node(run, window, palette_name=palette)
    if kind is Kind.load:
        return views.load(run, window)
    if kind is Kind.worst:
        return views.zoom(run, palette_name=palette)
    return views.looked_at(run, cpu, op, window=window, palette_name=palette)
