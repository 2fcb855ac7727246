"""``wastedcores info``: what a trace is, before any judgement."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from wastedcores.cli._app import app
from wastedcores.cli._options import print_json
from wastedcores.units import human_ns

_EPILOG = """Examples:

  wastedcores info trace.txt.xz

  wastedcores info group-imbalance-buggy --json
"""


@app.command(epilog=_EPILOG)
def info(
    trace: Annotated[Path, typer.Argument(help="Trace file, or a data set by name")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for machines")] = False,
    format: Annotated[
        str | None, typer.Option(help="Insist on a format; default: found out by content")
    ] = None,
) -> Any:
    """Say what a trace is: format, machine, interval, kinds, losses."""
    from wastedcores.cli._open import open_input

    opened = open_input(trace, format)
    header, kinds = opened.header, opened.kinds()
    if as_json:
        facts = header.model_dump(mode="json")
        print_json(
            {"schema": "wastedcores.info/1", "name": opened.name, "header": facts, "kinds": kinds}
        )
        return
    duration = (header.end_ns or 0) - (header.start_ns or 0)
    print(f"{opened.name}")
    for label, value in (
        ("format", header.source_format),
        ("kernel", header.kernel_release or "not stated"),
        ("clock", header.clock or "not stated"),
        ("CPUs", header.cpus),
        ("interval", f"{header.start_ns} .. {header.end_ns} ns ({human_ns(duration)})"),
        ("events", f"{header.events:,}" if header.events is not None else "not counted"),
        ("lost", _lost(header.lost)),
    ):
        print(f"  {label:<10} {value}")
    for kind, n in sorted(kinds.items(), key=lambda item: -item[1]):
        print(f"    {kind:<12} {n:>12,}")
    for key, text in header.provenance.items():
        print(f"  {key}: {text}")


def _lost(lost: dict[int, int]) -> str:
    if not lost:
        return "none"
    return ", ".join(
        f"{'some' if n < 0 else n} on {'an unknown CPU' if cpu < 0 else f'CPU {cpu}'}"
        for cpu, n in sorted(lost.items())
    )
