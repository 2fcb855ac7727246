"""``wastedcores measure``: run a command several times under each of several settings, in shuffled order."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import AsJson
from wastedcores.cli._output import print_json

_NOTES = """A file of settings has a table per setting. prefix is put before the command, and env has its environment variables:

\b
  [cfs]
  [rr]
  prefix = ["chrt", "-r", "10"]
  [two]
  prefix = ["taskset", "-c", "0,1"]
  env = {OMP_NUM_THREADS = "2"}

The settings take turns in shuffled order, so that a change of the machine meanwhile affects all of them. The percentage of an
interval is the probability that such an interval contains the true median; from six runs on, it is at least 95 %. The
description of the machine has the facts that Walcher's reproduction could not find in the paper."""
_EXIT = "0 every run ended with code 0, 2 bad use, 3 a run failed."


@app.command(
    epilog=epilog(
        "measure -n 10 -- make -j8",
        "measure -n 20 --settings settings.toml -o runs.json -- ./benchmark",
        notes=_NOTES,
        exit_codes=_EXIT,
    ),
    context_settings={"allow_extra_args": True, "ignore_unknown_options": False},
)
def measure(
    command: Annotated[list[str], Argument(metavar="-- COMMAND", help="The command to measure.")],
    runs: Annotated[int, Option("-n", "--runs", metavar="N", help="Runs per setting.")] = 10,
    settings: Annotated[
        Path | None, Option(metavar="FILE.toml", help="The settings to compare, which take turns.")
    ] = None,
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Also write all runs and the environment as JSON.",
        ),
    ] = None,
    seed: Annotated[int, Option(help="Seed of the order of the runs.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure a command under one or several settings."""
    import json

    from wastedcores.capture.measure import measure as run_measure
    from wastedcores.capture.measure import read_settings
    from wastedcores.cli._output import check_writable
    from wastedcores.files import written_whole

    if output:
        check_writable(output)
    found = run_measure(
        command,
        runs=runs,
        settings=read_settings(settings) if settings else None,
        seed=seed,
        progress=lambda line: print(line, file=sys.stderr),
    )
    if output:
        with written_whole(output) as part:
            part.write_text(json.dumps(found, indent=1) + "\n")
    if as_json:
        print_json(found)
    else:
        for name, of in found["settings"].items():
            wall, cpu, ratio = of["wall_s"], of["cpu_s"], of["ratio"]
            print(
                f"{name}: {wall['median']:.3f} s ({wall['low']:.3f} to {wall['high']:.3f} at {wall['level']:.0%}), "
                f"CPU time {cpu['median']:.3f} s, "
                f"{ratio['median']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f}) times the first"
                + (f", {of['failed']} runs FAILED" if of["failed"] else "")
            )
        known = found["environment"]
        print(
            f"on {known['cpu'] or 'an unknown CPU'}, Linux {known['kernel']}, {known['distribution'] or 'unknown distribution'}"
        )
    if any(of["failed"] for of in found["settings"].values()):
        raise Exit(3)
