"""``wastedcores capture``: record this machine's scheduler."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated

from typer import Argument, Exit, Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import AsJson, Backend, ParquetOutput, Pseudonyms, Seconds, above_zero
from wastedcores.cli._output import print_next, print_recording
from wastedcores.units import human_ns

_NOTES = """The recording ends after --seconds, when the command ends, or at Ctrl-C.
Only the collector needs root: it is started by sudo when you are not root. With --flight, Ctrl-C ends the
recording and writes the last seconds. The exit code is that of the command, or 3 if the
recording is incomplete. See also: wastedcores doctor."""


@app.command(
    epilog=epilog(
        "capture --seconds 10 -o trace.parquet",
        "capture -o make.parquet -- make -j8",
        "capture --flight 5 -o last.parquet",
        "capture --events nr_running --seconds 60 -o sizes.parquet",
        notes=_NOTES,
    ),
    context_settings={"allow_extra_args": True, "ignore_unknown_options": False},
)
def capture(
    run: Annotated[
        list[str] | None,
        Argument(metavar="-- COMMAND", help="Record while this command runs."),
    ] = None,
    output: ParquetOutput = Path("capture.parquet"),
    seconds: Seconds = None,
    events: Annotated[
        str | None,
        Option(
            metavar="LIST",
            help="Record these kinds, separated by commas. Default: all but cpu_idle, load, tick and transitions.",
        ),
    ] = None,
    flight: Annotated[
        float | None,
        Option(
            metavar="SECONDS",
            callback=above_zero,
            help="Be a flight recorder: keep only the last seconds.",
        ),
    ] = None,
    buffer: Annotated[
        float,
        Option(metavar="MIB", callback=above_zero, help="The size of each CPU's buffer, in MiB."),
    ] = 8.0,
    transitions: Annotated[
        bool,
        Option(
            "--transitions",
            help="Also record system calls, interrupts and page faults (figure --kind transitions).",
        ),
    ] = False,
    frequency: Annotated[
        bool,
        Option(
            "--frequency",
            help="Also record every tick of a busy CPU with the CPU's frequency (figure --kind frequency).",
        ),
    ] = False,
    backend: Backend = "auto",
    pseudonyms: Pseudonyms = None,
    as_json: AsJson = False,
) -> None:
    """Record the scheduling events of this machine."""
    from wastedcores.capture import capture as run_capture
    from wastedcores.capture.record import DEFAULT_EVENTS
    from wastedcores.trace.pseudonyms import Pseudonyms as Names
    from wastedcores.trace.pseudonyms import written_again

    kinds = events.split(",") if events else None
    more = [k for k, wanted in (("transitions", transitions), ("tick", frequency)) if wanted]
    if more:
        kinds = [*(kinds or DEFAULT_EVENTS), *more]
    record = partial(
        run_capture,
        seconds=seconds,
        run=run or None,
        events=kinds,
        flight=flight,
        buffer_mib=buffer,
        backend=backend,
        progress=lambda line: print(line, file=sys.stderr),
    )
    if pseudonyms is None:
        trace = record(output)
    else:
        trace = written_again(record, output, Names.of_file(pseudonyms))
    header = trace.header
    incomplete, failed = header.truncated_last_line, int(header.provenance.get("exit code", 0))
    if as_json:
        print_recording(output, header)
        raise Exit(3 if incomplete else failed)
    length = (header.end_ns or 0) - (header.start_ns or 0)
    print(f"{output}: {header.events:,} events in {human_ns(length)}, {header.lost_total:,} lost")
    if incomplete:
        print(f"INCOMPLETE: {incomplete}. {output} has what was recorded until then.")
        raise Exit(3)
    if frequency and (told := header.provenance.get("frequency")):
        print(f"frequency of a CPU at its ticks: {told}")
    print_next(f"wastedcores check {quote(str(output))}", "were cores idle while threads waited?")
    raise Exit(failed)
