"""``wastedcores compare TRACE TRACE``: two recorded traces on one time axis."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from wastedcores.cli._options import ENDINGS
from wastedcores.cli._output import check_writable, print_json, print_next, wrapped


def compare_traces(
    names: tuple[Path, Path],
    *,
    by: str,
    shift: float,
    persist_ns: int,
    whole: bool,
    as_json: bool,
    output: Path | None,
) -> None:
    """Compare two recorded traces, and draw them if a file is asked for."""
    from wastedcores.analysis.alignment import align, differences, not_known_same
    from wastedcores.analysis.examined import examine
    from wastedcores.cli._input import open_input
    from wastedcores.words.aligned import compared, rows

    if output is not None:
        check_writable(output)
    run, against = (examine(open_input(name), persist_ns=persist_ns, whole=whole) for name in names)
    pair = align(run, against, by).shifted(round(shift * 1e6))
    if output is not None:
        if output.suffix in ENDINGS:
            from wastedcores.reports.perfetto import export_pair

            export_pair(pair, output)
        else:
            from wastedcores.figures.compare import aligned
            from wastedcores.reports.html import write_figure

            write_figure(aligned(pair, title=f"{run.label} and {against.label}"), output)
        print(f"wrote {output}", file=sys.stderr)
    if as_json:
        print_json(
            {
                "schema": "wastedcores.compare_traces/1",
                "traces": [str(n) for n in names],
                "aligned_by": pair.how,
                "zeros_ns": list(pair.zeros),
                "differences": differences(run, against),
                "not_known_same": not_known_same(run, against),
                "verdicts": [r.result.verdict for r in (run, against)],
                "rows": rows(pair),
            }
        )
        return
    said, *table = compared(pair).text.splitlines()
    print(wrapped(said))
    print()
    cells = [line.split("  ") for line in table]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    for row in cells:
        print("  ".join(c.ljust(n) for c, n in zip(row, widths, strict=True)).rstrip())
    if output is None:
        print_next(
            f"wastedcores compare {shlex.join(map(str, names))} -o pair.html",
            "both on one time axis",
        )
