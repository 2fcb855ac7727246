"""``wastedcores import``: any trace this package reads, written as Parquet."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import AsJson, Pseudonyms, SnapshotSource, TraceFormat
from wastedcores.cli._output import check_writable, parquet_name, print_next, print_recording
from wastedcores.trace.formats import listed
from wastedcores.units import human_ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from wastedcores.trace.header import Header
    from wastedcores.trace.trace import Trace

_NOTES = f"""The format is detected from the content. Known are {listed()}. Text may be plain or compressed (.gz, .xz,
.zst). Make text from perf.data with `perf script --show-lost-events -F +cpu`, so that the text has the lost events. The readers
of SchedLog and systing have only been tested on constructed files, because no real recording was available.

Most formats do not tell which CPUs a task may use. Run `wastedcores snapshot` while the trace is recorded, and give the file that
it writes with --snapshot. A snapshot of another machine or boot is refused."""


@app.command(
    "import",
    epilog=epilog(
        "import trace.txt.xz",
        "import perf.data -o run7.parquet",
        "import trace.txt --topology bulldozer8x8",
        "import perf.data --snapshot tasks.json",
        "import perf.data --pseudonyms secret.key -o to-share.parquet",
        notes=_NOTES,
    ),
)
def import_(
    source: Annotated[
        Path,
        Argument(metavar="SOURCE", help="A trace (a file or a folder of any format)."),
    ],
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The Parquet file to write. Default: the name of the source with the ending .parquet.",
        ),
    ] = None,
    format: TraceFormat = None,
    topology: Annotated[
        str | None,
        Option(
            "--topology",
            "--machine",
            metavar="NAME|FILE|live",
            help="The machine on which the trace was recorded: a preset, or a file that describes it.",
        ),
    ] = None,
    snapshot: SnapshotSource = None,
    pseudonyms: Pseudonyms = None,
    as_json: AsJson = False,
) -> None:
    """Convert a trace to Parquet, which is small and opens fast."""
    from wastedcores.topology.source import find_machine
    from wastedcores.trace.io import import_trace

    output = output or parquet_name(source)
    check_writable(output)
    machine = None if topology is None else find_machine(topology).machine

    def run(to: Path) -> Trace:
        return import_trace(
            source,
            to,
            format=format,
            machine=None if machine is None else machine.to_dict(),
            cpus=None if machine is None else range(machine.cpus),
        )

    if snapshot is None and pseudonyms is None:
        trace = run(output)
    else:
        trace = _changed(run, source, output, snapshot, pseudonyms)
    assert trace.path is not None
    if as_json:
        print_recording(trace.path, trace.header)
    else:
        print(_describe(trace.path, trace.header))
        print_next(
            f"wastedcores check {shlex.quote(str(trace.path))}",
            "were cores idle while threads waited?",
        )


def _changed(
    run: Callable[[Path], Trace],
    source: Path,
    output: Path,
    taken: str | None,
    pseudonyms: Path | None,
) -> Trace:
    """Import a trace with the facts of a snapshot or with pseudonyms; if one of these is refused, write nothing."""
    from wastedcores.capture.snapshot import read_snapshot, with_snapshot
    from wastedcores.errors import UsageError
    from wastedcores.trace.pseudonyms import Pseudonyms, written_again

    # checked here, because the import itself only sees the name of a temporary file
    if output.exists() and source.exists() and output.samefile(source):
        raise UsageError(
            f"{output}: this is the trace to read itself. Choose another name with -o."
        )
    snapshot = None if taken is None else read_snapshot(taken)
    names = None if pseudonyms is None else Pseudonyms.of_file(pseudonyms)

    def complete(part: Path) -> Trace:
        trace = run(part)
        if snapshot is None or taken is None:
            return trace
        # only when the whole trace has been read is it known whether the snapshot is of the same machine
        return with_snapshot(trace, snapshot, taken, recorded=source)

    return written_again(complete, output, names)


def _describe(path: Path, header: Header) -> str:
    events, size = header.events or 0, path.stat().st_size
    span = (header.end_ns or 0) - (header.start_ns or 0)
    lines = [
        f"{path}: {events:,} events, {size / 1e6:.2f} MB ({size / max(events, 1):.1f} bytes per event)",
        f"  source         {header.provenance.get('source', path.name)} ({header.source_format})",
        f"  covers         {human_ns(span)} on {header.cpus} CPUs",
    ]
    if header.lost_total:
        lines.append(f"  LOST EVENTS    {header.lost_total:,}")
    lines += [
        f"  {key:<14} {text}"
        for key, text in header.provenance.items()
        if key in ("skipped", "clock jump", "state columns", "wakeups")
    ]
    if header.truncated_last_line:
        lines.append(f"  cut short      {header.truncated_last_line}")
    return "\n".join(lines)
