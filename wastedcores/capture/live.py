"""The online sanity checker (paper, section 4.1): run it, keep its recordings, and report what it found."""

from __future__ import annotations

import math
import os
import queue
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE
from typing import Any

from wastedcores.capture.backends import Backend, choose, command
from wastedcores.capture.collector import Collector, Terminated, terminable
from wastedcores.capture.live_messages import add_message, messages, read_messages
from wastedcores.capture.live_result import LiveCheck, LiveOptions
from wastedcores.capture.record import capture, this_machine
from wastedcores.errors import UsageError
from wastedcores.invariant import check
from wastedcores.trace.io import import_trace

Report = Callable[[str], None]
OnViolation = Callable[[dict[str, Any], Path | None], None]


def live_check(
    options: LiveOptions = LiveOptions(),
    *,
    seconds: float | None = None,
    output: str | Path | None = None,
    backend: str = "auto",
    progress: Report | None = None,
    on_violation: OnViolation | None = None,
) -> LiveCheck:
    """Check the invariant on this machine as it runs.

    Parameters
    ----------
    options
        How the checker looks.
    seconds
        How long; None: until Ctrl-C or SIGTERM.
    output
        Folder for the recording of each confirmed violation (made if absent); None: keep only the counts.
    backend
        ``auto``, ``bpf`` or ``tracefs``. The tracefs backend records all the time and checks afterwards.
    progress
        Called with a line of text now and then; the line ``looking`` says that the checker has started.
    on_violation
        Called at once with each violation and the file of its recording (None if there is none). Recordings that it deletes
        are not imported. Only with the BPF backend.

    Returns
    -------
    LiveCheck
        What the checker saw.

    Raises
    ------
    CollectorError
        No backend works here, or the collector failed.
    UsageError
        ``seconds`` is not above 0, or the folder cannot be made.
    """
    if seconds is not None and not 0 < seconds < math.inf:
        raise UsageError(f"seconds {seconds}: expected a number above 0.")
    chosen = choose(backend)
    report = progress or (lambda _: None)
    report(f"checking with {chosen.name} ({chosen.why})")
    result = LiveCheck(options, chosen.name, started_ns=time.monotonic_ns())
    with tempfile.TemporaryDirectory(prefix="wastedcores-") as scratch:
        folder = Path(output) if output is not None else Path(scratch)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise UsageError(f"{folder}: {e.strerror}. Choose another folder with -o.") from e
        if chosen.name == "tracefs":
            _record_and_check(result, folder, seconds, report)
        else:
            _check_in_kernel(result, folder, seconds, chosen, report, on_violation)
        if output is None:  # the recordings go away with the scratch folder
            for violation in result.violations:
                violation["evidence"] = None
    return result


def _check_in_kernel(
    result: LiveCheck,
    folder: Path,
    seconds: float | None,
    backend: Backend,
    report: Report,
    on_violation: OnViolation | None,
) -> None:
    duration = [] if seconds is None else ["--seconds", f"{seconds:g}"]
    own = ["--own", str(os.getpid())]
    arguments = ["--framed", "--until-eof", *own, *result.options.arguments(), *duration]
    collector = Collector(command("unclaimed.py", arguments, backend), PIPE)
    assert collector.process.stdout is not None
    assert collector.process.stdin is not None
    received: queue.Queue[Any] = queue.Queue()
    threading.Thread(
        target=read_messages, args=(collector.process.stdout, received), daemon=True
    ).start()
    recordings: list[Path] = []

    def take() -> None:
        for message, recording in messages(received):
            known = len(result.violations)
            raw = add_message(result, message, recording, folder, report)
            recordings.extend([raw] if raw is not None else [])
            if on_violation is not None and len(result.violations) > known:
                on_violation(result.violations[-1], raw)

    try:
        try:
            with terminable():
                take()
        except (KeyboardInterrupt, Terminated):
            report("ending")
            collector.process.stdin.close()
            take()
    finally:
        code = collector.stop()
    if code not in (0, 1):
        raise collector.failure()
    _import_recordings(result, recordings, report)


def _import_recordings(result: LiveCheck, recordings: list[Path], report: Report) -> None:
    """Convert the recordings to Parquet and check each; the worst becomes ``result.worst``."""
    machine, persist_ns = this_machine(), result.options.persist_ns
    for raw in recordings:
        if not raw.exists():
            continue
        trace = import_trace(
            raw,
            raw.with_suffix(".parquet"),
            machine=machine,
            source="recorded here by unclaimed.py (bpf)",
        )
        raw.unlink()
        report(f"{trace.name}: {trace.header.events} events")
        found = check(trace, persist_ns=persist_ns)
        if result.worst is None or found.thread_ns > result.worst.thread_ns:
            result.worst = found
    if result.worst is None or result.worst.verdict != "clean":
        return
    if result.worst.duration_ns < persist_ns:
        result.notes.append(
            "only the moment after a violation was raised was recorded (before 0). It is shorter than M, so no episode "
            "of the recording is persistent"
        )
    else:
        result.notes.append(
            "in the recording, the violation that the checker raised is interrupted by tasks that ran on the idle CPU "
            "for a moment; each of its episodes is shorter than M"
        )


def _record_and_check(
    result: LiveCheck, folder: Path, seconds: float | None, report: Report
) -> None:
    file = folder / "recording.parquet"
    persist_ns = result.options.persist_ns

    def forward(line: str) -> None:
        report("looking" if line == "recording" else line)

    trace = capture(file, seconds=seconds, backend="tracefs", progress=forward)
    found = check(trace, persist_ns=persist_ns)
    persistent = found.episodes.filter(found.episodes["persistent"])
    result.worst = found
    result.checks = 1
    result.suspected = found.episodes.height
    result.confirmed = persistent.height
    result.seconds = found.duration_ns / 1e9
    for row in persistent.head(100).iter_rows(named=True):
        result.violations.append(
            {
                "idle_cpu": row["idle_cpus"][0],
                "busy_cpu": row["overloaded_cpus"][0],
                "began_ns": row["start_ns"],
                "confirmed_ns": row["start_ns"] + persist_ns,
                "lasted_ms": round((row["end_ns"] - row["start_ns"]) / 1e6),
                "evidence": str(file),
            }
        )
