"""``wastedcores doctor``: what works on this machine, and the commands that add the rest."""

from __future__ import annotations

from wastedcores.cli._output import print_json, wrapped
from wastedcores.cli._verb import verb

_NOTES = "Reading traces and making reports needs only Python; the other parts are for recording."
_EXIT = "0, whatever is missing."


@verb("doctor", "doctor --json", notes=_NOTES, exit_codes=_EXIT)
def doctor(as_json: bool = False) -> None:
    """Show what works on this machine, and how to add the rest."""
    from dataclasses import asdict

    from wastedcores.capture.backends import distribution
    from wastedcores.capture.doctor import examine

    here = distribution()
    findings = examine()
    if as_json:
        print_json([{**asdict(f), "command": f.command(here)} for f in findings])
        return
    signs = {"ok": "ok", "missing": "MISSING", "limited": "limited"}
    indent = " " * 8
    for f in findings:
        print(wrapped(f"{signs[f.state]:<8}{f.name}: {f.says}", rest=indent))
        if f.state != "ok" and f.needed_for:
            print(wrapped(f"needed for {f.needed_for}", first=indent, rest=indent))
        if f.state != "ok" and f.command(here):
            print(f"{indent}{f.command(here)}")
