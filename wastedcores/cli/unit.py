"""``wastedcores unit``: the online checker as a service of systemd."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from wastedcores.cli._app import app, epilog

_NOTES = """Without --install or --uninstall it prints what --install would write and run. docs/how-to/fleet.md says how to read
the metrics. The only privilege of the service is to load BPF programs; once it has begun to look, it
gives up this privilege, too (docs/security.md)."""


@app.command(
    epilog=epilog("unit", "unit --install --serve 10.0.0.7:9969", "unit --uninstall", notes=_NOTES)
)
def unit(
    install: Annotated[
        bool, Option("--install", help="Write the unit and its options, and start it.")
    ] = False,
    uninstall: Annotated[
        bool,
        Option(
            "--uninstall",
            help="Stop the service and delete its files, including the recordings in its own folder.",
        ),
    ] = False,
    serve: Annotated[
        str,
        Option(
            metavar=":PORT",
            help="Serve metrics at this address, if there is no file of options yet.",
        ),
    ] = ":9969",
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would be done.")] = False,
    root: Annotated[
        Path, Option(metavar="DIR", help="Write below this folder, and start nothing.")
    ] = Path("/"),
) -> None:
    """Make `watch` a service of systemd."""
    from wastedcores.capture import unit as made
    from wastedcores.errors import UsageError

    if install and uninstall:
        raise UsageError("--install and --uninstall exclude each other. Give one of them.")
    if uninstall:
        made.uninstall(root, print, dry_run)
    else:
        made.install(serve, root, print, dry=dry_run or not install)
