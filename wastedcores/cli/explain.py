"""``wastedcores explain``: what kept CPUs idle."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import (
    AsJson,
    Between,
    Cpus,
    HotplugCommand,
    IgnoreAffinity,
    Offline,
    Online,
    Persist,
    TraceInput,
    Whole,
    hotplug_steps,
)
from wastedcores.cli._output import print_json, wrapped
from wastedcores.units import duration_ns

_NOTES = """A recording may name the window and the CPUs of its workload; only these are explained unless --whole, --between
or --cpus is given. With --offline and --online say which CPUs were taken offline and brought back before the trace
began; the order in which they are typed counts."""


@app.command(
    cls=HotplugCommand,
    epilog=epilog(
        "explain group-construction-buggy --cpus 8-23",
        "explain trace.txt.xz --machine bulldozer8x8 --kernel v4.1",
        "explain missing.parquet --kernel v4.1 --offline 20 --online 20 --json",
        notes=_NOTES,
    ),
)
def explain(
    ctx: typer.Context,
    trace: TraceInput,
    machine: Annotated[
        str | None, Option(metavar="NAME|FILE|live", help="The machine. Default: the trace's own.")
    ] = None,
    kernel: Annotated[
        str | None,
        Option(metavar="NAME", help="The kernel, such as v4.1. Default: the trace's own."),
    ] = None,
    offline: Offline = None,
    online: Online = None,
    cpus: Cpus = None,
    between: Between = None,
    whole: Whole = False,
    persist: Persist = "100ms",
    ignore_affinity: IgnoreAffinity = False,
    as_json: AsJson = False,
) -> None:
    """Explain why CPUs stayed idle, and name the likely bug."""
    from wastedcores.analysis.explain import explain as run_explain
    from wastedcores.cli._input import open_input
    from wastedcores.invariant import check
    from wastedcores.topology.cpulist import parse_cpulist
    from wastedcores.topology.machine import Machine
    from wastedcores.topology.source import find_machine
    from wastedcores.words.cause import fix_sentences

    opened = open_input(trace)
    on = find_machine(machine).machine if machine else None
    steps = hotplug_steps(ctx)
    if steps and on is None and opened.header.machine:
        on = Machine.from_dict(opened.header.machine)
    if steps and on is not None:
        on = on.after(steps)
    result = check(
        opened,
        persist_ns=duration_ns(persist, "--persist"),
        cpus=None if cpus is None else parse_cpulist(cpus),
        between=between,
        whole=whole,
        ignore_affinity=ignore_affinity,
    )
    found = run_explain(result, on, kernel)
    if as_json:
        print_json(found.to_json())
        return
    print(f"{opened.name}: looks like {found.looks_like.upper()}")
    print(f"  machine {found.machine.name}, kernel {found.kernel.name}\n")
    for line in found.evidence:
        print(wrapped(line, "  - ", "    "))
    if conclusions := fix_sentences(found):
        print()
    for line in conclusions:
        print(wrapped(line, "  - ", "    "))
