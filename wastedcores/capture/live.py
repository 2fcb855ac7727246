"""The online sanity checker (paper, section 4.1): run it, keep its evidence, say what it found."""

from __future__ import annotations

import json
import os
import queue
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE
from typing import IO, Any

from wastedcores.capture.backends import Backend, choose, command
from wastedcores.capture.process import Collector, Ended, terminable
from wastedcores.capture.record import capture, this_machine
from wastedcores.errors import CollectorError, UsageError
from wastedcores.invariant import CHECK_SCHEMA, CheckResult, check
from wastedcores.trace.io import import_trace


@dataclass
class LiveCheck:
    """What the checker saw on this machine.

    Attributes
    ----------
    s_ns, persist_ns
        S and M as used.
    checks, suspected, confirmed
        Looks at the invariant; those that found a violation; violations that lasted M.
    backend
        ``bpf`` (checked in the kernel) or ``tracefs`` (recorded, then checked).
    seconds
        How long it looked.
    violations
        One dict per confirmed violation: idle_cpu, busy_cpu, pid, began_ns, confirmed_ns, evidence (path or None).
    worst
        The offline check of the worst violation's recording; None if nothing was recorded.
    """

    s_ns: int
    persist_ns: int
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
        """``violations`` or ``clean``; ``unknown`` if it never looked, or events were lost."""
        if self.confirmed:
            return "violations"
        if not self.checks or (self.worst is not None and self.worst.verdict == "unknown"):
            return "unknown"
        return "clean"

    def to_json(self) -> dict[str, Any]:
        """The object of ``check``, of the worst violation's recording, with ``checker`` beside it."""
        out = self.worst.to_json() if self.worst else self._nothing_recorded()
        out["verdict"] = self.verdict
        out["checker"] = {
            "s_ns": self.s_ns,
            "m_ns": self.persist_ns,
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
            "persist_ns": self.persist_ns,
            "verdict": self.verdict,
            "wall_ns": 0,
            "cpu_ns": 0,
            "thread_ns": 0,
            "episodes": [],
        }


def live_check(
    *,
    seconds: float | None = None,
    s_ns: int = 1_000_000_000,
    persist_ns: int = 100_000_000,
    event_driven: bool = False,
    output: str | Path | None = None,
    before_s: float = 2.0,
    most_evidence: int = 5,
    deficit: bool = False,
    useless: bool = False,
    metrics: str | None = None,
    backend: str = "auto",
    progress: Callable[[str], None] | None = None,
) -> LiveCheck:
    """Check the invariant on this machine as it runs.

    Parameters
    ----------
    seconds
        How long; None: until Ctrl-C or SIGTERM.
    s_ns, persist_ns
        Look every S; raise what lasts M.
    event_driven
        Notice a violation at its first event instead of within S. BPF only.
    output
        Folder for the recording of each confirmed violation (made if absent); None: only the figures are kept.
    before_s
        Seconds the flight recorder keeps before a violation; 0: record only the 20 ms after, which costs least.
    most_evidence
        Recordings at most.
    deficit, useless
        The paper's two other checks; counts appear under ``checker``. BPF only.
    metrics
        ``:PORT`` or ``HOST:PORT``: Prometheus text there. BPF only.
    backend
        ``auto``, ``bpf`` or ``tracefs``. The tracefs backend records all the time and checks afterwards.

    Raises
    ------
    CollectorError
        Neither backend works here, or the collector failed.
    """
    if persist_ns < 1_000_000 or s_ns < 1_000_000:
        raise UsageError("S and M must be at least 1 ms.")
    if seconds is not None and seconds <= 0:
        raise UsageError(f"seconds {seconds}: expected more than 0.")
    if not 0 <= before_s <= 600:
        raise UsageError(f"seconds before a violation {before_s:g}: expected 0 to 600.")
    chosen = choose(backend)
    say = progress or (lambda _: None)
    say(f"checking with {chosen.name} ({chosen.why})")
    result = LiveCheck(s_ns, persist_ns, chosen.name, started_ns=time.monotonic_ns())
    with tempfile.TemporaryDirectory(prefix="wastedcores-") as scratch:
        folder = Path(output) if output is not None else Path(scratch)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise UsageError(f"{folder}: {e.strerror}. Choose another folder with -o.") from e
        if chosen.name == "tracefs":
            _by_recording(result, folder, seconds, say)
        else:
            options = ["-S", f"{s_ns / 1e9:.9f}s", "-M", f"{persist_ns / 1e9:.9f}s"]
            options += ["--before", f"{before_s:g}", "--evidence", str(most_evidence)]
            options += ["--event-driven"] if event_driven else []
            options += ["--deficit"] if deficit else []
            options += ["--useless"] if useless else []
            options += ["--metrics", metrics] if metrics else []
            _in_kernel(result, folder, seconds, options, chosen, say)
        for violation in result.violations:
            if output is None:
                violation["evidence"] = None
    return result


def _in_kernel(
    result: LiveCheck,
    folder: Path,
    seconds: float | None,
    options: list[str],
    backend: Backend,
    say: Callable[[str], None],
) -> None:
    more = [] if seconds is None else ["--seconds", f"{seconds:g}"]
    arguments = ["--framed", "--until-eof", *options, *more]
    collector = Collector(command("unclaimed.py", arguments, backend), PIPE)
    assert collector.process.stdout is not None
    assert collector.process.stdin is not None
    heard: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=_listen, args=(collector.process.stdout, heard), daemon=True).start()
    raws: list[Path] = []
    try:
        try:
            with terminable():
                _hear(heard, result, folder, raws, say)
        except (KeyboardInterrupt, Ended):
            say("ending")
            collector.process.stdin.close()
            _hear(heard, result, folder, raws, say)
    finally:
        code = collector.stop()
    if code not in (0, 1):
        raise collector.failure()
    _keep(result, raws, say)


def _listen(stream: IO[bytes], heard: queue.Queue[Any]) -> None:
    """JSON lines, each followed by as many bytes as it says; None at the end. On a thread: no signal cuts a message."""
    try:
        while line := stream.readline():
            message = json.loads(line)
            size = int(message["bytes"])
            heard.put((message, stream.read(size) if size else b""))
    except (ValueError, KeyError, TypeError):
        heard.put(CollectorError(f"the collector said something unexpected: {line[:80]!r}"))
    heard.put(None)


def _hear(
    heard: queue.Queue[Any],
    result: LiveCheck,
    folder: Path,
    raws: list[Path],
    say: Callable[[str], None],
) -> None:
    while True:
        try:
            said = heard.get(timeout=0.2)  # wakes up for signals
        except queue.Empty:
            continue
        if said is None:
            return
        if isinstance(said, CollectorError):
            raise said
        message, blob = said
        _take(result, message, blob, folder, raws, say)


def _take(
    result: LiveCheck,
    message: dict[str, Any],
    blob: bytes,
    folder: Path,
    raws: list[Path],
    say: Callable[[str], None],
) -> None:
    event = message.pop("event")
    message.pop("bytes")
    for key in ("checks", "suspected", "confirmed"):
        if key in message:
            setattr(result, key, int(message[key]))
    if event == "violation":
        result.confirmed = max(result.confirmed, int(message["number"]))
        message["evidence"] = None
        if blob:
            raw = folder / f"violation-{message['number']}.wct"
            raw.write_bytes(blob)
            raws.append(raw)
            message["evidence"] = str(raw.with_suffix(".parquet"))
        result.violations.append(message)
        say(
            f"VIOLATION {message['number']}: CPU {message['idle_cpu']} idle for {message['lasted_ms']} ms while "
            f"pid {message['pid']} waits on CPU {message['busy_cpu']}"
        )
    elif event == "progress":
        say(f"{result.checks} checks, {result.suspected} suspected, {result.confirmed} confirmed")
    elif event == "ready":
        say("looking")
    elif event == "end":
        result.seconds = float(message["seconds"])
        keys = ["cleared", "recovered", "by_move", "by_fork", "by_exit"]
        keys += ["moves", "useless", "deficits", "truncated"]
        result.other = {k: message[k] for k in keys if k in message}
    elif event == "deficit":
        say(f"run-delay deficit on CPUs {message['cpus']}")


def _keep(result: LiveCheck, raws: list[Path], say: Callable[[str], None]) -> None:
    """Recordings to Parquet; the worst of them checked."""
    machine = this_machine()
    for raw in raws:
        trace = import_trace(
            raw,
            raw.with_suffix(".parquet"),
            machine=machine,
            source="recorded here by unclaimed.py (bpf)",
        )
        raw.unlink()
        say(f"{trace.name}: {trace.header.events} events")
        found = check(trace, persist_ns=result.persist_ns)
        if result.worst is None or found.thread_ns > result.worst.thread_ns:
            result.worst = found
    if result.worst is None or result.worst.verdict != "clean":
        return
    if result.worst.duration_ns < result.persist_ns:
        result.notes.append(
            "only the moment after a violation was raised was recorded (before 0): shorter than M, so no episode of "
            "the recording is persistent"
        )
    else:
        result.notes.append(
            "the checker's violation is interrupted in the recording by tasks that ran on the idle CPU for a moment; "
            "each of its episodes is shorter than M"
        )


def _by_recording(
    result: LiveCheck, folder: Path, seconds: float | None, say: Callable[[str], None]
) -> None:
    file = folder / "recording.parquet"
    trace = capture(file, seconds=seconds, backend="tracefs", progress=say)
    found = check(trace, persist_ns=result.persist_ns)
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
                "confirmed_ns": row["start_ns"] + result.persist_ns,
                "lasted_ms": round((row["end_ns"] - row["start_ns"]) / 1e6),
                "evidence": str(file),
            }
        )
