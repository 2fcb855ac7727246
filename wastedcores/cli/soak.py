"""``wastedcores soak``: try the online checker for hours and judge its alarms."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import AsJson, above_zero
from wastedcores.cli._output import print_json

_NOTES = """Loads take turns, and every few minutes load balancing is turned off for some seconds to provoke a violation. What
/proc tells about idle time and waiting decides whether each alarm was true, and whether a provoked violation was there to be
found. Needs root, the BPF backend and, to provoke violations, a cgroup v1 cpuset. Ctrl-C ends it with the summary."""
_EXIT = "0 no false alarm and nothing missed, 2 bad use or no collector, 3 a false alarm or a missed violation."


@app.command(
    epilog=epilog(
        "soak --hours 2 -o soak",
        "soak --hours 0.05 --every 30 -o soak",
        notes=_NOTES,
        exit_codes=_EXIT,
    )
)
def soak(
    output: Annotated[
        Path, Option("--output", "-o", metavar="DIR", help="Folder for the results.")
    ] = Path("soak"),
    hours: Annotated[
        float, Option(metavar="H", callback=above_zero, help="Length of the soak.")
    ] = 2.0,
    every: Annotated[
        float,
        Option(metavar="SECONDS", callback=above_zero, help="Provoke a violation this often."),
    ] = 240.0,
    seed: Annotated[int, Option(help="Seed of the order of the loads.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Try the online checker on this machine and judge its alarms."""
    from wastedcores.capture.soak import SoakOptions, markdown
    from wastedcores.capture.soak import soak as run_soak

    found = run_soak(
        output,
        SoakOptions(seconds=hours * 3600, provoke_every_s=every, seed=seed),
        progress=lambda line: print(line, file=sys.stderr),
    )
    if as_json:
        print_json(found)
    else:
        print(markdown(found), end="")
    if found["alarms"]["false"] or found["provocations"]["missed"]:
        raise Exit(3)
