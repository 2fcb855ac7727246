"""``wastedcores soak``: try the online checker for hours and judge its alarms."""

from __future__ import annotations

import sys
from pathlib import Path

from typer import Exit

from wastedcores.cli._output import print_json
from wastedcores.cli._verb import verb

_NOTES = """Loads take turns, and every few minutes load balancing is turned off for some seconds to provoke a violation. What
/proc tells about idle time and waiting decides whether each alarm was true, and whether a provoked violation was there to be
found. Needs root, the BPF backend and, to provoke violations, a cgroup v1 cpuset. Ctrl-C ends it with the summary."""
_EXIT = "0 no false alarm and nothing missed, 2 bad use or no collector, 3 a false alarm or a missed violation."


@verb(
    "soak --hours 2 -o soak",
    "soak --hours 0.05 --every 30 -o soak",
    notes=_NOTES,
    exit_codes=_EXIT,
    options="""
    output  --output -o DIR  Folder for the results.
    hours   >0 H             Length of the soak.
    every   >0 SECONDS       Provoke a violation this often.
    seed                     Seed of the order of the loads.
    """,
)
def soak(
    output: Path = Path("soak"),
    hours: float = 2.0,
    every: float = 240.0,
    seed: int = 0,
    as_json: bool = False,
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
