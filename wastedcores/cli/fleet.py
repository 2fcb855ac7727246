"""``wastedcores fleet``: many traces as one table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import (
    AsJson,
    Chronic,
    IgnoreAffinity,
    Persist,
    Quiet,
    Scheduler,
    Silent,
    Whole,
    Workers,
    refuse_unused,
)
from wastedcores.cli._output import check_writable, print_json
from wastedcores.errors import UsageError
from wastedcores.units import duration_ns, share

if TYPE_CHECKING:
    import polars as pl

FLEET_SCHEMA = "wastedcores.fleet/1"
_NOTES = """A row is kept as soon as its trace is checked, so after an interruption the same command continues. A Dask
cluster (--scheduler) must see the traces under the same paths; it needs `pip install 'wastedcores[dask]'`. If DIR is a
Prometheus that scrapes `wastedcores watch --serve`, the table has a row per machine and hour, of the last --hours."""
_EXIT_CODES = (
    "0 all clean, 1 any violation, 2 bad use or a trace that could not be checked, 3 some unknown."
)


@app.command(
    epilog=epilog(
        "fleet traces/ -o fleet.parquet --page fleet.html",
        "fleet list-of-traces.list -o fleet.parquet",
        "fleet s3://bucket/traces -o fleet.parquet --scheduler tcp://head:8786",
        "fleet prometheus+http://localhost:9090 --hours 24 --page fleet.html",
        notes=_NOTES,
        exit_codes=_EXIT_CODES,
    )
)
def fleet(
    ctx: typer.Context,
    where: Annotated[
        str,
        Argument(
            metavar="DIR",
            help="A folder of traces, its URL, a text file *.list with a path or URL in each line, or a Prometheus's address.",
        ),
    ],
    output: Annotated[
        Path,
        Option("--output", "-o", metavar="FILE", help="The Parquet file with a row per trace."),
    ] = Path("fleet.parquet"),
    page: Annotated[
        Path | None,
        Option(metavar="FILE", help="Also write a page that ranks machines and hours."),
    ] = None,
    hours: Annotated[
        int,
        Option(
            metavar="N", min=1, max=1000, help="With a Prometheus: ask for this many past hours."
        ),
    ] = 24,
    persist: Persist = "100ms",
    chronic: Chronic = "0.75%",
    whole: Whole = False,
    ignore_affinity: IgnoreAffinity = False,
    silent: Silent = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Check many traces, and rank machines by cores wasted."""
    options: dict[str, Any] = {
        "persist_ns": duration_ns(persist, "--persist"),
        "chronic_share": share(chronic, "--chronic"),
        "whole": whole,
        "ignore_affinity": ignore_affinity,
        "silent": silent,
    }
    from wastedcores.files import written_whole
    from wastedcores.sweep.prometheus import PREFIX, machine_hours, wasted_by_group

    asked = where.startswith(PREFIX)
    if asked:
        of_traces = (
            "persist",
            "chronic",
            "whole",
            "ignore_affinity",
            "silent",
            "scheduler",
            "workers",
        )
        refuse_unused(ctx, of_traces, "a Prometheus has what services told it")
    else:
        refuse_unused(ctx, ("hours",), "only a Prometheus is asked for hours")
    for path in (output, page):
        if path is not None:
            check_writable(path)
    groups = None
    if asked:
        table, groups = machine_hours(where, hours), wasted_by_group(where, hours)
        with written_whole(output) as part:
            table.write_parquet(part)
    else:
        table = _checked(where, output, options, scheduler, workers, quiet)
    if page is not None:
        from wastedcores.reports.fleet import write_fleet_page

        write_fleet_page(table, f"Wasted cores of {where}", page, groups)
    counts = _counts(table)
    if as_json:
        print_json({"schema": FLEET_SCHEMA, "table": str(output), **counts})
    else:
        print(_text(table, counts, output, page, "traces" if groups is None else "machine hours"))
    if counts["violations"]:
        raise typer.Exit(1)
    if counts["failed"]:
        first = table.filter(table["error"].is_not_null())
        raise UsageError(
            f"{counts['failed']} of {table.height} traces could not be checked; the first is {first['trace'][0]}: "
            f"{first['error'][0]}"
        )
    raise typer.Exit(3 if counts["unknown"] else 0)


def _checked(
    where: str,
    output: Path,
    options: dict[str, Any],
    scheduler: str | None,
    workers: int | None,
    quiet: bool,
) -> pl.DataFrame:
    """Check every trace."""
    from wastedcores.sweep import sweep
    from wastedcores.sweep.traces import find_traces, runs_of

    found = find_traces(where, output)
    if not quiet:
        size = sum(f.bytes for f in found)
        print(f"{where}: {len(found)} traces, {size / 1e6:,.1f} MB", file=sys.stderr)
    return sweep(
        runs_of(found, **options),
        output,
        scheduler=scheduler,
        workers=workers,
        progress=not quiet,
        first="checking; code is compiled once",
    )


def _counts(table: pl.DataFrame) -> dict[str, int]:
    failed = int(table["error"].is_not_null().sum())
    verdicts = table["verdict"].to_list() if "verdict" in table.columns else []
    return {
        "traces": table.height,
        **{v: verdicts.count(v) for v in ("violations", "clean", "unknown")},
        "failed": failed,
    }


def _text(
    table: pl.DataFrame, counts: dict[str, int], output: Path, page: Path | None, rows: str
) -> str:
    """Return the table's summary for people, with the worst machines."""
    from wastedcores.sweep.traces import ranked
    from wastedcores.units import number

    lines = [
        f"{output}: {counts['traces']} {rows}: {counts['violations']} with violations, {counts['clean']} clean, "
        f"{counts['unknown']} unknown, {counts['failed']} not checked"
    ]
    worst = ranked(table, "host").head(10)
    if worst.height:
        width = max(7, *(len(h) for h in worst["host"]))
        lines += ["", f"  {'machine':<{width}}  CPUs wasted       rows  with violations  unknown"]
        for row in worst.iter_rows(named=True):
            wasted = "unknown" if row["wasted_cpus"] is None else number(row["wasted_cpus"])
            lines.append(
                f"  {row['host']:<{width}}  {wasted:>11}  {row['traces']:>9}  {row['violations']:>15}  "
                f"{row['unknown']:>7}"
            )
    more = (
        f"open {page}"
        if page
        else "the same command with --page fleet.html ranks machines and hours"
    )
    return "\n".join([*lines, "", f"  next           {more}"])
