"""``wastedcores unit``: the online checker as a service of systemd."""

from __future__ import annotations

from pathlib import Path

from wastedcores.cli._verb import verb

_NOTES = """Without --install or --uninstall it prints what --install would write and run. docs/how-to/fleet.md says how to read
the metrics. The service may load BPF programs and has no other privilege; it gives that up once it looks."""


@verb(
    "unit",
    "unit --install --serve 10.0.0.7:9969",
    "unit --uninstall",
    notes=_NOTES,
    options="""
    install           Write the unit and its options, and start it.
    uninstall         Stop it and delete all that belongs to it, evidence too.
    serve      :PORT  Serve metrics here, if there is no file of options yet.
    dry_run           Only say what --uninstall would do.
    root       DIR    Write below this folder, and start nothing.
    """,
)
def unit(
    install: bool = False,
    uninstall: bool = False,
    serve: str = ":9969",
    dry_run: bool = False,
    root: Path = Path("/"),
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
