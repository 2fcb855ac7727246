"""The recordings of the online checker: they become traces that know about the machine, and are checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from wastedcores.capture.live_result import LiveCheck
from wastedcores.capture.snapshot import header_facts, take
from wastedcores.capture.system import this_machine, throttled, throttled_since

if TYPE_CHECKING:
    from wastedcores.invariant import CheckResult
    from wastedcores.trace.trace import Trace


class Recordings:
    """The recordings of one live check."""

    def __init__(self, result: LiveCheck, folder: Path, report: Callable[[str], None]) -> None:
        self.result, self.folder, self.report = result, folder, report
        self._of_violations: list[Path] = []
        self._throttled, self._first = throttled(), take()

    def write(self, kind: str, number: int, blob: bytes) -> Path | None:
        """Keep what the collector sent as a file."""
        raw = self.folder / f"{kind}-{number}.wct"
        raw.write_bytes(blob)
        return raw

    def add(self, raw: Path) -> None:
        """Take what the collector recorded. Possible chronic waste is judged at once, violations in :meth:`finish`."""
        if raw.stem.startswith("chronic"):
            self._judge(raw)
        else:
            self._of_violations.append(raw)

    def finish(self) -> None:
        """Check the recordings of violations that still exist; the worst becomes ``result.worst``."""
        for raw in self._of_violations:
            if raw.exists():
                self._keep_the_worse(self._check(self._import(raw)))
        _explain_clean_recording(self.result)

    def _judge(self, raw: Path) -> None:
        """Keep ten recorded slices if the waste in them is chronic, or unknown. The looks that asked for them are samples."""
        trace = self._import(raw)
        found = self._check(trace)
        many = len(self.result.chronic) >= self.result.options.most_recordings
        if found.verdict == "clean" or many:
            raw.with_suffix(".parquet").unlink()
            return
        if found.verdict == "violations" and found.chronic is not None:
            self.result.chronic.append({**found.chronic._asdict(), "evidence": str(trace.path)})
            self.report(
                f"CHRONIC WASTE: five of ten slices waste {found.chronic.share:.1%} or more"
            )
        self._keep_the_worse(found)

    def _import(self, raw: Path) -> Trace:
        from wastedcores.trace.io import import_trace  # a watch that finds nothing needs none of it

        facts = header_facts(self._first, take())
        facts["provenance"] = {"throttled": throttled_since(self._throttled, throttled())}
        trace = import_trace(
            raw,
            raw.with_suffix(".parquet"),
            machine=this_machine(),
            source="recorded here by unclaimed.py (bpf)",
            facts=facts,
        )
        raw.unlink()
        self.report(f"{trace.name}: {trace.header.events} events")
        return trace

    def _check(self, trace: Trace) -> CheckResult:
        from wastedcores.invariant import check

        options = self.result.options
        return check(trace, persist_ns=options.persist_ns, chronic_share=options.chronic_share)

    def _keep_the_worse(self, found: CheckResult) -> None:
        worst = self.result.worst
        if worst is None or (found.verdict == "violations", found.thread_ns) > (
            worst.verdict == "violations",
            worst.thread_ns,
        ):
            self.result.worst = found


def _explain_clean_recording(result: LiveCheck) -> None:
    """Say why the worst recording is clean although a violation was raised."""
    if result.worst is None or result.worst.verdict == "violations":
        return
    if result.worst.duration_ns < result.options.persist_ns:
        result.notes.append(
            "only the moment after a violation was raised was recorded (before 0). It is shorter than M, so no episode "
            "of the recording is persistent"
        )
    elif result.worst.verdict == "clean":
        result.notes.append(
            "in the recording, the violation that the checker raised is interrupted by tasks that ran on the idle CPU "
            "for a moment; each of its episodes is shorter than M"
        )
