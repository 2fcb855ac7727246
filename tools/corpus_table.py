"""Measure what every file of a corpus of foreign traces gives, and write the table in docs/trace-formats.md.

    python tools/corpus_table.py FOLDER

FOLDER has folders of traces by format and ``counts.json``, which says of each file how many events its own tool counts. Only the
column about the verdict before comes from the table that stands there. The time is the CPU time to open and check a file for the
second time in one process, so that compiled code is ready.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wastedcores.analysis.critical_path import critical_path
from wastedcores.analysis.explain import explain
from wastedcores.errors import WastedCoresError
from wastedcores.invariant import check
from wastedcores.prediction.predict import whatif
from wastedcores.trace.io import open_trace
from wastedcores.units import human_ns

PAGE = Path(__file__).resolve().parents[1] / "docs" / "trace-formats.md"
BEGIN, END = "<!-- corpus: written by python tools/corpus_table.py -->\n", "<!-- /corpus -->"
HEAD = (
    "file",
    "format",
    "events",
    "verdict before",
    "verdict now",
    "longest at most",
    "`explain`",
    "`path`",
    "`whatif`",
    "s",
)
#: what the messages of refusals begin or contain -> their cell
REFUSALS = {
    r"no sched_wakeup|no wakeup": "no wakeups",
    r"is not modelled|no model|has no balancer|older than": "no model of its balancer",
    r"too little to see|too short": "too short",
}


def said(ask: Callable[[], str]) -> str:
    """Return an answer, or in short why there is none."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            return ask()
    except WastedCoresError as e:
        text = str(e)
        found = (cell for words, cell in REFUSALS.items() if re.search(words, text))
        return next(found, text.partition(": ")[2][:60])


def verdict(result: Any) -> str:
    """Return the verdict and its kind."""
    kind = result.kind
    return result.verdict if kind == "none" else f"{result.verdict} ({kind})"


def row(file: Path, name: str, want: object, before: str) -> tuple[str, ...]:
    """Return the cells about a file."""
    check(open_trace(file))
    began = time.process_time()
    trace = open_trace(file)
    result = check(trace)
    took = time.process_time() - began
    kinds = trace.kinds()
    for kind, n in want.items() if isinstance(want, dict) else ():
        assert kinds.get(kind, 0) == n, (
            f"{name}: {kinds.get(kind, 0)} events of {kind}, and its own tool counts {n}"
        )
    return (
        name,
        trace.header.source_format,
        f"{trace.header.events or sum(kinds.values()):,}",
        before,
        verdict(result),
        human_ns(result.bound.longest_at_most_ns),
        said(lambda: explain(result).looks_like.replace("_", " ").lower()),
        said(lambda: critical_path(trace) and "a path"),
        said(lambda: f"trust {whatif(trace, seeds=1).trust}"),
        f"{took:.2f}",
    )


def main(folder: Path) -> None:
    """Measure the files of a folder and write the table."""
    text = PAGE.read_text()
    assert END in text.partition(BEGIN)[2], PAGE
    before = dict(re.findall(r"^\| (\S+/\S+) \| [^|]+ \| [^|]+ \| ([^|]+) \|", text, re.MULTILINE))
    rows = [HEAD, ("---",) * len(HEAD)]
    counts = json.loads((folder / "counts.json").read_text())
    for name, want in counts.items():
        if want in ("refuse", "schedstat"):
            try:
                open_trace(folder / name)
            except WastedCoresError:
                continue
            raise SystemExit(f"{name} opens, and should be refused.")
        print(name, file=sys.stderr)
        rows.append(row(folder / name, name, want, before.get(name, "refused")))
    table = "".join(f"| {' | '.join(cells)} |\n" for cells in rows)
    start, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{start}{BEGIN}{table}{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    main(parser.parse_args().folder)
