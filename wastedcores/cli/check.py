"""``wastedcores check``: the invariant over a trace."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._groups import Counted, with_groups
from wastedcores.cli._options import (
    AsJson,
    Chronic,
    IgnoreAffinity,
    OptionalTrace,
    Persist,
    RecordedMachine,
    Silent,
    SnapshotSource,
    TraceFormat,
)
from wastedcores.cli._output import EXIT_CODES, EXIT_OF, fitted, print_json, print_next
from wastedcores.errors import UsageError
from wastedcores.units import duration_ns, share

_NOTES = """A recording may name the window and the CPUs of its workload; only these are counted unless --whole, --between
or --cpus is given. `wastedcores watch` checks the running machine, and `wastedcores fleet` many traces."""


@app.command(
    epilog=epilog(
        "check trace.txt.xz",
        "check perf.txt --json --persist 50ms",
        "check group-construction-buggy --whole",
        'check guest.parquet --cpus 8-23 --between "rec: make start" "rec: make end"',
        "check trace.txt --snapshot tasks.json",
        "check trace.parquet --cgroups",
        notes=_NOTES,
        exit_codes=EXIT_CODES,
    )
)
@with_groups
def check(
    ctx: typer.Context,
    trace: OptionalTrace = None,
    as_json: AsJson = False,
    persist: Persist = "100ms",
    chronic: Chronic = "0.75%",
    counted: Counted = Counted(),
    ignore_affinity: IgnoreAffinity = False,
    silent: Silent = None,
    format: TraceFormat = None,
    snapshot: SnapshotSource = None,
    machine: RecordedMachine = None,
    cgroups: Annotated[
        bool,
        Option(
            "--cgroups",
            help="Also divide the time of each control group: ran, waited, wasted, throttled, stolen.",
        ),
    ] = False,
    limit: Annotated[
        str,
        Option(metavar="N|all", help="With --json: list the longest N episodes, doubts and waits."),
    ] = "10",
) -> None:
    """Find CPUs that were idle while threads waited.

    A waiting thread counts only if it may run on the idle CPU, unless --ignore-affinity is given.
    """
    persist_ns = duration_ns(persist, "--persist")
    chronic_share = share(chronic, "--chronic")
    most = None if limit == "all" else _number(limit)
    if trace is None:
        raise UsageError(
            "no trace given. Name a trace file or a data set; `wastedcores watch` checks this machine."
        )
    from wastedcores.analysis.moves import moves, moves_words
    from wastedcores.analysis.stated_machine import recorded_on
    from wastedcores.cli._input import open_input
    from wastedcores.cpulist import parse_cpulist
    from wastedcores.invariant import check as run_check
    from wastedcores.invariant import who_took
    from wastedcores.words.checked import describe, describe_groups
    from wastedcores.words.steps import next_command

    result = run_check(
        recorded_on(open_input(trace, format, snapshot), machine or ""),
        persist_ns=persist_ns,
        chronic_share=chronic_share,
        cpus=None if counted.cpus is None else parse_cpulist(counted.cpus),
        between=counted.between,
        whole=counted.whole,
        ignore_affinity=ignore_affinity,
        silent=silent,
    )
    table = who_took(result) if cgroups else None
    moved = moves(result.trace, result.start_ns, result.end_ns)
    if as_json:
        more = {} if table is None else {"cgroups": table[:most].to_dicts()}
        print_json(result.to_json(most) | {"moves": moved} | more)
    else:
        print(fitted(describe(result, moved=moves_words(moved))))
        if table is not None:
            print(fitted("\n" + describe_groups(table)))
        print_next(*next_command(result, str(trace)), ctx)
    raise typer.Exit(EXIT_OF[result.verdict])


def _number(text: str) -> int:
    """Return the number that --limit gives."""
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise UsageError(f"--limit {text!r}: expected a number below a billion, or all.")
    return int(text)
