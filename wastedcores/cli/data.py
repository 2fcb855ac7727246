"""``wastedcores data``: the data sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import AsJson
from wastedcores.cli._output import print_json

if TYPE_CHECKING:
    from wastedcores.trace.named import Entry

DATA_SCHEMA = "wastedcores.data/1"
_NOTES = """Every verb that takes a trace also takes the name of a data set. The environment variable
WASTEDCORES_DATA_DIR chooses where downloaded data sets are kept."""


@app.command(epilog=epilog("data", "data group-imbalance-buggy", "data --json", notes=_NOTES))
def data(
    name: Annotated[
        str | None,
        Argument(
            metavar="NAME",
            help="Fetch this data set and print its path. Default: list all of them.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the data sets, or fetch one and print its path."""
    from wastedcores.trace.named import fetch, registry

    if name is not None:
        path = fetch(name).absolute()
        told = {"schema": DATA_SCHEMA, "name": name, "path": str(path)}
        print_json(told) if as_json else print(path)
        return
    rows = [_row(entry) for entry in registry().values()]
    if as_json:
        print_json({"schema": DATA_SCHEMA, "datasets": rows})
        return
    for row in rows:
        size = f"{row['bytes'] / 1000:.0f} KB" if row["bytes"] else "to fetch"
        kernel = f"Linux {row['kernel_release'] or '?'}"
        print(f"{row['name']:<27}{size:>9}  {row['events'] or '?':>7} events, {kernel}")
    print("\nThese are real recordings. For machine, kernel and workload: wastedcores info NAME")


def _row(entry: Entry) -> dict[str, Any]:
    """Return the facts about a data set that are known without downloading it."""
    from wastedcores.trace.named import fetch
    from wastedcores.trace.parquet import read_parquet

    row: dict[str, Any] = {"name": entry.name, "sha256": entry.sha256, "url": entry.url}
    row |= dict.fromkeys(("bytes", "events", "kernel_release", "workload", "path"))
    if entry.url is None:
        path = fetch(entry.name)
        header = read_parquet(path).header
        row |= {
            "bytes": path.stat().st_size,
            "events": header.events,
            "kernel_release": header.kernel_release,
            "workload": header.provenance.get("workload"),
            "path": str(path),
        }
    return row
