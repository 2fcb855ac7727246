"""``wastedcores data``: the data sets."""

from __future__ import annotations

from typing import Annotated

import typer

from wastedcores.cli._app import app

_EPILOG = """Examples:

  wastedcores data

  wastedcores data group-imbalance-buggy        prints the file's path

  wastedcores data --json

A name stands for its file in every command. WASTEDCORES_DATA_DIR chooses
where data sets that are not bundled are kept.
"""


@app.command(epilog=_EPILOG)
def data(
    name: Annotated[str | None, typer.Argument(help="Data set to fetch; none: list them")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines")] = False,
) -> None:
    """List the data sets, or fetch one and print its path."""
    from wastedcores.cli._options import print_json
    from wastedcores.trace.datasets import fetch, registry

    if name is not None:
        path = fetch(name).absolute()
        print_json({"name": name, "path": str(path)}) if as_json else print(path)
        return
    rows = [_row(entry) for entry in registry().values()]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        size = f"{row['bytes'] / 1000:.0f} KB" if row["bytes"] else "to fetch"
        print(
            f"{row['name']:<27}{size:>9}  {row['events'] or '?':>7} events, {row['kernel'] or '?'}"[
                :79
            ]
        )
    print("\nReal recordings; machine, kernel, workload: wastedcores info NAME")


def _row(entry: object) -> dict:
    """What is known of a data set without fetching it."""
    from wastedcores.trace.datasets import Entry, fetch
    from wastedcores.trace.parquet import read_parquet

    assert isinstance(entry, Entry)
    row: dict = {"name": entry.name, "sha256": entry.sha256, "url": entry.url, "bytes": None}
    row |= {"events": None, "kernel": None, "workload": None, "path": None}
    if entry.url is None:
        path = fetch(entry.name)
        header = read_parquet(path).header
        row |= {
            "bytes": path.stat().st_size,
            "events": header.events,
            "kernel": f"Linux {header.kernel_release}",
            "workload": header.provenance.get("workload"),
            "path": str(path),
        }
    return row
