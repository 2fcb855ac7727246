"""``wastedcores check --live``: run the online checker and describe what it found."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wastedcores.cli._output import print_json
from wastedcores.units import human_ns

if TYPE_CHECKING:
    from wastedcores.capture import LiveCheck, LiveOptions


def run_live(
    options: LiveOptions, seconds: float | None, output: Path | None, backend: str, as_json: bool
) -> str:
    """Check this machine, print the result and return the verdict.

    ``output`` is the folder for recordings of violations and for a report about the worst of them; None keeps none.
    """
    from wastedcores.capture import live_check

    result = live_check(
        options,
        seconds=seconds,
        output=output,
        backend=backend,
        progress=lambda line: print(line, file=sys.stderr),
    )
    page = _report(result, output) if output is not None else None
    if as_json:
        print_json({**result.to_json(), "report": page})
    else:
        print(_describe(result, page))
    return result.verdict


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
        for c in result.chronic
    ]
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
