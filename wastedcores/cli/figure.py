"""``wastedcores figure``: one figure of a trace, as a page, JSON or a picture."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._groups import Counted, with_groups
from wastedcores.cli._options import Persist, TraceInput
from wastedcores.cli._output import check_writable, parquet_name
from wastedcores.errors import UsageError
from wastedcores.figures.kinds import KINDS, Look, described, that_take
from wastedcores.units import duration_ns

if TYPE_CHECKING:
    from wastedcores.analysis.examined import Examined
    from wastedcores.figures.event_layers import EventLayer
    from wastedcores.queries.spans import Span


class Reduce(StrEnum):
    """What a pixel shows if the runqueue had several lengths in its time."""

    share = "share"
    longest = "longest"
    last = "last"
    peak = "peak"


@dataclass(frozen=True)
class EventLayers:
    """The layers of a figure of events."""

    query: Annotated[
        list[str] | None,
        Option(
            metavar="QUERY",
            help="For events: draw the events that this query chooses. Repeat it for further layers.",
        ),
    ] = None
    style: Annotated[
        list[str] | None,
        Option(metavar="STYLE", help="For events: how to draw them; give one for each --query."),
    ] = None
    layers: Annotated[
        Path | None,
        Option(metavar="FILE.toml", help="For events: a file with queries, styles and spans."),
    ] = None


_NOTES = f"""\b
Kinds of figures:
{described()}

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
@with_groups
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
    kind: Annotated[
        str, Option(metavar="NAME", help="What to draw; the kinds are listed below.")
    ] = "heatmap",
    against: Annotated[
        Path | None,
        Option(
            metavar="TRACE",
            help=f"A second trace to draw next to the first ({' and '.join(that_take('against'))}).",
        ),
    ] = None,
    start: Annotated[
        str | None,
        Option(
            "--from",
            metavar="TIME",
            help="Draw from this time on, counted from the beginning of the trace as on the axis, such as 4.2s or 651ms.",
        ),
    ] = None,
    end: Annotated[
        str | None,
        Option("--to", metavar="TIME", help="Draw up to this time, counted in the same way."),
    ] = None,
    counted: Counted = Counted(),
    persist: Persist = "100ms",
    palette: Annotated[
        str, Option(metavar="safe|paper", help="The colours; `paper` has those of the paper.")
    ] = "safe",
    reduce: Annotated[
        Reduce,
        Option(
            help="For heatmap: which length of the runqueue a pixel shows; `share` shows each for its share of the time."
        ),
    ] = Reduce.share,
    cpu: Annotated[
        int | None,
        Option(metavar="N", help="For considered: draw only searches on behalf of this CPU."),
    ] = None,
    op: Annotated[
        str | None,
        Option(metavar="NAME", help="For considered: draw only searches by this kernel function."),
    ] = None,
    events: EventLayers = EventLayers(),
    width: Annotated[
        int, Option(metavar="N", min=200, max=10_000, help="For .png: the width in pixels.")
    ] = 1280,
) -> None:
    """Draw a trace."""
    from wastedcores.analysis.examined import examine
    from wastedcores.cli._input import open_input
    from wastedcores.figures.theme import palette as known_palette
    from wastedcores.reports.html import write_figure

    known_palette(palette)
    output = output or Path(f"{parquet_name(trace).stem}-{kind}.html")
    _refuse_early(kind, against, cpu, op, output)
    _refuse_window(kind, against, start, end)
    window = _axis_ns("--from", start), _axis_ns("--to", end)
    wanted = _event_layers(kind, events.query or [], events.style or [], events.layers)
    persist_ns = duration_ns(persist, "--persist")
    run, *others = (
        examine(open_input(path), persist_ns=persist_ns, **vars(counted))
        for path in ([trace, against] if against else [trace])
    )
    asked = Look(
        window=_window(run, kind, *window),
        palette_name=palette,
        reduce=reduce.value,
        against=others[0] if others else None,
        cpu=cpu,
        op=op,
        layers=tuple(wanted[0]),
        spans=tuple(wanted[1]),
    )
    drawn = KINDS[kind].figure(run, asked)
    write_figure(drawn, output, width=width)
    if palette != "safe" and kind not in that_take("palette_name"):
        note = f"--palette {palette} changes nothing: --kind {kind} has its own colours."
        print(note, file=sys.stderr)
    print(output)


def _refuse_early(
    kind: str,
    against: Path | None,
    cpu: int | None,
    op: str | None,
    output: Path,
) -> None:
    """Refuse what can be refused before a large trace is read."""
    if kind not in KINDS:
        raise UsageError(f"--kind {kind}: expected one of {', '.join(KINDS)}.")
    for option, given in (("against", against), ("cpu", cpu is not None), ("op", op)):
        if given and kind not in (able := that_take(option)):
            raise UsageError(f"--{option} is for {' and '.join(able)}; got --kind {kind}.")
    if output.suffix not in (".html", ".json", ".png"):
        raise UsageError(
            f"-o {output}: a figure is written as .html, .json or .png; give such a name."
        )
    check_writable(output)


def _refuse_window(kind: str, against: Path | None, start: str | None, end: str | None) -> None:
    """Refuse --from and --to where they change nothing: the figure has no time axis or always shows the whole trace."""
    if (start is None and end is None) or (not against and kind in that_take("window")):
        return
    what = "two traces, which are drawn whole" if against else f"--kind {kind}"
    option = "--from" if start is not None else "--to"
    raise UsageError(
        f"{option} is not for {what}. --between START END counts only a part of a trace, whatever is drawn."
    )


def _event_layers(
    kind: str, queries: list[str], styles: list[str], file: Path | None
) -> tuple[list[EventLayer], list[Span]]:
    """Read the layers of an events figure, before a large trace is read."""
    from wastedcores.figures.event_layers import read_layers, styled

    if kind not in (able := that_take("layers")) and (queries or styles or file):
        raise UsageError(
            f"--query, --style and --layers are for {' and '.join(able)}; got --kind {kind}."
        )
    if len(styles) > len(queries):
        raise UsageError(
            f"there are {len(styles)} --style and {len(queries)} --query; each style is for the query at its place."
        )
    layers, spans = read_layers(file) if file else ([], [])
    for query, style in zip_longest(queries, styles, fillvalue=""):
        layers.append(styled(query, style))
    return layers, spans


def _axis_ns(option: str, text: str | None) -> int | None:
    """Read a time on the axis; a number without a unit is in seconds."""
    if text is None:
        return None
    return duration_ns(f"{text}s" if text[-1:].isdigit() else text, option)


def _window(run: Examined, kind: str, start: int | None, end: int | None) -> tuple[int, int] | None:
    if start is None and end is None:
        return None
    if "layers" not in KINDS[kind].takes:
        return _within(run.scene.window, start, end)
    # figures of events need no runqueues, and computing these takes long
    from wastedcores.figures.event_views import whole

    return _within(whole(run), start, end)


def _within(whole: tuple[int, int], start: int | None, end: int | None) -> tuple[int, int]:
    """Return the window between two times on the axis, which has its zero at the beginning of the trace."""
    first, last = whole
    begin = first + (start or 0)
    stop = last if end is None else min(last, first + end)
    if begin >= stop:
        raise UsageError(
            "a window must end after it starts: --from and --to leave nothing of what is drawn, which lasts from 0 to "
            f"{(last - first) / 1e6:,.3f} ms. Give times within that, as the axis shows them."
        )
    return begin, stop
