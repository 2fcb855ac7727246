"""``wastedcores compare``: one scenario under several kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from wastedcores.cli._app import app

if TYPE_CHECKING:
    from wastedcores.compare import Comparison

_EPILOG = """Examples:

  wastedcores compare missing-domains --kernel v4.1 --kernel v4.1+missing_domains

  wastedcores compare group-imbalance --set jobs=500 --json

The first kernel is what the others are measured against. Without --kernel: v4.1 and v4.1 with the scenario's fix.
"""

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
)


@app.command(epilog=_EPILOG)
def compare(
    scenario: Annotated[str, typer.Argument(help="Name, see `wastedcores scenarios`.")],
    kernel: Annotated[
        list[str] | None, typer.Option(help="Linux with fixes; give it twice or more.")
    ] = None,
    machine: Annotated[str | None, typer.Option(help="Preset; default: the scenario's.")] = None,
    seed: Annotated[int, typer.Option(help="Of every random draw.", min=0)] = 1,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change a parameter: --set jobs=500.")
    ] = None,
    persist: Annotated[str, typer.Option(help="M: an episode this long is persistent")] = "100ms",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for machines")] = False,
) -> Any:
    """What a bug costs and a fix gains: a scenario, several kernels."""
    from wastedcores.cli._options import duration_ns, print_json
    from wastedcores.compare import compare as run_compare
    from wastedcores.errors import UsageError
    from wastedcores.replay import replay_scenario
    from wastedcores.scenarios import scenario as find

    found = find(scenario)
    kernels = kernel or ["v4.1", f"v4.1+{found.fix}" if found.fix else "v4.1+all_fixes"]
    if len(set(kernels)) < 2:
        raise UsageError(
            f"--kernel {kernels[0]}: expected at least two different kernels to compare"
        )
    given = {}
    for text in settings or []:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--set {text!r}; expected NAME=VALUE, such as jobs=500")
        given[name] = value
    persist_ns = duration_ns(persist, "--persist")
    runs = {}
    for name in dict.fromkeys(kernels):
        typer.echo(f"replaying {scenario} under {name} ...", err=True)
        runs[name] = replay_scenario(scenario, name, machine, seed, given, None)
    result = run_compare(runs, persist_ns=persist_ns)
    if as_json:
        on = next(iter(runs.values())).machine.name
        print_json(result.to_json() | {"scenario": scenario, "machine": on, "seed": seed})
    else:
        _print(result)


def _print(found: Comparison) -> None:
    rows = found.table.to_dicts()
    for i, row in enumerate(rows):
        print(f"({i}) {row['run']}: {row['verdict']}")
    print("\n" + " " * 28 + "".join(f"{f'({i})':>14}" for i in range(len(rows))))
    for key, title, form in _ROWS:
        if all(row[key] is None for row in rows):
            continue
        name = str(rows[0]["result_name"]) if key == "result" else title
        cells = ["-" if row[key] is None else form.format(row[key]) for row in rows]
        print(f"{name:<28}" + "".join(f"{cell:>14}" for cell in cells))
    print("\nload_balance() calls, and the share that left things as they were")
    for (level,), part in found.balance.group_by("level", maintain_order=True):
        cells = []
        for row in rows:
            mine = part.filter(part["run"] == row["run"])
            calls, refused = int(mine["calls"].sum()), int(mine["refusals"].sum())
            cells.append(f"{calls} {100 * refused / calls:.0f} %" if calls else "none")
        print(f"  level {level:<20}" + "".join(f"{cell:>14}" for cell in cells))
