"""``wastedcores domains``: the sched_domains and groups of any machine under any kernel, and the topology linter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import (
    AsJson,
    HotplugCommand,
    Offline,
    Online,
    hotplug_steps,
    refuse_unused,
)
from wastedcores.cli._output import print_json, wrapped

if TYPE_CHECKING:
    from wastedcores.topology.domains import Domains
    from wastedcores.topology.lint import LintResult
    from wastedcores.topology.machine import Machine

_NOTES = """--offline and --online happen in the order in which they are typed, and the domains are shown after each."""
_EXIT_CODES = "0 fine, 1 the linter found pairs of CPUs, 2 bad use or input."


@app.command(
    cls=HotplugCommand,
    epilog=epilog(
        "domains --machine bulldozer8x8 --kernel v4.1 --cpu 16",
        "domains --machine bulldozer8x8 --kernel v4.1 --lint --pin 8-23",
        "domains --machine bulldozer8x8 --offline 20 --online 20 --lint",
        "domains --machine live --json",
        notes=_NOTES,
        exit_codes=_EXIT_CODES,
    ),
)
def domains(
    ctx: typer.Context,
    machine: Annotated[
        str,
        Option(
            metavar="NAME|FILE|live",
            help="A preset, a file that describes a machine, a trace, or this machine.",
        ),
    ] = "live",
    kernel: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="The kernel: v4.1, v4.1+group_construction, v6.1, ... Default: the machine's own, and v4.1 for presets.",
        ),
    ] = None,
    sched_debug: Annotated[
        bool | None,
        Option(
            "--sched-debug/--no-sched-debug", help="The kernel was booted with sched_debug (4.x)."
        ),
    ] = None,
    offline: Offline = None,
    online: Online = None,
    cpu: Annotated[
        str | None, Option(metavar="LIST", help="Show only the domains of these CPUs.")
    ] = None,
    pin: Annotated[
        str | None,
        Option(metavar="LIST", help="With --lint: consider tasks that may run on these CPUs only."),
    ] = None,
    run_lint: Annotated[
        bool, Option("--lint", help="Find CPUs that can never take load from each other.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the domains and groups that a kernel builds."""
    from wastedcores.errors import UsageError
    from wastedcores.topology.domains import domain_events
    from wastedcores.topology.lint import lint
    from wastedcores.topology.source import find_machine
    from wastedcores.topology.sysfs import compare_live

    if pin is not None and not run_lint:
        raise UsageError("--pin says which CPUs --lint checks; give --lint too.")
    if run_lint:
        refuse_unused(ctx, ("cpu",), "--lint shows no domains; --pin says which CPUs it checks")
    source = find_machine(machine)
    model, note = source.model_and_note(kernel, sched_debug)
    events = domain_events(source.machine.after(hotplug_steps(ctx)), model)
    shown = _cpus(cpu, "--cpu", source.machine.cpus)
    found = lint(events[-1], _cpus(pin, "--pin", source.machine.cpus)) if run_lint else None
    if as_json:
        name = kernel or source.kernel or source.default
        marked = {} if note is None else {"note": note, "model": model.name}
        print_json(_json(name, source.machine, events, shown, found) | marked)
    else:
        print(_text(events, shown, found))
        if note is not None:
            print(wrapped(f"{note}.", "NOTE: ", "      "))
        if machine == "live" and not run_lint:
            print(compare_live(events[0]))
    raise typer.Exit(1 if found and found.blocked else 0)


def _cpus(text: str | None, option: str, count: int) -> list[int] | None:
    if text is None:
        return None
    from wastedcores.cpulist import parse_cpulist
    from wastedcores.errors import UsageError

    cpus = parse_cpulist(text, option)
    if not cpus or cpus[-1] >= count:
        raise UsageError(f"{option} {text!r}: the machine has CPUs 0-{count - 1}.")
    return cpus


def _json(
    kernel: str | None,
    machine: Machine,
    events: list[Domains],
    shown: list[int] | None,
    found: LintResult | None,
) -> dict[str, Any]:
    out: dict[str, Any] = {
        "schema": "wastedcores.domains/1",
        "kernel": kernel,
        **({"sched_debug": True} if events[0].kernel.sched_debug else {}),
        "cpus": machine.cpus,
        "machine": machine.to_dict(),
    }
    if found is not None:
        return out | {"lint": found.to_dict()}
    keep = None if shown is None else {str(c) for c in shown}
    out["events"] = [
        {
            "when": e.when,
            "domains": {c: d for c, d in e.to_dict().items() if keep is None or c in keep},
        }
        for e in events
    ]
    return out


def _text(events: list[Domains], shown: list[int] | None, found: LintResult | None) -> str:
    from wastedcores.topology.text import describe_domains, describe_lint

    first = events[0]
    head = f"{first.machine.name}, kernel {first.kernel.name}"
    if first.kernel.sched_debug:
        head += ", sched_debug"
    if found is not None:
        return f"{head}\n{describe_lint(found)}"
    return "\n".join([head, *(describe_domains(e, shown) for e in events)])
