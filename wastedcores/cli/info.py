"""``wastedcores info``: the facts about a trace, without any judgement."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import AsJson, Between, TraceFormat, TraceInput
from wastedcores.cli._output import print_json, print_next
from wastedcores.units import human_ns

if TYPE_CHECKING:
    from wastedcores.trace.schedstat import Counters


@app.command(
    epilog=epilog(
        "info trace.txt.xz",
        "info group-imbalance-buggy --json",
        "info long.parquet --between 4.34 4.54",
    )
)
def info(
    ctx: typer.Context,
    trace: TraceInput,
    as_json: AsJson = False,
    format: TraceFormat = None,
    between: Between = None,
) -> None:
    """Show the facts about a trace.

    These are its format, kernel, clock, machine and interval, the number of events of each kind, and lost events. Facts about
    tasks and configuration are also shown: affinity, policies, limits of CPU time, throttling, isolated CPUs and cpusets.
    """
    from wastedcores.cli._input import open_input
    from wastedcores.cpulist import format_cpulist
    from wastedcores.trace.schedstat import read_counters
    from wastedcores.words.recorded_facts import recorded_facts

    if format is None and (counters := read_counters(trace)) is not None:
        _counters(trace, counters, as_json=as_json)
        return
    opened = open_input(trace, format, between=between)
    header, kinds = opened.header, opened.kinds()
    if as_json:
        answer = {"schema": "wastedcores.info/1", "name": opened.name}
        print_json(answer | {"header": header.model_dump(mode="json"), "kinds": kinds})
        return
    duration = (header.end_ns or 0) - (header.start_ns or 0)
    print(f"{opened.name}")
    for label, value in (
        ("format", header.source_format),
        ("kernel", header.kernel_release or "not stated"),
        *([("host", header.host)] if header.host else []),
        ("clock", header.clock or "not stated"),
        ("CPUs", header.cpus),
        ("interval", f"{header.start_ns} .. {header.end_ns} ns ({human_ns(duration)})"),
        ("events", f"{header.events:,}" if header.events is not None else "not counted"),
        ("lost", _lost(header.lost)),
    ):
        print(f"  {label:<10} {value}")
    for kind, n in sorted(kinds.items(), key=lambda item: -item[1]):
        print(f"    {kind:<12} {n:>12,}")
    facts = {
        "recording": header.recording,
        "measured window": header.window and '"{}" to "{}"'.format(*header.window.ends),
        "counted CPUs": header.counted_cpus and format_cpulist(header.counted_cpus),
        "kernel model": header.kernel_model,
        "cut short": header.truncated_last_line,
        "unproven": header.unproven,
        **recorded_facts(header, kinds),
        **header.provenance,
    }
    for key, text in facts.items():
        if text:
            print(f"  {key}: {text}")
    print_next(
        f"wastedcores check {shlex.quote(str(trace))}", "were cores idle while threads waited?", ctx
    )


def _counters(file: Path, found: Counters, *, as_json: bool) -> None:
    """Describe a file that has counters of the scheduler instead of events."""
    from wastedcores.cpulist import format_cpulist

    cpus, domains = (
        format_cpulist(list(found.cpus)),
        max(len(c.domains) for c in found.cpus.values()),
    )
    if as_json:
        facts = {
            "source": found.source,
            "version": found.version,
            "jiffies": found.jiffies,
            "cpus": cpus,
            "domains": domains,
        }
        print_json({"schema": "wastedcores.info/1", "name": file.name, "counters": facts})
        return
    print(file.name)
    for label, value in (
        (
            "format",
            f"{found.source}: counters of the scheduler, version {found.version}; this is no trace",
        ),
        ("CPUs", f"{cpus}, each in {domains} domain{'s' if domains != 1 else ''} at most"),
        (
            "time",
            f"{found.jiffies:.0f} jiffies{' since the machine started' if found.since_boot else ''}",
        ),
        ("tells", "how often CPUs balanced, how long threads ran and waited in all"),
        (
            "not",
            "whether a CPU was idle while a thread waited; for that record a trace (perf sched record)",
        ),
    ):
        print(f"  {label:<10} {value}")
    print_next(
        f"wastedcores schedstat {shlex.quote(str(file))}",
        "the counters, as perf sched stats report prints them",
    )


def _lost(lost: dict[int, int]) -> str:
    if not lost:
        return "none"
    return ", ".join(
        f"{'some' if n < 0 else n} on {'an unknown CPU' if cpu < 0 else f'CPU {cpu}'}"
        for cpu, n in sorted(lost.items())
    )
