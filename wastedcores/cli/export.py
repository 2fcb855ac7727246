"""``wastedcores export``: a trace for the Perfetto UI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import ENDINGS, AsJson, Persist, TraceInput, Whole
from wastedcores.cli._output import check_writable, parquet_name, print_json
from wastedcores.errors import UsageError
from wastedcores.units import duration_ns

_NOTES = """Open the file at https://ui.perfetto.dev. Your browser reads it; it is not uploaded. The file also holds the recording
itself, so that check and all other commands read it back."""


@app.command(
    epilog=epilog(
        "export trace.txt.xz",
        "export run7.parquet -o run7.pftrace --persist 50ms",
        "export run7.parquet -o run7.pftrace --sql",
        notes=_NOTES,
    )
)
def export(
    trace: TraceInput,
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The file to write. Default: the name of the trace with the ending .pftrace.",
        ),
    ] = None,
    persist: Persist = "100ms",
    whole: Whole = False,
    sql: Annotated[
        bool,
        Option(
            "--sql",
            help="Also write queries for Perfetto's trace processor, in a file of the same name that ends with .sql.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a trace, with its episodes, for the Perfetto UI."""
    from wastedcores.cli._input import open_input
    from wastedcores.invariant.checking import check_runqueues
    from wastedcores.reports.perfetto import export_perfetto
    from wastedcores.runqueues.runqueues import runqueues
    from wastedcores.trace.window import asked
    from wastedcores.words.rich_text import count

    persist_ns = duration_ns(persist, "--persist")
    if output is not None:
        check_writable(output)
        if output.suffix not in ENDINGS:
            raise UsageError(
                f"-o {output}: an export is a binary file for Perfetto. Give a name that ends with {' or '.join(ENDINGS)}."
            )
    found = runqueues(open_input(trace))
    result = check_runqueues(
        found, *asked(found.trace, None, None, whole=whole), persist_ns=persist_ns
    )
    path = export_perfetto(found, output or parquet_name(trace).with_suffix(".pftrace"), result)
    if sql:
        from wastedcores.files import written_whole
        from wastedcores.reports.perfetto import recipes

        with written_whole(path.with_suffix(".sql")) as part:
            part.write_text(recipes())
    if as_json:
        answer = {"schema": "wastedcores.export/1", "path": str(path)}
        print_json(answer | {"bytes": path.stat().st_size, "verdict": result.verdict})
    else:
        print(
            f"{path}: {path.stat().st_size / 1e6:.2f} MB, {count(result.episodes.height, 'episode')}"
        )
        print("  open it at https://ui.perfetto.dev")
        if sql:
            print(f"  or run trace_processor_shell -q {path.with_suffix('.sql')} {path}")
