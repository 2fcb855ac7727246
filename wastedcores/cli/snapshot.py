"""``wastedcores snapshot``: write down which CPUs each task may use."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import JsonOutput, Pseudonyms

_NOTES = """A trace made by another tool does not tell which CPUs a task may use. If you give the command
that records, a snapshot is taken before it and another one after it. Together they show whether anything changed
meanwhile, and which CPUs did nothing. Without a command, take the snapshot while the recorded tasks exist. No special
rights are needed. The exit code is that of the command."""


@app.command(
    epilog=epilog(
        "snapshot -o tasks.json -- perf sched record -- make -j8",
        "snapshot -o tasks.json",
        notes=_NOTES,
    ),
    context_settings={"allow_extra_args": True, "ignore_unknown_options": False},
)
def snapshot(
    run: Annotated[
        list[str] | None,
        Argument(
            metavar="-- COMMAND", help="Take one snapshot before this command and one after it."
        ),
    ] = None,
    output: JsonOutput = Path("tasks.json"),
    pseudonyms: Pseudonyms = None,
) -> None:
    """Write down where every task may run, and in which groups."""
    from wastedcores.capture.snapshot import write_snapshot
    from wastedcores.cli._output import check_writable, print_next

    check_writable(output)

    tasks, code = write_snapshot(output, pseudonyms, run)
    print(f"{output}: {tasks:,} tasks")
    print_next(
        f"wastedcores check TRACE --snapshot {shlex.quote(str(output))}",
        "with the affinity of its tasks",
    )
    raise Exit(code if code >= 0 else 128 - code)
