"""``wastedcores check``: the invariant, over a trace or on the running machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import (
    AsJson,
    Backend,
    Between,
    Chronic,
    Cpus,
    IgnoreAffinity,
    Persist,
    Quiet,
    Scheduler,
    Seconds,
    SnapshotSource,
    TraceFormat,
    Whole,
    Workers,
)
from wastedcores.cli._output import print_json
from wastedcores.errors import UsageError
from wastedcores.units import duration_ns, human_ns, share

if TYPE_CHECKING:
    from wastedcores.invariant import CheckResult

EXIT = {"clean": 0, "violations": 1, "unknown": 3}
_EXIT_CODES = "0 clean, 1 violations, 2 bad use or input, 3 unknown because the trace cannot tell."
_NOTES = """A recording may name the window and the CPUs of its workload; only these are counted unless --whole, --between
or --cpus is given. The options from --seconds on are for --live, which checks the running machine (this needs root; see
`wastedcores doctor`)."""


@app.command(
    epilog=epilog(
        "check trace.txt.xz",
        "check perf.txt --json --persist 50ms",
        "check group-construction-buggy --whole",
        'check guest.parquet --cpus 8-23 --between "rec: make start" "rec: make end" --ignore-affinity',
        "check trace.txt --snapshot tasks.json",
        "check --live --seconds 60 -S 1s -M 100ms -o evidence",
        "check traces/ --table fleet.parquet --page fleet.html",
        "check s3://bucket/traces --table fleet.parquet --scheduler tcp://head:8786",
        notes=_NOTES,
        exit_codes=_EXIT_CODES,
    )
)
def check(
    trace: Annotated[
        str | None,
        Argument(
            metavar="TRACE",
            help="A trace (a file or a folder of any format), or a data set's name. With --table: a folder of traces, its "
            "URL, or a text file *.list with a path or URL in each line.",
        ),
    ] = None,
    as_json: AsJson = False,
    persist: Persist = "100ms",
    chronic: Chronic = "0.75%",
    cpus: Cpus = None,
    between: Between = None,
    whole: Whole = False,
    ignore_affinity: IgnoreAffinity = False,
    silent: Annotated[
        str | None,
        Option(
            metavar="idle|unknown",
            help="Take online CPUs without any event as this. Default: unknown, unless the trace lists what ran at its start.",
        ),
    ] = None,
    format: TraceFormat = None,
    snapshot: SnapshotSource = None,
    limit: Annotated[
        str,
        Option(
            "--limit",
            metavar="N|all",
            help="With --json: the longest N episodes, doubts and waits.",
        ),
    ] = "10",
    live: Annotated[
        bool, Option("--live", help="Check the running machine instead of a trace.")
    ] = False,
    seconds: Seconds = None,
    period: Annotated[
        str, Option("--period", "-S", metavar="TIME", help="Look this often (the paper's S).")
    ] = "1s",
    event_driven: Annotated[
        bool,
        Option(
            "--event-driven",
            help="Look at every change; this notices a violation within M + 10 ms.",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="DIR", help="Keep each violation's recording here."),
    ] = None,
    before: Annotated[
        float,
        Option(
            metavar="SECONDS",
            help="Record this long before a violation. With 0 only the 20 ms after it are recorded, which costs least.",
        ),
    ] = 2.0,
    metrics: Annotated[
        str | None,
        Option(metavar=":PORT", help="Serve Prometheus text at this port of the loopback."),
    ] = None,
    backend: Backend = "auto",
    deficit: Annotated[
        bool, Option("--deficit", help="Also find CPUs whose threads wait more than 200 ms/s.")
    ] = False,
    useless: Annotated[
        bool, Option("--useless", help="Also count moves to a queue that is at least as loaded.")
    ] = False,
    table: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Check many traces, and write a row about each of them here, as Parquet.",
        ),
    ] = None,
    page: Annotated[
        Path | None,
        Option(
            metavar="FILE", help="Also write a page that ranks machines and hours (needs --table)."
        ),
    ] = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    quiet: Quiet = False,
) -> None:
    """Find CPUs that were idle while threads waited.

    Only threads that the idle CPU was allowed to run count, unless --ignore-affinity is given.
    """
    persist_ns = duration_ns(persist, "--persist")
    chronic_share = share(chronic, "--chronic")
    most = None if limit == "all" else _number(limit)
    if table is not None:
        from wastedcores.cli._fleet import check_fleet

        if trace is None or live or cpus or between or format or snapshot:
            raise UsageError(
                "--table checks many traces: name a folder, a URL or a file *.list, and leave --live, --cpus, --between, "
                "--format and --snapshot out."
            )
        raise typer.Exit(
            check_fleet(
                trace,
                table,
                page=page,
                scheduler=scheduler,
                workers=workers,
                as_json=as_json,
                quiet=quiet,
                persist_ns=persist_ns,
                chronic_share=chronic_share,
                whole=whole,
                ignore_affinity=ignore_affinity,
                silent=silent,
            )
        )
    if page or scheduler or workers:
        raise UsageError(
            "--page, --scheduler and --workers are for many traces: give --table as well."
        )
    if live:
        from wastedcores.capture import LiveOptions
        from wastedcores.cli._check_live import run_live

        if trace is not None:
            raise UsageError(f"{trace}: --live checks this machine; leave the trace out.")
        if snapshot is not None:
            raise UsageError("--snapshot: --live looks at the tasks itself; leave the option out.")
        options = LiveOptions(
            duration_ns(period, "--period"),
            persist_ns,
            event_driven=event_driven,
            before_s=before,
            deficit=deficit,
            useless=useless,
            metrics=metrics,
            chronic_share=chronic_share,
        )
        raise typer.Exit(EXIT[run_live(options, seconds, output, backend, as_json)])
    if trace is None:
        raise UsageError("no trace given. Name a trace file or a data set, or use --live.")
    from wastedcores.cli._input import open_input
    from wastedcores.invariant import check as run_check
    from wastedcores.topology.cpulist import parse_cpulist
    from wastedcores.words.steps import next_command

    result = run_check(
        open_input(Path(trace), format, snapshot),
        persist_ns=persist_ns,
        chronic_share=chronic_share,
        cpus=None if cpus is None else parse_cpulist(cpus),
        between=between,
        whole=whole,
        ignore_affinity=ignore_affinity,
        silent=silent,
    )
    if as_json:
        print_json(result.to_json(most))
    else:
        print(describe(result))
        print(f"\n  next           {next_command(result, trace)}")
    raise typer.Exit(EXIT[result.verdict])


def _number(text: str) -> int:
    """Read --limit."""
    if not text.isascii() or not text.isdigit():
        raise UsageError(f"--limit {text!r}: expected a number from 0 on, or all.")
    return int(text)


def describe(result: CheckResult, longest: int = 10) -> str:
    """Return the result as text for people, with the ``longest`` longest episodes."""
    from wastedcores.topology.cpulist import format_cpulist

    header = result.trace.header
    of_time = 100 * result.mean(result.wall_ns)
    persistent = int(result.episodes["persistent"].sum())
    episodes = result.episodes.height + result.episodes_dropped
    lines = [
        _headline(result),
        "",
        f"  looked at      {human_ns(result.duration_ns)} on {len(result.counted_cpus)} of {result.cpus} CPUs"
        + (f", {header.events:,} events" if header.events is not None else ""),
        *(['  window         "{}" to "{}"'.format(*result.window.ends)] if result.window else []),
        f"  a CPU was idle while threads waited on another for {human_ns(result.wall_ns)} ({of_time:.1f} % of the time)",
        f"  wasted         {human_ns(result.thread_ns)} of CPU time, "
        f"{_mean_cpus(result.mean(result.thread_ns))} on average",
        f"  busy           {result.mean(result.busy_ns):.1f} CPUs on average",
        f"  episodes       {episodes:,}, of which {persistent} lasted {human_ns(result.persist_ns)} or more"
        if episodes
        else "  episodes       none",
        *_chronic(result),
        *_avoidable(result),
        *_overloaded(result),
        *_bound(result),
        f"  affinity       {result.affinity}"
        + (f"; unknown for {result.affinity_unknown:,} threads" if result.affinity_unknown else ""),
        *_evidence(result),
        *_in_doubt(result),
    ]
    if result.silent_cpus:
        lines.append(
            f"  silent CPUs    {format_cpulist(result.silent_cpus)} (no event; "
            + (
                "left out)"
                if set(result.silent_cpus) <= set(result.unknown_cpus)
                else "taken as idle)"
            )
        )
    if result.unknown_cpus:
        lines.append(f"  unknown CPUs   {format_cpulist(result.unknown_cpus)} (left out)")
    if header.lost_total:
        lines.append(f"  LOST EVENTS    {header.lost_total:,}: the verdict is unknown")
    lines += [f"  note           {n}" for n in result.notes if "events were lost" not in n]
    if result.episodes.height:
        lines += ["", *_longest_episodes(result, longest)]
    return "\n".join(lines)


def _mean_cpus(number: float) -> str:
    return f"{number:.2f} CPUs" if number == 0 or number >= 0.01 else "less than 0.01 CPUs"


def _chronic(result: CheckResult) -> list[str]:
    """Return one line about the worst ten slices; none if there are none."""
    if result.chronic is None or not result.chronic.share:
        return []
    c = result.chronic
    return [
        f"  worst {human_ns(c.window_ns):<8} from {human_ns(c.start_ns - result.start_ns)} on: in five of its ten slices, "
        f"the waste was {100 * c.share:.1f} % of the used CPU time or more"
    ]


def _headline(result: CheckResult) -> str:
    said = [result.kind] if result.kind != "none" else []
    if result.assumed:
        said.append(f"assuming that {result.assumed}, as the paper does")
    if result.rests_on_affinity:
        said.append(f"affinity of {result.affinity_unknown:,} threads unknown")
    more = f" ({', '.join(said)})" if said else ""
    return f"{result.trace.name}: {result.verdict.upper()}{more}"


def _overloaded(result: CheckResult) -> list[str]:
    """Return one line about more work than CPUs; none if there is not."""
    if not result.overloaded:
        return []
    waiting = result.mean(result.waiting_ns)
    return [
        f"  overloaded     {waiting:.1f} threads waited on average while hardly any CPU was idle: this is no waste, but more "
        "work than CPUs"
    ]


def _bound(result: CheckResult) -> list[str]:
    """Return one line about the least and the most waste that the trace allows; none if the two are equal."""
    b = result.bound
    if b.waste_at_least_ns == b.waste_at_most_ns:
        return []
    return [
        f"  certain        at least {human_ns(b.waste_at_least_ns)} and at most {human_ns(b.waste_at_most_ns)} of CPU time "
        f"were wasted; no episode lasted longer than {human_ns(b.longest_at_most_ns)}"
    ]


#: how it is known that a thread may use an idle CPU, in words; docs/verdict.md explains each
_KNOWN_BY = {
    "told_ns": "told by the trace or a snapshot",
    "inherited_ns": "inherited from a parent that was told",
    "seen_ns": "seen there before and after",
    "assumed_ns": "only assumed",
}


def _evidence(result: CheckResult) -> list[str]:
    """Return one line on how it is known that the waiting threads could have moved; none if nobody waited avoidably."""
    total = sum(result.evidence.values())
    if not total:
        return []
    parts = [
        f"{100 * ns / total:.0f} % {_KNOWN_BY[grade]}"
        for grade, ns in result.evidence.items()
        if ns
    ]
    return [f"  evidence       that the threads could use the idle CPU: {', '.join(parts)}"]


def _avoidable(result: CheckResult) -> list[str]:
    """Return one line about the threads that waited beside an idle CPU; none if none did or no tasks are known."""
    table = result.avoidable
    if not table.height:
        return []
    total, longest = human_ns(table["avoidable_ns"].sum()), human_ns(table["longest_ns"].max())  # type: ignore[arg-type]
    return [
        f"  avoidable      {table.height:,} threads waited {total} in all while a CPU that they may use was idle; "
        f"the longest such wait lasted {longest}"
    ]


def _longest_episodes(result: CheckResult, most: int) -> list[str]:
    import polars as pl

    from wastedcores.topology.cpulist import format_cpulist

    table = result.episodes.with_columns(length=pl.col("end_ns") - pl.col("start_ns"))
    longest = table.top_k(most, by="length").sort("length", descending=True)
    rows = [
        (
            human_ns(row["start_ns"] - result.start_ns),
            human_ns(row["length"]),
            human_ns(row["wasted_ns"]),
            _clip(format_cpulist(row["idle_cpus"])),
            _clip(format_cpulist(row["overloaded_cpus"])),
        )
        for row in longest.iter_rows(named=True)
    ]
    which = (
        f"the {longest.height} longest episodes" if longest.height > 1 else "the longest episode"
    )
    idle = max(9, *(len(row[3]) for row in rows))
    lines = [f"  {which} (the start is counted from the window's beginning):", ""]
    lines.append(f"  start        length    wasted    {'idle CPUs':<{idle}}  overloaded CPUs")
    marks = longest.select(
        pl.when("certain")
        .then(pl.lit("*"))
        .when("persistent")
        .then(pl.lit("?"))
        .otherwise(pl.lit(" "))
    ).to_series()
    for mark, row in zip(marks, rows, strict=True):
        lines.append(f"{mark} {row[0]:<11}  {row[1]:<8}  {row[2]:<8}  {row[3]:<{idle}}  {row[4]}")
    if bool(longest["persistent"].any()):
        lines.append(f"  * persistent: {human_ns(result.persist_ns)} or more")
    if any(cell.endswith("…") for row in rows for cell in row):
        lines.append("  … some CPUs are left out; --json has all of them, and all episodes")
    if "?" in marks:
        lines.append("  ? persistent, but not certain: see the notes above")
    return lines


def _in_doubt(result: CheckResult) -> list[str]:
    """Return lines about the spans in which the state of a CPU is not certain; none if there are none."""
    import polars as pl

    from wastedcores.invariant.sweep import merged
    from wastedcores.topology.cpulist import format_cpulist
    from wastedcores.words.doubts import doubts_by_reason

    if not result.doubts.height:
        return []
    doubts = result.doubts
    cpus = _clip(format_cpulist(sorted({c for c in doubts["cpu"] if c >= 0})))
    # spans of several CPUs, or with several reasons, may overlap
    covered = merged(doubts.with_columns(cpu=pl.lit(0, pl.Int32)), 1)
    length = human_ns(int((covered["end_ns"] - covered["start_ns"]).sum()))
    where = f" on CPUs {cpus}" if cpus else ""
    return [
        f"  in doubt       {length}{where}, because",
        *(f"                 - {reason}" for reason in doubts_by_reason(doubts)),
    ]


def _clip(text: str, width: int = 32) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
