"""``wastedcores import``: any trace this package reads, written as our Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wastedcores.cli._app import app
from wastedcores.cli._options import print_json
from wastedcores.units import human_ns

if TYPE_CHECKING:
    from wastedcores.trace.header import Header

_EPILOG = """Examples:

  wastedcores import trace.txt.xz

  wastedcores import perf.data -o run7.parquet

  wastedcores import trace.txt --topology bulldozer8x8

  perf script --show-lost-events -F +cpu > p.txt; wastedcores import p.txt

The format is found out from the content: ftrace text, trace-cmd report, perf script, perf.data, trace.dat,
sched_profiler, KUtrace JSON (text plain or .gz, .xz, .zst); SchedLog's rings and systing's Parquet tables by their
folder. --format is for saying which one you expect.
"""


@app.command("import", epilog=_EPILOG)
def import_(
    source: Annotated[
        Path, typer.Argument(help="Trace file of any format, or a folder of SchedLog or systing")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Parquet file to write [SOURCE's name .parquet]"),
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="Expect this format instead of finding out")
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option(
            "--topology",
            "--machine",
            help="Machine it was recorded on: a preset's name, or a JSON or YAML file",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The header as one JSON object")] = False,
) -> Any:
    """Read a trace once and keep it as Parquet: small, fast to open."""
    from wastedcores.topology.source import find_machine
    from wastedcores.trace.io import import_trace

    machine = None if topology is None else find_machine(topology).machine
    trace = import_trace(
        source,
        output or default_output(source),
        format=format,
        machine=None if machine is None else machine.to_dict(),
        cpus=None if machine is None else range(machine.cpus),
    )
    assert trace.path is not None
    if as_json:
        print_json({"path": str(trace.path), "header": trace.header.model_dump()})
    else:
        print(describe(trace.path, trace.header))


def default_output(source: Path) -> Path:
    """``run.txt.xz`` -> ``run.parquet`` in the current folder; another's ``run.parquet`` -> ``run-trace.parquet``."""
    name = source.name
    for suffix in (".gz", ".xz", ".zst", ".txt", ".data", ".dat", ".json"):
        name = name.removesuffix(suffix)
    if name.endswith(".parquet"):
        name = name.removesuffix(".parquet") + "-trace"
    return Path(f"{name or 'trace'}.parquet")


def describe(path: Path, header: Header) -> str:
    """What was imported, for people."""
    events, size = header.events or 0, path.stat().st_size
    span = (header.end_ns or 0) - (header.start_ns or 0)
    lines = [
        f"{path}: {events:,} events, {size / 1e6:.2f} MB ({size / max(events, 1):.1f} bytes per event)",
        f"  source         {header.provenance.get('source')} ({header.source_format})",
        f"  covers         {human_ns(span)} on {header.cpus} CPUs",
    ]
    if header.lost_total:
        lines.append(f"  LOST EVENTS    {header.lost_total:,}")
    lines += [
        f"  {key:<14} {text}"
        for key, text in header.provenance.items()
        if key in ("skipped", "truncated_last_line", "clock jump", "state columns", "wakeups")
    ]
    return "\n".join(lines)
