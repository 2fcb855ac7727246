"""``wastedcores sweep``: many replays into one table."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

from wastedcores.cli._app import app

_EPILOG = """Examples:

  wastedcores sweep recorded-gi --kernel v4.1 --kernel v4.1+all_fixes --seeds 1-20 -o gi.parquet

  wastedcores sweep recorded-db --machine bd-paper-64 --machine bd-paper-16 --set noise_period_ms=10,40 -o db.parquet

  wastedcores sweep recorded-lu --set work_us=100,1000 --scheduler tcp://head:8786 -o lu.parquet

One line a run; a run that failed has its error there. Ctrl-C keeps what is done; the same command goes on.
Exit code: 0 fine, 2 bad use or a run failed.
"""


@app.command(epilog=_EPILOG)
def sweep(
    scenarios: Annotated[
        list[str], typer.Argument(help="Scenarios, as wastedcores scenarios lists")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The table (Parquet)")],
    kernel: Annotated[
        list[str] | None, typer.Option(help="Kernel; several times for several")
    ] = None,
    machine: Annotated[
        list[str] | None, typer.Option(help="Machine; several times; default the scenario's own")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=V1,V2,...", help="Parameter and the values to try"),
    ] = None,
    seeds: Annotated[str, typer.Option(help="Seeds, e.g. 1-20 or 1,5,9")] = "1-5",
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default one a CPU")] = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for machines")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress bar")] = False,
) -> None:
    """Replay every combination of scenario, kernel, machine and seed."""
    import json

    from wastedcores.cli._plan import check_writable, planned
    from wastedcores.errors import UsageError
    from wastedcores.kernels import KernelModel
    from wastedcores.sweep import SCENARIO_TASK, grid
    from wastedcores.sweep import sweep as run_all
    from wastedcores.topology.cpulist import parse_cpulist

    axes: dict[str, list[Any]] = {
        "scenario": scenarios,
        "kernel": kernel or ["v4.1"],
        "machine": list(machine or [""]),
    }
    for text in setting or []:
        name, equals, values = text.partition("=")
        if not equals or not values or name in axes or name == "seed":
            raise UsageError(
                f"--set {text!r}: expected NAME=VALUE[,VALUE...] with a scenario's parameter."
            )
        axes[name.strip()] = values.split(",")
    try:
        axes["seed"] = parse_cpulist(seeds)
    except UsageError:
        axes["seed"] = []
    if not axes["seed"]:
        raise UsageError(f"--seeds {seeds!r}: expected seeds such as 1-20 or 1,5,9")
    check_writable(out, "--out")
    names = [name for name in axes if name not in ("scenario", "kernel", "machine", "seed")]
    for chosen in product(scenarios, axes["machine"], *(axes[name] for name in names)):
        given = dict(zip(names, chosen[2:], strict=True))
        planned(chosen[0], axes["kernel"], chosen[1] or None, axes["seed"][0], given)
    for warning in dict.fromkeys(KernelModel.named(k).replay_warning for k in axes["kernel"]):
        if warning:
            print(f"wastedcores: warning: {warning}", file=sys.stderr)
    table = run_all(
        grid(SCENARIO_TASK, axes), out, workers=workers, scheduler=scheduler, progress=not quiet
    )
    failed = table.filter(table["error"].is_not_null())
    if as_json:
        counts = {"runs": len(table), "failed": len(failed)}
        print(json.dumps({"schema": "wastedcores.sweep/1", "table": str(out), **counts}))
    else:
        print(f"{out}: {len(table)} runs, {len(failed)} failed")
    if len(failed):
        raise UsageError(
            f"{len(failed)} of {len(table)} runs failed; the first said: {failed['error'][0]}"
        )
