"""``wastedcores doctor``: what works here, and how to mend what does not."""

from __future__ import annotations

import textwrap
from typing import Annotated

import typer

from wastedcores.cli._app import app

_EPILOG = """Examples:

  wastedcores doctor

  wastedcores doctor --json

Exit code 0 whatever is missing: reading traces and making reports needs
Python alone.
"""


@app.command(epilog=_EPILOG)
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="For machines")] = False,
) -> None:
    """What works on this machine, and what mends the rest."""
    from dataclasses import asdict

    from wastedcores.capture.doctor import examine, family
    from wastedcores.cli._options import print_json

    here = family()
    found = examine()
    if as_json:
        print_json([{**asdict(f), "command": f.command(here)} for f in found])
        return
    signs = {"ok": "ok", "missing": "MISSING", "limited": "limited"}
    for f in found:
        print(_wrap(f"{signs[f.state]:<8}{f.name}: {f.says}"))
        if f.state != "ok" and f.needed_for:
            print(_wrap(f"        needed for {f.needed_for}"))
        if f.state != "ok" and f.command(here):
            print(f"        {f.command(here)}")


def _wrap(text: str) -> str:
    return textwrap.fill(text, 79, subsequent_indent=" " * 8, break_long_words=False)
