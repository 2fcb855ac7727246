"""``wastedcores schedstat``: the scheduler's counters of one run, or how the counters of two runs differ."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import AsJson

if TYPE_CHECKING:
    from wastedcores.trace.schedstat import Counters

_NOTES = """FILE is what `perf sched stats record` wrote, a copy of /proc/schedstat, or a trace. Two copies, one taken after the
other, show what happened in between. If FILE is a trace, its events are counted; a trace of `wastedcores replay --decisions` has
the events for most counters. The lines and columns are those of `perf sched stats report` and `perf sched stats diff`. A dash
stands for what a trace does not tell.

With one run, PCT_CHANGE is a counter's share of the counter to which it belongs; with two runs, it says by how many per cent
the second run differs from the first. AVG_JIFFIES is the mean time between two events that the line counts.

The first part is the mean of all CPUs. Early versions of perf divided the sum by the number of CPUs less one."""


@app.command(
    epilog=epilog(
        "schedstat perf.data",
        "schedstat before.txt after.txt",
        "schedstat perf.data replayed.parquet --cpus",
        notes=_NOTES,
    )
)
def schedstat(
    file: Annotated[
        Path,
        Argument(
            metavar="FILE",
            help="A file with the counters, or a trace from which they are computed.",
        ),
    ],
    against: Annotated[
        Path | None, Argument(metavar="FILE", help="A second run, to print the difference.")
    ] = None,
    cpus: Annotated[bool, Option("--cpus", help="Also print every CPU.")] = False,
    hz: Annotated[
        int,
        Option(metavar="N", min=1, max=10_000, help="For a trace: jiffies per second (CONFIG_HZ)."),
    ] = 250,
    explain: Annotated[
        bool, Option("--explain", help="Say first what each counter counts.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the scheduler's counters, or how they differ."""
    from wastedcores.cli._output import print_json
    from wastedcores.words.schedstat import meanings, summary, table

    first = _counters(file, hz)
    second = _counters(against, hz) if against is not None else None
    if second is not None and second.follows(first):
        # the files are two copies of one machine's /proc/schedstat
        first, second = second.since(first), None
    runs = [c for c in (first, second) if c is not None]
    if as_json:
        print_json(
            {
                "schema": "wastedcores.schedstat/1",
                "runs": [
                    {
                        "source": c.source,
                        "version": c.version,
                        "jiffies": c.jiffies,
                        "since_boot": c.since_boot,
                        "notes": list(c.notes),
                        "mean": _json(summary(c)),
                        "cpus": {str(n): _json(cpu) for n, cpu in c.cpus.items()},
                    }
                    for c in runs
                ],
            }
        )
        return
    for c in runs:
        if c.since_boot:
            print(
                f"wastedcores: note: {c.source}: one sample, so these are the counts since the machine started",
                file=sys.stderr,
            )
        for note in c.notes:
            print(f"wastedcores: note: {c.source}: {note}", file=sys.stderr)
    if explain:
        print("\n".join(meanings()) + "\n")
    for line in table(first, second, cpus=cpus):
        print(line)


def _counters(file: Path, hz: int) -> Counters:
    """Read counters from a file, or count the events of a trace."""
    from wastedcores.trace.schedstat import read_counters

    if (found := read_counters(file)) is not None:
        return found
    from wastedcores.analysis.schedstat import counted
    from wastedcores.cli._input import open_input

    return counted(open_input(file), hz)


def _json(cpu: object) -> object:
    from dataclasses import asdict

    return asdict(cpu)  # type: ignore[call-overload]
