"""``wastedcores watch``: the invariant on the running machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import (
    AsJson,
    Backend,
    Chronic,
    Persist,
    Pseudonyms,
    Seconds,
    above_zero,
    refuse_unused,
)
from wastedcores.cli._output import EXIT_CODES, EXIT_OF, fitted, print_json
from wastedcores.errors import UsageError
from wastedcores.units import duration_ns, human_ns, share

if TYPE_CHECKING:
    from wastedcores.capture import LiveCheck


def _read_config(ctx: typer.Context, path: Path | None) -> Path | None:
    """Take the defaults of the other options from a file."""
    if path is not None:
        from wastedcores.capture.service import read_config

        ctx.default_map = read_config(path)
    return path


_NOTES = """This needs root (see `wastedcores doctor`), but only for the collector, which sudo starts. Each violation is recorded
with the time before it; -o keeps the recordings and writes a report about the worst one. With --serve or --textfile, `watch` is
a service (docs/how-to/fleet.md); -o then keeps one recording of each kind per hour, within the limits of --keep-mb and
--keep-days."""


@app.command(
    epilog=epilog(
        "watch --seconds 60",
        "watch --seconds 60 -S 1s -M 100ms -o evidence",
        "watch --event-driven --before 0 -o evidence",
        "watch --serve :9969 -o evidence --keep-mb 500",
        "watch --textfile /var/lib/prometheus/node-exporter/wastedcores.prom",
        "watch --config /etc/wastedcores/watch.toml",
        notes=_NOTES,
        exit_codes=EXIT_CODES,
    )
)
def watch(
    ctx: typer.Context,
    seconds: Seconds = None,
    persist: Persist = "100ms",
    chronic: Chronic = "0.75%",
    period: Annotated[
        str,
        Option(
            "--period",
            "-S",
            metavar="TIME",
            help="Look at the CPUs once in this time (the paper's S).",
        ),
    ] = "1s",
    event_driven: Annotated[
        bool,
        Option(
            "--event-driven",
            help="Look at every change of a runqueue; this notices a violation within 10 ms after it has lasted --persist.",
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
            help="Record this long before a violation, too. With 0, only the 20 ms after it are recorded, which costs least.",
        ),
    ] = 2.0,
    serve: Annotated[
        str | None,
        Option(
            metavar=":PORT",
            help="Serve metrics for Prometheus at this address (:PORT alone listens on the loopback only).",
        ),
    ] = None,
    textfile: Annotated[
        Path | None,
        Option(
            metavar="FILE.prom", help="Write the metrics for node_exporter's textfile collector."
        ),
    ] = None,
    keep_mb: Annotated[
        float,
        Option(
            metavar="MB",
            callback=above_zero,
            help="A service deletes the oldest recordings in -o when they exceed this size.",
        ),
    ] = 1000.0,
    keep_days: Annotated[
        float,
        Option(
            metavar="DAYS",
            callback=above_zero,
            help="A service deletes a recording in -o after this many days.",
        ),
    ] = 7.0,
    cgroups: Annotated[
        int,
        Option(
            metavar="N",
            min=0,
            max=100_000,
            help="At most this many control groups have metrics of their own.",
        ),
    ] = 100,
    pseudonyms: Pseudonyms = None,
    config: Annotated[
        Path | None,
        Option(
            metavar="FILE.toml",
            is_eager=True,
            callback=_read_config,
            help='Take the defaults of these options from a file, such as persist = "50ms".',
        ),
    ] = None,
    backend: Backend = "auto",
    deficit: Annotated[
        bool,
        Option("--deficit", help="Also find CPUs whose threads wait more than 200 ms per second."),
    ] = False,
    useless: Annotated[
        bool,
        Option(
            "--useless", help="Also count moves of threads to a queue that is at least as loaded."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Watch this machine for CPUs that idle while threads wait."""
    persist_ns, period_ns = duration_ns(persist, "--persist"), duration_ns(period, "--period")
    chronic_share = share(chronic, "--chronic")
    from wastedcores.capture import LiveOptions, live_check

    options = LiveOptions(
        period_ns,
        persist_ns,
        event_driven=event_driven,
        before_s=before,
        deficit=deficit,
        useless=useless,
        chronic_share=chronic_share,
    )
    service = serve is not None or textfile is not None
    if not service:
        of_services = ("keep_mb", "keep_days", "cgroups")
        refuse_unused(ctx, of_services, "only a service (--serve or --textfile) has such limits")
    if pseudonyms is not None and not service:
        raise UsageError(
            "--pseudonyms: only a service has names to replace. Add --serve or --textfile, or use `capture --pseudonyms`."
        )
    if service:
        if backend == "tracefs":
            raise UsageError("--serve and --textfile need the BPF backend. Leave --backend out.")
        from wastedcores.capture.service import ServiceOptions, run_service

        kept = ServiceOptions(
            serve=serve,
            textfile=textfile,
            output=output,
            keep_mb=keep_mb,
            keep_days=keep_days,
            cgroups=cgroups,
            pseudonyms=pseudonyms,
        )
        result = run_service(kept, options, seconds=seconds, progress=_say)
    else:
        result = live_check(options, seconds=seconds, output=output, backend=backend, progress=_say)
    page = _report(result, output) if output is not None and not service else None
    if as_json:
        print_json({**result.to_json(), "report": page})
    else:
        print(fitted(_describe(result, page)))
    raise typer.Exit(EXIT_OF[result.verdict])


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _report(result: LiveCheck, output: Path) -> str | None:
    """Write a page about the worst violation into the folder of its recordings, and return its path."""
    found = result.confirmed or result.chronic
    if not found or result.worst is None or result.worst.trace.path is None:
        return None
    from wastedcores.reports.notebook import report

    made = report(
        str(result.worst.trace.path),
        out=output / "report",
        parameters={"persist": f"{result.options.persist_ns}ns"},
        progress=False,
    )
    return str(made.html)


def _describe(result: LiveCheck, page: str | None) -> str:
    options, other = result.options, result.other
    lines = [
        f"this machine: {result.verdict.upper()}",
        "",
        f"  looked         {result.checks:,} times in {result.seconds:.1f} s ({result.backend})",
        f"  suspected      {result.suspected:,}",
        f"  confirmed      {result.confirmed:,} (lasted {human_ns(options.persist_ns)} or more)",
    ]
    if options.useless:
        lines.append(
            f"  balancing      {other.get('moves', 0):,} moves, {other.get('useless', 0):,} of them to a "
            "queue that was at least as loaded"
        )
    if options.deficit:
        lines.append(f"  run-delay deficits {other.get('deficits', 0):,}")
    for v in result.violations[:10]:
        lines.append(
            f"    CPU {v['idle_cpu']} was idle beside CPU {v['busy_cpu']} for at least {v['lasted_ms']} ms"
        )
    lines += [
        f"    chronic: in five of ten slices of {human_ns(c['window_ns'] // 10)} at least {c['share']:.1%} of the CPU time "
        "used was wasted"
        for c in result.chronic[:10]
    ]
    if len(result.chronic) > 10:
        lines.append(f"    and so in {len(result.chronic) - 10:,} more recordings")
    if result.worst is not None:
        lines += [
            "",
            f"  worst recording: {human_ns(result.worst.wall_ns)} of violation in "
            f"{human_ns(result.worst.duration_ns)},",
            f"  {human_ns(result.worst.thread_ns)} of CPU time wasted",
        ]
    lines += [f"  note: {n}" for n in result.notes]
    if page is not None:
        lines.append(f"  report: {page}")
    return "\n".join(lines)
