"""``wastedcores check``: the invariant, over a trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wastedcores.cli._app import app
from wastedcores.cli._options import print_json
from wastedcores.errors import UsageError
from wastedcores.units import duration_ns, human_ns

if TYPE_CHECKING:
    from wastedcores.invariant import CheckResult
    from wastedcores.trace.header import Header

EXIT = {"clean": 0, "violations": 1, "unknown": 3}

_EPILOG = """Examples:

  wastedcores check trace.txt.xz

  wastedcores check --live --seconds 60 -S 1s -M 100ms -o evidence

  wastedcores check perf.txt --json --persist 50ms

  wastedcores check group-construction-buggy --window

  wastedcores check guest.parquet --cpus 8-23 --between "rec: make start" "rec: make end" --ignore-affinity

Exit code: 0 clean, 1 violations, 2 bad use or input, 3 unknown (events were lost).
"""


@app.command(epilog=_EPILOG)
def check(
    trace: Annotated[
        Path | None,
        typer.Argument(help="Trace file: ours, ftrace, perf script, sched_profiler; or a data set"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for machines")] = False,
    persist: Annotated[
        str, typer.Option("--persist", "-M", help="M: an episode at least this long is persistent")
    ] = "100ms",
    cpus: Annotated[str | None, typer.Option(help="Count these CPUs only, e.g. 8-23,40")] = None,
    between: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="START END", help="Window: beginnings of two marks, or two times in seconds"
        ),
    ] = None,
    window: Annotated[
        bool, typer.Option("--window", help="Count the window and CPUs that the recording names")
    ] = False,
    ignore_affinity: Annotated[
        bool, typer.Option("--ignore-affinity", help="Count waiting threads that may not move, too")
    ] = False,
    silent: Annotated[
        str, typer.Option(help="Online CPUs without one event: idle or unknown")
    ] = "idle",
    format: Annotated[
        str | None, typer.Option(help="Insist on a format; default: found out by content")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Check the running machine (root, see doctor)")
    ] = False,
    seconds: Annotated[
        float | None, typer.Option(help="Live: how long; default until Ctrl-C")
    ] = None,
    period: Annotated[str, typer.Option("--period", "-S", help="Live: look every S")] = "1s",
    event_driven: Annotated[
        bool, typer.Option("--event-driven", help="Live: notice within M + 10 ms")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Live: keep each violation's recording"),
    ] = None,
    before: Annotated[
        float,
        typer.Option(
            metavar="N",
            help="Live: seconds recorded before a violation; 0: only the 20 ms after (cheapest)",
        ),
    ] = 2.0,
    metrics: Annotated[
        str | None, typer.Option(metavar=":PORT", help="Live: Prometheus text on loopback")
    ] = None,
    backend: Annotated[str, typer.Option(help="Live: auto, bpf or tracefs")] = "auto",
    deficit: Annotated[
        bool, typer.Option("--deficit", help="Live: also CPUs whose threads wait over 200 ms/s")
    ] = False,
    useless: Annotated[
        bool, typer.Option("--useless", help="Live: also moves to a queue at least as loaded")
    ] = False,
) -> Any:
    """Was a CPU idle while threads waited that it could have run?"""
    if live:
        from wastedcores.cli._live import run_live

        if trace is not None:
            raise UsageError(f"{trace}: --live checks this machine; leave the trace out.")
        verdict = run_live(
            seconds=seconds,
            period=period,
            persist=persist,
            event_driven=event_driven,
            output=output,
            before_s=before,
            metrics=metrics,
            backend=backend,
            deficit=deficit,
            useless=useless,
            as_json=as_json,
        )
        raise typer.Exit(EXIT[verdict])
    if trace is None:
        raise UsageError("no trace given. Name a trace file or data set, or use --live.")
    from wastedcores.cli._open import open_input
    from wastedcores.invariant import check as run_check
    from wastedcores.topology.cpulist import parse_cpulist

    opened = open_input(trace, format)
    if window:
        between, cpus = _measured(opened.header, between, cpus)
    result = run_check(
        opened,
        persist_ns=duration_ns(persist, "--persist"),
        cpus=None if cpus is None else list(parse_cpulist(cpus)),
        between=between,
        ignore_affinity=ignore_affinity,
        silent=silent,
    )
    if as_json:
        print_json(result.to_json())
    else:
        print(describe(result, between if window else None))
    raise typer.Exit(EXIT[result.verdict])


def _measured(
    header: Header, between: tuple[str, str] | None, cpus: str | None
) -> tuple[tuple[str, str] | None, str | None]:
    """What is asked for, else what the recording names.

    Raises
    ------
    UsageError
        It names neither a window nor CPUs.
    """
    window, named = header.measured
    if window is None and named is None:
        raise UsageError(
            "--window: this recording names no measured window. Say which one with --between and --cpus, or leave "
            "--window out to count all of it."
        )
    return between or window, cpus or named


def describe(result: CheckResult, window: tuple[str, str] | None = None, most: int = 10) -> str:
    """The text that a person reads, under 80 columns; ``window``: the recording's own, if that was counted."""
    from wastedcores.topology.cpulist import format_cpulist

    header = result.trace.header
    total = result.duration_ns
    share = 100 * result.mean(result.wall_ns)
    persistent = int(result.episodes["persistent"].sum())
    counted = len(result.counted_cpus)
    lines = [
        f"{result.trace.name}: {result.verdict.upper()}",
        "",
        f"  looked at      {human_ns(total)} on {counted} of {result.cpus} CPUs"
        + (f", {header.events:,} events" if header.events is not None else ""),
        f"  idle beside overloaded CPUs for {human_ns(result.wall_ns)} ({share:.1f} % of the time)",
        f"  wasted         {human_ns(result.thread_ns)} of CPU time, "
        f"{result.mean(result.thread_ns):.2f} CPUs on average",
        f"  busy           {result.mean(result.busy_ns):.1f} CPUs on average",
        f"  episodes       {result.episodes.height + result.episodes_dropped:,}, of which {persistent} lasted "
        f"{human_ns(result.persist_ns)} or more",
        f"  affinity       {result.affinity}",
    ]
    marks, named = header.measured
    whole = result.duration_ns == (header.end_ns or 0) - (header.start_ns or 0)
    if window:
        lines.insert(3, f'  window         "{window[0]}" to "{window[1]}"')
    elif whole and counted == result.cpus and (marks or named):
        part = [f'"{marks[0]}" to "{marks[1]}"'] if marks else []
        part += [f"CPUs {named}"] if named else []
        lines.append("  hint           --window counts what the recording names, as report does:")
        lines.append(f"                 {', '.join(part)}")
    if result.silent_cpus:
        lines.append(
            f"  silent CPUs    {_clip(format_cpulist(result.silent_cpus))} (no event; taken as idle)"
        )
    if result.unknown_cpus:
        lines.append(f"  unknown CPUs   {_clip(format_cpulist(result.unknown_cpus))} (left out)")
    if header.lost_total:
        lines.append(f"  LOST EVENTS    {header.lost_total:,}: the verdict is unknown")
    lines += [f"  note           {n}" for n in result.notes if "events were lost" not in n]
    if result.episodes.height:
        lines += ["", *_episode_lines(result, most)]
    return "\n".join(lines)


def _episode_lines(result: CheckResult, most: int) -> list[str]:
    import polars as pl

    from wastedcores.topology.cpulist import format_cpulist

    table = result.episodes.with_columns(length=pl.col("end_ns") - pl.col("start_ns"))
    worst = table.top_k(most, by="length").sort("length", descending=True)
    which = f"the {worst.height} longest" if worst.height > 1 else "the longest"
    lines = [f"  {which} (start from the interval's beginning):", ""]
    lines.append("  start        length    wasted    idle CPUs         overloaded CPUs")
    for row in worst.iter_rows(named=True):
        start = human_ns(row["start_ns"] - result.start_ns)
        lines.append(
            f"{'*' if row['persistent'] else ' '} {start:<11}  {human_ns(row['length']):<8}  "
            f"{human_ns(row['wasted_ns']):<8}  {_clip(format_cpulist(row['idle_cpus']), 16):<16}  "
            f"{_clip(format_cpulist(row['overloaded_cpus']), 16)}"
        )
    if bool(worst["persistent"].any()):
        lines.append(f"  * persistent: {human_ns(result.persist_ns)} or more")
    return lines


def _clip(text: str, width: int = 40) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
