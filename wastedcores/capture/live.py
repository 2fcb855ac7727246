"""The online sanity checker (paper, section 4.1): run it, keep its recordings, and report what it found."""

from __future__ import annotations

import json
import math
import os
import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE
from typing import IO, Any

from wastedcores.capture.backends import Backend, choose, command
from wastedcores.capture.collector import Collector, Terminated, terminable
from wastedcores.capture.record import capture, this_machine
from wastedcores.errors import CollectorError, UsageError
from wastedcores.invariant import CHECK_SCHEMA, CheckResult, check
from wastedcores.trace.io import import_trace

Report = Callable[[str], None]
OnViolation = Callable[[dict[str, Any], Path | None], None]


@dataclass(frozen=True)
class LiveOptions:
    """How the online checker looks.

    Attributes
    ----------
    period_ns, persist_ns
        Look every ``period_ns`` (the paper's S); raise what lasts ``persist_ns`` (the paper's M).
    event_driven
        Notice a violation at its first event instead of at the next look. Only with the BPF backend.
    before_s
        Seconds that the flight recorder keeps before a violation. 0: record only the 20 ms after it, which costs least.
    most_recordings
        Keep at most this many recordings.
    deficit, useless
        The paper's two other checks; their counts appear under ``checker``. Only with the BPF backend.
    metrics
        Serve Prometheus text at ``:PORT`` of the loopback or at ``HOST:PORT``. Only with the BPF backend.

    Raises
    ------
    UsageError
        A duration is out of range.
    """

    period_ns: int = 1_000_000_000
    persist_ns: int = 100_000_000
    event_driven: bool = False
    before_s: float = 2.0
    most_recordings: int = 5
    deficit: bool = False
    useless: bool = False
    metrics: str | None = None

    def __post_init__(self) -> None:
        if self.persist_ns < 1_000_000 or self.period_ns < 1_000_000:
            raise UsageError("S (--period) and M (--persist) must be at least 1 ms.")
        if not 0 <= self.before_s <= 600:
            raise UsageError(f"seconds before a violation {self.before_s:g}: expected 0 to 600.")

    def arguments(self) -> list[str]:
        """Return the options of the collector ``unclaimed.py``."""
        flags = {
            "--event-driven": self.event_driven,
            "--deficit": self.deficit,
            "--useless": self.useless,
        }
        return [
            *("-S", f"{self.period_ns / 1e9:.9f}s", "-M", f"{self.persist_ns / 1e9:.9f}s"),
            *("--before", f"{self.before_s:g}", "--evidence", str(self.most_recordings)),
            *(flag for flag, wanted in flags.items() if wanted),
            *(["--metrics", self.metrics] if self.metrics else []),
        ]


@dataclass
class LiveCheck:
    """What the checker saw on this machine.

    Attributes
    ----------
    options
        How it looked.
    backend
        ``bpf`` (checked in the kernel) or ``tracefs`` (recorded, then checked).
    checks, suspected, confirmed
        Number of looks at the invariant, of those that found a violation, and of violations that lasted M.
    seconds
        How long it looked.
    started_ns
        When it started, on the monotonic clock.
    violations
        One dict per confirmed violation: idle_cpu, busy_cpu, pid, began_ns, confirmed_ns, evidence (path or None).
    other
        Further counts of the BPF backend.
    worst
        The offline check of the worst violation's recording; None if nothing was recorded.
    notes
        Sentences about the recordings that a reader needs.
    """

    options: LiveOptions
    backend: str
    checks: int = 0
    suspected: int = 0
    confirmed: int = 0
    seconds: float = 0.0
    started_ns: int = 0
    violations: list[dict[str, Any]] = field(default_factory=list)
    other: dict[str, Any] = field(default_factory=dict)
    worst: CheckResult | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """``violations`` or ``clean``; ``unknown`` if it never looked, or if the recording cannot be trusted."""
        if self.backend == "tracefs" and self.worst is not None:
            return self.worst.verdict
        if self.confirmed:
            return "violations"
        if not self.checks or (self.worst is not None and self.worst.verdict == "unknown"):
            return "unknown"
        return "clean"

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``check`` gives for the worst violation's recording, with ``checker`` added."""
        out = self.worst.to_json() if self.worst else self._nothing_recorded()
        out["verdict"] = self.verdict
        out["checker"] = {
            "s_ns": self.options.period_ns,
            "m_ns": self.options.persist_ns,
            "checks": self.checks,
            "suspected": self.suspected,
            "confirmed": self.confirmed,
            "backend": self.backend,
            "seconds": self.seconds,
            "violations": self.violations,
            **self.other,
        }
        out["notes"] = [*out.get("notes", []), *self.notes]
        return out

    def _nothing_recorded(self) -> dict[str, Any]:
        return {
            "schema": CHECK_SCHEMA,
            "trace": {
                "format": "live",
                "cpus": os.cpu_count(),
                "events": 0,
                "start_ns": self.started_ns,
                "end_ns": self.started_ns + int(self.seconds * 1e9),
                "lost": 0,
                "silent_cpus": [],
            },
            "persist_ns": self.options.persist_ns,
            "verdict": self.verdict,
            "wall_ns": 0,
            "cpu_ns": 0,
            "thread_ns": 0,
            "episodes": [],
        }


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
    messages: queue.Queue[Any] = queue.Queue()
    threading.Thread(
        target=_read_messages, args=(collector.process.stdout, messages), daemon=True
    ).start()
    recordings: list[Path] = []

    def take() -> None:
        for message, recording in _messages(messages):
            known = len(result.violations)
            raw = _take(result, message, recording, folder, report)
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


def _read_messages(stream: IO[bytes], messages: queue.Queue[Any]) -> None:
    """Put (message, recording) pairs into the queue, and None at the end.

    Each message is a line of JSON, followed by as many bytes as it says. This runs on a thread of its own, so that no
    signal can cut a message in two.
    """
    try:
        while line := stream.readline():
            message = json.loads(line)
            size = int(message["bytes"])
            messages.put((message, stream.read(size) if size else b""))
    except (ValueError, KeyError, TypeError):
        messages.put(CollectorError(f"the collector sent an unexpected line: {line[:80]!r}."))
    messages.put(None)


def _messages(received: queue.Queue[Any]) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield the collector's messages, each with its recording, until it has ended."""
    while True:
        try:
            item = received.get(timeout=0.2)  # a timeout, so that signals are handled
        except queue.Empty:
            continue
        if item is None:
            return
        if isinstance(item, CollectorError):
            raise item
        yield item


def _take(
    result: LiveCheck, message: dict[str, Any], recording: bytes, folder: Path, report: Report
) -> Path | None:
    """Add a message to the result and return the file to which its recording was written."""
    event, raw = message.pop("event"), None
    message.pop("bytes")
    for key in ("checks", "suspected", "confirmed"):
        if key in message:
            setattr(result, key, int(message[key]))
    if event == "violation":
        result.confirmed = max(result.confirmed, int(message["number"]))
        message["evidence"] = None
        if recording:
            raw = folder / f"violation-{message['number']}.wct"
            raw.write_bytes(recording)
            message["evidence"] = str(raw.with_suffix(".parquet"))
        result.violations.append(message)
        report(
            f"VIOLATION {message['number']}: CPU {message['idle_cpu']} was idle for {message['lasted_ms']} ms while "
            f"pid {message['pid']} waited on CPU {message['busy_cpu']}"
        )
    elif event == "progress":
        report(
            f"{result.checks} checks, {result.suspected} suspected, {result.confirmed} confirmed"
        )
    elif event == "ready":
        report("looking")
    elif event == "end":
        result.seconds = float(message["seconds"])
        keys = ["cleared", "recovered", "by_move", "by_fork", "by_exit"]
        keys += ["moves", "useless", "deficits", "truncated"]
        result.other = {k: message[k] for k in keys if k in message}
    elif event == "deficit":
        report(f"run-delay deficit on CPUs {message['cpus']}")
    return raw


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
