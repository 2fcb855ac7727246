"""``wastedcores scenarios``: what can be replayed."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from wastedcores.cli._app import app

EPILOG = """Examples:

  wastedcores scenarios

  wastedcores scenarios --json
"""


@app.command(epilog=EPILOG)
def scenarios(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
) -> None:
    """List the scenarios, their machines, fixes and parameters."""
    from wastedcores.workload.scenarios import SCENARIOS, as_text

    if as_json:
        rows = [
            {
                "name": s.name,
                "doc": s.doc,
                "machine": s.machine,
                "fix": s.fix,
                "parameters": s.parameters(),
            }
            for s in SCENARIOS.values()
        ]
        typer.echo(json.dumps({"schema": "wastedcores.scenarios/1", "scenarios": rows}))
        return
    for s in SCENARIOS.values():
        typer.echo(s.name)
        typer.echo(f"  {s.doc}")
        typer.echo(f"  on {s.machine}" + (f"; cured by {s.fix}" if s.fix else ""))
        words = [f"{k}={as_text(v)}" for k, v in s.parameters().items()]
        for i in range(0, len(words), 5):
            typer.echo(("  --set " if i == 0 else "        ") + " ".join(words[i : i + 5]))
