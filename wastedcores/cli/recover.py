"""``wastedcores recover``: the work of a trace as a workload that can be replayed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from typer import Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import (
    AsJson,
    Between,
    JsonOutput,
    Sessions,
    SnapshotSource,
    TraceInput,
)
from wastedcores.cli._output import check_writable, print_json, print_next, wrapped

_NOTES = """The workload has the CPU time of every task between waking and sleeping, and how tasks wait for each other: for
children, at barriers, for locks and messages, for timers and devices. It can be edited and replayed. No event of the scheduler
tells to which session or control group a task belongs: this comes from the recording itself, from --snapshot, or from
--session."""


@app.command(
    epilog=epilog(
        "recover overload-on-wakeup-buggy -o workload.json",
        "recover trace.txt.xz --session R- --session make -o workload.json",
        "recover kernel-build --family make -o build.json",
        notes=_NOTES,
    )
)
def recover(
    trace: TraceInput,
    output: JsonOutput = Path("workload.json"),
    between: Between = None,
    session: Sessions = None,
    snapshot: SnapshotSource = None,
    family: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Recover only the first task of this name and all tasks that it forked, directly or indirectly.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recover the work of a trace as a workload to replay."""
    from wastedcores.cli._input import open_input
    from wastedcores.recovery import recover as run_recover
    from wastedcores.recovery.facts import family_of
    from wastedcores.trace.window import asked
    from wastedcores.workload.file import write_workload

    check_writable(output)
    opened = open_input(trace, snapshot=snapshot)
    if family:
        opened = family_of(opened, family)
    window, _ = asked(opened, between, None)
    found = run_recover(opened.with_header(window=window), sessions=session or ())
    write_workload(found.workload, output)
    if as_json:
        print_json(
            {"schema": "wastedcores.recovered/1"}
            | found.counts()
            | {"notes": list(found.notes), "workload": str(output)}
        )
        return
    print(f"{output}: {found.tasks:,} tasks with {found.sleeps:,} sleeps")
    for name, n in sorted(found.classes.items(), key=lambda item: -item[1]):
        print(f"  {n:>9,}  {name}")
    for note in found.notes:
        print(wrapped(f"{note}.", "  - ", "    "))
    print_next(f"wastedcores replay {shlex.quote(str(output))}", "run this work under any kernel")
