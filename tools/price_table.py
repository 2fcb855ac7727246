"""Say of all bundled recordings whether moving waiting threads would have paid, and write the table of docs/rightly-idle.md.

    python tools/price_table.py [-n] [NAME ...]

With ``-n`` or names the table is only printed.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from predict_recordings import bounded, recorded_on

from wastedcores.analysis.explain import explain
from wastedcores.analysis.price import Price
from wastedcores.capture.snapshot import read_snapshot, with_snapshot
from wastedcores.errors import TraceFormatError
from wastedcores.invariant import check
from wastedcores.topology.machine import Machine
from wastedcores.trace.named import open as opened
from wastedcores.trace.trace import Trace
from wastedcores.units import human_ns
from wastedcores_studies.recordings.recording import Recording

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "rightly-idle.md"
MADE = re.compile(r"(<!-- made by tools/price_table.py -->\n).*?(<!-- end -->)", re.S)
HEAD = (
    "| recording | verdict | looks like | waited beside an idle CPU | own CPU woke up | same cache | another cache "
    "| longer than a move costs: most, usual, least | turns at | says |\n|---|---|---|---|---|---|---|---|---|---|"
)
#: name, trace, machine and kernel; None for those that the trace names
Found = tuple[str, Trace, Machine | None, str | None]


def told(trace: Trace, snapshot: Path) -> Trace:
    """Add what a snapshot beside a trace tells, if there is one."""
    if not snapshot.exists():
        return trace
    return with_snapshot(trace, read_snapshot(snapshot), str(snapshot))


def recordings() -> Iterator[Found]:
    """Return all bundled recordings."""
    for folder in ("recordings", "recordings-modern"):
        for meta in sorted((ROOT / "datasets" / folder).glob("*/meta.json")):
            r = Recording.read(meta.parent)
            trace = told(bounded(r), meta.parent / "tasks.json")
            yield meta.parent.name, trace, recorded_on(r), r.kernel.name
    for file in sorted((ROOT / "datasets" / "recordings-kinds").glob("*/meta.json")):
        meta = json.loads(file.read_text())
        trace = opened(file.parent / "trace.txt.xz")
        yield file.parent.name, trace, Machine.from_dict(meta["machine"]), meta["kernel"]
    for name in ("kernel-build", "live-balancing-off", "live-balancing-on"):
        yield name, opened(ROOT / "datasets" / "small" / f"{name}.parquet"), None, None
    with tempfile.TemporaryDirectory() as scratch:
        for facts in sorted((ROOT / "tests" / "invariant" / "guest").glob("*.json")):
            named = facts.parent.glob(f"{facts.stem}.*.xz")
            (packed,) = (f for f in named if ".snapshot." not in f.name)
            both = packed, facts.with_suffix(".snapshot.json.xz")
            file, snapshot = (Path(scratch) / source.stem for source in both)
            for target, source in zip((file, snapshot), both, strict=True):
                target.write_bytes(lzma.decompress(source.read_bytes()))
            kernel = json.loads(facts.read_text())["kernel"]
            # one that counts something else than nanoseconds is refused, as it must be
            with suppress(TraceFormatError):
                yield facts.stem, told(opened(file), snapshot), None, kernel


def row(name: str, trace: Trace, machine: Machine | None, kernel: str | None) -> str:
    """Return the line of a recording."""
    result = check(trace)
    found = explain(result, machine, kernel, trace.header.tasks)
    head = f"| {name} | {result.verdict}, {result.kind} | {found.looks_like.replace('_', ' ')} |"
    return f"{head} {cells(found.price)} |"


def cells(price: Price | None) -> str:
    """Return the cells about the price."""
    if price is None:
        return "0 | | | | | | nothing"
    shares = (
        f"{100 * ns / price.waited_ns:.0f} %"
        for ns in (price.waking_ns, price.cache_ns, price.node_ns + price.far_ns)
    )
    longer = (f"{100 * s:.0f}" for s in (price.share_least, price.share, price.share_most))
    turns = human_ns(price.turns_at_ns) if price.turns_at_ns else "no price"
    says = price.judgement.replace("_", " ")
    return " | ".join([human_ns(price.waited_ns), *shares, f"{', '.join(longer)} %", turns, says])


def main() -> None:
    """Write the table."""
    assert MADE.search(PAGE.read_text()), PAGE
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("-n", "--dry-run", action="store_true")
    args = parser.parse_args()
    lines, unknown = [HEAD], set(args.names)
    print(HEAD)
    for found in recordings():
        unknown.discard(found[0])
        if not args.names or found[0] in args.names:
            lines.append(row(*found))
            print(lines[-1], flush=True)
    if unknown:
        parser.error(f"there is no recording {', '.join(sorted(unknown))} to judge")
    if not args.dry_run and not args.names:
        text = "\n".join(lines)
        PAGE.write_text(MADE.sub(lambda m: f"{m[1]}{text}\n{m[2]}", PAGE.read_text()))


if __name__ == "__main__":
    main()
