"""``wastedcores compare``: one scenario under several kernels."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wastedcores.cli._app import app

if TYPE_CHECKING:
    from wastedcores.analysis.compare import Comparison

_EPILOG = """Examples:

  wastedcores compare missing-domains --kernel v4.1 --kernel v4.1+missing_domains

  wastedcores compare group-imbalance --set jobs=500 --json

  wastedcores compare spmd --kernel v4.1 --kernel v4.1+all_fixes -o cost.html

  wastedcores compare overload-on-wakeup --kernel v4.1 --kernel core+wakeup_v4_1

The first kernel is what the others are measured against. Without --kernel: v4.1 and v4.1 with the scenario's fix.
"""


class Kind(StrEnum):
    """What to draw."""

    costs = "costs"
    calls = "calls"


_ROWS = (
    ("makespan_s", "makespan", "{:.3f} s"),
    ("result", "result", "{:.4g}"),
    ("busy_cpus", "busy CPUs", "{:.1f}"),
    ("wasted_s", "idle while a thread waited", "{:.3f} s"),
    ("wasted_core_s", "core time wasted", "{:.3f} s"),
    ("persistent_episodes", "persistent episodes", "{:d}"),
    ("wait_p50_ms", "wait, median", "{:.3f} ms"),
    ("wait_p99_ms", "wait, 99 %", "{:.3f} ms"),
    ("wait_max_ms", "wait, longest", "{:.3f} ms"),
    ("migrations", "migrations", "{:d}"),
    ("refused_suggestions", "refused suggestions", "{:d}"),
)


@app.command(epilog=_EPILOG)
def compare(
    scenario: Annotated[
        str, typer.Argument(help="Name (see `wastedcores scenarios`), or an rt-app .json.")
    ],
    kernel: Annotated[
        list[str] | None, typer.Option(help="Linux with fixes; give it twice or more.")
    ] = None,
    machine: Annotated[
        str | None, typer.Option(metavar="NAME|FILE|live", help="Default: the scenario's own.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of every random draw.", min=0)] = 1,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change a parameter: --set jobs=500.")
    ] = None,
    persist: Annotated[str, typer.Option(help="M: an episode this long is persistent")] = "100ms",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for machines")] = False,
    until: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Stop after so much simulated time.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Draw it: .html, .json or .png")
    ] = None,
    kind: Annotated[
        Kind, typer.Option(help="Draw the costs, or the load_balance() calls")
    ] = Kind.costs,
) -> Any:
    """What a bug costs and a fix gains: a scenario, several kernels."""
    from wastedcores.analysis.compare import compare as run_compare
    from wastedcores.cli._options import print_json
    from wastedcores.cli._plan import check_writable, planned, settings_of, until_of
    from wastedcores.errors import UsageError
    from wastedcores.simulator import replay_scenario
    from wastedcores.units import duration_ns
    from wastedcores.workload.scenarios import scenario as find

    found = find(scenario)
    kernels = kernel or ["v4.1", f"v4.1+{found.fix}" if found.fix else "v4.1+all_fixes"]
    if len(set(kernels)) < 2:
        raise UsageError(
            f"--kernel {kernels[0]}: expected at least two different kernels to compare"
        )
    given = settings_of(settings)
    persist_ns = duration_ns(persist, "--persist")
    until_ns = until_of(until)
    if output is not None:
        check_writable(output)
    _, on = planned(scenario, kernels, machine, seed, given)
    runs = {}
    for name in dict.fromkeys(kernels):
        typer.echo(f"replaying {scenario} under {name} ...", err=True)
        runs[name] = replay_scenario(scenario, name, on, seed, given, until_ns)
    for note in next(iter(runs.values())).notes:
        typer.echo(f"wastedcores: note: {note}", err=True)
    result = run_compare(runs, persist_ns=persist_ns)
    if output is not None:
        from wastedcores.figures.compare import balance_calls, costs
        from wastedcores.reports.html import write_figure

        draw = costs if kind is Kind.costs else balance_calls
        write_figure(draw(result, f"{scenario} on {on.name}, seed {seed}"), output)
        typer.echo(f"wrote {output}", err=True)
    if as_json:
        said = {"scenario": scenario, "machine": on.name, "seed": seed}
        said["warnings"] = list(dict.fromkeys(w for r in runs.values() for w in r.warnings))
        print_json(result.to_json() | said)
    else:
        _print(result)


def _print(found: Comparison) -> None:
    rows = found.table.to_dicts()
    for i, row in enumerate(rows):
        print(f"({i}) {row['run']}: {row['verdict']}")
    print("\n" + " " * 28 + "".join(f"{f'({i})':>14}" for i in range(len(rows))))
    for key, title, form in _ROWS:
        designs = found.suggestions.height > 0 or key != "refused_suggestions"
        if all(row[key] is None for row in rows) or not designs:
            continue
        name = str(rows[0]["result_name"]) if key == "result" else title
        cells = ["-" if row[key] is None else form.format(row[key]) for row in rows]
        print(f"{name:<28}" + "".join(f"{cell:>14}" for cell in cells))
    _print_suggestions(found)
    if not found.balance.height:
        return
    print("\nload_balance() calls, and the share that left things as they were")
    for (level,), part in found.balance.group_by("level", maintain_order=True):
        cells = []
        for row in rows:
            mine = part.filter(part["run"] == row["run"])
            calls, refused = int(mine["calls"].sum()), int(mine["refusals"].sum())
            cells.append(f"{calls} {100 * refused / calls:.0f} %" if calls else "none")
        print(f"  level {level:<20}" + "".join(f"{cell:>14}" for cell in cells))


def _print_suggestions(found: Comparison) -> None:
    """What the cores of designs refused, by module and moment."""
    some = found.suggestions.filter(found.suggestions["silent"] < found.suggestions["asked"])
    if not some.height:
        return
    print("\nsuggestions of modules at a moment, and how many the core refused")
    names = found.table["run"].to_list()
    for row in some.to_dicts():
        made = row["asked"] - row["silent"]
        what = f"({names.index(row['run'])}) {row['module']}: {row['moment']}"
        print(f"  {what:<40}{made:>10}{row['refused']:>10}")
