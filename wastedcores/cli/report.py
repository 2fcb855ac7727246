"""``wastedcores report``: makes a page about a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from typer import Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import (
    Between,
    NamedTrace,
    Pseudonyms,
    Quiet,
    Settings,
    SnapshotSource,
    Whole,
    settings,
)
from wastedcores.cli._output import parquet_name, tell_leftovers

_NOTES = """The folder gets report.html (which opens offline), report.ipynb and manifest.json. The last line of the output is
the path of the page. A recording may name the window and the CPUs of its workload; the report is about these unless
--whole, --between or other parameters are given."""


@app.command(
    epilog=epilog(
        "report trace.txt.xz -o reports/mine",
        "report group-imbalance-buggy --against group-imbalance-fixed -o reports/gi",
        "report perf.data --machine live -o reports/here",
        "report perf.txt --between 4.34 4.54 --set persist=50ms --set cpus=8-23 -o reports/pinned",
        notes=_NOTES,
    )
)
def report(
    trace: NamedTrace = None,
    output: Annotated[
        Path, Option("--output", "-o", metavar="DIR", help="The folder for the report.")
    ] = Path("reports/report"),
    against: Annotated[str, Option(metavar="TRACE", help="A second trace to compare with.")] = "",
    machine: Annotated[
        str | None,
        Option(
            metavar="NAME|FILE|live",
            help="The machine on which the trace was recorded. Default: what the trace says.",
        ),
    ] = None,
    kernel: Annotated[
        str | None,
        Option(metavar="NAME", help="The kernel that was recorded. Default: what the trace says."),
    ] = None,
    set_: Settings = None,
    between: Between = None,
    whole: Whole = False,
    notebook: Annotated[
        str,
        Option(metavar="NAME", help="The notebook to run: a path, or the name of a bundled one."),
    ] = "01_is_my_machine_wasting",
    list_parameters: Annotated[
        bool, Option("--parameters", help="List the notebook's parameters and exit.")
    ] = False,
    snapshot: SnapshotSource = None,
    pseudonyms: Pseudonyms = None,
    quiet: Quiet = False,
) -> None:
    """Run a notebook on a trace and write a page that opens offline."""
    from wastedcores.reports.notebook import find_notebook, parameters_of
    from wastedcores.reports.notebook import report as make

    if list_parameters:
        for name, p in parameters_of(find_notebook(notebook)).items():
            print(f"{name}: {p['type']} = {p['default']}\n    {p['help']}")
        return
    tell_leftovers(output.parent)
    copies = output.absolute().with_name(f"{output.name}-traces")
    if snapshot is not None or pseudonyms is not None:
        trace, against = _copies(trace, against, snapshot, pseudonyms, copies)
    made = make(
        trace,
        against=against,
        out=output,
        notebook=notebook,
        parameters=settings(set_)
        | ({"whole": "true"} if whole else {})
        | ({"between": json.dumps(between)} if between else {})
        | {k: v for k, v in {"machine": machine, "kernel": kernel}.items() if v is not None},
        progress=not quiet,
        # hidden, because the names of folders may tell who made the report
        hidden=copies if pseudonyms is not None else None,
    )
    print(made.html)


def _copies(
    trace: str | None, against: str, snapshot: str | None, keys: Path | None, folder: Path
) -> tuple[str, str]:
    """Copy the traces into a folder and return the paths; the first copy gets the snapshot, and both get the pseudonyms."""
    from wastedcores.cli._input import open_input
    from wastedcores.errors import UsageError
    from wastedcores.trace.parquet import write_parquet
    from wastedcores.trace.pseudonyms import Pseudonyms as Names
    from wastedcores.trace.pseudonyms import renamed

    if trace is None:
        raise UsageError(
            "there is no trace. --snapshot and --pseudonyms are for the trace of which the report is."
        )
    names = None if keys is None else Names.of_file(keys)

    def copied(name: str, taken: str | None, place: Path) -> str:
        found = open_input(Path(name), snapshot=taken)
        place.mkdir(parents=True, exist_ok=True)
        if names is None:
            return str(write_parquet(found, place / parquet_name(Path(name))))
        return str(
            write_parquet(renamed(found, names), place / f"{names.name(name, 'trace')}.parquet")
        )

    other = folder / "against"  # both files may have the same name
    return copied(trace, snapshot, folder), copied(against, None, other) if against else ""
