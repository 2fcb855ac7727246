"""``wastedcores compare A B --gate RULES``: whether recordings before and after a change keep the rules."""

from __future__ import annotations

import sys
from pathlib import Path

from typer import Exit

from wastedcores.cli._output import check_writable, print_json

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
    """Judge the rules, print and write the outcomes, and exit with the code of the worst outcome."""
    from wastedcores.analysis.gate import judge, read_rules
    from wastedcores.cli._input import open_input
    from wastedcores.files import written_whole
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
        with written_whole(junit) as part:
            part.write_text(words.junit(outcomes))
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
    """Return the recordings of one side: a trace, a data set, or all traces in a folder that is not itself a trace."""
    from wastedcores.errors import UsageError

    if not name.is_dir():
        return [name]
    form = _format(name)
    # a folder of folders in the Common Trace Format also has the format "ctf", but it may hold several traces
    if form and (form != "ctf" or (name / "metadata").is_file()):
        return [name]
    seen = (p for p in name.iterdir() if not p.name.startswith("."))
    found = sorted(p for p in seen if p.is_file() or (p.is_dir() and _format(p)))
    if not found:
        raise UsageError(f"{name}: this folder has no recording. Expected one or more traces.")
    return found


def _format(folder: Path) -> str:
    """Return the format of a folder that is a trace or has traces in subfolders; empty if neither is true."""
    from wastedcores.errors import WastedCoresError
    from wastedcores.trace.io import sniff

    try:
        return sniff(folder)
    except WastedCoresError:
        return ""
