"""``wastedcores explain``: what kept CPUs idle."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from wastedcores.cli._output import print_json, print_next, wrapped
from wastedcores.cli._verb import Counted, HotplugCommand, Told, hotplug_steps, verb
from wastedcores.units import duration_ns

if TYPE_CHECKING:
    from wastedcores.analysis.explain import Explanation
    from wastedcores.prediction import Advice

_NOTES = """With --seeds 5, replays of the work that the trace shows test the cause: they run under the recorded kernel and
with each fix that it lacks, as in `wastedcores whatif`. Fixes that pay are proposed, and a cause whose fix gains nothing is
withdrawn. This takes some seconds or minutes, so it is done only on request. A recording may name the window and the CPUs of
its workload; only these are explained unless --whole, --between or --cpus is given. With --offline and --online say which
CPUs were taken offline and brought back before the trace began; the order in which they are typed counts."""


@verb(
    "explain group-construction-buggy --cpus 8-23",
    "explain group-construction-buggy --seeds 5",
    "explain trace.txt.xz --machine bulldozer8x8 --kernel v4.1",
    "explain missing.parquet --kernel v4.1 --offline 20 --online 20 --json",
    cls=HotplugCommand,
    notes=_NOTES,
    options="""
    machine  NAME|FILE|live  The machine. Default: the trace's own.
    kernel   NAME            The kernel, such as v4.1. Default: the trace's own.
    seeds    min=0 N         Test the cause and propose fixes with N replays of each kernel, such as 5; 0: no replays.
    """,
)
def explain(
    ctx: typer.Context,
    trace: Path,
    machine: str | None = None,
    kernel: str | None = None,
    offline: list[str] | None = None,
    online: list[str] | None = None,
    counted: Counted = Counted(),
    persist: str = "100ms",
    ignore_affinity: bool = False,
    told: Told = Told(),
    seeds: int = 0,
    as_json: bool = False,
) -> None:
    """Explain why CPUs stayed idle, and propose fixes on request."""
    from wastedcores.analysis.explain import explain as run_explain
    from wastedcores.cli._input import kernel_of, open_input, recorded_machine
    from wastedcores.cpulist import parse_cpulist
    from wastedcores.invariant import check
    from wastedcores.words.cause import fix_sentences
    from wastedcores.words.steps import next_after_explaining

    opened = open_input(trace)
    if (
        told.snapshot and opened.header.tasks is None
    ):  # the verdict needs to know where threads may run
        opened = open_input(trace, snapshot=told.snapshot)
    on = recorded_machine(opened, machine, hotplug_steps(ctx))
    ran = kernel_of(opened, kernel, machine)
    cpus = None if counted.cpus is None else parse_cpulist(counted.cpus)
    result = check(
        opened,
        persist_ns=duration_ns(persist, "--persist"),
        cpus=cpus,
        between=counted.between,
        whole=counted.whole,
        ignore_affinity=ignore_affinity,
    )
    tasks = None
    if told.snapshot:
        from wastedcores.capture.snapshot import read_snapshot

        tasks = read_snapshot(told.snapshot).tasks
    found = run_explain(result, on, ran, tasks)
    advice = None
    if seeds:
        from wastedcores.prediction import advise, weigh

        advice = advise(
            opened.with_header(window=None) if counted.whole else opened,
            machine=found.machine,
            kernel=ran,
            between=counted.between,
            cpus=cpus,
            tasks=tasks,
            sessions=told.session or (),
            seeds=seeds,
            progress=sys.stderr.isatty(),
        )
        found = weigh(found, advice)
    if as_json:
        print_json(found.to_json() | (advice.to_json() if advice else {"proposals": None}))
        return
    from wastedcores.kernels import FIXES
    from wastedcores.words.cause import NAMES

    verb = "the cause is" if found.looks_like == "unknown" else "looks like"
    said = f"{verb} {found.looks_like.upper()}" if found.looks_like != "nothing" else "NO WASTE"
    print(f"{opened.name}: {said}")
    if found.looks_like not in FIXES:  # these names are not the paper's
        print(wrapped(f"that is, {NAMES[found.looks_like]}", "  ", "  "))
    print(f"  machine {found.machine.name}, kernel {found.kernel.name}\n")
    for line in found.evidence:
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
    given = (("machine", machine), ("kernel", kernel))
    placed = "".join(f" --{option} {shlex.quote(value)}" for option, value in given if value)
    print_next(*next_after_explaining(found, opened, str(trace), placed))


def _not_computed(found: Explanation) -> str:
    """Say what an explanation without replays leaves out, and which option computes it."""
    from wastedcores.kernels import FIXES

    gains = "what each fix would gain" if found.replayed else "what any scheduler would gain"
    if found.looks_like in FIXES:
        return (
            f"Replays have not tested this cause, and {gains} was not computed. Repeat the command with --seeds 5 for "
            "both."
        )
    return f"Replays did not compute {gains}. Repeat the command with --seeds 5 for this."


def _propose(advice: Advice) -> None:
    """Print the fixes that pay, the most that any scheduler could gain, and how far to trust both."""
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
