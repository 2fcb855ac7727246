"""``wastedcores explain``: what kept CPUs idle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from wastedcores.cli._app import app
from wastedcores.cli._options import print_json

_EPILOG = """Examples:

  wastedcores explain group-construction-buggy --cpus 8-23

  wastedcores explain trace.txt.xz --machine bulldozer8x8 --kernel v4.1

  wastedcores explain missing.parquet --kernel v4.1 --offline 20 --online 20 --json
"""


@app.command(epilog=_EPILOG)
def explain(
    trace: Annotated[Path, typer.Argument(help="Trace file, or a data set by name")],
    machine: Annotated[
        str | None, typer.Option(help="Preset, FILE or live; default: the trace's own")
    ] = None,
    kernel: Annotated[str | None, typer.Option(help="e.g. v4.1; default: the trace's own")] = None,
    offline: Annotated[
        list[int] | None, typer.Option(help="A CPU was taken offline before the trace")
    ] = None,
    online: Annotated[list[int] | None, typer.Option(help="... and came back")] = None,
    cpus: Annotated[str | None, typer.Option(help="Count these CPUs only, e.g. 8-23,40")] = None,
    between: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="START END", help="Window: beginnings of two marks, or two times"),
    ] = None,
    persist: Annotated[str, typer.Option(help="M: an episode this long is persistent")] = "100ms",
    ignore_affinity: Annotated[bool, typer.Option("--ignore-affinity")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for machines")] = False,
) -> Any:
    """Why CPUs stayed idle: domains, how overload began, which bug."""
    from wastedcores.analysis.explain import explain as run_explain
    from wastedcores.cli._open import open_input
    from wastedcores.invariant import check
    from wastedcores.topology.cpulist import parse_cpulist
    from wastedcores.topology.machine import Machine
    from wastedcores.topology.source import find_machine
    from wastedcores.units import duration_ns

    opened = open_input(trace)
    where = find_machine(machine).machine if machine else None
    if offline or online:
        if where is None and opened.header.machine:
            where = Machine.from_dict(opened.header.machine)
        if where is not None:
            where = where.after(
                [("offline", c) for c in offline or []] + [("online", c) for c in online or []]
            )
    # a recording that names its measured window and the CPUs its workload may use is explained there
    window, named = opened.header.measured
    between, cpus = between or window, cpus or named
    result = check(
        opened,
        persist_ns=duration_ns(persist, "--persist"),
        cpus=None if cpus is None else list(parse_cpulist(cpus)),
        between=between,
        ignore_affinity=ignore_affinity,
    )
    found = run_explain(result, where, kernel)
    if as_json:
        print_json(found.to_json())
        return
    print(f"{opened.name}: looks like {found.looks_like.upper()}")
    print(f"  machine {found.machine.name}, kernel {found.kernel.name}\n")
    for line in found.evidence:
        print(_wrap(line))
    if found.fix:
        print("\n" + _wrap(f"fix: {found.fix}"))
    if found.cured_share is not None:
        print(
            _wrap(
                f"with it the idle CPU could have pulled in {100 * found.cured_share:.0f} % of that time"
            )
        )


def _wrap(text: str) -> str:
    import textwrap

    return textwrap.fill(text, 78, initial_indent="  - ", subsequent_indent="    ")
