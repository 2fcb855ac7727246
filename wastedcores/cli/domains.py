"""``wastedcores domains``: sched_domains and groups of any machine under any kernel, and the topology linter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from wastedcores.cli._app import app
from wastedcores.cli._options import print_json

if TYPE_CHECKING:
    from wastedcores.topology.domains import Domains
    from wastedcores.topology.lint import LintResult

_EPILOG = """Examples:

  wastedcores domains --machine bulldozer8x8 --kernel v4.1 --cpu 16

  wastedcores domains --machine bulldozer8x8 --kernel v4.1 --lint --pin 8-23

  wastedcores domains --machine bulldozer8x8 --offline 20 --online 20 --lint

  wastedcores domains --machine live --json

Exit code: 0 fine, 1 the linter found pairs, 2 bad use or input.
"""


class _Ordered(typer.core.TyperCommand):
    """Keeps the order of --offline and --online among each other, which click gives away."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        steps = []
        for word, following in zip(args, [*args[1:], ""], strict=False):
            option, given, value = word.partition("=")
            if option in ("--offline", "--online"):
                steps.append((option[2:], value if given else following))
        ctx.meta["steps"] = steps
        return super().parse_args(ctx, args)


@app.command(cls=_Ordered, epilog=_EPILOG)
def domains(
    ctx: typer.Context,
    machine: Annotated[
        str, typer.Option(metavar="NAME|FILE|live", help="Preset, description, trace, or this one")
    ] = "live",
    kernel: Annotated[
        str | None, typer.Option(metavar="NAME", help="v4.1, v4.1+group_construction, v6.1, ...")
    ] = None,
    sched_debug: Annotated[
        bool | None,
        typer.Option("--sched-debug/--no-sched-debug", help="Booted with sched_debug (4.x)"),
    ] = None,
    offline: Annotated[
        list[str] | None, typer.Option(metavar="N", help="Then take CPU N offline; may repeat")
    ] = None,
    online: Annotated[
        list[str] | None, typer.Option(metavar="N", help="Then bring CPU N back; may repeat")
    ] = None,
    cpu: Annotated[str | None, typer.Option(metavar="LIST", help="Show these CPUs only")] = None,
    pin: Annotated[
        str | None, typer.Option(metavar="LIST", help="Lint for tasks that may run on these only")
    ] = None,
    run_lint: Annotated[
        bool, typer.Option("--lint", help="Which CPUs can never help each other?")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for machines")] = False,
) -> Any:
    """Show the domains and groups a kernel builds, and who can help."""
    from wastedcores.errors import UsageError
    from wastedcores.topology.domains import domain_events
    from wastedcores.topology.lint import lint
    from wastedcores.topology.source import find_machine

    if pin is not None and not run_lint:
        raise UsageError("--pin says what --lint checks; give --lint too")
    source = find_machine(machine)
    model = source.model(kernel, sched_debug)
    events = domain_events(source.machine.after(_steps(ctx)), model)
    shown = _cpus(cpu, "--cpu", source.machine.cpus)
    found = lint(events[-1], _cpus(pin, "--pin", source.machine.cpus)) if run_lint else None
    if as_json:
        name = kernel or source.kernel
        print_json(_json(name, source.machine.cpus, events, shown, found))
    else:
        print(_text(events, shown, found))
        if machine == "live" and not run_lint:
            print(_compare(events[0]))
    raise typer.Exit(1 if found and found.blocked else 0)


def _steps(ctx: typer.Context) -> list[tuple[str, int]]:
    from wastedcores.topology.cpulist import parse_cpulist

    return [
        (what, cpu) for what, text in ctx.meta["steps"] for cpu in parse_cpulist(text, f"--{what}")
    ]


def _cpus(text: str | None, option: str, count: int) -> list[int] | None:
    if text is None:
        return None
    from wastedcores.errors import UsageError
    from wastedcores.topology.cpulist import parse_cpulist

    cpus = parse_cpulist(text, option)
    if not cpus or cpus[-1] >= count:
        raise UsageError(f"{option} {text!r}: the machine has CPUs 0-{count - 1}")
    return cpus


def _json(
    kernel: str,
    cpus: int,
    events: list[Domains],
    shown: list[int] | None,
    found: LintResult | None,
) -> dict[str, Any]:
    out: dict[str, Any] = {"kernel": kernel, "cpus": cpus}
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


def _compare(boot: Domains) -> str:
    """One line: does the running kernel show the same domains?"""
    from wastedcores.topology.sysfs import compare_live

    return compare_live(boot)
