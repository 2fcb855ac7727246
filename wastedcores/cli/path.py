"""``wastedcores path``: the critical path of some work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import AsJson, Between, TraceFormat, TraceInput, Whole
from wastedcores.cli._output import print_json, print_next
from wastedcores.units import human_ns

if TYPE_CHECKING:
    from wastedcores.analysis.critical_path import CriticalPath

_NOTES = """The path goes from the end of the work backwards: from a thread that slept to the thread that woke it, and so on. It
splits the time into running, waiting for a CPU while another CPU that the thread may use was idle (avoidable), other waiting, and
sleeping (timers, devices, and the way of a wakeup from one CPU to another)."""


@app.command(
    epilog=epilog(
        "path overload-on-wakeup-buggy",
        'path trace.txt.xz --from "rec: db end" --json',
        "path perf.data --from 4711",
        notes=_NOTES,
    )
)
def path(
    ctx: typer.Context,
    trace: TraceInput,
    from_: Annotated[
        str | None,
        Option(
            "--from",
            metavar="MARK|PID",
            help="Where the path ends: at a mark (the beginning of its text) or at the end of a thread (its pid). Default: at "
            "the mark that ends the recording's window, or else at the last exit of a task.",
        ),
    ] = None,
    between: Between = None,
    whole: Whole = False,
    as_json: AsJson = False,
    format: TraceFormat = None,
) -> None:
    """Show the critical path of some work and what it waited for."""
    from wastedcores.analysis.critical_path import critical_path
    from wastedcores.cli._input import open_input
    from wastedcores.trace.window import asked
    from wastedcores.words.steps import next_after_path

    opened = open_input(trace, format)
    window, _ = asked(opened, between, None, whole=whole)
    found = critical_path(opened, from_, window=window, whole=whole)
    if as_json:
        print_json(found.to_json())
    else:
        print(_describe(opened.name, found))
        print_next(*next_after_path(opened, str(trace)), ctx)


def _describe(name: str, found: CriticalPath, most: int = 10) -> str:
    totals = found.totals
    lines = [
        f"{name}: the critical path to {found.end} is {human_ns(found.length_ns)} long",
        "",
        *(
            f"  {what:<50}  {human_ns(totals[key]):>8}  {totals[key] / max(1, found.length_ns):6.1%}"
            for key, what in (
                ("running", "running"),
                ("avoidable", "waiting while a CPU that it may use was idle"),
                ("other_waiting", "other waiting for a CPU"),
                ("sleeping", "sleeping"),
            )
        ),
        "",
        "  thread            pid      running   avoidable  other waiting  sleeping",
    ]
    for row in found.threads.head(most).iter_rows(named=True):
        times = (
            human_ns(row[c])
            for c in ("running_ns", "avoidable_ns", "other_waiting_ns", "sleeping_ns")
        )
        running, avoidable, other, sleeping = times
        lines.append(
            f"  {row['comm']:<16}  {row['pid']:<7}  {running:<8}  {avoidable:<9}  {other:<13}  {sleeping}"
        )
    more = found.threads.height - most
    if more > 0:
        lines.append(f"  ... and {more:,} more threads")
    return "\n".join(lines)
