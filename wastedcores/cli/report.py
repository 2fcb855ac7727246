"""``wastedcores report``: a trace in, a page out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wastedcores.cli._app import app

_EPILOG = """Examples:

  wastedcores report trace.txt.xz -o reports/mine

  wastedcores report group-imbalance-buggy --against group-imbalance-fixed -o reports/gi

  wastedcores report perf.txt --set persist=50ms --set cpus=8-23 -o reports/pinned

The folder gets report.html (opens offline), report.ipynb and manifest.json.
`--parameters` lists what can be set. The path of the page is the last line.
"""


@app.command(epilog=_EPILOG)
def report(
    trace: Annotated[str | None, typer.Argument(help="Trace file, or a data set's name")] = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the report")] = Path(
        "reports/report"
    ),
    against: Annotated[str, typer.Option(help="A second trace to show beside it")] = "",
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the notebook"),
    ] = None,
    notebook: Annotated[
        str, typer.Option(help="Notebook to run: a path, or a bundled one's name")
    ] = "01_is_my_machine_wasting",
    list_parameters: Annotated[
        bool, typer.Option("--parameters", help="List the notebook's parameters and stop")
    ] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress bar")] = False,
) -> None:
    """Run the notebook on a trace; write a page that opens offline."""
    from wastedcores.errors import UsageError
    from wastedcores.reports.notebook import find_notebook, parameters_of
    from wastedcores.reports.notebook import report as make

    if list_parameters:
        for name, p in parameters_of(find_notebook(notebook)).items():
            print(f"{name}: {p['type']} = {p['default']}\n    {p['help']}")
        return
    parameters = {}
    for text in setting or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text!r}: expected NAME=VALUE.")
        parameters[name.strip()] = value
    made = make(
        trace,
        against=against,
        out=out,
        notebook=notebook,
        parameters=parameters,
        progress=not quiet,
    )
    print(made.html)
