"""``wastedcores capture``: record this machine's scheduler."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from wastedcores.cli._app import app
from wastedcores.cli._options import print_json
from wastedcores.units import human_ns

_EPILOG = """Examples:

  wastedcores capture --seconds 10 -o trace.parquet

  wastedcores capture -o make.parquet -- make -j8

  wastedcores capture --flight 5 -o last.parquet          (Ctrl-C writes the last 5 s)

  wastedcores capture --events nr_running --seconds 60 -o sizes.parquet

Needs root for the collector only: sudo is used for it when you are not root. See also: wastedcores doctor.
"""


@app.command(
    epilog=_EPILOG, context_settings={"allow_extra_args": True, "ignore_unknown_options": False}
)
def capture(
    run: Annotated[
        list[str] | None, typer.Argument(metavar="[-- CMD ...]", help="Record while this runs")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Parquet file to write")] = Path(
        "capture.parquet"
    ),
    seconds: Annotated[
        float | None, typer.Option(help="How long; default: the command, or Ctrl-C")
    ] = None,
    events: Annotated[
        str | None, typer.Option(help="Comma-separated kinds; default all but cpu_idle and load")
    ] = None,
    flight: Annotated[
        float | None, typer.Option(metavar="N", help="Flight recorder: keep the last N seconds")
    ] = None,
    buffer: Annotated[float, typer.Option(help="Ring per CPU, MiB")] = 8.0,
    backend: Annotated[str, typer.Option(help="auto, bpf or tracefs")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="The header as one JSON object")] = False,
) -> Any:
    """Record every scheduling event of this machine into a trace."""
    from wastedcores.capture import capture as run_capture

    trace = run_capture(
        output,
        seconds=seconds,
        run=run or None,
        events=events.split(",") if events else None,
        flight=flight,
        buffer_mib=buffer,
        backend=backend,
        progress=lambda line: print(line, file=sys.stderr),
    )
    header = trace.header
    if as_json:
        print_json({"path": str(output), "header": header.model_dump()})
        return
    length = (header.end_ns or 0) - (header.start_ns or 0)
    print(f"{output}: {header.events:,} events in {human_ns(length)}, {header.lost_total:,} lost")
    print(f"next: wastedcores check {output}")
