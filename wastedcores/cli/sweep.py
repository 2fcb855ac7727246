"""``wastedcores sweep``: many replays into one table."""

from __future__ import annotations

import json
import sys
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import AsJson, Kernels, Quiet, Scheduler, Workers, settings
from wastedcores.cli._output import check_writable

_NOTES = """The table has one row per run; if a run failed, its row has the error. Ctrl-C keeps the runs that are done,
and the same command continues from there."""
_EXIT_CODES = "0 fine, 2 bad use or a run failed, 130 after Ctrl-C."
_AXES = ("scenario", "kernel", "machine", "seed")
_EXPECTED = "NAME=VALUE[,VALUE...] with a scenario's parameter"


@app.command(
    epilog=epilog(
        "sweep recorded-gi --kernel v4.1 --kernel v4.1+all_fixes --seeds 1-20 -o gi.parquet",
        "sweep recorded-db --machine bd-paper-64 --machine bd-paper-16 --set noise_period_ms=10,40 -o db.parquet",
        "sweep recorded-lu --set work_us=100,1000 --scheduler tcp://head:8786 -o lu.parquet",
        notes=_NOTES,
        exit_codes=_EXIT_CODES,
    )
)
def sweep(
    scenarios: Annotated[
        list[str],
        Argument(metavar="SCENARIO", help="Scenarios that `wastedcores scenarios` lists."),
    ],
    output: Annotated[
        Path, Option("--output", "-o", metavar="FILE", help="The table to write, as Parquet.")
    ],
    kernel: Kernels = None,
    machine: Annotated[
        list[str] | None,
        Option(
            metavar="NAME|FILE|live",
            help="A machine; may be repeated. Default: the scenario's own.",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        Option("--set", metavar="NAME=V1,V2,...", help="A parameter and the values to try for it."),
    ] = None,
    seeds: Annotated[
        str, Option(metavar="LIST", help="The seeds, for example 1-20 or 1,5,9.")
    ] = "1-5",
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Replay combinations of scenario, kernel, machine and seed."""
    from wastedcores.cli._input import resolve_replay
    from wastedcores.errors import UsageError
    from wastedcores.kernels import KernelModel
    from wastedcores.sweep import SCENARIO_TASK, grid
    from wastedcores.sweep import sweep as run_all
    from wastedcores.workload.scenarios import scenario

    parameters = _parameters(set_)
    axes: dict[str, list[Any]] = {
        "scenario": scenarios,
        "kernel": kernel or list(dict.fromkeys(scenario(name).kernel for name in scenarios)),
        "machine": list(machine or [""]),
        **parameters,
        "seed": _seeds(seeds),
    }
    check_writable(output)
    for name, on, *values in product(scenarios, axes["machine"], *parameters.values()):
        given = dict(zip(parameters, values, strict=True))
        resolve_replay(name, axes["kernel"], on or None, axes["seed"][0], given)
    for warning in dict.fromkeys(KernelModel.named(k).replay_warning for k in axes["kernel"]):
        if warning:
            print(f"wastedcores: warning: {warning}", file=sys.stderr)
    table = run_all(
        grid(SCENARIO_TASK, axes), output, workers=workers, scheduler=scheduler, progress=not quiet
    )
    failed = table.filter(table["error"].is_not_null())
    if as_json:
        counts = {"runs": len(table), "failed": len(failed)}
        print(json.dumps({"schema": "wastedcores.sweep/1", "table": str(output), **counts}))
    else:
        print(f"{output}: {len(table)} runs, {len(failed)} failed")
    if len(failed):
        raise UsageError(
            f"{len(failed)} of {len(table)} runs failed; the first error is: {failed['error'][0]}"
        )


def _parameters(texts: list[str] | None) -> dict[str, list[str]]:
    """Return for each parameter the values to try; an error names the text that is wrong."""
    from wastedcores.errors import UsageError

    parameters: dict[str, list[str]] = {}
    for text in texts or []:
        ((name, values),) = settings([text], _EXPECTED).items()
        if not values or name in parameters or name in _AXES:
            raise UsageError(f"--set {text!r}: expected {_EXPECTED}, each name once.")
        parameters[name] = values.split(",")
    return parameters


def _seeds(text: str) -> list[int]:
    from wastedcores.cpulist import parse_cpulist
    from wastedcores.errors import UsageError

    try:
        seeds = parse_cpulist(text)
    except UsageError:
        seeds = []
    if not seeds:
        raise UsageError(f"--seeds {text!r}: expected seeds such as 1-20 or 1,5,9.")
    return seeds
