"""``wastedcores figure``: one figure of a trace, as a page, JSON, or picture."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wastedcores.cli._app import app

if TYPE_CHECKING:
    from wastedcores.analysis.examined import Examined


class Kind(StrEnum):
    """What to draw."""

    heatmap = "heatmap"
    tasks = "tasks"
    waits = "waits"
    load = "load"
    considered = "considered"
    worst = "worst"


class Reduce(StrEnum):
    """Which length a pixel of many shows."""

    longest = "longest"
    last = "last"
    peak = "peak"


_EPILOG = """Examples:

  wastedcores figure group-imbalance-buggy -o gi.html

  wastedcores figure trace.txt --kind tasks --from 4.34 --to 4.54 -o who.html

  wastedcores figure a.parquet --against b.parquet --palette paper -o pair.png

heatmap: threads per runqueue, episodes, idle CPUs and waiting threads;
tasks: who ran where; waits: how long threads waited; load: load per
runqueue; considered: CPUs that balancing looked at; worst: the worst
episode. Ending of the file: .html (works offline), .json, or .png
(needs chromium).
"""


@app.command(epilog=_EPILOG)
def figure(
    trace: Annotated[Path, typer.Argument(help="Trace file, or a data set's name")],
    out: Annotated[Path, typer.Option("-o", "--out", help="File to write: .html, .json or .png")],
    kind: Annotated[Kind, typer.Option(help="What to draw")] = Kind.heatmap,
    against: Annotated[
        Path | None, typer.Option(help="A second trace beside it (heatmap, waits)")
    ] = None,
    start: Annotated[
        float | None, typer.Option("--from", help="Start in s, as in the trace")
    ] = None,
    end: Annotated[float | None, typer.Option("--to", help="End in s, as in the trace")] = None,
    cpus: Annotated[str, typer.Option(help="Draw and count these CPUs only, e.g. 8-23")] = "",
    persist: Annotated[
        str, typer.Option(help="An episode at least this long is persistent")
    ] = "100ms",
    palette: Annotated[str, typer.Option(help="safe, or paper: the paper's colours")] = "safe",
    reduce: Annotated[
        Reduce, typer.Option(help="heatmap: a pixel shows this length of its time")
    ] = Reduce.longest,
    cpu: Annotated[int | None, typer.Option(help="considered: on behalf of this CPU")] = None,
    op: Annotated[str | None, typer.Option(help="considered: by this kernel function")] = None,
    width: Annotated[int, typer.Option(min=200, max=10_000, help="png: width in pixels")] = 1280,
) -> None:
    """Draw a trace."""
    from wastedcores.analysis.examined import examine
    from wastedcores.cli._open import open_input
    from wastedcores.figures.theme import palette as known_palette
    from wastedcores.reports.html import write_figure
    from wastedcores.units import duration_ns

    known_palette(palette)
    _together(kind, against, cpu, op, out, start, end)
    persist_ns = duration_ns(persist, "--persist")
    run = examine(open_input(trace), persist_ns=persist_ns, cpus=cpus)
    other = examine(open_input(against), persist_ns=persist_ns, cpus=cpus) if against else None
    shown = _draw(
        run,
        other,
        kind.value,
        _window(run, start, end),
        palette=palette,
        reduce=reduce.value,
        cpu=cpu,
        op=op,
    )
    write_figure(shown, out, width=width)
    print(out)


def _together(
    kind: Kind,
    against: Path | None,
    cpu: int | None,
    op: str | None,
    out: Path,
    start: float | None,
    end: float | None,
) -> None:
    """What can be refused before a large trace is read."""
    from wastedcores.cli._plan import check_writable
    from wastedcores.errors import UsageError

    if against and kind not in (Kind.heatmap, Kind.waits):
        raise UsageError(f"--against is for heatmap and waits; got --kind {kind.value}")
    if kind is not Kind.considered and (cpu is not None or op):
        raise UsageError(f"--cpu and --op are for considered; got --kind {kind.value}")
    for option, seconds in (("--from", start), ("--to", end)):
        if seconds is not None and not abs(seconds) < 1e9:
            raise UsageError(f"{option} {seconds:g}: expected seconds, as in the trace")
    if out.suffix not in (".html", ".json", ".png"):
        raise UsageError(f"-o {out}: a figure is written as .html, .json or .png; give such a name")
    check_writable(out)


def _window(run: Examined, start: float | None, end: float | None) -> tuple[int, int] | None:
    if start is None and end is None:
        return None
    first, last = run.scene.window
    return (
        first if start is None else max(first, round(start * 1e9)),
        last if end is None else min(last, round(end * 1e9)),
    )


def _draw(
    run: Examined,
    other: Examined | None,
    kind: str,
    window: tuple[int, int] | None,
    *,
    palette: str,
    reduce: str,
    cpu: int | None,
    op: str | None,
):
    from wastedcores.figures import views
    from wastedcores.figures.heatmaps import heatmap, side_by_side
    from wastedcores.words.findings import claim, claim_pair

    if kind == "heatmap" and other is not None:
        title = claim_pair(run, other)
        return side_by_side(
            run.scene, other.scene, palette_name=palette, reduce=reduce, title=title
        )
    if kind == "heatmap":
        return heatmap(run.scene, window, palette_name=palette, reduce=reduce, title=claim(run))
    if kind == "tasks":
        return views.who_ran(run, window or run.scene.window, palette_name=palette)
    if kind == "waits":
        return views.waits(run, other, palette_name=palette)
    if kind == "load":
        return views.load(run, window)
    if kind == "worst":
        return views.zoom(run, palette_name=palette)
    return views.looked_at(run, cpu, op, window=window, palette_name=palette)
