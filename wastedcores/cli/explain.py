"""``wastedcores explain``: what kept CPUs idle."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._groups import Counted, Told, with_groups
from wastedcores.cli._options import (
    AsJson,
    HotplugCommand,
    IgnoreAffinity,
    Offline,
    Online,
    Persist,
    TraceInput,
    hotplug_steps,
    refuse_unused,
)
from wastedcores.cli._output import print_json, print_next, wrapped
from wastedcores.units import duration_ns

if TYPE_CHECKING:
    from wastedcores.analysis.explain import Explanation
    from wastedcores.prediction import Advice

_NOTES = """With --seeds 5, the cause is tested: the work that the trace shows is replayed under the recorded kernel, and under
this kernel with each fix that it lacks, as in `wastedcores whatif`. Fixes that pay are proposed, and a cause is withdrawn if its
fix gains nothing. This takes some seconds or minutes, so it is done only on request. A recording may name the window and the CPUs
of its workload; only these are explained unless --whole, --between or --cpus is given. Use --offline and --online to name CPUs
that were taken offline and brought back before the trace began, in the order in which this happened."""


@app.command(
    cls=HotplugCommand,
    epilog=epilog(
        "explain group-construction-buggy --cpus 8-23",
        "explain group-construction-buggy --seeds 5",
        "explain trace.txt.xz --machine bulldozer8x8 --kernel v4.1",
        "explain missing.parquet --kernel v4.1 --offline 20 --online 20 --json",
        notes=_NOTES,
    ),
)
@with_groups
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
    counted: Counted = Counted(),
    persist: Persist = "100ms",
    ignore_affinity: IgnoreAffinity = False,
    told: Told = Told(),
    seeds: Annotated[
        int,
        Option(
            metavar="N",
            min=0,
            help="Test the cause and propose fixes with N replays of each kernel, such as 5; 0: no replays.",
        ),
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Explain why CPUs stayed idle, and propose fixes on request."""
    from wastedcores.analysis.examined import examine
    from wastedcores.analysis.explain import explain as run_explain
    from wastedcores.cli._input import kernel_of, open_input, recorded_machine
    from wastedcores.cpulist import parse_cpulist
    from wastedcores.words.cause import fix_sentences, price_sentences
    from wastedcores.words.steps import next_after_explaining

    if not seeds:
        refuse_unused(ctx, ("session",), "only the replays of --seeds have sessions")
    opened = open_input(trace, snapshot=told.snapshot)
    on = recorded_machine(opened, machine, hotplug_steps(ctx))
    ran = kernel_of(opened, kernel, machine)
    cpus = None if counted.cpus is None else parse_cpulist(counted.cpus)
    run = examine(
        opened,
        persist_ns=duration_ns(persist, "--persist"),
        cpus=cpus,
        between=counted.between,
        whole=counted.whole,
        ignore_affinity=ignore_affinity,
    )
    found = run_explain(run.result, on, ran, rq=run.runqueues)
    advice = None
    if seeds:
        from wastedcores.prediction import advise, weigh

        advice = advise(
            opened.with_header(window=None, counted_cpus=None) if counted.whole else opened,
            machine=found.machine,
            kernel=ran,
            between=counted.between,
            cpus=cpus,
            sessions=told.session or (),
            seeds=seeds,
            progress=sys.stderr.isatty(),
        )
        found = weigh(found, advice)
    if as_json:
        proposed = advice.to_json() if advice else {"proposals": None, "prediction": None}
        print_json(found.to_json() | proposed)
        return
    from wastedcores.kernels import FIXES
    from wastedcores.words.cause import NAMES

    verb = "the cause is" if found.looks_like == "unknown" else "looks like"
    said = f"{verb} {found.looks_like.upper()}" if found.looks_like != "nothing" else "NO WASTE"
    print(f"{opened.name}: {said}")
    if found.looks_like not in FIXES:  # these causes are not bugs of the paper
        print(wrapped(f"that is, {NAMES[found.looks_like]}", "  ", "  "))
    print(f"  machine {found.machine.name}, kernel {found.kernel.name}\n")
    for line in [*found.evidence, *price_sentences(found.price)]:
        print(wrapped(line, "  - ", "    "))
    measured = advice is not None and advice.found is not None
    if conclusions := [] if measured else fix_sentences(found):
        print()
    for line in conclusions:
        print(wrapped(line, "  - ", "    "))
    if advice is not None:
        _propose(advice)
    else:
        print(f"\n{wrapped(_not_computed(found), '  ', '  ')}")
    print_next(*next_after_explaining(found, opened, str(trace)), ctx)


def _not_computed(found: Explanation) -> str:
    """Say what an explanation without replays does not tell, and which option computes this."""
    from wastedcores.kernels import FIXES

    gains = "what each fix would gain" if found.replayed else "what any scheduler would gain"
    if found.looks_like in FIXES:
        return (
            f"Replays have not tested this cause, and {gains} was not computed. Repeat the command with --seeds 5 for "
            "both."
        )
    return f"Replays did not compute {gains}. Repeat the command with --seeds 5 for this."


def _propose(advice: Advice) -> None:
    """Print the fixes that pay, the most that any scheduler could gain, and how far to trust these numbers."""
    print()
    verb, unit = ("save", "of the time") if advice.in_time else ("keep", "more CPUs busy")
    for p in advice.proposals:
        low, high = f"{100 * p.gain.low:.0f}", f"{100 * p.gain.high:.0f}"
        print(f"  {p.fix:<20} would {verb} {100 * p.gain.median:.0f} % {unit} ({low} to {high})")
    if not advice.proposals:
        print("  No fix is proposed.")
    if advice.bound is not None:
        print(
            f"  any scheduler        would {verb} at most about {100 * max(advice.bound.median, 0):.0f} % {unit}"
        )
    if advice.found is not None:
        print(f"  trust                {advice.found.trust}")
    for reason in advice.reasons:
        print(wrapped(f"{reason}.", "  - ", "    "))
