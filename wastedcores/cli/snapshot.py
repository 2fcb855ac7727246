"""``wastedcores snapshot``: write down which CPUs each task may use."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from typer import Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import Pseudonyms

_NOTES = """A trace made by another tool does not tell which CPUs a task may use. Take a snapshot while the recorded tasks
exist. No rights are needed."""


@app.command(epilog=epilog("snapshot -o tasks.json", notes=_NOTES))
def snapshot(
    output: Annotated[
        Path, Option("--output", "-o", metavar="FILE", help="The JSON file to write.")
    ] = Path("tasks.json"),
    pseudonyms: Pseudonyms = None,
) -> None:
    """Write down where every task may run, and in which groups."""
    from wastedcores.capture.snapshot import write_snapshot
    from wastedcores.cli._output import check_writable, print_next

    check_writable(output)

    print(f"{output}: {write_snapshot(output, pseudonyms):,} tasks")
    print_next(
        f"wastedcores check TRACE --snapshot {shlex.quote(str(output))}",
        "with the affinity of its tasks",
    )
