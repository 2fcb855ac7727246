"""``wastedcores score``: prints one JSON object for people who develop schedulers and programs that generate them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument

from wastedcores.cli._app import app, epilog
from wastedcores.cli._groups import Counted, with_groups
from wastedcores.cli._options import Chronic, IgnoreAffinity, Persist, Silent, SnapshotSource
from wastedcores.cli._output import EXIT_CODES, EXIT_OF, print_json
from wastedcores.units import duration_ns, share

_NOTES = """lost_core_s is the CPU time during which a CPU was idle although it could have run a waiting thread; it lies between
at_least_core_s and at_most_core_s. You can give several traces, one for each seed; numbers are then sums, and the verdict is the
worst one."""


@app.command(
    epilog=epilog(
        "score group-imbalance-buggy",
        "score seed-1.parquet seed-2.parquet seed-3.parquet",
        "score trace.txt --snapshot tasks.json --between start stop",
        notes=_NOTES,
        exit_codes=EXIT_CODES,
    )
)
@with_groups
def score(
    traces: Annotated[
        list[str],
        Argument(
            metavar="TRACE",
            help="Traces (files or folders of any format), or names of data sets.",
        ),
    ],
    counted: Counted = Counted(),
    persist: Persist = "100ms",
    chronic: Chronic = "0.75%",
    ignore_affinity: IgnoreAffinity = False,
    silent: Silent = None,
    snapshot: SnapshotSource = None,
) -> None:
    """Print the core-seconds that schedules lost, as JSON.

    The JSON object also has bounds, a confidence and the verdict. It is meant for the development and generation of schedulers.
    """
    persist_ns, chronic_share = duration_ns(persist, "--persist"), share(chronic, "--chronic")
    from wastedcores.cli._input import open_input
    from wastedcores.cpulist import parse_cpulist
    from wastedcores.invariant import check
    from wastedcores.invariant import score as run_score

    found = run_score(
        [
            check(
                open_input(Path(trace), snapshot=snapshot),
                persist_ns=persist_ns,
                chronic_share=chronic_share,
                cpus=None if counted.cpus is None else parse_cpulist(counted.cpus),
                between=counted.between,
                whole=counted.whole,
                ignore_affinity=ignore_affinity,
                silent=silent,
            )
            for trace in traces
        ]
    )
    print_json(found)
    raise typer.Exit(EXIT_OF[found["verdict"]])
