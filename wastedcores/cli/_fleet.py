"""``wastedcores check DIR --table``: many traces as one table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wastedcores.cli._output import check_writable, print_json
from wastedcores.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

FLEET_SCHEMA = "wastedcores.fleet/1"


def check_fleet(
    where: str,
    output: Path,
    *,
    page: Path | None,
    scheduler: str | None,
    workers: int | None,
    as_json: bool,
    quiet: bool,
    **options: str | int | float | bool | None,
) -> int:
    """Check every trace of a folder, list or URL; return the exit status."""
    from wastedcores.sweep import sweep
    from wastedcores.sweep.traces import find_traces, runs_of

    for path in (output, page):
        if path is not None:
            check_writable(path)
    found = find_traces(where)
    if not quiet:
        size = sum(f.bytes for f in found)
        print(f"{where}: {len(found)} traces, {size / 1e6:,.1f} MB", file=sys.stderr)
    table = sweep(
        runs_of(found, **options),
        output,
        scheduler=scheduler,
        workers=workers,
        progress=not quiet,
        first="checking; code is compiled once",
    )
    if page is not None:
        from wastedcores.reports.fleet import write_fleet_page

        write_fleet_page(table, f"Wasted cores of {where}", page)
    counts = _counts(table)
    if as_json:
        print_json({"schema": FLEET_SCHEMA, "table": str(output), **counts})
    else:
        print(_text(table, counts, output, page))
    if counts["violations"]:
        return 1
    if counts["failed"]:
        first = table.filter(table["error"].is_not_null())
        raise UsageError(
            f"{counts['failed']} of {table.height} traces could not be checked; the first is {first['trace'][0]}: "
            f"{first['error'][0]}"
        )
    return 3 if counts["unknown"] else 0


def _counts(table: pl.DataFrame) -> dict[str, int]:
    failed = int(table["error"].is_not_null().sum())
    verdicts = table["verdict"].to_list() if "verdict" in table.columns else []
    return {
        "traces": table.height,
        **{v: verdicts.count(v) for v in ("violations", "clean", "unknown")},
        "failed": failed,
    }


def _text(table: pl.DataFrame, counts: dict[str, int], output: Path, page: Path | None) -> str:
    """Return the table's summary for people, with the worst machines."""
    from wastedcores.sweep.traces import ranked
    from wastedcores.units import number

    lines = [
        f"{output}: {counts['traces']} traces: {counts['violations']} with violations, {counts['clean']} clean, "
        f"{counts['unknown']} unknown, {counts['failed']} not checked"
    ]
    worst = ranked(table, "host").head(10)
    if worst.height:
        width = max(7, *(len(h) for h in worst["host"]))
        lines += ["", f"  {'machine':<{width}}  CPUs wasted  of traces  with violations"]
        for row in worst.iter_rows(named=True):
            lines.append(
                f"  {row['host']:<{width}}  {number(row['wasted_cpus']):>11}  {row['traces']:>9}  {row['violations']:>15}"
            )
    more = (
        f"open {page}"
        if page
        else "the same command with --page fleet.html ranks machines and hours"
    )
    return "\n".join([*lines, "", f"  next           {more}"])
