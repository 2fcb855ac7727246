"""``wastedcores replay``: run a scenario under a kernel's scheduler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from wastedcores.cli._app import app

EPILOG = """Examples:

  wastedcores replay group-imbalance --set jobs=500

  wastedcores replay recorded-gc --kernel v4.1+group_construction:patch

  wastedcores replay overload-on-wakeup --kernel core+cache_affinity+power

  wastedcores replay rt-app.json --machine live --until 5

  wastedcores replay missing-domains --seed 7 -o trace.parquet --json
"""


@app.command(epilog=EPILOG)
def replay(
    scenario: Annotated[
        str, typer.Argument(help="Name (see `wastedcores scenarios`), or an rt-app .json.")
    ],
    kernel: Annotated[
        str, typer.Option(help="Linux with fixes (v4.1+all_fixes), or a design (core+power).")
    ] = "v4.1",
    machine: Annotated[
        str | None, typer.Option(metavar="NAME|FILE|live", help="Default: the scenario's own.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of every random draw.", min=0)] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a parameter: --set jobs=500."),
    ] = None,
    until: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Stop after so much simulated time."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write the trace (Parquet) here."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
) -> None:
    """Replay a scenario; exit 1 if the invariant was broken for long."""
    from wastedcores.cli._plan import check_writable, planned, settings_of, until_of
    from wastedcores.invariant import check
    from wastedcores.simulator import replay_scenario
    from wastedcores.trace.parquet import write_parquet

    given = settings_of(settings)
    until_ns = until_of(until)
    if output is not None:
        check_writable(output)
    _, on = planned(scenario, [kernel], machine, seed, given)
    typer.echo(f"replaying {scenario} under {kernel} ...", err=True)
    r = replay_scenario(scenario, kernel, on, seed, given, until_ns)
    for note in r.notes:
        typer.echo(f"wastedcores: note: {note}", err=True)
    found = check(r.trace)
    if output is not None:
        write_parquet(r.trace, output)
        typer.echo(f"wrote {output}", err=True)
    if as_json:
        typer.echo(json.dumps(r.to_json() | {"invariant": found.to_json()}))
    else:
        _print(r, found)
    raise typer.Exit(1 if found.verdict == "violations" else 0)


def _print(r: object, found: object) -> None:
    data = r.to_json()  # type: ignore[attr-defined]
    typer.echo(
        f"{data['scenario']} under {data['kernel']} on {data['machine']}, seed {data['seed']}"
    )
    typer.echo(f"  window       {data['makespan_ns'] / 1e9:.3f} s")
    if data["result"]:
        value = data["result"]["value"]
        said = "not finished in this time" if value is None else f"{value:.4f}"
        typer.echo(f"  {data['result']['name']:<12} {said}")
    typer.echo(f"  busy CPUs    {data['busy_cpus']:.1f}")
    typer.echo("  by node      " + " ".join(f"{b:.1f}" for b in data["busy_per_node"]))
    typer.echo(
        f"  idle while another overloaded  {100 * data['idle_while_overloaded']:.1f} % of the window"
    )
    typer.echo(f"  invariant    {found.verdict}")  # type: ignore[attr-defined]
    for row in data["suggestions"]:
        if row["silent"] < row["asked"]:
            made = row["asked"] - row["silent"]
            typer.echo(
                f"  {row['module']}: {row['moment']}, {made} suggestions, {row['refused']} refused"
            )
    typer.echo(f"  {data['events']} engine events in {data['wall_s']:.2f} s")
