"""``wastedcores compare TRACE TRACE``: two recorded traces on one time axis."""

from __future__ import annotations

import sys
from pathlib import Path

from typer import Exit

from wastedcores.cli._output import check_writable, print_json, print_next, wrapped
from wastedcores.cli._verb import ENDINGS

#: exit codes, the worst first
_CODES = (("fail", 1), ("unknown", 3))


def gate(
    names: tuple[Path, Path],
    rules: Path,
    *,
    persist_ns: int,
    whole: bool,
    as_json: bool,
    tap: bool,
    junit: Path | None,
    markdown: Path | None,
) -> None:
    """Judge the rules, print and write what came of them, and exit with the worst of it."""
    from wastedcores.analysis.gate import judge, read_rules
    from wastedcores.cli._input import open_input
    from wastedcores.invariant import check
    from wastedcores.words import gate as words

    asked = read_rules(rules)
    for file in (junit, markdown):
        if file is not None:
            check_writable(file)
    before, after = (
        [check(open_input(f), persist_ns=persist_ns, whole=whole) for f in _recordings(name)]
        for name in names
    )
    outcomes = judge(asked, before, after)
    if junit is not None:
        junit.write_text(words.junit(outcomes))
    if markdown is not None:
        with markdown.open("a") as summary:  # GitHub's summary is a file to which all steps append
            summary.write(words.markdown(outcomes, names[0].name, names[1].name))
    if as_json:
        print_json({"schema": "wastedcores.gate/1", "rules": words.rows(outcomes)})
    else:
        print((words.tap if tap else words.text)(outcomes))
    states = {o.state for o in outcomes}
    code = next((code for state, code in _CODES if state in states), 0)
    if code == 3:
        print("unknown is no pass: see the reasons above", file=sys.stderr)
    raise Exit(code)


def _recordings(name: Path) -> list[Path]:
    """Return the recordings of one side: a file or a data set, or all files of a folder."""
    from wastedcores.errors import UsageError

    if not name.is_dir():
        return [name]
    files = sorted(p for p in name.iterdir() if p.is_file() and not p.name.startswith("."))
    if not files:
        raise UsageError(f"{name}: this folder has no recording. Expected one or more traces.")
    return files


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
            from wastedcores.figures.aligned_pair import aligned
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
            f"wastedcores compare {names[0]} {names[1]} -o pair.html", "both on one time axis"
        )
