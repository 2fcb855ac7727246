"""``wastedcores check --live``: the online checker's command-line side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wastedcores.cli._options import print_json
from wastedcores.units import duration_ns, human_ns

if TYPE_CHECKING:
    from wastedcores.capture.live import LiveCheck


def run_live(
    *,
    seconds: float | None,
    period: str,
    persist: str,
    event_driven: bool,
    output: Path | None,
    before_s: float,
    metrics: str | None,
    backend: str,
    deficit: bool,
    useless: bool,
    as_json: bool,
) -> str:
    """Check this machine; print what was found; the verdict."""
    from wastedcores.capture import live_check

    result = live_check(
        seconds=seconds,
        s_ns=duration_ns(period, "-S"),
        persist_ns=duration_ns(persist, "-M"),
        event_driven=event_driven,
        output=output,
        before_s=before_s,
        metrics=metrics,
        backend=backend,
        deficit=deficit,
        useless=useless,
        progress=lambda line: print(line, file=sys.stderr),
    )
    page = _report(result, output) if output is not None else None
    if as_json:
        print_json({**result.to_json(), "report": page})
    else:
        print(describe(result, page, deficit, useless))
    return result.verdict


def _report(result: LiveCheck, output: Path) -> str | None:
    """A page about the worst violation, in the folder of its recordings; its path."""
    if not result.confirmed or result.worst is None or result.worst.trace.path is None:
        return None
    from wastedcores.reports.notebook import report

    made = report(
        str(result.worst.trace.path),
        out=output / "report",
        parameters={"persist": f"{result.persist_ns}ns"},
        progress=False,
    )
    return str(made.html)


def describe(
    result: LiveCheck, page: str | None, deficit: bool = False, useless: bool = False
) -> str:
    """The text that a person reads, under 80 columns."""
    lines = [
        f"this machine: {result.verdict.upper()}",
        "",
        f"  looked         {result.checks:,} times in {result.seconds:.1f} s ({result.backend})",
        f"  suspected      {result.suspected:,}",
        f"  confirmed      {result.confirmed:,} (lasted {human_ns(result.persist_ns)} or more)",
    ]
    if useless:
        lines.append(
            f"  balancing      {result.other.get('moves', 0):,} moves, {result.other.get('useless', 0):,} of them to a "
            "queue at least as loaded"
        )
    if deficit:
        lines.append(f"  run-delay deficits {result.other.get('deficits', 0):,}")
    for v in result.violations[:10]:
        lines.append(
            f"    CPU {v['idle_cpu']} idle beside CPU {v['busy_cpu']} for {v['lasted_ms']} ms and on"
        )
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
