"""``wastedcores export``: a trace for the Perfetto UI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from wastedcores.cli._app import app
from wastedcores.cli._options import print_json
from wastedcores.units import duration_ns

_EPILOG = """Examples:

  wastedcores export trace.txt.xz

  wastedcores export run7.parquet -o run7.pftrace --persist 50ms

Open the file at https://ui.perfetto.dev; it is read in the browser and goes nowhere.
"""


@app.command(epilog=_EPILOG)
def export(
    trace: Annotated[Path, typer.Argument(help="Trace file of any format; or a data set")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write [TRACE's name .pftrace]")
    ] = None,
    persist: Annotated[
        str, typer.Option(help="M: an episode at least this long is marked persistent")
    ] = "100ms",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for machines")] = False,
) -> Any:
    """Write a trace for the Perfetto UI."""
    from wastedcores.cli._open import open_input
    from wastedcores.cli._plan import check_writable
    from wastedcores.cli.import_ import default_output
    from wastedcores.invariant import check
    from wastedcores.reports.perfetto import export_perfetto

    persist_ns = duration_ns(persist, "--persist")
    if output is not None:
        check_writable(output)
    opened = open_input(trace)
    result = check(opened, persist_ns=persist_ns)
    path = export_perfetto(opened, output or default_output(trace).with_suffix(".pftrace"), result)
    if as_json:
        print_json({"path": str(path), "bytes": path.stat().st_size, "verdict": result.verdict})
    else:
        print(f"{path}: {path.stat().st_size / 1e6:.2f} MB, {result.episodes.height} episodes")
        print("  open it at https://ui.perfetto.dev")
