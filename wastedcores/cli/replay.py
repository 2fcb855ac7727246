"""``wastedcores replay``: run a scenario under a kernel's scheduler."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import (
    AsJson,
    MachineName,
    RefillUs,
    ScenarioName,
    Seed,
    Settings,
    Until,
    refuse_unused,
    settings,
    until_ns,
)
from wastedcores.cli._output import EXIT_OF, check_writable, given_again, print_next
from wastedcores.units import result_words

if TYPE_CHECKING:
    from wastedcores.simulator import Replay
    from wastedcores.workload.scenarios import Scenario

_EXIT_CODES = (
    "0 clean, 1 the replay violates the invariant persistently or chronically, 2 bad use or input, 3 unknown because the "
    "replay is too short."
)


@app.command(
    epilog=epilog(
        "replay group-imbalance --set jobs=500",
        "replay recorded-gc --kernel v4.1+group_construction:patch",
        "replay overload-on-wakeup --kernel core+cache_affinity+power",
        "replay rt-app.json --machine live --until 5",
        "replay missing-domains --seed 7 -o trace.parquet --json",
        "replay group-imbalance --decisions -o trace.parquet",
        exit_codes=_EXIT_CODES,
    )
)
def replay(
    ctx: typer.Context,
    scenario: ScenarioName,
    kernel: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="A kernel, with fixes (v4.1+all_fixes), or a design (core+power). Default: the scenario's own, mostly v4.1.",
        ),
    ] = None,
    machine: MachineName = None,
    seed: Seed = 1,
    set_: Settings = None,
    until: Until = None,
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="FILE", help="Write the trace here, as Parquet."),
    ] = None,
    decisions: Annotated[
        bool,
        Option(
            "--decisions",
            help="Trace every call of the load balancer: what it saw and why it gave up.",
        ),
    ] = False,
    refill_us: RefillUs = 0,
    as_json: AsJson = False,
) -> None:
    """Replay a scenario under a kernel's scheduler."""
    from wastedcores.cli._input import resolve_replay
    from wastedcores.invariant import check
    from wastedcores.simulator import replay_scenario
    from wastedcores.trace.parquet import write_parquet
    from wastedcores.workload.scenarios import scenario as find

    given, end_ns = settings(set_), until_ns(until)
    found_scenario = find(scenario)
    kernel = found_scenario.kernel if kernel is None else kernel
    if output is None:
        refuse_unused(ctx, ("decisions",), "decisions are in the trace, which -o writes")
    else:
        check_writable(output)
    _, on = resolve_replay(scenario, [kernel], machine, seed, given)
    print(f"replaying {scenario} under {kernel} ...", file=sys.stderr)
    result = replay_scenario(
        scenario, kernel, on, seed, given, end_ns, decisions=decisions, refill_ns=1000 * refill_us
    )
    for note in result.notes:
        print(f"wastedcores: note: {note}", file=sys.stderr)
    if not as_json:
        _print(result)  # printed before the check, which may have to be compiled first
    found = check(result.trace)
    if output is not None:
        write_parquet(result.trace, output)
        print(f"wrote {output}", file=sys.stderr)
    if as_json:
        print(json.dumps(result.to_json() | {"invariant": found.to_json()}))
    else:
        kind = "" if found.kind == "none" else f" ({found.kind})"
        print(f"  invariant    {found.verdict}{kind}")
        for reason in found.notes if found.verdict == "unknown" else ():
            print(f"               {reason}")
        if result.to_json()["idle_while_overloaded"] and not found.wall_ns:
            print("               no waiting thread was allowed to run on an idle CPU")
        print_next(*_next(found_scenario, kernel, given_again(machine, set_), output))
    raise typer.Exit(EXIT_OF[found.verdict])


def _next(
    scenario: Scenario, kernel: str, given: str, written: Path | None = None
) -> tuple[str, str]:
    """Return the command that is useful next, and its purpose."""
    if written is not None:
        return f"wastedcores report {shlex.quote(str(written))}", "a page about this replay"
    fixed = f"{scenario.kernel}+{scenario.fix}"
    if not scenario.fix or kernel.partition("+")[0] not in (scenario.kernel, "core"):
        again = f"{scenario.name} --kernel {kernel}{given} -o trace.parquet"
        return f"wastedcores replay {again}", "then: wastedcores report trace.parquet"
    other = scenario.kernel if kernel == fixed else kernel
    return (
        f"wastedcores compare {scenario.name}{given} --kernel {other} --kernel {fixed}",
        "what the bug costs and the fix gains",
    )


def _print(result: Replay) -> None:
    data = result.to_json()
    print(f"{data['scenario']} under {data['kernel']} on {data['machine']}, seed {data['seed']}")
    print(f"  window       {data['makespan_ns'] / 1e9:.3f} s")
    if data["result"]:
        value = data["result"]["value"]
        shown = "not finished in this time" if value is None else f"{value:.4f}"
        print(f"  {result_words(data['result']['name']):<12} {shown}")
    print(f"  busy CPUs    {data['busy_cpus']:.1f}")
    print("  by node      " + " ".join(f"{b:.1f}" for b in data["busy_per_node"]))
    share = 100 * data["idle_while_overloaded"]
    print(f"  a CPU was idle while another was overloaded for {share:.1f} % of the window")
    for row in data["suggestions"]:
        if row["silent"] < row["asked"]:
            made = row["asked"] - row["silent"]
            print(
                f"  {row['module']}: {row['moment']}, {made} suggestions, {row['refused']} refused"
            )
    print(f"  {data['events']} engine events in {data['wall_s']:.2f} s", flush=True)
